//! Passes of one point, found by a byte that they have.
//!
//! Passes are in time order and mostly in that of their bytes too, except for retransmissions: each
//! block of neighbours knows the range of its bytes, so that a search looks into few of them.

use sockscope_record::marks;

use crate::Passage;
use crate::transmission::LOOK_BACK_PASSES_MAX;

/// Passes of one block: a look at the block costs as much as one at a pass.
const BLOCK_PASSES: usize = 64;

/// Finds the passages of first transmissions at one point.
pub(super) struct ByByte<'a> {
    passages: &'a [Passage],
    blocks: Vec<Block>,
}

/// Range of the first transmissions in a block.
#[derive(Debug, Clone, Copy)]
struct Block {
    /// Smallest position, and end of the largest.
    start: u64,
    end: u64,
    /// The largest `end` of this block and all before it.
    end_so_far: u64,
}

impl<'a> ByByte<'a> {
    pub(super) fn new(passages: &'a [Passage]) -> Self {
        debug_assert!(passages.is_sorted_by_key(|pass| pass.at_ns));
        let mut end_so_far = 0;
        let block = |passages: &[Passage]| {
            let originals = passages.iter().filter(|pass| is_original(pass));
            let (start, end) = originals.fold((u64::MAX, 0), |(start, end): (u64, u64), pass| {
                (start.min(pass.offset), end.max(pass.end()))
            });
            end_so_far = end.max(end_so_far);
            Block { start, end, end_so_far }
        };
        Self { passages, blocks: passages.chunks(BLOCK_PASSES).map(block).collect() }
    }

    /// The last pass before `at_ns` that has the byte at `offset`, other than of a retransmission.
    pub(super) fn last_before(&self, offset: u64, at_ns: u64) -> Option<&'a Passage> {
        let before = self.passages.partition_point(|pass| pass.at_ns < at_ns);
        let oldest = before.saturating_sub(LOOK_BACK_PASSES_MAX);
        // No pass before its block reaches this position.
        let first = self.blocks.partition_point(|block| block.end_so_far <= offset);
        let first = first.max(oldest / BLOCK_PASSES);
        (first..before.div_ceil(BLOCK_PASSES)).rev().find_map(|index| {
            let Block { start, end, .. } = self.blocks[index];
            if !(start..end).contains(&offset) {
                return None;
            }
            let from = (index * BLOCK_PASSES).max(oldest);
            let until = ((index + 1) * BLOCK_PASSES).min(before);
            let covers = |pass: &&Passage| pass.offset <= offset && offset < pass.end();
            self.passages[from..until].iter().rev().filter(|pass| is_original(pass)).find(covers)
        })
    }
}

fn is_original(pass: &Passage) -> bool {
    pass.marks & marks::RETRANSMITTED == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sockscope_record::Record;

    use super::*;

    /// A look at each pass, as far back as the other looks.
    fn plain(passages: &[Passage], offset: u64, at_ns: u64) -> Option<&Passage> {
        let before = &passages[..passages.partition_point(|pass| pass.at_ns < at_ns)];
        let covers = |pass: &&Passage| pass.offset <= offset && offset < pass.end();
        let originals = before.iter().rev().take(LOOK_BACK_PASSES_MAX);
        originals.filter(|pass| pass.marks & marks::RETRANSMITTED == 0).find(covers)
    }

    fn pass(at_ns: u64, offset: u64, len: u32) -> Passage {
        marked(at_ns, offset, len, 0)
    }

    fn marked(at_ns: u64, offset: u64, len: u32, marks: u8) -> Passage {
        let record = Record { at_ns, offset, len, marks, ..Record::default() };
        Passage::of(&record).expect("a record of point 1")
    }

    /// The same pass, and not only one like it.
    fn is_same(a: Option<&Passage>, b: Option<&Passage>) -> bool {
        a.map(std::ptr::from_ref) == b.map(std::ptr::from_ref)
    }

    #[test]
    fn the_latest_first_transmission_counts() {
        let again = marked(30, 0, 100, marks::RETRANSMITTED);
        let passages = [pass(10, 0, 100), pass(20, 50, 100), again, pass(40, 0, 100)];
        let found = ByByte::new(&passages);
        let at = |offset, at_ns| found.last_before(offset, at_ns).map(|pass| pass.at_ns);
        assert_eq!(
            [at(60, 40), at(20, 40), at(60, 41), at(150, 99)],
            [Some(20), Some(10), Some(40), None]
        );
        assert_eq!([at(0, 10), at(0, 11)], [None, Some(10)]);
    }

    #[test]
    fn none_older_than_the_look_back_is_found() {
        let others = (0..LOOK_BACK_PASSES_MAX as u64).map(|i| pass(i + 1, 1_000 + i * 10, 10));
        let passages: Vec<_> = [pass(0, 0, 10)].into_iter().chain(others).collect();
        let found = ByByte::new(&passages);
        let last_ns = LOOK_BACK_PASSES_MAX as u64;
        assert!(found.last_before(0, last_ns).is_some());
        assert!(found.last_before(0, last_ns + 1).is_none());
        assert!(is_same(found.last_before(1_000, u64::MAX), passages.get(1)));
    }

    proptest! {
        #[test]
        fn it_finds_what_a_look_at_each_pass_finds(
            steps in prop::collection::vec((0u64..3, 0u64..5_000, 0u32..60, 0u8..4, any::<bool>()), 0..600),
            asked in prop::collection::vec((0u64..5_000, 0u64..800), 1..60),
        ) {
            let (mut at_ns, mut next) = (0, 0);
            let passages: Vec<_> = steps.into_iter().map(|(later, any, len, again, is_in_order)| {
                at_ns += later;
                // Most follow one another as a stream does; the others are anywhere.
                let offset = if is_in_order { next } else { any };
                next = offset + u64::from(len);
                let marks = if again == 0 { marks::RETRANSMITTED } else { 0 };
                marked(at_ns, offset, len, marks)
            }).collect();
            let found = ByByte::new(&passages);
            for (offset, at_ns) in asked {
                let (ours, theirs) = (found.last_before(offset, at_ns), plain(&passages, offset, at_ns));
                prop_assert!(is_same(ours, theirs), "{offset} before {at_ns}: {ours:?}, {theirs:?}");
            }
        }
    }
}
