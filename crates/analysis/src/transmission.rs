//! The transmission of a dropped segment, and the last point that saw it.

use sockscope_record::{Kind, Point, Record, tcp_flags};

use crate::{FlowStore, Passage};

/// Number of passes that a search for an earlier transmission looks back: more packets than any window
/// has.
pub(crate) const LOOK_BACK_PASSES_MAX: usize = 65_536;

/// No timer of TCP is shorter (`TCP_TIMEOUT_MIN`: two ticks, at most 1000 a second).
pub(crate) const TIMER_NS_MIN: u64 = 1_000_000;

/// Points that see packets in transit, nearest to the receiver first.
pub(crate) const ON_THE_WAY: [Point; 4] =
    [Point::InputDequeue, Point::InputEnqueue, Point::InterfaceDequeue, Point::InterfaceEnqueue];

/// The last point that saw a segment, on the transmission that was dropped.
pub(crate) fn seen_before(flow: &FlowStore, reverse: &FlowStore, drop: &Record) -> Option<Point> {
    told_point(drop).or_else(|| own_point(flow, reverse, drop, true))
}

/// The same where the drop does not have it; unless `may_be_queued` it never reached the interface queue.
pub(crate) fn own_point(
    flow: &FlowStore,
    reverse: &FlowStore,
    drop: &Record,
    may_be_queued: bool,
) -> Option<Point> {
    let passes = if may_be_queued { flow.at(Point::InterfaceEnqueue) } else { &[] };
    // Beyond the interface queue, a pass that is older than this is not of the transmission dropped.
    let since_ns = drop.at_ns.saturating_sub(TIMER_NS_MIN);
    let (point, pass) = furthest(flow, drop, latest(passes, drop, 0), since_ns)?;
    is_own(flow, reverse, drop, point, pass).then_some(point)
}

/// The point in the record of the drop itself.
pub(crate) fn told_point(drop: &Record) -> Option<Point> {
    drop.packet_drop()?.last
}

/// Whether `pass`, the last one before `drop`, cannot be of an earlier transmission of the same bytes. One
/// that a queue or a filter of the sender's host refuses passes no point at all.
fn is_own(
    flow: &FlowStore,
    reverse: &FlowStore,
    drop: &Record,
    point: Point,
    pass: &Passage,
) -> bool {
    let events = &flow.events;
    let since = &events[events.partition_point(|event| event.at_ns < pass.at_ns)..];
    let mut between =
        since.iter().take_while(|event| event.at_ns < drop.at_ns).take(LOOK_BACK_PASSES_MAX);
    // One packet may be dropped in parts, each with its own bytes.
    let has_its_bytes = |event: &Record| match drop.len {
        0 => is_like(pass, event),
        _ => event.offset <= drop.offset && drop.offset < event.end(),
    };
    if between.any(|event| event.kind == Kind::Drop && has_its_bytes(event)) {
        return false;
    }
    // TCP does not retransmit bytes that the interface queue still holds: skb_still_in_host_queue().
    if point == Point::InterfaceEnqueue {
        return true;
    }
    let has_pass = |point| {
        let passes = reverse.at(point);
        let next = passes.partition_point(|other| other.at_ns <= pass.at_ns);
        passes.get(next).is_some_and(|other| other.at_ns <= drop.at_ns)
    };
    let receiver_is_seen = !reverse.at(Point::InterfaceEnqueue).is_empty();
    let is_round_trip =
        has_pass(Point::InputDequeue) && (!receiver_is_seen || has_pass(Point::InterfaceEnqueue));
    drop.at_ns - pass.at_ns <= TIMER_NS_MIN && !is_round_trip
}

/// The last pass up to a drop that looks like the dropped segment, and its point.
pub(crate) fn last_like<'a>(flow: &'a FlowStore, drop: &Record) -> Option<(Point, &'a Passage)> {
    furthest(flow, drop, latest(flow.at(Point::InterfaceEnqueue), drop, 0), 0)
}

/// The same from `queued`, its pass at the interface queue, on; without that one from `since_ns` on.
fn furthest<'a>(
    flow: &'a FlowStore,
    drop: &Record,
    queued: Option<&'a Passage>,
    since_ns: u64,
) -> Option<(Point, &'a Passage)> {
    let mut last = queued.map(|pass| (Point::InterfaceEnqueue, pass));
    // Towards the receiver: of equal times the last one counts, which is nearest to it.
    for point in [Point::InterfaceDequeue, Point::InputEnqueue, Point::InputDequeue] {
        let since_ns = last.map_or(since_ns, |(_, pass)| pass.at_ns);
        last = latest(flow.at(point), drop, since_ns).map(|pass| (point, pass)).or(last);
    }
    last
}

/// The last one of `passes` from `since_ns` up to a drop that looks like the dropped segment.
fn latest<'a>(passes: &'a [Passage], drop: &Record, since_ns: u64) -> Option<&'a Passage> {
    let before = &passes[..passes.partition_point(|pass| pass.at_ns <= drop.at_ns)];
    let near = before.iter().rev().take(LOOK_BACK_PASSES_MAX);
    near.take_while(|pass| pass.at_ns >= since_ns).find(|pass| is_like(pass, drop))
}

/// Whether the pass may be of the dropped segment: it has its first byte, or like it no data.
pub(crate) fn is_like(pass: &Passage, drop: &Record) -> bool {
    if drop.len > 0 {
        return pass.offset <= drop.offset && drop.offset < pass.end();
    }
    let is_syn = |flags: u8| flags & tcp_flags::SYN != 0;
    pass.len == 0
        && is_syn(pass.tcp_flags) == is_syn(drop.tcp_flags)
        && (is_syn(drop.tcp_flags) || pass.offset == drop.offset)
}
