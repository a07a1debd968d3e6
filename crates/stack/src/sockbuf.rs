//! Socket buffers: data that wait between a process and its protocol.
//!
//! Two limits hold: bytes of data (`cc` against `hiwat`) and bytes of storage (`mbcnt` against
//! `mbmax`), since a small message may sit in a large cluster. A stream is one chain; datagrams
//! are records, each with its sender's address.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use crate::cost::CostMeter;
use crate::mbuf::{CLUSTER_BYTES, Chain, MBUF_BYTES, MbufId, Pool};
use crate::packet::Mark;
use crate::routine::{Routine, Work};

/// Bytes of an address as a datagram's record holds it (`struct sockaddr`).
pub const ADDRESS_BYTES: u32 = 16;

/// The rules of accounting and appending in socket buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferRules {
    /// Storage may reach twice the data limit, but no more than this.
    pub storage_bytes_max: u32,
    /// Largest data limit that a program may ask for; `None` where there is no such option.
    pub hiwat_max: Option<u32>,
    /// Since 4.3BSD `sbappend` calls `sbcompress` for the joining of small mbufs.
    pub calls_compress: bool,
    /// Bytes that must stay free behind joined data: 0, in 4.3BSD-Reno 1.
    pub compact_spare_bytes: usize,
    /// 4.2BSD puts an empty mbuf for access rights into each datagram's record.
    pub rights_mbuf: bool,
    /// Low-water mark of send buffers, cut to their limit; 0 without one.
    pub send_lowat: u32,
}

/// One datagram in a receive buffer.
#[derive(Debug)]
pub struct Datagram {
    /// The sender.
    pub from: (Ipv4Addr, u16),
    /// Its data.
    pub chain: Chain,
    /// As it arrived with the packet, if the sender is logged.
    pub mark: Option<Mark>,
    overhead: Chain,
}

/// One direction of a socket's buffering.
#[derive(Debug, Default)]
pub struct SockBuf {
    chain: Chain,
    datagrams: VecDeque<Datagram>,
    cc: u32,
    mbcnt: u32,
    hiwat: u32,
    mbmax: u32,
    lowat: u32,
    entered: u64,
    left: u64,
    /// A process works on this buffer; others wait for it (`SB_LOCK`).
    pub is_locked: bool,
    /// A process waits for the lock (`SB_WANT`).
    pub is_lock_wanted: bool,
    /// A process sleeps until the protocol changes this buffer (`SB_WAIT`).
    pub is_waited_for: bool,
}

impl SockBuf {
    /// `sbreserve`: from now on at most `hiwat` bytes of data.
    pub fn reserve(&mut self, hiwat: u32, rules: &BufferRules) {
        self.hiwat = hiwat;
        self.mbmax = (2 * hiwat).min(rules.storage_bytes_max);
        self.lowat = self.lowat.min(hiwat);
    }

    /// Sets the low-water mark: less space than this does not count as space for more data.
    pub fn set_lowat(&mut self, lowat: u32) {
        self.lowat = lowat.min(self.hiwat);
    }

    /// Data bytes, and addresses of datagrams.
    pub fn cc(&self) -> u32 {
        self.cc
    }

    /// Bytes of storage used.
    pub fn mbcnt(&self) -> u32 {
        self.mbcnt
    }

    /// Limit of data bytes.
    pub fn hiwat(&self) -> u32 {
        self.hiwat
    }

    /// Limit of storage bytes.
    pub fn mbmax(&self) -> u32 {
        self.mbmax
    }

    /// Low-water mark in bytes.
    pub fn lowat(&self) -> u32 {
        self.lowat
    }

    /// `sbspace`: bytes that may still enter; negative when a limit is exceeded.
    pub fn space(&self) -> i64 {
        let data = i64::from(self.hiwat) - i64::from(self.cc);
        let storage = i64::from(self.mbmax) - i64::from(self.mbcnt);
        data.min(storage)
    }

    /// The stream's data; `m_copy` from here.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// `m_copy` of the stream's data.
    pub(crate) fn copy(
        &self,
        offset: usize,
        len: usize,
        pool: &mut Pool,
        meter: &mut CostMeter,
    ) -> Option<Chain> {
        pool.m_copy(&self.chain, offset, len, meter)
    }

    /// Stream position after the last byte that ever entered.
    pub fn entered(&self) -> u64 {
        self.entered
    }

    /// Stream position after the last byte that ever left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// `sbappend`: data of a stream enters. Mbufs without data are freed, small ones joined.
    pub fn append(
        &mut self,
        data: Chain,
        rules: &BufferRules,
        pool: &mut Pool,
        meter: &mut CostMeter,
    ) {
        // The C sources look for the last mbuf from the first one on.
        let mut work = Work { walked: self.chain.mbufs(), mbufs: data.mbufs(), bytes: 0 };
        self.cc += data.len() as u32;
        self.entered += data.len() as u64;
        let (joined, storage) =
            pool.append_joined(&mut self.chain, data, rules.compact_spare_bytes, meter);
        self.mbcnt += storage as u32;
        self.check(pool);
        work.bytes = joined;
        if rules.calls_compress {
            meter.call(Routine::Sbappend, Work { bytes: 0, ..work });
            meter.call(Routine::Sbcompress, Work::bytes(work.bytes as usize));
        } else {
            meter.call(Routine::Sbappend, work);
        }
    }

    /// `len` bytes pass without being kept, as sent datagrams do; the stream position
    /// of the first.
    pub(crate) fn pass(&mut self, len: usize) -> u64 {
        let offset = self.entered;
        self.entered += len as u64;
        self.left = self.entered;
        offset
    }

    /// A byte of the stream is kept apart from those that enter.
    pub(crate) fn enter_apart(&mut self) {
        self.entered += 1;
    }

    /// The reader passes a byte that is kept apart.
    pub(crate) fn pass_apart(&mut self) {
        self.left += 1;
        debug_assert!(self.left <= self.entered, "{} bytes left of {}", self.left, self.entered);
    }

    /// `sbdrop`: the first `len` bytes leave, as far as there are any.
    pub fn drop_front(&mut self, len: usize, pool: &mut Pool, meter: &mut CostMeter) {
        let before = self.chain.mbufs();
        self.remove_front(len, pool, meter);
        meter.call(Routine::Sbdrop, Work::mbufs(before - self.chain.mbufs()));
    }

    /// As [`SockBuf::drop_front`], done by the caller itself.
    pub(crate) fn remove_front(&mut self, len: usize, pool: &mut Pool, meter: &mut CostMeter) {
        let before = self.chain.len();
        let storage = pool.drop_front(&mut self.chain, len, meter);
        self.has_left(before - self.chain.len(), storage);
    }

    /// As [`SockBuf::remove_front`], where no more leaves than `first` has, the first mbuf.
    pub(crate) fn remove_from_first(
        &mut self,
        first: MbufId,
        len: usize,
        pool: &mut Pool,
        meter: &mut CostMeter,
    ) {
        let storage = pool.drop_from_first(&mut self.chain, first, len, meter);
        self.has_left(len, storage);
    }

    /// `bytes` have left the front of the chain, and `storage` bytes of mbufs with them.
    fn has_left(&mut self, bytes: usize, storage: usize) {
        self.mbcnt -= storage as u32;
        self.cc -= bytes as u32;
        self.left += bytes as u64;
        debug_assert!(self.left <= self.entered, "{} bytes left of {}", self.left, self.entered);
    }

    /// A buffer holds a stream or datagrams, and its counts are those of its chains.
    fn check(&self, pool: &Pool) {
        debug_assert!(self.chain.is_empty() || self.datagrams.is_empty(), "a stream and datagrams");
        let datagrams = || self.datagrams.iter();
        let bytes_of = |datagram: &Datagram| datagram.chain.len() + ADDRESS_BYTES as usize;
        let bytes = self.chain.len() + datagrams().map(bytes_of).sum::<usize>();
        debug_assert_eq!(self.cc as usize, bytes, "sb_cc is the length of the chains");
        debug_assert_eq!(
            self.mbcnt,
            pool.chain_storage_bytes(&self.chain) as u32
                + datagrams()
                    .map(|it| Self::storage_of(&it.chain, &it.overhead, pool))
                    .sum::<u32>(),
            "sb_mbcnt is the storage of the chains"
        );
        debug_assert!(self.lowat <= self.hiwat, "the low-water mark is above the high one");
    }

    /// `sbappendaddr`: a datagram enters with its sender's address, if there is space and the pool
    /// has the mbufs for it; else it is returned.
    pub fn append_datagram(
        &mut self,
        from: (Ipv4Addr, u16),
        data: Chain,
        mark: Option<Mark>,
        rules: &BufferRules,
        pool: &mut Pool,
        meter: &mut CostMeter,
    ) -> Result<(), Chain> {
        meter.call(Routine::Sbappendaddr, Work { mbufs: data.mbufs(), ..Work::NONE });
        let bytes = data.len() as u32 + ADDRESS_BYTES;
        if i64::from(bytes) > self.space() {
            return Err(data);
        }
        let mut overhead = Chain::new();
        for _ in 0..1 + u32::from(rules.rights_mbuf) {
            let Some(id) = pool.m_get(meter) else {
                pool.free_chain(overhead, meter);
                return Err(data);
            };
            pool.push_back(&mut overhead, id);
        }
        self.cc += bytes;
        self.mbcnt += Self::storage_of(&data, &overhead, pool);
        self.entered += data.len() as u64;
        self.datagrams.push_back(Datagram { from, chain: data, mark, overhead });
        self.check(pool);
        Ok(())
    }

    fn storage_of(data: &Chain, overhead: &Chain, pool: &Pool) -> u32 {
        (pool.chain_storage_bytes(data) + pool.chain_storage_bytes(overhead)) as u32
    }

    /// Takes the first datagram out; the mbufs of its address are freed.
    pub fn take_datagram(&mut self, pool: &mut Pool, meter: &mut CostMeter) -> Option<Datagram> {
        let mut datagram = self.datagrams.pop_front()?;
        self.cc -= datagram.chain.len() as u32 + ADDRESS_BYTES;
        self.mbcnt -= Self::storage_of(&datagram.chain, &datagram.overhead, pool);
        self.left += datagram.chain.len() as u64;
        pool.free_chain(datagram.overhead.take(), meter);
        self.check(pool);
        Some(datagram)
    }

    /// Datagrams waiting.
    pub fn datagrams(&self) -> usize {
        self.datagrams.len()
    }

    /// `sbflush`: everything leaves.
    pub fn flush(&mut self, pool: &mut Pool, meter: &mut CostMeter) {
        self.remove_front(self.chain.len(), pool, meter);
        while let Some(datagram) = self.take_datagram(pool, meter) {
            pool.free_chain(datagram.chain, meter);
        }
        assert_eq!((self.cc, self.mbcnt), (0, 0), "a flushed buffer holds something");
    }
}

/// Largest data limit when `storage_bytes_max` of storage must hold it in full clusters: 52,428 of
/// 65,536 bytes (`SB_MAX * CLBYTES / (2 * MSIZE + CLBYTES)` in 4.3BSD).
pub const fn hiwat_limit(storage_bytes_max: u64, mbufs_per_cluster: u64) -> u32 {
    let cluster = CLUSTER_BYTES as u64;
    (storage_bytes_max * cluster / (mbufs_per_cluster * MBUF_BYTES as u64 + cluster)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mbuf::PoolLimits;
    use crate::personality::Personality;
    use proptest::prelude::*;

    proptest! {
        /// Against a flat list of the bytes that entered and have not left.
        #[test]
        fn copies_are_those_of_a_flat_buffer(
            steps in prop::collection::vec((0..3_u8, 0..300_usize, 1..400_usize), 1..60),
        ) {
            let personality = Personality::by_name("tahoe").unwrap();
            let mut pool = Pool::new(personality.geometry, PoolLimits::default());
            let (mut meter, mut buffer) = (CostMeter::default(), SockBuf::default());
            let (mut flat, mut entered) = (Vec::new(), 0_u8);
            for (kind, offset, len) in steps {
                match kind {
                    0 => {
                        let bytes: Vec<u8> = (0..len).map(|at| entered.wrapping_add(at as u8)).collect();
                        entered = entered.wrapping_add(len as u8);
                        flat.extend_from_slice(&bytes);
                        let data = pool.chain_of(&bytes, &mut meter).unwrap();
                        buffer.append(data, &personality.socket.buffers, &mut pool, &mut meter);
                    }
                    1 => {
                        flat.drain(..offset.min(flat.len()));
                        buffer.drop_front(offset, &mut pool, &mut meter);
                    }
                    _ => {
                        let copy = buffer.copy(offset, len, &mut pool, &mut meter).unwrap();
                        let from = offset.min(flat.len());
                        let to = (offset + len).min(flat.len());
                        prop_assert_eq!(pool.bytes_of(&copy), &flat[from..to]);
                        pool.free_chain(copy, &mut meter);
                    }
                }
                prop_assert_eq!(buffer.cc() as usize, flat.len());
            }
            buffer.flush(&mut pool, &mut meter);
            prop_assert_eq!(pool.in_use().mbufs, 0);
        }
    }
}
