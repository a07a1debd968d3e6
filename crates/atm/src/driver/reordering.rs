//! A write buffer as DECstations have one, between a driver and its card.
//!
//! It completes a write to an address before the next access to that address, and promises nothing of
//! different addresses (Whateley). This one uses that freedom as badly as it can: the latest write leaves
//! first, so that a driver that works behind it flushes wherever it has to.

use super::host::Host;
use super::work::Work;
use crate::tca100::BusError;

/// A host behind a write buffer.
#[derive(Debug)]
pub struct Reordering<H> {
    /// The host behind it.
    pub host: H,
    pending: Vec<(Work, u32, u32)>,
    depth: usize,
}

impl<H: Host> Reordering<H> {
    /// A buffer of `depth` writes, at least one.
    pub fn new(host: H, depth: usize) -> Self {
        Self { host, pending: Vec::new(), depth: depth.max(1) }
    }

    fn complete(&mut self, offset: u32) -> Result<(), BusError> {
        match self.pending.iter().position(|&(_, pending, _)| pending == offset) {
            Some(at) => self.complete_at(at),
            None => Ok(()),
        }
    }

    fn complete_at(&mut self, at: usize) -> Result<(), BusError> {
        let (work, offset, word) = self.pending.remove(at);
        self.host.write(work, offset, word)
    }
}

impl<H: Host> Host for Reordering<H> {
    fn now_ns(&self) -> u64 {
        self.host.now_ns()
    }

    fn work(&mut self, work: Work) {
        self.host.work(work);
    }

    fn write(&mut self, work: Work, offset: u32, word: u32) -> Result<(), BusError> {
        self.complete(offset)?;
        if self.pending.len() == self.depth {
            self.complete_at(self.depth - 1)?;
        }
        self.pending.push((work, offset, word));
        Ok(())
    }

    fn read(&mut self, work: Work, offset: u32) -> Result<u32, BusError> {
        self.complete(offset)?;
        self.host.read(work, offset)
    }

    fn write_byte(&mut self, work: Work, offset: u32) -> Result<(), BusError> {
        self.complete(offset)?;
        self.host.write_byte(work, offset)
    }

    fn flush(&mut self) -> Result<(), BusError> {
        while let Some(last) = self.pending.len().checked_sub(1) {
            self.complete_at(last)?;
        }
        self.host.flush()
    }
}
