//! The machine that a driver runs on: it reaches the card, does work, and time passes.

use super::work::{Costs, Work, WorkCounts};
use crate::tca100::{BusError, CYCLE_NS, Tca100};

/// The machine that a driver needs. Each access is also a unit of [`Work`], named by `work`.
pub trait Host {
    /// The machine's time, in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Does work that needs no access to the card.
    fn work(&mut self, work: Work);

    /// Writes a word at a byte offset of the card's region. The write may wait in a buffer until
    /// [`Host::flush`]. Fails on a bus error.
    fn write(&mut self, work: Work, offset: u32, word: u32) -> Result<(), BusError>;

    /// Reads a word. Fails on a bus error.
    fn read(&mut self, work: Work, offset: u32) -> Result<u32, BusError>;

    /// Writes a byte. Fails on a bus error.
    fn write_byte(&mut self, work: Work, offset: u32) -> Result<(), BusError>;

    /// Waits until all writes have reached the card. Fails on a bus error of one of them.
    fn flush(&mut self) -> Result<(), BusError>;
}

/// A machine with one card and without a write buffer, which counts all work and charges it by a
/// table. Its clock begins at 0 and runs only while it works, or is set on.
#[derive(Debug, Default)]
pub struct CountingHost {
    /// The card, for its fibres.
    pub card: Tca100,
    counts: WorkCounts,
    costs: Costs,
    now_ns: u64,
    waited_cycles: u64,
}

impl CountingHost {
    /// A machine with the costs of this table.
    pub fn new(card: Tca100, costs: Costs) -> Self {
        Self { card, costs, ..Self::default() }
    }

    /// All work so far.
    pub fn counts(&self) -> WorkCounts {
        self.counts
    }

    /// Bus cycles that the card made accesses wait so far.
    pub fn waited_cycles(&self) -> u64 {
        self.waited_cycles
    }

    /// Lets time pass to `now_ns`, if it is not later already.
    pub fn wait_until(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    fn wait(&mut self, cycles: u64) {
        self.waited_cycles += cycles;
        self.now_ns = self.now_ns.saturating_add(cycles * CYCLE_NS);
    }
}

impl Host for CountingHost {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn work(&mut self, work: Work) {
        self.counts[work] += 1;
        self.now_ns = self.now_ns.saturating_add(self.costs[work]);
    }

    fn write(&mut self, work: Work, offset: u32, word: u32) -> Result<(), BusError> {
        self.work(work);
        let access = self.card.write_word(self.now_ns, offset, word)?;
        self.wait(access.wait_cycles);
        Ok(())
    }

    fn read(&mut self, work: Work, offset: u32) -> Result<u32, BusError> {
        self.work(work);
        let access = self.card.read_word(self.now_ns, offset)?;
        self.wait(access.wait_cycles);
        Ok(access.word)
    }

    fn write_byte(&mut self, work: Work, offset: u32) -> Result<(), BusError> {
        self.work(work);
        let access = self.card.write_byte(self.now_ns, offset)?;
        self.wait(access.wait_cycles);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BusError> {
        self.work(Work::Flush);
        Ok(())
    }
}
