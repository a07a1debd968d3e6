//! `docs/fidelity.md` against what the checks say: every claim that differs has its paragraph, the
//! counts are those of today, and every run that it names can be made.
//!
//! What the checks say is in `tests/tables/`, which another test holds true.

use std::path::Path;

use sockscope_lab::experiment::carried_by_id;

fn text(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(file)).unwrap()
}

fn fidelity() -> String {
    text("docs/fidelity.md")
}

/// Ids of the claims of a paper with this verdict.
fn with_verdict(paper: &str, verdict: &str) -> Vec<String> {
    let outcome = text(&format!("crates/lab/tests/tables/claims-{paper}.txt"));
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let id = (words.next()? == verdict).then(|| words.next())??;
        id.starts_with(paper).then(|| id.to_owned())
    };
    outcome.lines().filter_map(of_line).collect()
}

const PAPERS: [&str; 4] = ["bsd-buffers", "layering", "sunos-ipc", "protocol-choice"];

#[test]
fn what_differs_is_explained() {
    let fidelity = fidelity();
    for paper in PAPERS {
        for id in with_verdict(paper, "differs") {
            let (_, short) = id.split_once('/').unwrap();
            let names = [format!("**{id}**"), format!("**{short}**")];
            assert!(names.iter().any(|name| fidelity.contains(name)), "{id} has no paragraph");
        }
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
        assert!(fidelity.contains(&words), "docs/fidelity.md does not say: {words}");
    }
}

#[test]
fn every_run_that_is_named_can_be_made() {
    let fidelity = fidelity();
    let mut runs = 0;
    for command in fidelity.split('`').filter(|words| words.starts_with("lab run ")) {
        let words: Vec<_> = command.split_whitespace().collect();
        let mut experiment = carried_by_id(words[2]).unwrap_or_else(|_| panic!("{command}"));
        let changes: Vec<_> =
            words.windows(2).filter(|pair| pair[0] == "--set").map(|pair| pair[1]).collect();
        experiment.set_all(&changes).unwrap_or_else(|error| panic!("{command}: {error}"));
        runs += 1;
    }
    assert!(runs > 20, "{runs}");
}
