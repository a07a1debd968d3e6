//! Chains of mbufs: linking, unlinking, walking.

use super::{MbufId, NIL, Pool};

/// Mbufs linked in order; owns them. Dropping one that is not empty leaks its mbufs.
#[derive(Debug)]
#[must_use = "the mbufs of a chain are lost unless it is freed or put somewhere"]
pub struct Chain {
    /// [`NIL`] when there is none.
    pub(super) first: u32,
    /// Means something if there is a first.
    pub(super) last: u32,
    pub(super) bytes: u32,
    pub(super) mbufs: u32,
}

impl Default for Chain {
    #[inline]
    fn default() -> Self {
        Self { first: NIL, last: NIL, bytes: 0, mbufs: 0 }
    }
}

impl Chain {
    /// No mbufs.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// One mbuf that is in no chain, with so many bytes of data.
    #[inline]
    pub(super) fn of_one((MbufId(number), bytes): (MbufId, u32)) -> Self {
        Self { first: number, last: number, bytes, mbufs: 1 }
    }

    /// Bytes of data.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes as usize
    }

    /// Whether it holds no mbuf at all.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first == NIL
    }

    /// Number of mbufs.
    #[must_use]
    pub fn mbufs(&self) -> u32 {
        self.mbufs
    }

    /// The first mbuf.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<MbufId> {
        MbufId::in_list(self.first)
    }

    /// The last mbuf.
    #[inline]
    #[must_use]
    pub fn last(&self) -> Option<MbufId> {
        self.first().map(|_| MbufId(self.last))
    }

    /// Takes the mbufs, leaving none.
    #[inline]
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

impl MbufId {
    #[inline]
    pub(super) fn in_list(number: u32) -> Option<Self> {
        (number != NIL).then_some(Self(number))
    }
}

/// The data of a chain, mbuf by mbuf.
#[derive(Debug, Clone)]
pub struct Pieces<'a> {
    pool: &'a Pool,
    next: u32,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let id = MbufId::in_list(self.next)?;
        let mbuf = self.pool.mbuf(id);
        self.next = mbuf.next;
        Some(self.pool.data_of(mbuf))
    }
}

impl Pool {
    /// Puts one mbuf that is in no chain behind all others.
    #[inline]
    pub fn push_back(&mut self, chain: &mut Chain, id: MbufId) {
        let mbuf = self.mbuf_mut(id);
        mbuf.next = NIL;
        chain.bytes += u32::from(mbuf.len);
        chain.mbufs += 1;
        self.link(chain, id.0);
        chain.last = id.0;
    }

    /// Lets the mbuf of this number follow the last of the chain.
    #[inline]
    fn link(&mut self, chain: &mut Chain, number: u32) {
        match chain.last() {
            Some(last) => self.mbuf_mut(last).next = number,
            None => chain.first = number,
        }
    }

    /// Puts one mbuf that is in no chain before all others.
    #[inline]
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
    #[inline]
    pub fn pop_front(&mut self, chain: &mut Chain) -> Option<MbufId> {
        let first = chain.first()?;
        let mbuf = self.mbuf_mut(first);
        chain.first = std::mem::replace(&mut mbuf.next, NIL);
        chain.bytes -= u32::from(mbuf.len);
        chain.mbufs -= 1;
        Some(first)
    }

    /// Moves all mbufs of the second chain behind those of `chain`.
    #[inline]
    pub fn append(&mut self, chain: &mut Chain, Chain { first, last, bytes, mbufs }: Chain) {
        if first == NIL {
            return;
        }
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
    #[inline]
    #[must_use]
    pub fn pieces(&self, chain: &Chain) -> Pieces<'_> {
        Pieces { pool: self, next: chain.first }
    }

    #[inline]
    pub(super) fn next(&self, id: MbufId) -> Option<MbufId> {
        MbufId::in_list(self.mbuf(id).next)
    }
}
