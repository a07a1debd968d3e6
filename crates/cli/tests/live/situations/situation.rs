//! One situation while its test runs: whether it can run here, and its row in the table of all situations.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use super::answer::Answer;
use crate::bundle::Recording;
use crate::soak;
use crate::turn::{self, Turn};

/// A file to which each situation appends its row: number, lines, line of the answer, and whether it is right.
const ROWS: &str = "SOCKSCOPE_SITUATIONS";

/// When a situation runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// With all other live tests.
    Always,
    /// Only where the whole suite is asked for, as it takes long.
    InTheSuite,
}

/// Dropping it writes the row.
pub struct Situation {
    number: u8,
    /// Of each report: its lines, and the line of the answer.
    reports: RefCell<Vec<(usize, usize)>>,
    begun: Instant,
    _turn: Option<Turn>,
}

impl Situation {
    /// Waits for the turn of a test that records. `None` where it cannot run: then a line `SKIPPED` says why.
    pub fn live(number: u8, when: When, programs: &[&str]) -> Option<Self> {
        if when == When::InTheSuite && !soak::is_full() {
            turn::skip("it takes long: scripts/soak situations runs it");
            return None;
        }
        if is_missing(number, programs) {
            return None;
        }
        let turn = turn::take()?;
        Some(Self::begin(number, Some(turn)))
    }

    /// One that records nothing.
    pub fn offline(number: u8, programs: &[&str]) -> Option<Self> {
        let is_missing = is_missing(number, programs);
        (!is_missing).then(|| Self::begin(number, None))
    }

    fn begin(number: u8, turn: Option<Turn>) -> Self {
        Self { number, reports: RefCell::default(), begun: Instant::now(), _turn: turn }
    }

    /// Checks the report of a bundle.
    pub fn report(&self, dir: &Path, check: impl FnOnce(&Answer)) {
        self.answer(&Answer::of(dir), check);
    }

    /// Checks any text for the reader.
    pub fn answer(&self, answer: &Answer, check: impl FnOnce(&Answer)) {
        // Of a report that is wrong the row has its lines, and no line of the answer.
        self.reports.borrow_mut().push((answer.lines(), 0));
        check(answer);
        if let Some(last) = self.reports.borrow_mut().last_mut() {
            last.1 = answer.last_line();
        }
    }
}

impl Drop for Situation {
    fn drop(&mut self) {
        let verdict = if thread::panicking() { "WRONG" } else { "right" };
        let seconds = self.begun.elapsed().as_secs_f64();
        write_row(self.number, &self.reports.borrow(), &format!("{verdict} | {seconds:.1} s"));
    }
}

/// Recordings of a situation, at most, on a machine that is busy with others.
fn attempts() -> usize {
    soak::sized(3, 6)
}

/// Records until the verdict is not `late-wakeup`. Where other programs take the CPUs, this is a right verdict, and it
/// hides the one that the situation is about.
pub fn undisturbed<T>(mut make: impl FnMut() -> (Recording, T)) -> (Recording, T) {
    for attempt in 1.. {
        let made = make();
        let verdict = made.0.line("verdict");
        if !verdict.contains("late-wakeup") || attempt == attempts() {
            return made;
        }
        eprintln!("recording once more, because others took the CPU: {verdict}");
    }
    unreachable!("the loop ends by return")
}

/// Whether a program is missing, which is said aloud.
fn is_missing(number: u8, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| !is_there(program));
    if let Some(program) = missing {
        let reason = format!("{program} is not installed (scripts/setup installs it)");
        turn::skip(&reason);
        write_row(number, &[], &format!("skipped: {reason}"));
    }
    missing.is_some()
}

/// `python3:MODULE` is a module of Debian's Python.
fn is_there(program: &str) -> bool {
    let mut command = match program.split_once(':') {
        Some((python, module)) => {
            let mut command = Command::new(format!("/usr/bin/{python}"));
            command.args(["-c", &format!("import {module}")]);
            command
        }
        None => {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("PATH=$PATH:/usr/sbin command -v {program}")]);
            command
        }
    };
    command.output().is_ok_and(|output| output.status.success())
}

/// Adds a row to the table of all situations, where one is asked for.
pub fn write_row(number: u8, reports: &[(usize, usize)], verdict: &str) {
    let Some(path) = std::env::var_os(ROWS) else { return };
    let all = |figure: fn(&(usize, usize)) -> usize| {
        let figures: Vec<String> = reports
            .iter()
            .map(figure)
            .map(|it| if it == 0 { "-".to_owned() } else { it.to_string() })
            .collect();
        figures.join(" ")
    };
    let row =
        format!("{number:>3} | {:<14} | {:<14} | {verdict}\n", all(|it| it.0), all(|it| it.1));
    let file = OpenOptions::new().append(true).create(true).open(path);
    file.and_then(|mut file| file.write_all(row.as_bytes())).expect("the suite named a file");
}
