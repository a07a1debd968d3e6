//! Clients and servers on a network in virtual time, which loses, doubles, delays and damages packets
//! as a seed says.

#![allow(dead_code)] // Each test uses its part.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::Ipv4Addr;

use sockscope_vmtp::wire::{Entity, Kind, Packet};
use sockscope_vmtp::{Client, Config, Event, Outcome, Server};

pub const MS: u64 = 1_000_000;
/// Address of all servers.
pub const EVERYBODY: u16 = 9999;
const SERVERS_FROM: u16 = 1000;
/// One way, before reordering.
const WAY_NS: u64 = MS / 10;

/// A small generator (xorshift, Marsaglia 2003): tests need no better one.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit.max(1)
    }

    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Whether a transaction is to a group, one in ten, and its octets: mostly few, now and then more
    /// than a packet group.
    pub fn transaction(&mut self) -> (bool, u64) {
        let to_group = self.percent(10);
        let bytes = match self.below(100) {
            _ if to_group => self.below(2000),
            0..50 => self.below(13),
            50..80 => self.below(1500),
            80..97 => self.below(16_385),
            _ => self.below(100_000),
        };
        (to_group, bytes)
    }
}

/// Percent of packets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    pub lost: u64,
    pub doubled: u64,
    pub delayed: u64,
    pub damaged: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    at_ns: u64,
    number: u64,
    from: u16,
    to: u16,
    octets: Vec<u8>,
}

/// Decides the fate of the n-th packet, instead of chance.
pub type Fate = fn(u64, &Packet<'_>) -> bool;

pub struct Net {
    pub now_ns: u64,
    pub clients: Vec<Client<u16>>,
    pub servers: Vec<Server<u16>>,
    pub faults: Faults,
    /// Loses the packets for which it is true.
    pub loses: Option<Fate>,
    /// Every packet that was sent: from, to, text.
    pub log: Option<Vec<String>>,
    pub sent: u64,
    /// Drops packets with data that follow the last one from the same sender in less time; 0 drops none.
    pub apart_ns: u64,
    /// By sender: when the wire took a packet with data last.
    taken_ns: BTreeMap<u16, u64>,
    random: Random,
    flights: BinaryHeap<Reverse<Flight>>,
}

pub fn client_entity(number: usize) -> Entity {
    Entity::new(number as u32 + 1, Ipv4Addr::new(36, 8, 0, 49))
}

pub fn server_entity(number: usize) -> Entity {
    Entity::new(number as u32 + 77, Ipv4Addr::new(36, 8, 0, 77))
}

pub fn server_address(number: usize) -> u16 {
    SERVERS_FROM + number as u16
}

impl Net {
    pub fn new(clients: usize, servers: usize, config: &Config, seed: u64) -> Self {
        let client = |number| Client::new(client_entity(number), u32::MAX - 5, config.clone());
        let server = |number| Server::new(server_entity(number), config.clone());
        Self {
            now_ns: 0,
            clients: (0..clients).map(client).collect(),
            servers: (0..servers).map(server).collect(),
            faults: Faults::default(),
            loses: None,
            log: None,
            sent: 0,
            apart_ns: 0,
            taken_ns: BTreeMap::new(),
            random: Random::new(seed),
            flights: BinaryHeap::new(),
        }
    }

    /// Answers Requests and goes on to the next moment at which something happens; false when nothing
    /// will.
    pub fn step(
        &mut self,
        serve: &mut dyn FnMut(usize, sockscope_vmtp::server::Incoming<u16>) -> Option<Outcome>,
    ) -> bool {
        for number in 0..self.servers.len() {
            while let Some(request) = self.servers[number].poll_request() {
                let token = request.token;
                if let Some(outcome) = serve(number, request) {
                    self.servers[number].respond(self.now_ns, token, outcome).expect("it is open");
                }
            }
        }
        self.transmit();
        let timers = self.clients.iter().filter_map(Client::poll_timeout);
        let timers = timers.chain(self.servers.iter().filter_map(Server::poll_timeout));
        let next_flight = self.flights.peek().map(|Reverse(flight)| flight.at_ns);
        let Some(next_ns) = timers.chain(next_flight).min() else { return false };
        self.now_ns = self.now_ns.max(next_ns);
        while let Some(Reverse(flight)) = self.flights.peek()
            && flight.at_ns <= self.now_ns
        {
            let Some(Reverse(flight)) = self.flights.pop() else { break };
            self.deliver(&flight);
        }
        let now_ns = self.now_ns;
        self.clients.iter_mut().for_each(|client| client.handle_timeout(now_ns));
        self.servers.iter_mut().for_each(|server| server.handle_timeout(now_ns));
        true
    }

    fn deliver(&mut self, flight: &Flight) {
        let Flight { from, to, octets, .. } = flight;
        match *to {
            EVERYBODY => {
                self.servers
                    .iter_mut()
                    .for_each(|server| server.handle(self.now_ns, *from, octets));
            }
            to if to >= SERVERS_FROM => {
                self.servers[usize::from(to - SERVERS_FROM)].handle(self.now_ns, *from, octets);
            }
            to => self.clients[usize::from(to)].handle(self.now_ns, *from, octets),
        }
    }

    fn transmit(&mut self) {
        let mut octets = Vec::new();
        for number in 0..self.clients.len() {
            while let Some(to) = self.clients[number].poll_transmit(self.now_ns, &mut octets) {
                self.launch(number as u16, to, &octets);
            }
        }
        for number in 0..self.servers.len() {
            while let Some(to) = self.servers[number].poll_transmit(self.now_ns, &mut octets) {
                self.launch(server_address(number), to, &octets);
            }
        }
    }

    fn launch(&mut self, from: u16, to: u16, octets: &[u8]) {
        self.sent += 1;
        let packet = Packet::new(octets).expect("engines send whole packets");
        let is_lost = self.loses.is_some_and(|loses| loses(self.sent, &packet))
            || self.is_too_close(from, packet.header().delivery);
        if let Some(log) = &mut self.log {
            let header = packet.header();
            let kind = match (header.code.datagram, header.control.kind) {
                _ if header.is_probe() => "probe".to_owned(),
                (true, Kind::Response) if from < SERVERS_FROM => {
                    format!("at {}", header.word(0))
                }
                (true, _) => format!("notice {}", header.word(24)),
                (false, kind) => format!("{kind:?}"),
            };
            let lost = if is_lost { " lost" } else { "" };
            log.push(format!(
                "{from}>{to} {kind} {:08x} x{}{lost}",
                if header.code.datagram { header.word(20) } else { header.delivery },
                header.control.retransmit_count
            ));
        }
        if is_lost || self.random.percent(self.faults.lost) {
            return;
        }
        let copies = if self.random.percent(self.faults.doubled) { 2 } else { 1 };
        for _ in 0..copies {
            let mut octets = octets.to_vec();
            if self.random.percent(self.faults.damaged) {
                let at = self.random.below(octets.len() as u64) as usize;
                octets[at] ^= 1 << self.random.below(8);
            }
            let late = if self.random.percent(self.faults.delayed) {
                self.random.below(20 * MS)
            } else {
                0
            };
            let at_ns = self.now_ns + WAY_NS + late;
            self.flights.push(Reverse(Flight { at_ns, number: self.sent, from, to, octets }));
        }
    }

    fn is_too_close(&mut self, from: u16, delivery: u32) -> bool {
        if self.apart_ns == 0 || delivery == 0 {
            return false;
        }
        let last_ns = self.taken_ns.get(&from).copied();
        let is_close = last_ns.is_some_and(|last_ns| self.now_ns < last_ns + self.apart_ns);
        if !is_close {
            self.taken_ns.insert(from, self.now_ns);
        }
        is_close
    }

    /// The next event of a client.
    pub fn event(&mut self, client: usize) -> Option<Event<u16>> {
        self.clients[client].poll_event()
    }
}
