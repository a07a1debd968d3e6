//! `send-buffer-limited` of Unix sockets: unread bytes fill a buffer that the program made smaller than Linux does.
//!
//! It holds too little if the reader has taken all of them while the writer, which has more, is not back yet. A
//! larger one would have kept the reader busy meanwhile.

use sockscope_record::Point;

use super::facts::FlowFacts;
use super::intervals::{Interval, Intervals};
use super::phrasing;
use super::tally::Tally;
use crate::send_buffer_wait::SendBufferWait;
use crate::{Finding, FindingId, FlowView};

/// A habit, not the start of the transfer.
const COUNT_MIN: usize = 10;
const SHARE_PERCENT_MIN: u64 = 10;

/// `SK_WMEM_DEFAULT` (net/core/sock.c), the usual net.core.wmem_default. A writer of such a buffer may be late too,
/// and a size that a program set is not the cause.
const USUAL_BYTES: u64 = 212_992;

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let bytes = facts.send_buffer.granted_bytes.filter(|bytes| *bytes < USUAL_BYTES)?;
    if !facts.send_buffer.is_set_by_program {
        return None;
    }
    let room = facts.send_buffer.data_bytes()?;
    let waits = facts.send_buffer_waits.iter();
    let starved = waits.filter_map(|wait| starved(facts.view, wait, room));
    let costs = Intervals::union_of(starved).without(&facts.doubt.sending);
    let active_ns = facts.busy_ns.saturating_add(costs.total_ns());
    let is_share =
        u128::from(costs.total_ns()) * 100 >= u128::from(active_ns) * u128::from(SHARE_PERCENT_MIN);
    if costs.len() < COUNT_MIN || !is_share {
        return None;
    }
    let mut tally = Tally::of_times(costs.len(), &costs);
    for one in costs.iter() {
        tally.notes.add(one.start_ns, || {
            let waited = phrasing::time(one.duration_ns());
            format!("the reader has all bytes, and the next ones are written {waited} later")
        });
    }
    let (sender, receiver) = (facts.who(facts.sender()), facts.who(facts.receiver()));
    let summary = format!(
        "The {sender} was blocked {} in write while the {receiver} had read everything ({} of {} with bytes to move): \
         its send buffer of {bytes} bytes holds too little.",
        phrasing::counted(tally.count, "time"),
        phrasing::percent(tally.cost_ns, active_ns),
        phrasing::time(active_ns),
    );
    let fix = format!(
        "In the {sender}: do not set SO_SNDBUF (net.core.wmem_default holds then), or set it higher."
    );
    Some(tally.into_finding(FindingId::SendBufferLimited, facts, facts.sender(), summary, fix))
}

/// The part of a wait for room in which nothing was left to read, if a full buffer caused it.
fn starved(view: &FlowView<'_>, wait: &SendBufferWait, room: u64) -> Option<Interval> {
    let reads = view.flow().at(Point::ReceiveDequeue);
    let before = reads.partition_point(|read| read.at_ns <= wait.start_ns);
    let read_end = before.checked_sub(1).map_or(0, |index| reads[index].end());
    if wait.offset.saturating_sub(read_end) < room {
        return None;
    }
    let last = reads.get(reads.partition_point(|read| read.end() < wait.offset))?;
    let from_ns = last.at_ns.max(wait.start_ns);
    (from_ns < wait.taken_ns).then(|| Interval::new(from_ns, wait.taken_ns))
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::Fixture;
    use insta::assert_snapshot;

    const SET: &str = "0ms buffers detail=8192 code=1 |";

    /// Twenty times the queue takes 8000 bytes of one call. They are read after 100 us, the next ones follow after 1 ms.
    fn found(buffers: &str, read: &str) -> String {
        let round = |i: u64| {
            let at = i * 1_000;
            format!("{at}us 1-7 +8000 | {}us 8 {read} |", at + 100)
        };
        let rounds: String = (0..20).map(round).collect();
        let text = format!("{buffers} 0ms write +160000 | {rounds} 20ms write-return len=160000");
        Fixture::new(&text, "0ms receive_queue.wakeup | 2ms send_buffer.writer | 20ms end")
            .unix()
            .found()
    }

    #[test]
    fn a_writer_that_is_late_for_a_small_buffer_is_found() {
        assert_snapshot!(found(SET, "+8000"), @"send-buffer-limited @client 19x 17.1 ms: The client was blocked 19 times in write while the server had read everything (90 % of 19.1 ms with bytes to move): its send buffer of 8192 bytes holds too little.");
    }

    #[test]
    fn a_buffer_that_the_kernel_sized_is_not_too_small() {
        assert_snapshot!(found("0ms buffers detail=8192 code=0 |", "+8000"), @"");
    }

    #[test]
    fn a_large_buffer_that_the_program_set_is_not_too_small() {
        assert_snapshot!(found("0ms buffers detail=425984 code=1 |", "+8000"), @"");
    }

    #[test]
    fn a_buffer_that_is_not_full_stops_no_writer() {
        assert_snapshot!(found("0ms buffers detail=65536 code=1 |", "+8000"), @"");
    }

    #[test]
    fn while_bytes_are_left_to_read_the_buffer_is_not_the_limit() {
        assert_snapshot!(found(SET, "+4000"), @"");
    }
}
