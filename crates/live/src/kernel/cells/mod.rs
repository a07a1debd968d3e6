//! The ATM experiments on this machine: cells of AAL3/4 in memory, cut and put together by this processor.
//!
//! No card takes them, so that words and cells are written to memory. The access of `bus-access` is a locked exchange
//! of a word, which this processor waits for as the thesis's driver waits for its card.

mod access;
mod loss;
mod send;

use sockscope_experiment::measurement::Measurement;
use sockscope_experiment::{Case, DataFrom, DriverPart, Workload};

/// Seed of the cells that are lost.
const SEED: u64 = 1;

/// Measures a case; else why it has no counterpart here.
pub(super) fn measure(workload: Workload, case: &Case) -> Result<Measurement, String> {
    let parameters = case.atm.as_ref().ok_or("it has no parameters of a driver")?;
    match workload {
        Workload::AtmSend => {
            if parameters.data_from == DataFrom::Uncached {
                return Err("a program has no memory that is read past the cache".to_owned());
            }
            if parameters.driver != DriverPart::Packets && parameters.data_from == DataFrom::Memory
            {
                return Err("cells that are made before are in the cache".to_owned());
            }
            send::run(parameters)
        }
        Workload::BusAccess => Ok(access::run(parameters)),
        _ => loss::run(parameters, SEED),
    }
}
