//! Reassembly that keeps the received cells and asks for the rest.
//!
//! The number of a cell is its place in the message. A channel keeps the order of cells (I.361), so
//! that a number that is passed over is a lost cell, to be asked for at once.

use super::reassembly::{Arrival, Found, Policy, Reassembler, Whole};
use super::sar::CELL_DATA_BYTES;
use super::slot::{Missing, Reason, Slot};

impl Reassembler {
    /// Puts a cell in its place, in any order.
    pub(super) fn place(&mut self, cell: &Arrival<'_>) -> Found {
        let is_misnumbered = cell.header.segment_type.is_first() != (cell.header.sequence == 0);
        let end = usize::from(cell.header.sequence) * CELL_DATA_BYTES + cell.length;
        if is_misnumbered || end > self.limits.message_bytes_max {
            self.counters.strays += 1;
            return Found::default();
        }
        let mut found = Found::default();
        if let Some(at) = self.slots.find(cell.key) {
            match self.slots.at(at).relation(cell) {
                Relation::Repeated => {
                    self.counters.repeated += 1;
                    return found;
                }
                Relation::New => return self.put(at, cell),
                Relation::OtherMessage if self.slots.at(at).is_done => self.slots.close(at),
                Relation::OtherMessage => {
                    found.dropped = Some(self.drop_at(at, Reason::Overtaken));
                }
            }
        }
        match self.open(cell) {
            Some(at) => Found { dropped: found.dropped, ..self.put(at, cell) },
            None => found,
        }
    }

    /// Asks once more for the missing cells of a message; `None` when it may not ask again.
    pub(super) fn ask_again(&mut self, at: usize, now_ns: u64) -> Option<Missing> {
        let Policy::Repair { asks_max } = self.limits.policy else { return None };
        let slot = self.slots.at(at);
        if slot.asks == asks_max {
            return None;
        }
        slot.asks += 1;
        let missing = slot.missing();
        self.slots.postpone(at, now_ns.saturating_add(self.limits.timeout_ns));
        self.counters.asks += 1;
        Some(missing)
    }

    fn put(&mut self, at: usize, cell: &Arrival<'_>) -> Found {
        let slot = self.slots.at(at);
        let gap = slot.gap_before(cell.header.sequence);
        slot.put(cell);
        let key = slot.key;
        let is_whole = slot.is_whole();
        slot.is_done = is_whole;
        if is_whole {
            let deadline_ns = cell.now_ns.saturating_add(self.limits.timeout_ns);
            self.slots.postpone(at, deadline_ns);
            return Found { whole: Some(Whole::Slot(at)), ..Found::default() };
        }
        self.counters.asks += u64::from(gap != 0);
        let missing = (gap != 0).then_some(Missing { key, cells: gap, all_from: None });
        Found { missing, ..Found::default() }
    }
}

/// The relation of a cell to earlier cells of its name.
enum Relation {
    New,
    Repeated,
    OtherMessage,
}

impl Slot {
    fn relation(&self, cell: &Arrival<'_>) -> Relation {
        let sequence = cell.header.sequence;
        let is_last = cell.header.segment_type.is_last();
        let is_after_last = self.last.is_some_and(|last| sequence > last);
        let ends_elsewhere = is_last && self.last.is_some_and(|last| sequence != last);
        let ends_before_others = is_last && self.received >> sequence > 1;
        if is_after_last || ends_elsewhere || ends_before_others {
            return Relation::OtherMessage;
        }
        if self.received >> sequence & 1 == 0 {
            return Relation::New;
        }
        let begin = usize::from(sequence) * CELL_DATA_BYTES;
        let is_same_end = is_last == (self.last == Some(sequence));
        let has_arrived = self.bytes.get(begin..begin + cell.length);
        if is_same_end && has_arrived == Some(&cell.data[..cell.length]) {
            Relation::Repeated
        } else {
            Relation::OtherMessage
        }
    }

    /// Numbers between the highest that arrived and `sequence`, as bits.
    fn gap_before(&self, sequence: u8) -> u32 {
        below(sequence) & !below(self.highest())
    }

    fn put(&mut self, cell: &Arrival<'_>) {
        let begin = usize::from(cell.header.sequence) * CELL_DATA_BYTES;
        let end = begin + cell.length;
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[begin..end].copy_from_slice(&cell.data[..cell.length]);
        self.received |= 1 << cell.header.sequence;
        self.cells = self.received.count_ones();
        if cell.header.segment_type.is_last() {
            self.last = Some(cell.header.sequence);
        }
    }

    fn is_whole(&self) -> bool {
        self.last.is_some_and(|last| self.received == below(last + 1))
    }

    fn missing(&self) -> Missing {
        let end = self.last.unwrap_or(self.highest());
        let all_from = if self.last.is_none() { Some(self.highest()) } else { None };
        Missing { key: self.key, cells: below(end) & !self.received, all_from }
    }

    /// One above the highest number that arrived; 0 when none did.
    fn highest(&self) -> u8 {
        (u32::BITS - self.received.leading_zeros()) as u8
    }
}

/// The numbers below `sequence`, as bits; `sequence` is at most 32.
fn below(sequence: u8) -> u32 {
    (1u64 << sequence).wrapping_sub(1) as u32
}
