//! Batches that a stream's reader misses or passes over, because they differ from the written ones.

use crate::error::Problem;
use crate::format::Part;

/// Damaged batches that are named one by one; further ones are counted.
const NAMED_MAX: usize = 16;

/// Batches of one file that are damaged, missing or repeated, in file order.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    named: Vec<Problem>,
    /// Passed over in the file.
    batches: u64,
    /// That were written and are not given.
    rows: u64,
    more_batches: u64,
    more_rows: u64,
    more_repeated: u64,
}

impl Damage {
    /// Takes one: number of the batch, place and rows, and the expected content.
    pub(crate) fn add(
        &mut self,
        part: Part,
        batch: u64,
        at_byte: u64,
        rows: u64,
        expected: String,
    ) {
        self.batches += 1;
        self.rows = self.rows.saturating_add(rows);
        if self.named.len() < NAMED_MAX {
            self.named.push(Problem::DamagedBatch { part, batch, at_byte, rows, expected });
        } else {
            self.more_batches += 1;
            self.more_rows = self.more_rows.saturating_add(rows);
        }
    }

    /// Takes rows that were written before the batch at `at_byte`, and are not in the file.
    pub(crate) fn add_missing(&mut self, part: Part, at_byte: u64, rows: u64) {
        self.rows = self.rows.saturating_add(rows);
        if self.named.len() < NAMED_MAX {
            self.named.push(Problem::MissingRows { part, at_byte, rows });
        } else {
            self.more_batches += 1;
            self.more_rows = self.more_rows.saturating_add(rows);
        }
    }

    /// Takes a batch whose rows were read before, or were counted as missing.
    pub(crate) fn add_repeated(&mut self, part: Part, batch: u64, at_byte: u64, rows: u64) {
        self.batches += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(Problem::RepeatedBatch { part, batch, at_byte, rows });
        } else {
            self.more_repeated += 1;
        }
    }

    /// Number of batches that were passed over.
    pub(crate) fn batches(&self) -> u64 {
        self.batches
    }

    /// Rows that were written and are not given.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Each of them, up to a limit, then the number of the others.
    pub(crate) fn problems(&self, part: Part) -> impl Iterator<Item = Problem> {
        debug_assert!(self.named.len() <= NAMED_MAX && self.more_rows <= self.rows);
        let (batches, rows) = (self.more_batches, self.more_rows);
        let more = (batches > 0).then_some(Problem::MoreDamaged { part, batches, rows });
        let batches = self.more_repeated;
        let repeated = (batches > 0).then_some(Problem::MoreRepeated { part, batches });
        self.named.iter().cloned().chain(more).chain(repeated)
    }
}
