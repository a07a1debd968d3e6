//! Accesses to the card one by one, each waited for: the meeting of two clocks of unequal rate.

use sockscope_experiment::AtmParameters;
use sockscope_experiment::measurement::{Measure, Measurement};
use sockscope_sim::turbochannel::{Timeline, TurbochannelMachine, Until};

/// Writes a word, waits until it is there, works, and so on.
pub(super) fn run(machine: &TurbochannelMachine, parameters: &AtmParameters) -> Measurement {
    let accesses = parameters.accesses.unwrap_or(1);
    let ns = access_ns(machine, accesses, parameters.work_cycles.unwrap_or(0));
    Measurement { measures: vec![Measure::new("access_ns", ns)], ..Measurement::default() }
}

fn access_ns(machine: &TurbochannelMachine, accesses: u64, work_cycles: u64) -> f64 {
    let mut timeline = Timeline::new(machine);
    for _ in 0..accesses {
        timeline.work(1);
        timeline.write(machine.driver.card_write, ());
        while let Some(begun) = timeline.begin_write(Until::Empty) {
            timeline.end_write(&begun, 0);
        }
        timeline.flush(work_cycles);
    }
    timeline.cpu_ps() as f64 / 1e3 / accesses as f64
}
