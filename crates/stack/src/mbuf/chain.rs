//! Chains of mbufs, as their owners see them.

use super::id::{MbufId, NIL};

/// Mbufs linked in order; owns them. Dropping one that is not empty leaks its mbufs.
#[derive(Debug)]
#[must_use = "the mbufs of a chain are lost unless it is freed or put somewhere"]
pub struct Chain {
    /// [`NIL`] in an empty chain.
    pub(super) first: u32,
    /// Means something if there is a first.
    pub(super) last: u32,
    pub(super) bytes: u32,
    pub(super) mbufs: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Self { first: NIL, last: NIL, bytes: 0, mbufs: 0 }
    }
}

impl Chain {
    /// No mbufs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of data.
    pub fn len(&self) -> usize {
        self.bytes as usize
    }

    /// Whether it holds no mbuf at all.
    pub fn is_empty(&self) -> bool {
        self.first == NIL
    }

    /// Number of mbufs.
    pub fn mbufs(&self) -> u32 {
        self.mbufs
    }

    /// The first mbuf.
    pub fn first(&self) -> Option<MbufId> {
        MbufId::in_list(self.first)
    }

    /// The last mbuf.
    pub fn last(&self) -> Option<MbufId> {
        self.first().map(|_| MbufId(self.last))
    }

    /// Takes the mbufs, leaving none.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}
