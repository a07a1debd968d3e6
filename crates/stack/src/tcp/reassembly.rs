//! Segments that arrived before their turn, in order of their numbers and without overlap.
//!
//! A new segment loses its overlap with the one before it, and cuts those behind it. The receive
//! window bounds the bytes, [`SEGMENTS_MAX`] the segments; a window that is shifted has room for more.

use std::collections::VecDeque;

use super::seq::Seq;
use crate::cost::CostMeter;
use crate::mbuf::{Chain, Pool};

/// Segments that are kept at most: a window of 65,535 bytes in segments of 512.
pub const SEGMENTS_MAX: usize = 128;

/// Blocks that a header has room for.
const RECENT_MAX: usize = 4;

/// One segment out of turn.
#[derive(Debug)]
pub struct Piece {
    /// Number of its first byte.
    pub seq: Seq,
    /// Its data.
    pub chain: Chain,
    /// A FIN follows the data.
    pub has_fin: bool,
}

impl Piece {
    fn end(&self) -> Seq {
        self.seq + self.chain.len() as u32
    }
}

/// The queue of one connection.
#[derive(Debug, Default)]
pub struct Reassembly {
    pieces: VecDeque<Piece>,
    /// The shift of the window.
    shift: u8,
    /// Numbers of the last segments in different blocks, the last one first; `None` where nothing asks for them.
    recent: Option<Vec<Seq>>,
}

impl Reassembly {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The window is shifted by so many bits: more segments fit into it.
    pub fn shift_window(&mut self, shift: u8) {
        self.shift = shift;
    }

    /// Whether blocks for selective acknowledgments are asked for.
    pub fn keep_recent(&mut self, keeps: bool) {
        self.recent = keeps.then(Vec::new);
    }

    /// The blocks that the last segments belong to, the last one first (RFC 2018 §4).
    pub fn recent_blocks(&self) -> impl Iterator<Item = (Seq, Seq)> {
        self.recent.iter().flatten().filter_map(|seq| self.block(*seq))
    }

    /// The numbers without a hole around this one; `None` without data there.
    fn block(&self, seq: Seq) -> Option<(Seq, Seq)> {
        let at = self.pieces.partition_point(|piece| !piece.seq.is_after(seq)).checked_sub(1)?;
        let holding = self.pieces.get(at).filter(|piece| piece.end().is_after(seq))?;
        let (mut from, mut to) = (holding.seq, holding.end());
        for before in self.pieces.range(..at).rev() {
            if before.end() != from {
                break;
            }
            from = before.seq;
        }
        for behind in self.pieces.range(at + 1..) {
            if behind.seq != to {
                break;
            }
            to = behind.end();
        }
        Some((from, to))
    }

    fn note_recent(&mut self, seq: Seq) {
        let Some(mut recent) = self.recent.take() else { return };
        let block = self.block(seq);
        recent.retain(|other| self.block(*other).is_some_and(|known| Some(known) != block));
        recent.insert(0, seq);
        recent.truncate(RECENT_MAX);
        self.recent = Some(recent);
    }

    fn segments_max(&self) -> usize {
        SEGMENTS_MAX << self.shift
    }

    /// Takes a segment in, as far as it is new and there is room.
    pub fn insert(&mut self, piece: Piece, pool: &mut Pool, meter: &mut CostMeter) {
        let seq = piece.seq;
        self.keep(piece, pool, meter);
        self.note_recent(seq);
    }

    fn keep(&mut self, piece: Piece, pool: &mut Pool, meter: &mut CostMeter) {
        let mut piece = piece;
        let at = self.pieces.partition_point(|kept| !kept.seq.is_after(piece.seq));
        if let Some(before) = at.checked_sub(1).and_then(|at| self.pieces.get_mut(at)) {
            let overlap = before.end().since(piece.seq);
            if overlap >= 0 && overlap as usize >= piece.chain.len() {
                // All of it is there already; only its FIN may be news.
                before.has_fin |= piece.has_fin && piece.end() == before.end();
                pool.free_chain(piece.chain, meter);
                return;
            }
            if overlap > 0 {
                pool.m_adj(&mut piece.chain, overlap, meter);
                piece.seq += overlap as u32;
            }
        }
        self.make_way(at, &mut piece, pool, meter);
        if self.pieces.len() >= self.segments_max() {
            pool.free_chain(piece.chain, meter);
            return;
        }
        self.pieces.insert(at, piece);
        let mut pairs = self.pieces.iter().zip(self.pieces.iter().skip(1));
        debug_assert!(pairs.all(|(a, b)| !b.seq.is_before(a.end())), "pieces overlap");
        assert!(self.pieces.len() <= self.segments_max(), "more pieces than are kept");
    }

    /// Cuts or removes the pieces that the new piece covers behind it.
    fn make_way(&mut self, at: usize, piece: &mut Piece, pool: &mut Pool, meter: &mut CostMeter) {
        while let Some(behind) = self.pieces.get_mut(at) {
            let overlap = piece.end().since(behind.seq);
            if overlap < 0 || overlap == 0 && !behind.chain.is_empty() {
                break;
            }
            if (overlap as usize) < behind.chain.len() {
                pool.m_adj(&mut behind.chain, overlap, meter);
                behind.seq += overlap as u32;
                break;
            }
            piece.has_fin |= behind.has_fin && piece.end() == behind.end();
            if let Some(covered) = self.pieces.remove(at) {
                pool.m_freem(covered.chain, meter);
            }
        }
    }

    /// Takes out the segment that is next in turn.
    pub fn take(&mut self, next: Seq) -> Option<Piece> {
        if self.pieces.front()?.seq == next { self.pieces.pop_front() } else { None }
    }

    /// Frees everything.
    pub fn clear(&mut self, pool: &mut Pool, meter: &mut CostMeter) {
        for piece in self.pieces.drain(..) {
            pool.m_freem(piece.chain, meter);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mbuf::{PoolLimits, PoolUse};
    use crate::personality::Personality;

    fn byte_at(position: u32) -> u8 {
        (position.wrapping_mul(31) ^ (position >> 7)) as u8
    }

    struct Scene {
        pool: Pool,
        meter: CostMeter,
        queue: Reassembly,
        start: Seq,
    }

    impl Scene {
        fn new(start: u32) -> Self {
            let geometry = Personality::ALL[0].geometry;
            let pool = Pool::new(geometry, PoolLimits::default());
            let (meter, queue) = (CostMeter::default(), Reassembly::default());
            Self { pool, meter, queue, start: Seq(start) }
        }

        fn insert(&mut self, from: u32, len: u32, has_fin: bool) {
            let bytes: Vec<u8> = (from..from + len).map(byte_at).collect();
            let chain = self.pool.chain_of(&bytes, &mut self.meter).expect("room");
            let piece = Piece { seq: self.start + from, chain, has_fin };
            self.queue.insert(piece, &mut self.pool, &mut self.meter);
        }

        /// Takes all that is in turn from `next` on: where it ends, and whether with a FIN.
        fn take_from(&mut self, next: u32) -> (u32, bool) {
            let mut end = next;
            while let Some(piece) = self.queue.take(self.start + end) {
                for byte in self.pool.bytes_of(&piece.chain) {
                    assert_eq!(byte, byte_at(end), "at {end}");
                    end += 1;
                }
                self.pool.free_chain(piece.chain, &mut self.meter);
                if piece.has_fin {
                    return (end, true);
                }
            }
            (end, false)
        }
    }

    #[test]
    fn a_gap_is_filled_and_overlap_comes_out_once() {
        let mut scene = Scene::new(u32::MAX - 150);
        scene.insert(100, 100, false);
        scene.insert(250, 50, true);
        scene.insert(150, 120, false);
        assert_eq!(scene.take_from(0), (0, false));
        scene.insert(0, 110, false);
        assert_eq!(scene.take_from(0), (300, true));
        assert!(scene.queue.is_empty());
        assert_eq!(scene.pool.in_use(), PoolUse::default());
    }

    #[test]
    fn a_piece_that_covers_others_replaces_them() {
        let mut scene = Scene::new(7);
        for from in [20, 40, 60] {
            scene.insert(from, 10, from == 60);
        }
        scene.insert(10, 60, false);
        assert_eq!(scene.queue.pieces.len(), 1);
        assert_eq!(scene.take_from(10), (70, true));
    }

    #[test]
    fn the_number_of_segments_is_bounded() {
        let mut scene = Scene::new(0);
        for number in 0..1000 {
            scene.insert(number * 2, 1, false);
        }
        assert_eq!(scene.queue.pieces.len(), SEGMENTS_MAX);
        scene.queue.shift_window(2);
        for number in 0..1000 {
            scene.insert(number * 2, 1, false);
        }
        assert_eq!(scene.queue.pieces.len(), 4 * SEGMENTS_MAX);
        scene.queue.clear(&mut scene.pool, &mut scene.meter);
        assert_eq!(scene.pool.in_use(), PoolUse::default());
    }

    proptest! {
        #[test]
        fn what_comes_out_is_what_a_flat_buffer_would_hold(
            start: u32,
            pieces in prop::collection::vec((0u32..400, 0u32..90), 0..60),
        ) {
            let mut scene = Scene::new(start);
            let mut filled = vec![false; 500];
            let (mut next, total) = (0, 400);
            for (from, len) in pieces {
                let len = len.min(total - from);
                // As the caller does: bytes before the next number are cut off.
                let (cut, end) = (next.max(from), from + len);
                if end < cut {
                    continue;
                }
                filled[cut as usize..end as usize].fill(true);
                scene.insert(cut, end - cut, end == total);
                next = scene.take_from(next).0;
                let known = filled.iter().skip(next as usize).take_while(|byte| **byte).count();
                prop_assert_eq!(known, 0, "bytes from {} on are still kept back", next);
            }
            scene.queue.clear(&mut scene.pool, &mut scene.meter);
            prop_assert_eq!(scene.pool.in_use(), PoolUse::default());
        }
    }
}
