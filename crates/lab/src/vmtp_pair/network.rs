//! Hosts on one Ethernet, and time.

use sockscope_experiment::VmtpParameters;
use sockscope_sim::random::Random;
use sockscope_sim::{EthernetConfig, LinkConfig, LinkCounts, LinkKind, Medium, MediumEvent};
use sockscope_vmtp::Config;
use sockscope_vmtp::wire::Entity;

use super::frame::{self, FRAMING_BYTES, GROUP};
use super::host::{Host, HostCounts};
use super::machine::Machine;
use super::process::{ClientProcess, Question, ServerProcess, Tally};
use crate::link_faults::link_faults;

const MS: u64 = 1_000_000;

/// Octets of time around a packet: frame and IP header, preamble (8) and the silence after a frame (12).
const AROUND_BYTES: usize = FRAMING_BYTES + 8 + 12;

/// Clients begin at chance within this time.
const START_NS: u64 = 20 * MS;

/// Stream of chance for when clients begin; each host has the stream of its number.
const START_STREAM: u64 = 0x1000;

/// Hosts, cable, and the time.
pub(super) struct Network {
    medium: Medium,
    hosts: Vec<Host>,
    /// Clients that have not begun: when, at which host, which process.
    starts: Vec<(u64, usize, usize)>,
    now_ns: u64,
    /// The first so many hosts have the servers.
    servers: usize,
}

/// The counts up to some time.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    pub link: LinkCounts,
    pub server: HostCounts,
    /// Of the first host of clients.
    pub client: HostCounts,
    /// Frames that some host lost for want of room.
    pub dropped: u64,
    /// Frames for the group at hosts without a member.
    pub in_vain: u64,
    pub tally: Tally,
}

impl Network {
    /// Servers, then bystanders, then the hosts of clients, which are `machine`; the others are
    /// `of_server`.
    pub fn new(
        parameters: &VmtpParameters,
        machine: &Machine,
        of_server: &Machine,
        seed: u64,
    ) -> Self {
        let servers = parameters.members.unwrap_or(1) as usize;
        let others = parameters.bystanders as usize;
        let clients_from = servers + others;
        let count = clients_from + parameters.client_hosts() as usize;
        let host = |station: u16| {
            let is_client = usize::from(station) >= clients_from;
            let machine = if is_client { machine } else { of_server };
            let random = Random::new(seed, station.into());
            Host::new(station, machine.clone(), parameters.variation_percent, random)
        };
        // At most three times 64 hosts.
        let stations = 0..count as u16;
        let addresses: Vec<_> = stations.clone().map(frame::ethernet).collect();
        let mut network = Self {
            medium: Medium::new(&link(parameters), &addresses, seed),
            hosts: stations.map(host).collect(),
            starts: Vec::new(),
            now_ns: 0,
            servers,
        };
        network.add_servers(parameters);
        network.add_clients(parameters, clients_from, seed);
        network
    }

    fn add_servers(&mut self, parameters: &VmtpParameters) {
        let group = parameters.members.map(|_| group());
        for (host, station) in self.hosts.iter_mut().zip(0..).take(self.servers) {
            let bytes = parameters.response_bytes;
            host.add(Box::new(ServerProcess::new(server(station), group, bytes, config())));
        }
    }

    fn add_clients(&mut self, parameters: &VmtpParameters, from: usize, seed: u64) {
        let bytes = parameters.request_bytes;
        let question = match parameters.members {
            Some(_) => Question { server: group(), to: GROUP, bytes },
            None => Question { server: server(0), to: 0, bytes },
        };
        let mut random = Random::new(seed, START_STREAM);
        for client in 0..parameters.clients {
            let at = from + (client % parameters.client_hosts()) as usize;
            let entity = Entity::new(0x1000 + client, frame::address(at as u16));
            let process = Box::new(ClientProcess::new(entity, question.clone(), config()));
            let process = self.hosts[at].add(process);
            self.starts.push((random.below(START_NS), at, process));
        }
        self.starts.sort_unstable();
        self.starts.reverse();
    }

    /// Lets time pass up to `until_ns`. Events due at the same time happen in the order cable,
    /// hosts by number, clients that begin.
    pub fn run(&mut self, until_ns: u64) -> Result<(), String> {
        loop {
            let start_ns = self.starts.last().map_or(u64::MAX, |start| start.0);
            let (host_ns, host) = self.next_host();
            // A time limit may have passed while its process was sending.
            let next_ns = self.medium.next_ns().min(host_ns).min(start_ns);
            let now_ns = next_ns.max(self.now_ns);
            if now_ns >= until_ns {
                return Ok(());
            }
            self.now_ns = now_ns;
            if self.medium.next_ns() <= now_ns {
                self.advance_medium(now_ns);
            } else if host_ns <= now_ns {
                self.hosts[host].advance(now_ns)?;
                self.offer(now_ns, host);
            } else if let Some((_, host, process)) = self.starts.pop() {
                self.hosts[host].wake(now_ns, process)?;
            }
        }
    }

    fn next_host(&self) -> (u64, usize) {
        let times = self.hosts.iter().map(Host::next_ns);
        times.zip(0..).min().unwrap_or((u64::MAX, 0))
    }

    fn advance_medium(&mut self, now_ns: u64) {
        match self.medium.advance() {
            Some(MediumEvent::Arrived { station, frame }) => {
                self.hosts[usize::from(station)].arrive(now_ns, frame);
            }
            Some(MediumEvent::Sent { station }) => {
                self.hosts[usize::from(station)].sent(now_ns);
            }
            None => {}
        }
    }

    fn offer(&mut self, now_ns: u64, host: usize) {
        if let Some(frame) = self.hosts[host].offer(now_ns) {
            // There are fewer hosts than that.
            self.medium.offer(now_ns, host as u16, &frame);
        }
    }

    /// The counts up to now.
    pub fn counts(&self) -> Counts {
        let counts = self.hosts.iter().map(Host::counts);
        let mut tally = Tally::default();
        for more in self.hosts.iter().flat_map(Host::tallies) {
            tally.calls.extend(more.calls);
            tally.blocks_again += more.blocks_again;
            tally.timeouts += more.timeouts;
            tally.failed += more.failed;
        }
        tally.calls.sort_unstable_by_key(|call| (call.ended_ns, call.began_ns));
        let of = |host: Option<&Host>| host.map(Host::counts).unwrap_or_default();
        Counts {
            link: self.medium.counts(),
            server: of(self.hosts.first()),
            client: of(self.hosts.last()),
            dropped: counts.clone().map(|it| it.dropped_in + it.dropped_out).sum(),
            in_vain: counts.map(|it| it.in_vain).sum(),
            tally,
        }
    }
}

fn server(station: u16) -> Entity {
    Entity::new(1, frame::address(station))
}

fn group() -> Entity {
    Entity::group(0x0008_a05a, frame::address(0))
}

fn link(parameters: &VmtpParameters) -> LinkConfig {
    let kind = LinkKind::Ethernet(EthernetConfig::TEN);
    LinkConfig { kind, faults: link_faults(parameters.faults()) }
}

/// Two blocks to a packet, gaps in packet times of the cable, and the time limits of Stanford's BSD code of
/// 1986-87, from which the Ultrix port descends.
fn config() -> Config {
    Config {
        retries: 3,
        round_trip_ns: 400 * MS,
        round_trip_ns_min: 20 * MS,
        service_ns: 1600 * MS,
        next_packet_ns: 220 * MS,
        keep_ns: 120_000 * MS,
        silence_ns_max: 60_000 * MS,
        ..Config::default()
    }
    .at_rate(EthernetConfig::TEN.bits_per_s, AROUND_BYTES)
}
