//! The thesis's ATM driver on the machines that it ran on.
//!
//! The driver is that of `sockscope_atm`; a [`DecstationHost`](host::DecstationHost) gives each unit
//! of its work the time that it takes on a DECstation. "Whateley" is "The Influence of Protocol
//! Choice on Network Performance", chapter 4.

mod bus;
mod cells;
mod echo;
mod host;
mod loss;
mod send;

use sockscope_experiment::measurement::Measurement;
use sockscope_experiment::{AtmParameters, Experiment, Workload};
use sockscope_sim::turbochannel::TurbochannelMachine;

/// Runs one repetition of a case.
///
/// # Errors
///
/// When the machine is not known, the card raises a bus error, or the received data are wrong.
pub(crate) fn run(
    experiment: &Experiment,
    parameters: &AtmParameters,
    repetition: u32,
) -> Result<Measurement, String> {
    let seed = experiment.seed.wrapping_add(repetition.into());
    machine(parameters).and_then(|machine| match experiment.workload {
        Workload::BusAccess => Ok(bus::run(&machine, parameters)),
        Workload::AtmEcho => echo::run(&machine, parameters),
        Workload::AtmLoss => loss::run(&machine, parameters, seed),
        _ => send::run(&machine, parameters),
    })
}

/// The machine with the steps that the case changes.
fn machine(parameters: &AtmParameters) -> Result<TurbochannelMachine, String> {
    let found = TurbochannelMachine::by_name(&parameters.machine);
    let mut machine = found.map_err(|error| error.to_string())?;
    let driver = &mut machine.driver;
    driver.message_setup = parameters.message_setup_cycles.unwrap_or(driver.message_setup);
    driver.repair_check = parameters.repair_check_cycles.unwrap_or(driver.repair_check);
    Ok(machine)
}
