//! A relay between clients and servers on loopback that loses, doubles, delays and damages packets,
//! both ways, as a seed decides.
//!
//! A client sends to a *front*: one socket stands for each server, and two for the group, one of them
//! for multicast. For each client there is a *back*, from which its packets go on. It receives the
//! servers' answers, which leave by the front of the server. A damaged packet gets a new UDP checksum
//! in transit, so that VMTP's own has to find it. Times are those of the monotonic clock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};
use sockscope_vmtp::driver::Transport;

use crate::common::{Faults, Random};

/// The longest delay of a packet.
const LATE_US_MAX: u64 = 4_000;
const BUFFER_BYTES: usize = 1 << 20;

/// Where one server, or all members of the group, can be reached.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Where clients send to.
    pub front: SocketAddr,
    /// Where the relay sends to.
    pub server: SocketAddr,
}

/// The counts of the relay.
#[derive(Debug, Clone, Copy, Default)]
pub struct Passed {
    pub packets: u64,
    pub lost: u64,
    pub doubled: u64,
    pub delayed: u64,
    pub damaged: u64,
}

/// A packet that waits for its time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Late {
    due: Instant,
    number: u64,
    by: usize,
    to: SocketAddr,
    octets: Vec<u8>,
}

pub struct Relay {
    transport: Transport,
    faults: Faults,
    random: Random,
    /// Fronts first, in the order of `places`; then the group's multicast socket; then backs.
    sockets: Vec<UdpSocket>,
    places: Vec<Place>,
    /// The back of each client, and the client of each back.
    backs: BTreeMap<SocketAddr, usize>,
    clients: BTreeMap<usize, SocketAddr>,
    late: BinaryHeap<Reverse<Late>>,
    passed: Passed,
}

/// A socket as the drivers have it.
pub fn socket(transport: Transport, at: SocketAddr) -> UdpSocket {
    let (kind, protocol) = match transport {
        Transport::Udp => (Type::DGRAM, Protocol::UDP),
        Transport::Raw => (Type::RAW, Protocol::from(81)),
    };
    let socket = Socket::new(Domain::IPV4, kind, Some(protocol)).expect("a socket");
    socket.set_recv_buffer_size(BUFFER_BYTES).expect("an option");
    socket.set_multicast_if_v4(&Ipv4Addr::LOCALHOST).expect("loopback");
    socket.set_nonblocking(true).expect("an option");
    socket.bind(&at.into()).expect("an address");
    socket.into()
}

impl Relay {
    /// Stands before servers at these addresses; the last one is the group's, whose clients ask at
    /// `asked`, with any port.
    pub fn new(
        transport: Transport,
        servers: &[SocketAddr],
        asked: Ipv4Addr,
        faults: Faults,
        seed: u64,
    ) -> Self {
        let mut sockets = Vec::new();
        let mut places = Vec::new();
        for (&server, number) in servers.iter().zip(1..) {
            let front = socket(transport, SocketAddr::new(own_address(transport, 3, number), 0));
            places.push(Place {
                front: place(transport, front.local_addr().expect("bound")),
                server,
            });
            sockets.push(front);
        }
        let multicast = socket(transport, SocketAddr::new(asked.into(), 0));
        multicast.join_multicast_v4(&asked, &Ipv4Addr::LOCALHOST).expect("a group on loopback");
        let port = multicast.local_addr().expect("bound").port();
        if let Some(group) = places.last_mut() {
            group.front = place(transport, SocketAddr::new(asked.into(), port));
        }
        sockets.push(multicast);
        Self {
            transport,
            faults,
            random: Random::new(seed),
            sockets,
            places,
            backs: BTreeMap::new(),
            clients: BTreeMap::new(),
            late: BinaryHeap::new(),
            passed: Passed::default(),
        }
    }

    /// Where clients find the servers, and the group last.
    pub fn fronts(&self) -> Vec<SocketAddr> {
        self.places.iter().map(|place| place.front).collect()
    }

    /// Works until `ends` is set.
    pub fn run(mut self, ends: &AtomicBool) -> Passed {
        let mut octets = vec![0; 1 << 16];
        while !ends.load(Ordering::Relaxed) {
            for at in self.ready() {
                while let Some((from, packet)) =
                    receive(&self.sockets[at], &mut octets, self.transport)
                {
                    let packet = packet.to_vec();
                    self.pass(at, from, packet);
                }
            }
            while self.late.peek().is_some_and(|Reverse(late)| late.due <= Instant::now()) {
                let Some(Reverse(late)) = self.late.pop() else { break };
                self.send(late.by, late.to, &late.octets);
            }
        }
        self.passed
    }

    /// Sockets with something to read, after a short wait.
    fn ready(&self) -> Vec<usize> {
        let due = self
            .late
            .peek()
            .map(|Reverse(late)| late.due.saturating_duration_since(Instant::now()));
        let wait = due.unwrap_or(Duration::from_millis(10)).min(Duration::from_millis(10));
        let mut polled: Vec<_> = self
            .sockets
            .iter()
            .map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN))
            .collect();
        let wait = Timespec::try_from(wait).expect("short");
        poll(&mut polled, Some(&wait)).expect("sockets");
        let ready = polled.iter().enumerate().filter(|(_, it)| !it.revents().is_empty());
        ready.map(|(at, _)| at).collect()
    }

    /// A packet that arrived by socket `at` goes on, or not.
    fn pass(&mut self, at: usize, from: SocketAddr, mut packet: Vec<u8>) {
        let (by, to) = match self.clients.get(&at) {
            Some(&client) => (self.front_of(from), client),
            None => (self.back_of(from), self.places[at.min(self.places.len() - 1)].server),
        };
        self.passed.packets += 1;
        if self.random.percent(self.faults.lost) {
            self.passed.lost += 1;
            return;
        }
        if self.random.percent(self.faults.damaged) {
            let octet = self.random.below(packet.len() as u64) as usize;
            packet[octet] ^= 1 << self.random.below(8);
            self.passed.damaged += 1;
        }
        let copies = 1 + u64::from(self.random.percent(self.faults.doubled));
        self.passed.doubled += copies - 1;
        for _ in 0..copies {
            if !self.random.percent(self.faults.delayed) {
                self.send(by, to, &packet);
                continue;
            }
            self.passed.delayed += 1;
            let late = Duration::from_micros(self.random.below(LATE_US_MAX));
            let (due, number) = (Instant::now() + late, self.passed.packets);
            self.late.push(Reverse(Late { due, number, by, to, octets: packet.clone() }));
        }
    }

    /// The front of a server; for members of the group, which have no place of their own, the
    /// group's.
    fn front_of(&self, server: SocketAddr) -> usize {
        let own = self.places.iter().position(|place| place.server == server);
        own.unwrap_or(self.places.len() - 1)
    }

    /// The back of a client, made when it is first heard.
    fn back_of(&mut self, client: SocketAddr) -> usize {
        if let Some(&back) = self.backs.get(&client) {
            return back;
        }
        let back = self.sockets.len();
        let number = self.backs.len() as u8 + 1;
        let at = SocketAddr::new(own_address(self.transport, 4, number), 0);
        self.sockets.push(socket(self.transport, at));
        self.backs.insert(client, back);
        self.clients.insert(back, client);
        back
    }

    fn send(&self, by: usize, to: SocketAddr, octets: &[u8]) {
        // A packet without room is lost, as on any network.
        let _ = self.sockets[by].send_to(octets, to);
    }
}

/// A packet that is there, and where from; without the header that raw sockets give.
fn receive<'o>(
    socket: &UdpSocket,
    octets: &'o mut [u8],
    transport: Transport,
) -> Option<(SocketAddr, &'o [u8])> {
    match socket.recv_from(octets) {
        Ok((len, from)) => {
            let header =
                if transport == Transport::Raw { usize::from(octets[0] & 15) * 4 } else { 0 };
            Some((place(transport, from), &octets[header..len]))
        }
        // A client that has ended refuses later packets.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => None,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}

/// Raw IP has no ports.
pub fn place(transport: Transport, at: SocketAddr) -> SocketAddr {
    if transport == Transport::Raw { SocketAddr::new(at.ip(), 0) } else { at }
}

/// An address on loopback: one for all with ports, else one for each.
pub fn own_address(transport: Transport, net: u8, number: u8) -> IpAddr {
    match transport {
        Transport::Udp => Ipv4Addr::LOCALHOST.into(),
        Transport::Raw => Ipv4Addr::new(127, 81, net, number).into(),
    }
}
