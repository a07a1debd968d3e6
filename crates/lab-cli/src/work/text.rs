//! `text-client`: sends one request as text to any server, by a schedule that does not wait for answers.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::num::NonZeroU64;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::set_current_timer_slack;
use serde_json::{Value, json};
use sockscope_link::{Lateness, now_ns};
use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;
use sockscope_program::signals::StopSignals;

use super::args::TextClient;
use super::report::{Report, Traffic};
use super::schedule::Schedule;
use super::socket::{cannot, stream_to};

const READ_BYTES: usize = 64 * 1_024;
/// An answer that has not ended for so long is lost.
const ANSWER_NS: u64 = 1_000_000_000;
/// The first answers end where no byte follows for so long.
const QUIET_NS: u64 = 200_000_000;
/// Between two looks whether the program is to stop.
const LOOK_NS: u64 = 100_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// One connection.
struct Line {
    stream: TcpStream,
    /// Planned times of the requests without an answer.
    open: VecDeque<u64>,
    /// Bytes of the answer under way.
    part: usize,
}

/// The answers, with the time from the plan to the last byte of each.
#[derive(Default)]
struct Answers {
    traffic: Traffic,
    latency: Lateness,
    times_ns: Vec<u64>,
}

/// `lab work text-client`.
pub fn text_client(arguments: &TextClient) -> Result<Outcome, Failure> {
    let stop = StopSignals::register()?;
    let request = unescaped(&arguments.request).map_err(Failure::new)?;
    // The kernel may wake a thread later than planned by its timer slack, which is 50 us by default.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let mut report = Report::new("text-client", "asking");
    let mut lines = Vec::new();
    for _ in 0..arguments.connections {
        let (stream, buffers) = stream_to(arguments.to, arguments.socket)?;
        report = report.over(buffers);
        lines.push(Line { stream, open: VecDeque::new(), part: 0 });
    }
    let sizes = first_answers(&mut lines, &request)
        .map_err(cannot("exchange messages with", arguments.to))?;
    let known = sizes.first().copied().unwrap_or(1);
    if let Some(bytes) = sizes.iter().find(|bytes| **bytes == 0 || **bytes != known) {
        return Err(Failure::new(format!(
            "lab work: {} answered this request with {known} and {bytes} bytes: give one whose answer has always as many \
             bytes, and some",
            arguments.to
        )));
    }
    let mut asking = Asking { lines, answer_bytes: known, ..Asking::default() };
    let mut schedule = Schedule::new(Some(arguments.every));
    asking
        .ask(&request, arguments.requests, &mut schedule, &stop)
        .map_err(cannot("exchange messages with", arguments.to))?;
    report.sent = asking.sent;
    report.received = asking.answers.traffic;
    report.latency = asking.answers.latency;
    report.unanswered = report.sent.messages.saturating_sub(report.received.messages);
    report.by(&schedule).with("exact_latency_ns", exact(asking.answers.times_ns)).print()
}

/// Sends the request once on each connection, and counts the bytes of the answers until none follow. All later answers
/// have as many.
fn first_answers(lines: &mut [Line], request: &[u8]) -> io::Result<Vec<usize>> {
    for line in &mut *lines {
        line.stream.write_all(request)?;
    }
    let mut sizes = vec![0; lines.len()];
    let mut buffer = vec![0; READ_BYTES];
    let mut quiet_since_ns = now_ns();
    loop {
        let longest_ns = if sizes.contains(&0) { ANSWER_NS } else { QUIET_NS };
        let quiet_ns = now_ns() - quiet_since_ns;
        if quiet_ns >= longest_ns {
            return Ok(sizes);
        }
        for at in readable(lines, longest_ns - quiet_ns)? {
            let Some(more) = read_some(&mut lines[at].stream, &mut buffer)? else { continue };
            sizes[at] += more;
            quiet_since_ns = now_ns();
        }
    }
}

/// The lines with bytes to read, or an end, waiting for so long at most.
fn readable(lines: &[Line], wait_ns: u64) -> io::Result<Vec<usize>> {
    let mut waits: Vec<_> =
        lines.iter().map(|line| PollFd::new(&line.stream, PollFlags::IN)).collect();
    let wait = Timespec {
        tv_sec: (wait_ns / SECOND_NS).cast_signed(),
        tv_nsec: (wait_ns % SECOND_NS).cast_signed(),
    };
    match poll(&mut waits, Some(&wait)) {
        Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
        other => other?,
    };
    Ok((0..waits.len()).filter(|at| !waits[*at].revents().is_empty()).collect())
}

/// The number of bytes that were read, or `None` before any arrived. An end is an error.
fn read_some(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match stream.read(buffer) {
        Ok(0) => Err(io::Error::other("it closed the connection")),
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// One thread sends and takes answers: on a small machine a second one would wait for a CPU itself.
#[derive(Default)]
struct Asking {
    lines: Vec<Line>,
    answer_bytes: usize,
    sent: Traffic,
    answers: Answers,
    buffer: Vec<u8>,
}

impl Asking {
    /// Sends each request at its time, and takes answers until the last request has one, or is lost.
    fn ask(
        &mut self,
        request: &[u8],
        requests: u64,
        schedule: &mut Schedule,
        stop: &StopSignals,
    ) -> io::Result<()> {
        self.buffer = vec![0; READ_BYTES];
        for number in 0..requests {
            while let Some(left_ns) = schedule.left_ns() {
                self.take(left_ns.min(LOOK_NS))?;
                if stop.stop_requested() {
                    return Ok(());
                }
            }
            let planned_ns = schedule.wait();
            let place = number as usize % self.lines.len();
            let line = &mut self.lines[place];
            line.open.push_back(planned_ns);
            line.stream.write_all(request)?;
            self.sent.add(request.len());
        }
        let mut quiet_since_ns = now_ns();
        while self.lines.iter().any(|line| !line.open.is_empty()) && !stop.stop_requested() {
            if self.take(LOOK_NS)? {
                quiet_since_ns = now_ns();
            } else if now_ns() - quiet_since_ns >= ANSWER_NS {
                break;
            }
        }
        Ok(())
    }

    /// Waits for so long at most, and takes the answers that are there; whether there were bytes.
    fn take(&mut self, wait_ns: u64) -> io::Result<bool> {
        let ready = readable(&self.lines, wait_ns)?;
        for at in &ready {
            let line = &mut self.lines[*at];
            let Some(bytes) = read_some(&mut line.stream, &mut self.buffer)? else { continue };
            let read_ns = now_ns();
            line.part += bytes;
            while line.part >= self.answer_bytes {
                line.part -= self.answer_bytes;
                let Some(planned_ns) = line.open.pop_front() else {
                    return Err(io::Error::other("it answered more requests than were sent"));
                };
                let time_ns = read_ns.saturating_sub(planned_ns);
                self.answers.traffic.add(self.answer_bytes);
                self.answers.latency.add(time_ns);
                self.answers.times_ns.push(time_ns);
            }
        }
        Ok(!ready.is_empty())
    }
}

/// The percentiles by rank; `null` without times.
fn exact(mut times_ns: Vec<u64>) -> Value {
    times_ns.sort_unstable();
    let at = |per_mille: usize| {
        let rank = (times_ns.len() * per_mille).div_ceil(1000);
        times_ns.get(rank.max(1) - 1).copied()
    };
    match times_ns.is_empty() {
        true => Value::Null,
        false => {
            json!({ "p50": at(500), "p90": at(900), "p99": at(990), "p999": at(999), "max": at(1000) })
        }
    }
}

/// The text with `\r`, `\n`, `\t` and `\\` as the bytes that they mean.
fn unescaped(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let own = match (letter, if letter == '\\' { letters.next() } else { None }) {
            ('\\', Some('r')) => '\r',
            ('\\', Some('n')) => '\n',
            ('\\', Some('t')) => '\t',
            ('\\', Some('\\')) => '\\',
            ('\\', other) => {
                let other = other.map(String::from).unwrap_or_default();
                return Err(format!(
                    "lab work: --request has \\{other}: write \\r, \\n, \\t or \\\\"
                ));
            }
            (letter, _) => letter,
        };
        bytes.extend(own.encode_utf8(&mut [0; 4]).as_bytes());
    }
    match bytes.is_empty() {
        true => Err("lab work: --request is empty: give the text of a request".to_owned()),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_are_written_with_backslashes() {
        assert_eq!(unescaped(r"GET / HTTP/1.1\r\n\r\n").unwrap(), b"GET / HTTP/1.1\r\n\r\n");
        assert_eq!(unescaped(r"a\tb\\nü").unwrap(), "a\tb\\nü".as_bytes());
        assert!(unescaped(r"a\q").unwrap_err().contains(r"\q"));
        assert!(unescaped("a\\").is_err() && unescaped("").is_err());
    }

    #[test]
    fn percentiles_are_those_of_the_ranks() {
        let times = exact((1..=1000).rev().collect());
        assert_eq!(times["p50"], 500);
        assert_eq!(
            (&times["p99"], &times["p999"], &times["max"]),
            (&json!(990), &json!(999), &json!(1000))
        );
        assert_eq!(exact(vec![7])["p50"], 7);
        assert!(exact(Vec::new()).is_null());
    }
}
