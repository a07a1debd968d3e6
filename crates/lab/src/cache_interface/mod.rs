//! A network interface that shares the second-level cache with the processor, as chapter 5 of the thesis on the choice
//! of protocols proposes it, next to three designs without (PC-8).
//!
//! A message of so many octets arrives, is brought to its program, and is read by it. Then the program reads other data
//! of its own, lines of which the message may have displaced. The processor does one thing after the other; DMA and the
//! interface at the cache take none of its time.

mod designs;
mod machine;
mod memory;

use sockscope_experiment::measurement::{Measure, Measurement};
use sockscope_experiment::{CacheParameters, Experiment};

use self::designs::Messages;
use self::machine::Machine;
use self::memory::{Cycles, Memory, Purpose};

/// Messages before those that are measured: buffers have then been in use.
const WARM_UP: u64 = 8;

/// Runs one repetition of a case.
///
/// # Errors
///
/// When the machine is not known, or its cache has no sense with the changes of the case.
pub(crate) fn run(
    experiment: &Experiment,
    parameters: &CacheParameters,
    repetition: u32,
) -> Result<Measurement, String> {
    let seed = experiment.seed.wrapping_add(repetition.into());
    Ok(Measurement { measures: measures(parameters, seed)?, ..Measurement::default() })
}

/// Means of a message.
fn measures(parameters: &CacheParameters, seed: u64) -> Result<Vec<Measure>, String> {
    let machine = Machine::of(parameters)?;
    let mut memory = Memory::new(machine)?;
    let mut messages = Messages::new(parameters, &memory, seed);
    messages.pass(&mut memory, WARM_UP);
    memory.forget();
    messages.pass(&mut memory, parameters.messages);
    let each = |count: u64| count as f64 / parameters.messages as f64;
    let bus = |purpose| each(memory.spent(purpose).bus);
    let octets = |bytes: u64| each(bytes) / parameters.message_bytes as f64;
    Ok([
        ("copies", octets(memory.copied_bytes)),
        ("network_moves", octets(memory.network_bytes)),
        ("remaps", each(memory.accesses.remaps)),
        ("displaced_lines", each(memory.displaced)),
        ("useful_lines_displaced", each(memory.displaced_useful)),
        ("bus_cycles", each(memory.all_spent().bus)),
        ("network_bus_cycles", bus(Purpose::Network)),
        ("copy_bus_cycles", bus(Purpose::Copy)),
        ("remap_bus_cycles", bus(Purpose::Remap)),
        ("read_bus_cycles", bus(Purpose::Read)),
        ("refill_bus_cycles", bus(Purpose::WorkingSet)),
        ("processor_us", each(processor_ps(&memory)) / 1e6),
        ("cycle_residue", each(cycle_residue(&memory))),
        ("line_residue", line_residue(&memory) as f64),
    ]
    .map(|(name, value)| Measure::new(name, value))
    .into())
}

/// Time of the processor for messages: its work and its waits, and its waits for other data that were displaced.
fn processor_ps(memory: &Memory) -> u64 {
    let ps = |Cycles { cpu, waited, .. }: Cycles| {
        let base = &memory.machine.base;
        cpu * base.cpu.cycle_ps + waited * base.bus.cycle_ps
    };
    let of_messages = [Purpose::Network, Purpose::Copy, Purpose::Remap, Purpose::Read];
    let refills = Cycles { cpu: 0, ..memory.spent(Purpose::WorkingSet) };
    of_messages.map(|purpose| ps(memory.spent(purpose))).iter().sum::<u64>() + ps(refills)
}

/// Cycles of bus and processor that accesses took and no purpose has, or the other way.
fn cycle_residue(memory: &Memory) -> u64 {
    let (accesses, all) = (&memory.accesses, memory.all_spent());
    accesses.bus_cycles(&memory.machine).abs_diff(all.bus)
        + accesses.cpu_cycles(&memory.machine).abs_diff(all.cpu)
}

/// Lines that entered the cache and neither are in it nor left it, or the other way.
fn line_residue(memory: &Memory) -> u64 {
    let counts = memory.cache.counts();
    counts.entered.abs_diff(memory.cache.resident() + counts.displaced + counts.removed)
}

#[cfg(test)]
mod tests;
