//! Datagrams between IP and the queue of their socket, by the port that they are for: a read may take one
//! before its announcement is recorded.

use std::collections::BTreeSet;

use super::connections::Connections;
use super::flow_state::ConnectionState;
use crate::layout::RawUdpCopy;

/// From IP to the receive queue a datagram takes at most this long, with interrupts in between.
pub(super) const DELIVERY_NS_MAX: u64 = 100_000_000;

/// A logged datagram that IP took, and that may be in a receive queue without its announcement having been seen.
#[derive(Clone, Copy)]
pub(super) struct InTransit {
    /// Its flow: the one that the read names where several have one.
    pub(super) flow: u32,
    /// Whether no hit was missed since, so that it was not dropped.
    pub(super) is_sure: bool,
}

/// Flows with a datagram that IP took and that may not be in a receive queue yet, by destination port.
#[derive(Default)]
pub(super) struct Incoming(BTreeSet<(u16, u32)>);

impl Incoming {
    /// IP took a datagram of a flow.
    pub(super) fn taken(&mut self, state: &ConnectionState, flow: u32) {
        self.0.insert((state.receiving_port(flow), flow));
    }

    /// Flows that may have a datagram there.
    #[cfg(test)]
    pub(super) fn flows(&self) -> usize {
        self.0.len()
    }

    /// A connection is forgotten.
    pub(super) fn forget(&mut self, state: &ConnectionState) {
        for flow in &state.flows {
            self.0.remove(&(state.receiving_port(flow.id.0), flow.id.0));
        }
    }

    /// The datagram that may have entered the read's receive queue without an announcement by then.
    /// Hits by `lost_until_ns` may be in no list.
    pub(super) fn in_transit(
        &mut self,
        connections: &Connections,
        read: &RawUdpCopy,
        lost_until_ns: u64,
    ) -> Option<InTransit> {
        let (flow, taken_ns) = self.next_in_transit(connections, read, 0)?;
        match self.next_in_transit(connections, read, flow.saturating_add(1)) {
            Some((_, other_ns)) => {
                let is_sure = taken_ns.max(other_ns) > lost_until_ns;
                Some(InTransit { flow: read.flow, is_sure })
            }
            None => Some(InTransit { flow, is_sure: taken_ns > lost_until_ns }),
        }
    }

    /// The first such flow from a number on, and when IP took its datagram. Flows that have none are not looked at again
    /// before IP takes their next one.
    fn next_in_transit(
        &mut self,
        connections: &Connections,
        read: &RawUdpCopy,
        from: u32,
    ) -> Option<(u32, u64)> {
        let state = |flow: u32| connections.get(flow / 2);
        let port = state(read.flow)?.receiving_port(read.flow);
        let since_ns = read.at_ns.saturating_sub(DELIVERY_NS_MAX);
        while let Some(&next) = self.0.range((port, from)..=(port, u32::MAX)).next() {
            let (_, flow) = next;
            let datagrams =
                state(flow).map(|state| &state.flows[(flow & 1) as usize].path.datagrams);
            if let Some(taken_ns) = datagrams.and_then(|it| it.in_transit_since_ns(since_ns)) {
                return Some((flow, taken_ns));
            }
            self.0.remove(&next);
        }
        None
    }
}
