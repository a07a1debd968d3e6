//! A whole run: hosts, links and events under one clock.
//!
//! The clock is nanoseconds from the start of the simulation. It moves to the next thing that
//! happens; at the same time events come before CPUs, and hosts in the order of the scenario.

use sockscope_record::Connection;
use sockscope_stack::interface::InterfaceKind;

use crate::event::Event;
use crate::host::Host;
use crate::link::{Link, LinkCounts, LinkId, Port, Station};
use crate::process::{Process, ProcessId};
use crate::program::{Damage, Note, Program};
use crate::scenario::{HostConfig, Scenario};
use crate::sink::RecordSink;
use crate::world::World;

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All programs have ended and nothing is under way.
    Ended,
    /// The time was up.
    TimeIsUp,
    /// Nothing can happen any more, but programs wait.
    Deadlock,
    /// A host went on without end at one moment.
    Stuck,
}

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
    /// More hosts or interfaces than numbers.
    #[error("at most 65,535 hosts with 255 interfaces each can be simulated")]
    TooMany,
}

/// A simulation under way.
pub struct Simulation<S> {
    now_ns: u64,
    hosts: Vec<Host>,
    /// For each host, when its CPU comes to its next effect; `u64::MAX` when it has nothing to do.
    due_ns: Vec<u64>,
    world: World<S>,
}

impl<S: RecordSink> Simulation<S> {
    /// Sets everything up; nothing has happened yet.
    ///
    /// # Errors
    ///
    /// When an interface names a link that does not exist, or there are too many hosts.
    pub fn new(scenario: Scenario, sink: S) -> Result<Self, ScenarioError> {
        let Scenario { seed, hosts, links, log } = scenario;
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
        let due_ns = vec![u64::MAX; running.len()];
        Ok(Self { now_ns: 0, hosts: running, due_ns, world: World::new(links, log, sink) })
    }

    /// A process that begins at `start_ns`, or now if that has passed.
    pub fn spawn(&mut self, host: usize, program: Box<dyn Program>, start_ns: u64) -> ProcessId {
        self.world.working += 1;
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
        let number = self.world.names.len() as u32;
        self.world.names.push(program.name().chars().take(15).collect());
        let process = Process::new(number, program, is_daemon);
        let start_ns = start_ns.max(self.now_ns);
        self.hosts[host].spawn(start_ns, process, nice, &mut self.world)
    }

    /// The time, in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// A host by its number in the scenario.
    #[must_use]
    pub fn host(&self, number: usize) -> &Host {
        &self.hosts[number]
    }

    /// A host, to change it between runs.
    pub fn host_mut(&mut self, number: usize) -> &mut Host {
        &mut self.hosts[number]
    }

    /// What has passed a link.
    #[must_use]
    pub fn link_counts(&self, link: LinkId) -> LinkCounts {
        self.world.links[link].counts()
    }

    /// What programs noted, in order of time.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.world.notes
    }

    /// The name of a process by its number in notes and records.
    #[must_use]
    pub fn process_name(&self, number: u32) -> &str {
        self.world.names.get(number as usize).map_or("", String::as_str)
    }

    /// Bytes that came out other than they went in; a run with any has failed.
    #[must_use]
    pub fn damage(&self) -> &[Damage] {
        &self.world.damage
    }

    /// The connections logged, in order of their numbers.
    #[must_use]
    pub fn connections(&self) -> &[Connection] {
        &self.world.connections
    }

    /// Frames on links and in devices.
    #[must_use]
    pub fn frames_in_flight(&self) -> usize {
        self.world.frames.in_use()
    }

    /// The sink.
    #[must_use]
    pub fn sink(&self) -> &S {
        &self.world.sink
    }

    /// The sink, with the simulation ended.
    #[must_use]
    pub fn into_sink(self) -> S {
        self.world.sink
    }

    /// Lets everything happen up to `until_ns`, that time included.
    pub fn run_until(&mut self, until_ns: u64) -> Outcome {
        self.run(until_ns, |_| false)
    }

    /// Runs until every program but the daemons has ended and nothing is under way, at most to
    /// `limit_ns`. Sockets may still wait for timers.
    pub fn run_to_end(&mut self, limit_ns: u64) -> Outcome {
        self.run(limit_ns, |simulation| simulation.is_over())
    }

    /// As [`Simulation::run_to_end`], and until the last socket is gone.
    pub fn run_until_closed(&mut self, limit_ns: u64) -> Outcome {
        self.run(limit_ns, |simulation| {
            let has_socket = |host: &Host| host.stack().sockets.iter().next().is_some();
            simulation.is_over() && !simulation.hosts.iter().any(has_socket)
        })
    }

    fn is_over(&self) -> bool {
        self.world.working == 0
            && self.world.frames.in_use() == 0
            && self.hosts.iter().all(Host::is_quiet)
    }

    fn run(&mut self, until_ns: u64, is_over: impl Fn(&Self) -> bool) -> Outcome {
        loop {
            if self.world.working == 0 && is_over(self) {
                return Outcome::Ended;
            }
            let event_ns = self.world.events.next_ns();
            let next = self.next_host();
            let next_ns = event_ns.min(next.at_ns);
            if next_ns == u64::MAX {
                return if self.world.working == 0 { Outcome::Ended } else { Outcome::Deadlock };
            }
            if next_ns > until_ns {
                self.now_ns = self.now_ns.max(until_ns);
                return Outcome::TimeIsUp;
            }
            self.now_ns = next_ns;
            let host = if event_ns > next.at_ns { Some(next.host) } else { self.next_event() };
            let Some(host) = host else { continue };
            let limit_ns = next.limit_ns(host).min(until_ns.saturating_add(1));
            let pause = self.hosts[host].run_until(next_ns, limit_ns, &mut self.world);
            self.now_ns = pause.now_ns;
            self.due_ns[host] = pause.due_ns;
            if pause.is_stuck {
                return Outcome::Stuck;
            }
        }
    }

    fn next_host(&self) -> NextHost {
        let mut next = NextHost { host: 0, at_ns: u64::MAX, others_ns: u64::MAX };
        for (host, due_ns) in self.due_ns.iter().enumerate() {
            if *due_ns < next.at_ns {
                next = NextHost { host, at_ns: *due_ns, others_ns: next.at_ns };
            } else {
                next.others_ns = next.others_ns.min(*due_ns);
            }
        }
        next
    }

    /// Lets the next event happen; the host that it happened to, if that has to run now.
    #[inline(never)]
    fn next_event(&mut self) -> Option<usize> {
        let Self { now_ns, hosts, due_ns, world } = self;
        let now_ns = *now_ns;
        let (_, event) = world.events.pop()?;
        match event {
            Event::Link(link, timer) => {
                world.link_timer(now_ns, link, timer);
                None
            }
            Event::Arrival(port, frame) => {
                let host = port.host();
                hosts[host].arrived(port.interface, frame, world).then_some(host)
            }
            Event::Sent(port) => {
                hosts[port.host()].sent(now_ns, port.interface, world).then_some(port.host())
            }
            Event::Collided(port) => hosts[port.host()].collided().then_some(port.host()),
            Event::DriverReady(port) => {
                hosts[port.host()].offer(now_ns, port.interface, world);
                None
            }
            Event::Timers(host) => {
                hosts[host].timers(now_ns, world);
                Some(host)
            }
            Event::Clock(host) => {
                hosts[host].clock_ticked();
                Some(host)
            }
            Event::Quantum(host) => {
                let pause = hosts[host].quantum(now_ns, world);
                due_ns[host] = pause.due_ns;
                // One that is stuck has its turn again, which says so.
                pause.is_stuck.then_some(host)
            }
            Event::Wake(process) => {
                hosts[process.host].time_is_up(now_ns, process.index, world);
                Some(process.host)
            }
        }
    }
}

/// Which host's CPU comes to something next.
#[derive(Debug, Clone, Copy)]
struct NextHost {
    host: usize,
    at_ns: u64,
    /// When the CPU of any other host comes to something.
    others_ns: u64,
}

impl NextHost {
    /// How far `host` may go on before another one must.
    fn limit_ns(self, host: usize) -> u64 {
        if host == self.host { self.others_ns } else { self.at_ns }
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
