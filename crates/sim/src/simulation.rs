//! A whole run: its scenario, and the destination of its records.
//!
//! The clock is nanoseconds from the start of the simulation.

use sockscope_record::Connection;
use sockscope_stack::interface::InterfaceKind;

use crate::host::Host;
use crate::link::{Capture, Link, LinkCounts, LinkId, Port, Station};
use crate::network::{Goal, Network, Outcome};
use crate::process::{Process, ProcessId};
use crate::program::{Damage, Note, Program};
use crate::scenario::{HostConfig, Scenario};
use crate::shared::Shared;
use crate::sink::RecordSink;

/// Why a scenario cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// An interface is on a link that does not exist.
    #[error("interface {interface} of host {host} is on link {link}, which does not exist")]
    NoSuchLink {
        /// The host's number.
        host: usize,
        /// The interface's number.
        interface: usize,
        /// The link's number.
        link: LinkId,
    },
    /// More hosts, interfaces or links than numbers.
    #[error("at most 65,535 hosts with 255 interfaces each, and 65,535 links, can be simulated")]
    TooMany,
}

/// A simulation under way.
pub struct Simulation<S> {
    network: Network,
    sink: S,
}

impl<S: RecordSink> Simulation<S> {
    /// Sets everything up; nothing has happened yet.
    ///
    /// # Errors
    ///
    /// When an interface names a link that does not exist, or there are too many hosts or links.
    pub fn new(scenario: Scenario, sink: S) -> Result<Self, ScenarioError> {
        let Scenario { seed, hosts, links, log } = scenario;
        if links.len() > usize::from(u16::MAX) {
            return Err(ScenarioError::TooMany);
        }
        let mut stations: Vec<Vec<Station>> = vec![Vec::new(); links.len()];
        let mut running = Vec::new();
        for (number, config) in hosts.into_iter().enumerate() {
            let small = u16::try_from(number).map_err(|_| ScenarioError::TooMany)?;
            let attached = attach(number, small, &config, &mut stations)?;
            let mut host = Host::new(small, config, seed);
            for (interface, station) in attached {
                host.attach(interface, station);
            }
            running.push(host);
        }
        let configured = links.iter().zip(stations).enumerate();
        let links = configured
            .map(|(id, (config, stations))| Link::new(config, id, stations, seed))
            .collect();
        let network = Network::new(running, Shared::new(links, log, sink.is_wanted()));
        Ok(Self { network, sink })
    }

    /// A process that begins at `start_ns`, or now if that has passed.
    pub fn spawn(&mut self, host: usize, program: Box<dyn Program>, start_ns: u64) -> ProcessId {
        self.network.shared.working += 1;
        self.add_process(host, program, start_ns, false, 0)
    }

    /// A process whose end the run does not wait for.
    pub fn spawn_daemon(
        &mut self,
        host: usize,
        program: Box<dyn Program>,
        start_ns: u64,
    ) -> ProcessId {
        self.add_process(host, program, start_ns, true, 0)
    }

    fn add_process(
        &mut self,
        host: usize,
        program: Box<dyn Program>,
        start_ns: u64,
        is_daemon: bool,
        nice: u8,
    ) -> ProcessId {
        let number = self.network.shared.names.len() as u32;
        self.network.shared.names.push(program.name().chars().take(15).collect());
        let process = Process::new(number, program, is_daemon);
        let start_ns = start_ns.max(self.network.now_ns);
        self.network.hosts[host].spawn(start_ns, process, nice, &mut self.network.shared)
    }

    /// The time, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.network.now_ns
    }

    /// A host by its number in the scenario.
    pub fn host(&self, number: usize) -> &Host {
        &self.network.hosts[number]
    }

    /// The counts of a link.
    pub fn link_counts(&self, link: LinkId) -> LinkCounts {
        self.network.shared.links[link].counts()
    }

    /// What a host on the cable has captured, if the link has one.
    pub fn capture(&self, link: LinkId) -> Option<&Capture> {
        self.network.shared.links.get(link)?.capture()
    }

    /// The notes of programs, in order of time.
    pub fn notes(&self) -> &[Note] {
        &self.network.shared.notes
    }

    /// The name of a process by its number in notes and records.
    pub fn process_name(&self, number: u32) -> &str {
        self.network.shared.names.get(number as usize).map_or("", String::as_str)
    }

    /// Bytes that were read other than they were written; a run with any has failed.
    pub fn damage(&self) -> &[Damage] {
        &self.network.shared.damage
    }

    /// The connections logged, in order of their numbers.
    pub fn connections(&self) -> &[Connection] {
        &self.network.shared.connections
    }

    /// Frames on links and in devices.
    pub fn frames_in_flight(&self) -> usize {
        self.network.shared.frames.in_use()
    }

    /// A packet from outside reaches the host at the end of this link, at `at_ns` or now if that has passed. Does
    /// nothing on a link whose other end is simulated.
    pub fn deliver(&mut self, link: LinkId, at_ns: u64, packet: &[u8]) {
        let at_ns = at_ns.max(self.network.now_ns);
        self.network.shared.deliver(link, at_ns, packet);
    }

    /// The next packet that has left the simulation by this link, with the time at which it did.
    pub fn departed(&mut self, link: LinkId) -> Option<(u64, Vec<u8>)> {
        self.network.shared.departed(link)
    }

    /// When something happens next, `u64::MAX` where only a packet from outside can let something happen.
    pub fn next_ns(&self) -> u64 {
        self.network.next_ns()
    }

    /// The sink.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// The sink, with the simulation ended.
    pub fn into_sink(mut self) -> S {
        self.network.end(&mut self.sink);
        self.sink
    }

    /// Lets everything happen up to `until_ns`, that time included.
    pub fn run_until(&mut self, until_ns: u64) -> Outcome {
        self.network.run(until_ns, Goal::Time, &mut self.sink)
    }

    /// Runs until every program but the daemons has ended and nothing is under way, at most to
    /// `limit_ns`. Sockets may still wait for timers.
    pub fn run_to_end(&mut self, limit_ns: u64) -> Outcome {
        self.network.run(limit_ns, Goal::Quiet, &mut self.sink)
    }
}

/// Puts a host's interfaces on their links; for each its number there.
fn attach(
    number: usize,
    small: u16,
    config: &HostConfig,
    stations: &mut [Vec<Station>],
) -> Result<Vec<(u8, u16)>, ScenarioError> {
    let mut attached = Vec::new();
    let configured = config.stack.interfaces.iter().zip(&config.links).enumerate();
    for (index, (interface, link)) in configured {
        let Some(link) = *link else { continue };
        let small_index = u8::try_from(index).map_err(|_| ScenarioError::TooMany)?;
        let missing = ScenarioError::NoSuchLink { host: number, interface: index, link };
        let here = stations.get_mut(link).ok_or(missing)?;
        let port = Port { host: small, interface: small_index };
        let [a, b, c, d] = interface.address.octets();
        let address = match interface.kind {
            InterfaceKind::Ethernet10 => vec![2, 0, a, b, c, d],
            InterfaceKind::Ethernet3 => vec![d],
            InterfaceKind::Loopback | InterfaceKind::PointToPoint => Vec::new(),
        };
        attached.push((small_index, here.len() as u16));
        here.push(Station { port, address, hold_ns: config.machine.driver.receive_hold_ns });
    }
    Ok(attached)
}
