//! Incomplete packets: the received fragments of each (RFC 791 §3.2).
//!
//! Where fragments overlap, the earlier data stay. The number of incomplete packets, of fragments
//! of one packet and the time that they wait are bounded.

use std::net::Ipv4Addr;

use super::{IP_HEADER_BYTES, InputHeader};
use crate::cost::CostMeter;
use crate::mbuf::{Chain, Pool};
use crate::packet::{Mark, Packet};

/// Incomplete packets at one time; one more replaces the oldest.
pub(super) const QUEUES_MAX: usize = 16;

/// Fragments of one packet; one of 65,535 bytes over the smallest Ethernet fits.
const FRAGMENTS_MAX: usize = 64;

/// All packets in the making, oldest first.
#[derive(Debug, Default)]
pub struct FragmentQueues {
    pub(super) queues: Vec<Queue>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
    pub(super) protocol: u8,
    pub(super) id: u16,
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) key: Key,
    pub(super) ttl: u8,
    /// In order of their offsets, without overlap.
    pub(super) fragments: Vec<Fragment>,
    /// Payload bytes of the whole packet, once its last fragment is here.
    pub(super) whole_bytes: Option<usize>,
    /// Header of the first fragment, once it is here.
    pub(super) header: Option<([u8; IP_HEADER_BYTES], InputHeader)>,
}

#[derive(Debug)]
pub(super) struct Fragment {
    pub(super) offset: usize,
    pub(super) chain: Chain,
    pub(super) mark: Option<Mark>,
}

impl Fragment {
    fn end(&self) -> usize {
        self.offset + self.chain.len()
    }
}

impl Queue {
    /// Inserts the missing part of a fragment; the number of dropped fragments.
    pub(super) fn insert(
        &mut self,
        mut fragment: Fragment,
        pool: &mut Pool,
        meter: &mut CostMeter,
    ) -> u64 {
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
        let mut pairs = self.fragments.iter().zip(self.fragments.iter().skip(1));
        debug_assert!(pairs.all(|(a, b)| a.end() <= b.offset), "fragments overlap");
        assert!(self.fragments.len() <= FRAGMENTS_MAX, "more fragments than are kept");
        0
    }

    pub(super) fn is_complete(&self) -> bool {
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
    pub(super) fn join(
        mut self,
        pool: &mut Pool,
        meter: &mut CostMeter,
    ) -> Option<(Packet, InputHeader)> {
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

    pub(super) fn free(self, pool: &mut Pool, meter: &mut CostMeter) -> u64 {
        let count = self.fragments.len() as u64;
        for fragment in self.fragments {
            pool.m_freem(fragment.chain, meter);
        }
        count
    }
}
