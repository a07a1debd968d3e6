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

/// Why a case has no counterpart here.
pub(super) fn refused(case: &Case) -> Option<&'static str> {
    let parameters = case.atm.as_ref()?;
    match (parameters.driver, parameters.data_from) {
        (_, DataFrom::Uncached) => Some("a program has no memory that is read past the cache"),
        (DriverPart::Words | DriverPart::Cells, DataFrom::Memory) => {
            Some("cells that are made before are in the cache")
        }
        _ => None,
    }
}

/// Of a run and an earlier one of the same sender the least times.
pub(super) fn least(
    case: &Case,
    earlier: Option<&Measurement>,
    measured: Measurement,
) -> Measurement {
    match (earlier, &case.atm) {
        (Some(earlier), Some(parameters)) => send::least(parameters, earlier, &measured),
        _ => measured,
    }
}

/// Measures a case; else what went wrong.
pub(super) fn measure(workload: Workload, case: &Case) -> Result<Measurement, String> {
    let parameters = case.atm.as_ref().ok_or("it has no parameters of a driver")?;
    match workload {
        Workload::AtmSend => send::run(parameters),
        Workload::BusAccess => Ok(access::run(parameters)),
        _ => loss::run(parameters, SEED),
    }
}
