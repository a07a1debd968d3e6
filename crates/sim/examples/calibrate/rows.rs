//! The results of a run, by routine.

use std::collections::BTreeMap;

use sockscope_stack::{Meter, Routine, WorkTotal};

/// Calls, nanoseconds and work of each routine.
pub type Rows = BTreeMap<Routine, (u64, u64, WorkTotal)>;

/// The rows in the meter of a host.
pub fn of(meter: &Meter) -> Rows {
    let row = |routine| (meter.calls(routine), meter.charged_ns(routine), meter.work(routine));
    Routine::ALL.iter().map(|routine| (*routine, row(*routine))).collect()
}
