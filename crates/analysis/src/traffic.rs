//! What a flow carried: bytes, segments, bursts, and the sizes of the program's writes and reads.

use sockscope_record::{Kind, Point, marks};

use crate::flow_curves::FlowCurves;
use crate::loss::Losses;
use crate::ranges;
use crate::{BurstSummary, Distribution, FlowStore, Pass};

/// Segments with at least this much time between them belong to different bursts.
const BURST_GAP_NS: u64 = 1_000_000;
/// Copies to one thread with less than this between them belong to one read call.
const READ_GAP_NS: u64 = 20_000;

/// Segments with data, where TCP hands them to IP; where that was not seen, at the first interface
/// point that was.
pub(crate) fn segments(flow: &FlowStore) -> impl Iterator<Item = &Pass> {
    let points = [Point::SendDequeue, Point::InterfaceEnqueue, Point::InterfaceDequeue];
    let passes = points.into_iter().map(|point| flow.at(point));
    let seen = passes.into_iter().find(|passes| passes.iter().any(|pass| pass.len > 0));
    seen.unwrap_or_default().iter().filter(|pass| pass.len > 0)
}

/// Bytes sent again: those that passed point 2 when they had already done so, or those that TCP said
/// it sends again if there are more of these. With neither seen, passes at the first point beyond
/// that saw any and that carry the mark.
pub(crate) fn retransmitted_bytes(flow: &FlowStore, curves: &FlowCurves) -> u64 {
    let taken = curves.at(Point::SendDequeue);
    let events = flow.events.iter().filter(|event| event.kind == Kind::Retransmit);
    let said: u64 = events.map(|event| u64::from(event.len)).sum();
    if taken.passed_bytes > 0 || said > 0 {
        return taken.repeated_bytes.max(said);
    }
    let beyond = flow.passes[2..6].iter().find(|passes| !passes.is_empty());
    let marked = beyond.into_iter().flatten().filter(|pass| pass.marks & marks::RETRANSMITTED != 0);
    marked.map(|pass| u64::from(pass.len)).sum()
}

/// Distinct bytes a second, from the first byte at the first point that saw any to the last byte at
/// the last point that did, of those that came so far: what lies unread or was dropped did not pass.
/// `None` when that takes no time, none did, the last time there is unknown, or the reader's end was
/// watched and nothing was read there.
pub(crate) fn throughput(curves: &FlowCurves) -> Option<f64> {
    let is_unread = curves.observed[Point::ReceiveDequeue.index()]
        && curves.at(Point::ReceiveDequeue).is_empty();
    let last = curves.last_passed().filter(|last| !last.is_cut && !is_unread)?;
    let first = curves.first_seen()?;
    let start_ns = first.runs.iter().map(|run| run.at_ns).min()?;
    let end_ns = last.runs.iter().map(|run| run.at_ns).max()?;
    let seconds = end_ns.checked_sub(start_ns).filter(|&ns| ns > 0)? as f64 / 1e9;
    // By position, so that records lost at the last point cost no bytes.
    let beyond = [(last.end(), u64::MAX)];
    let gone = ranges::union(&curves.dropped.covered, &beyond);
    let passed = ranges::total(&ranges::minus(&first.covered, &gone));
    (passed > 0).then_some(passed as f64 / seconds)
}

/// Segments grouped by the time between them.
pub(crate) fn bursts(flow: &FlowStore) -> BurstSummary {
    let (mut bytes, mut durations_ns, mut gaps_ns) = (Vec::new(), Vec::new(), Vec::new());
    // First and last time of the open burst.
    let mut open: Option<(u64, u64)> = None;
    for segment in segments(flow) {
        match open {
            Some((first_ns, last_ns)) if segment.at_ns - last_ns < BURST_GAP_NS => {
                open = Some((first_ns, segment.at_ns));
            }
            before => {
                if let Some((first_ns, last_ns)) = before {
                    durations_ns.push(last_ns - first_ns);
                    gaps_ns.push(segment.at_ns - last_ns);
                }
                bytes.push(0);
                open = Some((segment.at_ns, segment.at_ns));
            }
        }
        if let Some(sum) = bytes.last_mut() {
            *sum += u64::from(segment.len);
        }
    }
    durations_ns.extend(open.map(|(first_ns, last_ns)| last_ns - first_ns));
    BurstSummary {
        count: bytes.len() as u64,
        bytes: Distribution::of(&mut bytes),
        duration_ns: Distribution::of(&mut durations_ns),
        gap_ns: Distribution::of(&mut gaps_ns),
    }
}

/// Bytes that each write call asked to send.
pub(crate) fn write_bytes(flow: &FlowStore) -> Option<Distribution> {
    let calls = flow.events.iter().filter(|event| event.kind == Kind::WriteCall);
    Distribution::of(&mut calls.map(|call| u64::from(call.len)).collect::<Vec<_>>())
}

/// The program's reads of a flow.
pub(crate) struct Reads {
    /// Bytes that each call returned, failed ones left out, and of a stream empty ones.
    pub bytes: Option<Distribution>,
    /// Of a stream: they are of copies, as no call was seen returning.
    pub are_guessed: bool,
    /// Where they are, the most that was seen copied at once.
    pub copied_max: Option<u64>,
}

/// Where no call was seen returning, reads are guessed: copies to the same thread less than 20 us apart
/// count as one call unless the first of them was seen to leave nothing to be read. A program that reads
/// all the time then seems to read without end, so that the largest single copy comes along, which no call
/// can have had less of. Of datagrams each copy is a call.
pub(crate) fn reads(flow: &FlowStore, is_stream: bool, losses: &Losses) -> Reads {
    let returns = flow.events.iter().filter(|event| event.kind == Kind::ReadReturn);
    let returned = returns.filter(|event| event.code == 0 && event.len > 0);
    let mut sizes: Vec<u64> = returned.map(|event| u64::from(event.len)).collect();
    let none_returned = sizes.is_empty();
    if none_returned {
        sizes = copied_bytes(flow, is_stream);
    }
    let are_guessed = is_stream && none_returned && !sizes.is_empty();
    let copied_max = are_guessed.then(|| single_copies(flow, losses).max()).flatten();
    Reads { bytes: Distribution::of(&mut sizes), are_guessed, copied_max }
}

/// Bytes of each copy; not of one behind a lost record, which may be two: their bytes are counted from
/// the copy that was seen before.
fn single_copies(flow: &FlowStore, losses: &Losses) -> impl Iterator<Item = u64> {
    let mut since_ns = 0;
    flow.at(Point::ReceiveDequeue).iter().filter(|copy| copy.len > 0).filter_map(move |copy| {
        let before_ns = std::mem::replace(&mut since_ns, copy.at_ns);
        let is_doubtful = losses.within(Point::ReceiveDequeue, before_ns, copy.at_ns).is_some();
        (!is_doubtful).then_some(u64::from(copy.len))
    })
}

fn copied_bytes(flow: &FlowStore, grouped: bool) -> Vec<u64> {
    let mut arrivals = flow.at(Point::ReceiveEnqueue).iter().peekable();
    let mut arrived = 0;
    let mut sizes: Vec<u64> = Vec::new();
    // The last copy, unless it left nothing to be read, which ends a call. Where less was seen to
    // arrive than was read, what is left is not known.
    let mut last: Option<&Pass> = None;
    let copies = flow.at(Point::ReceiveDequeue).iter();
    for copy in copies.filter(|copy| copy.len > 0 || !grouped) {
        while let Some(arrival) = arrivals.next_if(|arrival| arrival.at_ns <= copy.at_ns) {
            arrived = arrival.end().max(arrived);
        }
        let continues =
            |last: &Pass| last.thread == copy.thread && copy.at_ns - last.at_ns < READ_GAP_NS;
        match sizes.last_mut() {
            Some(size) if grouped && last.is_some_and(continues) => *size += u64::from(copy.len),
            _ => sizes.push(u64::from(copy.len)),
        }
        last = Some(copy).filter(|copy| copy.end() != arrived);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use sockscope_record::{Connection, Protocol};

    use super::*;
    use crate::{LossInterval, testing};

    #[test]
    fn a_millisecond_without_a_segment_ends_a_burst() {
        let store = testing::store("1ms 2 +100 | 1500us 2 +100 | 2499us 2 +50 | 9ms 2 +10");
        let bursts = bursts(&store.flows[0]);
        assert_eq!(bursts.count, 2);
        assert_eq!(bursts.bytes.unwrap().max, 250);
        assert_eq!(bursts.duration_ns.unwrap().max, 1_499_000);
        assert_eq!(bursts.gap_ns.unwrap().max, 6_501_000);
    }

    #[test]
    fn a_failed_read_has_no_size() {
        let store = testing::store("1us read-return +300 | 2us read-return code=11");
        let reads = reads(&store.flows[0], true, &Losses::default());
        assert_eq!((reads.bytes.unwrap().count, reads.copied_max), (1, None));
    }

    #[test]
    fn copies_close_together_are_one_read_when_no_call_was_seen() {
        let text = "0us 7 +251 | 1us 8 +100 thread=7 | 2us 8 +100 thread=7 | 3us 8 +50 thread=9
                    90us 8 +1 thread=9";
        let store = testing::store(text);
        assert_eq!(copied_bytes(&store.flows[0], true), [200, 50, 1]);
        assert_eq!(copied_bytes(&store.flows[0], false), [100, 100, 50, 1]);
        let copied_max =
            |is_stream| reads(&store.flows[0], is_stream, &Losses::default()).copied_max;
        assert_eq!((copied_max(true), copied_max(false)), (Some(100), None));
    }

    #[test]
    fn an_empty_datagram_is_read_and_an_empty_copy_of_a_stream_is_no_read() {
        let store = testing::store("1us 8 +0 | 2us 8 +10 | 3us 8 +0");
        assert_eq!(copied_bytes(&store.flows[0], false), [0, 10, 0]);
        assert_eq!(copied_bytes(&store.flows[0], true), [10]);
    }

    #[test]
    fn the_largest_of_reads_that_follow_at_once_is_at_least_the_largest_copy() {
        let copies = (1..100).map(|us| format!("{us}us 8 +65536 thread=7"));
        let store =
            testing::store(&format!("0us 7 +9000000 | {}", copies.collect::<Vec<_>>().join("|")));
        let reads = reads(&store.flows[0], true, &Losses::default());
        assert_eq!((reads.bytes.unwrap().max, reads.copied_max), (99 * 65_536, Some(65_536)));
    }

    #[test]
    fn where_nothing_was_read_nothing_is_guessed() {
        let store = testing::store("1us 7 +100");
        let reads = reads(&store.flows[0], true, &Losses::default());
        assert_eq!((reads.bytes, reads.are_guessed, reads.copied_max), (None, false, None));
    }

    #[test]
    fn a_copy_behind_a_lost_one_may_be_two() {
        let store = testing::store("1us 8 +100 | 100us 8 +90000 | 101us 8 +200");
        let loss = LossInterval {
            start_ns: 50_000,
            end_ns: 60_000,
            point: Some(Point::ReceiveDequeue),
            count: 3,
            of_datagrams: false,
        };
        let copied_max = |losses: &[LossInterval]| {
            let losses = Losses::touching(Protocol::Tcp, losses);
            reads(&store.flows[0], true, &losses).copied_max
        };
        assert_eq!((copied_max(&[]), copied_max(&[loss])), (Some(90_000), Some(200)));
    }

    #[test]
    fn a_copy_that_leaves_nothing_ends_its_call() {
        let text = "1us 7 +100 | 2us 8 +100 thread=7 | 3us 7 +100 | 4us 8 +60 thread=7
                    5us 8 +40 thread=7 | 6us 7 +10 | 7us 8 +10 thread=7";
        assert_eq!(copied_bytes(&testing::store(text).flows[0], true), [100, 100, 10]);
    }

    #[test]
    fn copies_of_what_was_not_seen_to_arrive_are_grouped_by_time() {
        let text = "2us 8 +100 thread=7 | 4us 8 +60 thread=7 | 5us 7 260..300 | 6us 8 +40 thread=7
                    7us 8 200..300 thread=7 | 8us 8 300..350 thread=7";
        assert_eq!(copied_bytes(&testing::store(text).flows[0], true), [300, 50]);
    }

    #[test]
    fn what_passed_point_2_twice_was_sent_again() {
        let flow = &testing::analyze(
            "1us 1-2 +300 | 9ms 2 100..200 retransmitted | 9ms retransmit 100..200 | 10ms 3-8 +300",
        )
        .flows[0];
        assert_eq!((flow.bytes, flow.retransmitted_bytes, flow.segments), (300, 100, 2));
    }

    #[test]
    fn empty_datagrams_are_counted_and_empty_segments_are_not() {
        let text = "1us 1-8 +100 | 2us 1-8 +0 | 3us 1-8 +50";
        let udp = Connection { protocol: Protocol::Udp, ..testing::connection(1) };
        let segments = |connection| testing::analyze_of(connection, text).flows[0].segments;
        assert_eq!((segments(udp), segments(testing::connection(1))), (3, 2));
    }

    #[test]
    fn what_passed_point_2_again_counts_as_sent_again_though_the_first_time_was_lost() {
        let flow = &testing::analyze(
            "1us 1 +100 | 2us 3-8 +100 | 5us loss code=2 from=1us | 9ms 2 +100 retransmitted",
        )
        .flows[0];
        assert_eq!((flow.bytes, flow.retransmitted_bytes), (100, 100));
    }

    #[test]
    fn what_passed_a_point_unseen_was_not_sent_again() {
        let udp = Connection { protocol: Protocol::Udp, ..testing::connection(1) };
        let text = "10us 1 0..100 | 20us loss code=2 from=5us detail=1 | 20us 3 100..200";
        let flow = &testing::analyze_of(udp.clone(), text).flows[0];
        assert_eq!((flow.bytes, flow.retransmitted_bytes), (100, 0));
        let twice = format!("{text} | 25us 2 300..400 | 30us 2 300..400");
        assert_eq!(testing::analyze_of(udp, &twice).flows[0].retransmitted_bytes, 100);
    }

    #[test]
    fn throughput_runs_from_the_first_write_to_the_last_read() {
        let flow = &testing::analyze("1ms 1-7 +1000 | 3ms 8 +1000").flows[0];
        assert_eq!(flow.throughput_bytes_per_s, Some(500_000.0));
    }

    #[test]
    fn where_the_reader_is_seen_and_reads_nothing_there_is_no_throughput() {
        let of = |text| testing::analyze(text).flows[0].throughput_bytes_per_s;
        assert_eq!(of("1ms 1 +1000 | 2ms 2-7 +1000"), None);
        // Of the sending host alone, whose records have no reader.
        let sender = Connection { both_ends_here: false, ..testing::connection(1) };
        let flow = &testing::analyze_of(sender, "1ms 1 +1000 | 2ms 2-4 +1000").flows[0];
        assert_eq!(flow.throughput_bytes_per_s, Some(1_000_000.0));
    }

    #[test]
    fn what_nobody_read_is_no_throughput() {
        let flow = &testing::analyze("1ms 1-7 +1000 | 3ms 8 +1000 | 4ms 1-7 +9000").flows[0];
        assert_eq!((flow.bytes, flow.throughput_bytes_per_s), (10_000, Some(500_000.0)));
    }

    /// IP was not seen to take a datagram, so that since then nothing tells which one is read when.
    #[test]
    fn where_the_end_is_unknown_there_is_no_throughput() {
        let udp = Connection { protocol: Protocol::Udp, ..testing::connection(1) };
        let of =
            |text: &str| testing::analyze_of(udp.clone(), text).flows[0].throughput_bytes_per_s;
        let read = "1us 1-8 +100 | 2us 1-8 +100";
        let unseen = "10us 1-5 +100 | 12us loss code=6 from=9us detail=1";
        let later = "20us 1-5 +100 | 20us 6-8 +100 | 90us 1-5 +100 | 90us 6-8 +100";
        assert_eq!(of(&format!("{read} | {unseen} | {later}")), None);
        assert_eq!(of(&format!("{unseen} | {later}")), None, "of no read is it known when");
        assert_eq!(of(&format!("{read} | {unseen}")), Some(2e8), "all reads came before");
        let gone = "10us 1-7 +100 | 40us loss code=8 from=10us detail=1 | 40us 8 200..300 derived";
        let mismatch = "30us 1-5 +100 | 32us loss code=6 from=30us detail=1";
        assert_eq!(of(&format!("{read} | {gone} | {mismatch}")), None, "gone by then, not when");
    }
}
