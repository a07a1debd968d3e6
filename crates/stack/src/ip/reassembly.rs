//! `ip_reass`: packets from their fragments (RFC 791 §3.2).
//!
//! Where fragments overlap, what came first stays. The number of packets in the making, of
//! fragments of one packet and the time that they wait are bounded.

use std::net::Ipv4Addr;

use super::input::Header;
use super::{IP_HEADER_BYTES, InputHeader};
use crate::mbuf::{Chain, Pool};
use crate::meter::Meter;
use crate::packet::{Mark, Packet};
use crate::routine::{Routine, Work};
use crate::stack::Stack;

/// Packets in the making at one time; the oldest goes when there is one more.
const QUEUES_MAX: usize = 16;

/// Fragments of one packet; one of 65,535 bytes over the smallest Ethernet fits.
const FRAGMENTS_MAX: usize = 64;

/// All packets in the making, oldest first.
#[derive(Debug, Default)]
pub struct FragmentQueues {
    queues: Vec<Queue>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: u8,
    id: u16,
}

#[derive(Debug)]
struct Queue {
    key: Key,
    ttl: u8,
    /// In order of their offsets, without overlap.
    fragments: Vec<Fragment>,
    /// Payload bytes of the whole packet, once its last fragment is here.
    whole_bytes: Option<usize>,
    /// Header of the first fragment, once it is here.
    header: Option<([u8; IP_HEADER_BYTES], InputHeader)>,
}

#[derive(Debug)]
struct Fragment {
    offset: usize,
    chain: Chain,
    mark: Option<Mark>,
}

impl Fragment {
    fn end(&self) -> usize {
        self.offset + self.chain.len()
    }
}

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

impl Queue {
    /// Puts a fragment in its place, cut to what is not here yet; how many were dropped.
    fn insert(&mut self, mut fragment: Fragment, pool: &mut Pool, meter: &mut Meter) -> u64 {
        let at = self.fragments.partition_point(|other| other.offset <= fragment.offset);
        if let Some(before) = at.checked_sub(1).map(|before| &self.fragments[before]) {
            let overlap = before.end().saturating_sub(fragment.offset);
            fragment.offset += overlap.min(fragment.chain.len());
            fragment.mark = fragment.mark.map(|mark| mark.part(overlap as u32, u32::MAX));
            pool.drop_front(&mut fragment.chain, overlap, meter);
        }
        if let Some(after) = self.fragments.get(at) {
            let room = after.offset - fragment.offset.min(after.offset);
            pool.truncate(&mut fragment.chain, room, meter);
        }
        if fragment.chain.is_empty() || self.fragments.len() == FRAGMENTS_MAX {
            pool.m_freem(fragment.chain, meter);
            return 1;
        }
        self.fragments.insert(at, fragment);
        0
    }

    fn is_complete(&self) -> bool {
        let mut reached = 0;
        for fragment in &self.fragments {
            if fragment.offset != reached {
                return false;
            }
            reached = fragment.end();
        }
        self.header.is_some() && self.whole_bytes.is_some_and(|whole| reached >= whole)
    }

    /// The whole packet with the header of its first fragment.
    fn join(mut self, pool: &mut Pool, meter: &mut Meter) -> Option<(Packet, InputHeader)> {
        let Some((fixed, mut fields)) = self.header else {
            self.free(pool, meter);
            return None;
        };
        let Some(mut chain) = pool.chain_of(&fixed, meter) else {
            self.free(pool, meter);
            return None;
        };
        let mut mark = self.fragments.first().and_then(|fragment| fragment.mark);
        for fragment in self.fragments.drain(..) {
            // The first fragment's mark grows over the data of the others.
            let first = fragment.offset == 0;
            if let (Some(mark), Some(part), false) = (&mut mark, fragment.mark, first) {
                mark.len += part.len;
            }
            pool.append(&mut chain, fragment.chain);
        }
        pool.truncate(&mut chain, IP_HEADER_BYTES + self.whole_bytes.unwrap_or(0), meter);
        fields.payload_bytes = (chain.len() - IP_HEADER_BYTES) as u16;
        Some((Packet { chain, mark }, fields))
    }

    fn free(self, pool: &mut Pool, meter: &mut Meter) -> u64 {
        let count = self.fragments.len() as u64;
        for fragment in self.fragments {
            pool.m_freem(fragment.chain, meter);
        }
        count
    }
}
