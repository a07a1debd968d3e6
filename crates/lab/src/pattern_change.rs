//! One change to the calls of a pattern, as a programmer would make it. The bytes stay the same.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use sockscope_analysis::{Action, Pattern, Step};
use sockscope_link::Interval;

/// A change to the calls of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternChange {
    /// Writes that no read separates and that an answer follows are one write.
    OneWrite,
    /// Both sides set `TCP_NODELAY`.
    NoDelay,
    /// Bytes that are written without a read between go in writes of this size, the last one smaller.
    WriteBytes(u64),
    /// Reads take so many bytes at most. A read that filled the program's buffer takes more with a larger one, and the
    /// program thinks before each call.
    ReadBytes(u64),
    /// Both sides set `SO_SNDBUF` and `SO_RCVBUF` to this.
    Buffers(u64),
    /// The programs take no time between calls.
    NoThinking,
    /// A think time of so many nanoseconds or more is shorter by that. A shorter one does not hold the work that goes.
    LessThinking(u64),
}

impl FromStr for PatternChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = |value: &str| {
            let number = value.parse().ok().filter(|bytes| *bytes > 0);
            number.ok_or_else(|| format!("{value} is not a number of bytes"))
        };
        match text.split_once('=') {
            None if text == "one-write" => Ok(Self::OneWrite),
            None if text == "nodelay" => Ok(Self::NoDelay),
            Some(("write-bytes", value)) => bytes(value).map(Self::WriteBytes),
            Some(("read-bytes", value)) => bytes(value).map(Self::ReadBytes),
            Some(("buffers", value)) => bytes(value).map(Self::Buffers),
            Some(("think", "0")) => Ok(Self::NoThinking),
            Some(("think", value)) if value.starts_with('-') => {
                let less: Interval = value[1..].parse().map_err(|error| format!("{error}"))?;
                Ok(Self::LessThinking(less.0))
            }
            _ => Err(format!(
                "{text} is no change: give one-write, nodelay, write-bytes=N, read-bytes=N, buffers=N, think=0 or \
                 think=-TIME"
            )),
        }
    }
}

impl fmt::Display for PatternChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneWrite => f.write_str("one-write"),
            Self::NoDelay => f.write_str("nodelay"),
            Self::WriteBytes(bytes) => write!(f, "write-bytes={bytes}"),
            Self::ReadBytes(bytes) => write!(f, "read-bytes={bytes}"),
            Self::Buffers(bytes) => write!(f, "buffers={bytes}"),
            Self::NoThinking => f.write_str("think=0"),
            Self::LessThinking(ns) => write!(f, "think=-{}", Interval(*ns)),
        }
    }
}

impl PatternChange {
    /// The names of all changes.
    const NAMES: [&str; 6] =
        ["one-write", "nodelay", "write-bytes", "read-bytes", "buffers", "think"];

    /// Whether the text has the name of a change, with any value.
    pub fn is_named_in(text: &str) -> bool {
        Self::NAMES.contains(&text.split_once('=').map_or(text, |(name, _)| name))
    }

    /// Makes the change.
    pub fn apply(self, pattern: &mut Pattern) {
        for side in &mut pattern.sides {
            match self {
                Self::NoDelay => side.no_delay = true,
                Self::Buffers(bytes) => {
                    side.send_buffer_bytes = Some(bytes);
                    side.receive_buffer_bytes = Some(bytes);
                }
                _ => {}
            }
            if let Self::ReadBytes(bytes) = self {
                side.reads_up_to = Some(bytes);
                side.takes_all = false;
            }
            for steps in &mut side.sequences {
                match self {
                    Self::OneWrite => *steps = written_anew(steps, None),
                    Self::WriteBytes(bytes) => *steps = written_anew(steps, Some(bytes)),
                    Self::NoThinking => {
                        for step in steps.iter_mut() {
                            *step = Step { think_ns: 0, after_wait: false, warm_ns: None, ..*step };
                        }
                    }
                    Self::LessThinking(less_ns) => {
                        for step in steps.iter_mut() {
                            let warm_ns = step.warm_ns.iter_mut();
                            let long =
                                warm_ns.chain([&mut step.think_ns]).filter(|ns| **ns >= less_ns);
                            long.for_each(|ns| *ns -= less_ns);
                        }
                    }
                    Self::NoDelay | Self::ReadBytes(_) | Self::Buffers(_) => {}
                }
            }
        }
    }
}

/// The steps with writes of this size; without a size, with one write before each read.
fn written_anew(steps: &[Step], size: Option<u64>) -> Vec<Step> {
    let mut anew = Vec::new();
    let mut rest = steps;
    while let Some(first) = rest.first() {
        let is_write = |step: &&Step| step.action == Action::Write;
        let (writes, after) = rest.split_at(rest.iter().take_while(is_write).count());
        rest = after;
        match size {
            _ if writes.is_empty() => {
                anew.push(*first);
                rest = &after[1..];
            }
            // Without an answer they are a transfer, not parts of a message.
            None if after.is_empty() => anew.extend(writes),
            size => {
                let size = size.unwrap_or(u64::MAX);
                let of_connections = by_connection(writes);
                anew.extend(of_connections.iter().flat_map(|writes| in_pieces(writes, size)));
            }
        }
    }
    anew
}

/// The writes of each connection, in the order of their first ones.
fn by_connection(writes: &[Step]) -> Vec<Vec<Step>> {
    let mut found: Vec<Vec<Step>> = Vec::new();
    let mut places: HashMap<u32, usize> = HashMap::new();
    for write in writes {
        let place = *places.entry(write.connection).or_insert(found.len());
        found.resize_with(found.len().max(place + 1), Vec::new);
        found[place].push(*write);
    }
    found
}

/// The bytes of these writes of a connection in pieces. A piece has the think times of the writes that begin in it.
fn in_pieces(writes: &[Step], size: u64) -> Vec<Step> {
    let connection = writes.first().map_or(0, |write| write.connection);
    let total: u64 = writes.iter().map(|write| write.bytes).sum();
    let mut pieces = Vec::new();
    let (mut begin, mut left, mut at) = (0, writes.iter().peekable(), 0);
    while begin < total {
        let bytes = size.min(total - begin);
        let (mut think_ns, mut after_wait, mut warm_ns) = (0u64, false, Some(0u64));
        while let Some(write) = left.next_if(|_| at < begin + bytes) {
            think_ns = think_ns.saturating_add(write.think_ns);
            after_wait |= write.after_wait;
            warm_ns = warm_ns.zip(write.warm_ns).map(|(sum, ns)| sum.saturating_add(ns));
            at += write.bytes;
        }
        // Without another recording no piece has such a time.
        let warm_ns = warm_ns.filter(|_| writes.iter().any(|write| write.warm_ns.is_some()));
        pieces.push(Step {
            action: Action::Write,
            connection,
            bytes,
            think_ns,
            after_wait,
            warm_ns,
            woken: false,
        });
        begin += bytes;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sockscope_analysis::Activity;
    use sockscope_record::Protocol;

    use super::*;

    /// Steps from text: `w100/7` writes 100 bytes after 7 ns, `w100@2` on the connection 2.
    fn steps(text: &str) -> Vec<Step> {
        let step = |word: &str| {
            let (what, think) = word.split_once('/').unwrap_or((word, "0"));
            let (what, connection) = what.split_once('@').unwrap_or((what, "0"));
            let action = if what.starts_with('w') { Action::Write } else { Action::Read };
            let [bytes, think_ns] = [&what[1..], think].map(|text| text.parse().unwrap());
            let connection = connection.parse().unwrap();
            Step {
                action,
                connection,
                bytes,
                think_ns,
                after_wait: false,
                warm_ns: None,
                woken: false,
            }
        };
        text.split_whitespace().map(step).collect()
    }

    fn pattern(steps: &[Step]) -> Pattern {
        let side = || Activity { sequences: vec![steps.to_vec()], ..Activity::default() };
        Pattern { protocol: Protocol::Tcp, connections: 3, sides: [side(), side()] }
    }

    fn changed(text: &str, change: &str) -> Vec<Step> {
        let mut pattern = pattern(&steps(text));
        change.parse::<PatternChange>().unwrap().apply(&mut pattern);
        pattern.sides[0].sequences[0].clone()
    }

    #[test]
    fn a_message_in_two_writes_becomes_one() {
        assert_eq!(changed("w100/7 w300/1 r50 w9/2 w1", "one-write"), steps("w400/8 r50 w9/2 w1"));
    }

    #[test]
    fn writes_to_several_connections_stay_apart() {
        let before = "w100@1/7 w100@2/1 w300@1/2 r50@1 w9@2";
        assert_eq!(changed(before, "one-write"), steps("w400@1/9 w100@2/1 r50@1 w9@2"));
    }

    #[test]
    fn only_a_think_time_that_holds_the_work_is_shorter() {
        assert_eq!(changed("w1/320000 r1/900 w1/2", "think=-300us"), steps("w1/20000 r1/900 w1/2"));
    }

    #[test]
    fn a_program_with_another_buffer_has_the_same_steps() {
        // Each of its reads takes the bytes that are there: only a run shows their number.
        let mut pattern = pattern(&steps("r100 r100/5 w5 r40 w5"));
        pattern.sides.iter_mut().for_each(|side| side.read_buffer_bytes = 100);
        PatternChange::ReadBytes(300).apply(&mut pattern);
        for side in &pattern.sides {
            assert_eq!(side.sequences[0], steps("r100 r100/5 w5 r40 w5"));
            assert_eq!((side.reads_up_to, side.read_buffer_bytes), (Some(300), 100));
        }
    }

    #[test]
    fn writes_of_another_size_have_the_same_bytes_and_think_times() {
        assert_eq!(changed("w100/7 w50/3 r5/4", "write-bytes=60"), steps("w60/7 w60/3 w30 r5/4"));
        assert_eq!(changed("w10/1 w10/2 w10/3", "write-bytes=20"), steps("w20/3 w10/3"));
    }

    #[test]
    fn options_and_buffers_change_at_both_sides() {
        let mut pattern = pattern(&steps("w1/5"));
        PatternChange::NoDelay.apply(&mut pattern);
        PatternChange::ReadBytes(17).apply(&mut pattern);
        PatternChange::NoThinking.apply(&mut pattern);
        for side in &pattern.sides {
            assert!(side.no_delay && side.reads_up_to == Some(17));
            assert_eq!(side.sequences[0], steps("w1"));
        }
    }

    #[test]
    fn a_change_is_read_as_it_is_written() {
        for change in [
            "one-write",
            "nodelay",
            "write-bytes=7",
            "read-bytes=65536",
            "buffers=9",
            "think=0",
            "think=-300us",
        ] {
            assert_eq!(change.parse::<PatternChange>().unwrap().to_string(), change);
        }
    }

    #[test]
    fn what_is_no_change_is_refused() {
        for wrong in [
            "",
            "think=1",
            "think=-1",
            "write-bytes",
            "write-bytes=0",
            "read-bytes=x",
            "one-write=1",
        ] {
            assert!(wrong.parse::<PatternChange>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_change_of_writes_loses_bytes_or_time(
            parts in prop::collection::vec((any::<bool>(), 1u64..900, 0u64..50), 0..40),
            size in 1u64..300,
        ) {
            let step = |(is_write, bytes, think_ns)| {
                let action = if is_write { Action::Write } else { Action::Read };
                Step { action, connection: 0, bytes, think_ns, after_wait: false, warm_ns: None, woken: false }
            };
            let before: Vec<Step> = parts.into_iter().map(step).collect();
            for change in [PatternChange::OneWrite, PatternChange::WriteBytes(size)] {
                let mut pattern = pattern(&before);
                change.apply(&mut pattern);
                let after = &pattern.sides[0].sequences[0];
                for of in [|step: &Step| step.bytes, |step: &Step| step.think_ns] {
                    prop_assert_eq!(before.iter().map(of).sum::<u64>(), after.iter().map(of).sum::<u64>());
                }
                let reads = |steps: &[Step]| -> Vec<Step> {
                    steps.iter().filter(|step| step.action == Action::Read).copied().collect()
                };
                prop_assert_eq!(reads(&before), reads(after));
            }
        }
    }
}
