//! Steps one after the other, as they were recorded.

use std::io::{self, Read, Write};
use std::time::Instant;

use socket2::Socket;
use sockscope_analysis::{Action, Activity, LONG_WAIT_NS, Step};
use sockscope_record::Protocol;

use super::think::think;
use crate::work::report::Traffic;

/// Sent and received, a message for each call.
pub type Moved = (Traffic, Traffic);

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

/// Plays steps. Reads in sequence end where theirs together end, as their pieces may be others.
pub fn play_steps(
    connections: &[Socket],
    steps: &[Step],
    side: &Activity,
    protocol: Protocol,
) -> io::Result<Moved> {
    let least = if protocol == Protocol::Udp { DATAGRAM_MAX } else { 1 };
    let buffer = side.read_buffer_bytes.clamp(least, BUFFER_MAX);
    let ahead = if side.takes_all { reads_ahead(steps) } else { vec![0; steps.len()] };
    let largest = steps.iter().map(|step| step.bytes).max().unwrap_or(0);
    let most_ahead = ahead.iter().max().map_or(0, |bytes| (bytes + largest).min(TAKEN_MAX));
    let mut bytes = vec![7; largest.max(buffer).max(most_ahead) as usize];
    let (mut sent, mut received) = Moved::default();
    let mut taken = vec![Taken::default(); connections.len()];
    let mut waited = false;
    let mut own_reads = ReadTimes::default();
    let mut returned = Instant::now();
    // The program waited in its last read, also where it wrote since.
    let mut waited_in_read = true;
    for (step, ahead) in steps.iter().zip(ahead) {
        let mut connection = &connections[step.connection as usize];
        let think_ns = match step.warm_ns.filter(|_| !waited_in_read) {
            Some(warm_ns) => warm_ns,
            None if waited => step.think_ns,
            None => side.warm_think_ns(step),
        };
        // The time to a read that found its data has the call in it: its start is not recorded.
        let is_ready = step.action == Action::Read && step.think_ns > 0 && !step.woken;
        think(returned, think_ns.saturating_sub(if is_ready { own_reads.usual_ns } else { 0 }));
        match step.action {
            Action::Write => {
                connection.write_all(&bytes[..step.bytes as usize])?;
                returned = Instant::now();
                sent.add(step.bytes as usize);
                waited = false;
            }
            Action::Read => {
                let own = &mut taken[step.connection as usize];
                own.wanted += step.bytes;
                // Where an earlier read took the bytes of this one, its wait still counts.
                waited &= own.received >= own.wanted;
                while own.received < own.wanted {
                    let left = own.wanted + ahead - own.received;
                    let limit = buffer.max(left.min(most_ahead)) as usize;
                    let begin = Instant::now();
                    let more = connection.read(&mut bytes[..limit])?;
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
                }
                waited_in_read = waited;
            }
        }
    }
    Ok((sent, received))
}

/// Of each step, the bytes of the reads that follow it directly on the same connection.
fn reads_ahead(steps: &[Step]) -> Vec<u64> {
    let mut ahead = vec![0; steps.len()];
    for at in (1..steps.len()).rev() {
        let [before, step] = [steps[at - 1], steps[at]];
        let is_read = before.action == Action::Read && step.action == Action::Read;
        if is_read && before.connection == step.connection {
            ahead[at - 1] = ahead[at] + step.bytes;
        }
    }
    ahead
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_read_may_take_the_bytes_of_those_that_follow_it() {
        let step = |action, connection, bytes| Step {
            action,
            connection,
            bytes,
            think_ns: 0,
            after_wait: false,
            warm_ns: None,
            woken: false,
        };
        let (read, write) = (Action::Read, Action::Write);
        let steps = [
            step(read, 0, 100),
            step(read, 0, 300),
            step(write, 0, 7),
            step(read, 0, 5),
            step(read, 1, 6),
            step(read, 1, 4),
        ];
        assert_eq!(reads_ahead(&steps), [300, 0, 0, 0, 4, 0]);
    }
}
