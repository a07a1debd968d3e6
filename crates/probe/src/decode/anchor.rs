//! Positions after missed records: hits with a position, and the point where a stream continues.
//!
//! A sequence number shows a position only to within 4 GiB. Once a record of a connection was missed,
//! the probes mark its records until a hit that has a socket writes an anchor, which holds the socket's
//! 64-bit counters. A marked record is placed only where too few octets can have passed unseen since
//! the last placed record; else it is counted as missed. The bytes that passed while hits of a
//! point were missed passed it at an unknown time, so that no later hit covers them.

use sockscope_record::Point;

use super::flow_state::{ConnectionState, FlowState};
use super::hit::Head;
use super::unknown_positions::{MissedUntil, UnknownPositions};
use crate::layout::{RawAnchor, constants as raw};

impl ConnectionState {
    /// Whether the position of this hit is known; a hit without one was missed at the point given.
    pub(super) fn is_placed(
        &mut self,
        hit: &Head,
        unknown_positions: &mut UnknownPositions,
        point: Option<Point>,
    ) -> bool {
        let is_odd = hit.is_marked(raw::MARK_ODD);
        let is_sure = !hit.is_marked(raw::MARK_ADRIFT) && is_odd == self.is_anchor_odd;
        if !is_sure && unknown_positions.may_hide_positions(self.placed_ns, hit.at_ns) {
            unknown_positions.leave(point, self.placed_ns, hit.at_ns);
            return false;
        }
        self.placed_ns = self.placed_ns.max(hit.at_ns);
        true
    }

    /// The sequence numbers and 64-bit counters of one of its sockets. The bytes that it reports past points 7
    /// and 8 passed by then, and maybe later than the last missed hit.
    pub(super) fn anchor(
        &mut self,
        hit: &Head,
        anchor: &RawAnchor,
        missed_until: &MissedUntil,
        unknown_positions: &mut UnknownPositions,
    ) {
        let sends = hit.direction();
        self.is_anchor_odd = hit.is_marked(raw::MARK_ODD);
        self.placed_ns = self.placed_ns.max(hit.at_ns);
        for flow in &mut self.flows {
            flow.forget_pending(hit.at_ns, missed_until);
        }
        self.flows[sends].positions.anchor(anchor.snd_una, anchor.bytes_acked);
        let receives = if self.is_to_itself { sends } else { 1 - sends };
        let FlowState { positions, receiver, .. } = &mut self.flows[receives];
        positions.anchor(anchor.rcv_nxt, anchor.bytes_received);
        let before = (receiver.ready_until(), receiver.copied_until());
        receiver.pass_over_until(anchor, positions, hit.at_ns);
        if receiver.ready_until() > before.0 {
            let since_ns = missed_until[Point::ReceiveEnqueue.index()];
            unknown_positions.leave_bytes(Point::ReceiveEnqueue, since_ns, hit.at_ns);
        }
        if receiver.copied_until() > before.1 {
            let since_ns = missed_until[Point::ReceiveDequeue.index()];
            unknown_positions.leave_bytes(Point::ReceiveDequeue, since_ns, hit.at_ns);
        }
    }
}
