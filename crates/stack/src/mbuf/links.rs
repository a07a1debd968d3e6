//! Linking the mbufs of a pool to chains, unlinking them, and walking over them.

use super::Pool;
use super::chain::Chain;
use super::id::{MbufId, NIL};

/// The data of a chain, mbuf by mbuf.
#[derive(Debug, Clone)]
pub struct Pieces<'a> {
    pool: &'a Pool,
    next: u32,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let id = MbufId::in_list(self.next)?;
        let mbuf = self.pool.mbuf(id);
        self.next = mbuf.next;
        Some(self.pool.data_of(mbuf))
    }
}

impl Pool {
    /// Puts one mbuf that is in no chain behind all others.
    pub fn push_back(&mut self, chain: &mut Chain, id: MbufId) {
        debug_assert!(chain.last() != Some(id), "{id:?} is in the chain already");
        let mbuf = self.mbuf_mut(id);
        mbuf.next = NIL;
        chain.bytes += u32::from(mbuf.len);
        chain.mbufs += 1;
        self.link(chain, id.0);
        chain.last = id.0;
    }

    /// Lets the mbuf of this number follow the last of the chain.
    fn link(&mut self, chain: &mut Chain, number: u32) {
        match chain.last() {
            Some(last) => self.mbuf_mut(last).next = number,
            None => chain.first = number,
        }
    }

    /// Puts one mbuf that is in no chain before all others.
    pub fn push_front(&mut self, chain: &mut Chain, id: MbufId) {
        let mbuf = self.mbuf_mut(id);
        mbuf.next = chain.first;
        chain.bytes += u32::from(mbuf.len);
        chain.mbufs += 1;
        if chain.first == NIL {
            chain.last = id.0;
        }
        chain.first = id.0;
    }

    /// Takes the first mbuf out of the chain.
    pub fn pop_front(&mut self, chain: &mut Chain) -> Option<MbufId> {
        let first = chain.first()?;
        let mbuf = self.mbuf_mut(first);
        chain.first = std::mem::replace(&mut mbuf.next, NIL);
        chain.bytes -= u32::from(mbuf.len);
        chain.mbufs -= 1;
        debug_assert_eq!(chain.is_empty(), chain.mbufs == 0, "{chain:?}");
        Some(first)
    }

    /// Moves all mbufs of the second chain behind those of `chain`.
    pub fn append(&mut self, chain: &mut Chain, Chain { first, last, bytes, mbufs }: Chain) {
        if first == NIL {
            return;
        }
        debug_assert_eq!(
            self.mbuf(MbufId(last)).next,
            NIL,
            "the last mbuf of a chain has another behind it"
        );
        self.link(chain, first);
        chain.last = last;
        chain.bytes += bytes;
        chain.mbufs += mbufs;
    }

    /// The mbufs of a chain in order.
    pub fn ids<'a>(&'a self, chain: &Chain) -> impl Iterator<Item = MbufId> + use<'a> {
        std::iter::successors(chain.first(), |id| self.next(*id))
    }

    /// The data of a chain, mbuf by mbuf.
    pub fn pieces(&self, chain: &Chain) -> Pieces<'_> {
        Pieces { pool: self, next: chain.first }
    }

    pub(super) fn next(&self, id: MbufId) -> Option<MbufId> {
        MbufId::in_list(self.mbuf(id).next)
    }
}
