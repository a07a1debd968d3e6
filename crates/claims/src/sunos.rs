//! What the checks of "Experimental Evaluation of SunOS IPC and TCP/IP Protocol Implementation" share.

use std::sync::LazyLock;

use sockscope_experiment::result::CaseResult;
use sockscope_lab::model::Observed;
use sockscope_sim::Machine;

use super::Runs;

/// Data of a segment on all links of the study.
pub(super) const SEGMENT_BYTES: f64 = 1024.0;
/// Noise of a rate from one buffer size to the next: less than this is no fall.
pub(super) const RATE_NOISE: f64 = 0.02;

pub(super) type Run = Result<Observed, String>;

/// A run that several checks share.
pub(super) fn shared(run: &'static LazyLock<Run>) -> Result<&'static Observed, String> {
    run.as_ref().map_err(Clone::clone)
}

/// Throughput of a case in Mbit/s.
pub(super) fn rate(case: &CaseResult) -> f64 {
    case.measured.throughput_bits_per_s().unwrap_or(f64::NAN) / 1e6
}

/// Rates of the cases with these parameters, in the order of the file.
pub(super) fn rates(runs: &Runs, experiment: &str, wanted: &[(&str, &str)]) -> Vec<f64> {
    runs.of(experiment).cases_with(wanted).map(rate).collect()
}

/// The curves of Figure 9.
pub(super) const ETHERNET: [(&str, &str); 2] =
    [("machine", "sparcstation-1"), ("topology", "pair")];
pub(super) const LOOPBACK: [(&str, &str); 2] =
    [("machine", "sparcstation-1"), ("topology", "loopback")];

pub(super) fn best(runs: &Runs, curve: &[(&str, &str)]) -> f64 {
    rates(runs, "si-1a", curve).into_iter().fold(0.0, f64::max)
}

pub(super) fn listed(values: &[f64], digits: usize) -> String {
    let words = values.iter().map(|value| format!("{value:.digits$}"));
    words.collect::<Vec<_>>().join(", ")
}

/// Time of a copy and of a checksum of a packet, in microseconds.
pub(super) fn copy_and_checksum_us() -> Result<(f64, f64), String> {
    use sockscope_stack::Routine::{Copyin, TcpCksum};
    let machine = Machine::by_name("sparcstation-1").ok_or("no machine `sparcstation-1`")?;
    let us = |routine| f64::from(machine.costs.of(routine).byte_ps) * SEGMENT_BYTES / 1e6;
    Ok((us(Copyin), us(TcpCksum)))
}

/// Phases of the free-running timer, as changes of an experiment; `scripts/soak study` looks at more.
#[cfg(test)]
pub(super) fn timer_phases() -> impl Iterator<Item = String> {
    let is_full = std::env::var("SOCKSCOPE_SOAK").is_ok_and(|wish| wish == "full");
    let phases = (0..200).step_by(if is_full { 20 } else { 120 });
    phases.map(|phase_ms| format!("client_timer_ms={phase_ms}"))
}
