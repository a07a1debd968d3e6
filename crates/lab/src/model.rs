//! One repetition of one case on the model: its results, its recording, or its observation.
//!
//! A case gives programs on hosts (`programs`, `scenario`), they run to their end (`simulation`), and
//! the records of the run are analysed (`observed`).

mod kernel;
mod observed;
mod programs;
#[cfg(test)]
mod random_settings;
mod scenario;
mod simulation;
mod watch;

use sockscope_experiment::measurement::{Arrived, Measurement};
use sockscope_experiment::{Case, Experiment, Keep};
use sockscope_record::{Connection, PointCost};
use sockscope_sim::{Capture, Everything, HostConfig, RecordSink};

pub(crate) use self::kernel::{beyond_limit, machine, personality, without_path};
pub use self::observed::{Activities, Burst, Observed, length_at, mean};
pub(crate) use self::programs::{CLIENT_START_NS, SERVER_START_NS, server_address};
pub(crate) use self::scenario::{Line, scenario_with};
use self::simulation::{Ended, is_unread, simulate, simulate_changed};
use self::watch::Watch;
use crate::wire;

/// Runs one repetition of `case`.
///
/// # Errors
///
/// When the machine or the personality is not known, the scenario is refused, a program gives up,
/// data arrive damaged, or the run does not end.
pub fn run(experiment: &Experiment, case: &Case, repetition: u32) -> Result<Measurement, String> {
    let what = [Keep::Packets, Keep::Wire, Keep::Measures];
    // A probe takes its time for a record, also where the laboratory keeps none.
    let needs_records = case.parameters.probing || what.iter().any(|what| experiment.keeps(*what));
    let keeps_rows = experiment.keeps(Keep::Wire) && repetition == 0;
    let all = experiment.keeps(Keep::Measures).then(Everything::default);
    let is_unread = is_unread(experiment.workload, &case.parameters);
    let watch =
        Watch { is_wanted: needs_records || is_unread, keeps_rows, all, ..Watch::default() };
    let (ended, watch) = simulate(experiment, case, repetition, watch)?;
    let mut measured = ended.measured.clone();
    if let Some(all) = &watch.all {
        measured.measures.extend(Observed::new(&ended, all).measures());
    }
    measured.measures.extend(ended.gateway.iter().cloned());
    if is_about_probes(experiment) {
        measured.measures.extend(ended.probes.iter().cloned());
    }
    (measured.segments, measured.acks, measured.retransmitted) =
        (watch.segments, watch.acks, watch.again);
    measured.arrived = is_unread.then(|| Arrived {
        bytes: watch.arrived_bytes,
        ns: watch.last_arrival_ns.saturating_sub(ended.first_write_ns),
    });
    if keeps_rows {
        measured.wire = wire::rows(&watch.records, &ended.connections, CLIENT_START_NS);
    }
    Ok(measured)
}

/// Whether the probes are what an experiment compares, so that its table has columns for them.
fn is_about_probes(experiment: &Experiment) -> bool {
    let has_tool =
        |case: &Case| case.parameters.probe_idle || case.parameters.probe_list_records.is_some();
    experiment.cases().is_ok_and(|cases| cases.iter().any(has_tool))
}

/// Runs the first repetition of `case` with every record to `sink`; gives the connections that the
/// records speak of.
///
/// # Errors
///
/// As [`run`].
pub fn record<S: RecordSink>(
    experiment: &Experiment,
    case: &Case,
    sink: S,
) -> Result<(Vec<Connection>, S), String> {
    let Recorded { connections, sink, .. } = record_with_costs(experiment, case, sink)?;
    Ok((connections, sink))
}

/// What a bundle needs of a run.
pub(crate) struct Recorded<S> {
    pub connections: Vec<Connection>,
    /// Passages through the kernels' probes and their CPU time, by point.
    pub probe_costs: [PointCost; 8],
    pub sink: S,
}

/// As [`record`], with the costs of probes.
pub(crate) fn record_with_costs<S: RecordSink>(
    experiment: &Experiment,
    case: &Case,
    sink: S,
) -> Result<Recorded<S>, String> {
    let (Ended { connections, probe_costs, .. }, sink) = simulate(experiment, case, 0, sink)?;
    Ok(Recorded { connections, probe_costs, sink })
}

/// Runs the first repetition of `case`; gives what a third host on the cable captured, if there is one.
///
/// # Errors
///
/// As [`run`].
pub fn capture(experiment: &Experiment, case: &Case) -> Result<Option<Capture>, String> {
    // As for the bundle: without records the probes of a kernel would take less time.
    let watch = Watch { is_wanted: true, ..Watch::default() };
    Ok(simulate(experiment, case, 0, watch)?.0.capture)
}

/// Runs the first repetition of `case` and keeps every record.
///
/// # Errors
///
/// As [`run`].
pub fn observe(experiment: &Experiment, case: &Case) -> Result<Observed, String> {
    observe_changed(experiment, case, &|_| {})
}

/// The same on hosts that `change` has altered: numbers of a machine and rules of a stack that no parameter
/// sets.
///
/// # Errors
///
/// As [`run`].
pub fn observe_changed(
    experiment: &Experiment,
    case: &Case,
    change: &dyn Fn(&mut HostConfig),
) -> Result<Observed, String> {
    let (ended, all) = simulate_changed(experiment, case, 0, change, Everything::default())?;
    Ok(Observed::new(&ended, &all))
}
