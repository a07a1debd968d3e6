//! A program that answers the requests that it finds, as a server with a queue of requests does.
//!
//! The recording has how many bytes of answers it had written for how many bytes of requests. Here it reads what is
//! there, and answers as many: the sizes of its reads are those of this run, not of the recording.
//!
//! Such a program often waits for several connections by one call, and then reads. A read that waits takes its bytes when
//! it wakes, and so is quicker. With [`Activity::poll_ns`] a run waits by `poll`.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::Socket;
use sockscope_analysis::{Action, Activity, LONG_WAIT_NS, Step};

use super::steps::{BUFFER_MAX, Moved, READ_MAX};
use super::think::think;

/// The buffer of a program whose reads took all that was there. Its own may be larger.
const BUFFER_MIN: u64 = 1 << 16;

/// A call that waited takes longer by two switches of threads than one that found its bytes.
const WAIT_MIN: Duration = Duration::from_micros(1);

/// Think times of fewer reads have no line of their own.
const TIMES_MIN: usize = 3;

/// Reads what is there and answers it, to the end of the steps.
pub fn answer(mut connection: &Socket, steps: &[Step], side: &Activity) -> io::Result<Moved> {
    let answers = Answers::of(steps);
    let least = if side.takes_all { BUFFER_MIN } else { 1 };
    let buffer = side.reads_up_to.unwrap_or(side.read_buffer_bytes).max(least);
    let buffer = buffer.min(BUFFER_MAX) as usize;
    let last_read = answers.positions.last().map_or(0, |(read, _)| *read);
    let mut bytes = vec![7; buffer];
    let (mut sent, mut received) = Moved::default();
    // The quickest calls so far found bytes.
    let (mut quickest_poll, mut quickest) = (Duration::MAX, Duration::MAX);
    loop {
        let more = answers.written(received.bytes).saturating_sub(sent.bytes) as usize;
        if more > 0 {
            bytes.resize(bytes.len().max(more), 7);
            connection.write_all(&bytes[..more])?;
            sent.add(more);
            let call_ns = u64::try_from(quickest.as_nanos()).unwrap_or(u64::MAX);
            think(Instant::now(), answers.to_read_ns.saturating_sub(call_ns));
        }
        if received.bytes >= last_read {
            return Ok((sent, received));
        }
        let begin = Instant::now();
        if let Some(ns) = side.poll_ns {
            wait(connection)?;
            let polled = Instant::now();
            let took = polled - begin;
            quickest_poll = quickest_poll.min(took);
            // The time to a read that found its bytes has it already.
            think(polled, if took - quickest_poll >= WAIT_MIN { ns } else { 0 });
        }
        let more = connection.read(&mut bytes[..buffer])?;
        let returned = Instant::now();
        quickest = quickest.min(returned - begin);
        if more == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        received.add(more);
        let waited = (returned - begin).as_nanos() >= u128::from(LONG_WAIT_NS);
        think(returned, answers.think_ns(more as u64, waited));
    }
}

/// Waits for bytes.
fn wait(connection: &Socket) -> io::Result<()> {
    let longest = Timespec { tv_sec: READ_MAX.as_secs().cast_signed(), tv_nsec: 0 };
    let mut own = [PollFd::new(connection, PollFlags::IN)];
    match rustix::io::retry_on_intr(|| poll(&mut own, Some(&longest)))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

/// The answers of a recording.
struct Answers {
    /// Bytes read and bytes written, after each answer.
    positions: Vec<(u64, u64)>,
    /// Think time by bytes of the read: without a long wait before it, and with one.
    times: [Option<Line>; 2],
    /// Median time from the end of a write to that of the next read, where the read found its bytes; 0 where it is not
    /// known.
    to_read_ns: u64,
}

impl Answers {
    fn of(steps: &[Step]) -> Self {
        let (mut read, mut written) = (0, 0);
        let mut positions = vec![(0, 0)];
        let mut times = [Vec::new(), Vec::new()];
        // Bytes that were read since the last answer.
        let mut since = 0;
        let mut to_reads = Vec::new();
        let mut last = None;
        for step in steps {
            match step.action {
                Action::Read => {
                    if last == Some(Action::Write) && !step.woken {
                        to_reads.push((step.bytes, step.think_ns));
                    }
                    read += step.bytes;
                    since += step.bytes;
                }
                Action::Write => {
                    written += step.bytes;
                    if since > 0 {
                        times[usize::from(step.after_wait)].push((since, step.think_ns));
                        if let Some(warm_ns) = step.warm_ns {
                            times[0].push((since, warm_ns));
                        }
                    }
                    since = 0;
                }
            }
            if positions.last().is_some_and(|(end, _)| *end == read) {
                positions.pop();
            }
            positions.push((read, written));
            last = Some(step.action);
        }
        let to_read_ns = middle(&to_reads).map_or(0, |(_, ns)| ns as u64);
        Self { positions, times: times.map(|times| Line::through(&times)), to_read_ns }
    }

    /// The bytes of answers to so many bytes of requests; between two of the recording in proportion.
    fn written(&self, read: u64) -> u64 {
        let next = self.positions.partition_point(|(end, _)| *end <= read);
        let (begin, written) = self.positions[next.saturating_sub(1)];
        let Some((end, then)) = self.positions.get(next) else { return written };
        let more = u128::from(then - written) * u128::from(read - begin) / u128::from(end - begin);
        written + more as u64
    }

    fn think_ns(&self, bytes: u64, waited: bool) -> u64 {
        let [warm, cold] = &self.times;
        let line =
            if waited { cold.as_ref().or(warm.as_ref()) } else { warm.as_ref().or(cold.as_ref()) };
        line.map_or(0, |line| line.at(bytes))
    }
}

/// A straight line through points: by the medians of the small reads and of the large ones.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    at_0: f64,
    slope: f64,
}

impl Line {
    fn through(points: &[(u64, u64)]) -> Option<Self> {
        let sizes = || points.iter().map(|(bytes, _)| *bytes);
        let half = u64::midpoint(sizes().min()?, sizes().max()?);
        let (small, large): (Vec<_>, Vec<_>) = points.iter().partition(|(bytes, _)| *bytes <= half);
        let [all, small, large] = [points, &small, &large].map(middle);
        // A few large reads are no line, and more bytes do not take less time.
        match (all, small, large) {
            (_, Some(small), Some(large)) if large.1 > small.1 => {
                let slope = (large.1 - small.1) / (large.0 - small.0);
                Some(Self { at_0: small.1 - slope * small.0, slope })
            }
            (all, ..) => all.map(|(_, at_0)| Self { at_0, slope: 0.0 }),
        }
    }

    fn at(&self, bytes: u64) -> u64 {
        (self.at_0 + self.slope * bytes as f64).max(0.0) as u64
    }
}

/// The median of the bytes and that of the times, of some points at least.
fn middle(points: &[(u64, u64)]) -> Option<(f64, f64)> {
    let median = |value: fn(&(u64, u64)) -> u64| {
        let mut values: Vec<u64> = points.iter().map(value).collect();
        values.sort_unstable();
        values[values.len() / 2] as f64
    };
    (points.len() >= TIMES_MIN).then(|| (median(|it| it.0), median(|it| it.1)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    /// Steps from text: `w100/7` writes 100 bytes after 7 ns. Data woke `R10`.
    fn steps(text: &str) -> Vec<Step> {
        let step = |word: &str| {
            let (what, think) = word.split_once('/').unwrap_or((word, "0"));
            let action = if what.starts_with('w') { Action::Write } else { Action::Read };
            let [bytes, think_ns] = [&what[1..], think].map(|text| text.parse().unwrap());
            Step {
                action,
                connection: 0,
                bytes,
                think_ns,
                after_wait: think_ns >= 1000,
                warm_ns: None,
                woken: what.starts_with('R'),
            }
        };
        text.split_whitespace().map(step).collect()
    }

    #[test]
    fn answers_are_those_of_the_requests_that_were_read() {
        let answers = Answers::of(&steps("r10 w5 r90 w45 r100 w20 w10"));
        let written = [0, 10, 55, 100, 150, 200].map(|read| answers.written(read));
        assert_eq!(written, [0, 5, 27, 50, 65, 80]);
        // A greeting before the first request.
        let answers = Answers::of(&steps("w7 r10 w5"));
        assert_eq!([0, 10].map(|read| answers.written(read)), [7, 12]);
    }

    #[test]
    fn the_time_to_a_read_is_that_of_reads_that_found_their_bytes() {
        let found = "r10/400 w5 r10/300 w5 R10/900 w5 ".repeat(3);
        // The first read follows no write.
        assert_eq!(Answers::of(&steps(&found)).to_read_ns, 300);
        assert_eq!(Answers::of(&steps(&"R10/900 w5 ".repeat(9))).to_read_ns, 0);
    }

    #[test]
    fn a_program_that_polls_reads_later() {
        const POLL_NS: u64 = 3_000_000;
        // Whether the answers to bytes that were there, and to bytes that it waited for, took as long.
        let took = |poll_ns| {
            let (own, mut peer) = UnixStream::pair().unwrap();
            let mut ask = |wait_ms| {
                thread::sleep(Duration::from_millis(wait_ms));
                let begin = Instant::now();
                peer.write_all(&[1; 10]).unwrap();
                peer.read_exact(&mut [0; 5]).unwrap();
                begin.elapsed() >= Duration::from_nanos(POLL_NS)
            };
            let side = Activity { poll_ns, read_buffer_bytes: 10, ..Activity::default() };
            thread::scope(|scope| {
                let playing = scope.spawn(|| answer(&own.into(), &steps("r10 w5 r10 w5"), &side));
                let took = [ask(0), ask(5)];
                let (sent, received) = playing.join().unwrap().unwrap();
                assert_eq!((sent.bytes, received.bytes), (10, 20));
                took
            })
        };
        assert!(took(Some(POLL_NS))[1]);
        // A machine under load may take long: one of many is quick.
        assert!((0..100).any(|_| took(None) == [false, false]));
        assert!((0..100).any(|_| !took(Some(POLL_NS))[0]));
    }

    #[test]
    fn a_larger_read_takes_as_much_longer_as_in_the_recording() {
        let few = "r10 w5/200 r310 w155/800 ".repeat(9);
        let answers = Answers::of(&steps(&few));
        assert_eq!([10, 160, 310].map(|bytes| answers.think_ns(bytes, false)), [200, 500, 800]);
        // Reads after a long wait have a line of their own, where they are known.
        let answers = Answers::of(&steps(&(few + &"r10 w5/3000 ".repeat(3))));
        assert_eq!([false, true].map(|waited| answers.think_ns(10, waited)), [200, 3000]);
        assert_eq!(Answers::of(&steps("r10 w5/200")).think_ns(10, false), 0);
        // Sizes that hardly differ do not make a line of their own.
        let alike = "r10 w5/200 r11 w5/201 r10 w5/190 r11 w5/400 ".repeat(5) + "r310 w155/800 ";
        assert_eq!(Answers::of(&steps(&alike)).think_ns(310, false), 201);
    }
}
