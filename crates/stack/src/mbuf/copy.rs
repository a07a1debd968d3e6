//! Copying, joining and trimming chains.

use super::{Chain, Mbuf, MbufId, Pool, Pullup, Store};
use crate::cost::CostMeter;
use crate::routine::{Routine, Work};

/// Bytes that [`Pullup::Extra`] takes beyond the requested ones.
const PULLUP_EXTRA: usize = 32;

/// Bytes of an IP and a TCP header without options, which [`Pullup::Protocol`] always takes.
const PROTOCOL_HEADER_BYTES: usize = 40;

impl Pool {
    /// `m_copy`: `len` bytes from `offset` on, or up to the end of the chain.
    ///
    /// Clusters and lent buffers are shared, plain mbufs copied one for one: ten source mbufs give
    /// ten. `None`, and nothing kept, when the pool is used up.
    pub fn m_copy(
        &mut self,
        chain: &Chain,
        offset: usize,
        len: usize,
        meter: &mut CostMeter,
    ) -> Option<Chain> {
        let mut work = Work::NONE;
        let copy = self.copy_range(chain, (offset as u32, len as u32), &mut work, meter);
        meter.call(Routine::MCopy, work);
        copy
    }

    fn copy_range(
        &mut self,
        chain: &Chain,
        (mut skip, mut rest): (u32, u32),
        work: &mut Work,
        meter: &mut CostMeter,
    ) -> Option<Chain> {
        let mut copy = Chain::new();
        let mut next = chain.first();
        while rest > 0 {
            let Some(id) = next else { break };
            let mbuf = *self.mbuf(id);
            next = MbufId::in_list(mbuf.next);
            let len = u32::from(mbuf.len);
            if skip >= len {
                skip -= len;
                work.walked += 1;
                continue;
            }
            let take = rest.min(len - skip);
            debug_assert!(self.has(id, skip + take), "{skip} and {take} bytes of {id:?}");
            let Some(piece) = self.share(mbuf.store, mbuf.at + skip, take, meter) else {
                self.free_chain(copy, meter);
                return None;
            };
            self.push_back(&mut copy, piece);
            work.mbufs += 1;
            work.bytes += if mbuf.is_plain() { take } else { 0 };
            rest -= take;
            skip = 0;
        }
        Some(copy)
    }

    /// A new mbuf with `len` bytes that lie at `at` in `store`: shared where that is possible.
    fn share(&mut self, store: Store, at: u32, len: u32, meter: &mut CostMeter) -> Option<MbufId> {
        let is_shared = |mbuf: &mut Mbuf| {
            (mbuf.at, mbuf.len, mbuf.store) = (at, len as u16, store);
        };
        match store {
            Store::Plain { .. } => return self.copy_slot(at as usize, len as usize, meter),
            Store::Cluster(number) => self.clusters.share(number),
            Store::Lent(number) => self.lent.share(number),
        }
        let id = self.new_mbuf(is_shared, meter);
        if id.is_none() {
            self.release(store);
        }
        id
    }

    /// Whether `len` bytes of data are there, in the mbuf's own storage.
    fn has(&self, id: MbufId, len: u32) -> bool {
        let mbuf = self.mbuf(id);
        len <= u32::from(mbuf.len) && self.is_within(mbuf)
    }

    /// A new plain mbuf with a copy of these bytes of a slot.
    fn copy_slot(&mut self, from: usize, len: usize, meter: &mut CostMeter) -> Option<MbufId> {
        // A packet's first mbuf may have less room than a later one has data: it is a plain copy.
        let id = self.get(meter)?;
        let mbuf = self.mbuf_mut(id);
        mbuf.len = len as u16;
        let to = mbuf.at as usize;
        debug_assert!(self.is_within(self.mbuf(id)), "{len} bytes for {id:?}");
        self.bytes.copy_within(from..from + len, to);
        Some(id)
    }

    /// Copies bytes from `offset` on into `into`, without counting a call; returns their number.
    pub fn copy_to(&self, chain: &Chain, offset: usize, into: &mut [u8]) -> usize {
        let mut skip = offset;
        let mut done = 0;
        for piece in self.pieces(chain) {
            if skip >= piece.len() {
                skip -= piece.len();
                continue;
            }
            let take = (piece.len() - skip).min(into.len() - done);
            into[done..done + take].copy_from_slice(&piece[skip..skip + take]);
            done += take;
            skip = 0;
            if done == into.len() {
                break;
            }
        }
        done
    }

    /// `m_copydata`: as [`Pool::copy_to`], and counted as a call.
    pub fn m_copydata(
        &self,
        chain: &Chain,
        offset: usize,
        into: &mut [u8],
        meter: &mut CostMeter,
    ) -> usize {
        let done = self.copy_to(chain, offset, into);
        meter.call(Routine::MCopydata, Work::bytes(done));
        done
    }

    /// A chain of plain mbufs with these bytes; `None` when the pool is used up.
    pub fn chain_of(&mut self, bytes: &[u8], meter: &mut CostMeter) -> Option<Chain> {
        let mut chain = Chain::new();
        for piece in bytes.chunks(usize::from(self.geometry.plain_bytes)) {
            let Some(id) = self.get(meter) else {
                self.free_chain(chain, meter);
                return None;
            };
            self.set_range(id, 0, piece.len());
            self.data_mut(id).copy_from_slice(piece);
            self.push_back(&mut chain, id);
        }
        Some(chain)
    }

    /// All bytes of a chain, for tests and tools.
    pub fn bytes_of(&self, chain: &Chain) -> Vec<u8> {
        self.pieces(chain).flatten().copied().collect()
    }

    /// `m_pullup`: the same bytes with the first `len` together in a plain mbuf.
    ///
    /// `false`, and the chain freed, when it is shorter, when no mbuf holds `len` bytes or when the
    /// pool is used up.
    pub fn m_pullup(&mut self, chain: &mut Chain, len: usize, meter: &mut CostMeter) -> bool {
        let head = if chain.len() < len || len > usize::from(self.geometry.header_bytes) {
            None
        } else {
            self.pullup_head(chain, len, meter)
        };
        let Some(head) = head else {
            meter.call(Routine::MPullup, Work::NONE);
            self.free_chain(chain.take(), meter);
            return false;
        };
        let mbuf = self.mbuf(head);
        let (room, end) = (mbuf.trailing_room(), mbuf.range().end);
        let missing = self.pullup_bytes(len).saturating_sub(usize::from(mbuf.len)).min(room);
        let (moved, mbufs) = self.pull(chain, end, missing, meter);
        self.mbuf_mut(head).len += moved as u16;
        debug_assert!(self.is_plain(head) && self.is_within(self.mbuf(head)), "{head:?}");
        self.push_front(chain, head);
        meter.call(Routine::MPullup, Work { bytes: moved as u32, mbufs, walked: 0 });
        true
    }

    /// Moves `len` bytes off the front of a chain to this place among the pool's bytes, if the first
    /// mbuf has more.
    fn pull_one(&mut self, chain: &mut Chain, to: usize, len: usize) -> bool {
        let Some(first) = chain.first().filter(|_| len > 0) else { return false };
        if self.len(first) <= len {
            return false;
        }
        let from = self.mbuf(first).at as usize;
        debug_assert!(self.has(first, len as u32), "{len} bytes of {first:?}");
        self.trim_first(chain, first, len);
        self.bytes.copy_within(from..from + len, to);
        true
    }

    /// As [`Pool::pull_one`], up to `len` bytes off as many mbufs as have them. Returns the numbers
    /// of bytes and of mbufs.
    fn pull(
        &mut self,
        chain: &mut Chain,
        to: usize,
        len: usize,
        meter: &mut CostMeter,
    ) -> (usize, u32) {
        let (mut moved, mut mbufs) = (0, 0);
        while moved < len {
            let Some(first) = chain.first() else { break };
            mbufs += 1;
            if self.pull_one(chain, to + moved, len - moved) {
                return (len, mbufs);
            }
            let (from, all) = (self.mbuf(first).at as usize, self.len(first));
            debug_assert!(self.has(first, all as u32), "{all} bytes of {first:?}");
            self.bytes.copy_within(from..from + all, to + moved);
            moved += all;
            self.pop_front(chain);
            self.m_free(first, meter);
        }
        (moved, mbufs)
    }

    /// The mbuf that will hold the pulled-up bytes: the first of the chain if that serves.
    fn pullup_head(
        &mut self,
        chain: &mut Chain,
        len: usize,
        meter: &mut CostMeter,
    ) -> Option<MbufId> {
        let in_place = self.geometry.pullup != Pullup::Exact
            && chain.mbufs > 1
            && chain.first().is_some_and(|first| {
                self.is_plain(first) && self.len(first) + self.trailing_room(first) >= len
            });
        if in_place { self.pop_front(chain) } else { self.get(meter) }
    }

    fn pullup_bytes(&self, len: usize) -> usize {
        match self.geometry.pullup {
            Pullup::Exact => len,
            Pullup::Extra => len + PULLUP_EXTRA,
            Pullup::Protocol => len.max(PROTOCOL_HEADER_BYTES),
        }
    }

    /// Copies the first `len` bytes of `source` behind the data of the plain mbuf `target`.
    fn append_from(&mut self, target: MbufId, source: MbufId, len: usize) {
        let from = self.mbuf(source).at as usize;
        let mbuf = self.mbuf_mut(target);
        let to = mbuf.range().end;
        mbuf.len += len as u16;
        debug_assert!(self.has(source, len as u32), "{len} bytes of {source:?}");
        debug_assert!(self.is_plain(target) && self.is_within(self.mbuf(target)), "{target:?}");
        self.bytes.copy_within(from..from + len, to);
    }

    /// Moves the mbufs of the second chain behind those of `chain`. Those without data are freed; a
    /// plain one is copied behind the data of the last, if that is plain too and at least `spare`
    /// bytes stay unused there. The number of bytes copied, and the storage of the mbufs kept.
    pub(crate) fn append_joined(
        &mut self,
        chain: &mut Chain,
        Chain { first, .. }: Chain,
        spare: usize,
        meter: &mut CostMeter,
    ) -> (u32, usize) {
        let (mut copied, mut storage) = (0, 0);
        let mut next = MbufId::in_list(first);
        while let Some(id) = next {
            let mbuf = *self.mbuf(id);
            next = MbufId::in_list(mbuf.next);
            let len = usize::from(mbuf.len);
            if len == 0 {
                self.m_free(id, meter);
            } else if let Some(last) = chain.last().filter(|_| mbuf.is_plain())
                && self.trailing_room(last) >= len + spare
            {
                self.join(chain, last, id, meter);
                copied += len as u32;
            } else {
                storage += mbuf.storage_bytes();
                self.push_back(chain, id);
            }
        }
        (copied, storage)
    }

    fn join(&mut self, chain: &mut Chain, last: MbufId, id: MbufId, meter: &mut CostMeter) {
        let len = self.len(id);
        self.append_from(last, id, len);
        chain.bytes += len as u32;
        self.m_free(id, meter);
    }

    /// Takes `len` bytes off the front of a chain's first mbuf, which has as many and stays.
    pub(crate) fn trim_first(&mut self, chain: &mut Chain, first: MbufId, len: usize) {
        let mbuf = self.mbuf_mut(first);
        mbuf.at += len as u32;
        mbuf.len -= len as u16;
        chain.bytes -= len as u32;
    }

    /// Takes up to `len` bytes off the front: whole mbufs are freed, the next is trimmed. The
    /// storage of those freed, as [`Pool::storage_bytes`] counts it.
    pub fn drop_front(&mut self, chain: &mut Chain, len: usize, meter: &mut CostMeter) -> usize {
        let mut rest = len;
        let mut freed = 0;
        while let Some(first) = chain.first() {
            let here = self.len(first);
            freed += self.drop_from_first(chain, first, rest.min(here), meter);
            if here > rest {
                break;
            }
            rest -= here;
        }
        freed
    }

    /// Takes `len` bytes off the chain's first mbuf, which has as many and is freed if that is all; its
    /// storage then, else 0.
    pub(crate) fn drop_from_first(
        &mut self,
        chain: &mut Chain,
        first: MbufId,
        len: usize,
        meter: &mut CostMeter,
    ) -> usize {
        let mbuf = self.mbuf_mut(first);
        chain.bytes -= len as u32;
        if usize::from(mbuf.len) > len {
            mbuf.at += len as u32;
            mbuf.len -= len as u16;
            return 0;
        }
        chain.first = mbuf.next;
        chain.mbufs -= 1;
        let storage = mbuf.storage_bytes();
        self.free(first, meter);
        storage
    }

    /// Cuts the chain after `len` bytes; mbufs that held only later ones are freed.
    pub fn truncate(&mut self, chain: &mut Chain, len: usize, meter: &mut CostMeter) {
        let mut whole = chain.take();
        while chain.len() < len {
            let Some(id) = self.pop_front(&mut whole) else { break };
            let mbuf = self.mbuf_mut(id);
            mbuf.len = mbuf.len.min((len - chain.len()).min(usize::from(u16::MAX)) as u16);
            self.push_back(chain, id);
        }
        if !whole.is_empty() {
            self.free_chain(whole, meter);
        }
    }

    /// Takes the byte at `at` out. The data behind it are not moved, since another chain may share them; `false`,
    /// and nothing is done, when the pool is used up.
    pub(crate) fn cut_byte(&mut self, chain: &mut Chain, at: usize, meter: &mut CostMeter) -> bool {
        let behind = chain.len().saturating_sub(at + 1);
        if at == 0 {
            self.drop_front(chain, 1, meter);
            return true;
        }
        if behind == 0 {
            self.truncate(chain, at, meter);
            return true;
        }
        let Some(rest) = self.m_copy(chain, at + 1, behind, meter) else { return false };
        self.truncate(chain, at, meter);
        self.append(chain, rest);
        true
    }

    /// `m_adj`: takes bytes off the front when `by` is positive, off the end when it is negative.
    pub fn m_adj(&mut self, chain: &mut Chain, by: i32, meter: &mut CostMeter) {
        meter.call(Routine::MAdj, Work::mbufs(chain.mbufs));
        let bytes = by.unsigned_abs() as usize;
        if by >= 0 {
            self.drop_front(chain, bytes, meter);
        } else {
            let keep = chain.len().saturating_sub(bytes);
            self.truncate(chain, keep, meter);
        }
    }

    /// Lets the data of a plain mbuf that is in no chain begin `len` bytes earlier, as far as there
    /// is room.
    pub(crate) fn widen_front(&mut self, id: MbufId, len: usize) {
        let len = len.min(self.leading_room(id)) as u16;
        let mbuf = self.mbuf_mut(id);
        mbuf.at -= u32::from(len);
        mbuf.len += len;
    }

    /// Makes `len` bytes of room before the data. The room is in the first mbuf if it is plain and
    /// has it, else in a new one of `m_get`. `false` when the pool is used up.
    pub fn prepend(&mut self, chain: &mut Chain, len: usize, meter: &mut CostMeter) -> bool {
        if let Some(first) = chain.first().filter(|first| self.leading_room(*first) >= len) {
            self.widen_front(first, len);
            chain.bytes += len as u32;
            return true;
        }
        let Some(id) = self.m_get(meter) else { return false };
        // At the end of the mbuf, so that the next header finds room before it.
        self.set_range(id, usize::from(self.geometry.plain_bytes) - len, len);
        self.push_front(chain, id);
        true
    }

    /// Puts these bytes before the data, where [`Pool::prepend`] makes the room. `false` when the pool
    /// is used up.
    pub(crate) fn prepend_bytes<const BYTES: usize>(
        &mut self,
        chain: &mut Chain,
        bytes: [u8; BYTES],
        meter: &mut CostMeter,
    ) -> bool {
        let is_done = self.prepend(chain, BYTES, meter);
        if let Some(first) = chain.first().filter(|_| is_done) {
            self.data_mut(first)[..BYTES].copy_from_slice(&bytes);
        }
        is_done
    }
}
