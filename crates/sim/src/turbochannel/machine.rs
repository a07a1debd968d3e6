//! A machine's numbers, read from its file.

use serde::Deserialize;

use crate::MachineError;

const FILES: [(&str, &str); 2] = [
    ("decstation-5000-200", include_str!("../../../../machines/decstation-5000-200.toml")),
    ("decstation-5000-240", include_str!("../../../../machines/decstation-5000-240.toml")),
];

/// A machine with a TURBOchannel.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurbochannelMachine {
    /// As in `decstation-5000-240`.
    pub name: String,
    /// Its full name.
    pub title: String,
    /// The bus, and memory behind it.
    pub bus: Bus,
    /// The processor.
    pub cpu: Clock,
    /// The buffer between the two.
    pub write_buffer: WriteBuffer,
    /// The driver of a card, at user level.
    pub driver: Driver,
}

/// Costs of the bus, in bus cycles unless a field has another unit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bus {
    /// One cycle in picoseconds.
    pub cycle_ps: u64,
    /// Octets of a word; one word crosses in a cycle.
    pub word_bytes: u64,
    /// Before the first word of a DMA read.
    pub dma_read_acquire: u64,
    /// Before the first word of a DMA write.
    pub dma_write_acquire: u64,
    /// A word read by the CPU past its cache.
    pub uncached_read: u64,
    /// A word written to the page that the memory has open.
    pub page_write: u64,
    /// A word written to another page.
    pub nonpage_write: u64,
    /// A part of a word written.
    pub partial_write: u64,
    /// Words of a cache line, which one access fills.
    pub line_words: u64,
    /// A cache line filled.
    pub line_fill: u64,
    /// Source of the numbers.
    pub source: String,
}

/// A processor's clock.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// One cycle in picoseconds.
    pub cycle_ps: u64,
    /// Source of the number.
    pub source: String,
}

/// A write buffer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteBuffer {
    /// Writes that it holds.
    pub words: usize,
    /// Source of the numbers.
    pub source: String,
}

/// Steps of a user-level driver, in CPU cycles unless a field has another unit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Driver {
    /// A word written to the card, in bus cycles.
    pub card_write: u64,
    /// A word read from the card, in bus cycles.
    pub card_read: u64,
    /// Source of both.
    pub source_card: String,
    /// From the end of the last write until the processor knows that the buffer is empty.
    pub flush: u64,
    /// Source of the number.
    pub source_flush: String,
    /// A message on the general path.
    pub message_setup: u64,
    /// A message on the path for two cells.
    pub two_cell_setup: u64,
    /// A turn of the loop over cells.
    pub cell_loop: u64,
    /// A sequence number stepped.
    pub sequence_step: u64,
    /// The choice of the case for the last cell.
    pub fill_case: u64,
    /// A last word cut, in addition to its load.
    pub part_word: u64,
    /// The check of a received cell, and the search for its place.
    pub cell_check: u64,
    /// The same where missing cells are requested: the bits of the received cells, and a timer.
    pub repair_check: u64,
    /// Source of these.
    pub source_steps: String,
}

impl TurbochannelMachine {
    /// The machine of this name that is included in the program.
    ///
    /// # Errors
    ///
    /// When it does not exist, or its file is not of the expected form; a test keeps those readable.
    pub fn by_name(name: &str) -> Result<Self, MachineError> {
        let found = FILES.iter().find(|(known, _)| *known == name);
        let unknown = || {
            let known = FILES.map(|(known, _)| known).join(", ");
            let text = format!("no machine `{name}` with a TURBOchannel: expected one of {known}");
            MachineError::Form(text)
        };
        let (_, text) = found.ok_or_else(unknown)?;
        toml::from_str(text).map_err(|error| MachineError::Form(error.to_string()))
    }
}

impl Bus {
    /// Megabytes a second when each `words` words take so many cycles.
    pub fn mbyte_per_s(&self, words: u64, cycles: u64) -> f64 {
        // Octets a picosecond are 10^6 megabytes a second.
        (words * self.word_bytes) as f64 / (cycles * self.cycle_ps) as f64 * 1e6
    }

    /// Rate of DMA reads of `words` words each, in megabytes a second.
    pub fn dma_read_mbyte_per_s(&self, words: u64) -> f64 {
        self.mbyte_per_s(words, self.dma_read_acquire + words)
    }

    /// Rate of DMA writes of `words` words each, in megabytes a second.
    pub fn dma_write_mbyte_per_s(&self, words: u64) -> f64 {
        self.mbyte_per_s(words, self.dma_write_acquire + words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machines() -> [TurbochannelMachine; 2] {
        FILES.map(|(name, _)| TurbochannelMachine::by_name(name).unwrap())
    }

    #[test]
    fn files_bear_the_names_of_their_machines() {
        assert_eq!(machines().map(|machine| machine.name), FILES.map(|(name, _)| name));
        assert!(TurbochannelMachine::by_name("pdp-11").is_err());
    }

    /// Whateley's list, to the digits that he prints.
    #[test]
    fn rates_by_kind_of_access_are_those_of_the_list() {
        for TurbochannelMachine { bus, .. } in machines() {
            let dma = [bus.dma_read_mbyte_per_s(1), bus.dma_read_mbyte_per_s(128)];
            assert_eq!(dma.map(|rate| format!("{rate:.1}")), ["9.1", "92.8"]);
            let dma = [bus.dma_write_mbyte_per_s(1), bus.dma_write_mbyte_per_s(128)];
            assert_eq!(dma.map(|rate| format!("{rate:.1}")), ["14.3", "95.5"]);
            let cycles = [bus.uncached_read, bus.page_write, bus.nonpage_write, bus.partial_write];
            let rates = cycles.map(|cycles| format!("{:.1}", bus.mbyte_per_s(1, cycles)));
            assert_eq!(rates, ["10.0", "100.0", "20.0", "9.1"]);
        }
    }

    /// The fill of a line: 30 MB/s in the list, 30.8 as four words in whole cycles.
    #[test]
    fn a_line_is_filled_as_one_uncached_read_and_its_other_words() {
        for TurbochannelMachine { bus, .. } in machines() {
            assert_eq!(bus.line_fill, bus.uncached_read + bus.line_words - 1);
            let rate = bus.mbyte_per_s(bus.line_words, bus.line_fill);
            assert_eq!(format!("{rate:.1}"), "30.8");
        }
    }

    /// Measurements of one machine that both use must be the same number.
    #[test]
    fn machines_differ_in_their_processors_alone() {
        let [slow, fast] = machines();
        assert_eq!((slow.bus, slow.driver), (fast.bus, fast.driver));
        assert_eq!((slow.cpu.cycle_ps, fast.cpu.cycle_ps), (40_000, 30_303));
    }
}
