//! The socket calls of the two programs of a connection, or of several connections between them: writes, reads, and
//! the time between them.
//!
//! A side is a sequence of steps. A write that follows a read of the same thread depends on that read; without a read
//! before it, it depends on the write before it. The time from the end of the step before to the start of a write is the
//! program's own: it thinks. So is the time to a read that was not woken by data, as the data lay there or the program
//! was elsewhere. A read that was woken waited, and the program did not think.
//!
//! The rule is ambiguous where another thread may have handed the work over, and where the thread used a connection in
//! between that is not of the pattern. Only calls that moved bytes are steps.
//!
//! After a wait the caches and the translation buffers of the CPU have to be filled again, and the time to the next call
//! is longer. This is CPU time: one piece of Python took 35 µs of it after a wait of 40 ms, and 2 µs without one. A step
//! therefore says whether a wait went before it: see [`Activity::warm_think_ns`].

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;

use sockscope_record::{Protocol, Side};

/// After a wait of this length others had the CPU, or it was idle: its caches have other data.
pub const LONG_WAIT_NS: u64 = 1_000_000;

/// The program's code is slower by this at most until its caches are filled again. Calls of Python programs were slower
/// by 35 and 68 µs, those of its HTTP library by 142 and 180 µs.
pub const REFILL_MAX_NS: u64 = 200_000;

/// The filling of the caches is known from so many writes after a wait, and as many without one. So is the time without a
/// wait of a kind of step.
const REFILL_WRITES_MIN: usize = 3;

/// Steps of one kind: the call and its bytes, then the same of the call before. Reads in sequence count as one, as a program
/// does the same after them whether it took the bytes in one call or in several.
type StepKind = [(Action, u64); 2];

/// Think times that no wait went before, as medians of each kind of step.
#[derive(Debug, Clone, Default)]
pub struct WarmTimes {
    /// Calls of as many bytes, after a call of the same kind and as many bytes.
    by_size: HashMap<StepKind, u64>,
    /// Calls after the same kind of call. They count where there are few of a size.
    by_call: HashMap<[Action; 2], u64>,
}

impl WarmTimes {
    fn of(&self, kind: StepKind) -> Option<u64> {
        self.by_size.get(&kind).or_else(|| self.by_call.get(&kind.map(|call| call.0))).copied()
    }
}

/// Calls of the two programs of a connection, or of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// TCP or UDP. A call of UDP moves one datagram.
    pub protocol: Protocol,
    /// Number of connections. All are opened before the first step.
    pub connections: u32,
    /// The client, then the server.
    pub sides: [Activity; 2],
}

/// Calls of one side.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Activity {
    /// One sequence of steps, or several where threads have no connection and kind of call in common. Of one connection
    /// they are two where some threads only read and others only write: first the reads.
    pub sequences: Vec<Vec<Step>>,
    /// Number of writes.
    pub writes: u64,
    /// Of these, those for which the rule of dependencies is not ambiguous.
    pub certain_writes: u64,
    /// The largest read, bytes.
    pub read_buffer_bytes: u64,
    /// No read left bytes behind that lay in the receive queue: the program's buffer may be larger.
    pub read_buffer_is_lower_bound: bool,
    /// No read left bytes behind: a read takes all that is there.
    pub takes_all: bool,
    /// No read shorter than the largest one left bytes behind: a shorter read ended because no more bytes were there, not
    /// because the program asked for fewer.
    pub short_reads_take_all: bool,
    /// The program answers the requests that it finds, also a part of those that the other side writes without a read
    /// between: its reads are as long as the data that is there.
    pub answers_as_found: bool,
    /// The buffer of the program after a change, bytes. Its reads are no longer those of the steps: each takes the bytes that
    /// are there, up to this size and to the [end of those](Self::reads_after) that filled the recorded buffer.
    pub reads_up_to: Option<u64>,
    /// The time from a wakeup to the end of the read that it led to, nanoseconds: one read of ten was as quick. `None` where
    /// the trace has few of them.
    pub woken_read_ns: Option<u64>,
    /// A run of a program that answers what it finds waits by `poll`, and spends this time between that and the read,
    /// nanoseconds. `None`: the read waits.
    pub poll_ns: Option<u64>,
    /// The program set `TCP_NODELAY`.
    pub no_delay: bool,
    /// The last value of `SO_SNDBUF` that the program set, bytes.
    pub send_buffer_bytes: Option<u64>,
    /// The last value of `SO_RCVBUF` that the program set, bytes.
    pub receive_buffer_bytes: Option<u64>,
    /// Median time that the program thinks before a write without a wait; `None` where the trace has no such time.
    pub warm_think_ns: Option<u64>,
    /// A write after a read takes this time longer where that read waited, by the medians: see [`Activity::warm_think_ns`].
    /// `None` where the trace has too few of either kind.
    pub refill_ns: Option<u64>,
}

/// One call that moved bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Write or read.
    pub action: Action,
    /// Number of the connection, from 0 on.
    pub connection: u32,
    /// Bytes that it took or returned.
    pub bytes: u64,
    /// Time that the program spent before it, nanoseconds.
    pub think_ns: u64,
    /// The program waited for [`LONG_WAIT_NS`] or longer directly before that.
    pub after_wait: bool,
    /// The time that the program spends before such a step where it did not wait, nanoseconds. `None` where no recording
    /// has enough of them: see [`Activity::take_warm_times`].
    pub warm_ns: Option<u64>,
    /// A read that data woke: it waited for them.
    pub woken: bool,
}

impl Activity {
    /// Of each step, the bytes of the reads after it that one call may take as well where the buffer is larger. A read that
    /// filled the recorded buffer ended there, and one that took all bytes ended as there were no more. Another one ended
    /// because the program asked for no more, as at the end of a message.
    pub fn reads_after(&self, steps: &[Step]) -> Vec<u64> {
        let fills = |step: &Step| step.bytes >= self.read_buffer_bytes;
        reads_in_sequence(steps, |step| self.short_reads_take_all || fills(step))
    }

    /// The time that the filling of the caches takes: writes after a read think for as much longer where the read waited,
    /// by the medians. Those that did not wait are in `warm`, calls of the same program. `None` where there are few.
    pub fn refill_by(&self, warm: &Self) -> Option<u64> {
        let [cold_ns, warm_ns] =
            [self.after_read_ns(true), warm.after_read_ns(false)].map(median_of_enough);
        Some(cold_ns?.saturating_sub(warm_ns?))
    }

    /// Think times of the writes directly after a read that did wait, or did not.
    fn after_read_ns(&self, after_wait: bool) -> Vec<u64> {
        let pairs = self.sequences.iter().flat_map(|steps| steps.windows(2));
        let is_chosen = |pair: &&[Step]| {
            let [read, write] = [pair[0], pair[1]];
            (read.action, write.action) == (Action::Read, Action::Write)
                && write.after_wait == after_wait
        };
        pairs.filter(is_chosen).map(|pair| pair[1].think_ns).collect()
    }

    /// The think times of its steps without a wait.
    pub fn warm_times(&self) -> WarmTimes {
        let mut by_size: HashMap<StepKind, Vec<u64>> = HashMap::new();
        let mut by_call: HashMap<[Action; 2], Vec<u64>> = HashMap::new();
        for steps in &self.sequences {
            for (at, kind) in thoughts(steps).filter(|thought| !thought.is_cold).map(Thought::place)
            {
                by_size.entry(kind).or_default().push(steps[at].think_ns);
                by_call.entry(kind.map(|call| call.0)).or_default().push(steps[at].think_ns);
            }
        }
        WarmTimes { by_size: medians(by_size), by_call: medians(by_call) }
    }

    /// Gives the steps after a wait their think times without one, from a recording of the same program. Returns the
    /// number of writes that took a time.
    pub fn take_warm_times(&mut self, warm: &WarmTimes) -> u64 {
        let mut taken = 0;
        for steps in &mut self.sequences {
            let cold: Vec<_> =
                thoughts(steps).filter(|thought| thought.is_cold).map(Thought::place).collect();
            for (at, kind) in cold {
                if let Some(warm_ns) = warm.of(kind) {
                    steps[at].warm_ns = Some(warm_ns);
                    taken += u64::from(steps[at].action == Action::Write);
                }
            }
        }
        taken
    }

    /// The think time before a step in a run in which no wait goes before it. The trace has it where none went before.
    /// Else it is less, by the filling of the caches: by the time that the trace shows, or by [`REFILL_MAX_NS`] at most. It
    /// is not below the program's own time without a wait.
    pub fn warm_think_ns(&self, step: &Step) -> u64 {
        let is_known = self.refill_ns.is_some() || self.warm_think_ns.is_some();
        if !step.after_wait || !is_known {
            return step.think_ns;
        }
        let floor_ns = step.think_ns.min(self.warm_think_ns.unwrap_or(0));
        step.think_ns.saturating_sub(self.refill_ns.unwrap_or(REFILL_MAX_NS)).max(floor_ns)
    }
}

/// Of each step, the bytes of the reads that follow it directly on the same connection, as long as each read before is
/// one that goes on.
pub fn reads_in_sequence(steps: &[Step], goes_on: impl Fn(&Step) -> bool) -> Vec<u64> {
    let mut after = vec![0; steps.len()];
    for at in (1..steps.len()).rev() {
        let [before, step] = [&steps[at - 1], &steps[at]];
        let is_read = before.action == Action::Read && step.action == Action::Read;
        if is_read && before.connection == step.connection && goes_on(before) {
            after[at - 1] = after[at] + step.bytes;
        }
    }
    after
}

/// A step before which the program thinks.
struct Thought {
    /// Its number in the sequence.
    at: usize,
    kind: StepKind,
    is_cold: bool,
}

impl Thought {
    fn place(self) -> (usize, StepKind) {
        (self.at, self.kind)
    }
}

/// The writes of a sequence, and the reads that a program began in a known time after its write, but for the first step.
/// They are cold where the last read before waited, or where no read is before them.
fn thoughts(steps: &[Step]) -> impl Iterator<Item = Thought> {
    let mut is_cold = true;
    let mut read_bytes = 0;
    steps.windows(2).enumerate().filter_map(move |(before_at, pair)| {
        let [before, step] = [&pair[0], &pair[1]];
        let is_after_read = before.action == Action::Read;
        if is_after_read {
            is_cold = step.after_wait;
        }
        read_bytes = if is_after_read { read_bytes + before.bytes } else { 0 };
        let before_bytes = if is_after_read { read_bytes } else { before.bytes };
        // A read that found its data has the call in its time, which is short.
        let begins_to_read = step.think_ns > 0 && !is_after_read;
        let kind = [(step.action, step.bytes), (before.action, before_bytes)];
        (step.action == Action::Write || begins_to_read).then_some(Thought {
            at: before_at + 1,
            kind,
            is_cold,
        })
    })
}

/// The value in the middle of each kind with enough steps.
fn medians<K: Eq + Hash>(times: HashMap<K, Vec<u64>>) -> HashMap<K, u64> {
    let known =
        times.into_iter().filter_map(|(kind, times)| Some((kind, median_of_enough(times)?)));
    known.collect()
}

/// The value in the middle of enough steps.
fn median_of_enough(times: Vec<u64>) -> Option<u64> {
    let is_known = times.len() >= REFILL_WRITES_MIN;
    median(times).filter(|_| is_known)
}

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A write call.
    Write,
    /// A read call.
    Read,
}

/// Why the steps of a connection are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPattern {
    /// No call was seen returning: it was recorded without `--calls`.
    NoCalls,
    /// Programs of the connection moved no byte.
    NoBytes,
    /// The calls of this side were not recorded: it is on another host, or no program has it.
    UnseenSide(Side),
    /// Some calls of this side are not in the trace: records were missed, or it reads by `splice`.
    MissedCalls(Side),
}

impl fmt::Display for NoPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCalls => {
                write!(f, "no call was recorded when it returned: record with --calls")
            }
            Self::NoBytes => write!(f, "no program wrote or read anything"),
            Self::UnseenSide(side) => {
                write!(
                    f,
                    "the calls of the {} were not recorded: it must be on this host",
                    side.name()
                )
            }
            Self::MissedCalls(side) => {
                write!(f, "some calls of the {} are not in the trace", side.name())
            }
        }
    }
}

/// The value in the middle.
pub(crate) fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A side from text: `w100/7` writes 100 bytes after 7 ns. `r20` waited for 20 bytes a short time, `R20` a long one. `f20`
    /// found them.
    fn side(text: &str) -> Activity {
        let mut after_wait = false;
        let mut steps = Vec::new();
        for word in text.split_whitespace() {
            let (call, think) = word.split_once('/').unwrap_or((word, "0"));
            let (letter, bytes) = call.split_at(1);
            let action = if letter == "w" { Action::Write } else { Action::Read };
            let [bytes, think_ns] = [bytes, think].map(|text| text.parse().unwrap());
            steps.push(Step {
                action,
                connection: 0,
                bytes,
                think_ns,
                after_wait,
                warm_ns: None,
                woken: letter.eq_ignore_ascii_case("r"),
            });
            after_wait = letter == "R";
        }
        Activity { sequences: vec![steps], ..Activity::default() }
    }

    fn warm(side: &Activity) -> Vec<Option<u64>> {
        let writes = side.sequences[0].iter().filter(|step| step.action == Action::Write);
        writes.map(|step| step.warm_ns).collect()
    }

    #[test]
    fn a_larger_read_takes_those_that_filled_the_buffer_and_the_one_after_them() {
        let activity = side("r9 r9 r4 r9 w1 r9 r2 r9");
        let activity = Activity { read_buffer_bytes: 9, ..activity };
        assert_eq!(activity.reads_after(&activity.sequences[0]), [13, 4, 0, 0, 0, 2, 0, 0]);
        // Shorter reads took all that was there: a larger one goes on.
        let activity = Activity { short_reads_take_all: true, ..activity };
        assert_eq!(activity.reads_after(&activity.sequences[0]), [22, 13, 9, 0, 0, 11, 9, 0]);
    }

    #[test]
    fn each_write_after_a_wait_takes_the_time_of_its_kind() {
        // A head and a body: the second write follows no wait, but the caches are as cold.
        let mut cold = side(&"w10/200 w90/104 R50 ".repeat(4));
        let quick = side(&"w10/60 w90/3 r50 ".repeat(4));
        assert_eq!(cold.take_warm_times(&quick.warm_times()), 7);
        // No call goes before the first.
        let [head, body] = [Some(60), Some(3)];
        assert_eq!(warm(&cold), [None, body, head, body, head, body, head, body]);
        assert_eq!(cold.take_warm_times(&side(&"w10/60 w90/3 R50 ".repeat(4)).warm_times()), 0);
    }

    #[test]
    fn a_write_of_another_size_takes_the_time_of_any_size() {
        let mut cold = side("R9 w1/90 R9 w2/90 R9 w3/90 R9 w7/90");
        let quick = side("r9 w1/5 r9 w1/6 r9 w1/7 r9 w2/50 r9 w2/51");
        assert_eq!(cold.take_warm_times(&quick.warm_times()), 4);
        assert_eq!(warm(&cold), [Some(6), Some(7), Some(7), Some(7)]);
    }

    #[test]
    fn a_read_takes_the_time_until_it_began_to_wait() {
        let mut cold = side(&"w10/200 R50/45 ".repeat(4));
        let quick = side(&"w10/60 r50/9 ".repeat(4));
        assert_eq!(cold.take_warm_times(&quick.warm_times()), 3);
        let reads = cold.sequences[0].iter().filter(|step| step.action == Action::Read);
        assert_eq!(reads.map(|step| step.warm_ns).collect::<Vec<_>>(), [Some(9); 4]);
        let mut unknown = side(&"w10/200 R50 ".repeat(4));
        unknown.take_warm_times(&quick.warm_times());
        assert_eq!(unknown.sequences[0][1].warm_ns, None);
    }

    #[test]
    fn a_read_that_waits_takes_the_time_of_those_that_found_their_data() {
        // On one CPU the other program answers while this one has not begun to read.
        let mut cold = side(&"w10/200 R50/45 ".repeat(4));
        let quick = side(&"w10/60 f50/9 ".repeat(4));
        assert_eq!(cold.take_warm_times(&quick.warm_times()), 3);
        let reads = cold.sequences[0].iter().filter(|step| step.action == Action::Read);
        assert_eq!(reads.map(|step| step.warm_ns).collect::<Vec<_>>(), [Some(9); 4]);
    }

    #[test]
    fn a_write_after_two_reads_takes_the_time_of_one_after_as_many_bytes() {
        // A head and a body in two reads; without the wait they are mostly one, and the program parses both after it.
        let mut cold = side(&"r10 R60 w5/200 ".repeat(4));
        let quick = side(&("r70 w5/48 ".repeat(4) + &"r10 r60 w5/22 ".repeat(3)));
        assert_eq!(cold.take_warm_times(&quick.warm_times()), 4);
        assert_eq!(warm(&cold), [Some(48); 4]);
    }

    #[test]
    fn a_write_that_did_not_wait_keeps_its_own_time() {
        let mut own = side("r9 w1/5 r9 w1/6 r9 w1/7 R9 w1/90 r9 w1/8");
        let times = own.warm_times();
        assert_eq!(own.take_warm_times(&times), 1);
        assert_eq!(warm(&own), [None, None, None, Some(7), None]);
    }
}
