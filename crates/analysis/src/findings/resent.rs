//! Each retransmission with what became of the first transmission.

use sockscope_record::{Kind, Point, Record, RetransmitClass, marks, tcp_flags};

use super::intervals::Interval;
use crate::drops;
use crate::{FlowView, Pass};

/// How far back a search for an earlier transmission looks: more packets than any window has.
const LOOK_BACK_PASSES_MAX: usize = 65_536;

/// TCP tells of a repeated SYN when it has been transmitted, within this; no timer is that short.
const TOLD_NS_MAX: u64 = 10_000_000;

/// Where a packet can be seen on its way, nearest to the receiver first.
const ON_THE_WAY: [Point; 4] =
    [Point::InputDequeue, Point::InputEnqueue, Point::InterfaceDequeue, Point::InterfaceEnqueue];

/// One range that was sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Resent {
    pub at_ns: u64,
    pub offset: u64,
    pub len: u32,
    /// As the kernel classed it, or `Spurious` where the records show that the original had arrived.
    pub class: RetransmitClass,
    /// When it was last sent before; `None` when that was not seen.
    pub before_ns: Option<u64>,
    /// Last point at which it was seen before.
    pub last_seen: Option<Point>,
    /// The data had to be sent again, as far as the records can tell.
    pub was_needed: bool,
    /// It entered the sender's interface queue and never left it.
    pub was_dropped_by_interface: bool,
    /// The original had arrived, and what the receiver sent then was dropped, so that the sender's timer
    /// ran out.
    pub was_acknowledgment_dropped: bool,
    /// The peer reported it as received twice.
    was_reported: bool,
}

impl Resent {
    /// From the transmission before to this one.
    pub(super) fn gap(&self) -> Option<Interval> {
        Some(Interval::new(self.before_ns?, self.at_ns))
    }
}

/// All retransmissions of a flow, in order.
pub(super) fn resent(view: &FlowView<'_>) -> Vec<Resent> {
    let events = view.flow().events.iter().filter(|event| event.kind == Kind::Retransmit);
    let mut all: Vec<Resent> = Vec::new();
    for event in events {
        let class = RetransmitClass::from_code(event.code);
        if class == RetransmitClass::Spurious && event.len == 0 {
            reported_duplicate(&mut all, event.extra.max(1));
            continue;
        }
        let one = match class {
            RetransmitClass::Handshake => handshake(view, event.at_ns),
            _ => data(view, event.at_ns, event.offset, event.len, class),
        };
        let same = |earlier: &&Resent| {
            earlier.offset == one.offset && earlier.class != RetransmitClass::Handshake
        };
        let again =
            all.iter().rev().take(LOOK_BACK_PASSES_MAX).find(same).map(|earlier| earlier.at_ns);
        let before_ns = if class == RetransmitClass::Handshake {
            one.before_ns
        } else {
            one.before_ns.max(again)
        };
        all.push(Resent { before_ns, ..one });
    }
    all
}

/// The peer reported `count` ranges as received twice (D-SACK, RFC 2883), without saying to which
/// retransmissions that belongs: the latest ones are the likely ones.
fn reported_duplicate(all: &mut [Resent], count: u32) {
    let open = |one: &&mut Resent| one.was_needed && one.len > 0 && !one.was_reported;
    for one in all.iter_mut().rev().filter(open).take(count as usize) {
        one.was_reported = true;
        if !one.was_acknowledgment_dropped {
            one.class = RetransmitClass::Spurious;
            one.was_needed = false;
        }
    }
}

fn handshake(view: &FlowView<'_>, at_ns: u64) -> Resent {
    let passes = view.flow().at(Point::InterfaceEnqueue).iter();
    let own_ns = at_ns.saturating_sub(TOLD_NS_MAX);
    let syns = passes.take_while(|pass| pass.at_ns <= own_ns && pass.offset == 0);
    let before = syns.filter(|pass| pass.tcp_flags & tcp_flags::SYN != 0).last();
    Resent {
        at_ns,
        offset: 0,
        len: 0,
        class: RetransmitClass::Handshake,
        before_ns: before.map(|pass| pass.at_ns),
        last_seen: None,
        was_needed: true,
        was_dropped_by_interface: false,
        was_acknowledgment_dropped: false,
        was_reported: false,
    }
}

fn data(view: &FlowView<'_>, at_ns: u64, offset: u64, len: u32, class: RetransmitClass) -> Resent {
    let flow = view.flow();
    let first_sent = last_covering(flow.at(Point::SendDequeue), offset, at_ns);
    let before_ns = first_sent.map(|pass| pass.at_ns);
    let arrival = last_covering(flow.at(Point::ReceiveEnqueue), offset, at_ns);
    let was_acknowledgment_dropped = class == RetransmitClass::Timeout
        && arrival.is_some_and(|arrival| loses_acknowledgments(view, arrival.at_ns, at_ns));
    let seen_at = |point: &Point| last_covering(flow.at(*point), offset, at_ns).is_some();
    let last_seen = ON_THE_WAY.into_iter().find(seen_at);
    let receiver_is_seen = !flow.at(Point::ReceiveEnqueue).is_empty();
    let is_needless = arrival.is_some() && !was_acknowledgment_dropped;
    let class = if is_needless { RetransmitClass::Spurious } else { class };
    // A probe is sent on a suspicion: only a receiver that is seen can confirm it.
    let is_proven = class != RetransmitClass::TailProbe || receiver_is_seen;
    let queue_is_seen = flow.at(Point::InterfaceDequeue).iter().any(|pass| pass.len > 0);
    Resent {
        at_ns,
        offset,
        len,
        class,
        before_ns,
        last_seen,
        was_needed: class != RetransmitClass::Spurious && is_proven,
        was_dropped_by_interface: queue_is_seen && last_seen == Some(Point::InterfaceEnqueue),
        was_acknowledgment_dropped,
        was_reported: false,
    }
}

/// Whether a segment of the other direction was dropped between the two times.
fn loses_acknowledgments(view: &FlowView<'_>, from_ns: u64, to_ns: u64) -> bool {
    let events = &view.reverse().events;
    let later = &events[events.partition_point(|event| event.at_ns < from_ns)..];
    let until = later.iter().take_while(|event| event.at_ns < to_ns);
    until
        .take(LOOK_BACK_PASSES_MAX)
        .any(|event| event.kind == Kind::Drop && drops::loses_segment(event, view.drop_reasons))
}

/// Where a segment that was dropped at `at_ns` had been seen last, on its latest transmission.
pub(super) fn seen_before_drop(view: &FlowView<'_>, drop: &Record) -> Option<Point> {
    if let Some(point) = Kind::from_code(drop.code).and_then(Kind::point) {
        return Some(point);
    }
    let is_it = |pass: &&Pass| {
        if drop.len == 0 {
            return pass.len == 0 && pass.tcp_flags & tcp_flags::SYN != 0;
        }
        pass.offset <= drop.offset && drop.offset < pass.end()
    };
    let last = |point: Point| {
        let passes = view.flow().at(point);
        let before = &passes[..passes.partition_point(|pass| pass.at_ns <= drop.at_ns)];
        let pass = before.iter().rev().take(LOOK_BACK_PASSES_MAX).find(is_it)?;
        Some((pass.at_ns, point))
    };
    // From the sender on: of equal times the last one counts, which is nearest to the receiver.
    let seen = ON_THE_WAY.into_iter().rev().filter_map(last);
    seen.max_by_key(|&(at_ns, _)| at_ns).map(|(_, point)| point)
}

/// The last pass before `at_ns` that has the byte at `offset`, other than of a retransmission.
fn last_covering(passes: &[Pass], offset: u64, at_ns: u64) -> Option<&Pass> {
    let before = &passes[..passes.partition_point(|pass| pass.at_ns < at_ns)];
    let covers = |pass: &&Pass| pass.offset <= offset && offset < pass.end();
    let originals = before.iter().rev().take(LOOK_BACK_PASSES_MAX);
    originals.filter(|pass| pass.marks & marks::RETRANSMITTED == 0).find(covers)
}
