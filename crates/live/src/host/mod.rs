//! A stack of the 1980s as a host on the network: it exchanges packets with this machine's kernel, in real time.
//!
//! The host is a simulation of one host with a line to the outside. Its clock is this machine's: an event happens
//! when its time has come, and a packet from outside arrives when it does. On a machine with costs the host is as fast
//! as that machine was.

mod error;
mod programs;
mod run;
mod shifted;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;

use sockscope_link::Station;
use sockscope_record::Connection;
use sockscope_sim::{
    HostConfig, LinkConfig, LogPolicy, Machine, Program, RecordSink, Scenario, Simulation,
};
use sockscope_stack::Personality;

pub use error::HostError;
pub use programs::{Exchanged, Fetched, Progress, Service};
pub use run::{Begun, Trace, meta, run};

use programs::{EchoServer, Exchanger, Fetch, PageServer, shared_listener};
use shifted::Shifted;

/// The line to the outside.
const LINK: usize = 0;
/// Processes of each service, which accept connections in turn.
const PROCESSES: usize = 64;

/// A host that exchanges packets with this machine's kernel.
pub struct ModelHost<S> {
    simulation: Simulation<Shifted<S>>,
    /// The time at which the simulation began, on the clock of [`sockscope_link::now_ns`].
    began_ns: u64,
}

/// How a host is built.
#[derive(Debug, Clone)]
pub struct HostPlan {
    /// The rules of its kernel, by name as `4.3bsd`.
    pub personality: String,
    /// The machine that its kernel runs on, by name as `vax-11-750`; nothing costs time on `instant`.
    pub machine: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// Bytes of its largest packet.
    pub mtu: u32,
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// What it serves.
    pub services: Vec<Service>,
    /// What it fetches: a page at this address and port, by its path.
    pub fetch: Option<(Ipv4Addr, u16, String)>,
    /// The exchanges that it makes.
    pub exchanges: Option<Exchanges>,
}

/// Exchanges of random sizes with an echo server, whose answers are compared byte by byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchanges {
    /// The echo server.
    pub with: (Ipv4Addr, u16),
    /// Exchanges on each connection, one after the other.
    pub count: u32,
    /// Connections, each of a process of its own.
    pub connections: u32,
}

impl HostPlan {
    fn personality(&self) -> Result<Personality, HostError> {
        Personality::by_name(&self.personality).ok_or_else(|| HostError::Name {
            what: "personality",
            name: self.personality.clone(),
            known: format!(
                "{}, with or without +{}",
                Personality::ALL.map(|known| known.name).join(", "),
                Personality::OPTIONS.join(", +")
            ),
        })
    }

    fn machine(&self) -> Result<Machine, HostError> {
        Machine::by_name(&self.machine).ok_or_else(|| HostError::Name {
            what: "machine",
            name: self.machine.clone(),
            known: ["instant"].into_iter().chain(Machine::names()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Finds wrong names before anything is made.
    ///
    /// # Errors
    ///
    /// [`HostError::Name`].
    pub fn check(&self) -> Result<(), HostError> {
        self.personality()?;
        self.machine().map(drop)
    }
}

impl<S: RecordSink> ModelHost<S> {
    /// A host that begins to run at `began_ns`. Its records go to `sink`, with times of the same clock.
    ///
    /// # Errors
    ///
    /// [`HostError::Name`], and [`HostError::Scenario`] when it cannot be simulated.
    pub fn new(plan: &HostPlan, began_ns: u64, sink: S) -> Result<Self, HostError> {
        let mut host = HostConfig::new("host", plan.personality()?, plan.machine()?)
            .with_line(plan.address, plan.mtu, LINK)
            .with_loopback();
        host.stack.answers_unreachable = true;
        let scenario = Scenario {
            seed: plan.seed,
            hosts: vec![host],
            links: vec![LinkConfig::outside()],
            log: LogPolicy::All,
        };
        let simulation = Simulation::new(scenario, Shifted { sink, by_ns: began_ns })?;
        let mut host = Self { simulation, began_ns };
        for service in &plan.services {
            host.serve(*service);
        }
        Ok(host)
    }

    fn serve(&mut self, service: Service) {
        let listener = shared_listener();
        for _ in 0..PROCESSES {
            let listener = listener.clone();
            let program: Box<dyn Program> = match service {
                Service::Page(port) => Box::new(PageServer::new(port, listener)),
                Service::Echo(port) => Box::new(EchoServer::new(port, listener)),
            };
            self.simulation.spawn_daemon(0, program, 0);
        }
    }

    /// A process of the host fetches a page from a server outside, by HTTP/1.0.
    pub fn fetch(&mut self, from: (Ipv4Addr, u16), path: &str) -> Fetched {
        let fetched = Fetched::default();
        let program = Fetch::new(from, path, fetched.clone());
        self.simulation.spawn(0, Box::new(program), 0);
        fetched
    }

    /// Processes of the host make exchanges.
    pub fn exchange(&mut self, plan: Exchanges, seed: u64) -> Exchanged {
        let exchanged = Exchanged::of(plan.connections);
        for number in 0..u64::from(plan.connections) {
            let program = Exchanger::new(plan.with, plan.count, (seed, number), exchanged.clone());
            self.simulation.spawn(0, Box::new(program), 0);
        }
        exchanged
    }

    /// The simulation.
    pub fn simulation(&self) -> &Simulation<impl RecordSink> {
        &self.simulation
    }

    /// The sink, and the connections logged with times of its clock.
    pub fn into_records(self) -> (S, Vec<Connection>) {
        let mut connections = self.simulation.connections().to_vec();
        for connection in &mut connections {
            connection.opened_ns += self.began_ns;
            connection.closed_ns = connection.closed_ns.map(|ns| ns + self.began_ns);
        }
        (self.simulation.into_sink().sink, connections)
    }
}

impl<S: RecordSink> Station for ModelHost<S> {
    fn arrive(&mut self, at_ns: u64, packet: &[u8]) {
        self.simulation.deliver(LINK, at_ns.saturating_sub(self.began_ns), packet);
    }

    fn advance(&mut self, now_ns: u64) {
        self.simulation.run_until(now_ns.saturating_sub(self.began_ns));
    }

    fn departed(&mut self) -> Option<(u64, Vec<u8>)> {
        let (at_ns, packet) = self.simulation.departed(LINK)?;
        Some((at_ns + self.began_ns, packet))
    }

    fn next_ns(&self) -> u64 {
        self.simulation.next_ns().saturating_add(self.began_ns)
    }
}
