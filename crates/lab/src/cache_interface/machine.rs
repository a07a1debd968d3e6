//! A machine with a second-level cache: numbers of its file.

use serde::Deserialize;
use sockscope_experiment::CacheParameters;
use sockscope_sim::cache::CacheShape;
use sockscope_sim::turbochannel::TurbochannelMachine;

const FILES: [(&str, &str); 1] =
    [("second-level-cache", include_str!("../../../../machines/second-level-cache.toml"))];

/// A machine as a case has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Machine {
    /// The bus, the processor's clock, and a card on it.
    pub base: TurbochannelMachine,
    pub shape: CacheShape,
    /// CPU cycles of a word that is in the cache.
    pub word_cycles: u64,
    pub page_bytes: u64,
    /// CPU cycles to map a page or a line elsewhere.
    pub remap_cycles: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    #[expect(dead_code, reason = "for readers of the file")]
    title: String,
    bus_of: String,
    cache: CacheNumbers,
    kernel: Kernel,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheNumbers {
    bytes: u64,
    line_bytes: u64,
    ways: u64,
    word_cycles: u64,
    #[expect(dead_code, reason = "for readers of the file")]
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kernel {
    page_bytes: u64,
    remap_cycles: u64,
    #[expect(dead_code, reason = "for readers of the file")]
    source: String,
}

impl Machine {
    /// The machine of a case, with the numbers that the case changes.
    pub fn of(parameters: &CacheParameters) -> Result<Self, String> {
        let name = &parameters.machine;
        let found = FILES.iter().find(|(known, _)| known == name);
        let (_, text) = found.ok_or_else(|| {
            let known = FILES.map(|(known, _)| known).join(", ");
            format!("no machine `{name}` with a second-level cache: expected one of {known}")
        })?;
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        debug_assert_eq!(&file.name, name);
        let base = TurbochannelMachine::by_name(&file.bus_of).map_err(|error| error.to_string())?;
        let shape = CacheShape {
            bytes: parameters.cache_bytes.unwrap_or(file.cache.bytes),
            line_bytes: parameters.line_bytes.unwrap_or(file.cache.line_bytes),
            ways: parameters.ways.unwrap_or(file.cache.ways),
        };
        shape.sets()?;
        if parameters.working_set_bytes > shape.bytes {
            return Err(format!(
                "`working_set_bytes` of {} do not fit a cache of {} octets",
                parameters.working_set_bytes, shape.bytes
            ));
        }
        Ok(Self {
            base,
            shape,
            word_cycles: file.cache.word_cycles,
            page_bytes: file.kernel.page_bytes,
            remap_cycles: parameters.remap_cycles.unwrap_or(file.kernel.remap_cycles),
        })
    }

    /// Words of a cache line.
    pub fn line_words(&self) -> u64 {
        self.shape.line_bytes / self.base.bus.word_bytes
    }

    /// Bus cycles to fill a line: a read past the cache, and its other words.
    pub fn fill_cycles(&self) -> u64 {
        self.base.bus.uncached_read + self.line_words() - 1
    }

    /// Bus cycles to write a line back: a write to another page, and the others to the same one.
    pub fn write_back_cycles(&self) -> u64 {
        let bus = &self.base.bus;
        bus.nonpage_write + (self.line_words() - 1) * bus.page_write
    }
}
