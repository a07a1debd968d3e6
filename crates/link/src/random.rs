//! Random choices that follow from a seed.

use rand_core::Rng;
use rand_pcg::Pcg32;

use crate::quantity::Share;

/// The subject of a choice: each has a generator of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Choice {
    Loss = 1,
    LossState,
    Duplicate,
    Damage,
    DamagedBit,
    Reorder,
    Jitter,
}

/// A sequence of random numbers. The algorithm is PCG-XSH-RR 64/32 (O'Neill, 2014), which no release changes.
#[derive(Debug, Clone)]
pub(crate) struct Random(Pcg32);

impl Random {
    /// The same seed and choice give the same numbers.
    pub(crate) fn new(seed: u64, choice: Choice) -> Self {
        Self(Pcg32::new(seed, choice as u64))
    }

    /// Whether something of this probability happens.
    pub(crate) fn is(&mut self, probability: Share) -> bool {
        // 2^32 is certain: a number is always below it.
        u64::from(self.0.next_u32()) < probability.of_2_32()
    }

    /// A number below `bound`, which is not 0. Its bias is at most `bound` of 2^64.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}
