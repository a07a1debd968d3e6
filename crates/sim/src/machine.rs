//! Machines: the costs of routines, and the driver's behaviour.
//!
//! A machine is a file in `machines/`. Costs are nanoseconds of CPU time (per byte: picoseconds);
//! every number has its source next to it.

use std::collections::BTreeMap;

use serde::Deserialize;
use sockscope_stack::{Cost, Costs, ProbeCosts, Routine};

/// Why a machine file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// It is not TOML of the expected form; the text gives the place.
    #[error("{0}")]
    Form(String),
    /// It gives a cost for a routine that is not counted.
    #[error("routine `{0}` is not one that the model has")]
    UnknownRoutine(String),
    /// A number has no source.
    #[error("`{0}` has no source")]
    NoSource(String),
}

/// One machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// As in `vax-11-750`.
    pub name: String,
    /// Its full name.
    pub title: String,
    /// The costs of the routines.
    pub costs: Costs,
    /// The CPU other than the routines.
    pub cpu: Cpu,
    /// The Ethernet driver and its device.
    pub driver: Driver,
}

/// Costs of the CPU other than the routines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// Going from one process to another (`swtch`), in nanoseconds.
    pub switch_ns: u64,
    /// A program's own time between two system calls, in nanoseconds.
    pub user_ns: u64,
    /// The interrupt of each clock tick (`hardclock`), while the CPU is in use, in nanoseconds.
    pub clock_ns: u64,
    /// Counting one call under a profiler (`mcount`), in nanoseconds; see
    /// [`HostConfig::is_profiled`](crate::HostConfig::is_profiled).
    #[serde(default)]
    pub count_ns: u32,
    /// A probe's test whether a packet is logged, in nanoseconds; see
    /// [`HostConfig::probes`](crate::HostConfig::probes).
    #[serde(default)]
    pub probe_test_ns: u32,
    /// Masking the devices and looking at the next record of the list, in nanoseconds.
    #[serde(default)]
    pub probe_mask_ns: u32,
    /// Taking the time of a record, in nanoseconds.
    #[serde(default)]
    pub probe_time_ns: u32,
    /// Filling a record in, in nanoseconds.
    #[serde(default)]
    pub probe_store_ns: u32,
    /// The extra cost of a routine's first call after an interrupt of a computing program, which
    /// has displaced the kernel from part of the cache; in percent of its fixed cost.
    #[serde(default)]
    pub refill_percent: u32,
    /// Source of the numbers.
    pub source: String,
}

impl Cpu {
    /// The costs of a probe in the kernel.
    pub fn probe_costs(&self) -> ProbeCosts {
        ProbeCosts {
            test_ns: self.probe_test_ns,
            mask_ns: self.probe_mask_ns,
            time_ns: self.probe_time_ns,
            store_ns: self.probe_store_ns,
        }
    }
}

/// An Ethernet driver and its device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Driver {
    /// From the time that the device can begin a frame to its first bit on the wire, without the CPU: after
    /// the end of `enstart`, or after the frame before it in a device that sends back to back. In
    /// nanoseconds.
    pub start_ns: u64,
    /// Least time from the end of one frame to the start of the next one, in nanoseconds.
    pub gap_ns: u64,
    /// After a frame arrived, the device begins none of its own for so long beyond the silence that
    /// the cable asks for: between back-to-back frames it sends nothing. In nanoseconds.
    #[serde(default)]
    pub receive_hold_ns: u64,
    /// The device sends queued frames back to back by itself; else each waits for the interrupt
    /// of the one before.
    pub sends_back_to_back: bool,
    /// A collision interrupts the CPU, which calls `enstart` again.
    pub restarts_in_software: bool,
    /// Source of the numbers.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    title: String,
    cpu: Cpu,
    driver: Driver,
    #[serde(default)]
    routine: BTreeMap<String, CostSection>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CostSection {
    #[serde(default)]
    call_ns: u32,
    #[serde(default)]
    byte_ps: u32,
    #[serde(default)]
    mbuf_ns: u32,
    #[serde(default)]
    walk_ns: u32,
    source: String,
}

/// The machines of this repository.
const FILES: [(&str, &str); 3] = [
    ("vax-11-750", include_str!("../../../machines/vax-11-750.toml")),
    ("sparcstation-1", include_str!("../../../machines/sparcstation-1.toml")),
    ("sparcstation-2", include_str!("../../../machines/sparcstation-2.toml")),
];

impl Machine {
    /// Names of the machines included in the program.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }

    /// A machine included in the program; `instant` is one on which nothing costs time.
    pub fn by_name(name: &str) -> Option<Self> {
        if name == "instant" {
            return Some(Self::instant());
        }
        let (_, text) = FILES.iter().find(|(known, _)| *known == name)?;
        Self::from_toml(text).ok()
    }

    /// A CPU on which nothing costs time.
    pub fn instant() -> Self {
        Self {
            name: "instant".to_owned(),
            title: "a machine on which nothing costs time".to_owned(),
            costs: Costs::default(),
            cpu: Cpu::default(),
            driver: Driver { sends_back_to_back: true, ..Driver::default() },
        }
    }

    /// Reads a machine file.
    ///
    /// # Errors
    ///
    /// When it is not of the expected form, names an unknown routine or leaves a source out; or
    /// when a time, or its extra by a cold cache, is too long.
    pub fn from_toml(text: &str) -> Result<Self, MachineError> {
        let file: File =
            toml::from_str(text).map_err(|error| MachineError::Form(error.to_string()))?;
        sourced("cpu", &file.cpu.source)?;
        sourced("driver", &file.driver.source)?;
        let (cpu, driver) = (&file.cpu, &file.driver);
        for (name, ns) in [
            ("cpu.switch_ns", cpu.switch_ns),
            ("cpu.user_ns", cpu.user_ns),
            ("cpu.clock_ns", cpu.clock_ns),
            ("driver.start_ns", driver.start_ns),
            ("driver.gap_ns", driver.gap_ns),
            ("driver.receive_hold_ns", driver.receive_hold_ns),
        ] {
            bounded(name, ns, TIME_NS_MAX)?;
        }
        bounded("cpu.refill_percent", cpu.refill_percent.into(), REFILL_PERCENT_MAX.into())?;
        let mut costs = Costs::default();
        for (name, section) in &file.routine {
            let routine =
                Routine::by_name(name).ok_or_else(|| MachineError::UnknownRoutine(name.clone()))?;
            sourced(name, &section.source)?;
            costs.set(routine, section.cost());
        }
        let File { name, title, cpu, driver, .. } = file;
        Ok(Self { name, title, costs, cpu, driver })
    }
}

impl CostSection {
    fn cost(&self) -> Cost {
        let Self { call_ns, byte_ps, mbuf_ns, walk_ns, .. } = *self;
        Cost { call_ns, byte_ps, mbuf_ns, walk_ns }
    }
}

fn sourced(name: &str, source: &str) -> Result<(), MachineError> {
    if source.trim().is_empty() {
        return Err(MachineError::NoSource(name.to_owned()));
    }
    Ok(())
}

/// The longest time of a machine: some four seconds, as those of routines, which have 32 bits. Sums of
/// them and of the model's time do not wrap.
const TIME_NS_MAX: u64 = u32::MAX as u64;

/// The most that a cold cache adds to a call: a hundred times its fixed cost. That cost times this
/// does not wrap.
const REFILL_PERCENT_MAX: u32 = 10_000;

fn bounded(name: &str, number: u64, most: u64) -> Result<(), MachineError> {
    if number > most {
        return Err(MachineError::Form(format!("`{name}`: expected at most {most}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        name = "small"
        title = "A small machine"
        [cpu]
        switch_ns = 5
        user_ns = 0
        clock_ns = 0
        source = "estimate"
        [driver]
        start_ns = 1
        gap_ns = 2
        sends_back_to_back = false
        restarts_in_software = true
        source = "estimate"
        [routine.sosend]
        call_ns = 100
        mbuf_ns = 7
        source = "Table 1"
    "#;

    #[test]
    fn a_file_becomes_a_machine() {
        let machine = Machine::from_toml(SMALL).unwrap();
        let cost = Cost { call_ns: 100, mbuf_ns: 7, ..Cost::default() };
        assert_eq!(machine.costs.of(Routine::Sosend), cost);
        assert_eq!(machine.costs.of(Routine::Uiomove), Cost::default());
        assert_eq!((machine.cpu.switch_ns, machine.driver.gap_ns), (5, 2));
    }

    #[test]
    fn a_number_without_a_source_or_routine_is_refused() {
        let unsourced = SMALL.replace("\"Table 1\"", "\" \"");
        assert_eq!(Machine::from_toml(&unsourced), Err(MachineError::NoSource("sosend".into())));
        let unknown = SMALL.replace("sosend", "tcp_sendmsg");
        let expected = MachineError::UnknownRoutine("tcp_sendmsg".into());
        assert_eq!(Machine::from_toml(&unknown), Err(expected));
        let misspelt = SMALL.replace("mbuf_ns", "mbufs_ns");
        let error = Machine::from_toml(&misspelt).unwrap_err().to_string();
        assert!(error.contains("mbufs_ns") && error.contains("line 17"), "{error}");
    }

    #[test]
    fn a_time_that_would_wrap_the_clock_is_refused() {
        for (name, told) in [("switch_ns = 5", "cpu.switch_ns"), ("gap_ns = 2", "driver.gap_ns")] {
            let (field, _) = name.split_once(" = ").unwrap();
            let long =
                |ns: u64| Machine::from_toml(&SMALL.replace(name, &format!("{field} = {ns}")));
            assert!(long(TIME_NS_MAX).is_ok());
            let error = long(TIME_NS_MAX + 1).unwrap_err().to_string();
            assert!(error.contains(&format!("`{told}`: expected at most 4294967295")), "{error}");
        }
    }

    #[test]
    fn a_refill_that_would_wrap_the_clock_is_refused() {
        let with = |percent: u32| {
            let line = format!("clock_ns = 0\n        refill_percent = {percent}");
            Machine::from_toml(&SMALL.replace("clock_ns = 0", &line))
        };
        assert_eq!(with(REFILL_PERCENT_MAX).unwrap().cpu.refill_percent, REFILL_PERCENT_MAX);
        for percent in [REFILL_PERCENT_MAX + 1, u32::MAX] {
            let error = with(percent).unwrap_err().to_string();
            assert_eq!(error, "`cpu.refill_percent`: expected at most 10000");
        }
    }

    #[test]
    fn the_machines_of_the_repository_can_be_read() {
        for (name, text) in FILES {
            match Machine::from_toml(text) {
                Ok(machine) => assert_eq!(machine.name, name),
                Err(error) => panic!("{name}: {error}"),
            }
        }
        assert_eq!(Machine::by_name("pdp-11"), None);
    }
}
