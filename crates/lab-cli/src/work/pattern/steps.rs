//! Steps one after the other, as they were recorded.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use sockscope_analysis::{Action, Activity, LONG_WAIT_NS, Step, reads_in_sequence};
use sockscope_record::Protocol;

use super::think::think;
use crate::work::report::Traffic;

/// Sent and received, a message for each call.
pub type Moved = (Traffic, Traffic);

/// A read that lasts longer fails.
pub const READ_MAX: Duration = Duration::from_secs(60);

/// Largest step.
pub const BUFFER_MAX: u64 = 1 << 26;

/// A call of UDP moves this at most. A shorter buffer would cut a datagram off.
pub const DATAGRAM_MAX: u64 = 65_507;

/// A program that took all that was there in each read is given a buffer of this size at most.
const TAKEN_MAX: u64 = 1 << 20;

/// Bytes that the reads of a connection are to have so far, and have.
#[derive(Clone, Copy, Default)]
struct Taken {
    wanted: u64,
    received: u64,
}

/// The last reads that found their data. Some of them waited, or had work of the kernel for others in them.
#[derive(Default)]
struct ReadTimes {
    last_ns: [u64; 15],
    count: usize,
    /// The median of the last ones; 0 before the first.
    usual_ns: u64,
}

impl ReadTimes {
    fn add(&mut self, ns: u64) {
        self.last_ns[self.count % self.last_ns.len()] = ns;
        self.count += 1;
        let mut last_ns = self.last_ns;
        let known = self.count.min(last_ns.len());
        self.usual_ns = *last_ns[..known].select_nth_unstable(known / 2).1;
    }
}

/// The bytes of each read call.
enum Reads {
    /// Reads in sequence end where theirs together end, as their pieces may be others.
    Recorded {
        buffer: u64,
        /// A read takes so many bytes where they are there and the next reads of the sequence have them.
        most_ahead: u64,
    },
    /// The buffer has another size: a read takes the bytes that are there, and the program thinks before the next one.
    UpTo(u64),
}

impl Reads {
    /// The buffer of a call where so many bytes are left in the reads of the sequence.
    fn limit(&self, left: u64) -> u64 {
        match self {
            Self::Recorded { buffer, most_ahead } => (*buffer).max(left.min(*most_ahead)),
            Self::UpTo(bytes) => left.min(*bytes),
        }
    }
}

/// Plays steps.
pub fn play_steps<C>(
    connections: &[C],
    steps: &[Step],
    side: &Activity,
    protocol: Protocol,
) -> io::Result<Moved>
where
    for<'a> &'a C: Read + Write,
{
    let least = if protocol == Protocol::Udp { DATAGRAM_MAX } else { 1 };
    let buffer = side.read_buffer_bytes.clamp(least, BUFFER_MAX);
    let largest = steps.iter().map(|step| step.bytes).max().unwrap_or(0);
    let (ahead, reads) = match side.reads_up_to.filter(|_| protocol == Protocol::Tcp) {
        Some(bytes) => (side.reads_after(steps), Reads::UpTo(bytes.min(BUFFER_MAX))),
        None => {
            let goes_on = |_: &Step| side.takes_all;
            let ahead = reads_in_sequence(steps, goes_on);
            let most = ahead.iter().max().map_or(0, |bytes| (bytes + largest).min(TAKEN_MAX));
            (ahead, Reads::Recorded { buffer, most_ahead: most })
        }
    };
    let most = reads.limit(ahead.iter().max().map_or(0, |bytes| bytes + largest));
    let mut bytes = vec![7; largest.max(buffer).max(most) as usize];
    let (mut sent, mut received) = Moved::default();
    let mut taken = vec![Taken::default(); connections.len()];
    let mut waited = false;
    let mut own_reads = ReadTimes::default();
    let mut returned = Instant::now();
    // The program waited in its last read, also where it wrote since.
    let mut waited_in_read = true;
    for (step, ahead) in steps.iter().zip(ahead) {
        let mut connection = &connections[step.connection as usize];
        let own = &mut taken[step.connection as usize];
        if step.action == Action::Read {
            own.wanted += step.bytes;
            // A larger read took its bytes: the program makes no call, and thinks for the next one.
            if matches!(reads, Reads::UpTo(_)) && own.received >= own.wanted {
                continue;
            }
        }
        let think_ns = match step.warm_ns.filter(|_| !waited_in_read) {
            Some(warm_ns) => warm_ns,
            None if waited => step.think_ns,
            None => side.warm_think_ns(step),
        };
        // The time to a read that found its data has the call in it: its start is not recorded.
        let is_ready = step.action == Action::Read && step.think_ns > 0 && !step.woken;
        let call_ns = if is_ready { own_reads.usual_ns } else { 0 };
        think(returned, think_ns.saturating_sub(call_ns));
        match step.action {
            Action::Write => {
                connection.write_all(&bytes[..step.bytes as usize])?;
                returned = Instant::now();
                sent.add(step.bytes as usize);
                waited = false;
            }
            Action::Read => {
                // Where an earlier read took the bytes of this one, its wait still counts.
                waited &= own.received >= own.wanted;
                while own.received < own.wanted {
                    let left = own.wanted + ahead - own.received;
                    let begin = Instant::now();
                    let more = connection.read(&mut bytes[..reads.limit(left) as usize])?;
                    returned = Instant::now();
                    if more == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    received.add(more);
                    own.received += more as u64;
                    let took = returned - begin;
                    let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
                    waited |= took_ns >= LONG_WAIT_NS;
                    if is_ready {
                        own_reads.add(took_ns);
                    }
                    if matches!(reads, Reads::UpTo(_)) && own.received < own.wanted {
                        think(returned, think_ns.saturating_sub(call_ns));
                    }
                }
                waited_in_read = waited;
            }
        }
    }
    Ok((sent, received))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn a_read_that_waited_is_not_a_usual_one() {
        let mut times = ReadTimes::default();
        let usual = [700, 90_000, 800, 600].map(|ns| {
            times.add(ns);
            times.usual_ns
        });
        assert_eq!(usual, [700, 90_000, 800, 800]);
        (0..15).for_each(|_| times.add(300));
        assert_eq!(times.usual_ns, 300);
    }

    /// A connection in which each read finds these bytes, and takes its buffer's size at most. It notes the calls.
    struct Found {
        pieces: RefCell<VecDeque<usize>>,
        calls: RefCell<Vec<String>>,
    }

    impl Read for &Found {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let mut pieces = self.pieces.borrow_mut();
            let there = pieces.pop_front().unwrap_or(0);
            let taken = there.min(buffer.len());
            if taken < there {
                pieces.push_front(there - taken);
            }
            self.calls.borrow_mut().push(format!("r{taken}"));
            Ok(taken)
        }
    }

    impl Write for &Found {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.calls.borrow_mut().push(format!("w{}", bytes.len()));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The calls of `steps`, as `r10 r4 w1`, where reads find these bytes, and the time in whole thoughts of 2 ms: each read
    /// of the recording has one before it.
    fn calls(steps: &str, reads_up_to: Option<u64>, pieces: &[usize]) -> (String, u128) {
        const THINK_NS: u64 = 2_000_000;
        let step = |word: &str| {
            let (letter, bytes) = word.split_at(1);
            let action = if letter == "w" { Action::Write } else { Action::Read };
            Step {
                action,
                connection: 0,
                bytes: bytes.parse().unwrap(),
                think_ns: if action == Action::Read { THINK_NS } else { 0 },
                after_wait: false,
                warm_ns: None,
                woken: true,
            }
        };
        let steps: Vec<Step> = steps.split_whitespace().map(step).collect();
        let side = Activity { read_buffer_bytes: 10, reads_up_to, ..Activity::default() };
        let pieces = RefCell::new(pieces.iter().copied().collect());
        let found = [Found { pieces, calls: RefCell::default() }];
        let begin = Instant::now();
        play_steps(&found, &steps, &side, Protocol::Tcp).unwrap();
        let thoughts = begin.elapsed().as_nanos() / u128::from(THINK_NS);
        let [Found { calls, .. }] = found;
        (calls.into_inner().join(" "), thoughts)
    }

    #[test]
    fn a_read_with_a_larger_buffer_takes_the_bytes_there_and_the_program_thinks_again() {
        let full = "r10 r10 r10 r10 r3 w1";
        assert_eq!(calls(full, Some(40), &[25, 18]).0, "r25 r18 w1");
        assert_eq!(calls(full, Some(40), &[4, 90]).0, "r4 r39 w1");
        // More than the buffer is there; and more than the reads of the recording took.
        assert_eq!(calls(full, Some(30), &[99]).0, "r30 r13 w1");
        assert_eq!(calls("r10 r7 r10 w1", Some(40), &[99]).0, "r17 r10 w1");
        // It thinks before each of its calls: here are more calls than steps.
        let (of_bytes, thoughts) = calls("r10 r10", Some(40), &[4, 4, 4, 8]);
        assert_eq!(of_bytes, "r4 r4 r4 r8");
        assert!(thoughts >= 4, "{thoughts}");
    }

    #[test]
    fn a_read_with_a_smaller_buffer_is_several_and_the_program_thinks_before_each() {
        let (of_bytes, thoughts) = calls("r10 w1 r10", Some(4), &[10, 10]);
        assert_eq!(of_bytes, "r4 r4 r2 w1 r4 r4 r2");
        assert!(thoughts >= 6, "{thoughts}");
    }

    #[test]
    fn a_recorded_read_ends_where_it_ended_in_the_recording() {
        assert_eq!(calls("r10 r10 w1", None, &[4, 6, 10]).0, "r4 r6 r10 w1");
        assert_eq!(calls("r10 r10 w1", None, &[3, 99]).0, "r3 r10 r10 w1");
    }
}
