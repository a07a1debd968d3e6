//! Mbufs: bounded storage for packets and socket buffers, in chains.
//!
//! An mbuf holds its bytes itself (*plain*), in a *cluster* of 1024 bytes that other mbufs may
//! share, or in a buffer *lent* by a device. The device gets it back when the last mbuf is freed.
//! A [`Chain`] owns its mbufs and can only be moved: it must be freed through its [`Pool`], and a
//! pool that is not full again at the end shows a leak.
//!
//! Sizes are bytes. Allocations and frees are counted at the [`CostMeter`]; functions that the C
//! sources call are counted as calls, macros as operations.

mod buffers;
mod chain;
mod copy;
mod id;
mod links;
#[cfg(test)]
mod tests;

pub use chain::Chain;
pub use id::MbufId;
pub use links::Pieces;

use std::ops::Range;

use buffers::{Buffers, grow};
use id::NIL;

use crate::cost::CostMeter;
use crate::routine::{Routine, Work};

/// Bytes in a cluster: `CLBYTES` and `MCLBYTES` of every version on a VAX.
pub const CLUSTER_BYTES: usize = 1024;

/// Bytes that one mbuf takes of a socket buffer's storage limit (`MSIZE`).
pub const MBUF_BYTES: usize = 128;

/// Room in the largest plain mbuf of any version.
const SLOT_BYTES: usize = 112;

/// Lent buffers have a multiple of so many bytes.
const LENT_UNIT_BYTES: usize = 2048;

/// The mbuf layout of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Room in a plain mbuf (`MLEN`): 112, since 4.3BSD-Reno 108.
    pub plain_bytes: u16,
    /// Room in the first mbuf of a packet (`MHLEN`): as plain, since 4.3BSD-Reno 100.
    pub header_bytes: u16,
    /// The rule of [`Pool::m_pullup`].
    pub pullup: Pullup,
}

/// The rule by which `m_pullup(n)` makes the first n bytes contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pullup {
    /// 4.2BSD: always a new mbuf with exactly n bytes.
    Exact,
    /// 4.3BSD: in the first mbuf if the rest fits behind its data; else a new one with up to 32
    /// bytes more, so that one pull-up serves IP and TCP.
    Extra,
    /// 4.3BSD-Reno: as [`Pullup::Extra`], but at least the 40 bytes of both headers.
    Protocol,
}

/// The limits of a pool.
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

/// Where the bytes of an mbuf are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    /// In its own slot; this many bytes of it may be used.
    Plain {
        room: u16,
    },
    Cluster(u32),
    Lent(u32),
}

#[derive(Debug, Clone, Copy)]
struct Mbuf {
    next: u32,
    /// Where its own slot begins among the pool's bytes.
    slot: u32,
    /// Where its data begin.
    at: u32,
    len: u16,
    store: Store,
}

impl Mbuf {
    /// Its data among the pool's bytes.
    fn range(&self) -> Range<usize> {
        self.at as usize..self.at as usize + usize::from(self.len)
    }

    fn is_plain(&self) -> bool {
        matches!(self.store, Store::Plain { .. })
    }

    /// As [`Pool::trailing_room`].
    fn trailing_room(&self) -> usize {
        let Store::Plain { room } = self.store else { return 0 };
        usize::from(room) - (self.at - self.slot) as usize - usize::from(self.len)
    }

    /// As [`Pool::storage_bytes`].
    fn storage_bytes(&self) -> usize {
        MBUF_BYTES + if self.is_plain() { 0 } else { CLUSTER_BYTES }
    }
}

/// All mbufs, clusters and lent buffers of one host.
#[derive(Debug)]
pub struct Pool {
    geometry: Geometry,
    limits: PoolLimits,
    mbufs: Vec<Mbuf>,
    free: u32,
    mbufs_used: u32,
    clusters: Buffers,
    lent: Buffers,
    /// Slots of mbufs and all buffers, in the order in which they were made.
    bytes: Vec<u8>,
    refused: u64,
}

/// The allocated part of a pool.
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
    pub fn new(geometry: Geometry, limits: PoolLimits) -> Self {
        assert!(usize::from(geometry.plain_bytes) <= SLOT_BYTES);
        assert!(geometry.header_bytes <= geometry.plain_bytes && limits.mbufs < NIL);
        Self {
            geometry,
            limits,
            mbufs: Vec::new(),
            free: NIL,
            mbufs_used: 0,
            clusters: Buffers::new(limits.clusters),
            lent: Buffers::new(limits.lent),
            bytes: Vec::new(),
            refused: 0,
        }
    }

    /// The part in use now.
    pub fn in_use(&self) -> PoolUse {
        PoolUse { mbufs: self.mbufs_used, clusters: self.clusters.used(), lent: self.lent.used() }
    }

    /// Requests refused because a limit was reached.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The layout in force.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// `MGET`: a plain mbuf without data; `None` at the limit.
    pub fn get(&mut self, meter: &mut CostMeter) -> Option<MbufId> {
        self.with_room(self.geometry.plain_bytes, 0, 0, meter)
    }

    /// `MGETHDR`: the first mbuf of a packet; `None` at the limit.
    pub fn new_header(&mut self, meter: &mut CostMeter) -> Option<MbufId> {
        self.with_room(self.geometry.header_bytes, 0, 0, meter)
    }

    /// As [`Pool::new_header`] and [`Pool::set_range`].
    pub fn new_header_at(
        &mut self,
        offset: usize,
        len: usize,
        meter: &mut CostMeter,
    ) -> Option<MbufId> {
        let room = self.geometry.header_bytes;
        debug_assert!(offset + len <= room.into(), "{offset} and {len} bytes in room for {room}");
        let offset = offset.min(room.into()) as u16;
        let len = len.min((room - offset).into()) as u16;
        self.with_room(room, offset, len, meter)
    }

    /// `m_get`, the function: as [`Pool::get`], and counted as a call.
    pub fn m_get(&mut self, meter: &mut CostMeter) -> Option<MbufId> {
        meter.call(Routine::MGet, Work::mbufs(1));
        self.get(meter)
    }

    fn with_room(
        &mut self,
        room: u16,
        offset: u16,
        len: u16,
        meter: &mut CostMeter,
    ) -> Option<MbufId> {
        let is_plain = |mbuf: &mut Mbuf| {
            let at = mbuf.slot + u32::from(offset);
            (mbuf.at, mbuf.len, mbuf.store) = (at, len, Store::Plain { room });
        };
        self.new_mbuf(is_plain, meter)
    }

    /// An mbuf with the data that `place` sets.
    fn new_mbuf(&mut self, place: impl Fn(&mut Mbuf), meter: &mut CostMeter) -> Option<MbufId> {
        meter.call(Routine::MgetMacro, Work::NONE);
        let number = self.free;
        let Some(mbuf) = self.mbufs.get_mut(number as usize) else { return self.make_mbuf(place) };
        self.free = std::mem::replace(&mut mbuf.next, NIL);
        place(mbuf);
        self.mbufs_used += 1;
        Some(MbufId(number))
    }

    /// One mbuf more than ever before, if the limit allows.
    fn make_mbuf(&mut self, place: impl Fn(&mut Mbuf)) -> Option<MbufId> {
        let number = self.mbufs.len() as u32;
        let has_room = number < self.limits.mbufs;
        let Some(slot) = has_room.then(|| grow(&mut self.bytes, SLOT_BYTES)).flatten() else {
            self.refused += 1;
            return None;
        };
        let store = Store::Plain { room: 0 };
        let mut mbuf = Mbuf { next: NIL, slot, at: slot, len: 0, store };
        place(&mut mbuf);
        self.mbufs.push(mbuf);
        self.mbufs_used += 1;
        assert_eq!(
            self.mbufs_used as usize,
            self.mbufs.len(),
            "an mbuf is made while others are free"
        );
        Some(MbufId(number))
    }

    /// `MCLGET`: gives a fresh plain mbuf a cluster; `false` at the limit, the mbuf unchanged.
    pub fn attach_cluster(&mut self, id: MbufId, meter: &mut CostMeter) -> bool {
        meter.call(Routine::MclgetMacro, Work::NONE);
        debug_assert!(self.is_plain(id) && self.len(id) == 0);
        let Some((number, at)) = self.clusters.take(CLUSTER_BYTES, &mut self.bytes) else {
            self.refused += 1;
            return false;
        };
        let mbuf = self.mbuf_mut(id);
        (mbuf.at, mbuf.store) = (at, Store::Cluster(number));
        true
    }

    /// An mbuf in whose lent buffer a device has put these bytes; `None` at a limit or beyond
    /// 65,535 bytes.
    pub fn lend(&mut self, bytes: &[u8], meter: &mut CostMeter) -> Option<MbufId> {
        let room = bytes.len().next_multiple_of(LENT_UNIT_BYTES);
        let Ok(len) = u16::try_from(bytes.len()) else {
            self.refused += 1;
            return None;
        };
        let Some((number, at)) = self.lent.take(room, &mut self.bytes) else {
            self.refused += 1;
            return None;
        };
        let is_lent = |mbuf: &mut Mbuf| {
            (mbuf.at, mbuf.len, mbuf.store) = (at, len, Store::Lent(number));
        };
        let Some(id) = self.new_mbuf(is_lent, meter) else {
            self.lent.release(number);
            return None;
        };
        self.bytes[at as usize..][..bytes.len()].copy_from_slice(bytes);
        Some(id)
    }

    /// `MFREE`: frees one mbuf that is in no chain.
    pub fn free(&mut self, id: MbufId, meter: &mut CostMeter) {
        assert!(self.mbufs_used > 0, "{id:?} is freed twice");
        let mbuf = &mut self.mbufs[id.0 as usize];
        mbuf.next = self.free;
        self.free = id.0;
        self.mbufs_used -= 1;
        let store = mbuf.store;
        self.release(store);
        meter.call(Routine::MfreeMacro, Work::NONE);
    }

    /// `m_free`, the function.
    pub fn m_free(&mut self, id: MbufId, meter: &mut CostMeter) {
        meter.call(Routine::MFree, Work::mbufs(1));
        self.free(id, meter);
    }

    /// `m_freem`, the function: frees a whole chain.
    pub fn m_freem(&mut self, chain: Chain, meter: &mut CostMeter) {
        meter.call(Routine::MFreem, Work::mbufs(chain.mbufs));
        self.free_chain(chain, meter);
    }

    /// Frees a whole chain as a loop of `MFREE`.
    pub fn free_chain(&mut self, Chain { first, last, mbufs, .. }: Chain, meter: &mut CostMeter) {
        if first == NIL {
            return;
        }
        let (mut next, mut count) = (first, 0);
        while next != NIL {
            let mbuf = self.mbuf(MbufId(next));
            next = mbuf.next;
            count += 1;
            self.release(mbuf.store);
        }
        assert_eq!(count, mbufs, "a chain has other mbufs than it counts");
        self.mbuf_mut(MbufId(last)).next = self.free;
        self.free = first;
        self.mbufs_used -= mbufs;
        meter.call_times(Routine::MfreeMacro, mbufs);
    }

    /// Frees the storage of an mbuf's data.
    fn release(&mut self, store: Store) {
        match store {
            Store::Plain { .. } => {}
            Store::Cluster(number) => self.clusters.release(number),
            Store::Lent(number) => self.lent.release(number),
        }
    }

    /// The data of one mbuf.
    pub fn data(&self, id: MbufId) -> &[u8] {
        self.data_of(self.mbuf(id))
    }

    fn data_of(&self, mbuf: &Mbuf) -> &[u8] {
        debug_assert!(self.is_within(mbuf), "{mbuf:?}");
        &self.bytes[mbuf.range()]
    }

    /// The data of one mbuf that shares its storage with no other: a plain one, or a cluster with
    /// one reference. Empty for anything else.
    pub fn data_mut(&mut self, id: MbufId) -> &mut [u8] {
        let mbuf = self.mbuf(id);
        debug_assert!(self.is_within(mbuf), "{mbuf:?}");
        let is_own = match mbuf.store {
            Store::Plain { .. } => true,
            Store::Cluster(number) => !self.clusters.is_shared(number),
            Store::Lent(_) => false,
        };
        let range = if is_own { mbuf.range() } else { 0..0 };
        &mut self.bytes[range]
    }

    /// Bytes of data in one mbuf.
    pub fn len(&self, id: MbufId) -> usize {
        usize::from(self.mbuf(id).len)
    }

    /// Whether the data are in a cluster.
    pub fn is_cluster(&self, id: MbufId) -> bool {
        matches!(self.mbuf(id).store, Store::Cluster(_))
    }

    /// Whether the data are in the mbuf itself.
    pub fn is_plain(&self, id: MbufId) -> bool {
        self.mbuf(id).is_plain()
    }

    /// Whether the data are a whole cluster from its first byte on, which page mapping needs.
    pub fn is_whole_page(&self, id: MbufId) -> bool {
        // Data of this length begin where the cluster does.
        self.is_cluster(id) && self.len(id) == CLUSTER_BYTES
    }

    /// Bytes free before the data of a plain mbuf; 0 for other mbufs.
    pub fn leading_room(&self, id: MbufId) -> usize {
        let mbuf = self.mbuf(id);
        if mbuf.is_plain() { (mbuf.at - mbuf.slot) as usize } else { 0 }
    }

    /// Bytes free behind the data of a plain mbuf; 0 for other mbufs.
    pub fn trailing_room(&self, id: MbufId) -> usize {
        self.mbuf(id).trailing_room()
    }

    /// Bytes of one mbuf against a socket buffer's storage limit (`mbcnt`). A lent buffer counts as
    /// a cluster, whose place it takes.
    pub fn storage_bytes(&self, id: MbufId) -> usize {
        self.mbuf(id).storage_bytes()
    }

    /// Bytes of a whole chain against a socket buffer's storage limit.
    pub fn chain_storage_bytes(&self, chain: &Chain) -> usize {
        self.ids(chain).map(|id| self.storage_bytes(id)).sum()
    }

    /// Gives an mbuf that is in no chain and shares nothing `len` bytes at `offset`, for the
    /// caller to fill in with [`Pool::data_mut`]; cut to its room.
    pub fn set_range(&mut self, id: MbufId, offset: usize, len: usize) {
        let (start, room) = match self.mbuf(id).store {
            Store::Plain { room } => (self.mbuf(id).slot, usize::from(room)),
            Store::Cluster(number) => (self.clusters.start(number), CLUSTER_BYTES),
            Store::Lent(_) => return,
        };
        debug_assert!(offset + len <= room, "{offset} and {len} bytes in room for {room}");
        let offset = offset.min(room);
        let mbuf = self.mbuf_mut(id);
        mbuf.at = start + offset as u32;
        mbuf.len = len.min(room - offset) as u16;
    }

    /// Gives an mbuf that is in no chain and shares nothing a copy of `bytes` at `offset`, which must
    /// fit: as [`Pool::set_range`] and [`Pool::data_mut`].
    pub fn fill(&mut self, id: MbufId, offset: usize, bytes: &[u8]) {
        let mbuf = &mut self.mbufs[id.0 as usize];
        let start = match mbuf.store {
            Store::Plain { .. } => mbuf.slot,
            Store::Cluster(number) => self.clusters.start(number),
            Store::Lent(_) => return,
        };
        mbuf.at = start + offset as u32;
        mbuf.len = bytes.len() as u16;
        let range = mbuf.range();
        debug_assert!(self.is_within(self.mbuf(id)), "{offset} and {} bytes", bytes.len());
        self.bytes[range].copy_from_slice(bytes);
    }

    /// Whether the data lie in the mbuf's own storage: nothing else keeps them out of a neighbour's.
    fn is_within(&self, mbuf: &Mbuf) -> bool {
        let storage = match mbuf.store {
            Store::Plain { room } => mbuf.slot..mbuf.slot + u32::from(room),
            Store::Cluster(number) => self.clusters.range(number),
            Store::Lent(number) => self.lent.range(number),
        };
        storage.start <= mbuf.at && mbuf.at + u32::from(mbuf.len) <= storage.end
    }

    fn mbuf(&self, id: MbufId) -> &Mbuf {
        &self.mbufs[id.0 as usize]
    }

    fn mbuf_mut(&mut self, id: MbufId) -> &mut Mbuf {
        &mut self.mbufs[id.0 as usize]
    }
}
