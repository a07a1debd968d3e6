//! The numbers of mbufs, by which a pool links them.

/// Ends a list of mbufs.
pub(super) const NIL: u32 = u32::MAX;

/// One mbuf of one pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MbufId(pub(super) u32);

impl MbufId {
    pub(super) fn in_list(number: u32) -> Option<Self> {
        (number != NIL).then_some(Self(number))
    }
}
