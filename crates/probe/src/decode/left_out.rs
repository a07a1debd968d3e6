//! Connections that sampling leaves out on the way.
//!
//! The probes free the slot of such a connection while its sockets are open. Its event has a time before any hit that
//! finds no slot, so that all up to then is known, and nothing later. A hit on another CPU may have found the slot
//! before: its record has a later time, or the number of a free slot.

use sockscope_record::{ConnectionId, Direction, Kind, Record};

use super::decoder::Decoder;
use super::hit::Head;
use crate::layout::{RawEvent, constants as raw};

/// A hit ends at most so long after it found its slot.
const HIT_TAKES_NS: u64 = 1_000_000_000;
/// The numbers that a hit reads from a slot that is free, or that is just taken or freed.
const OF_FREE_SLOTS: [u32; 2] = [0, u32::MAX >> 1];

impl Decoder {
    /// Nothing later of the connection is recorded.
    pub(super) fn left_out(&mut self, event: &RawEvent) {
        let (at_ns, connection) = (event.at_ns, event.connection);
        self.left_out_ns = at_ns;
        let Some(state) = self.state_mut(connection) else { return };
        state.left_out_ns = Some(at_ns);
        let flow = ConnectionId(connection).flow(Direction::FromClient);
        self.report_in_time(Record { at_ns, flow, kind: Kind::LeftOut, ..Record::default() });
        self.ended(at_ns, connection);
    }

    /// Whether the event is of a connection that was left out before. The event of a thread follows the hit that shows
    /// it.
    pub(super) fn is_of_left_out(&self, event: &RawEvent) -> bool {
        let connection = if event.connection > 0 { event.connection } else { event.flow / 2 };
        event.kind != u32::from(raw::EVENT_THREAD)
            && self.state(connection).is_some_and(|state| state.is_left_out(event.at_ns))
    }

    /// Whether the slot of the hit was freed under it, as that of a connection that is left out.
    pub(super) fn lost_its_slot(&self, head: &Head) -> bool {
        OF_FREE_SLOTS.contains(&(head.flow / 2))
            && self.left_out_ns > 0
            && head.at_ns.abs_diff(self.left_out_ns) < HIT_TAKES_NS
    }
}
