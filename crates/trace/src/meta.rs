//! `meta.json`: the facts of the recording as a whole.
//!
//! Every field has a default and unknown fields are ignored, so that bundles of older and newer
//! releases of the same format version open. Names in JSON are those of the fields here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sockscope_record::{LossCounts, PointCost};

use crate::clock_band::ClockBand;
use crate::format::FORMAT_VERSION;
use crate::point_tables;

/// What is true of the recording as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Meta {
    /// Version of the bundle's format; the writer sets it to [`FORMAT_VERSION`].
    pub format_version: u32,
    /// Version of the program that wrote it.
    pub tool_version: String,
    /// Where the records come from.
    pub source: Source,
    /// The recording ended in order; false while it goes on, and after a kill.
    pub complete: bool,
    /// Rows written to `records.arrows`, set by the writer when it ends.
    pub records: u64,
    /// Host name.
    pub host: String,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// The machine.
    pub machine: Machine,
    /// Readings of both clocks at the same moments, at the start and at the end.
    pub clock: Vec<ClockSnapshot>,
    /// When the recorded command ended, else when the recording did, on the clock of the records; `None` where
    /// that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ns: Option<u64>,
    /// The recorder's command line, word by word.
    pub command: Vec<String>,
    /// Which sockets were picked, as a sentence.
    pub pick: String,
    /// Hooks used and missing.
    pub hooks: Vec<Hook>,
    /// Room of the lists between kernel and recorder.
    pub ring: Ring,
    /// Kernel settings that matter for the result, by name (`net.ipv4.tcp_wmem`).
    pub sysctls: BTreeMap<String, String>,
    /// Network interfaces.
    pub interfaces: Vec<Interface>,
    /// The kernel's names of why packets are dropped, by the number in `Drop` records: numbers
    /// differ from kernel to kernel.
    pub drop_reasons: BTreeMap<u32, String>,
    /// Names of `ip netns` for network namespaces, by inode number. Absent without any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub network_namespaces: BTreeMap<u32, String>,
    /// Records missed, by point and of no point.
    #[serde(with = "point_tables::loss")]
    #[cfg_attr(test, schemars(schema_with = "crate::meta_schema::loss"))]
    pub loss: LossCounts,
    /// Cost of the probes of each point, in the order of `Point::ALL`.
    #[serde(with = "point_tables::cost")]
    #[cfg_attr(test, schemars(schema_with = "crate::meta_schema::cost"))]
    pub cost: [PointCost; 8],
    /// The clocks of other hosts on that of the records: how well each is known. Empty where one host recorded, and
    /// where nothing bounds the difference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clock_bands: Vec<ClockBand>,
    /// Anything else that a reader of results must know, one sentence each.
    pub notes: Vec<String>,
}

/// Where records come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Probes in a running kernel.
    #[default]
    Live,
    /// The executable model.
    Model,
    /// A packet capture.
    Pcap,
    /// An engine of a protocol above the kernel's, which knows its own queues only.
    Engine,
    /// Several of these, in a bundle that was merged.
    Merged,
    /// A source that this release does not know.
    #[serde(other)]
    Unknown,
}

impl Source {
    /// Whether only a protocol's own queues were seen, which [`crate::merge()`] joins with a kernel's.
    pub fn is_engine(self) -> bool {
        self == Self::Engine
    }

    /// The word in traces and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Model => "model",
            Self::Pcap => "pcap",
            Self::Engine => "engine",
            Self::Merged => "merged",
            Self::Unknown => "unknown",
        }
    }
}

/// The machine that was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Machine {
    /// Number of CPUs online.
    pub cpus: u32,
    /// The processor's name.
    pub model: String,
}

/// Both clocks read at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ClockSnapshot {
    /// `CLOCK_MONOTONIC`, in nanoseconds: the clock of the records.
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME`, in nanoseconds since 1970.
    pub realtime_ns: u64,
    /// Time since boot for which the host of a virtual machine ran others while a CPU of it had work, all CPUs together:
    /// `steal` of proc_stat(5), rounded down to 10 ms. `None` where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steal_ns: Option<u64>,
}

impl ClockSnapshot {
    /// Of both clocks, where nothing else is known.
    pub fn new(monotonic_ns: u64, realtime_ns: u64) -> Self {
        Self { monotonic_ns, realtime_ns, steal_ns: None }
    }

    /// Nanoseconds to add to a time of the trace to get the time since 1970.
    pub fn offset_ns(self) -> i128 {
        i128::from(self.realtime_ns) - i128::from(self.monotonic_ns)
    }
}

/// How a point or an event was observed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Hook {
    /// Point or event, by its name in the trace (`SendEnqueue`, `Wakeup`).
    pub point: String,
    /// The kernel's hook (`tp_btf/tcp_probe`).
    pub hook: String,
    /// Whether it was used.
    pub state: HookState,
    /// Why not, or what is special; may be empty.
    pub note: String,
}

/// Whether a hook was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum HookState {
    /// Attached during the recording.
    Used,
    /// Not in this kernel, or refused.
    Missing,
    /// There, but not needed.
    #[default]
    Unused,
    /// A state that this release does not know.
    #[serde(other)]
    Unknown,
}

/// Room of the lists between kernel and recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Ring {
    /// Records that the list of one CPU has room for.
    pub records: u64,
    /// Bytes of the lists of all CPUs together.
    pub bytes: u64,
}

/// A network interface of the recorded host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Largest packet, in bytes.
    pub mtu: u32,
    /// Its root queueing discipline (`noqueue`, `tbf`).
    pub qdisc: String,
    /// Offloads that are on (`tso`, `gro`).
    pub offloads: Vec<String>,
}

/// Times of others are rounded down to it.
const STEAL_TICK_NS: u64 = 10_000_000;

impl Meta {
    /// The part of the CPU time between the first and the last reading of the clocks that the host of a virtual machine
    /// gave to others at least, from 0 to 1: the readings are rounded by up to 10 ms. `None` where that is not known, and
    /// of a merged bundle, which may be of several hosts.
    pub fn steal_share(&self) -> Option<f64> {
        if self.source == Source::Merged {
            return None;
        }
        let (first, last) = (self.clock.first()?, self.clock.last()?);
        let steal_ns = last.steal_ns?.checked_sub(first.steal_ns?)?.saturating_sub(STEAL_TICK_NS);
        let all_ns = last
            .monotonic_ns
            .checked_sub(first.monotonic_ns)?
            .checked_mul(self.machine.cpus.into())?;
        (all_ns > 0).then(|| (steal_ns as f64 / all_ns as f64).min(1.0))
    }
}

impl Default for Meta {
    /// An incomplete recording without any known facts.
    fn default() -> Self {
        Self {
            format_version: FORMAT_VERSION,
            tool_version: String::new(),
            source: Source::default(),
            complete: false,
            records: 0,
            host: String::new(),
            kernel: String::new(),
            machine: Machine::default(),
            clock: Vec::new(),
            ended_ns: None,
            command: Vec::new(),
            pick: String::new(),
            hooks: Vec::new(),
            ring: Ring::default(),
            sysctls: BTreeMap::new(),
            interfaces: Vec::new(),
            drop_reasons: BTreeMap::new(),
            network_namespaces: BTreeMap::new(),
            loss: LossCounts::default(),
            cost: [PointCost::default(); 8],
            clock_bands: Vec::new(),
            notes: Vec::new(),
        }
    }
}
