//! Pseudo-random numbers: the same seed gives the same numbers on every machine.

/// SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
#[derive(Clone)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number from `from` on and below `to`.
    pub(super) fn range(&mut self, from: u64, to: u64) -> u64 {
        assert!(from < to, "an empty range");
        from + self.next() % (to - from)
    }

    /// An index below `len`.
    pub(super) fn index(&mut self, len: usize) -> usize {
        self.range(0, len as u64) as usize
    }

    /// True once in so many calls; never where that is 0.
    pub(super) fn once_in(&mut self, calls: u64) -> bool {
        calls > 0 && self.next().is_multiple_of(calls)
    }

    /// A number of any size from 1 on and below `to`: each number of digits is as likely.
    pub(super) fn size(&mut self, to: u64) -> u64 {
        let bits = self.range(0, u64::from(to.ilog2()) + 1);
        self.range(1, (2 << bits).min(to))
    }
}
