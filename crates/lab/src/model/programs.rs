//! The programs of each workload, on their hosts.

use std::net::Ipv4Addr;
use std::rc::Rc;

use sockscope_experiment::{LoadAt, Parameters, Protocol, Topology, Workload};
use sockscope_sim::Program;
use sockscope_sim::programs::{
    Computer, Opening, PrimeLoad, ProbeReader, Setup, StageReceiver, StageSender,
};
use sockscope_stack::Routine;

use super::kernel;
use crate::workload::{
    DatagramWriter, ECHO, EchoClient, EchoServer, EchoTask, Phased, Portmapper, ReadTask,
    SharedLog, StreamReader, StreamWriter, Traced, UrgentWrites, WriteTask,
};

/// The hosts, in the block for documentation (RFC 5737).
pub(super) const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// The server behind a gateway, and both addresses of the gateway.
pub(super) const FAR_SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
pub(super) const GATEWAY: [Ipv4Addr; 2] =
    [Ipv4Addr::new(192, 0, 2, 254), Ipv4Addr::new(198, 51, 100, 254)];

/// When the programs of the second host start, so that it listens when the first one connects.
pub(crate) const SERVER_START_NS: u64 = 100_000_000;

/// When the program of the first host starts.
pub(crate) const CLIENT_START_NS: u64 = 1_000_000_000;

/// The same with load, in seconds: it is started first and the transfer immediately after (§4.4.1 of the
/// SunOS study).
const LOAD_BEFORE_S: u64 = 3;

/// CPU time after which a process that computes counts its work.
const LOAD_SLICE_NS: u64 = 10_000_000;

/// Ports of the programs: TCP of the study of buffers, UDP of the same, discard.
const SEND_PORT: u16 = 4321;
const DATAGRAM_PORT: u16 = 1234;
const DISCARD_PORT: u16 = 9;

/// A program and where and when it starts.
pub(super) struct Started {
    /// Its host's number.
    pub host: usize,
    /// Its program.
    pub program: Box<dyn Program>,
    /// When it starts, in nanoseconds.
    pub start_ns: u64,
    /// Whether it ends by itself, and notes this in the log.
    pub ends: bool,
}

impl Started {
    fn client(program: impl Program + 'static) -> Self {
        Self { host: 0, program: Box::new(program), start_ns: CLIENT_START_NS, ends: true }
    }

    fn server(program: impl Program + 'static) -> Self {
        Self { host: 1, program: Box::new(program), start_ns: SERVER_START_NS, ends: true }
    }

    /// A process of a pipeline's stage; the reader after the stage knows when all is done.
    fn stage(program: impl Program + 'static, start_ns: u64) -> Self {
        Self { host: 1, program: Box::new(program), start_ns, ends: false }
    }
}

/// All programs of a case. Those that end write into `log`.
pub(super) fn programs(
    workload: Workload,
    parameters: &Parameters,
    log: &SharedLog,
) -> Result<Vec<Started>, String> {
    let mut programs = load(parameters);
    programs.extend(probe_readers(parameters));
    programs.extend(match workload {
        Workload::Send => send_programs(parameters, log),
        Workload::Discard => discard_programs(parameters, log),
        Workload::RpcEcho => echo_programs(parameters, log)?,
        Workload::Pipeline => pipeline_programs(parameters, log),
        Workload::Program => {
            return Err("programs of others are no processes of the model".to_owned());
        }
        Workload::AtmSend
        | Workload::AtmEcho
        | Workload::AtmLoss
        | Workload::BusAccess
        | Workload::CacheInterface
        | Workload::VmtpCalls => {
            return Err(format!("`{}` has no processes", workload.name()));
        }
    });
    Ok(programs)
}

/// Whether processes compute next to the programs, without end.
pub(super) fn has_load(parameters: &Parameters) -> bool {
    parameters.load > 0
}

fn load(parameters: &Parameters) -> Vec<Started> {
    let host = usize::from(parameters.load_at == LoadAt::Server);
    let prime = |_| Started {
        host,
        program: Box::new(PrimeLoad::new(LOAD_SLICE_NS)),
        start_ns: 0,
        ends: false,
    };
    (0..parameters.load).map(prime).collect()
}

/// A process on each host that reads the list of its kernel's probes.
fn probe_readers(parameters: &Parameters) -> Vec<Started> {
    let hosts = if parameters.topology == Topology::Loopback { 1 } else { 2 };
    let pauses = parameters.probe_read_ms.into_iter().cycle();
    let reader = |(host, pause_ms): (usize, u64)| Started {
        host,
        program: Box::new(ProbeReader::new(pause_ms * 1_000_000)),
        start_ns: 0,
        ends: false,
    };
    (0..hosts).zip(pauses).map(reader).collect()
}

fn setup(parameters: &Parameters) -> Setup {
    let reserve_bytes = parameters.socket_buffer_bytes.map(saturated);
    let (no_delay, log) = (parameters.nodelay, parameters.so_log);
    Setup { reserve_bytes, no_delay, log, ..Setup::default() }
}

fn saturated(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Address of the second program.
pub(crate) fn server_address(parameters: &Parameters) -> Ipv4Addr {
    match parameters.topology {
        Topology::Loopback => Ipv4Addr::LOCALHOST,
        Topology::Pair => SERVER,
        Topology::Gateway => FAR_SERVER,
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
    let read = parameters.discard_read_bytes() as usize;
    let total = parameters.total_bytes.unwrap_or(0);
    let load_before_ns = parameters.load_before_s.unwrap_or(LOAD_BEFORE_S) * 1_000_000_000;
    let start_ns = if has_load(parameters) { load_before_ns } else { CLIENT_START_NS };
    let mut programs = Vec::new();
    for port in (0..parameters.connections).map(|number| DISCARD_PORT + number) {
        let task = write_task(parameters, port, total, chunk);
        let writer = Traced::new(StreamWriter::new(task, Rc::clone(log)), Rc::clone(log));
        programs.push(reader(parameters, port, read, log));
        programs.push(Started { start_ns, ..Started::client(writer) });
    }
    programs
}

/// The first host writes pieces to the stage and reads the stage's output.
fn pipeline_programs(parameters: &Parameters, log: &SharedLog) -> Vec<Started> {
    let piece = parameters.piece_bytes.unwrap_or(1) as usize;
    let pieces = parameters.pieces.unwrap_or(0);
    let compute_ns = parameters.compute_us.unwrap_or(0) * 1000;
    let setup = Setup { reserve_bytes: setup(parameters).reserve_bytes, ..Setup::default() };
    let [at, to] = [Opening::at(SEND_PORT), Opening::to((CLIENT, DISCARD_PORT))];
    let receiver = StageReceiver::new(at.set_up(setup), piece, pieces, parameters.depth);
    let sender = StageSender::new(to.set_up(setup), piece, pieces);
    let computer = Computer::new(pieces, compute_ns);
    let task = write_task(parameters, SEND_PORT, piece as u64 * pieces, piece);
    let next = reader(parameters, DISCARD_PORT, piece, log);
    vec![
        Started { host: 0, ..next },
        Started::stage(Phased::new(receiver, "read", Rc::clone(log)), SERVER_START_NS),
        Started::stage(Phased::new(computer, "compute", Rc::clone(log)), SERVER_START_NS),
        Started::stage(Phased::new(sender, "write", Rc::clone(log)), 2 * SERVER_START_NS),
        Started::client(StreamWriter::new(task, Rc::clone(log))),
    ]
}

fn write_task(parameters: &Parameters, port: u16, total: u64, chunk: usize) -> WriteTask {
    WriteTask {
        server: (server_address(parameters), port),
        total,
        chunk,
        before_ns: parameters.write_after_us * 1000,
        pause_ns: parameters.write_pause_ms * 1_000_000,
        urgent: urgent_writes(parameters),
        after_ns: parameters.close_after_ms * 1_000_000,
        setup: setup(parameters),
    }
}

/// The writes of `discard` that end with an urgent octet.
fn urgent_writes(parameters: &Parameters) -> Option<UrgentWrites> {
    let (chunk, total) = (parameters.write_bytes?, parameters.total_bytes?);
    Some(UrgentWrites { every: parameters.urgent_every?, chunk, total })
}

fn reader(parameters: &Parameters, port: u16, chunk: usize, log: &SharedLog) -> Started {
    // TCP_NODELAY and SO_LOG are the sender's.
    let own = setup(parameters);
    let buffer = parameters.receiver_buffer_bytes.map(saturated).or(own.reserve_bytes);
    let setup = Setup { reserve_bytes: buffer, ..Setup::default() };
    let task = ReadTask {
        port,
        chunk,
        before_ns: parameters.read_after_us * 1000,
        pause_ns: parameters.read_pause_ms * 1_000_000,
        urgent: urgent_writes(parameters),
        after_ns: parameters.reader_close_us * 1000,
        setup,
    };
    Started::server(StreamReader::new(task, Rc::clone(log)))
}

fn echo_programs(parameters: &Parameters, log: &SharedLog) -> Result<Vec<Started>, String> {
    let address = server_address(parameters);
    let task = EchoTask {
        server: (address, ECHO.port as u16),
        portmapper: parameters.portmap.then_some((address, sockscope_oncrpc::PORT)),
        calls: parameters.calls.unwrap_or(0),
        data: parameters.data_bytes.unwrap_or(0) as usize,
        buffer: parameters.rpc_buffer_bytes as usize,
        // Converting a string copies it once.
        convert_ps: kernel::machine(parameters)?.costs.of(Routine::Copyin).byte_ps.into(),
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
