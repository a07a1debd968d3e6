//! Send-buffer waits: intervals in which the program had data to write and the buffer was full.
//!
//! A write call asks for more than enters the send queue at once: it sleeps, or it returns with a part taken or
//! with `EAGAIN`, and the program calls again when the kernel reports space. A stream's sender keeps
//! unacknowledged bytes, so that acknowledgments alone make room: a wait counts only if an acknowledgment of
//! more bytes ended it, and up to its arrival. From then on there is space that the writer does not use: if
//! asleep in its call it waits for a CPU, else it does something else, and may have given up the bytes not
//! taken. Only the returns of calls show whether it sleeps there. No record shows the reason for the delay of
//! the next call: records of writes have no account of the scheduler.

use std::slice::Iter;

use sockscope_record::{Direction, Kind, Point, Record, tcp_flags};

use crate::send_hold::acks_received;
use crate::socket_layers;
use crate::{ConnectionStore, FlowStore, Passage};

/// A sleeping writer fills the room of an acknowledgment within this time, once it has its CPU.
pub(crate) const WRITER_WAKES_NS_MAX: u64 = 20_000_000;

/// From `start_ns` to `end_ns` the byte at `offset` waited for room in the send buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SendBufferWait {
    pub start_ns: u64,
    /// When the acknowledgment arrived that made the room, the last one of several.
    pub end_ns: u64,
    /// When the byte entered the send queue.
    pub taken_ns: u64,
    pub offset: u64,
}

impl SendBufferWait {
    /// Whether the writer called so soon that it must have slept, or waited for an event.
    pub(crate) fn is_prompt(&self) -> bool {
        self.taken_ns - self.end_ns <= WRITER_WAKES_NS_MAX
    }
}

/// All of one flow, in order of time and without overlaps.
pub(crate) fn send_buffer_waits(
    store: &ConnectionStore,
    direction: Direction,
) -> Vec<SendBufferWait> {
    if socket_layers::is_at(store, direction.sender()) {
        return Vec::new();
    }
    let flow = store.flow(direction);
    // A Unix socket has room again as its peer's reader takes bytes.
    let acks_ns = match store.connection.protocol.is_unix() {
        true => flow.at(Point::ReceiveDequeue).iter().map(|read| read.at_ns).collect(),
        false => advancing_ns(store.reverse(direction)),
    };
    if acks_ns.is_empty() {
        return Vec::new();
    }
    let mut writer = Writer { calls: flow.events.iter(), wanted: None, taken_end: 0 };
    let entries = flow.at(Point::SendEnqueue).iter();
    let waits = entries.filter_map(|entry| writer.takes(entry));
    let ended = waits.filter_map(|wait| {
        let end_ns = last_between(&acks_ns, wait.start_ns, wait.taken_ns)?;
        Some(SendBufferWait { end_ns, ..wait })
    });
    ended.collect()
}

/// When acknowledgments of more than any before returned, in time order.
pub(crate) fn advancing_ns(reverse: &FlowStore) -> Vec<u64> {
    let mut acknowledged = 0;
    let not_of_data = tcp_flags::SYN | tcp_flags::RST;
    let acks = acks_received(reverse)
        .iter()
        .filter(|pass| pass.tcp_flags & tcp_flags::ACK != 0 && pass.tcp_flags & not_of_data == 0);
    let advancing = acks.filter(|ack| {
        let before = acknowledged;
        acknowledged = ack.acknowledged().max(before);
        acknowledged > before
    });
    advancing.map(|ack| ack.at_ns).collect()
}

/// The last of `times_ns`, which are sorted, after `start_ns` and not after `end_ns`.
pub(crate) fn last_between(times_ns: &[u64], start_ns: u64, end_ns: u64) -> Option<u64> {
    let earlier = &times_ns[..times_ns.partition_point(|at_ns| *at_ns <= end_ns)];
    earlier.last().copied().filter(|&at_ns| at_ns > start_ns)
}

/// Bytes that the program has asked to write and the send queue has not taken.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    /// When it was asked, or the last part was taken.
    since_ns: u64,
    end: u64,
}

struct Writer<'a> {
    /// Events not past yet.
    calls: Iter<'a, Record>,
    wanted: Option<Wanted>,
    /// Position after the last byte taken.
    taken_end: u64,
}

impl Writer<'_> {
    /// Bytes enter the send queue; the wait for it, if they were asked for before, as if it ended now.
    fn takes(&mut self, entry: &Passage) -> Option<SendBufferWait> {
        while let Some(event) = self.calls.as_slice().first().filter(|e| e.at_ns <= entry.at_ns) {
            self.calls.next();
            self.asks(event);
        }
        let Passage { at_ns: taken_ns, offset, .. } = *entry;
        let wanted = self.wanted.filter(|wanted| (self.taken_end..wanted.end).contains(&offset));
        self.taken_end = self.taken_end.max(entry.end());
        let rest = Wanted { since_ns: taken_ns, end: self.wanted.map_or(0, |wanted| wanted.end) };
        self.wanted = Some(rest).filter(|rest| rest.end > self.taken_end);
        let start_ns = wanted?.since_ns;
        let wait = SendBufferWait { start_ns, end_ns: taken_ns, taken_ns, offset };
        (start_ns < taken_ns).then_some(wait)
    }

    fn asks(&mut self, event: &Record) {
        match event.kind {
            // The same bytes again, or more of them: asked since the first time.
            Kind::WriteCall if event.offset == self.taken_end => {
                let since_ns = self.wanted.map_or(event.at_ns, |wanted| wanted.since_ns);
                self.wanted = Some(Wanted { since_ns, end: event.end() });
            }
            Kind::WriteCall => self.wanted = None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use sockscope_record::Direction;

    use crate::testing;

    /// The client's waits: from when to when, for which byte.
    fn waits(text: &str) -> Vec<String> {
        let store = testing::store(text);
        let waits = super::send_buffer_waits(&store, Direction::FromClient);
        let said = waits.iter().map(|wait| {
            let [start, end] = [wait.start_ns, wait.end_ns].map(|ns| ns / 1_000_000);
            format!("{start}..{end}ms {}", wait.offset)
        });
        said.collect()
    }

    #[test]
    fn a_call_that_sleeps_waits_from_each_part_to_the_next() {
        let text = "1ms write +3000 | 1ms 1-2 +1000 | 5ms <6 ack=500 | 9ms <6 ack=1000
                    10ms 1 +1500 | 20ms <6 ack=2500 | 20ms 1 +500";
        assert_eq!(waits(text), ["1..9ms 1000", "10..20ms 2500"]);
    }

    #[test]
    fn a_call_for_which_there_is_no_room_at_all_waits_for_its_first_byte() {
        let text = "1ms 1-2 +1000 | 2ms write at=1000 len=500 | 9ms <6 ack=1000
                    10ms 1 +500 | 11ms write at=1500 len=10 | 11ms 1 +10";
        assert_eq!(waits(text), ["2..9ms 1000"]);
    }

    #[test]
    fn one_that_asks_again_when_it_is_told_has_waited_since_the_first_time() {
        let again =
            "1ms 1-2 +1000 | 2ms write at=1000 len=500 | 2ms write-return code=11 | 9ms <6 ack=1000
                     10ms write at=1000 len=900 | 10ms 1 +900";
        assert_eq!(waits(again), ["2..9ms 1000"]);
        let partly = "1ms write +1500 | 1ms 1-2 +1000 | 1ms write-return len=1000 | 9ms <6 ack=1000
                      10ms write at=1000 len=500 | 10ms 1 +500";
        assert_eq!(waits(partly), ["1..9ms 1000"]);
    }

    #[test]
    fn who_has_written_all_that_it_asked_for_waits_for_nothing() {
        let text =
            "1ms write +1000 | 1ms 1-2 +1000 | 9ms <6 ack=1000 | 10ms write +500 | 10ms 1 +500";
        assert!(waits(text).is_empty());
    }

    #[test]
    fn only_an_acknowledgment_of_more_makes_room() {
        let wait = |acks: &str| format!("1ms write +1500 | 1ms 1-2 +1000 | {acks} | 40ms 1 +500");
        assert_eq!(waits(&wait("39ms <6 ack=1000")), ["1..39ms 1000"]);
        for acks in ["39ms <6 ack=0", "39ms <6 syn ack=1000"] {
            assert!(waits(&wait(acks)).is_empty(), "{acks}");
        }
    }

    #[test]
    fn a_writer_that_comes_late_has_had_room_since_the_acknowledgment() {
        let store =
            testing::store("1ms write +1500 | 1ms 1-2 +1000 | 9ms <6 ack=1000 | 40ms 1 +500");
        let [wait] = super::send_buffer_waits(&store, Direction::FromClient)[..] else { panic!() };
        assert_eq!((wait.end_ns, wait.taken_ns), (9_000_000, 40_000_000));
        assert!(!wait.is_prompt());
    }
}
