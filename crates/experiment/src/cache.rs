//! The parameters of a case in which a network interface meets a second-level cache.

use serde::Deserialize;

use super::bounds::Bound;

/// Octets of a message, and of the other data of the program, at most.
const BYTES_MAX: u64 = 1 << 20;

/// Octets of messages that wait at most.
const WAITING_BYTES_MAX: u64 = 4 << 20;

/// Messages of a run at most.
const MESSAGES_MAX: u64 = 10_000;

/// Everything that makes one case of `cache-interface`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheParameters {
    /// The machine, as `second-level-cache`.
    pub machine: String,
    /// How the interface and the kernel bring a message to its program.
    pub design: InterfaceDesign,
    /// What becomes of a message.
    #[serde(default)]
    pub task: MessageTask,
    /// Octets of a message.
    pub message_bytes: u64,
    /// Messages, one after the other.
    pub messages: u64,
    /// Messages that arrive before the first of them is delivered.
    #[serde(default = "one")]
    pub waiting: u64,
    /// How much of a message its program reads, in per cent.
    #[serde(default = "hundred")]
    pub read_percent: u64,
    /// Other data that the program reads after each message.
    pub working_set_bytes: u64,
    /// Octets of the cache; without it, the machine's.
    pub cache_bytes: Option<u64>,
    /// Octets of its lines; without it, the machine's.
    pub line_bytes: Option<u64>,
    /// Lines of a set; without it, the machine's.
    pub ways: Option<u64>,
    /// CPU cycles to map a page or a line elsewhere; without it, the machine's.
    pub remap_cycles: Option<u64>,
}

/// How a message gets to its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceDesign {
    /// The processor reads each word from the card, then copies.
    ProgrammedIo,
    /// The card writes to memory, then the processor copies.
    DmaCopy,
    /// The card writes to memory; whole pages are mapped elsewhere, the rest is copied.
    DmaRemap,
    /// The interface writes to the second-level cache, then the processor copies.
    CacheCopy,
    /// The interface writes to the second-level cache; lines are mapped elsewhere.
    CacheRemap,
}

/// What becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageTask {
    /// A program gets it.
    #[default]
    Deliver,
    /// The kernel sends it on.
    ForwardKernel,
    /// A program gets it and sends it on.
    ForwardProgram,
}

fn one() -> u64 {
    1
}

fn hundred() -> u64 {
    100
}

impl CacheParameters {
    /// What is wrong with them.
    pub(super) fn validate(&self) -> Result<(), String> {
        let bounds: [Bound; 9] = [
            ("message_bytes", Some(self.message_bytes), 1, BYTES_MAX),
            ("messages", Some(self.messages), 1, MESSAGES_MAX),
            ("waiting", Some(self.waiting), 1, MESSAGES_MAX),
            ("read_percent", Some(self.read_percent), 0, 100),
            ("working_set_bytes", Some(self.working_set_bytes), 0, BYTES_MAX),
            ("cache_bytes", self.cache_bytes, 1, 16 * BYTES_MAX),
            // A line is of one page.
            ("line_bytes", self.line_bytes, 4, 4096),
            ("ways", self.ways, 1, 16),
            ("remap_cycles", self.remap_cycles, 0, 1_000_000),
        ];
        for (name, value, least, most) in bounds {
            if value.is_some_and(|value| !(least..=most).contains(&value)) {
                return Err(format!("expected `{name}` from {least} to {most}"));
            }
        }
        let forwards = self.task != MessageTask::Deliver;
        if forwards && self.read_percent != 100 {
            return Err("`read_percent` goes with `task = \"deliver\"`".to_owned());
        }
        if self.waiting.saturating_mul(self.message_bytes) > WAITING_BYTES_MAX {
            return Err(format!(
                "`waiting` of {} makes {} octets that wait, over {WAITING_BYTES_MAX}",
                self.waiting,
                self.waiting.saturating_mul(self.message_bytes)
            ));
        }
        if self.waiting > self.messages {
            return Err("`waiting` messages are some of `messages`".to_owned());
        }
        Ok(())
    }
}
