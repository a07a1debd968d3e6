//! Rules on the words of pages and comments: the length of a sentence, and the words that it avoids.
//!
//! Text from before these rules keeps its breaches for a while: [`LIST`] has their number for each place. A number only
//! falls: a place with more breaches than listed is refused, and so is a number that is too high. `cargo xtask words`
//! lowers the numbers to those found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::problem::Problem;
use super::prose::{Word, comments, sentences};
use crate::tree::Tree;

/// Words of a sentence on a page, at most.
const WORDS_MAX: usize = 40;

/// Words of a sentence that most sentences keep to.
const WORDS_GOAL: usize = 25;

/// Words and phrases that hide the actor or the object, each with words to use in their place.
const AVOIDED: &[(&str, &str)] = &[
    ("told", "reported, recorded, distinguished"),
    ("came", "arrived, was received, was sent"),
    ("nobody", "no program, no process, no user"),
    ("beside", "next to, with, other than"),
    ("is none", "does not exist, is not one"),
    ("are none", "do not exist"),
    ("for good", "for ever, finally"),
    ("by turns", "alternately"),
    ("in one piece", "whole"),
    ("on its way", "in flight, in transit"),
    ("on their way", "in flight, in transit"),
    ("which of them", "the noun"),
    ("lost record", "missed record"),
    ("lost records", "missed records"),
    ("records lost", "records missed"),
    ("time lost", "cost"),
    ("lost time", "cost"),
    ("lost packet", "dropped packet"),
    ("lost packets", "dropped packets"),
    ("packets lost", "packets dropped"),
    ("lost bytes", "retransmitted bytes"),
    ("bytes lost", "bytes retransmitted"),
];

/// The places that do not hold a rule yet: lines of a rule's name, a place and its number of breaches.
pub const LIST: &str = "xtask/words.txt";

/// The breaches of each rule, by place.
type Breaches = BTreeMap<(&'static str, String), Vec<Problem>>;

/// No place has more breaches than [`LIST`] allows, and the list has no higher number than it needs.
pub fn plain_words(tree: &Tree) -> Vec<Problem> {
    let found = breaches(tree);
    let listed = listed(tree);
    let places: BTreeSet<(&str, &str)> = found
        .keys()
        .map(|(rule, place)| (*rule, place.as_str()))
        .chain(listed.keys().copied())
        .collect();
    let mut problems = Vec::new();
    for (rule, place) in places {
        let of_place = found.iter().find(|((name, at), _)| *name == rule && at == place);
        let of_place = of_place.map_or(&[][..], |(_, problems)| problems);
        let count = of_place.len();
        let allowed = listed.get(&(rule, place)).copied().unwrap_or(0);
        if count < allowed {
            let text =
                format!("`{rule} {place}` has {count}, not {allowed}: run `cargo xtask words`");
            problems.push(Problem::file(LIST, text));
        } else if count > allowed {
            if allowed > 0 {
                let text = format!("`{rule} {place}` has {count}, {allowed} at most; all of them:");
                problems.push(Problem::file(LIST, text));
            }
            problems.extend(of_place.iter().cloned());
        }
    }
    problems
}

/// The text of [`LIST`] with each number lowered to the breaches found, and places without a breach left out.
pub fn lowered(tree: &Tree) -> String {
    let found = breaches(tree);
    let mut text = String::new();
    for line in tree.file(LIST).map_or("", |file| file.text.as_str()).lines() {
        let Some((rule, place, allowed)) = entry(line) else {
            text.extend([line, "\n"]);
            continue;
        };
        let of_place = found.iter().find(|((name, at), _)| *name == rule && at == place);
        let count = of_place.map_or(0, |(_, problems)| problems.len()).min(allowed);
        if count > 0 {
            let _ = writeln!(text, "{rule} {place} {count}");
        }
    }
    text
}

fn listed(tree: &Tree) -> BTreeMap<(&str, &str), usize> {
    let lines = tree.file(LIST).map_or("", |file| file.text.as_str()).lines();
    lines.filter_map(entry).map(|(rule, place, count)| ((rule, place), count)).collect()
}

/// A line `rule place count`; others are comments.
fn entry(line: &str) -> Option<(&str, &str, usize)> {
    let [rule, place, count] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
    Some((rule, place, count.parse().ok()?))
}

fn breaches(tree: &Tree) -> Breaches {
    let mut found = Breaches::new();
    let mut add = |rule, place: &str, problem| {
        found.entry((rule, place.to_owned())).or_default().push(problem);
    };
    for file in &tree.files {
        if file.path.ends_with(".md") {
            for sentence in sentences(&file.text) {
                for problem in avoided(&file.path, &sentence) {
                    add("avoided", &file.path, problem);
                }
                let count = sentence.iter().filter(|word| word.counts()).count();
                if count > WORDS_GOAL {
                    let rule = if count > WORDS_MAX { "over-40" } else { "over-25" };
                    let text = format!("a sentence of {count} words: {WORDS_GOAL} are many");
                    add(rule, &file.path, Problem::at(&file.path, sentence[0].line, text));
                }
            }
        } else if file.path.ends_with(".rs")
            || file.path.ends_with(".c")
            || file.path.ends_with(".h")
        {
            for comment in comments(&file.text) {
                for problem in avoided(&file.path, &comment) {
                    add("avoided", package(&file.path), problem);
                }
            }
        }
    }
    found
}

/// The folder of the crate or workspace to which a source file belongs.
fn package(path: &str) -> &str {
    let names = if path.starts_with("crates/") { 2 } else { 1 };
    let end = path.match_indices('/').nth(names - 1).map_or(path.len(), |(at, _)| at);
    &path[..end]
}

/// Each place at which these words have one of [`AVOIDED`].
fn avoided(path: &str, words: &[Word]) -> Vec<Problem> {
    let plain: Vec<String> = words.iter().map(Word::plain).collect();
    let mut problems = Vec::new();
    for (phrase, instead) in AVOIDED {
        let phrase: Vec<&str> = phrase.split(' ').collect();
        for (at, window) in plain.windows(phrase.len()).enumerate() {
            if window.iter().zip(&phrase).all(|(word, expected)| word == expected) {
                let text = format!("`{}`: say {instead}", phrase.join(" "));
                problems.push(Problem::at(path, words[at].line, text));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        plain_words(&Tree::of(files)).iter().map(Problem::to_string).collect()
    }

    /// A sentence of so many words.
    fn sentence(words: usize) -> String {
        format!("{}end.", "word ".repeat(words - 1))
    }

    #[test]
    fn a_sentence_of_25_words_passes_and_a_longer_one_is_refused() {
        assert_eq!(problems(&[("a.md", &sentence(25))]), [""; 0]);
        let expected = "a.md:3: a sentence of 26 words: 25 are many";
        assert_eq!(problems(&[("a.md", &format!("A.\n\n{}", sentence(26)))]), [expected]);
    }

    #[test]
    fn two_sentences_a_dash_and_a_code_span_are_counted_as_read() {
        let text = format!("{} W {} `a b c` – d.", sentence(25), "word ".repeat(22));
        assert_eq!(problems(&[("a.md", &text)]), [""; 0]);
        assert_eq!(problems(&[("a.md", &text.replace(" – ", " e "))]).len(), 1);
    }

    #[test]
    fn an_avoided_word_is_refused_on_pages_and_in_comments() {
        let expected = ["a.md:2: `came`: say arrived, was received, was sent"];
        assert_eq!(problems(&[("a.md", "Data\nCame, then.")]), expected);
        let code = [("crates/a/src/b.rs", "/// A packet\n/// on its\n/// way.\nfn a() {}")];
        let expected = ["crates/a/src/b.rs:2: `on its way`: say in flight, in transit"];
        assert_eq!(problems(&code), expected);
        assert_eq!(problems(&[("a.c", "/* Records lost. */")]).len(), 1);
    }

    #[test]
    fn names_in_code_became_and_other_files_are_not_words_to_avoid() {
        let files = [
            ("a.md", "It became `told`; a lost record's.\n\n```text\nnobody\n```\n"),
            ("a.rs", "// `came`\nlet told = \"nobody\";\n"),
            ("a.toml", "# nobody"),
        ];
        assert_eq!(problems(&files), [""; 0]);
    }

    const PAGE: (&str, &str) = ("a.md", "It came.\n\nIt came twice.\n");

    #[test]
    fn a_listed_place_keeps_its_number() {
        assert_eq!(problems(&[PAGE, (LIST, "# Why.\navoided a.md 2\n")]), [""; 0]);
        let more = problems(&[PAGE, (LIST, "avoided a.md 1\n")]);
        assert_eq!(more[0], format!("{LIST}: `avoided a.md` has 2, 1 at most; all of them:"));
        assert_eq!(more.len(), 3);
        let fewer = format!("{LIST}: `avoided a.md` has 2, not 3: run `cargo xtask words`");
        assert_eq!(problems(&[PAGE, (LIST, "avoided a.md 3\n")]), [fewer]);
        let gone = format!("{LIST}: `over-40 b.md` has 0, not 1: run `cargo xtask words`");
        assert_eq!(problems(&[(LIST, "over-40 b.md 1\n")]), [gone]);
    }

    #[test]
    fn a_number_is_lowered_and_never_raised() {
        let list = "# Why.\navoided a.md 3\nover-40 b.md 1\n";
        assert_eq!(lowered(&Tree::of(&[PAGE, (LIST, list)])), "# Why.\navoided a.md 2\n");
        let low = "avoided a.md 1\n";
        assert_eq!(lowered(&Tree::of(&[PAGE, (LIST, low)])), low);
    }

    #[test]
    fn a_source_belongs_to_its_crate_or_its_first_folder() {
        assert_eq!(package("crates/a/src/b.rs"), "crates/a");
        assert_eq!(package("fuzz/fuzz_targets/a.rs"), "fuzz");
        assert_eq!(package("a.rs"), "a.rs");
    }
}
