//! The first lines of a text report, and the line on which the answer stands.

use std::cell::Cell;
use std::path::Path;

use crate::bundle::{sockscope, stdout_of};

/// An answer stands on one of so many lines.
const LINES: usize = 12;

/// A report as a terminal of 80 columns shows it.
pub struct Answer {
    whole: String,
    all: usize,
    first: Vec<String>,
    last_line: Cell<usize>,
}

impl Answer {
    /// The report of a bundle.
    pub fn of(dir: &Path) -> Self {
        let mut report = sockscope();
        report.arg("report").arg(dir).env("COLUMNS", "80").env("NO_COLOR", "1");
        Self::from_text(&stdout_of(&report.output().expect("it was built")))
    }

    /// Any other text for the reader, as that of `lab`.
    pub fn from_text(text: &str) -> Self {
        let mut lines = text.lines().map(|line| line.trim_end().to_owned());
        let first: Vec<String> = lines.by_ref().take(LINES).collect();
        let all = first.len() + lines.count();
        Self { whole: text.to_owned(), all, first, last_line: Cell::new(0) }
    }

    /// Lines of the whole text.
    pub fn lines(&self) -> usize {
        self.all
    }

    /// The line on which the last part of the answer stands, of those that were asked for.
    pub fn last_line(&self) -> usize {
        self.last_line.get()
    }

    /// Each of these is in the first lines; a line break between two words does not matter.
    pub fn says(&self, wanted: &[&str]) {
        for words in wanted {
            let Some(line) = self.line_of(words) else {
                panic!("{words:?} is not in the first {LINES} lines:\n{self}")
            };
            self.last_line.set(self.last_line.get().max(line));
        }
    }

    /// None of these is in the first lines.
    pub fn is_silent_about(&self, wrong: &[&str]) {
        for words in wrong {
            assert!(self.line_of(words).is_none(), "{words:?} is wrong here:\n{self}");
        }
    }

    /// Whether the first lines have these words.
    pub fn has(&self, words: &str) -> bool {
        self.line_of(words).is_some()
    }

    /// The part with this label, as `verdict`, as far as it is in the first lines.
    pub fn part(&self, label: &str) -> String {
        let start = self.first.iter().position(|line| line.starts_with(&format!("{label} ")));
        let Some(start) = start else { panic!("no {label} in the first {LINES} lines:\n{self}") };
        let rest = self.first[start + 1..].iter().take_while(|line| line.starts_with("  "));
        self.last_line.set(self.last_line.get().max(start + 1 + rest.clone().count()));
        let lines = [&self.first[start][label.len()..]].into_iter().chain(rest.map(String::as_str));
        lines.map(str::trim).collect::<Vec<_>>().join(" ")
    }

    /// The part with this label has these words.
    pub fn part_says(&self, label: &str, wanted: &[&str]) {
        let part = self.part(label);
        for words in wanted {
            assert!(part.contains(words), "{label} does not say {words:?}:\n{self}");
        }
        self.says(wanted);
    }

    /// The time in milliseconds that follows these words.
    pub fn ms_after(&self, words: &str) -> f64 {
        let (number, unit) = self.figure_after(words);
        ms(&number.to_string(), &unit)
            .unwrap_or_else(|| panic!("{unit:?} after {words:?} is no unit of time:\n{self}"))
    }

    /// The sum of what all callers waited, in milliseconds; it stands below the fix where there is one.
    pub fn ms_of_all_requests(&self) -> f64 {
        let whole = self.whole.split_whitespace().collect::<Vec<_>>().join(" ");
        let end = [" of all requests", " that callers waited"].iter().find_map(|it| whole.find(it));
        let Some(end) = end else { panic!("no word of how long all callers waited:\n{self}") };
        let mut before = whole[..end].rsplit([' ', '(']);
        let (unit, number) = (before.next(), before.next());
        ms(number.unwrap_or_default(), unit.unwrap_or_default())
            .unwrap_or_else(|| panic!("{number:?} {unit:?} is no time:\n{self}"))
    }

    /// The figure that follows these words.
    pub fn number_after(&self, words: &str) -> f64 {
        self.figure_after(words).0
    }

    fn figure_after(&self, words: &str) -> (f64, String) {
        self.says(&[words]);
        let text = self.joined().0;
        let behind = &text[text.find(words).expect("found above") + words.len()..];
        let mut behind = behind.split_whitespace();
        let number = behind.next().unwrap_or_default();
        let number = number.replace(',', "").trim_end_matches(['%', '.', ';', '×']).to_owned();
        let unit = behind.next().unwrap_or_default().trim_end_matches([',', '.', ';', ':', ')']);
        match number.parse() {
            Ok(number) => (number, unit.to_owned()),
            Err(_) => panic!("no figure after {words:?}:\n{self}"),
        }
    }

    /// The line, from 1 on, on which the words end.
    fn line_of(&self, words: &str) -> Option<usize> {
        let (text, ends) = self.joined();
        let end = text.find(words)? + words.len();
        Some(1 + ends.iter().take_while(|line_end| **line_end < end).count())
    }

    /// The first lines as one, with a space between two words, and where in it each line ends.
    fn joined(&self) -> (String, Vec<usize>) {
        let mut text = String::new();
        let mut ends = Vec::new();
        for line in &self.first {
            for word in line.split_whitespace() {
                if !text.is_empty() {
                    text.push(' ');
                }
                text.push_str(word);
            }
            ends.push(text.len());
        }
        (text, ends)
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.first.iter().try_for_each(|line| writeln!(out, "| {line}"))
    }
}

/// A time with its unit, in milliseconds.
fn ms(number: &str, unit: &str) -> Option<f64> {
    let unit_ms = match unit {
        "s" => 1000.0,
        "ms" => 1.0,
        "µs" | "us" => 0.001,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * unit_ms)
}

/// A report agrees with the workload's own measurement, within the margin of a busy machine.
pub fn assert_near(what: &str, said: f64, measured: f64) {
    const SHARE: f64 = 0.2;
    let is_near = (said - measured).abs() <= SHARE * measured.abs();
    assert!(is_near, "{what}: the report says {said}, the workload measured {measured}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
sockscope
trace    live, 2.01 s, 1 connection

verdict  slow-service: The server took 2.00 s
         of the 2.01 s that curl waited, 1,789 times.
next     see what it does
7
8
9
10
11
waited   2.01 s
path     lossy
";

    #[test]
    fn words_are_found_across_lines_and_only_in_the_first_ones() {
        let answer = Answer::from_text(TEXT);
        answer.says(&["took 2.00 s of the"]);
        assert_eq!((answer.last_line(), answer.lines()), (5, 13));
        assert!(answer.has("waited 2.01 s") && !answer.has("lossy"));
        assert_eq!((answer.part("next").as_str(), answer.last_line()), ("see what it does", 6));
        answer.part_says("verdict", &["2.00 s of the"]);
    }

    #[test]
    fn figures_have_their_units() {
        let answer = Answer::from_text(TEXT);
        assert!((answer.ms_after("server took ") - 2000.0).abs() < 1e-6);
        assert!((answer.number_after("curl waited, ") - 1789.0).abs() < 1e-6);
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let refuses = |check: fn(&Answer)| {
            std::panic::catch_unwind(|| check(&Answer::from_text(TEXT))).is_err()
        };
        assert!(refuses(|answer| answer.says(&["lossy"])));
        assert!(refuses(|answer| answer.is_silent_about(&["slow-service"])));
        assert!(refuses(|answer| answer.part_says("next", &["slow-service"])));
        assert!(refuses(|answer| drop(answer.part("path"))));
        assert!(refuses(|answer| _ = answer.ms_after("curl waited, ")));
        assert!(refuses(|answer| _ = answer.ms_of_all_requests()));
        let sums = ["waited 1.2 s (3.50 s of all requests)", "the 3.50 s that callers waited"];
        for sum in sums {
            assert_near("sum", Answer::from_text(sum).ms_of_all_requests(), 3500.0);
        }
        assert!(std::panic::catch_unwind(|| assert_near("time", 79.0, 100.0)).is_err());
        assert_near("time", 81.0, 100.0);
    }
}
