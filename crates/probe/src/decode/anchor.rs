//! Positions after missed records: which hits can be placed, and where a stream goes on.
//!
//! A sequence number shows a position only to within 4 GiB. Once a record of a connection was missed,
//! the probes mark its records until a hit that has a socket writes an anchor, which holds the socket's
//! 64-bit counters. A marked record is placed only where too few octets can have passed unseen since
//! the last record that was; else it is counted as missed. The bytes that passed while hits of a
//! point were missed passed it at a time that is not known, so that no later hit stands for them.

use std::collections::{BTreeMap, VecDeque};

use sockscope_record::{Kind, LossCounts, Point, Record, marks};

use super::Head;
use super::arrivals::Arrivals;
use super::connection::{ConnectionState, FlowState};
use super::event::POSITION_MAX;
use crate::layout::{RawAnchor, constants as raw};

/// No connection carries 2 GiB, by which positions can be told apart, in this time: that is 107 GB/s.
const UNSEEN_NS_MAX: u64 = 20_000_000;

/// Intervals remembered in which hits were missed, at most; older ones become one.
const INTERVALS_MAX: usize = 4_096;

/// By when hits of each point were last missed; 0 for never.
pub(super) type MissedUntil = [u64; 8];

/// Times at which hits were missed, and hits that could not be placed for that.
#[derive(Default)]
pub(super) struct Missed {
    /// In order, apart from each other.
    intervals: VecDeque<(u64, u64)>,
    /// Hits that were not placed, by point, with the times between which they can have been.
    unplaced: BTreeMap<Option<Point>, Unplaced>,
    counts: LossCounts,
}

#[derive(Clone, Copy)]
struct Unplaced {
    count: u64,
    since_ns: u64,
    until_ns: u64,
}

impl Missed {
    /// Hits were missed between these times.
    pub(super) fn add(&mut self, since_ns: u64, until_ns: u64) {
        if let Some(last) = self.intervals.back_mut()
            && since_ns <= last.1
        {
            *last = (last.0.min(since_ns), last.1.max(until_ns));
            return;
        }
        if self.intervals.len() == INTERVALS_MAX
            && let Some(oldest) = self.intervals.pop_front()
            && let Some(second) = self.intervals.front_mut()
        {
            second.0 = oldest.0;
        }
        self.intervals.push_back((since_ns, until_ns.max(since_ns)));
    }

    /// Whether 2 GiB of one connection may have passed unseen between two times.
    fn may_hide_positions(&self, from_ns: u64, until_ns: u64) -> bool {
        let mut unseen_ns = 0u64;
        for (since, until) in self.intervals.iter().rev().take_while(|(_, until)| *until > from_ns)
        {
            let inside = (*until).min(until_ns).saturating_sub((*since).max(from_ns));
            unseen_ns = unseen_ns.saturating_add(inside);
        }
        unseen_ns >= UNSEEN_NS_MAX
    }

    /// A hit of this point could not be placed.
    pub(super) fn leave(&mut self, point: Option<Point>, since_ns: u64, at_ns: u64) {
        self.leave_some(point, 1, since_ns, at_ns);
    }

    /// Bytes passed this point unseen until `at_ns`, by hits that are counted elsewhere.
    fn leave_bytes(&mut self, point: Point, since_ns: u64, at_ns: u64) {
        self.leave_some(Some(point), 0, since_ns, at_ns);
    }

    fn leave_some(&mut self, point: Option<Point>, count: u64, since_ns: u64, at_ns: u64) {
        let since_ns = since_ns.min(at_ns);
        let fresh = Unplaced { count: 0, since_ns, until_ns: at_ns };
        let unplaced = self.unplaced.entry(point).or_insert(fresh);
        unplaced.count += count;
        unplaced.since_ns = unplaced.since_ns.min(since_ns);
        unplaced.until_ns = unplaced.until_ns.max(at_ns);
        self.counts.add(point, count);
    }

    /// The losses that hits left since the last call stand for, with this mark too.
    pub(super) fn take_losses(&mut self, mark: u8) -> impl Iterator<Item = Record> + use<> {
        std::mem::take(&mut self.unplaced).into_iter().map(move |(point, left)| Record {
            at_ns: left.until_ns,
            offset: left.since_ns,
            detail: left.count,
            kind: Kind::Loss,
            code: point.map_or(Kind::Loss as u8, Point::number),
            marks: marks::ANCHORED | mark,
            ..Record::default()
        })
    }

    /// How many hits were left since the last call.
    pub(super) fn take_counts(&mut self) -> LossCounts {
        std::mem::take(&mut self.counts)
    }
}

impl ConnectionState {
    /// Whether the position of this hit is known; one whose is not was missed at the point given.
    pub(super) fn is_placed(
        &mut self,
        hit: &Head,
        missed: &mut Missed,
        point: Option<Point>,
    ) -> bool {
        let is_odd = hit.is_marked(raw::MARK_ODD);
        let is_sure = !hit.is_marked(raw::MARK_ADRIFT) && is_odd == self.is_anchor_odd;
        if !is_sure && missed.may_hide_positions(self.placed_ns, hit.at_ns) {
            missed.leave(point, self.placed_ns, hit.at_ns);
            return false;
        }
        self.placed_ns = self.placed_ns.max(hit.at_ns);
        true
    }

    /// The sequence numbers and 64-bit counters of one of its sockets. What it says to have passed points 7 and
    /// 8 meanwhile did so by then, and maybe later than the last hit that was missed.
    pub(super) fn anchor(
        &mut self,
        hit: &Head,
        anchor: &RawAnchor,
        missed_until: &MissedUntil,
        missed: &mut Missed,
    ) {
        let sends = hit.direction();
        self.is_anchor_odd = hit.is_marked(raw::MARK_ODD);
        self.placed_ns = self.placed_ns.max(hit.at_ns);
        for flow in &mut self.flows {
            flow.forget_pending(hit.at_ns, missed_until);
        }
        self.flows[sends].go_on_at(anchor.snd_una, anchor.bytes_acked);
        let receives = if self.is_to_itself { sends } else { 1 - sends };
        let received = &mut self.flows[receives];
        received.go_on_at(anchor.rcv_nxt, anchor.bytes_received);
        let before = (received.ready, received.copied);
        received.pass_over_until(anchor, hit.at_ns);
        if received.ready > before.0 {
            let since_ns = missed_until[Point::ReceiveEnqueue.index()];
            missed.leave_bytes(Point::ReceiveEnqueue, since_ns, hit.at_ns);
        }
        if received.copied > before.1 {
            let since_ns = missed_until[Point::ReceiveDequeue.index()];
            missed.leave_bytes(Point::ReceiveDequeue, since_ns, hit.at_ns);
        }
    }
}

/// What of a flow may have passed while hits of its points 7 and 8 were missed.
#[derive(Clone, Copy, Default)]
pub(super) struct PassOver {
    ready: bool,
    copied: bool,
}

impl FlowState {
    fn go_on_at(&mut self, sequence: u32, octets: u64) {
        if let Some(positions) = &mut self.positions {
            positions.anchor(sequence, octets.min(POSITION_MAX));
        }
    }

    /// Nothing that was known before a miss stands for what passed during it.
    fn forget_pending(&mut self, at_ns: u64, missed_until: &MissedUntil) {
        let is_missed = |point: Point, last_ns: u64| missed_until[point.index()] > last_ns;
        if is_missed(Point::SendEnqueue, self.writing.map_or(at_ns, |writing| writing.at_ns)) {
            self.writing = None;
        }
        if is_missed(Point::ReceiveEnqueue, self.ready_ns) {
            self.pass_over.ready = true;
            self.arrivals = Arrivals::default();
        }
        self.pass_over.copied |= is_missed(Point::ReceiveDequeue, self.copied_ns);
    }

    /// The receiver's socket tells what was ready and what was read by now.
    fn pass_over_until(&mut self, anchor: &RawAnchor, at_ns: u64) {
        if let (true, Some(to)) = (self.pass_over.ready, self.claimed(anchor.rcv_nxt)) {
            self.pass_over_ready(to);
            self.see_ready(at_ns);
        }
        if let (true, Some(to)) = (self.pass_over.copied, self.claimed(anchor.copied_seq)) {
            self.pass_over_copied(to, at_ns);
        }
    }

    /// Whether hits were missed that would show since when bytes are in the receive queue; then all up to
    /// `to` are, and nothing more is known.
    pub(super) fn pass_over_ready(&mut self, to: u64) -> bool {
        if self.pass_over.ready {
            self.ready = self.ready.max(Some(to));
            self.taken_since_joined = None;
        }
        self.pass_over.ready
    }

    /// An announcement, or as much as one, was seen: the next one stands for what came since. Returns whether
    /// others before this one were missed, so that it does not show which bytes came by it.
    pub(super) fn see_ready(&mut self, at_ns: u64) -> bool {
        self.ready_ns = at_ns;
        std::mem::take(&mut self.pass_over.ready)
    }

    /// Whether hits were missed that would show when bytes were read; then all up to `to` were, and nothing
    /// more is known. The next read stands for what was read since.
    pub(super) fn pass_over_copied(&mut self, to: u64, at_ns: u64) -> bool {
        self.copied_ns = at_ns;
        let is_missed = std::mem::take(&mut self.pass_over.copied);
        if is_missed {
            self.copied = self.copied.max(Some(to));
            (self.woken_ns, self.waiting_ns) = (0, at_ns);
        }
        is_missed
    }
}
