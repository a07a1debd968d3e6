//! Each retransmission with the outcome of the first transmission.

use std::cell::OnceCell;
use std::collections::HashMap;

use sockscope_record::{Kind, Point, Record, RetransmitClass, Side, marks};

use super::awaiting_repair::AwaitingRepair;
use super::by_byte::ByByte;
use super::control;
use super::duplicates::Duplicates;
use super::intervals::{Interval, Intervals};
use super::resent_segment::{Content, Resent, TOLD_NS_MAX};
use crate::drops;
use crate::packets::{are_alone, retransmissions};
use crate::send_queue::SegmentSizes;
use crate::traffic::segments_point;
use crate::transmission::{
    LOOK_BACK_PASSES_MAX, ON_THE_WAY, TIMER_NS_MIN, is_like, last_like, told_point,
};
use crate::{FlowStore, FlowView, Passage};

/// All retransmissions of a flow, in order.
pub(super) fn resent(view: &FlowView<'_>) -> Vec<Resent> {
    let flow = view.flow();
    if !flow.events.has(&[Kind::Retransmit]) {
        return Vec::new();
    }
    let retransmissions =
        retransmissions(flow).filter_map(|event| Some((event, event.retransmission()?)));
    let reverse_losses: Vec<_> = drops::of_segments(view.reverse(), view.drop_reasons).collect();
    let seen = Seen::new(view);
    let sizes = SegmentSizes::of(flow);
    let mut awaiting = AwaitingRepair::new(flow, view.drop_reasons);
    let mut duplicates = Duplicates::default();
    let mut all: Vec<Resent> = Vec::new();
    let mut latest: HashMap<u64, usize> = HashMap::new();
    for (event, again) in retransmissions {
        if again.class == RetransmitClass::Spurious && event.len == 0 {
            duplicates.report(again.duplicates.max(1), |index| {
                all[index].class = RetransmitClass::Spurious;
                all[index].was_needed = false;
            });
            continue;
        }
        if event.len == 0 {
            all.push(control::sent_again(view, event, again.class));
            continue;
        }
        let again_ns = transmitted_ns(flow, event);
        let was_dropped = awaiting.repair(again_ns, event.offset, event.end());
        let one = data(view, &seen, (event, again.class), again_ns, was_dropped, &reverse_losses);
        if !was_dropped {
            let segment_bytes = sizes.largest_at(event.at_ns);
            let has_arrived = one.class == RetransmitClass::Spurious;
            let has_arrived = has_arrived || one.acknowledgment_dropped.is_some();
            duplicates.add(all.len(), one.len, segment_bytes, has_arrived);
        }
        let oldest = all.len().saturating_sub(LOOK_BACK_PASSES_MAX);
        let again = latest.get(&one.offset).filter(|index| **index >= oldest);
        let again = again.map(|index| all[*index].at_ns);
        latest.insert(one.offset, all.len());
        all.push(Resent { before_ns: one.before_ns.max(again), ..one });
    }
    all
}

/// Passes of a flow by their bytes, of the points that were asked for.
struct Seen<'a> {
    flow: &'a FlowStore,
    points: [OnceCell<ByByte<'a>>; 8],
    /// Times in which records were missed.
    missed: Intervals,
    /// Drops are recorded here.
    has_drops: bool,
}

impl<'a> Seen<'a> {
    fn new(view: &'a FlowView<'_>) -> Self {
        let flow = view.flow();
        let losses = view.losses.iter();
        let missed = losses.map(|loss| Interval::new(loss.start_ns, loss.end_ns.saturating_add(1)));
        Self {
            flow,
            points: Default::default(),
            missed: Intervals::union_of(missed),
            has_drops: flow.events.has(&[Kind::Drop]),
        }
    }

    /// Whether all of a range had reached the receiver's TCP before `at_ns`, where a hole before it
    /// keeps it from the receive queue: the kernel's drops are recorded, and it dropped none of this.
    fn is_behind_a_hole(&self, range: &Record, at_ns: u64) -> bool {
        let mut next = range.offset;
        let mut since_ns = at_ns;
        while next < range.end() {
            let Some(pass) = self.last_before(Point::InputDequeue, next, at_ns) else {
                return false;
            };
            since_ns = since_ns.min(pass.at_ns);
            next = pass.end();
        }
        let receiver_is_seen = !self.flow.at(Point::ReceiveEnqueue).is_empty();
        let time = Interval::new(since_ns, at_ns.saturating_add(1));
        receiver_is_seen && self.has_drops && !self.missed.touches(time)
    }

    /// The last pass there before `at_ns` that has the byte at `offset`, other than of a retransmission.
    fn last_before(&self, point: Point, offset: u64, at_ns: u64) -> Option<&'a Passage> {
        let found = self.points[point.index()].get_or_init(|| ByByte::new(self.flow.at(point)));
        found.last_before(offset, at_ns)
    }
}

/// `was_dropped`: the kernel dropped some of it since its last transmission. `reverse_losses`: of the
/// acknowledgments' flow.
fn data(
    view: &FlowView<'_>,
    seen: &Seen<'_>,
    (event, class): (&Record, RetransmitClass),
    again_ns: u64,
    was_dropped: bool,
    reverse_losses: &[&Record],
) -> Resent {
    let Record { at_ns, offset, len, .. } = *event;
    let flow = view.flow();
    // Of a capture the packets themselves show when they were sent.
    let sent = segments_point(flow).filter(|_| are_alone(view.store));
    let sent = sent.unwrap_or(Point::SendDequeue);
    let first_sent = seen.last_before(sent, offset, at_ns);
    let before_ns = first_sent.map(|pass| pass.at_ns);
    // Bytes of the retransmission itself do not count as the original. Bytes arrive in order: with the last
    // one all have arrived.
    let last = event.end() - 1;
    let arrival = seen.last_before(Point::ReceiveEnqueue, last, again_ns);
    let wait = arrival.or(first_sent).map(|pass| Wait {
        offset,
        from_ns: pass.at_ns,
        to_ns: at_ns,
        has_arrived: arrival.is_some(),
    });
    let wait = wait.filter(|_| class == RetransmitClass::Timeout && !was_dropped);
    let acknowledgment_dropped =
        wait.and_then(|wait| wait.acknowledgment_dropped(view, reverse_losses));
    let seen_at = |point: &Point| seen.last_before(*point, offset, again_ns).is_some();
    let last_seen = ON_THE_WAY.into_iter().find(seen_at);
    let receiver_is_seen = !flow.at(Point::ReceiveEnqueue).is_empty();
    let has_arrived = arrival.is_some() || seen.is_behind_a_hole(event, again_ns);
    let is_needless = has_arrived && acknowledgment_dropped.is_none() && !was_dropped;
    let class = if is_needless { RetransmitClass::Spurious } else { class };
    // A probe is sent on a suspicion: only a receiver that is seen can confirm it.
    let is_proven = class != RetransmitClass::TailProbe || receiver_is_seen || was_dropped;
    let queue_is_seen = flow.at(Point::InterfaceDequeue).iter().any(|pass| pass.len > 0);
    Resent {
        at_ns,
        offset,
        len,
        content: Content::Data,
        class,
        before_ns,
        last_seen,
        was_needed: class != RetransmitClass::Spurious && is_proven,
        was_dropped_by_interface: queue_is_seen && last_seen == Some(Point::InterfaceEnqueue),
        acknowledgment_dropped,
    }
}

/// Time of the retransmission that TCP reports; if it was not seen, the time of the report.
fn transmitted_ns(flow: &FlowStore, event: &Record) -> u64 {
    let told = |other: &&Record| other.kind == Kind::Retransmit && other.offset == event.offset;
    let earlier = &flow.events[..flow.events.partition_point(|other| other.at_ns < event.at_ns)];
    let since_ns = event.at_ns.saturating_sub(TOLD_NS_MAX);
    let near = earlier.iter().rev().take(LOOK_BACK_PASSES_MAX);
    let last_told = near.take_while(|other| other.at_ns >= since_ns).find(told);
    let since_ns = last_told.map_or(since_ns, |other| other.at_ns);
    let passes = flow.at(Point::SendDequeue);
    let passes = &passes[..passes.partition_point(|pass| pass.at_ns <= event.at_ns)];
    let recent = passes.iter().rev().take_while(|pass| pass.at_ns >= since_ns);
    let again = recent.filter(|pass| pass.marks & marks::RETRANSMITTED != 0);
    let mut own = again.filter(|pass| pass.offset <= event.offset && event.offset < pass.end());
    own.next().map_or(event.at_ns, |pass| pass.at_ns)
}

/// The time in which a sender waited for the acknowledgment of one byte.
struct Wait {
    offset: u64,
    /// The byte arrived, or was sent where that was not seen.
    from_ns: u64,
    to_ns: u64,
    has_arrived: bool,
}

impl Wait {
    /// Host on which the kernel dropped an acknowledgment of the byte; `None` without such a drop, or
    /// if another one arrived.
    fn acknowledgment_dropped(
        &self,
        view: &FlowView<'_>,
        reverse_losses: &[&Record],
    ) -> Option<Side> {
        let reverse = view.reverse();
        let drops: Vec<&Record> = self.part(reverse_losses, |drop| drop.at_ns).copied().collect();
        let is_dropped = |pass: &Passage| {
            let until_ns = pass.at_ns.saturating_add(TIMER_NS_MIN);
            let in_time = |drop: &&Record| pass.at_ns <= drop.at_ns && drop.at_ns <= until_ns;
            drops.iter().copied().filter(in_time).any(|drop| is_like(pass, drop))
        };
        if self.acknowledging(reverse, Point::InputDequeue).any(|pass| !is_dropped(pass)) {
            return None;
        }
        let has_left =
            ON_THE_WAY.into_iter().any(|point| self.acknowledging(reverse, point).next().is_some());
        let side = |drop: &Record| match last_like(reverse, drop) {
            Some((point, pass)) if pass.acknowledged() > self.offset => {
                let is_received = told_point(drop).unwrap_or(point) >= Point::InputEnqueue;
                let direction = view.direction;
                Some(if is_received { direction.sender() } else { direction.receiver() })
            }
            // A bare one looks like those before it: without any that left, it was dropped where it was made.
            Some(_) if drop.len > 0 || has_left => None,
            // Made after the byte had arrived in order, it acknowledges it.
            _ => self.has_arrived.then(|| view.direction.receiver()),
        };
        drops.iter().find_map(|drop| side(drop))
    }

    fn acknowledging<'a>(
        &self,
        reverse: &'a FlowStore,
        point: Point,
    ) -> impl Iterator<Item = &'a Passage> {
        let offset = self.offset;
        let passes = self.part(reverse.at(point), |pass| pass.at_ns);
        passes.filter(move |pass| pass.acknowledged() > offset)
    }

    /// The part of a list in time order that is in the wait.
    fn part<'a, T>(&self, all: &'a [T], at_ns: impl Fn(&T) -> u64) -> impl Iterator<Item = &'a T> {
        let later = &all[all.partition_point(|one| at_ns(one) < self.from_ns)..];
        let within = &later[..later.partition_point(|one| at_ns(one) < self.to_ns)];
        within.iter().take(LOOK_BACK_PASSES_MAX)
    }
}
