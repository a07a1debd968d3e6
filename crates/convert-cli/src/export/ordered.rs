//! The records of a bundle in order of time, in bounded memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sockscope_program::failure::Failure;
use sockscope_program::progress::Progress;
use sockscope_record::Record;
use sockscope_trace::Bundle;

/// Records that wait for an earlier one: rows of a bundle are nearly in order.
const WAITING: usize = 1 << 18;

/// A record by its time, and by its row where times are the same.
struct Waiting(Reverse<(u64, u64)>, Record);

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

/// Calls `take` for each record. One that stands more than [`WAITING`] rows behind its place is late.
pub fn each(
    bundle: &Bundle,
    mut take: impl FnMut(&Record) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut waiting = BinaryHeap::with_capacity(WAITING + 1);
    let mut records = bundle.records()?;
    let mut row = 0;
    let progress = Progress::begin("writing records", 0);
    while let Some(batch) = records.next_batch()? {
        progress.add(batch.len() as u64);
        for record in batch {
            row += 1;
            waiting.push(Waiting(Reverse((record.at_ns, row)), *record));
            if waiting.len() > WAITING
                && let Some(Waiting(_, first)) = waiting.pop()
            {
                take(&first)?;
            }
        }
    }
    while let Some(Waiting(_, record)) = waiting.pop() {
        take(&record)?;
    }
    Ok(())
}
