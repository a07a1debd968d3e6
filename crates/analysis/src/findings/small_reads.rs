//! `small-reads`: a reader takes a stream in many small reads although more was there.
//!
//! A read call is known to have ended where its last byte lies within a segment: then its buffer was full, and the
//! rest of the segment stayed. A copy that ends with a segment may have been one of several of a call. The cost of
//! the calls is not recorded, so that the finding has a count and no time.

use sockscope_record::{Kind, Point};

use super::facts::FlowFacts;
use super::intervals::Interval;
use super::language::{self, Topic};
use super::phrasing;
use super::tally::Tally;
use crate::{Finding, FindingId, FlowStore, Passage};

/// Below about this a system call (some hundred nanoseconds and the socket's locks) costs more than
/// copying its bytes.
const SMALL_BYTES_MAX: u64 = 1024;

/// Bulk, not the header of a message: an order above the fields of any protocol's header. A receive window of 64 KiB
/// holds some hundred small pieces, and the queue runs empty behind it.
const RUN_READS_MIN: usize = 100;

/// Fewer reads in all are not worth a change.
const READS_MIN: u64 = 1000;

/// After a pause of this the program did something else meanwhile, which is `slow-reader`.
const PAUSE_NS_MIN: u64 = 10_000_000;

/// Size of one read of a buffered stream: the gain of larger reads levels off there.
const GOOD_READ_BYTES: u64 = 65_536;

/// One read call that left data in the receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Read {
    at_ns: u64,
    bytes: u64,
    thread: u32,
}

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let doubt = facts.doubt.of_reads();
    let mut tally = Tally::default();
    let (mut bytes, mut sizes) = (0, Vec::new());
    for run in runs(facts.view.flow(), |from_ns, until_ns| {
        doubt.touches(Interval::new(from_ns, until_ns.saturating_add(1)))
    }) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        let run_bytes: u64 = run.iter().map(|read| read.bytes).sum();
        tally.count += run.len() as u64;
        bytes += run_bytes;
        sizes.extend(run.iter().map(|read| read.bytes));
        tally.notes.add(first.at_ns, || {
            let took = phrasing::time(last.at_ns - first.at_ns);
            format!("{} reads of {run_bytes} bytes in all begin, in {took}", run.len())
        });
        tally.notes.add(last.at_ns, || {
            format!("the last of them: {} bytes, and more is there", last.bytes)
        });
    }
    if tally.count < READS_MIN {
        return None;
    }
    sizes.sort_unstable();
    let median = sockscope_record::statistics::percentile(&sizes, 50)?;
    let (receiver, calls) = (facts.receiver(), tally.count);
    let who = facts.who(receiver);
    let summary = format!(
        "The {who} took {bytes} bytes in at least {}, of {} or less at the median, although more was there. Reads of \
         64 KiB would be {}; what a call costs is not recorded.",
        phrasing::counted(calls, "read"),
        phrasing::counted(median, "byte"),
        phrasing::counted(bytes.div_ceil(GOOD_READ_BYTES), "call"),
    );
    let processes = &facts.view.store.connection.processes;
    let process = processes.iter().find(|process| process.side == receiver);
    let way = language::advice(process.map(|it| it.comm.as_str()), Topic::BufferReads);
    let fix = format!(
        "In the {who}: read 16 KiB to 64 KiB at a time, and take the messages from that buffer ({way})."
    );
    Some(tally.into_finding(FindingId::SmallReads, facts, receiver, summary, fix))
}

/// Runs of small reads, each long enough, that neither a pause nor a doubt interrupts.
fn runs(flow: &FlowStore, is_doubtful: impl Fn(u64, u64) -> bool) -> Vec<Vec<Read>> {
    let reads = reads(flow);
    let belong_together = |a: &Read, b: &Read| {
        a.thread == b.thread
            && a.bytes <= SMALL_BYTES_MAX
            && b.bytes <= SMALL_BYTES_MAX
            && b.at_ns.saturating_sub(a.at_ns) < PAUSE_NS_MIN
            && !is_doubtful(a.at_ns, b.at_ns)
    };
    let runs = reads.chunk_by(belong_together);
    runs.filter(|run| run.len() >= RUN_READS_MIN).map(<[Read]>::to_vec).collect()
}

/// Reads that are known to have left something, in order. The bytes between two known ends count as one read: they
/// may have been several. A queue that ran empty ends a read too, of unknown size: it counts as a large one.
fn reads(flow: &FlowStore) -> Vec<Read> {
    let copies = flow.at(Point::ReceiveDequeue).iter();
    let small = copies.filter(|copy| u64::from(copy.len) <= SMALL_BYTES_MAX).count() as u64;
    if small < READS_MIN {
        return Vec::new();
    }
    let segments = Segments::of(flow);
    let returns = flow.events_of(Kind::ReadReturn);
    let returned: Vec<u64> = returns.map(sockscope_record::Record::end).collect();
    let mut arrivals = flow.at(Point::ReceiveEnqueue).iter().peekable();
    let (mut arrived, mut bytes) = (0, 0_u64);
    let mut reads = Vec::new();
    for copy in flow.at(Point::ReceiveDequeue).iter().filter(|copy| copy.len > 0) {
        while let Some(arrival) = arrivals.next_if(|arrival| arrival.at_ns <= copy.at_ns) {
            arrived = arrival.end().max(arrived);
        }
        bytes = bytes.saturating_add(u64::from(copy.len));
        let (at_ns, thread) = (copy.at_ns, copy.thread);
        if copy.end() >= arrived {
            reads.push(Read { at_ns, bytes: u64::MAX, thread });
            bytes = 0;
        } else if segments.cut(copy.end()) || returned.binary_search(&copy.end()).is_ok() {
            reads.push(Read { at_ns, bytes: std::mem::take(&mut bytes), thread });
        }
    }
    reads
}

/// Start and end of segments, as TCP took them.
struct Segments(Vec<(u64, u64)>);

impl Segments {
    fn of(flow: &FlowStore) -> Self {
        let seen = [Point::InputDequeue, Point::InputEnqueue].map(|point| flow.at(point));
        let seen = seen.into_iter().find(|passes| passes.iter().any(|pass| pass.len > 0));
        let passes = seen.unwrap_or_default().iter().filter(|pass| pass.len > 0);
        let mut ranges: Vec<_> = passes.map(|pass: &Passage| (pass.offset, pass.end())).collect();
        ranges.sort_unstable();
        Self(ranges)
    }

    /// Whether the position lies within one of them, and no segment near it begins or ends there.
    fn cut(&self, position: u64) -> bool {
        let after = self.0.partition_point(|&(start, _)| start < position);
        let begins = self.0.get(after).is_some_and(|&(start, _)| start == position);
        let before = &self.0[after.saturating_sub(OVERLAPS_MAX)..after];
        let within = before.last().is_some_and(|&(_, end)| end > position);
        within && !begins && before.iter().all(|&(_, end)| end != position)
    }
}

/// Number of segments that are searched backwards for one that ends at a position: retransmitted bytes overlap.
const OVERLAPS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::findings::testing::{evidence, found};

    const BUSY: &str = "0ms receive_queue.app | 100ms end";

    /// Segments of `segment` bytes arrive at once, and are copied in pieces of `copies` bytes, one each period.
    fn stream(segment: u64, copies: &[u64], period_us: u64) -> String {
        let total: u64 = copies.iter().sum();
        let segments = total.div_ceil(segment) + 1;
        let arrivals = (0..segments).map(|_| format!("1ms 5-7 +{segment}"));
        let copies = copies
            .iter()
            .enumerate()
            .map(|(i, bytes)| format!("{}us 8 +{bytes} thread=7", 2000 + i as u64 * period_us));
        arrivals.chain(copies).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn a_stream_read_in_small_pieces_is_found() {
        let text = stream(65_483, &[100; 2000], 10);
        assert_snapshot!(found(&text, BUSY), @"small-reads @server 2000x 0 ns: The server took 200000 bytes in at least 2000 reads, of 100 bytes or less at the median, although more was there. Reads of 64 KiB would be 4 calls; what a call costs is not recorded.");
        assert_snapshot!(evidence(&text, BUSY), @r"
        2000 reads of 200000 bytes in all begin, in 20.0 ms
        the last of them: 100 bytes, and more is there
        ");
    }

    #[test]
    fn large_reads_of_small_segments_are_silent() {
        assert_snapshot!(found(&stream(100, &[100; 2000], 1), BUSY), @"");
    }

    #[test]
    fn reads_of_two_copies_count_once() {
        // Of 150 bytes: the first one ends within the second segment.
        let text = stream(100, &[100, 50, 50, 100].repeat(1000), 5);
        assert_snapshot!(found(&text, BUSY), @"small-reads @server 1000x 0 ns: The server took 299850 bytes in at least 1000 reads, of 300 bytes or less at the median, although more was there. Reads of 64 KiB would be 5 calls; what a call costs is not recorded.");
    }

    #[test]
    fn a_reader_that_takes_all_that_is_there_is_silent() {
        let text: Vec<_> = (0..2000)
            .map(|i| format!("{0}us 5-7 +100 | {0}us 8 +100 thread=7", 1000 + i * 10))
            .collect();
        assert_snapshot!(found(&text.join(" | "), BUSY), @"");
    }

    #[test]
    fn a_header_before_each_message_is_no_stream() {
        let text: Vec<_> = (0..2000)
            .map(|i| {
                let at = 1000 + i * 10;
                format!("{at}us 5-7 +104 | {at}us 8 +4 thread=7 | {}us 8 +100 thread=7", at + 2)
            })
            .collect();
        assert_snapshot!(found(&text.join(" | "), BUSY), @"");
    }

    #[test]
    fn larger_and_rarer_reads_are_silent() {
        assert_snapshot!(found(&stream(65_483, &[1025; 2000], 10), BUSY), @"");
        assert_snapshot!(found(&stream(65_483, &[100; 999], 10), BUSY), @"");
        let paused = found(&stream(65_483, &[100; 1100], 10_000), "0ms app_idle | 30s end");
        assert!(!paused.contains("small-reads"), "{paused}");
    }

    #[test]
    fn where_segments_or_reads_may_have_been_missed_it_is_silent() {
        let text = stream(65_483, &[100; 2000], 10);
        let missed = "30ms loss from=1ms detail=1 code=8";
        assert_eq!(found(&format!("{text} | {missed}"), BUSY), "");
    }

    /// With calls recorded, also where each ends with a segment.
    #[test]
    fn calls_that_were_seen_returning_need_no_segment() {
        let text = stream(100, &[100; 2000], 10);
        let returns = (0..2000).map(|i| format!("{}us read-return +100", 2001 + i * 10));
        let returns = returns.collect::<Vec<_>>().join(" | ");
        assert_snapshot!(found(&format!("{text} | {returns}"), BUSY), @"small-reads @server 2000x 0 ns: The server took 200000 bytes in at least 2000 reads, of 100 bytes or less at the median, although more was there. Reads of 64 KiB would be 4 calls; what a call costs is not recorded.");
    }
}
