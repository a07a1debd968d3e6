//! Mbufs: bounded storage for packets and socket buffers, in chains.
//!
//! An mbuf holds its bytes itself (*plain*), in a *cluster* of 1024 bytes that other mbufs may
//! share, or in a buffer *lent* by an owner outside, who gets it back when the last mbuf lets go.
//! A [`Chain`] owns its mbufs and can only be moved: it must be freed through its [`Pool`], and a
//! pool that is not full again at the end shows a leak.
//!
//! Sizes are bytes. What is got and freed is counted at the [`Meter`]; functions that the C
//! sources call are counted as calls, macros as operations.

mod chain;
mod copy;
#[cfg(test)]
mod tests;

pub use chain::Chain;
pub(crate) use copy::Place;

use crate::meter::Meter;
use crate::routine::{Routine, Work};

/// Bytes in a cluster: `CLBYTES` and `MCLBYTES` of every version on a VAX.
pub const CLUSTER_BYTES: usize = 1024;

/// Bytes that one mbuf takes of a socket buffer's storage limit (`MSIZE`).
pub const MBUF_BYTES: usize = 128;

/// Room in the largest plain mbuf of any version.
const SLOT_BYTES: usize = 112;

/// Ends a list of mbufs.
const NIL: u32 = u32::MAX;

/// How a version lays out its mbufs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Room in a plain mbuf (`MLEN`): 112, since 4.3BSD-Reno 108.
    pub plain_bytes: u16,
    /// Room in the first mbuf of a packet (`MHLEN`): as plain, since 4.3BSD-Reno 100.
    pub header_bytes: u16,
    /// How [`Pool::m_pullup`] works.
    pub pullup: Pullup,
}

/// How `m_pullup(n)` makes the first n bytes contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pullup {
    /// 4.2BSD: always a new mbuf with exactly n bytes.
    Exact,
    /// 4.3BSD: in the first mbuf if the rest fits behind what it holds; else a new one with up to
    /// 32 bytes more, so that one pull-up serves IP and TCP.
    Extra,
    /// 4.3BSD-Reno: as [`Pullup::Extra`], but at least the 40 bytes of both headers.
    Protocol,
}

/// How much a pool may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLimits {
    /// Mbufs of all kinds.
    pub mbufs: u32,
    /// Clusters (`NMBCLUSTERS`).
    pub clusters: u32,
    /// Lent buffers in use at once.
    pub lent: u32,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self { mbufs: 4096, clusters: 512, lent: 512 }
    }
}

/// One mbuf of one pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MbufId(u32);

/// Where the bytes of an mbuf are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    /// In its own slot, of which this many bytes may be used.
    Plain {
        room: u16,
    },
    Cluster(u32),
    Lent(u32),
}

#[derive(Debug, Clone, Copy)]
struct Mbuf {
    next: u32,
    offset: u16,
    len: u16,
    store: Store,
}

/// A buffer that belongs to somebody outside the pool.
#[derive(Debug)]
pub struct Lent {
    /// Whoever lent it, by a number of its own choice.
    pub owner: u32,
    /// The bytes.
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
struct LentSlot {
    lent: Option<Lent>,
    references: u16,
}

/// All mbufs, clusters and lent buffers of one host.
#[derive(Debug)]
pub struct Pool {
    geometry: Geometry,
    limits: PoolLimits,
    mbufs: Vec<Mbuf>,
    slots: Vec<[u8; SLOT_BYTES]>,
    free: u32,
    mbufs_used: u32,
    clusters: Vec<[u8; CLUSTER_BYTES]>,
    cluster_references: Vec<u16>,
    clusters_free: Vec<u32>,
    lent: Vec<LentSlot>,
    lent_free: Vec<u32>,
    returned: Vec<Lent>,
    refused: u64,
}

/// What a pool has given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolUse {
    /// Mbufs.
    pub mbufs: u32,
    /// Clusters with at least one reference.
    pub clusters: u32,
    /// Lent buffers with at least one reference.
    pub lent: u32,
}

impl Pool {
    /// An empty pool; memory is taken as it is needed, up to the limits.
    #[must_use]
    pub fn new(geometry: Geometry, limits: PoolLimits) -> Self {
        assert!(usize::from(geometry.plain_bytes) <= SLOT_BYTES);
        assert!(geometry.header_bytes <= geometry.plain_bytes && limits.mbufs < NIL);
        Self {
            geometry,
            limits,
            mbufs: Vec::new(),
            slots: Vec::new(),
            free: NIL,
            mbufs_used: 0,
            clusters: Vec::new(),
            cluster_references: Vec::new(),
            clusters_free: Vec::new(),
            lent: Vec::new(),
            lent_free: Vec::new(),
            returned: Vec::new(),
            refused: 0,
        }
    }

    /// What is in use now.
    #[must_use]
    pub fn in_use(&self) -> PoolUse {
        PoolUse {
            mbufs: self.mbufs_used,
            clusters: (self.clusters.len() - self.clusters_free.len()) as u32,
            lent: (self.lent.len() - self.lent_free.len()) as u32,
        }
    }

    /// Requests refused because a limit was reached.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The layout in force.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// `MGET`: a plain mbuf without data; `None` at the limit.
    pub fn get(&mut self, meter: &mut Meter) -> Option<MbufId> {
        self.with_room(self.geometry.plain_bytes, meter)
    }

    /// `MGETHDR`: the first mbuf of a packet; `None` at the limit.
    pub fn new_header(&mut self, meter: &mut Meter) -> Option<MbufId> {
        self.with_room(self.geometry.header_bytes, meter)
    }

    /// `m_get`, the function: as [`Pool::get`], and counted as a call.
    pub fn m_get(&mut self, meter: &mut Meter) -> Option<MbufId> {
        meter.call(Routine::MGet, Work::mbufs(1));
        self.get(meter)
    }

    fn with_room(&mut self, room: u16, meter: &mut Meter) -> Option<MbufId> {
        meter.call(Routine::MgetMacro, Work::NONE);
        let fresh = Mbuf { next: NIL, offset: 0, len: 0, store: Store::Plain { room } };
        let id = self.free;
        if id != NIL {
            self.free = self.mbufs[id as usize].next;
            self.mbufs[id as usize] = fresh;
        } else if self.mbufs.len() < self.limits.mbufs as usize {
            self.mbufs.push(fresh);
            self.slots.push([0; SLOT_BYTES]);
        } else {
            self.refused += 1;
            return None;
        }
        self.mbufs_used += 1;
        Some(MbufId(if id == NIL { self.mbufs.len() as u32 - 1 } else { id }))
    }

    /// `MCLGET`: gives a fresh plain mbuf a cluster; `false` at the limit, the mbuf unchanged.
    pub fn attach_cluster(&mut self, id: MbufId, meter: &mut Meter) -> bool {
        meter.call(Routine::MclgetMacro, Work::NONE);
        debug_assert!(matches!(self.mbuf(id).store, Store::Plain { .. }) && self.mbuf(id).len == 0);
        let cluster = match self.clusters_free.pop() {
            Some(cluster) => cluster,
            None if self.clusters.len() < self.limits.clusters as usize => {
                self.clusters.push([0; CLUSTER_BYTES]);
                self.cluster_references.push(0);
                self.clusters.len() as u32 - 1
            }
            None => {
                self.refused += 1;
                return false;
            }
        };
        self.cluster_references[cluster as usize] = 1;
        *self.mbuf_mut(id) = Mbuf { next: NIL, offset: 0, len: 0, store: Store::Cluster(cluster) };
        true
    }

    /// An mbuf whose data are `lent`; gives the buffer back at a limit or beyond 65,535 bytes.
    pub fn lend(&mut self, lent: Lent, meter: &mut Meter) -> Result<MbufId, Lent> {
        let room = self.lent_free.len() + self.limits.lent as usize > self.lent.len();
        if !room || lent.bytes.len() > usize::from(u16::MAX) {
            self.refused += 1;
            return Err(lent);
        }
        let Some(id) = self.get(meter) else { return Err(lent) };
        let len = lent.bytes.len() as u16;
        let slot = LentSlot { lent: Some(lent), references: 1 };
        let index = match self.lent_free.pop() {
            Some(index) => {
                self.lent[index as usize] = slot;
                index
            }
            None => {
                self.lent.push(slot);
                self.lent.len() as u32 - 1
            }
        };
        *self.mbuf_mut(id) = Mbuf { next: NIL, offset: 0, len, store: Store::Lent(index) };
        Ok(id)
    }

    /// One buffer of this owner that no mbuf refers to any more.
    pub fn reclaim(&mut self, owner: u32) -> Option<Vec<u8>> {
        let at = self.returned.iter().rposition(|lent| lent.owner == owner)?;
        Some(self.returned.swap_remove(at).bytes)
    }

    /// Lent buffers that no mbuf refers to any more, in the order in which they became free.
    pub fn take_returned(&mut self) -> Vec<Lent> {
        std::mem::take(&mut self.returned)
    }

    /// `MFREE`: frees one mbuf that is in no chain.
    pub fn free(&mut self, id: MbufId, meter: &mut Meter) {
        meter.call(Routine::MfreeMacro, Work::NONE);
        match self.mbuf(id).store {
            Store::Plain { .. } => {}
            Store::Cluster(cluster) => {
                self.cluster_references[cluster as usize] -= 1;
                if self.cluster_references[cluster as usize] == 0 {
                    self.clusters_free.push(cluster);
                }
            }
            Store::Lent(index) => self.release_lent(index),
        }
        self.mbuf_mut(id).next = self.free;
        self.free = id.0;
        self.mbufs_used -= 1;
    }

    fn release_lent(&mut self, index: u32) {
        let slot = &mut self.lent[index as usize];
        slot.references -= 1;
        if slot.references == 0 {
            self.returned.extend(slot.lent.take());
            self.lent_free.push(index);
        }
    }

    /// `m_free`, the function.
    pub fn m_free(&mut self, id: MbufId, meter: &mut Meter) {
        meter.call(Routine::MFree, Work::mbufs(1));
        self.free(id, meter);
    }

    /// `m_freem`, the function: frees a whole chain.
    pub fn m_freem(&mut self, chain: Chain, meter: &mut Meter) {
        meter.call(Routine::MFreem, Work::mbufs(chain.mbufs));
        self.free_chain(chain, meter);
    }

    /// Frees a whole chain as a loop of `MFREE`.
    #[inline(never)]
    pub fn free_chain(&mut self, mut chain: Chain, meter: &mut Meter) {
        while let Some(id) = self.pop_front(&mut chain) {
            self.free(id, meter);
        }
    }

    /// The data of one mbuf.
    #[inline]
    #[must_use]
    pub fn data(&self, id: MbufId) -> &[u8] {
        let mbuf = self.mbuf(id);
        let range = usize::from(mbuf.offset)..usize::from(mbuf.offset) + usize::from(mbuf.len);
        match mbuf.store {
            Store::Plain { .. } => &self.slots[id.0 as usize][range],
            Store::Cluster(cluster) => &self.clusters[cluster as usize][range],
            Store::Lent(index) => {
                let lent = &self.lent[index as usize].lent;
                lent.as_ref().map_or(&[], |lent| &lent.bytes[range])
            }
        }
    }

    /// The data of one mbuf that shares its storage with no other: a plain one, or a cluster with
    /// one reference. Empty for anything else.
    #[inline]
    pub fn data_mut(&mut self, id: MbufId) -> &mut [u8] {
        let mbuf = *self.mbuf(id);
        let range = usize::from(mbuf.offset)..usize::from(mbuf.offset) + usize::from(mbuf.len);
        match mbuf.store {
            Store::Plain { .. } => &mut self.slots[id.0 as usize][range],
            Store::Cluster(cluster) if self.cluster_references[cluster as usize] == 1 => {
                &mut self.clusters[cluster as usize][range]
            }
            Store::Cluster(_) | Store::Lent(_) => &mut [],
        }
    }

    /// Bytes of data in one mbuf.
    #[inline]
    #[must_use]
    pub fn len(&self, id: MbufId) -> usize {
        usize::from(self.mbuf(id).len)
    }

    /// Whether the data are in a cluster.
    #[inline]
    #[must_use]
    pub fn is_cluster(&self, id: MbufId) -> bool {
        matches!(self.mbuf(id).store, Store::Cluster(_))
    }

    /// Whether the data are in the mbuf itself.
    #[inline]
    #[must_use]
    pub fn is_plain(&self, id: MbufId) -> bool {
        matches!(self.mbuf(id).store, Store::Plain { .. })
    }

    /// Whether the data are a whole cluster from its first byte on, which page mapping needs.
    #[must_use]
    pub fn is_whole_page(&self, id: MbufId) -> bool {
        let mbuf = self.mbuf(id);
        self.is_cluster(id) && mbuf.offset == 0 && usize::from(mbuf.len) == CLUSTER_BYTES
    }

    /// Bytes free before the data of a plain mbuf; 0 for other mbufs.
    #[inline]
    #[must_use]
    pub fn leading_room(&self, id: MbufId) -> usize {
        if self.is_plain(id) { usize::from(self.mbuf(id).offset) } else { 0 }
    }

    /// Bytes free behind the data of a plain mbuf; 0 for other mbufs.
    #[inline]
    #[must_use]
    pub fn trailing_room(&self, id: MbufId) -> usize {
        let mbuf = self.mbuf(id);
        match mbuf.store {
            Store::Plain { room } => usize::from(room - mbuf.offset - mbuf.len),
            Store::Cluster(_) | Store::Lent(_) => 0,
        }
    }

    /// What one mbuf counts against a socket buffer's storage limit (`mbcnt`). A lent buffer counts
    /// as a cluster, whose place it takes.
    #[must_use]
    pub fn storage_bytes(&self, id: MbufId) -> usize {
        MBUF_BYTES + if self.is_plain(id) { 0 } else { CLUSTER_BYTES }
    }

    /// What a whole chain counts against a socket buffer's storage limit.
    #[must_use]
    pub fn chain_storage_bytes(&self, chain: &Chain) -> usize {
        self.ids(chain).map(|id| self.storage_bytes(id)).sum()
    }

    /// Gives an mbuf that is in no chain and shares nothing `len` bytes at `offset`, for the
    /// caller to fill in with [`Pool::data_mut`]; cut to its room.
    pub fn set_range(&mut self, id: MbufId, offset: usize, len: usize) {
        let room = match self.mbuf(id).store {
            Store::Plain { room } => usize::from(room),
            Store::Cluster(_) => CLUSTER_BYTES,
            Store::Lent(_) => return,
        };
        debug_assert!(offset + len <= room, "{offset} and {len} bytes in room for {room}");
        let offset = offset.min(room);
        let mbuf = self.mbuf_mut(id);
        mbuf.offset = offset as u16;
        mbuf.len = len.min(room - offset) as u16;
    }

    #[inline]
    fn mbuf(&self, id: MbufId) -> &Mbuf {
        &self.mbufs[id.0 as usize]
    }

    #[inline]
    fn mbuf_mut(&mut self, id: MbufId) -> &mut Mbuf {
        &mut self.mbufs[id.0 as usize]
    }
}
