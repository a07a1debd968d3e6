//! The octets on a fibre, and the time when the line is free.

use crate::{CELL_BYTES, Cell};

/// Octets that are kept of a cell too long to be one; it is marked as such all the same.
pub const LINE_OCTETS_MAX: usize = 64;

/// A cell on the fibre, perhaps deformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineCell {
    /// When its last bit left, in nanoseconds.
    pub at_ns: u64,
    octets: [u8; LINE_OCTETS_MAX],
    length: usize,
}

impl LineCell {
    /// A cell of these octets, cut at [`LINE_OCTETS_MAX`].
    pub fn new(at_ns: u64, from: &[u8]) -> Self {
        let length = from.len().min(LINE_OCTETS_MAX);
        let mut octets = [0; LINE_OCTETS_MAX];
        octets[..length].copy_from_slice(&from[..length]);
        Self { at_ns, octets, length }
    }

    /// Its octets in the order in which they were sent.
    pub fn octets(&self) -> &[u8] {
        &self.octets[..self.length]
    }

    /// The cell, or `None` when it is deformed.
    pub fn cell(&self) -> Option<Cell> {
        Cell::try_from(self.octets()).ok()
    }

    /// Whether it has another length than a cell.
    pub fn is_deformed(&self) -> bool {
        self.length != CELL_BYTES
    }
}

/// When bits leave. Times are counted from the start of each busy period, so that no fraction of
/// a nanosecond adds up over its cells.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineClock {
    bits_per_s: u64,
    busy_from_ns: u64,
    bits: u64,
}

impl LineClock {
    pub fn new(bits_per_s: u64) -> Self {
        Self { bits_per_s: bits_per_s.max(1), busy_from_ns: 0, bits: 0 }
    }

    /// When all bits so far, and `more` after them, have left.
    pub fn after_ns(&self, more: u64) -> u64 {
        let bits = u128::from(self.bits) + u128::from(more);
        let passed_ns = (bits * 1_000_000_000).div_ceil(self.bits_per_s.into());
        let passed_ns = u64::try_from(passed_ns).unwrap_or(u64::MAX);
        self.busy_from_ns.saturating_add(passed_ns)
    }

    /// Begins the next cell, at `from_ns` or when the line is free.
    pub fn begin(&mut self, from_ns: u64) {
        if from_ns > self.after_ns(0) {
            self.busy_from_ns = from_ns;
            self.bits = 0;
        }
    }

    /// Ends a cell of `bits`.
    pub fn end(&mut self, bits: u64) {
        self.bits += bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_do_not_add_up() {
        let mut line = LineClock::new(155_000_000);
        line.begin(0);
        (0..292).for_each(|_| line.end(424));
        assert_eq!(line.after_ns(0), 798_762, "292 cells: 798.8 us");
        line.begin(900_000);
        assert_eq!(line.after_ns(424), 902_736, "2.7355 us, rounded up");
    }

    #[test]
    fn a_cell_too_long_is_cut_and_known_as_deformed() {
        let cell = LineCell::new(0, &[7; 100]);
        assert_eq!((cell.octets().len(), cell.is_deformed()), (LINE_OCTETS_MAX, true));
        assert_eq!(LineCell::new(0, &[7; 53]).cell(), Some(Cell::from_octets([7; 53])));
    }
}
