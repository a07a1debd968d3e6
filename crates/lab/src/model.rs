//! One repetition of one case, as a scenario of the model: hosts, link, programs, and what to keep.

use std::net::Ipv4Addr;
use std::rc::Rc;

use sockscope_record::{Connection, Kind, Record, marks, tcp_flags};
use sockscope_sim::{
    HostConfig, LinkConfig, LogPolicy, Machine, Program, RecordSink, Scenario, Simulation,
};
use sockscope_stack::personality::{SendFill, SendWait};
use sockscope_stack::tcp::{ShortSegments, WindowUpdate};
use sockscope_stack::{Meter, Personality, Routine};

use crate::error::{Error, Result};
use crate::experiment::{
    Case, Experiment, Keep, LinkKind, Parameters, Protocol, SendRule, Topology, Workload,
};
use crate::result::Seen;
use crate::wire;
use crate::workload::{
    DatagramWriter, ECHO, EchoClient, EchoServer, EchoTask, Log, Portmapper, SharedLog,
    SocketSetup, StreamReader, StreamWriter, Traced, WriteTask,
};

/// When the programs of the second host start, so that it listens when the first one connects.
const SERVER_START_NS: u64 = 100_000_000;

/// When the program of the first host starts.
const CLIENT_START_NS: u64 = 1_000_000_000;

/// Virtual time after which a run that has not ended is taken for stuck.
const LIMIT_NS: u64 = 100_000 * 1_000_000_000;

/// Period of the fast timer of every personality.
const FAST_TIMER_NS: u64 = 200_000_000;

/// Ports of the programs: TCP of the study of buffers, UDP of the same, discard.
const SEND_PORT: u16 = 4321;
const DATAGRAM_PORT: u16 = 1234;
const DISCARD_PORT: u16 = 9;

const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

/// A line at the rate and with the packets of the experimental Ethernet.
const LINE_BITS_PER_S: u64 = 2_940_000;
const LINE_MTU: u32 = 1536;

/// Size of an mbuf cluster.
const CLUSTER_BYTES: u32 = 1024;

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
    let needs_records = [Keep::Packets, Keep::Wire].iter().any(|what| experiment.keeps(*what));
    let keeps_rows = experiment.keeps(Keep::Wire) && repetition == 0;
    let watch = Watch { is_wanted: needs_records, keeps_rows, ..Watch::default() };
    let (ended, watch) = simulate(experiment, case, repetition, watch).map_err(refuse)?;
    let mut seen = ended.seen;
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

/// A run that came to its end.
struct Ended {
    seen: Seen,
    connections: Vec<Connection>,
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
    let outcome = sim.run_to_end(LIMIT_NS);
    let seen = {
        let log = log.borrow();
        if let Some(failure) = &log.failure {
            return Err(failure.clone());
        }
        if log.ended < expected_ends {
            return Err(format!("{} of {expected_ends} programs ended: {outcome:?}", log.ended));
        }
        seen(&log, sim.host(0).meter(), experiment.workload, parameters)
    };
    let connections = sim.connections().to_vec();
    Ok((Ended { seen, connections }, sim.into_sink()))
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
        ..Seen::default()
    }
}

fn scenario(parameters: &Parameters, seed: u64) -> std::result::Result<Scenario, String> {
    let machine = machine(parameters)?;
    let personality = personality(parameters)?;
    let host = |name: &str, address, timer_ms: Option<u64>| {
        let mut host = HostConfig::new(name, personality.clone(), machine.clone());
        host.stack.answers_unreachable = true;
        let timer_ns = timer_ms.map(|ms| (CLIENT_START_NS + ms * 1_000_000) % FAST_TIMER_NS);
        host.timer_phase_ns = timer_ns;
        match (parameters.topology, parameters.link) {
            (Topology::Loopback, _) => host.with_loopback(),
            (Topology::Pair, LinkKind::Ethernet3) => host.with_ethernet3(address, 0),
            (Topology::Pair, LinkKind::Ethernet10) => host.with_ethernet10(address, 0),
            (Topology::Pair, LinkKind::Line3) => host.with_line(address, LINE_MTU, 0),
        }
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
    Ok(Scenario { seed, hosts, links, log: LogPolicy::All })
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

fn machine(parameters: &Parameters) -> std::result::Result<Machine, String> {
    let name = &parameters.machine;
    Machine::by_name(name).ok_or_else(|| format!("no machine `{name}`"))
}

/// The personality with the switches of the experiment.
fn personality(parameters: &Parameters) -> std::result::Result<Personality, String> {
    let name = &parameters.personality;
    let found = Personality::by_name(name);
    let mut personality = found.ok_or_else(|| format!("no personality `{name}`"))?;
    let socket = &mut personality.socket;
    match parameters.send_rule {
        SendRule::Personality => {}
        SendRule::Fill => (socket.wait, socket.fill) = (SendWait::NoSpace, SendFill::Staged),
        SendRule::Old => socket.wait = SendWait::Aligned,
        SendRule::LowWater => {
            socket.wait = SendWait::LowWater;
            let mark = parameters.low_water_bytes.unwrap_or(0);
            socket.buffers.send_lowat = u32::try_from(mark).unwrap_or(u32::MAX);
        }
        SendRule::Cluster => {
            socket.wait = SendWait::LowWater;
            // More than a cluster must be free.
            socket.buffers.send_lowat = CLUSTER_BYTES + 1;
        }
    }
    if let Some(nagle) = parameters.nagle {
        let held = ShortSegments::Nagle { escape_bytes: None };
        personality.tcp.short_segments = if nagle { held } else { ShortSegments::Quarter };
    }
    if let Some(two_when_empty) = parameters.ack_when_empty {
        personality.tcp.window_update = WindowUpdate::Share { two_when_empty };
    }
    if let Some(caches_route) = parameters.udp_route_cache {
        personality.udp.caches_route = caches_route;
    }
    Ok(personality)
}

/// A program and where and when it starts.
struct Started {
    host: usize,
    program: Box<dyn Program>,
    start_ns: u64,
    /// Whether it comes to an end by itself.
    ends: bool,
}

impl Started {
    fn client(program: impl Program + 'static) -> Self {
        Self { host: 0, program: Box::new(program), start_ns: CLIENT_START_NS, ends: true }
    }

    fn server(program: impl Program + 'static) -> Self {
        Self { host: 1, program: Box::new(program), start_ns: SERVER_START_NS, ends: true }
    }
}

fn programs(
    workload: Workload,
    parameters: &Parameters,
    log: &SharedLog,
) -> std::result::Result<Vec<Started>, String> {
    match workload {
        Workload::Send => Ok(send_programs(parameters, log)),
        Workload::Discard => Ok(discard_programs(parameters, log)),
        Workload::RpcEcho => echo_programs(parameters, log),
    }
}

fn setup(parameters: &Parameters) -> SocketSetup {
    let buffer = parameters.socket_buffer_bytes;
    let buffer = buffer.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
    SocketSetup { buffer, nodelay: parameters.nodelay }
}

/// Address of the second program.
fn server_address(parameters: &Parameters) -> Ipv4Addr {
    match parameters.topology {
        Topology::Loopback => Ipv4Addr::LOCALHOST,
        Topology::Pair => SERVER,
    }
}

fn send_programs(parameters: &Parameters, log: &SharedLog) -> Vec<Started> {
    let chunk = parameters.message_bytes.unwrap_or(1) as usize;
    let total = chunk as u64 * parameters.messages.unwrap_or(0);
    let is_udp = parameters.protocol == Protocol::Udp;
    let port = if is_udp { DATAGRAM_PORT } else { SEND_PORT };
    let task = write_task(parameters, port, total, chunk);
    if is_udp {
        return vec![Started::client(DatagramWriter::new(task, Rc::clone(log)))];
    }
    // The buffer of the test programs (appendix A of the paper).
    let read = parameters.read_bytes.unwrap_or(1025) as usize;
    vec![
        reader(parameters, port, read, log),
        Started::client(StreamWriter::new(task, Rc::clone(log))),
    ]
}

fn discard_programs(parameters: &Parameters, log: &SharedLog) -> Vec<Started> {
    let chunk = parameters.write_bytes.unwrap_or(1) as usize;
    let task = write_task(parameters, DISCARD_PORT, parameters.total_bytes.unwrap_or(0), chunk);
    let read = parameters.read_bytes.map_or(chunk, |bytes| bytes as usize);
    let writer = Traced::new(StreamWriter::new(task, Rc::clone(log)), Rc::clone(log));
    vec![reader(parameters, DISCARD_PORT, read, log), Started::client(writer)]
}

fn write_task(parameters: &Parameters, port: u16, total: u64, chunk: usize) -> WriteTask {
    WriteTask {
        server: (server_address(parameters), port),
        total,
        chunk,
        before_ns: parameters.write_after_us * 1000,
        after_ns: parameters.close_after_ms * 1_000_000,
        setup: setup(parameters),
    }
}

fn reader(parameters: &Parameters, port: u16, chunk: usize, log: &SharedLog) -> Started {
    // TCP_NODELAY is the sender's.
    let setup = SocketSetup { nodelay: false, ..setup(parameters) };
    let times_ns = (parameters.read_after_us * 1000, parameters.reader_close_us * 1000);
    Started::server(StreamReader::new(port, chunk, times_ns, setup, Rc::clone(log)))
}

fn echo_programs(
    parameters: &Parameters,
    log: &SharedLog,
) -> std::result::Result<Vec<Started>, String> {
    let address = server_address(parameters);
    let task = EchoTask {
        server: (address, ECHO.port as u16),
        portmapper: parameters.portmap.then_some((address, crate::rpc::PORT)),
        calls: parameters.calls.unwrap_or(0),
        data: parameters.data_bytes.unwrap_or(0) as usize,
        buffer: parameters.rpc_buffer_bytes as usize,
        // Converting a string copies it once.
        convert_ps: machine(parameters)?.costs.of(Routine::Copyin).byte_ps.into(),
        read_delay_ns: parameters.read_delay_us * 1000,
        setup: setup(parameters),
        after_ns: parameters.close_after_ms * 1_000_000,
    };
    let mut programs = vec![Started::server(EchoServer::new(&task, Rc::clone(log)))];
    if parameters.portmap {
        let portmapper = Started::server(Portmapper::new(ECHO, Rc::clone(log)));
        programs.push(Started { ends: false, ..portmapper });
    }
    let client = Traced::new(EchoClient::new(task, Rc::clone(log)), Rc::clone(log));
    programs.push(Started::client(client));
    Ok(programs)
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
    }

    fn is_wanted(&self) -> bool {
        self.is_wanted
    }
}
