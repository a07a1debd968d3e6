//! Figures that a loss of records makes unknown, and no others.
//!
//! Positions show losses: bytes that passed a point unseen leave a hole in its recorded positions, which later
//! records bound. If a loss at that point falls between the neighbours of a hole, the bytes passed at some time
//! between them; before and after, the count is exact. A hole with no loss to explain it is left as it is, and
//! becomes residue.
//!
//! A missed hit may belong to several points (2 to 5 on loopback), and its count names one. A stream's positions
//! show which of its bytes it may concern: none that the recorded point saw pass. A datagram's do not: it may
//! concern any.
//!
//! Datagrams have no positions that prove anything: of those in a receive queue whose read was missed a record of
//! its own has the time by which they had left. Any other one may wait there to the end. If one is left over
//! before another point, all is unknown there and beyond, from that point's first loss to the next datagram that
//! passed it. That datagram shows that the one left over did not pass: until then they may be matched wrongly.
//! Where the recorder recognized that next one by itself, only the one left over is unknown. One that entered the
//! receive queue unseen had left it when a later one was read.

use sockscope_record::{Connection, Kind, Point, Protocol, marks};

use crate::curve::{Curve, FirstPassage, MissedPassage};
use crate::queue::join;
use crate::ranges::{Range, minus, union};
use crate::record_buffer::is_gone;
use crate::record_loss_times::{Losses, within};
use crate::{FlowStore, unseen};

/// A point whose counted losses hid records at another one, and the bytes of the stream that they did not hide.
struct Told {
    point: Point,
    /// Bytes whose first passage it saw: that hit was not missed.
    kept: Vec<Range>,
}

impl Told {
    /// Whether it saw the first passage of all of `range`.
    fn has_kept(&self, range: Range) -> bool {
        let covering = self.kept.partition_point(|kept| kept.1 < range.1);
        self.kept.get(covering).is_some_and(|kept| kept.0 <= range.0)
    }
}

impl Losses {
    /// First and last instant within `times` at which a hit may be missed that is in a loss of one of `told`.
    fn within_told<'a>(&self, told: impl Iterator<Item = &'a Told>, times: Range) -> Option<Range> {
        let found = told.filter_map(|told| self.within(told.point, times.0, times.1));
        found.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
    }
}

/// Inputs that explain the holes of one flow's curves.
#[derive(Clone, Copy)]
struct Sources<'a> {
    flow: &'a FlowStore,
    dropped: &'a Curve,
    losses: &'a Losses,
    connection: &'a Connection,
}

/// As which points losses are recorded that hid records at `point`.
fn told_as(curves: &[Curve; 8], point: Point, sources: Sources<'_>) -> Vec<Told> {
    let is_its = |told: &Point| told.of_hit().contains(&point);
    let told = Point::ALL.into_iter().filter(is_its);
    let told = told.filter(|told| !sources.losses.by_point[told.index()].is_empty());
    let kept = |told| if told == point { Vec::new() } else { first_seen(curves, told, sources) };
    told.map(|told| Told { point: told, kept: kept(told) }).collect()
}

/// Bytes whose first passage `point` surely saw.
fn first_seen(curves: &[Curve; 8], point: Point, sources: Sources<'_>) -> Vec<Range> {
    let repeats = repeats(curves, point, sources).into_iter().map(|repeat| repeat.range);
    minus(&curves[point.index()].covered, &union(&repeats.collect::<Vec<_>>(), &[]))
}

/// Fills the holes of a flow's curves that losses explain, point by point. True if the missed bytes may make the
/// positions behind them uncertain.
pub(crate) fn explain_holes(
    curves: &mut [Curve; 8],
    flow: &FlowStore,
    dropped: &Curve,
    losses: &Losses,
    connection: &Connection,
) -> bool {
    let sources = Sources { flow, dropped, losses, connection };
    let mut mismatched_ns = None;
    let mut mismatches = Vec::new();
    if losses.intervals.is_empty() {
        return false;
    }
    for point in Point::ALL {
        let may_be_unseen = losses.may_touch(point) || may_hide_datagrams(curves, point, sources);
        if !may_be_unseen && mismatched_ns.is_none() && mismatches.is_empty() {
            continue;
        }
        let here = explain_at(curves, point, sources);
        mismatches = union(&mismatches, &here);
        let curve = &mut curves[point.index()];
        if is_matched(point, connection) {
            mismatched_ns = mismatched_ns.into_iter().chain(curve.unknown_from_ns).min();
        }
        curve.forget_between(&mismatches);
        mismatched_ns.into_iter().for_each(|from_ns| curve.forget_from(from_ns));
        debug_assert!(curve.is_sound());
    }
    unseen::note_open_ends(curves, flow, losses, connection);
    if connection.protocol == Protocol::Udp {
        unseen::note_blind_times(curves, losses, connection);
        return false;
    }
    let uncertain_ns = unseen::uncertain_since_ns(flow, losses);
    for curve in curves {
        uncertain_ns.into_iter().for_each(|since_ns| curve.forget_from(since_ns));
    }
    uncertain_ns.is_some()
}

/// Whether datagrams may have passed `point` unseen though no loss counts as of it: of a datagram that vanished any
/// loss may be, and of one that entered the receive queue unseen the read shows nothing.
fn may_hide_datagrams(curves: &[Curve; 8], point: Point, sources: Sources<'_>) -> bool {
    let entered = &curves[Point::ReceiveEnqueue.index()];
    is_matched(point, sources.connection)
        || is_announced(point, sources) && !entered.missed.is_empty()
}

/// Fills the holes of one curve; those before it are done. Gives the times in which datagrams may be matched
/// wrongly, there and beyond.
fn explain_at(curves: &mut [Curve; 8], point: Point, sources: Sources<'_>) -> Vec<Range> {
    let Sources { flow, dropped, losses, connection } = sources;
    let told = told_as(curves, point, sources);
    let repeated = forget_repeats(curves, point, &told, sources);
    if connection.protocol.has_positions() {
        curves[point.index()].missed = unseen::take_spans(curves, point, flow.at(point), losses);
    } else if point == Point::ReceiveDequeue {
        curves[point.index()].missed = gone(curves, flow);
    }
    let curve = &mut curves[point.index()];
    curve.missed.extend(repeated);
    curve.missed.sort_by_key(|missed| missed.offset);
    let gone = curves[point.index()].missed_ranges();
    let passed = union(&surely_passed(curves, point, connection), &gone);
    let holes = minus(&minus(&passed, &curves[point.index()].covered), &gone);
    let passage = |(offset, end): Range, (from_ns, until_ns): Range| MissedPassage {
        offset,
        end,
        from_ns,
        until_ns,
    };
    let mut missed = Vec::new();
    // Positions show the hits of a stream, also of bytes that no point saw; but a point that missed
    // nothing saw all bytes. The loss that hid a hit is not known.
    let (parts, never_there) = match connection.protocol.has_positions() {
        true => {
            let never_there = never_there(curves, losses);
            let parts = cut(&holes, &never_there);
            (told.iter().fold(parts, |parts, told| cut(&parts, &told.kept)), never_there)
        }
        false => (holes, Vec::new()),
    };
    for hole in parts {
        let behind = never_there.partition_point(|range| range.1 <= hole.0);
        let is_there = never_there.get(behind).is_none_or(|range| range.0 >= hole.1);
        let told = told.iter();
        let told = told.filter(|told| told.point == point || is_there && !told.has_kept(hole));
        let times = times_ns(curves, point, hole, connection.protocol);
        missed.extend(losses.within_told(told, times).map(|times| passage(hole, times)));
    }
    // Of a stream also the bytes that arrived unseen.
    let came = match connection.protocol.has_positions() {
        true => entered(curves, point),
        false => seen_before(curves, point),
    };
    let waiting = minus(&minus(&came, &passed), &dropped.covered);
    let mut mismatches = Vec::new();
    let unknown_from_ns = match waiting.as_slice() {
        [_, ..] if is_matched(point, connection) => {
            let left_over = LeftOver::of(curves, point, &waiting, sources);
            missed.extend(left_over.missed);
            mismatches = left_over.mismatches;
            left_over.unknown_from_ns
        }
        waiting => {
            let unannounced = LeftOver::unannounced(curves, point, waiting, sources);
            missed.extend(unannounced.missed);
            let waiting = announced(curves, point, waiting, sources);
            let first_losses = waiting.iter().filter_map(|range| {
                let times = times_ns(curves, point, *range, connection.protocol);
                losses.within_told(told.iter(), (times.0, u64::MAX)).map(|loss| loss.0)
            });
            // From then on one of them may have passed the point unseen.
            first_losses.chain(unannounced.unknown_from_ns).min()
        }
    };
    let curve = &mut curves[point.index()];
    curve.unknown_from_ns = unknown_from_ns;
    curve.missed.extend(missed);
    curve.missed.sort_by_key(|missed| missed.offset);
    debug_assert!(curve.is_sound());
    mismatches
}

/// Datagrams that arrived at a point and were not seen to pass it.
#[derive(Default)]
struct LeftOver {
    missed: Vec<MissedPassage>,
    /// Times in which others may have been matched in their place.
    mismatches: Vec<Range>,
    /// Start of the unknown time, which lasts to the end.
    unknown_from_ns: Option<u64>,
}

impl LeftOver {
    /// Of `waiting`, in order; datagrams that no loss explains stay there. One that a later one overtook may have any
    /// loss as its cause: the hit of a drop counts as of no point, and one missed hit may hide those after it.
    fn of(curves: &[Curve; 8], point: Point, waiting: &[Range], sources: Sources<'_>) -> Self {
        let (passes, losses) = (sources.flow.at(point), sources.losses);
        let runs = &curves[point.index()].seen;
        let mut found = Self::default();
        let mut since_ns = began_ns(curves, point);
        for &(offset, end) in waiting {
            let Some(next) = runs.get(runs.partition_point(|run| run.offset < end)) else {
                let missed = losses.within_datagrams(point, since_ns, u64::MAX);
                found.unknown_from_ns = missed.map(|loss| loss.0);
                break;
            };
            let is_recognized = passes[next.pass as usize].marks & marks::RECOGNIZED != 0;
            if is_recognized {
                since_ns = since_ns.max(bounds_ns(curves, point, (offset, end), false).0);
            }
            if let Some((from_ns, _)) = losses.within_any(since_ns, next.at_ns) {
                let until_ns = next.at_ns;
                found.missed.push(MissedPassage { offset, end, from_ns, until_ns });
                if !is_recognized {
                    found.mismatches.push((from_ns, until_ns));
                }
            }
            since_ns = since_ns.max(next.at_ns);
        }
        found
    }

    /// Of `waiting`, those that entered the receive queue unseen. The queue is first in, first out: such a datagram left
    /// it by the read of a later one. Its own read may have a record, which shows nothing of a datagram that was never
    /// announced, so that no loss of a read is asked for.
    fn unannounced(
        curves: &[Curve; 8],
        point: Point,
        waiting: &[Range],
        sources: Sources<'_>,
    ) -> Self {
        let mut found = Self::default();
        if !is_announced(point, sources) {
            return found;
        }
        let reads = &curves[point.index()].seen;
        for entered in &curves[Point::ReceiveEnqueue.index()].missed {
            let whole = [(entered.offset, entered.end)];
            let first = waiting.partition_point(|range| range.1 <= entered.offset);
            for (offset, end) in minus(&whole, &minus(&whole, &waiting[first..])) {
                let from_ns = entered.from_ns;
                match reads.get(reads.partition_point(|run| run.offset < end)) {
                    Some(next) => {
                        let until_ns = next.at_ns.max(from_ns);
                        found.missed.push(MissedPassage { offset, end, from_ns, until_ns });
                    }
                    None => {
                        let since_ns = found.unknown_from_ns.map_or(from_ns, |at| at.min(from_ns));
                        found.unknown_from_ns = Some(since_ns);
                    }
                }
            }
        }
        found
    }
}

/// Whether order alone identifies a datagram that passed `point`.
fn is_matched(point: Point, connection: &Connection) -> bool {
    connection.protocol == Protocol::Udp && point < Point::ReceiveDequeue
}

/// Whether datagrams wait at `point` in a receive queue whose announcements are recorded.
fn is_announced(point: Point, Sources { flow, connection, .. }: Sources<'_>) -> bool {
    connection.protocol == Protocol::Udp
        && point == Point::ReceiveDequeue
        && !flow.at(Point::ReceiveEnqueue).is_empty()
}

/// Of `waiting` those that entered the receive queue, where that is recorded; the others are in no queue of the socket.
fn announced(
    curves: &[Curve; 8],
    point: Point,
    waiting: &[Range],
    sources: Sources<'_>,
) -> Vec<Range> {
    if !is_announced(point, sources) {
        return waiting.to_vec();
    }
    minus(waiting, &minus(waiting, &curves[Point::ReceiveEnqueue.index()].covered))
}

/// Time of the first datagram seen before `point`. Packets show no positions, so that they are matched
/// by order: one whose record was missed gives its place to the next one, and so on. The one that is
/// left over shows that, not the time of the first.
fn began_ns(curves: &[Curve; 8], point: Point) -> u64 {
    let runs = curves[..point.index()].iter().flat_map(|curve| &curve.seen);
    runs.map(|run| run.at_ns).min().unwrap_or(0)
}

/// Datagrams that have left the receive queue: between their arrival there and a recorded time.
fn gone(curves: &[Curve; 8], flow: &FlowStore) -> Vec<MissedPassage> {
    let point = Point::ReceiveDequeue;
    let told = flow.events.iter().filter(|event| is_gone(event));
    let told = told.map(|event| (event.at_ns, event.offset, event.end()));
    let gone = Curve::of_ranges(0, told).without(&curves[point.index()].covered);
    let missed = gone.seen.iter().map(|run| {
        let range = (run.offset, run.end());
        let (came_ns, _) = bounds_ns(curves, point, range, false);
        MissedPassage {
            offset: range.0,
            end: range.1,
            from_ns: came_ns.min(run.at_ns),
            until_ns: run.at_ns,
        }
    });
    missed.collect()
}

/// Whether a stream's bytes pass `point` in order; on the way between hosts they may overtake.
fn keeps_order(point: Point) -> bool {
    use Point::{ReceiveDequeue, ReceiveEnqueue, SendDequeue, SendEnqueue};
    matches!(point, SendEnqueue | SendDequeue | ReceiveEnqueue | ReceiveDequeue)
}

/// Bytes that a point may have seen again, and not first.
struct Repeat {
    range: Range,
    /// When it saw them.
    at_ns: u64,
    /// Whether they surely reached this point once they had left the sender: over loopback, or as seen beyond.
    came: bool,
    order: Order,
}

/// Order of a recorded passage among those of the same bytes.
enum Order {
    /// A later one.
    Later,
    /// The first one or a later one. Bytes before them that nothing overtook passed at `behind_ns`; 0 without any.
    Unknown { behind_ns: u64 },
}

/// Takes retransmissions out of a curve, if a loss can have hidden the first time. Returns those that may still
/// be the first time: their bytes passed during the loss or then.
fn forget_repeats(
    curves: &mut [Curve; 8],
    point: Point,
    told: &[Told],
    sources: Sources<'_>,
) -> Vec<MissedPassage> {
    if told.is_empty() {
        return Vec::new();
    }
    let is_on_way = |told: Point| told < Point::InputEnqueue && point == Point::InputEnqueue;
    let mut late = Vec::new();
    let mut unsure = Vec::new();
    for repeat in repeats(curves, point, sources) {
        let told = told.iter().filter(|told| repeat.came || !is_on_way(told.point));
        let told = told.filter(|told| !told.has_kept(repeat.range));
        let (mut from_ns, until_ns) = bounds_ns(curves, point, repeat.range, false);
        if let Order::Unknown { behind_ns } = repeat.order
            && !was_seen_before(curves, point, repeat.range)
        {
            from_ns = from_ns.max(behind_ns);
        }
        let until_ns = until_ns.min(repeat.at_ns);
        let Some((from_ns, _)) = sources.losses.within_told(told, (from_ns, until_ns)) else {
            continue;
        };
        match repeat.order {
            Order::Later => late.push(repeat.range),
            Order::Unknown { .. } => {
                let (offset, end) = repeat.range;
                unsure.push(MissedPassage { offset, end, from_ns, until_ns: repeat.at_ns });
            }
        }
    }
    let late = union(&late, &[]);
    let unsure = unsure.into_iter().flat_map(|run| {
        let first = late.partition_point(|range| range.1 <= run.offset);
        let rest = minus(&[(run.offset, run.end)], &late[first..]);
        rest.into_iter().map(move |(offset, end)| MissedPassage { offset, end, ..run })
    });
    let mut unsure: Vec<MissedPassage> = unsure.collect();
    unsure.sort_by_key(|run| run.offset);
    let ranges: Vec<Range> = unsure.iter().map(|run| (run.offset, run.end)).collect();
    let forgotten = union(&late, &ranges);
    if !forgotten.is_empty() {
        let here = &mut curves[point.index()];
        *here = here.without(&forgotten);
    }
    unsure
}

/// Repeats that `point` may have seen: bytes marked as retransmitted, or recorded beyond it before. Incoming
/// packets have no mark: there it may be those that later ones overtook, or retransmissions.
fn repeats(curves: &[Curve; 8], point: Point, sources: Sources<'_>) -> Vec<Repeat> {
    let Sources { flow, losses, connection, .. } = sources;
    let (here, beyond) = curves[point.index()..].split_at(1);
    let passes = flow.at(point);
    let marks_of = |run: &FirstPassage| passes[run.pass as usize].marks;
    let repeat = |run: &FirstPassage| Repeat {
        range: (run.offset, run.end()),
        at_ns: run.at_ns,
        came: marks_of(run) & marks::LOOPBACK != 0,
        order: Order::Later,
    };
    let runs = &here[0].seen;
    let marked = runs.iter().filter(|run| marks_of(run) & marks::RETRANSMITTED != 0);
    let mut late: Vec<Repeat> = marked.map(repeat).collect();
    for curve in beyond {
        join(&here[0], curve, 0, |one, _| {
            if one.left_ns < one.entered_ns {
                let (range, at_ns) = ((one.offset, one.offset + one.len), one.entered_ns);
                late.push(Repeat { range, at_ns, came: true, order: Order::Later });
            }
        });
    }
    if connection.protocol.has_positions()
        && matches!(point, Point::InputEnqueue | Point::InputDequeue)
    {
        let resent = resent(flow);
        let is_overtaken = are_overtaken(runs);
        let mut behind_ns = 0;
        for (run, is_overtaken) in runs.iter().zip(is_overtaken) {
            let first = resent.partition_point(|range| range.1 <= run.offset);
            let is_resent = resent.get(first).is_some_and(|range| range.0 < run.end())
                || may_be_resent_unseen(curves, run, losses);
            if is_overtaken || is_resent {
                late.push(Repeat { order: Order::Unknown { behind_ns }, ..repeat(run) });
            } else {
                behind_ns = run.at_ns;
            }
        }
    }
    late
}

/// Of each passage, whether a later position passed before it.
fn are_overtaken(runs: &[FirstPassage]) -> Vec<bool> {
    let mut earliest_ns = u64::MAX;
    let from_the_end = runs.iter().rev().map(|run| {
        let is_overtaken = run.at_ns > earliest_ns;
        earliest_ns = earliest_ns.min(run.at_ns);
        is_overtaken
    });
    let mut are_overtaken: Vec<bool> = from_the_end.collect();
    are_overtaken.reverse();
    are_overtaken
}

/// Bytes that a sender here retransmitted, by its records.
fn resent(flow: &FlowStore) -> Vec<Range> {
    let passes = flow.passages[1..4].iter().flatten();
    let marked = passes.filter(|pass| pass.marks & marks::RETRANSMITTED != 0 && pass.len > 0);
    let events = flow.events_of(Kind::Retransmit).filter(|event| event.len > 0);
    let events = events.map(|event| (event.offset, event.end()));
    union(&marked.map(|pass| (pass.offset, pass.end())).chain(events).collect::<Vec<_>>(), &[])
}

/// Whether the bytes of `run`, of a received packet, may have been retransmitted before, without any record of it. Of
/// a sender here the event of it is missed then, and the hit at point 3 or 4. A sender elsewhere never has a record:
/// then only bytes that point 7 took from this very packet arrived for the first time, unless a packet before was
/// dropped.
fn may_be_resent_unseen(curves: &[Curve; 8], run: &FirstPassage, losses: &Losses) -> bool {
    let range = (run.offset, run.end());
    let sender = &curves[..Point::InputEnqueue.index()];
    if sender.iter().all(|curve| curve.covered.is_empty()) {
        let taken = &curves[Point::ReceiveEnqueue.index()].seen;
        let taken = taken.binary_search_by_key(&run.offset, |taken| taken.offset);
        let taken = taken.ok().map(|at| &curves[Point::ReceiveEnqueue.index()].seen[at]);
        let is_from_it =
            taken.is_some_and(|taken| taken.len == run.len && taken.at_ns >= run.at_ns);
        return !is_from_it || losses.beside_points(0, run.at_ns);
    }
    let sent = sender[1..].iter().find_map(|curve| times_of(curve, range));
    let sent_ns = sent.map_or(0, |times| times.0);
    let hits = [Point::InterfaceEnqueue, Point::InterfaceDequeue];
    losses.beside_points(sent_ns, run.at_ns)
        && hits.into_iter().any(|hit| losses.within(hit, sent_ns, run.at_ns).is_some())
}

/// Whether one of the points before `point` saw all of `range`.
fn was_seen_before(curves: &[Curve; 8], point: Point, range: Range) -> bool {
    curves[..point.index()].iter().any(|curve| times_of(curve, range).is_some())
}

/// `ranges` cut at the start and the end of each range of `at`.
fn cut(ranges: &[Range], at: &[Range]) -> Vec<Range> {
    let outside = minus(ranges, at);
    let mut parts = minus(ranges, &outside);
    parts.extend(outside);
    parts.sort_unstable();
    parts
}

/// Holes of points that missed nothing: no missing record is their cause.
fn never_there(curves: &[Curve; 8], losses: &Losses) -> Vec<Range> {
    let whole = Point::ALL.into_iter().filter(|point| !losses.may_touch(*point));
    whole.fold(Vec::new(), |never, point| {
        let covered = &curves[point.index()].covered;
        let holes = covered.windows(2).map(|pair| (pair[0].1, pair[1].0));
        union(&never, &holes.collect::<Vec<_>>())
    })
}

/// Bytes that must have passed `point`, as they or (for a stream) later ones were seen there or
/// beyond.
fn surely_passed(curves: &[Curve; 8], point: Point, connection: &Connection) -> Vec<Range> {
    let seen = seen_at(&curves[point.index()..]);
    if !connection.protocol.has_positions() {
        return seen;
    }
    let seen = union(&seen, &curves[point.index()].missed_ranges());
    let start = |first: &Range| if connection.preexisting { first.0 } else { 0 };
    match (seen.first(), seen.last()) {
        (Some(first), Some(last)) if keeps_order(point) => vec![(start(first), last.1)],
        // On the path bytes may overtake, but the receiver takes no byte without those before it. For a sender
        // elsewhere this is the only evidence of its bytes.
        (Some(first), Some(_)) => {
            let received = (start(first), received(curves).unwrap_or(0));
            let is_first = curves[..point.index()].iter().all(Curve::is_without_bytes);
            let came = if is_first { vec![received] } else { entered(curves, point) };
            union(&seen, &within(&came, received))
        }
        _ => seen,
    }
}

/// Bytes that reached the points before `point`, those included whose records were missed there.
fn entered(curves: &[Curve; 8], point: Point) -> Vec<Range> {
    curves[..point.index()]
        .iter()
        .fold(seen_before(curves, point), |entered, curve| union(&entered, &curve.missed_ranges()))
}

/// Up to where the receiver is known to have had the stream.
fn received(curves: &[Curve; 8]) -> Option<u64> {
    let queue = &curves[Point::ReceiveEnqueue.index()..];
    let last = queue.iter().filter_map(|curve| curve.covered.last()).map(|range| range.1);
    last.chain(queue.iter().flat_map(|curve| &curve.missed).map(|missed| missed.end)).max()
}

fn seen_before(curves: &[Curve; 8], point: Point) -> Vec<Range> {
    seen_at(&curves[..point.index()])
}

fn seen_at(curves: &[Curve]) -> Vec<Range> {
    curves.iter().fold(Vec::new(), |seen, curve| union(&seen, &curve.covered))
}

/// The times between which the bytes of a hole passed `point`, by all records that bound them.
fn times_ns(curves: &[Curve; 8], point: Point, hole: Range, protocol: Protocol) -> Range {
    match protocol.has_positions() {
        true => {
            let times = bounds_ns(curves, point, hole, keeps_order(point));
            within_order_ns(curves, point, hole, times)
        }
        false => bounds_ns(curves, point, hole, false),
    }
}

/// The times between which the bytes of a hole passed `point`, by their own records at other
/// points, and their neighbours' at this one where order is kept.
fn bounds_ns(curves: &[Curve; 8], point: Point, hole: Range, keeps_order: bool) -> Range {
    let (before, from_here) = curves.split_at(point.index());
    let (here, beyond) = (&from_here[0], &from_here[1..]);
    let before_ns = before.iter().rev().find_map(|curve| times_of(curve, hole));
    let beyond_ns = beyond.iter().find_map(|curve| times_of(curve, hole));
    let mut from_ns = before_ns.map_or(0, |times| times.0);
    let mut until_ns = beyond_ns.map_or(u64::MAX, |times| times.1);
    if keeps_order {
        let above = here.seen.partition_point(|run| run.offset < hole.1);
        from_ns = from_ns.max(here.seen[..above].last().map_or(0, |run| run.at_ns));
        until_ns = until_ns.min(here.seen.get(above).map_or(u64::MAX, |run| run.at_ns));
    }
    // The clocks of two CPUs may disagree a little.
    (from_ns.min(until_ns), from_ns.max(until_ns))
}

/// The times between which a hole of a stream passed `point`: `times`, narrowed by the points before and beyond
/// that bytes pass in order.
fn within_order_ns(curves: &[Curve; 8], point: Point, hole: Range, times: Range) -> Range {
    let (mut from_ns, mut until_ns) = times;
    for ordered in Point::ALL.into_iter().filter(|ordered| keeps_order(*ordered)) {
        let curve = &curves[ordered.index()];
        let runs = &curve.seen;
        if ordered < point {
            let before = runs[..runs.partition_point(|run| run.end() <= hole.0)].last();
            from_ns = from_ns.max(before.map_or(0, |run| run.at_ns));
            let missed =
                &curve.missed[..curve.missed.partition_point(|missed| missed.offset <= hole.0)];
            let missed = missed.last().filter(|missed| missed.end >= hole.1);
            from_ns = from_ns.max(missed.map_or(0, |missed| missed.from_ns));
        } else if ordered > point {
            let by_then = runs.get(runs.partition_point(|run| run.end() < hole.1));
            until_ns = until_ns.min(by_then.map_or(u64::MAX, |run| run.at_ns));
        }
    }
    // The clocks of two CPUs may disagree a little.
    (from_ns.min(until_ns), from_ns.max(until_ns))
}

/// First and last time at which bytes of `range` passed; `None` unless all of them were seen to.
fn times_of(curve: &Curve, range: Range) -> Option<Range> {
    let covering = curve.covered.partition_point(|covered| covered.1 < range.1);
    curve.covered.get(covering).filter(|covered| covered.0 <= range.0)?;
    let first = curve.seen.partition_point(|run| run.end() <= range.0);
    let runs = curve.seen[first..].iter().take_while(|run| run.offset < range.1);
    runs.fold(None, |times, run| {
        let (first_ns, last_ns) = times.unwrap_or((run.at_ns, run.at_ns));
        Some((first_ns.min(run.at_ns), last_ns.max(run.at_ns)))
    })
}
