//! One repetition of one case, as a scenario of the model: hosts, link, programs, and what to keep.

mod kernel;
mod programs;

use std::net::Ipv4Addr;

use sockscope_record::{Connection, Kind, Record, marks, tcp_flags};
use sockscope_sim::{
    Activity, Everything, HostConfig, LinkConfig, LogPolicy, Outcome, RecordSink, Scenario,
    Simulation,
};
use sockscope_stack::{Meter, Routine};

pub(crate) use self::kernel::without_path;
use self::programs::{CLIENT_START_NS, Started, has_load, programs};
use crate::error::{Error, Result};
use crate::experiment::{
    Case, Experiment, Keep, LinkKind, Parameters, Protocol, SchedulerKind, Topology, Workload,
};
use crate::seen::Seen;
use crate::sunos::Observed;
use crate::wire;
use crate::workload::{Log, SharedLog};

const SECOND_NS: u64 = 1_000_000_000;

/// Virtual time after which a run that has not ended is taken for stuck.
const LIMIT_NS: u64 = 100_000 * SECOND_NS;

/// The same beside load, which keeps CPUs busy without end: less than the longest pause of a program.
const LOADED_LIMIT_NS: u64 = 3_000 * SECOND_NS;

/// How often it is looked whether all programs beside load have ended.
const STEP_NS: u64 = 100_000_000;

/// Time for the last packets of a connection, after that.
const LINGER_NS: u64 = 1_000_000_000;

/// Period of the fast timer of every personality.
const FAST_TIMER_NS: u64 = 200_000_000;

const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

/// A line at the rate and with the packets of the experimental Ethernet.
const LINE_BITS_PER_S: u64 = 2_940_000;
const LINE_MTU: u32 = 1536;

/// Runs one repetition of `case`.
///
/// # Errors
///
/// When the machine or the personality is not known, the scenario is refused, a program gives up,
/// data arrive damaged, or the run does not end.
pub(crate) fn run(experiment: &Experiment, case: &Case, repetition: u32) -> Result<Seen> {
    let refuse = |problem: String| Error::Run {
        experiment: experiment.id.clone(),
        case: case.words(),
        problem,
    };
    let what = [Keep::Packets, Keep::Wire, Keep::Measures];
    let needs_records = what.iter().any(|what| experiment.keeps(*what));
    let keeps_rows = experiment.keeps(Keep::Wire) && repetition == 0;
    let all = experiment.keeps(Keep::Measures).then(Everything::default);
    let watch = Watch { is_wanted: needs_records, keeps_rows, all, ..Watch::default() };
    let (ended, watch) = simulate(experiment, case, repetition, watch).map_err(refuse)?;
    let mut seen = ended.seen.clone();
    if let Some(all) = &watch.all {
        seen.measures = ended.observed(all).measures();
    }
    (seen.segments, seen.acks, seen.retransmitted) = (watch.segments, watch.acks, watch.again);
    if keeps_rows {
        seen.wire = wire::rows(&watch.records, &ended.connections, CLIENT_START_NS);
    }
    Ok(seen)
}

/// Runs the first repetition of `case` with every record to `sink`; gives the connections that the
/// records speak of.
///
/// # Errors
///
/// As [`run`].
pub(crate) fn record<S: RecordSink>(
    experiment: &Experiment,
    case: &Case,
    sink: S,
) -> Result<(Vec<Connection>, S)> {
    let ended = simulate(experiment, case, 0, sink);
    let refuse = |problem: String| Error::Run {
        experiment: experiment.id.clone(),
        case: case.words(),
        problem,
    };
    ended.map(|(ended, sink)| (ended.connections, sink)).map_err(refuse)
}

/// Runs the first repetition of `case` and keeps every record.
///
/// # Errors
///
/// As [`run`].
pub(crate) fn observe(
    experiment: &Experiment,
    case: &Case,
) -> std::result::Result<Observed, String> {
    let (ended, all) = simulate(experiment, case, 0, Everything::default())?;
    Ok(ended.observed(&all))
}

/// A run that came to its end.
pub(crate) struct Ended {
    /// What the programs and the first host's meter saw.
    pub seen: Seen,
    /// The connections recorded.
    pub connections: Vec<Connection>,
    /// Names of the processes, by number.
    pub processes: Vec<String>,
    /// What the last host's driver copied of frames that came in, in octets.
    pub copied_in_bytes: u64,
    /// What copying an octet to a program's memory costs, in picoseconds.
    pub copy_byte_ps: u32,
}

impl Ended {
    /// What the records of the run show.
    fn observed(&self, all: &Everything) -> Observed {
        Observed::new(self, all)
    }
}

fn simulate<S: RecordSink>(
    experiment: &Experiment,
    case: &Case,
    repetition: u32,
    sink: S,
) -> std::result::Result<(Ended, S), String> {
    let parameters = &case.parameters;
    let scenario = scenario(parameters, experiment.seed.wrapping_add(repetition.into()))?;
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
    let seen = {
        let log = log.borrow();
        if let Some(failure) = &log.failure {
            return Err(failure.clone());
        }
        if log.ended < expected_ends {
            return Err(not_ended(outcome, log.ended, expected_ends, has_load(parameters)));
        }
        seen(&log, sim.host(0).meter(), experiment.workload, parameters)
    };
    let connections = sim.connections().to_vec();
    let processes = (0..started).map(|number| sim.process_name(number).to_owned()).collect();
    let last = usize::from(parameters.topology == Topology::Pair);
    let copied_in_bytes = sim.host(last).meter().work(Routine::IfRubaget).bytes;
    let copy_byte_ps = kernel::machine(parameters)?.costs.of(Routine::Copyout).byte_ps;
    let ended = Ended { seen, connections, processes, copied_in_bytes, copy_byte_ps };
    Ok((ended, sim.into_sink()))
}

/// Why a run that has not ended was given up.
fn not_ended(outcome: Outcome, ended: u32, of: u32, is_loaded: bool) -> String {
    let limit_ns = if is_loaded { LOADED_LIMIT_NS } else { LIMIT_NS };
    let why = match outcome {
        Outcome::TimeIsUp => format!("no end after {} s of the model's time", limit_ns / SECOND_NS),
        other => format!("no end: {other:?}"),
    };
    format!("{why}; {ended} of {of} programs are done")
}

/// Runs until all is over. Load never is: beside it, until all programs that end have said so.
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

/// What the log and the meter of the first host say.
fn seen(log: &Log, meter: &Meter, workload: Workload, parameters: &Parameters) -> Seen {
    let routines = Routine::ALL.iter();
    let calls = routines.clone().map(|routine| (routine.name(), meter.calls(*routine)));
    let times = routines.map(|routine| (routine.name(), meter.charged_ns(*routine)));
    // Datagrams nobody reads are over when the last one is sent.
    let is_unread = workload == Workload::Send && parameters.protocol == Protocol::Udp;
    let end_ns = if is_unread { log.last_write_ns } else { log.last_read_ns };
    Seen {
        calls: calls.collect(),
        routine_ns: times.collect(),
        call_ns: log.call_ns.iter().copied().collect(),
        copied_bytes: meter.work(Routine::MCopy).bytes,
        bytes: log.bytes,
        transfer_ns: log.first_write_ns.map_or(0, |first_ns| end_ns.saturating_sub(first_ns)),
        system_calls: log.system_calls.clone(),
        phases: log.phases.clone(),
        ..Seen::default()
    }
}

fn scenario(parameters: &Parameters, seed: u64) -> std::result::Result<Scenario, String> {
    let machine = kernel::machine(parameters)?;
    let personality = kernel::personality(parameters)?;
    let host = |name: &str, address, timer_ms: Option<u64>| {
        let mut host = HostConfig::new(name, personality.clone(), machine.clone());
        host.stack.answers_unreachable = parameters.udp_answers.unwrap_or(true);
        let timer_ns = timer_ms.map(|ms| (CLIENT_START_NS + ms * 1_000_000) % FAST_TIMER_NS);
        host.timer_phase_ns = timer_ns;
        host.stack.segment_bytes_max = parameters.segment_bytes;
        host.has_probes = parameters.probing;
        host.is_round_robin = parameters.scheduler == SchedulerKind::RoundRobin;
        let mut host = match (parameters.topology, parameters.link) {
            (Topology::Loopback, _) => host.with_loopback(),
            (Topology::Pair, LinkKind::Ethernet3) => host.with_ethernet3(address, 0),
            (Topology::Pair, LinkKind::Ethernet10) => host.with_ethernet10(address, 0),
            (Topology::Pair, LinkKind::Line3) => host.with_line(address, LINE_MTU, 0),
        };
        if let Some(packets) = parameters.interface_queue_packets {
            for interface in &mut host.stack.interfaces {
                interface.queue_packets_max = packets as usize;
            }
        }
        host
    };
    // Only the sender is profiled: the paper looked at it alone.
    let client = HostConfig {
        is_profiled: parameters.profiling,
        ..host("client", CLIENT, parameters.client_timer_ms)
    };
    let (hosts, links) = match parameters.topology {
        Topology::Loopback => (vec![client], Vec::new()),
        Topology::Pair => {
            let server = host("server", SERVER, parameters.server_timer_ms);
            (vec![client, server], vec![link(parameters)])
        }
    };
    let log = if parameters.so_log { LogPolicy::OnRequest } else { LogPolicy::All };
    Ok(Scenario { seed, hosts, links, log })
}

fn link(parameters: &Parameters) -> LinkConfig {
    match parameters.link {
        LinkKind::Ethernet3 => LinkConfig::ethernet3(),
        LinkKind::Ethernet10 => LinkConfig::ethernet10(),
        LinkKind::Line3 => {
            LinkConfig::point_to_point(LINE_BITS_PER_S, parameters.link_delay_us * 1000)
        }
    }
}

/// Counts packets and keeps those that a wire trace shows.
#[derive(Debug, Default)]
struct Watch {
    is_wanted: bool,
    keeps_rows: bool,
    segments: u64,
    acks: u64,
    again: u64,
    records: Vec<Record>,
    all: Option<Everything>,
}

impl RecordSink for Watch {
    fn record(&mut self, record: &Record) {
        if record.kind == Kind::InterfaceEnqueue {
            const NUMBERED: u8 = tcp_flags::SYN | tcp_flags::FIN | tcp_flags::RST;
            let is_ack = record.len == 0 && record.tcp_flags & NUMBERED == 0;
            self.segments += u64::from(record.len > 0);
            self.acks += u64::from(is_ack);
            self.again += u64::from(record.is_marked(marks::RETRANSMITTED));
        }
        if self.keeps_rows && record.kind == Kind::InputEnqueue {
            self.records.push(*record);
        }
        if let Some(all) = &mut self.all {
            all.record(record);
        }
    }

    fn activity(&mut self, activity: Activity) {
        if let Some(all) = &mut self.all {
            all.activity(activity);
        }
    }

    fn is_wanted(&self) -> bool {
        self.is_wanted
    }
}
