//! `docs/fidelity.md` against what the checks say: every claim that differs has its paragraph, the
//! counts are those of today, and every run that it names can be made.
//!
//! What the checks say is in `tests/tables/`, which another test holds true.

use std::collections::BTreeSet;
use std::path::Path;

use sockscope_experiment::builtin_by_id;

fn text(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(file)).unwrap()
}

fn fidelity() -> String {
    text("docs/fidelity.md")
}

/// Ids of the claims of a paper with this verdict.
fn with_verdict(paper: &str, verdict: &str) -> Vec<String> {
    let outcome = text(&format!("crates/claims/tests/tables/claims-{paper}.txt"));
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let id = (words.next()? == verdict).then(|| words.next())??;
        id.starts_with(paper).then(|| id.to_owned())
    };
    outcome.lines().filter_map(of_line).collect()
}

const PAPERS: [&str; 4] = ["bsd-buffers", "layering", "sunos-ipc", "protocol-choice"];

/// Whole ids of the claims that stand in bold: a short one is of the paper of the whole one before it.
fn in_bold(text: &str) -> BTreeSet<String> {
    let (mut ids, mut paper) = (BTreeSet::new(), "");
    for words in text.split("**").skip(1).step_by(2) {
        match words.split_once('/') {
            Some((named, _)) if PAPERS.contains(&named) => {
                paper = named;
                ids.insert(words.to_owned());
            }
            _ => {
                ids.insert(format!("{paper}/{words}"));
            }
        }
    }
    ids
}

#[test]
fn a_short_id_is_of_the_paper_before_it() {
    let ids = in_bold("**layering/T3-c**, **T6-b** and **sunos-ipc/5-a**: **5-c**.");
    let whole = ["layering/T3-c", "layering/T6-b", "sunos-ipc/5-a", "sunos-ipc/5-c"];
    assert_eq!(ids, whole.map(str::to_owned).into());
}

#[test]
fn what_differs_is_explained() {
    let fidelity = fidelity();
    let (_, text) = fidelity.split_once("\n## What differs\n").unwrap();
    let explained = in_bold(text);
    for id in PAPERS.into_iter().flat_map(|paper| with_verdict(paper, "differs")) {
        assert!(explained.contains(&id), "{id} has no paragraph");
    }
}

/// A paragraph that opens with a claim's whole id says why it differs. (Of the thesis some are on claims
/// whose agreement is weak.)
#[test]
fn what_is_explained_differs() {
    for line in fidelity().lines().filter(|line| line.starts_with("**")) {
        let id = line.trim_start_matches('*').split("**").next().unwrap();
        let Some((paper, _)) = id.split_once('/') else { continue };
        if paper == "protocol-choice" {
            continue;
        }
        assert!(with_verdict(paper, "differs").contains(&id.to_owned()), "{id} does not differ");
    }
}

/// Whether `text` has these words, and no digit follows them.
fn says(text: &str, words: &str) -> bool {
    let mut after = text.match_indices(words).map(|(at, _)| &text[at + words.len()..]);
    after.any(|after| !after.starts_with(|next: char| next.is_ascii_digit()))
}

#[test]
fn a_count_is_no_beginning_of_another() {
    assert!(says("19 and 1, and one more", "19 and 1"));
    assert!(!says("19 and 12", "19 and 1"));
}

#[test]
fn the_counts_are_those_of_today() {
    let fidelity = fidelity();
    let [buffers, layering, sunos, choice] = PAPERS
        .map(|paper| ["reproduced", "differs"].map(|verdict| with_verdict(paper, verdict).len()));
    for words in [
        format!(
            "`lab check --paper bsd-buffers` has {} claims reproduced and {} that differ",
            buffers[0], buffers[1]
        ),
        format!("`--paper layering` {} and {}", layering[0], layering[1]),
        format!(
            "`lab check --paper sunos-ipc` has {} claims reproduced, {} that differ",
            sunos[0], sunos[1]
        ),
        format!(
            "`lab check --paper protocol-choice` has {} claims: {} reproduced, {} that differ",
            choice[0] + choice[1],
            choice[0],
            choice[1]
        ),
    ] {
        assert!(says(&fidelity, &words), "docs/fidelity.md does not say: {words}");
    }
}

/// The row of a paper in the table of evidence: claims reproduced of those checked, by kind.
fn evidence_row(paper: &str) -> String {
    let outcome = text(&format!("crates/claims/tests/tables/claims-{paper}.txt"));
    let is_row = |line: &&str| line.trim_start().starts_with(&format!("{paper} "));
    let row = outcome.lines().find(is_row).unwrap_or_else(|| panic!("{paper}"));
    let numbers: Vec<&str> = row.split_whitespace().skip(1).filter(|word| *word != "of").collect();
    let cells: Vec<_> =
        numbers.chunks(2).map(|pair| format!("{} of {}", pair[0], pair[1])).collect();
    format!("| {paper} | {} |", cells.join(" | "))
}

#[test]
fn the_table_of_evidence_is_that_of_today() {
    let fidelity = fidelity();
    for paper in PAPERS {
        let row = evidence_row(paper);
        assert!(fidelity.lines().any(|line| line == row), "docs/fidelity.md does not say: {row}");
    }
}

/// The row of a paper in the table of predictions, from the line of the check.
fn predictions_row(paper: &str) -> String {
    let outcome = text(&format!("crates/claims/tests/tables/claims-{paper}.txt"));
    let line = outcome.lines().find(|line| line.contains("missing for 90 %"));
    let line = line.unwrap_or_else(|| panic!("{paper}"));
    let is_number = |word: &&str| word.chars().all(|char| char.is_ascii_digit());
    let words = line.split([' ', ',', ';']).filter(|word| !word.is_empty());
    let numbers: Vec<&str> = words.filter(is_number).collect();
    let [reproduced, of, _percent, _ninety, missing, explained] = numbers[..] else {
        panic!("{line}")
    };
    format!("| {paper} | {reproduced} of {of} | {missing} | {explained} |")
}

#[test]
fn the_table_of_predictions_is_that_of_today() {
    let fidelity = fidelity();
    for paper in PAPERS {
        let row = predictions_row(paper);
        assert!(fidelity.lines().any(|line| line == row), "docs/fidelity.md does not say: {row}");
    }
}

/// Commands that run an experiment, as their words from `lab` on: those in the text, which may go on in
/// another line, and the lines of fenced blocks.
fn runs(text: &str) -> Vec<Vec<&str>> {
    let (mut runs, mut is_fenced) = (Vec::new(), false);
    for part in text.split("```") {
        let commands: Vec<_> = match is_fenced {
            true => part.lines().collect(),
            false => part.split('`').skip(1).step_by(2).collect(),
        };
        runs.extend(commands.into_iter().filter_map(run_of));
        is_fenced = !is_fenced;
    }
    runs
}

fn run_of(command: &str) -> Option<Vec<&str>> {
    let mut words: Vec<_> = command.split_whitespace().collect();
    if words.first() == Some(&"sockscope") {
        words.remove(0);
    }
    words.starts_with(&["lab", "run"]).then_some(words)
}

#[test]
fn runs_are_found_in_text_and_in_blocks() {
    let text = "by `lab\nrun a --set b=1`, `c` or `lab run\nd`:\n```\nx > y\nsockscope lab run e\n```\n`lab run f`";
    let found: Vec<_> = runs(text).into_iter().map(|words| words[2..].join(" ")).collect();
    assert_eq!(found, ["a --set b=1", "d", "e", "f"]);
}

#[test]
fn every_run_that_is_named_can_be_made() {
    let fidelity = fidelity();
    let runs = runs(&fidelity);
    for words in &runs {
        let command = words.join(" ");
        let mut experiment = builtin_by_id(words[2]).unwrap_or_else(|_| panic!("{command}"));
        let changes: Vec<_> =
            words.windows(2).filter(|pair| pair[0] == "--set").map(|pair| pair[1]).collect();
        experiment.set_all(&changes).unwrap_or_else(|error| panic!("{command}: {error}"));
    }
    assert!(runs.len() > 20, "{}", runs.len());
}
