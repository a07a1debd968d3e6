//! Traffic of a flow: bytes, segments, bursts, and the sizes of the program's writes and reads.

use sockscope_record::{Direction, Kind, Point, marks};

use crate::curve::Curve;
use crate::flow_curves::FlowCurves;
use crate::packets::retransmissions;
use crate::ranges::{self, Range};
use crate::record_loss_times::Losses;
use crate::{AtLeast, BurstSummary, ConnectionStore, Distribution, FlowStore, Passage};

/// Segments with at least this much time between them belong to different bursts.
const BURST_GAP_NS: u64 = 1_000_000;
/// Copies to one thread with less than this between them belong to one read call.
const READ_GAP_NS: u64 = 20_000;

/// The first point behind the send queue at which packets of a flow were seen: TCP takes segments there, or the
/// capture or the receiver's host sees them.
pub(crate) fn segments_point(flow: &FlowStore) -> Option<Point> {
    let mut behind = Point::ALL[1..6].iter().copied();
    behind.find(|point| !flow.at(*point).is_empty())
}

/// Segments with data, where TCP hands them to IP; where that was not seen, at the first interface
/// point that was.
pub(crate) fn segments(flow: &FlowStore) -> impl Iterator<Item = &Passage> {
    let points = [Point::SendDequeue, Point::InterfaceEnqueue, Point::InterfaceDequeue];
    let passes = points.into_iter().map(|point| flow.at(point));
    let seen = passes.into_iter().find(|passes| passes.iter().any(|pass| pass.len > 0));
    seen.unwrap_or_default().iter().filter(|pass| pass.len > 0)
}

/// Retransmitted bytes: those that passed point 2 more than once, or those that TCP reported as
/// retransmitted if these are more. Without either, the marked passes at the first point beyond that
/// saw any.
pub(crate) fn retransmitted_bytes(flow: &FlowStore, curves: &FlowCurves) -> u64 {
    let taken = curves.at(Point::SendDequeue);
    let said: u64 = retransmissions(flow).map(|event| u64::from(event.len)).sum();
    if curves.is_uncertain {
        // Behind the loss first transmissions may look like repetitions.
        return said;
    }
    if taken.passed_bytes > 0 || said > 0 {
        return taken.repeated_bytes.max(said);
    }
    let beyond = flow.passages[2..6].iter().find(|passes| !passes.is_empty());
    let marked = beyond.into_iter().flatten().filter(|pass| pass.marks & marks::RETRANSMITTED != 0);
    marked.map(|pass| u64::from(pass.len)).sum()
}

/// Distinct bytes that passed the first point seen: those seen there, and those that positions elsewhere show to
/// have passed it unseen.
pub(crate) fn bytes(curves: &FlowCurves) -> u64 {
    ranges::total(&carried(curves))
}

fn carried(curves: &FlowCurves) -> Vec<Range> {
    let Some(first) = curves.first_passed() else { return Vec::new() };
    if first.unknown_ns().next().is_none() {
        return first.covered.clone();
    }
    ranges::union(&first.missed_ranges(), &curves.seen())
}

/// Figures that missed records may have made too small.
pub(crate) fn at_least(
    store: &ConnectionStore,
    direction: Direction,
    curves: &FlowCurves,
    losses: &Losses,
) -> AtLeast {
    if losses.intervals.is_empty() {
        return AtLeast::default();
    }
    let connection = &store.connection;
    let until_ns = connection.closed_ns.map_or(u64::MAX, |closed_ns| {
        store.last_ns().map_or(closed_ns, |last_ns| last_ns.max(closed_ns))
    });
    let opened_ns = store.start_ns().map_or(0, |first_ns| first_ns.min(connection.opened_ns));
    let missed = |point| losses.within_hits(point, opened_ns, until_ns).is_some();
    let missed_beside = losses.beside_points(opened_ns, until_ns);
    let is_touched = |point| curves.at(point).unknown_ns().next().is_some();
    let bytes = match curves.first_passed() {
        Some(first) => first.may_have_more(),
        None => curves.curves.iter().any(Curve::may_have_more),
    };
    let flow = store.flow(direction);
    let has_returns = flow.events.has(&[Kind::ReadReturn]);
    let segments = missed(segments_point(flow).unwrap_or(Point::SendDequeue));
    AtLeast {
        bytes,
        throughput: curves
            .first_passed()
            .is_some_and(|first| !first.blind.is_empty() || first.unknown_from_ns.is_some()),
        segments,
        retransmitted: segments || missed_beside,
        drops: missed_beside,
        acks: Point::ALL[2..6].iter().any(|point| missed(*point)),
        bursts: segments,
        writes: is_touched(Point::SendEnqueue),
        reads: if has_returns { missed_beside } else { is_touched(Point::ReceiveDequeue) },
    }
}

/// Distinct bytes a second that reached the last point, from the first byte at the first point that
/// saw any to the last byte there: unread or dropped bytes did not pass. `None` when that takes no
/// time, no byte passed, the last time there is unknown, or the reader's end was watched and no
/// byte was read there.
pub(crate) fn throughput(curves: &FlowCurves) -> Option<f64> {
    let is_touched = curves.curves.iter().any(|curve| curve.unknown_ns().next().is_some());
    let is_unread = curves.observed[Point::ReceiveDequeue.index()]
        && curves.at(Point::ReceiveDequeue).is_empty();
    let last = curves.last_passed().filter(|last| !last.is_cut && !is_unread)?;
    let first = curves.first_seen()?;
    let start_ns = first.seen.iter().map(|run| run.at_ns).min()?;
    let end_ns = last.seen.iter().map(|run| run.at_ns).max()?;
    let seconds = end_ns.checked_sub(start_ns).filter(|&ns| ns > 0)? as f64 / 1e9;
    // By position, so that records missed at the last point cost no bytes.
    let beyond = [(last.end(), u64::MAX)];
    let gone = ranges::union(&curves.dropped.covered, &beyond);
    // Where the first bytes were missed, the time begins behind them.
    let passed = match is_touched {
        true => {
            let first_seen = first.seen.iter().min_by_key(|run| run.at_ns)?.offset;
            ranges::from(&carried(curves), first_seen)
        }
        false => first.covered.clone(),
    };
    let passed = ranges::total(&ranges::minus(&passed, &gone));
    (passed > 0).then_some(passed as f64 / seconds)
}

/// A burst of segments.
struct Burst {
    first_ns: u64,
    last_ns: u64,
    bytes: u64,
    /// Whether no record between its first and its last segment was missed.
    is_whole: bool,
}

/// Segments grouped by the time between them. Two with a loss between them may have had others between them:
/// they count as one burst, with neither size nor duration known.
pub(crate) fn bursts(flow: &FlowStore, losses: &Losses) -> BurstSummary {
    let mut bursts: Vec<Burst> = Vec::new();
    let mut gaps_ns = Vec::new();
    for segment in segments(flow) {
        let (at_ns, bytes) = (segment.at_ns, u64::from(segment.len));
        let next = Burst { first_ns: at_ns, last_ns: at_ns, bytes, is_whole: true };
        let Some(last) = bursts.last_mut() else {
            bursts.push(next);
            continue;
        };
        debug_assert!(last.first_ns <= last.last_ns && last.last_ns <= at_ns);
        let is_whole = losses.within_hits(Point::SendDequeue, last.last_ns, at_ns).is_none();
        if is_whole && at_ns - last.last_ns >= BURST_GAP_NS {
            gaps_ns.push(at_ns - last.last_ns);
            bursts.push(next);
        } else {
            last.last_ns = at_ns;
            last.bytes = last.bytes.saturating_add(bytes);
            last.is_whole &= is_whole;
        }
    }
    debug_assert!(gaps_ns.len() < bursts.len().max(1), "a gap lies between two bursts");
    let whole = || bursts.iter().filter(|burst| burst.is_whole);
    let mut bytes: Vec<u64> = whole().map(|burst| burst.bytes).collect();
    let durations_ns = whole().map(|burst| burst.last_ns - burst.first_ns);
    let mut durations_ns: Vec<u64> = durations_ns.collect();
    BurstSummary {
        count: bursts.len() as u64,
        bytes: Distribution::of(&mut bytes),
        duration_ns: Distribution::of(&mut durations_ns),
        gap_ns: Distribution::of(&mut gaps_ns),
    }
}

/// Bytes that each write call asked to send. Behind a loss the first part of a call may be missing.
pub(crate) fn write_bytes(flow: &FlowStore, losses: &Losses) -> Option<Distribution> {
    let calls = flow.events_of(Kind::WriteCall);
    let mut before_ns = 0;
    let whole = calls.filter(|call| {
        let before_ns = std::mem::replace(&mut before_ns, call.at_ns);
        losses.within_hits(Point::SendEnqueue, before_ns, call.at_ns).is_none()
    });
    Distribution::of(&mut whole.map(|call| u64::from(call.len)).collect::<Vec<_>>())
}

/// The program's reads of a flow.
pub(crate) struct Reads {
    /// Bytes that each call returned, failed ones left out, and of a stream empty ones.
    pub bytes: Option<Distribution>,
    /// Of a stream: they are of copies, as no call was seen returning.
    pub are_guessed: bool,
    /// If so, the largest copy that was seen at once.
    pub copied_max: Option<u64>,
}

/// Where no return of a call was recorded, reads are guessed: copies to the same thread less than 20 us
/// apart count as one call unless the first of them left nothing to be read. A program that reads all the
/// time then seems to read without end. So the result also has the largest single copy, as a lower bound
/// of the largest call. Of datagrams each copy is a call.
pub(crate) fn reads(flow: &FlowStore, is_stream: bool, losses: &Losses) -> Reads {
    let returns = flow.events_of(Kind::ReadReturn);
    let returned = returns.filter(|event| event.errno() == Some(0) && event.len > 0);
    let mut sizes: Vec<u64> = returned.map(|event| u64::from(event.len)).collect();
    let none_returned = sizes.is_empty();
    if none_returned {
        sizes = copied_bytes(flow, is_stream, losses);
    }
    let are_guessed = is_stream && none_returned && !sizes.is_empty();
    let copied_max = are_guessed.then(|| single_copies(flow, losses).max()).flatten();
    Reads { bytes: Distribution::of(&mut sizes), are_guessed, copied_max }
}

/// Bytes of each copy; not of one behind a missed record, which may be two: their bytes are counted from
/// the copy that was seen before.
fn single_copies(flow: &FlowStore, losses: &Losses) -> impl Iterator<Item = u64> {
    let mut since_ns = 0;
    flow.at(Point::ReceiveDequeue).iter().filter(|copy| copy.len > 0).filter_map(move |copy| {
        let before_ns = std::mem::replace(&mut since_ns, copy.at_ns);
        let is_doubtful = losses.within(Point::ReceiveDequeue, before_ns, copy.at_ns).is_some();
        (!is_doubtful).then_some(u64::from(copy.len))
    })
}

/// Bytes of each read that no loss touches.
fn copied_bytes(flow: &FlowStore, grouped: bool, losses: &Losses) -> Vec<u64> {
    let mut arrivals = flow.at(Point::ReceiveEnqueue).iter().peekable();
    let mut arrived = 0;
    // With those that may have been recorded only in part.
    let mut sizes: Vec<(u64, bool)> = Vec::new();
    let mut before_ns = 0;
    // The last copy, unless it left nothing to be read, which ends a call. Where fewer bytes
    // arrived than were read, the rest is not known.
    let mut last: Option<&Passage> = None;
    let copies = flow.at(Point::ReceiveDequeue).iter();
    for copy in copies.filter(|copy| copy.len > 0 || !grouped) {
        while let Some(arrival) = arrivals.next_if(|arrival| arrival.at_ns <= copy.at_ns) {
            arrived = arrival.end().max(arrived);
        }
        let continues =
            |last: &Passage| last.thread == copy.thread && copy.at_ns - last.at_ns < READ_GAP_NS;
        let before_ns = std::mem::replace(&mut before_ns, copy.at_ns);
        let missed = losses.within(Point::ReceiveDequeue, before_ns, copy.at_ns);
        // A datagram is read whole, with missed records before it or not.
        let is_whole = !grouped || missed.is_none();
        match sizes.last_mut() {
            Some(size) if grouped && last.is_some_and(continues) => {
                *size = (size.0.saturating_add(u64::from(copy.len)), size.1 && is_whole);
            }
            _ => sizes.push((u64::from(copy.len), is_whole)),
        }
        last = Some(copy).filter(|copy| copy.end() != arrived);
    }
    sizes.into_iter().filter(|(_, is_whole)| *is_whole).map(|(bytes, _)| bytes).collect()
}

#[cfg(test)]
mod tests {
    use sockscope_record::{Connection, Protocol};

    use super::*;
    use crate::{LossInterval, testing};

    #[test]
    fn a_millisecond_without_a_segment_ends_a_burst() {
        let store = testing::store("1ms 2 +100 | 1500us 2 +100 | 2499us 2 +50 | 9ms 2 +10");
        let bursts = bursts(&store.flows[0], &Losses::default());
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
        assert_eq!(copied_bytes(&store.flows[0], true, &Losses::default()), [200, 50, 1]);
        assert_eq!(copied_bytes(&store.flows[0], false, &Losses::default()), [100, 100, 50, 1]);
        let copied_max =
            |is_stream| reads(&store.flows[0], is_stream, &Losses::default()).copied_max;
        assert_eq!((copied_max(true), copied_max(false)), (Some(100), None));
    }

    #[test]
    fn an_empty_datagram_is_read_and_an_empty_copy_of_a_stream_is_no_read() {
        let store = testing::store("1us 8 +0 | 2us 8 +10 | 3us 8 +0");
        assert_eq!(copied_bytes(&store.flows[0], false, &Losses::default()), [0, 10, 0]);
        assert_eq!(copied_bytes(&store.flows[0], true, &Losses::default()), [10]);
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
    fn a_copy_behind_a_missed_one_may_be_two() {
        let store = testing::store("1us 8 +100 | 100us 8 +90000 | 101us 8 +200");
        let loss = LossInterval {
            start_ns: 50_000,
            end_ns: 60_000,
            point: Some(Point::ReceiveDequeue),
            count: 3,
            of_datagrams: false,
            is_anchored: false,
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
        assert_eq!(
            copied_bytes(&testing::store(text).flows[0], true, &Losses::default()),
            [100, 100, 10]
        );
    }

    #[test]
    fn copies_of_what_was_not_seen_to_arrive_are_grouped_by_time() {
        let text = "2us 8 +100 thread=7 | 4us 8 +60 thread=7 | 5us 7 260..300 | 6us 8 +40 thread=7
                    7us 8 200..300 thread=7 | 8us 8 300..350 thread=7";
        assert_eq!(
            copied_bytes(&testing::store(text).flows[0], true, &Losses::default()),
            [300, 50]
        );
    }

    #[test]
    fn segments_of_a_sender_elsewhere_are_counted_where_they_are_seen_first() {
        let segments = |text: &str| testing::analyze(text).flows[0].segments;
        assert_eq!(segments("1us 5-8 +300 | 2us 5-8 +100 | 3us 5 +0"), 2);
        assert_eq!(segments("1us 4 +300 | 2us 4 +100"), 2);
        assert_eq!(segments("1us 1-2 +300 | 2us 3-8 0..100 | 3us 3-8 100..300"), 1);
        assert_eq!(segments("1us 1 +300"), 0);
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
    fn what_passed_point_2_again_counts_as_sent_again_though_the_first_time_was_missed() {
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
        // A recording of the sending host alone, without records of the reader.
        let sender = Connection { both_ends_here: false, ..testing::connection(1) };
        let flow = &testing::analyze_of(sender, "1ms 1 +1000 | 2ms 2-4 +1000").flows[0];
        assert_eq!(flow.throughput_bytes_per_s, Some(1_000_000.0));
    }

    #[test]
    fn what_nobody_read_is_no_throughput() {
        let flow = &testing::analyze("1ms 1-7 +1000 | 3ms 8 +1000 | 4ms 1-7 +9000").flows[0];
        assert_eq!((flow.bytes, flow.throughput_bytes_per_s), (10_000, Some(500_000.0)));
    }

    /// IP was not seen to take a datagram, so that the time of each later read is unknown.
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
