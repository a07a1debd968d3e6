//! Tests that did not run because something was missing, with the reason for each.
//!
//! libtest cannot skip a test while it runs, so such a test returns early and counts as passed. Before that it writes a
//! line `SKIPPED: NAME: REASON` to standard error itself, because libtest keeps the output of the print macros of a
//! passing test.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader, IsTerminal, stderr};
use std::process::{ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

/// The begin of such a line.
const MARK: &str = "SKIPPED: ";

/// The time to wait for lines after the end of a command.
const AFTER_THE_END: Duration = Duration::from_secs(1);

/// Number of skipped tests by reason.
#[derive(Debug, Default)]
pub struct Skipped(BTreeMap<String, usize>);

impl Skipped {
    /// Counts so many tests, skipped for this reason.
    pub fn add(&mut self, reason: &str, tests: usize) {
        *self.0.entry(reason.to_owned()).or_default() += tests;
    }

    /// Counts all that the other one counted, too.
    pub fn add_all(&mut self, other: &Self) {
        other.0.iter().for_each(|(reason, tests)| self.add(reason, *tests));
    }

    /// Counts the tests that these lines of standard error name as skipped.
    pub fn count(&mut self, lines: &str) {
        let mut last = "";
        for line in lines.lines() {
            if let Some(reason) = reason(line, last) {
                self.add(reason, 1);
            }
            last = line;
        }
    }

    /// Runs a command, hands on its output, and counts the tests that its standard error names as skipped. `of_output`
    /// gets the lines of its standard output.
    pub fn watch(
        &mut self,
        command: &mut Command,
        mut of_output: impl FnMut(&str),
    ) -> std::io::Result<ExitStatus> {
        if stderr().is_terminal() {
            command.env("CARGO_TERM_COLOR", "always");
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (sender, reasons) = channel();
        if let Some(output) = child.stderr.take() {
            thread::spawn(move || hand_on(output, &sender));
        }
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || hand_on_output(output, &sender));
        }
        let status = child.wait()?;
        // A process that a test left behind may hold the pipes open after the command has ended.
        while let Ok(reason) = reasons.recv_timeout(AFTER_THE_END) {
            self.add(&reason, 1);
        }
        while let Ok(line) = lines.recv_timeout(AFTER_THE_END) {
            of_output(&line);
        }
        Ok(status)
    }
}

/// Copies lines to standard error; sends the reason of each skipped test.
fn hand_on(output: ChildStderr, reasons: &Sender<String>) {
    let mut last = String::new();
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        eprintln!("{line}");
        if let Some(reason) = reason(&line, &last) {
            let _ = reasons.send(reason.to_owned());
        }
        last = line;
    }
}

/// Copies lines to standard output, and sends them.
fn hand_on_output(output: ChildStdout, lines: &Sender<String>) {
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        println!("{line}");
        let _ = lines.send(line);
    }
}

/// The reason why the test of this line was skipped. A test that lacks the same in several cases writes lines that
/// follow one another, and is one test.
fn reason<'a>(line: &'a str, last: &str) -> Option<&'a str> {
    let (_, reason) = line.strip_prefix(MARK).filter(|_| line != last)?.split_once(": ")?;
    Some(reason)
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: usize = self.0.values().sum();
        let tests = if all == 1 { "test" } else { "tests" };
        write!(f, "ci: {all} {tests} skipped")?;
        self.0.iter().try_for_each(|(reason, tests)| write!(f, "\nci:   {tests} skipped: {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The summary after a shell wrote these lines to standard error.
    fn after(lines: &[&str]) -> String {
        let mut skipped = Skipped::default();
        let mut shell = Command::new("sh");
        shell.args(["-c", "printf '%s\\n' \"$@\" >&2", "sh"]).args(lines);
        assert!(skipped.watch(&mut shell, |_| ()).unwrap().success());
        skipped.to_string()
    }

    #[test]
    fn tests_that_say_so_are_counted_by_reason() {
        let lines = [
            "   Compiling a v0.1.0",
            "SKIPPED: live::root_a: no CAP_BPF",
            "SKIPPED: live::root_b: this kernel has no MPTCP: none",
            "SKIPPED: live::root_c: no CAP_BPF",
        ];
        let expected = "ci: 3 tests skipped\nci:   2 skipped: no CAP_BPF\n\
                        ci:   1 skipped: this kernel has no MPTCP: none";
        assert_eq!(after(&lines), expected);
    }

    #[test]
    fn a_test_that_lacks_the_same_twice_counts_once() {
        let line = "SKIPPED: root_a: no raw IP sockets";
        assert!(after(&[line, line]).starts_with("ci: 1 test skipped\n"));
    }

    #[test]
    fn without_a_skipped_test_the_number_is_0() {
        assert_eq!(after(&["warning: SKIPPED: a: b", "SKIPPED: c"]), "ci: 0 tests skipped");
    }

    #[test]
    fn a_process_that_is_left_behind_does_not_hold_up_the_end() {
        let started = std::time::Instant::now();
        let mut shell = Command::new("sh");
        // It does not hold the output of this test program.
        shell.args(["-c", "sleep 60 >/dev/null & echo 'SKIPPED: a: b' >&2"]);
        let mut skipped = Skipped::default();
        assert!(skipped.watch(&mut shell, |_| ()).unwrap().success());
        assert!(started.elapsed() < Duration::from_secs(50));
        assert!(skipped.to_string().starts_with("ci: 1 test skipped"));
    }

    #[test]
    fn kept_lines_are_counted_alike() {
        let lines = ["SKIPPED: root_a: no CAP_BPF", "b", "SKIPPED: root_c: no CAP_BPF"].join("\n");
        let mut skipped = Skipped::default();
        skipped.count(&lines);
        assert_eq!(skipped.to_string(), after(&lines.split('\n').collect::<Vec<_>>()));
        let mut both = Skipped::default();
        both.add("no CAP_BPF", 1);
        both.add_all(&skipped);
        assert!(both.to_string().starts_with("ci: 3 tests skipped\n"));
    }

    #[test]
    fn the_commands_status_is_kept() {
        let mut shell = Command::new("sh");
        let status = Skipped::default().watch(shell.args(["-c", "exit 3"]), |_| ()).unwrap();
        assert_eq!(status.code(), Some(3));
    }
}
