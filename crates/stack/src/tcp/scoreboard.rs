//! The sender's knowledge of data that arrived behind holes (RFC 2018 §5).

use super::options::SackBlocks;
use super::seq::Seq;

/// Ranges above a hole, or segments in them, that show it to be lost (RFC 6675 §2, `DupThresh`).
const RANGES_ABOVE: usize = 3;

/// Ranges between the first number not acknowledged and the largest one sent.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    /// Received by the peer: in order, without overlap, not adjacent.
    ranges: Vec<(Seq, Seq)>,
    /// In recovery, the holes before this have been sent again.
    resent_to: Seq,
    /// Holes are being repaired until this is acknowledged.
    until: Option<Seq>,
}

impl Scoreboard {
    /// Whether nothing is known and nothing is under repair.
    pub(super) fn is_quiet(&self) -> bool {
        self.ranges.is_empty() && self.until.is_none()
    }

    /// Takes blocks in that are between `una` and `max`; whether they say anything new.
    pub(super) fn take(&mut self, blocks: &SackBlocks, una: Seq, max: Seq) -> bool {
        let before = self.received_bytes();
        for &(from, to) in blocks.as_slice() {
            if from.is_before(to) && !from.is_before(una) && !to.is_after(max) {
                self.insert(from, to);
            }
        }
        self.received_bytes() > before
    }

    fn received_bytes(&self) -> u32 {
        self.ranges.iter().map(|(from, to)| to.since(*from) as u32).sum()
    }

    fn insert(&mut self, mut from: Seq, mut to: Seq) {
        let first = self.ranges.partition_point(|range| range.1.is_before(from));
        let behind = self.ranges.partition_point(|range| !range.0.is_after(to));
        for &(start, end) in &self.ranges[first..behind] {
            from = if start.is_before(from) { start } else { from };
            to = to.later(end);
        }
        self.ranges.splice(first..behind, [(from, to)]);
    }

    /// Everything before `una` is acknowledged.
    pub(super) fn advance(&mut self, una: Seq) {
        self.ranges.retain(|range| range.1.is_after(una));
        if let Some(first) = self.ranges.first_mut() {
            first.0 = first.0.later(una);
        }
        if self.until.is_some() {
            self.resent_to = self.resent_to.later(una);
        }
    }

    /// A timeout: the peer may have dropped what it announced, so that all is sent again (RFC 2018 §5.1).
    pub(super) fn clear(&mut self) {
        self.ranges.clear();
        self.until = None;
    }

    /// A repair begins at `una`, and ends when `until` is acknowledged.
    pub(super) fn begin(&mut self, una: Seq, until: Seq) {
        self.resent_to = una;
        self.until = Some(until);
    }

    pub(super) fn until(&self) -> Option<Seq> {
        self.until
    }

    pub(super) fn end(&mut self) {
        self.until = None;
    }

    /// Holes before `to` have been sent again.
    pub(super) fn note_resent(&mut self, to: Seq) {
        self.resent_to = self.resent_to.later(to);
    }

    /// Where the hole at `from` ends: at the next range, or at `to`.
    pub(super) fn hole_end(&self, from: Seq, to: Seq) -> Seq {
        let behind = |range: &&(Seq, Seq)| range.0.is_after(from);
        self.ranges.iter().find(behind).map_or(to, |range| range.0)
    }

    /// The first number that the peer has not announced, from `seq` on.
    pub(super) fn skip(&self, seq: Seq) -> Seq {
        let is_inside = |range: &&(Seq, Seq)| !range.0.is_after(seq) && range.1.is_after(seq);
        self.ranges.iter().find(is_inside).map_or(seq, |range| range.1)
    }

    /// The holes before this are lost: more than two segments, or three ranges, arrived behind them (RFC 6675 §4,
    /// `IsLost`).
    pub(super) fn lost_before(&self, segment_bytes: u32) -> Option<Seq> {
        let mut bytes = 0;
        for (at, (from, to)) in self.ranges.iter().rev().enumerate() {
            bytes += to.since(*from) as u32;
            if bytes > 2 * segment_bytes || at + 1 >= RANGES_ABOVE {
                return Some(*from);
            }
        }
        None
    }

    /// The holes up to `max`, in order.
    fn holes(&self, una: Seq, max: Seq) -> impl Iterator<Item = (Seq, Seq)> {
        let starts = std::iter::once(una).chain(self.ranges.iter().map(|range| range.1));
        let ends = self.ranges.iter().map(|range| range.0).chain(std::iter::once(max));
        starts.zip(ends).filter(|(from, to)| from.is_before(*to))
    }

    /// Bytes in the network: those neither received nor lost, and those sent again (RFC 6675 §4, `SetPipe`).
    pub(super) fn pipe(&self, una: Seq, max: Seq, segment_bytes: u32) -> u32 {
        let lost_before = self.lost_before(segment_bytes).unwrap_or(una);
        let in_network = |(from, to): (Seq, Seq)| {
            let resent = self.resent_to.later(from);
            let resent = if resent.is_before(to) { resent } else { to };
            let is_lost = from.is_before(lost_before);
            (if is_lost { resent.since(from) } else { to.since(from) }) as u32
        };
        self.holes(una, max).map(in_network).sum()
    }

    /// The next lost hole, or the rest of it, that has not been sent again.
    pub(super) fn next_hole(&self, una: Seq, max: Seq, segment_bytes: u32) -> Option<(Seq, Seq)> {
        let lost_before = self.lost_before(segment_bytes)?;
        let rest = |(from, to): (Seq, Seq)| (self.resent_to.later(from), to);
        let mut holes = self.holes(una, max).map(rest);
        holes.find(|(from, to)| from.is_before(*to) && from.is_before(lost_before))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEGMENT: u32 = 100;

    fn board(ranges: &[(u32, u32)]) -> Scoreboard {
        let mut board = Scoreboard::default();
        for (from, to) in ranges {
            board.insert(Seq(*from), Seq(*to));
        }
        board
    }

    #[test]
    fn ranges_that_touch_are_one_and_only_news_counts() {
        let mut board = board(&[(100, 200), (300, 400)]);
        let blocks = |ranges: &[(u32, u32)]| {
            ranges.iter().map(|(from, to)| (Seq(*from), Seq(*to))).collect::<SackBlocks>()
        };
        let mut take = |ranges: &[(u32, u32)]| board.take(&blocks(ranges), Seq(0), Seq(1000));
        assert!(!take(&[(100, 200)]) && !take(&[(120, 180), (300, 310)]));
        assert!(take(&[(200, 300)]));
        assert!(!take(&[(900, 1001)]), "beyond the largest number sent");
        assert!(!take(&[(500, 400)]), "the wrong way round");
        assert_eq!(board.ranges, [(Seq(100), Seq(400))]);
        board.advance(Seq(150));
        assert_eq!(board.ranges, [(Seq(150), Seq(400))]);
        assert_eq!([149, 150, 399, 400].map(|at| board.skip(Seq(at)).0), [149, 400, 400, 400]);
    }

    #[test]
    fn a_hole_is_lost_with_three_segments_or_three_ranges_behind_it() {
        let lost = |ranges: &[(u32, u32)]| board(ranges).lost_before(SEGMENT).map(|seq| seq.0);
        assert_eq!(lost(&[(100, 300)]), None);
        assert_eq!(lost(&[(100, 301)]), Some(100));
        assert_eq!(lost(&[(100, 110), (120, 130), (140, 150)]), Some(100));
        assert_eq!(lost(&[(100, 200), (300, 400), (500, 700)]), Some(300));
    }

    #[test]
    fn the_pipe_has_no_lost_bytes_until_they_are_sent_again() {
        let mut board = board(&[(100, 200), (300, 600)]);
        let (una, max) = (Seq(0), Seq(800));
        board.begin(una, max);
        assert_eq!(board.pipe(una, max, SEGMENT), 200, "those behind 600");
        assert_eq!(board.next_hole(una, max, SEGMENT), Some((Seq(0), Seq(100))));
        board.note_resent(Seq(50));
        assert_eq!(board.next_hole(una, max, SEGMENT), Some((Seq(50), Seq(100))));
        board.note_resent(Seq(250));
        assert_eq!(board.pipe(una, max, SEGMENT), 100 + 50 + 200);
        board.note_resent(Seq(300));
        assert_eq!(board.next_hole(una, max, SEGMENT), None, "behind 600 nothing is lost");
    }

    proptest! {
        #[test]
        fn ranges_hold_the_bytes_of_their_blocks(
            start: u32,
            blocks in prop::collection::vec((0u32..400, 1u32..60), 0..30),
        ) {
            let mut board = Scoreboard::default();
            let mut flat = vec![false; 460];
            for (from, len) in blocks {
                board.insert(Seq(start) + from, Seq(start) + from + len);
                flat[from as usize..(from + len) as usize].fill(true);
            }
            prop_assert!(board.ranges.is_sorted_by(|one, next| one.1.is_before(next.0)));
            prop_assert_eq!(board.received_bytes() as usize, flat.iter().filter(|is| **is).count());
            let missing = flat.iter().filter(|is| !**is).count() as u32;
            let holes = board.holes(Seq(start), Seq(start) + 460);
            prop_assert_eq!(holes.map(|(from, to)| to.since(from) as u32).sum::<u32>(), missing);
        }
    }
}
