//! Processor, second-level cache, bus and card at work: each access is charged to its purpose.
//!
//! Whole lines are followed, not single words: all words of a line that one step needs are accessed one after the other.

use sockscope_sim::cache::{Cache, CacheLine};

use super::machine::Machine;

/// Words of the longest DMA transfer (the thesis's list of rates).
const BURST_WORDS: u64 = 128;

/// The purpose of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// From the network or to it.
    Network,
    Copy,
    Remap,
    /// The program reads the message.
    Read,
    /// The program reads its other data.
    WorkingSet,
}

impl Purpose {
    pub const ALL: [Self; 5] =
        [Self::Network, Self::Copy, Self::Remap, Self::Read, Self::WorkingSet];
}

/// Cycles for one purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cycles {
    /// Of the bus.
    pub bus: u64,
    /// Of the bus, for which the processor waits.
    pub waited: u64,
    /// Of the processor, its waits aside.
    pub cpu: u64,
}

/// Accesses by kind. Their cycles make up those by purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Accesses {
    pub fills: u64,
    pub write_backs: u64,
    pub card_reads: u64,
    pub card_writes: u64,
    /// DMA transfers and their words, to memory and from it.
    pub dma_writes: [u64; 2],
    pub dma_reads: [u64; 2],
    /// Words that the processor accesses in the cache.
    pub cache_words: u64,
    pub remaps: u64,
}

impl Accesses {
    /// Bus cycles of all of them.
    pub fn bus_cycles(&self, machine: &Machine) -> u64 {
        let (bus, driver) = (&machine.base.bus, &machine.base.driver);
        let [writes, write_words] = self.dma_writes;
        let [reads, read_words] = self.dma_reads;
        self.fills * machine.fill_cycles()
            + self.write_backs * machine.write_back_cycles()
            + self.card_reads * driver.card_read
            + self.card_writes * driver.card_write
            + writes * bus.dma_write_acquire
            + write_words
            + reads * bus.dma_read_acquire
            + read_words
    }

    /// Cycles of the processor, its waits aside.
    pub fn cpu_cycles(&self, machine: &Machine) -> u64 {
        self.cache_words * machine.word_cycles
            + self.card_reads
            + self.card_writes
            + self.remaps * machine.remap_cycles
    }
}

/// One machine at work.
#[derive(Debug)]
pub(super) struct Memory {
    pub machine: Machine,
    pub cache: Cache,
    pub accesses: Accesses,
    /// Octets of messages that the processor moved, and that the network and the host exchanged.
    pub copied_bytes: u64,
    pub network_bytes: u64,
    /// Lines that gave way to those of a message.
    pub displaced: u64,
    /// Lines of the program's other data that had to be read again.
    pub displaced_useful: u64,
    spent: [Cycles; Purpose::ALL.len()],
}

impl Memory {
    pub fn new(machine: Machine) -> Result<Self, String> {
        let cache = Cache::new(machine.shape)?;
        Ok(Self {
            machine,
            cache,
            accesses: Accesses::default(),
            copied_bytes: 0,
            network_bytes: 0,
            displaced: 0,
            displaced_useful: 0,
            spent: [Cycles::default(); Purpose::ALL.len()],
        })
    }

    /// Counts begin here; the cache stays as it is.
    pub fn forget(&mut self) {
        self.accesses = Accesses::default();
        self.spent = [Cycles::default(); Purpose::ALL.len()];
        (self.copied_bytes, self.network_bytes) = (0, 0);
        (self.displaced, self.displaced_useful) = (0, 0);
    }

    pub fn spent(&self, purpose: Purpose) -> Cycles {
        self.spent[purpose as usize]
    }

    /// The cycles for all purposes.
    pub fn all_spent(&self) -> Cycles {
        self.spent.iter().fold(Cycles::default(), |sum, one| Cycles {
            bus: sum.bus + one.bus,
            waited: sum.waited + one.waited,
            cpu: sum.cpu + one.cpu,
        })
    }

    /// The processor accesses `bytes` octets of one line.
    pub fn access(&mut self, purpose: Purpose, address: u64, bytes: u64, writes: bool) {
        let words = bytes.div_ceil(self.machine.base.bus.word_bytes);
        self.accesses.cache_words += words;
        self.spent[purpose as usize].cpu += words * self.machine.word_cycles;
        if self.cache.touch(address, writes) {
            return;
        }
        self.accesses.fills += 1;
        self.wait_for_bus(purpose, self.machine.fill_cycles());
        self.displaced_useful += u64::from(purpose == Purpose::WorkingSet);
        self.enter(purpose, address, writes);
    }

    /// The processor moves a word from the card into a line, or from a line to the card.
    pub fn card_words(&mut self, words: u64, is_read: bool) {
        let driver = &self.machine.base.driver;
        let cycles = words * if is_read { driver.card_read } else { driver.card_write };
        self.spent[Purpose::Network as usize].cpu += words;
        self.wait_for_bus(Purpose::Network, cycles);
        if is_read {
            self.accesses.card_reads += words;
        } else {
            self.accesses.card_writes += words;
        }
    }

    /// The card writes a piece of a page to memory; the cache has no old copy of it after that.
    pub fn dma_write(&mut self, address: u64, bytes: u64) {
        let words = bytes.div_ceil(self.machine.base.bus.word_bytes);
        let bursts = words.div_ceil(BURST_WORDS);
        self.accesses.dma_writes[0] += bursts;
        self.accesses.dma_writes[1] += words;
        self.spent[Purpose::Network as usize].bus +=
            bursts * self.machine.base.bus.dma_write_acquire + words;
        for line in self.lines(address, bytes) {
            self.cache.remove(line);
        }
    }

    /// The card reads a piece of a page from memory; written lines of it are written back before.
    pub fn dma_read(&mut self, address: u64, bytes: u64) {
        let words = bytes.div_ceil(self.machine.base.bus.word_bytes);
        let bursts = words.div_ceil(BURST_WORDS);
        for line in self.lines(address, bytes) {
            if let Some(CacheLine { is_dirty: true, address }) = self.cache.remove(line) {
                self.write_back(Purpose::Network);
                self.cache.enter(CacheLine { address, is_dirty: false });
            }
        }
        self.accesses.dma_reads[0] += bursts;
        self.accesses.dma_reads[1] += words;
        self.spent[Purpose::Network as usize].bus +=
            bursts * self.machine.base.bus.dma_read_acquire + words;
    }

    /// The interface writes a line into the cache, past the bus.
    pub fn receive_line(&mut self, address: u64) {
        if !self.cache.touch(address, true) {
            self.enter(Purpose::Network, address, true);
        }
    }

    /// The interface sends a line. One that is no longer in the cache comes from memory.
    pub fn send_line(&mut self, address: u64) {
        if !self.cache.touch(address, false) {
            self.accesses.fills += 1;
            self.spent[Purpose::Network as usize].bus += self.machine.fill_cycles();
            self.enter(Purpose::Network, address, false);
        }
    }

    /// A line is mapped elsewhere. One that is no longer in the cache comes from memory before.
    pub fn remap_line(&mut self, from: u64, to: u64) {
        self.remap();
        if !self.cache.touch(from, true) {
            self.accesses.fills += 1;
            self.wait_for_bus(Purpose::Remap, self.machine.fill_cycles());
            self.enter(Purpose::Remap, from, true);
        }
        let is_renamed = self.cache.rename(from, to);
        debug_assert!(is_renamed, "both places have one set");
    }

    /// A page is mapped elsewhere.
    pub fn remap(&mut self) {
        self.accesses.remaps += 1;
        self.spent[Purpose::Remap as usize].cpu += self.machine.remap_cycles;
    }

    /// Lines of some octets, by their addresses.
    pub fn lines(&self, address: u64, bytes: u64) -> impl Iterator<Item = u64> + use<> {
        let line_bytes = self.machine.shape.line_bytes;
        let first = self.cache.line_of(address);
        (first..address + bytes).step_by(line_bytes as usize)
    }

    fn enter(&mut self, purpose: Purpose, address: u64, is_dirty: bool) {
        let address = self.cache.line_of(address);
        let Some(displaced) = self.cache.enter(CacheLine { address, is_dirty }) else { return };
        self.displaced += u64::from(purpose != Purpose::WorkingSet);
        if displaced.is_dirty {
            self.write_back(purpose);
        }
    }

    /// The cache writes a line back while the processor goes on.
    fn write_back(&mut self, purpose: Purpose) {
        self.accesses.write_backs += 1;
        self.spent[purpose as usize].bus += self.machine.write_back_cycles();
    }

    fn wait_for_bus(&mut self, purpose: Purpose, cycles: u64) {
        let spent = &mut self.spent[purpose as usize];
        spent.bus += cycles;
        spent.waited += cycles;
    }
}
