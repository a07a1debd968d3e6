//! Times of data in the receive queue before each read, and activity of the reader meanwhile.

use std::num::NonZeroU32;

use sockscope_record::{Point, ReaderTimes, marks};

use super::accepts::accepted;
use super::buffers::{BufferSetting, low_marks};
use super::intervals::Interval;
use crate::FlowStore;
use crate::receive_wait::is_wait_for_cpu;

/// Shorter waits are ordinary: a wake-up takes microseconds, leaving a deep idle state up to some
/// hundred, a system call between two reads about as long.
pub(super) const READ_WAIT_NS_MIN: u64 = 1_000_000;

/// Data waited from `since_ns` until the read at `read_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadWait {
    /// When the data arrived, or when the read before it took place if that left some; of a socket with
    /// `SO_RCVLOWAT`, when there was enough to wake the reader. Not before a program accepted the connection.
    pub since_ns: u64,
    pub read_ns: u64,
    /// When the read before took place; 0 for the first one.
    pub before_ns: u64,
    /// Position read from.
    pub offset: u64,
    /// The thread that read; 0 when unknown.
    pub thread: u32,
    /// A thread was blocked waiting when the data arrived. The reader is not known to have had its CPU long before it
    /// read.
    pub was_awaited: bool,
    /// Part of the wait in which the reader was runnable without a CPU; `None` when it did not fit
    /// its record.
    pub runnable_ns: Option<u64>,
}

impl ReadWait {
    pub(super) fn interval(&self) -> Interval {
        Interval::new(self.since_ns, self.read_ns)
    }

    pub(super) fn duration_ns(&self) -> u64 {
        self.read_ns - self.since_ns
    }
}

/// The waits of [`READ_WAIT_NS_MIN`] or more, in order; `reverse` is the flow that the reader's socket sends.
pub(super) fn read_waits(flow: &FlowStore, reverse: &FlowStore) -> Vec<ReadWait> {
    let mut arrivals = flow.at(Point::ReceiveEnqueue).iter().peekable();
    let mut low_marks = granted_low_marks(flow, reverse).into_iter().peekable();
    let mut enough = 1;
    let (mut entered, mut left, mut before_ns) = (0, 0, 0);
    // Since when data waits, and whether a thread was blocked for it.
    let mut waiting: Option<(u64, bool)> = None;
    let mut waits = Vec::new();
    let mut accepted_ns = accepted(flow, reverse).map_or(0, |accepted| accepted.at_ns);
    for read in flow.at(Point::ReceiveDequeue) {
        while let Some(arrival) = arrivals.next_if(|arrival| arrival.at_ns <= read.at_ns) {
            entered = arrival.end().max(entered);
            let was_awaited = arrival.marks & marks::WAITED_FOR != 0;
            while let Some((_, mark)) = low_marks.next_if(|(at_ns, _)| *at_ns <= arrival.at_ns) {
                enough = mark;
            }
            if entered >= left + enough {
                waiting = waiting.or(Some((arrival.at_ns, was_awaited)));
            }
        }
        // Only the first read may have waited for that.
        let since_ns = std::mem::take(&mut accepted_ns);
        let since = waiting.map(|(arrived_ns, awaited)| (arrived_ns.max(since_ns), awaited));
        if let Some((since_ns, was_awaited)) = since
            && read.at_ns - since_ns >= READ_WAIT_NS_MIN
        {
            // From when it last got its CPU until the read the reader had it.
            let ReaderTimes { on_cpu_ns, runnable_ns } = read.reader_times();
            let ran_ns = on_cpu_ns.map_or(read.at_ns, |ns| ns.min(read.at_ns));
            let without_cpu_ns = ran_ns.saturating_sub(since_ns);
            let was_awaited = was_awaited
                && (on_cpu_ns.is_none() || is_wait_for_cpu(runnable_ns, without_cpu_ns));
            let runnable_ns = runnable_ns.map_or(0, NonZeroU32::get);
            waits.push(ReadWait {
                since_ns,
                read_ns: read.at_ns,
                before_ns,
                offset: read.offset,
                thread: read.thread,
                was_awaited,
                runnable_ns: (runnable_ns != u32::MAX)
                    .then(|| u64::from(runnable_ns).min(without_cpu_ns)),
            });
        }
        before_ns = read.at_ns;
        left = read.end().max(left);
        waiting = (entered >= left + enough).then_some((read.at_ns, false));
    }
    waits
}

/// The marks that the kernel takes: at most half of the receive buffer (`tcp_set_rcvlowat()`).
/// Where its size is not known, a mark that was never reached counts as half of the longest queue.
fn granted_low_marks(flow: &FlowStore, reverse: &FlowStore) -> Vec<(u64, u64)> {
    let asked: Vec<_> = low_marks(reverse).collect();
    if asked.is_empty() {
        return asked;
    }
    let (room, most) = (BufferSetting::receive(reverse).data_bytes(), most_unread(flow));
    let granted = |mark: u64| match room {
        Some(room) => mark.min(room),
        None if mark > most => most / 2,
        None => mark,
    };
    asked.into_iter().map(|(at_ns, mark)| (at_ns, granted(mark).max(1))).collect()
}

/// The most bytes that ever waited in the receive queue.
fn most_unread(flow: &FlowStore) -> u64 {
    let mut reads = flow.at(Point::ReceiveDequeue).iter().peekable();
    let (mut left, mut most) = (0, 0);
    for arrival in flow.at(Point::ReceiveEnqueue) {
        while let Some(read) = reads.next_if(|read| read.at_ns < arrival.at_ns) {
            left = read.end().max(left);
        }
        most = arrival.end().saturating_sub(left).max(most);
    }
    most
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::Fixture;

    fn waits(text: &str) -> Vec<String> {
        let fixture = Fixture::new(text, "");
        let waits = fixture.with_flow(|view| super::read_waits(view.flow(), view.reverse()));
        let said = waits.iter().map(|wait| {
            let runnable = wait.runnable_ns.map_or("?".into(), super::super::phrasing::time);
            let awaited = if wait.was_awaited { "awaited " } else { "" };
            format!("{awaited}{} {runnable}", super::super::phrasing::time(wait.duration_ns()))
        });
        said.collect()
    }

    #[test]
    fn what_a_read_leaves_behind_waits_from_that_read_on() {
        let text = "1ms 7 +200 waited | 1ms 8 +100 | 51ms 8 +100 runq=2ms";
        assert_eq!(waits(text), ["50.0 ms 2.00 ms"]);
    }

    #[test]
    fn runnable_time_before_the_data_came_is_not_the_datas_wait() {
        assert_eq!(waits("10ms 7 +100 waited | 12ms 8 +100 runq=9ms"), ["awaited 2.00 ms 2.00 ms"]);
    }

    #[test]
    fn a_reader_that_got_its_cpu_before_the_data_came_did_not_lack_it_since() {
        assert_eq!(waits("10ms 7 +100 | 14ms 8 +100 runq=9ms ran=5ms"), ["4.00 ms 0 ns"]);
        assert_eq!(waits("10ms 7 +100 | 14ms 8 +100 runq=9ms ran=12ms"), ["4.00 ms 2.00 ms"]);
        assert_eq!(waits("10ms 7 +100 | 14ms 8 +100 runq=1ms ran=12ms"), ["4.00 ms 1.00 ms"]);
    }

    #[test]
    fn a_reader_that_asked_not_to_hear_of_less_is_waited_for_from_then_on() {
        let text = "0ms <option extra=65554 detail=200 | 1ms 7 +100 | 51ms 7 +150 | 61ms 8 +250";
        assert_eq!(waits(text), ["10.0 ms 0 ns"]);
        let text = "0ms <buffers high=131072 | 0ms <option extra=65554 detail=200 | 1ms 7 +100
                    51ms 8 +100";
        assert!(waits(text).is_empty());
    }

    #[test]
    fn a_mark_that_no_buffer_reaches_is_cut_by_the_kernel() {
        for asked in [i32::MAX as u32, -1_i32 as u32] {
            let text = format!(
                "0ms <buffers high=2000 | 0ms <option extra=65554 detail={asked} | 1ms 7 +600
                 11ms 7 +600 | 61ms 8 +1200"
            );
            assert_eq!(waits(&text), ["50.0 ms 0 ns"]);
            let unknown =
                format!("0ms <option extra=65554 detail={asked} | 1ms 7 +100 | 51ms 8 +100");
            assert_eq!(waits(&unknown), ["50.0 ms 0 ns"]);
        }
    }

    #[test]
    fn the_first_read_waits_from_when_the_connection_was_accepted() {
        let text = "10ms 7 +100 | 50ms <accept extra=8 | 60ms 8 +50 runq=15ms | 90ms 8 +50";
        assert_eq!(waits(text), ["10.0 ms 10.0 ms", "30.0 ms 0 ns"]);
        assert_eq!(
            waits(&text.replace("50ms <acc", "61ms <acc")),
            ["50.0 ms 15.0 ms", "30.0 ms 0 ns"]
        );
        assert_eq!(
            waits(&text.replace("50ms <acc", "5ms <acc")),
            ["50.0 ms 15.0 ms", "30.0 ms 0 ns"]
        );
    }

    #[test]
    fn a_saturated_counter_says_nothing() {
        assert_eq!(waits("1ms 7 +100 | 6s 8 +100 extra=4294967295"), ["6.00 s ?"]);
    }

    #[test]
    fn an_empty_queue_waits_for_nothing() {
        assert!(waits("1ms 7 +100 | 1ms 8 +100 | 90ms 7 +100 | 90ms 8 +100").is_empty());
    }
}
