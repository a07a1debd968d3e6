//! VMTP between DECstations under Ultrix, on a 10 Mbit/s Ethernet: PC-3 to PC-6.
//!
//! The engines are those of `sockscope_vmtp`, the cable that of `sockscope_sim`; between them stand a
//! [`Machine`](machine::Machine)'s costs and [`Host`](host::Host)s with one CPU each. "Whateley" is
//! "The Influence of Protocol Choice on Network Performance", chapter 4. Times are nanoseconds of the
//! model's clock.

mod cpu;
mod frame;
mod host;
mod machine;
mod measures;
mod network;
mod process;

use sockscope_experiment::measurement::Measurement;
use sockscope_experiment::{Experiment, VmtpParameters};

use self::machine::Machine;
use self::network::Network;

/// The part of a run that is not counted.
const WARM_UP: u64 = 8;

/// Runs one repetition of a case.
///
/// # Errors
///
/// When a machine is not known, a client gets no response, or the run does not end.
pub(crate) fn run(
    experiment: &Experiment,
    parameters: &VmtpParameters,
    repetition: u32,
) -> Result<Measurement, String> {
    if let Some(name) = parameters.of_kernel() {
        return Err(format!("only a kernel has `{name}`; run it with --on live"));
    }
    let seed = experiment.seed.wrapping_add(repetition.into());
    simulate(parameters, seed)
}

/// Picoseconds that a machine's kernel takes to copy an octet to or from a program, and to sum one.
pub(crate) fn octet_ps(machine: &str) -> Result<[u64; 2], String> {
    Ok(Machine::by_name(machine)?.octet_ps())
}

/// Runs a case on a seed.
fn simulate(parameters: &VmtpParameters, seed: u64) -> Result<Measurement, String> {
    let of_server = parameters.server_machine.as_ref().unwrap_or(&parameters.machine);
    let of_server = Machine::by_name(of_server)?;
    simulate_on(parameters, &Machine::by_name(&parameters.machine)?, &of_server, seed)
}

/// The same on machines with numbers that may have been changed.
fn simulate_on(
    parameters: &VmtpParameters,
    machine: &Machine,
    of_server: &Machine,
    seed: u64,
) -> Result<Measurement, String> {
    let end_ns = parameters.run_ms * 1_000_000;
    let warm_ns = end_ns / WARM_UP;
    let hinted = |why: String| format!("{why}{}", parameters.faults().hint());
    let mut network = Network::new(parameters, machine, of_server, seed);
    network.run(warm_ns).map_err(hinted)?;
    let before = network.counts();
    network.run(end_ns).map_err(hinted)?;
    measures::measured(parameters, &before, &network.counts(), end_ns - warm_ns).map_err(hinted)
}

#[cfg(test)]
mod tests;
