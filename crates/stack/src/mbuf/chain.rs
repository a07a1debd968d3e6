//! Chains of mbufs: linking, unlinking, walking.

use super::{MbufId, NIL, Pool};

/// Mbufs linked in order; owns them. Dropping one that is not empty leaks its mbufs.
#[derive(Debug, Default)]
#[must_use = "the mbufs of a chain are lost unless it is freed or put somewhere"]
pub struct Chain {
    pub(super) ends: Option<(MbufId, MbufId)>,
    pub(super) bytes: u32,
    pub(super) mbufs: u32,
}

impl Chain {
    /// No mbufs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of data.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes as usize
    }

    /// Whether it holds no mbuf at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_none()
    }

    /// Number of mbufs.
    #[must_use]
    pub fn mbufs(&self) -> u32 {
        self.mbufs
    }

    /// The first mbuf.
    #[must_use]
    pub fn first(&self) -> Option<MbufId> {
        self.ends.map(|(first, _)| first)
    }

    /// The last mbuf.
    #[must_use]
    pub fn last(&self) -> Option<MbufId> {
        self.ends.map(|(_, last)| last)
    }

    /// Takes the mbufs, leaving none.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

impl Pool {
    /// Puts one mbuf that is in no chain behind all others.
    #[inline]
    pub fn push_back(&mut self, chain: &mut Chain, id: MbufId) {
        self.mbuf_mut(id).next = NIL;
        chain.ends = match chain.ends {
            None => Some((id, id)),
            Some((first, last)) => {
                self.mbuf_mut(last).next = id.0;
                Some((first, id))
            }
        };
        chain.bytes += u32::from(self.mbuf(id).len);
        chain.mbufs += 1;
    }

    /// Puts one mbuf that is in no chain before all others.
    #[inline]
    pub fn push_front(&mut self, chain: &mut Chain, id: MbufId) {
        self.mbuf_mut(id).next = chain.first().map_or(NIL, |first| first.0);
        chain.ends = Some((id, chain.last().unwrap_or(id)));
        chain.bytes += u32::from(self.mbuf(id).len);
        chain.mbufs += 1;
    }

    /// Takes the first mbuf out of the chain.
    #[inline]
    pub fn pop_front(&mut self, chain: &mut Chain) -> Option<MbufId> {
        let (first, last) = chain.ends?;
        chain.ends = self.next(first).map(|next| (next, last));
        chain.bytes -= u32::from(self.mbuf(first).len);
        chain.mbufs -= 1;
        self.mbuf_mut(first).next = NIL;
        Some(first)
    }

    /// Moves all mbufs of the second chain behind those of `chain`.
    pub fn append(&mut self, chain: &mut Chain, Chain { ends, bytes, mbufs }: Chain) {
        let Some((tail_first, tail_last)) = ends else { return };
        let first = match chain.ends {
            None => tail_first,
            Some((first, last)) => {
                self.mbuf_mut(last).next = tail_first.0;
                first
            }
        };
        chain.ends = Some((first, tail_last));
        chain.bytes += bytes;
        chain.mbufs += mbufs;
    }

    /// The mbufs of a chain in order.
    pub fn ids<'a>(&'a self, chain: &Chain) -> impl Iterator<Item = MbufId> + use<'a> {
        std::iter::successors(chain.first(), |id| self.next(*id))
    }

    /// The data of a chain, mbuf by mbuf.
    pub fn pieces<'a>(&'a self, chain: &Chain) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.ids(chain).map(|id| self.data(id))
    }

    #[inline]
    pub(super) fn next(&self, id: MbufId) -> Option<MbufId> {
        let next = self.mbuf(id).next;
        (next != NIL).then_some(MbufId(next))
    }
}
