//! What a stream's reader passed over because it is not what was written.

use crate::error::Problem;
use crate::format::Part;

/// Damaged batches that are named one by one; further ones are counted.
const NAMED_MAX: usize = 16;

/// Damaged batches of one file, in file order.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    named: Vec<Problem>,
    batches: u64,
    rows: u64,
    more_batches: u64,
    more_rows: u64,
}

impl Damage {
    /// Takes one: number of the batch, place and rows, and what was expected.
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

    /// How many.
    pub(crate) fn batches(&self) -> u64 {
        self.batches
    }

    /// Rows that they had.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Each of them, up to a limit, then how many more.
    pub(crate) fn problems(&self, part: Part) -> impl Iterator<Item = Problem> {
        let (batches, rows) = (self.more_batches, self.more_rows);
        let more = (batches > 0).then_some(Problem::MoreDamaged { part, batches, rows });
        self.named.iter().cloned().chain(more)
    }
}
