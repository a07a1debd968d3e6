//! Rules on documents.

use super::problem::Problem;
use crate::levels;
use crate::tree::Tree;

/// Where the ids of findings are declared.
const FINDING_IDS: &str = "crates/analysis/src/result.rs";

/// The sections of a page about a finding, in this order.
const FINDING_SECTIONS: [&str; 5] = ["Symptom", "Evidence", "Cause", "Fix", "Test it"];

/// Kinds of change that a changelog section may hold (keepachangelog.com 1.1.0).
const CHANGES: [&str; 6] = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];

/// CHANGELOG.md: `Unreleased` first, then releases with their dates, newest first.
pub fn changelog(tree: &Tree) -> Vec<Problem> {
    const PATH: &str = "CHANGELOG.md";
    let Some(file) = tree.file(PATH) else {
        return vec![Problem::file(PATH, "missing")];
    };
    let mut problems = Vec::new();
    let mut newest_date = "9999-12-31";
    let mut sections = 0;
    for (line, number) in file.text.lines().zip(1..) {
        let mut refuse = |text: &str| problems.push(Problem::at(PATH, number, text));
        if number == 1 && line != "# Changelog" {
            refuse("the first line is `# Changelog`");
        } else if let Some(title) = line.strip_prefix("## ") {
            sections += 1;
            if (title == "[Unreleased]") != (sections == 1) {
                refuse("`## [Unreleased]` comes first, and once");
            } else if sections > 1 {
                match release_date(title) {
                    Some(date) if date <= newest_date => newest_date = date,
                    Some(_) => refuse("releases stand newest first"),
                    None => refuse("expected `## [1.2.3] - 2026-01-31`"),
                }
            }
        } else if let Some(title) = line.strip_prefix("### ") {
            if !CHANGES.contains(&title) {
                refuse(&format!("expected one of {}", CHANGES.join(", ")));
            }
        } else if line.starts_with(['*', '+']) {
            refuse("entries begin with `- `");
        }
    }
    if sections == 0 {
        problems.push(Problem::file(PATH, "expected a section `## [Unreleased]`"));
    }
    problems
}

/// The date of `[1.2.3] - 2026-01-31`.
fn release_date(title: &str) -> Option<&str> {
    let (version, date) = title.strip_prefix('[')?.split_once("] - ")?;
    let numbers: Vec<&str> = version.split('.').collect();
    let is_version = numbers.len() == 3 && numbers.iter().all(|part| part.parse::<u32>().is_ok());
    (is_version && is_date(date)).then_some(date)
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([4, 2, 2])
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Each finding's id has its page with all its sections, and each page its finding.
pub fn finding_pages(tree: &Tree) -> Vec<Problem> {
    let ids = finding_ids(tree);
    let mut problems = Vec::new();
    for id in &ids {
        let path = format!("docs/findings/{id}.md");
        if tree.file(&path).is_none() {
            problems.push(Problem::file(FINDING_IDS, format!("`{id}` has no page: write {path}")));
        }
    }
    for file in tree.ending(".md") {
        let page =
            file.path.strip_prefix("docs/findings/").and_then(|name| name.strip_suffix(".md"));
        let Some(page) = page.filter(|page| *page != "README") else { continue };
        if !ids.iter().any(|id| id == page) {
            problems.push(Problem::file(&file.path, "no finding has this id"));
        }
        let titles: Vec<&str> =
            file.text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        if !titles.starts_with(&FINDING_SECTIONS) {
            let text = format!("expected the sections {}", FINDING_SECTIONS.join(", "));
            problems.push(Problem::file(&file.path, text));
        }
    }
    problems
}

/// The ids that `FindingId::name` gives, by the rows of its `named!`, in the order of the source.
fn finding_ids(tree: &Tree) -> Vec<String> {
    let source = tree.file(FINDING_IDS).map_or("", |file| file.text.as_str());
    let declared = source.split_once("named! {\n    FindingId {").map_or("", |(_, rest)| rest);
    let declared = declared.split("\n}").next().unwrap_or("");
    let arms = declared.lines().filter_map(|line| line.split_once(" => \""));
    arms.filter_map(|(_, rest)| Some(rest.split_once('"')?.0.to_owned())).collect()
}

/// The code map of ARCHITECTURE.md names every crate that exists, as `crates/record`.
pub fn crates_mentioned(tree: &Tree) -> Vec<Problem> {
    const PATH: &str = "ARCHITECTURE.md";
    let text = tree.file(PATH).map_or("", |file| file.text.as_str());
    let crates = tree.crates().into_iter();
    crates
        .filter(|name| !text.contains(&format!("`crates/{name}`")))
        .map(|name| Problem::file(PATH, format!("the code map does not have `crates/{name}`")))
        .collect()
}

/// ARCHITECTURE.md holds the level table as it is enforced.
pub fn level_table(tree: &Tree) -> Vec<Problem> {
    const PATH: &str = "ARCHITECTURE.md";
    let expected = levels::markdown(&tree.crates());
    let text = tree.file(PATH).map_or("", |file| file.text.as_str());
    let missing = expected.lines().find(|row| !text.lines().any(|line| line == *row));
    let problem = missing.map(|row| {
        let text = format!("`cargo xtask levels` prints a row that is not here: {row}");
        Problem::file(PATH, text)
    });
    problem.into_iter().collect()
}

/// A decision's file begins with its date, as `2026-11-21-record-lists.md`.
pub fn decision_names(tree: &Tree) -> Vec<Problem> {
    let decisions = tree.files.iter().filter(|file| {
        let name = file.path.strip_prefix("docs/decisions/");
        name.is_some_and(|name| {
            let dated = name.get(..10).is_some_and(is_date) && name.get(10..11) == Some("-");
            name != "README.md" && !(dated && name.ends_with(".md"))
        })
    });
    decisions
        .map(|file| Problem::file(&file.path, "a decision is named `YYYY-MM-DD-what.md`"))
        .collect()
}

/// Columns of a line of Markdown, at most.
const COLUMNS_MAX: usize = 119;

/// Lines of Markdown end before column 120. A row of a table cannot be broken, a line of code shows the
/// output of a program, and a single word, as an address, has no place to break: these may be longer.
pub fn width(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.ending(".md") {
        let mut is_code = false;
        for (line, number) in file.text.lines().zip(1..) {
            let text = line.trim_start();
            is_code ^= text.starts_with("```");
            let columns = line.chars().count();
            let can_break = !is_code && !text.starts_with('|') && text.contains(' ');
            if columns > COLUMNS_MAX && can_break {
                let text = format!("{columns} columns: expected {COLUMNS_MAX} at most");
                problems.push(Problem::at(&file.path, number, text));
            }
        }
    }
    problems
}

/// Words of README.md, at most: its links lead to more.
const README_WORDS_MAX: usize = 999;

/// README.md stays short.
pub fn readme_words(tree: &Tree) -> Vec<Problem> {
    const PATH: &str = "README.md";
    let words = tree.file(PATH).map_or(0, |file| file.text.split_whitespace().count());
    let text = format!("{words} words: expected {README_WORDS_MAX} at most");
    (words > README_WORDS_MAX).then(|| Problem::file(PATH, text)).into_iter().collect()
}

/// A link to a file of the checkout leads to one.
pub fn links(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.ending(".md") {
        for (line, number) in file.text.lines().zip(1..) {
            for target in line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0))
            {
                if !leads_somewhere(tree, &file.path, target) {
                    let text = format!("the link to `{target}` leads nowhere");
                    problems.push(Problem::at(&file.path, number, text));
                }
            }
        }
    }
    problems
}

fn leads_somewhere(tree: &Tree, from: &str, target: &str) -> bool {
    let path = target.split('#').next().unwrap_or(target);
    if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
        return true;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    let folder = format!("{path}/");
    tree.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_119_columns_passes_and_a_longer_one_is_refused() {
        let of = |line: &str| width(&Tree::of(&[("a.md", line)])).len();
        // Columns, not octets.
        let line = format!("{} {}", "é".repeat(59), "x".repeat(59));
        assert_eq!((of(&line), of(&format!("{line}x"))), (0, 1));
    }

    #[test]
    fn tables_code_and_single_words_may_be_longer() {
        let long = format!("{} {}", "x".repeat(60), "y".repeat(60));
        let text = format!("| {long} |\n\n```text\n{long}\n```\n\nhttps://{}\n", "z".repeat(120));
        assert_eq!(width(&Tree::of(&[("a.md", &text)])), []);
        let problems = width(&Tree::of(&[("a.md", &format!("{text}\n{long}\n"))]));
        let expected = Problem::at("a.md", 9, "121 columns: expected 119 at most");
        assert_eq!(problems, [expected]);
    }

    #[test]
    fn a_readme_of_999_words_passes_and_a_longer_one_is_refused() {
        let of = |words: usize| readme_words(&Tree::of(&[("README.md", &"word\n".repeat(words))]));
        assert_eq!(of(999), []);
        let expected = Problem::file("README.md", "1000 words: expected 999 at most");
        assert_eq!(of(1000), [expected]);
    }

    fn changelog_problems(text: &str) -> Vec<String> {
        let problems = changelog(&Tree::of(&[("CHANGELOG.md", text)]));
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_changelog_in_form_passes() {
        let text = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A.\n\n## [0.2.0] - 2027-01-31\n\
                    ### Fixed\n- B.\n## [0.1.0] - 2026-12-01\n";
        assert_eq!(changelog_problems(text), Vec::<String>::new());
    }

    #[test]
    fn a_changelog_out_of_form_is_refused_line_by_line() {
        let text = "# Changes\n## [0.1.0] - 2026-12-01\n## [0.2] - 2027-01-31\n### News\n* A.\n";
        assert_eq!(
            changelog_problems(text),
            [
                "CHANGELOG.md:1: the first line is `# Changelog`",
                "CHANGELOG.md:2: `## [Unreleased]` comes first, and once",
                "CHANGELOG.md:3: expected `## [1.2.3] - 2026-01-31`",
                "CHANGELOG.md:4: expected one of Added, Changed, Deprecated, Removed, Fixed, Security",
                "CHANGELOG.md:5: entries begin with `- `",
            ]
        );
    }

    #[test]
    fn an_older_release_above_a_newer_one_is_refused() {
        let text =
            "# Changelog\n## [Unreleased]\n## [0.1.0] - 2026-12-01\n## [0.2.0] - 2027-01-31\n";
        assert_eq!(changelog_problems(text), ["CHANGELOG.md:4: releases stand newest first"]);
    }

    const IDS: &str = "named! {\n    FindingId {\n        SlowReader => \"slow-reader\",\n    }\n}\n\
                       named! {\n    Other {\n        A => \"a\",\n    }\n}";

    const PAGE: &str = "# a\n## Symptom\n## Evidence\n## Cause\n## Fix\n## Test it\n## Limits\n";

    #[test]
    fn a_finding_without_a_page_is_refused() {
        let problems = finding_pages(&Tree::of(&[(FINDING_IDS, IDS)]));
        assert_eq!(
            problems[0].text,
            "`slow-reader` has no page: write docs/findings/slow-reader.md"
        );
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn a_finding_with_a_page_passes_and_a_page_without_a_finding_does_not() {
        let page = ("docs/findings/slow-reader.md", PAGE);
        assert!(finding_pages(&Tree::of(&[(FINDING_IDS, IDS), page])).is_empty());
        let stray = ("docs/findings/fast-reader.md", PAGE);
        assert_eq!(finding_pages(&Tree::of(&[(FINDING_IDS, IDS), page, stray])).len(), 1);
    }

    #[test]
    fn a_page_has_all_its_sections() {
        let short = PAGE.replace("## Fix\n", "");
        let page = ("docs/findings/slow-reader.md", short.as_str());
        let problems = finding_pages(&Tree::of(&[(FINDING_IDS, IDS), page]));
        assert_eq!(
            problems[0].text,
            "expected the sections Symptom, Evidence, Cause, Fix, Test it"
        );
    }

    #[test]
    fn the_code_map_names_every_crate() {
        let of = |map: &str| {
            let files = [("crates/record/Cargo.toml", ""), ("ARCHITECTURE.md", map)];
            crates_mentioned(&Tree::of(&files))
        };
        assert_eq!(of("**`crates/record`.** What one observation is."), []);
        // A row of the level table is not an entry of the map.
        let text = "the code map does not have `crates/record`";
        assert_eq!(of("| 0 | `record` |"), [Problem::file("ARCHITECTURE.md", text)]);
    }

    #[test]
    fn the_level_table_is_compared_row_by_row() {
        let table = levels::markdown(&[]);
        assert!(level_table(&Tree::of(&[("ARCHITECTURE.md", &table)])).is_empty());
        let first_code = [("ARCHITECTURE.md", table.as_str()), ("crates/record/Cargo.toml", "")];
        let problems = level_table(&Tree::of(&first_code));
        assert!(problems[0].text.contains("| 0 | `record` | "), "{}", problems[0]);
    }

    #[test]
    fn a_decision_carries_its_date() {
        let name = |name: &str| {
            decision_names(&Tree::of(&[(&format!("docs/decisions/{name}"), "")])).len()
        };
        assert_eq!(name("2026-11-21-record-lists.md"), 0);
        assert_eq!(name("README.md"), 0);
        assert_eq!(name("record-lists.md"), 1);
        assert_eq!(name("2026-11-record-lists.md"), 1);
    }

    #[test]
    fn a_link_leads_to_a_file_or_a_folder() {
        let text = "[a](../b.md#part) [b](c/) [c](https://example.org/x) [d](#here)\n[e](gone.md)";
        let files = [("docs/a.md", text), ("b.md", ""), ("docs/c/d.md", "")];
        let problems = links(&Tree::of(&files));
        assert_eq!(problems, [Problem::at("docs/a.md", 2, "the link to `gone.md` leads nowhere")]);
    }
}
