//! One repetition of one case on the model, from its first program to its end.

use sockscope_experiment::measurement::{Measure, Measurement};
use sockscope_experiment::{Case, Experiment, Parameters, Protocol, Topology, Workload};
use sockscope_record::{Connection, PointCost};
use sockscope_sim::{Capture, HostConfig, Outcome, RecordSink, Simulation};
use sockscope_stack::{Meter, ProbeWork, Routine};

use super::kernel;
use super::programs::{Started, has_load, programs};
use super::scenario::{GATEWAY_HOST, scenario};
use crate::workload::{Log, SharedLog};

const SECOND_NS: u64 = 1_000_000_000;

/// Virtual time after which a run that has not ended is taken for stuck.
const LIMIT_NS: u64 = 100_000 * SECOND_NS;

/// The same with load, which keeps CPUs busy without end: less than the longest pause of a program.
const LOADED_LIMIT_NS: u64 = 3_000 * SECOND_NS;

/// The interval of checks whether all programs except load have ended.
const STEP_NS: u64 = 100_000_000;

/// Time for the last packets of a connection, after that.
const LINGER_NS: u64 = 1_000_000_000;

/// A run that ended.
pub(super) struct Ended {
    /// The measurements of the programs and of the first host's meter.
    pub measured: Measurement,
    /// What a gateway between the hosts counted.
    pub gateway: Vec<Measure>,
    /// What a host on the cable captured.
    pub capture: Option<Capture>,
    /// What the probes of the hosts' kernels did and took.
    pub probes: Vec<Measure>,
    /// The same by point.
    pub probe_costs: [PointCost; 8],
    /// The connections recorded.
    pub connections: Vec<Connection>,
    /// Names of the processes, by number.
    pub processes: Vec<String>,
    /// Octets of received frames that the last host's driver copied.
    pub copied_in_bytes: u64,
    /// When a program wrote first.
    pub first_write_ns: u64,
    /// The cost of copying an octet to a program's memory, in picoseconds.
    pub copy_byte_ps: u32,
}

/// Runs one repetition with its records to `sink`.
///
/// # Errors
///
/// When the machine or the personality is not known, the scenario is refused, a program gives up,
/// data arrive damaged, or the run does not end.
pub(super) fn simulate<S: RecordSink>(
    experiment: &Experiment,
    case: &Case,
    repetition: u32,
    sink: S,
) -> Result<(Ended, S), String> {
    simulate_changed(experiment, case, repetition, &|_| {}, sink)
}

/// The same with hosts that `change` has altered.
///
/// # Errors
///
/// As [`simulate`].
pub(super) fn simulate_changed<S: RecordSink>(
    experiment: &Experiment,
    case: &Case,
    repetition: u32,
    change: &dyn Fn(&mut HostConfig),
    sink: S,
) -> Result<(Ended, S), String> {
    let played = play(experiment, case, repetition, change, sink)?;
    let ended = played.ended(experiment.workload, &case.parameters)?;
    Ok((ended, played.sim.into_sink()))
}

/// Hosts on which the programs have run, and what these logged.
pub(super) struct Played<S: RecordSink> {
    /// The hosts.
    pub sim: Simulation<S>,
    log: SharedLog,
    started: u32,
    expected_ends: u32,
    outcome: Outcome,
}

/// Runs the programs of a case.
///
/// # Errors
///
/// When the machine or the personality is not known, the scenario is refused, or data arrive damaged.
pub(super) fn play<S: RecordSink>(
    experiment: &Experiment,
    case: &Case,
    repetition: u32,
    change: &dyn Fn(&mut HostConfig),
    sink: S,
) -> Result<Played<S>, String> {
    let parameters = &case.parameters;
    let mut scenario = scenario(parameters, experiment.seed.wrapping_add(repetition.into()))?;
    scenario.hosts.iter_mut().for_each(change);
    let log = SharedLog::default();
    let mut sim = Simulation::new(scenario, sink).map_err(|error| error.to_string())?;
    let programs = programs(experiment.workload, parameters, &log)?;
    let started = programs.len() as u32;
    let mut expected_ends = 0;
    for Started { host, program, start_ns, ends } in programs {
        expected_ends += u32::from(ends);
        let host = if parameters.topology == Topology::Loopback { 0 } else { host };
        if ends {
            sim.spawn(host, program, start_ns);
        } else {
            sim.spawn_daemon(host, program, start_ns);
        }
    }
    let outcome = run_programs(&mut sim, has_load(parameters), &log, expected_ends);
    if !sim.damage().is_empty() {
        return Err(format!("data arrived damaged: {:?}", sim.damage()));
    }
    Ok(Played { sim, log, started, expected_ends, outcome })
}

impl<S: RecordSink> Played<S> {
    /// What the run gave.
    ///
    /// # Errors
    ///
    /// When a program gave up, or the run did not end.
    fn ended(&self, workload: Workload, parameters: &Parameters) -> Result<Ended, String> {
        let Self { sim, log, started, expected_ends, outcome } = self;
        let (started, expected_ends, outcome) = (*started, *expected_ends, *outcome);
        let measured = {
            let log = log.borrow();
            let hint = parameters.faults().hint() + &load_hint(parameters);
            if let Some(failure) = &log.failure {
                return Err(format!("{failure}{hint}"));
            }
            if log.ended < expected_ends {
                let why = not_ended(outcome, log.ended, expected_ends, has_load(parameters));
                return Err(format!("{why}{hint}"));
            }
            measured(&log, sim.host(0).meter(), workload, parameters)
        };
        let connections = sim.connections().to_vec();
        let processes = (0..started).map(|number| sim.process_name(number).to_owned()).collect();
        let last = usize::from(parameters.topology != Topology::Loopback);
        let gateway = (parameters.topology == Topology::Gateway).then(|| gateway_measures(sim));
        let probes = probe_measures(sim, last);
        let copied_in_bytes = sim.host(last).meter().work(Routine::IfRubaget).bytes;
        let copy_byte_ps = kernel::machine(parameters)?.costs.of(Routine::Copyout).byte_ps;
        let first_write_ns = log.borrow().first_write_ns.unwrap_or(0);
        Ok(Ended {
            measured,
            gateway: gateway.unwrap_or_default(),
            probes,
            probe_costs: probe_costs(sim, last),
            capture: sim.capture(0).cloned(),
            connections,
            processes,
            copied_in_bytes,
            first_write_ns,
            copy_byte_ps,
        })
    }
}

/// Packets that a gateway sent on and those that it dropped for lack of room; and its longest queue to each network.
fn gateway_measures<S: RecordSink>(sim: &Simulation<S>) -> Vec<Measure> {
    let stack = sim.host(GATEWAY_HOST).stack();
    let queue_max = |number| {
        stack.interface(number).map_or(f64::NAN, |interface| interface.counts.queue_max as f64)
    };
    vec![
        Measure::new("gateway_forwarded", stack.ip_counts.forwarded as f64),
        Measure::new("gateway_dropped", stack.ip_counts.not_forwarded as f64),
        Measure::new("gateway_to_server_queue_max", queue_max(1)),
        Measure::new("gateway_to_client_queue_max", queue_max(0)),
    ]
}

/// Packets and calls that passed the probes of the programs' hosts, up to the host with number `last`, those logged and
/// those lost; and CPU time by the three kinds of overhead of the SunOS study.
fn probe_measures<S: RecordSink>(sim: &Simulation<S>, last: usize) -> Vec<Measure> {
    let hosts = || (0..=last).map(|number| sim.host(number));
    let sum = |of: fn(&ProbeWork) -> u64| {
        hosts().map(|host| of(&host.meter().probe_work())).sum::<u64>() as f64
    };
    let lost = hosts().map(|host| host.probes_lost().total()).sum::<u64>();
    vec![
        Measure::new("probe_passages", sum(|work| work.tests)),
        Measure::new("probe_records", sum(|work| work.stored)),
        Measure::new("probe_records_lost", lost as f64),
        Measure::new("probe_activation_us", sum(|work| work.test_ns) / 1e3),
        Measure::new("probe_execution_us", sum(|work| work.execution_ns) / 1e3),
        Measure::new("probe_storing_us", sum(|work| work.store_ns) / 1e3),
    ]
}

/// Passages through the probes of the same hosts, and their CPU time, by point.
fn probe_costs<S: RecordSink>(sim: &Simulation<S>, last: usize) -> [PointCost; 8] {
    let mut sums = [PointCost::default(); 8];
    for host in (0..=last).map(|number| sim.host(number)) {
        for (sum, cost) in sums.iter_mut().zip(host.meter().probe_work().points) {
            sum.hits += cost.hits;
            sum.run_ns += cost.run_ns;
        }
    }
    sums
}

/// What to do about an error that load may have caused: a program that does not get the CPU does not listen.
fn load_hint(parameters: &Parameters) -> String {
    match parameters.load {
        0 => String::new(),
        load => {
            format!("; beside `load` {load} a program may not get the CPU in time: set less of it")
        }
    }
}

/// Why a run that has not ended was given up.
fn not_ended(outcome: Outcome, ended: u32, of: u32, is_loaded: bool) -> String {
    let limit_ns = if is_loaded { LOADED_LIMIT_NS } else { LIMIT_NS };
    let why = match outcome {
        Outcome::TimeIsUp => format!("no end after {} s of the model's time", limit_ns / SECOND_NS),
        other => format!("no end: {other:?}"),
    };
    let are = if of == 1 { "program is" } else { "programs are" };
    format!("{why}; {ended} of {of} {are} done")
}

/// Runs until all programs have ended. Load never ends: with it, until all others have ended.
fn run_programs<S: RecordSink>(
    sim: &mut Simulation<S>,
    has_load: bool,
    log: &SharedLog,
    expected_ends: u32,
) -> Outcome {
    if !has_load {
        return sim.run_to_end(LIMIT_NS);
    }
    let mut until_ns = 0;
    while until_ns < LOADED_LIMIT_NS
        && log.borrow().ended < expected_ends
        && log.borrow().failure.is_none()
    {
        until_ns += STEP_NS;
        let outcome = sim.run_until(until_ns);
        if !matches!(outcome, Outcome::TimeIsUp | Outcome::Ended) {
            return outcome;
        }
    }
    sim.run_until(until_ns + LINGER_NS)
}

/// Whether no program reads what is sent.
pub(super) fn is_unread(workload: Workload, parameters: &Parameters) -> bool {
    workload == Workload::Send && parameters.protocol == Protocol::Udp
}

/// Urgent octets that the reader had by themselves, and those that the next one replaced.
fn urgent_measures(log: &Log, parameters: &Parameters) -> Vec<Measure> {
    if parameters.urgent_every.is_none() {
        return Vec::new();
    }
    let total = parameters.total_bytes.unwrap_or(0) * u64::from(parameters.connections);
    let replaced = total.saturating_sub(log.bytes);
    [("urgent_octets_read", log.urgent), ("urgent_octets_replaced", replaced)]
        .map(|(name, value)| Measure::new(name, value as f64))
        .to_vec()
}

/// The results of the log and the meter of the first host.
fn measured(log: &Log, meter: &Meter, workload: Workload, parameters: &Parameters) -> Measurement {
    let routines = Routine::ALL.iter();
    let calls = routines.clone().map(|routine| (routine.name(), meter.calls(*routine)));
    let times = routines.map(|routine| (routine.name(), meter.charged_ns(*routine)));
    // Datagrams that no program reads are over when the last one is sent.
    let end_ns = if is_unread(workload, parameters) { log.last_write_ns } else { log.last_read_ns };
    Measurement {
        calls: calls.collect(),
        routine_ns: times.collect(),
        call_ns: log.call_ns.iter().copied().collect(),
        copied_bytes: meter.work(Routine::MCopy).bytes,
        bytes: log.bytes,
        transfer_ns: log.first_write_ns.map_or(0, |first_ns| end_ns.saturating_sub(first_ns)),
        system_calls: log.system_calls.clone(),
        phases: log.phases.clone(),
        measures: urgent_measures(log, parameters),
        ..Measurement::default()
    }
}
