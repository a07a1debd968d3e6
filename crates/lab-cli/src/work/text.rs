//! `text-client`: sends one request as text to any server, by a schedule that does not wait for answers.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
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
/// The first answer ends where no byte follows for so long: two reads of a socket that gives up after 100 ms.
const QUIET_READS: u32 = 2;
/// Between two looks at the end of the schedule.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// One connection, and the planned times of the requests that it still has to answer.
struct Line {
    stream: TcpStream,
    open: Mutex<VecDeque<u64>>,
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
    let mut report = Report::new("text-client", "asking");
    let mut lines = Vec::new();
    let mut answer_bytes = None;
    for _ in 0..arguments.connections {
        let (mut stream, buffers) = stream_to(arguments.to, arguments.socket)?;
        report = report.over(buffers);
        let bytes = first_answer(&mut stream, &request)
            .map_err(cannot("exchange messages with", arguments.to))?;
        let known = *answer_bytes.get_or_insert(bytes);
        if bytes == 0 || bytes != known {
            return Err(Failure::new(format!(
                "lab work: {} answered this request with {known} and {bytes} bytes: give one whose answer has \
                 always as many bytes, and some",
                arguments.to
            )));
        }
        lines.push(Line { stream, open: Mutex::default() });
    }
    let answer_bytes = answer_bytes.unwrap_or(1);
    let mut schedule = Schedule::new(Some(arguments.every));
    let is_over = AtomicBool::new(false);
    let asked = thread::scope(|scope| {
        let taking = scope.spawn(|| take(&lines, answer_bytes, &is_over));
        let sending = (|| {
            for number in 0..arguments.requests {
                let planned_ns = schedule.wait();
                if stop.stop_requested() || taking.is_finished() {
                    break;
                }
                let line = &lines[number as usize % lines.len()];
                open(line).push_back(planned_ns);
                (&line.stream).write_all(&request)?;
                report.sent.add(request.len());
            }
            Ok(())
        })();
        is_over.store(true, Ordering::Relaxed);
        let taken = taking.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
        sending.and(taken)
    });
    let answers = asked.map_err(cannot("exchange messages with", arguments.to))?;
    report.received = answers.traffic;
    report.latency = answers.latency;
    report.unanswered = report.sent.messages.saturating_sub(report.received.messages);
    report.by(&schedule).with("exact_latency_ns", exact(answers.times_ns)).print()
}

fn open(line: &Line) -> std::sync::MutexGuard<'_, VecDeque<u64>> {
    line.open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the request once, and counts the bytes until none follows. All later answers have as many.
fn first_answer(stream: &mut TcpStream, request: &[u8]) -> io::Result<usize> {
    stream.write_all(request)?;
    let mut buffer = vec![0; READ_BYTES];
    let (mut bytes, mut quiet) = (0, 0);
    let begin_ns = now_ns();
    while quiet < QUIET_READS {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(io::Error::other("it closed the connection after one answer")),
            Ok(more) => (bytes, quiet) = (bytes + more, 0),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let is_given_up = now_ns() - begin_ns >= ANSWER_NS;
                quiet += u32::from(bytes > 0 || is_given_up);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// Takes answers on all lines until the last request has one, or is lost.
fn take(lines: &[Line], answer_bytes: usize, is_over: &AtomicBool) -> io::Result<Answers> {
    let mut answers = Answers::default();
    let mut buffer = vec![0; READ_BYTES];
    // Bytes of the answer under way.
    let mut parts = vec![0; lines.len()];
    let mut quiet_since_ns = now_ns();
    loop {
        let mut waits: Vec<_> =
            lines.iter().map(|line| PollFd::new(&line.stream, PollFlags::IN)).collect();
        match poll(&mut waits, Some(&LOOK_EVERY)) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        let ready: Vec<usize> =
            (0..lines.len()).filter(|at| !waits[*at].revents().is_empty()).collect();
        for at in ready {
            let bytes = match (&lines[at].stream).read(&mut buffer) {
                Ok(0) => return Err(io::Error::other("it closed the connection")),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            let read_ns = now_ns();
            quiet_since_ns = read_ns;
            parts[at] += bytes;
            while parts[at] >= answer_bytes {
                parts[at] -= answer_bytes;
                let Some(planned_ns) = open(&lines[at]).pop_front() else {
                    return Err(io::Error::other("it answered more requests than were sent"));
                };
                let time_ns = read_ns.saturating_sub(planned_ns);
                answers.traffic.add(answer_bytes);
                answers.latency.add(time_ns);
                answers.times_ns.push(time_ns);
            }
        }
        if is_over.load(Ordering::Relaxed) {
            let is_all = lines.iter().all(|line| open(line).is_empty());
            if is_all || now_ns() - quiet_since_ns >= ANSWER_NS {
                break;
            }
        }
    }
    lines.iter().for_each(|line| drop(line.stream.shutdown(Shutdown::Both)));
    Ok(answers)
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
