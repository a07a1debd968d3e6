//! What is sent, between which machines, beside what load.

use std::net::Ipv4Addr;

use sockscope_sim::programs::{BulkWriter, Pace, PrimeLoad, Setup, Sink};
use sockscope_sim::{
    Everything, HostConfig, LinkConfig, LogPolicy, Machine, Outcome, Scenario, Simulation,
};
use sockscope_stack::{Endpoint, Personality};

use super::Observed;

const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const PORT: u16 = 5001;
/// When the server starts, so that it listens when the client connects.
const SERVER_START_NS: u64 = 10_000_000;
/// When load starts: before the transfer (§4.4.1).
const LOAD_START_NS: u64 = 0;
/// When the client starts: load has run long enough for its priority to have settled.
const CLIENT_START_NS: u64 = 3_000_000_000;
/// Virtual time after which a run that has not ended is taken for stuck.
const LIMIT_NS: u64 = 3_000 * 1_000_000_000;
/// How often it is looked whether a transfer has ended.
const STEP_NS: u64 = 100_000_000;
/// Time for the last packets of a connection, after that.
const LINGER_NS: u64 = 1_000_000_000;
/// CPU time after which a process of the load counts its work.
const LOAD_SLICE_NS: u64 = 10_000_000;
/// Data of a packet in the study.
const SEGMENT_BYTES: u32 = 1024;
/// Room on the program's side for one read.
const READ_BYTES: usize = 52_428;

/// Where the two programs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topology {
    /// On one host.
    Loopback,
    /// On two hosts of a 10 Mbit/s Ethernet.
    Ethernet,
}

/// Processes that compute, on each host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Load {
    /// Beside the sender.
    pub client: usize,
    /// Beside the receiver.
    pub server: usize,
}

/// One transfer.
#[derive(Debug, Clone)]
pub(crate) struct Transfer {
    /// Both hosts' machine.
    pub machine: Machine,
    /// Both hosts' stack.
    pub personality: Personality,
    /// Where the programs are.
    pub topology: Topology,
    /// Bytes of a write.
    pub write_bytes: usize,
    /// How many writes.
    pub writes: u64,
    /// Between writes.
    pub pace: Pace,
    /// Between reads.
    pub read_pace: Pace,
    /// Socket buffers of both ends; `None` leaves the default of 4,096.
    pub buffer_bytes: Option<u32>,
    /// The same without the checks of `setsockopt`, for a kernel built so.
    pub reserve_bytes: Option<u32>,
    /// `TCP_NODELAY` at the sender.
    pub no_delay: bool,
    /// Load.
    pub load: Load,
    /// Connections at once, each with its own programs.
    pub connections: u16,
    /// Decides the phase of the timers.
    pub seed: u64,
}

impl Transfer {
    /// 256 KB in one write between two SPARCstation 1 on an Ethernet, with the largest buffers (§4.2).
    ///
    /// # Errors
    ///
    /// When the program lacks the machine or the personality.
    pub(crate) fn sparcstations() -> Result<Self, String> {
        let machine = Machine::by_name("sparcstation-1").ok_or("no machine `sparcstation-1`")?;
        let personality =
            Personality::by_name("sunos-4.0.3").ok_or("no personality `sunos-4.0.3`")?;
        Ok(Self {
            machine,
            personality,
            topology: Topology::Ethernet,
            write_bytes: 256 << 10,
            writes: 1,
            pace: Pace::Fast,
            read_pace: Pace::Fast,
            buffer_bytes: Some(52_428),
            reserve_bytes: None,
            no_delay: false,
            load: Load::default(),
            connections: 1,
            seed: 1,
        })
    }

    /// The same with so many bytes in one write.
    pub(crate) fn of_bytes(self, bytes: usize) -> Self {
        Self { write_bytes: bytes, writes: 1, ..self }
    }

    /// Runs it to its end.
    ///
    /// # Errors
    ///
    /// When the scenario is refused, the run does not end, or data arrive damaged or not at all.
    pub(crate) fn run(&self) -> Result<Observed, String> {
        let mut sim =
            Simulation::new(self.scenario(), Everything::default()).map_err(|it| it.to_string())?;
        let server_host = if self.topology == Topology::Loopback { 0 } else { 1 };
        for (host, level) in [(0, self.load.client), (server_host, self.load.server)] {
            for _ in 0..level {
                sim.spawn_daemon(host, Box::new(PrimeLoad::new(LOAD_SLICE_NS)), LOAD_START_NS);
            }
        }
        let setup = Setup {
            buffer_bytes: self.buffer_bytes,
            reserve_bytes: self.reserve_bytes,
            no_delay: self.no_delay,
            ..Setup::default()
        };
        for number in 0..self.connections {
            let port = PORT + number;
            let sink = Sink::new(port, READ_BYTES, 1)
                .set_up(Setup { no_delay: false, ..setup })
                .paced(self.read_pace);
            sim.spawn(server_host, Box::new(sink), SERVER_START_NS);
            let to: Endpoint = (self.server_address(), port);
            let writer = BulkWriter::new(to, self.write_bytes, self.writes);
            let writer = writer.paced(self.pace).set_up(setup);
            sim.spawn(0, Box::new(writer), CLIENT_START_NS);
        }
        let mut until_ns = CLIENT_START_NS;
        // Load never ends: the transfer does when every reader has seen its end.
        while ended(&sim) < usize::from(self.connections) {
            until_ns += STEP_NS;
            let outcome = sim.run_until(until_ns);
            if until_ns > LIMIT_NS || !matches!(outcome, Outcome::TimeIsUp | Outcome::Ended) {
                return Err(format!("the transfer did not end: {outcome:?}"));
            }
        }
        sim.run_until(until_ns + LINGER_NS);
        if !sim.damage().is_empty() {
            return Err(format!("data arrived damaged: {:?}", sim.damage()));
        }
        let received = sim.notes().iter().filter(|note| note.name == "received_bytes");
        let received: u64 = received.map(|note| note.value).sum();
        let expected = self.write_bytes as u64 * self.writes * u64::from(self.connections);
        if received != expected {
            return Err(format!("{received} of {expected} bytes arrived"));
        }
        let connections = sim.connections().to_vec();
        Ok(Observed::new(connections, sim.sink(), received))
    }

    fn server_address(&self) -> Ipv4Addr {
        match self.topology {
            Topology::Loopback => Ipv4Addr::LOCALHOST,
            Topology::Ethernet => SERVER,
        }
    }

    fn scenario(&self) -> Scenario {
        let host = |name: &str| {
            let mut host = HostConfig::new(name, self.personality.clone(), self.machine.clone());
            // With 1 KB buffers the paper still sent packets of 1024 bytes, not half a buffer.
            host.stack.segment_bytes_max = self.reserve_bytes.map(|_| SEGMENT_BYTES);
            host
        };
        let (hosts, links) = match self.topology {
            Topology::Loopback => (vec![host("host").with_loopback()], Vec::new()),
            Topology::Ethernet => (
                vec![
                    host("client").with_ethernet10(CLIENT, 0),
                    host("server").with_ethernet10(SERVER, 0),
                ],
                vec![LinkConfig::ethernet10()],
            ),
        };
        Scenario { seed: self.seed, hosts, links, log: LogPolicy::All }
    }
}

/// Readers that have seen the end of their data.
fn ended(sim: &Simulation<Everything>) -> usize {
    sim.notes().iter().filter(|note| note.name == "received_bytes").count()
}
