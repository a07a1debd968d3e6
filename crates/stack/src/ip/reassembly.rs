//! `ip_reass`: packets from their fragments (RFC 791 §3.2).

use super::fragments::{Fragment, Key, QUEUES_MAX, Queue};
use super::input::Header;
use super::{IP_HEADER_BYTES, InputHeader};
use crate::meter::Meter;
use crate::packet::Packet;
use crate::routine::{Routine, Work};
use crate::stack::Stack;

impl Stack {
    /// Takes one fragment; the whole packet if that makes it complete.
    pub(super) fn ip_reass(
        &mut self,
        packet: Packet,
        header: &Header,
        meter: &mut Meter,
    ) -> Option<(Packet, InputHeader)> {
        let fields = header.fields;
        let (id, offset, more) = header.fragment;
        let InputHeader { source, destination, protocol, .. } = fields;
        let key = Key { source, destination, protocol, id };
        let Packet { mut chain, mark } = packet;
        let mut fixed = [0; IP_HEADER_BYTES];
        self.pool.copy_to(&chain, 0, &mut fixed);
        self.pool.drop_front(&mut chain, IP_HEADER_BYTES, meter);
        let is_damaged = chain.is_empty()
            || more && chain.len() % 8 != 0
            || offset + chain.len() > usize::from(u16::MAX) - IP_HEADER_BYTES;
        if is_damaged {
            self.ip_counts.fragments_dropped += 1;
            self.pool.m_freem(chain, meter);
            return None;
        }
        let ttl = self.personality.ip.fragment_ttl;
        let at = self.fragment_queue(key, ttl, meter);
        let queue = &mut self.fragments.queues[at];
        if offset == 0 && queue.header.is_none() {
            queue.header = Some((fixed, fields));
        }
        if !more && queue.whole_bytes.is_none() {
            queue.whole_bytes = Some(offset + chain.len());
        }
        meter.call(Routine::IpReass, Work::walked(queue.fragments.len() as u32));
        let dropped = queue.insert(Fragment { offset, chain, mark }, &mut self.pool, meter);
        self.ip_counts.fragments_dropped += dropped;
        if !self.fragments.queues[at].is_complete() {
            return None;
        }
        let queue = self.fragments.queues.remove(at);
        queue.join(&mut self.pool, meter)
    }

    /// Position of the queue of this packet; a new one may push out the oldest.
    fn fragment_queue(&mut self, key: Key, ttl: u8, meter: &mut Meter) -> usize {
        let queues = &mut self.fragments.queues;
        if let Some(at) = queues.iter().position(|queue| queue.key == key) {
            return at;
        }
        if queues.len() == QUEUES_MAX {
            let oldest = queues.remove(0);
            self.ip_counts.fragments_dropped += oldest.free(&mut self.pool, meter);
        }
        assert!(queues.len() < QUEUES_MAX, "more packets in the making than are kept");
        let fresh = Queue { key, ttl, fragments: Vec::new(), whole_bytes: None, header: None };
        self.fragments.queues.push(fresh);
        self.fragments.queues.len() - 1
    }

    /// `ip_slowtimo`: every 500 ms. Packets that have waited too long for a fragment go.
    pub(crate) fn ip_slowtimo(&mut self, meter: &mut Meter) {
        meter.call(Routine::IpSlowtimo, Work::NONE);
        for queue in &mut self.fragments.queues {
            queue.ttl = queue.ttl.saturating_sub(1);
        }
        while let Some(at) = self.fragments.queues.iter().position(|queue| queue.ttl == 0) {
            let stale = self.fragments.queues.remove(at);
            self.ip_counts.fragments_dropped += stale.free(&mut self.pool, meter);
        }
    }
}
