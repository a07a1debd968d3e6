//! The topologies in which a client and its server can stand.
//!
//! In each of them the server has the address 198.18.0.2. The only client, or the first one, has 198.18.0.1.
//! Everything is in namespaces that a thread entered and that have no name.

use std::fmt;
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::{Error, SettingsError};
use crate::hosts::{CLIENT, Ends, Hosts, SERVER, link_end};
use crate::namespace::{Namespace, set_up, without_offload};
use crate::netlink::{Device, add_address, add_route, add_token_bucket, make_pair};
use crate::processes::Processes;
use crate::quantity::Bandwidth;
use crate::settings::Capacity;
use crate::tun::Tun;

/// The router's, at both of its devices.
const ROUTER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 254);
/// Clients of a crowd, at most: their addresses end with 1 to 250 in 198.18.1.0/24.
const CLIENTS_MAX: u8 = 250;
/// Bytes that Ethernet adds to an IP packet, which a token bucket counts.
const ETHERNET_BYTES: u32 = 14;

/// Connection between a server and its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Topology {
    /// One namespace: packets pass its loopback device.
    Loopback,
    /// Two, with a pair of Ethernet devices (veth).
    Pair,
    /// Two, with a wire in user space.
    #[default]
    Link,
    /// Two, with a third one that forwards packets between them.
    Router,
    /// One of the server and one of each client, with a pair of devices to each.
    Crowd(u8),
}

/// A pair of devices, the same in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Bits of Ethernet frames a second, by a token bucket at each end; `None`: as fast as the kernel is.
    pub rate: Option<Bandwidth>,
    /// The queue of the token bucket.
    pub queue: Capacity,
    /// Bytes of the largest packet.
    pub mtu: u32,
    /// A [`Topology::Link`] passes groups of packets, by GSO. Its wires then need [`crate::Settings::offload`].
    pub has_offload: bool,
}

impl Default for Line {
    /// As most devices of Ethernet.
    fn default() -> Self {
        Self { rate: None, queue: Capacity::default(), mtu: 1_500, has_offload: false }
    }
}

impl Topology {
    /// Clients that there are.
    pub fn clients(self) -> usize {
        match self {
            Self::Crowd(clients) => usize::from(clients),
            _ => 1,
        }
    }

    /// Makes the namespaces and devices, with addresses and up. A [`Topology::Link`] has the ends of its wire too.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] without the right to make namespaces (`CAP_SYS_ADMIN`) or devices (`CAP_NET_ADMIN`).
    pub fn build(self, line: Line) -> Result<(Hosts, Option<Ends>), Error> {
        let processes = Arc::new(Processes::new()?);
        match self {
            Self::Loopback => loopback(&processes).map(|hosts| (hosts, None)),
            Self::Pair => pair(&processes, line).map(|hosts| (hosts, None)),
            Self::Link => link(&processes, line).map(|(hosts, ends)| (hosts, Some(ends))),
            Self::Router => router(&processes, line).map(|hosts| (hosts, None)),
            Self::Crowd(clients) => crowd(&processes, line, clients).map(|hosts| (hosts, None)),
        }
    }
}

/// Makes one namespace with a TUN device, whose other end is the server's: a [`crate::Station`] has it.
///
/// # Errors
///
/// As [`Topology::build`].
pub fn with_station(mtu: u32) -> Result<(Hosts, Tun), Error> {
    let namespace = Namespace::new("client", &Arc::new(Processes::new()?))?;
    let tun = namespace.run(move || link_end(CLIENT, mtu, false))??;
    Ok((Hosts { clients: Vec::new(), server: namespace, _between: Vec::new() }, tun))
}

impl fmt::Display for Topology {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback => formatter.write_str("loopback"),
            Self::Pair => formatter.write_str("pair"),
            Self::Link => formatter.write_str("link"),
            Self::Router => formatter.write_str("router"),
            Self::Crowd(clients) => write!(formatter, "crowd:{clients}"),
        }
    }
}

impl FromStr for Topology {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let of_crowd = || {
            let clients = text.strip_prefix("crowd:")?.parse().ok()?;
            (1..=CLIENTS_MAX).contains(&clients).then_some(Self::Crowd(clients))
        };
        let plain = [Self::Loopback, Self::Pair, Self::Link, Self::Router];
        let named = plain.into_iter().find(|it| it.to_string() == text).or_else(of_crowd);
        named.ok_or_else(|| SettingsError::Word {
            text: text.to_owned(),
            kind: "topology",
            known: "loopback, pair, link, router and crowd:N with 1 to 250 clients",
        })
    }
}

fn refused(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |cause| Error::Refused { what, cause }
}

fn loopback(processes: &Arc<Processes>) -> Result<Hosts, Error> {
    let host = Namespace::new("host", processes)?;
    for address in [CLIENT, SERVER] {
        host.run(move || add_address("lo", address))?.map_err(refused("add an address"))?;
    }
    Ok(Hosts { clients: Vec::new(), server: host, _between: Vec::new() })
}

fn link(processes: &Arc<Processes>, line: Line) -> Result<(Hosts, Ends), Error> {
    let end = |name: &str, address: Ipv4Addr| {
        let namespace = Namespace::new(name, processes)?;
        let tun = namespace.run(move || link_end(address, line.mtu, line.has_offload))??;
        Ok::<_, Error>((namespace, tun))
    };
    let (client, client_end) = end("client", CLIENT)?;
    let (server, server_end) = end("server", SERVER)?;
    Ok((Hosts { clients: vec![client], server, _between: Vec::new() }, [client_end, server_end]))
}

fn pair(processes: &Arc<Processes>, line: Line) -> Result<Hosts, Error> {
    let client = Namespace::new("client", processes)?;
    let server = Namespace::new("server", processes)?;
    connect(&[End::of(&client, "net0", CLIENT), End::of(&server, "net0", SERVER)], line)?;
    Ok(Hosts { clients: vec![client], server, _between: Vec::new() })
}

fn router(processes: &Arc<Processes>, line: Line) -> Result<Hosts, Error> {
    let client = Namespace::new("client", processes)?;
    let server = Namespace::new("server", processes)?;
    let router = Namespace::new("router", processes)?;
    connect(&[End::of(&client, "net0", CLIENT), End::of(&router, "net0", ROUTER)], line)?;
    connect(&[End::of(&server, "net0", SERVER), End::of(&router, "net1", ROUTER)], line)?;
    for (host, to, from) in [(&client, SERVER, CLIENT), (&server, CLIENT, SERVER)] {
        host.run(move || add_route("net0", to, from, Some(ROUTER)))?
            .map_err(refused("add a route"))?;
    }
    router
        .run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))?
        .map_err(refused("forward packets"))?;
    Ok(Hosts { clients: vec![client], server, _between: vec![router] })
}

fn crowd(processes: &Arc<Processes>, line: Line, clients: u8) -> Result<Hosts, Error> {
    let server = Namespace::new("server", processes)?;
    let add = |number: u8| {
        let client = Namespace::new(&format!("client{number}"), processes)?;
        let near = End::of(&client, "net0", address_in_crowd(number));
        let far = End::of(&server, &format!("net{number}"), SERVER);
        connect(&[near, far], line)?;
        Ok::<_, Error>(client)
    };
    let clients = (1..=clients).map(add).collect::<Result<_, _>>()?;
    Ok(Hosts { clients, server, _between: Vec::new() })
}

/// The address of a client of a crowd, from 1 on.
fn address_in_crowd(number: u8) -> Ipv4Addr {
    match number {
        1 => CLIENT,
        _ => Ipv4Addr::new(198, 18, 1, number),
    }
}

/// One end of a pair of devices.
struct End<'a> {
    host: &'a Namespace,
    device: String,
    address: Ipv4Addr,
}

impl<'a> End<'a> {
    fn of(host: &'a Namespace, device: &str, address: Ipv4Addr) -> Self {
        Self { host, device: device.to_owned(), address }
    }
}

/// Makes a pair of devices between two hosts, each with an address, a route to the other and a token bucket.
fn connect(ends: &[End<'_>; 2], line: Line) -> Result<(), Error> {
    let [near, far] = ends;
    let devices = ends.each_ref().map(|end| Device { name: end.device.clone(), mtu: line.mtu });
    let namespace = far
        .host
        .run(|| File::open("/proc/thread-self/ns/net"))?
        .map_err(refused("open a network namespace"))?;
    near.host
        .run(move || make_pair(&devices[0], &devices[1], namespace.as_fd()))?
        .map_err(refused("make a pair of devices"))?;
    for (end, other) in [(near, far), (far, near)] {
        let (device, address, to) = (end.device.clone(), end.address, other.address);
        let add = move || {
            without_offload(&device)?;
            set_up(&device)?;
            add_address(&device, address)?;
            add_route(&device, to, address, None)?;
            line.rate.map_or(Ok(()), |rate| {
                add_token_bucket(&device, rate, line.queue_bytes(), line.burst_bytes(rate))
            })
        };
        end.host.run(add)?.map_err(refused("set up a pair of devices"))?;
    }
    Ok(())
}

impl Line {
    /// Of frames: a queue of packets has this number of the largest.
    fn queue_bytes(self) -> u32 {
        let bytes = match self.queue {
            Capacity::Bytes(bytes) => bytes,
            Capacity::Packets(packets) => packets.saturating_mul(u64::from(self.frame_bytes())),
        };
        // A token bucket without room for one frame would send no frame.
        u32::try_from(bytes).unwrap_or(u32::MAX).max(self.frame_bytes())
    }

    /// Bytes that the line sends in a millisecond, and two frames at least.
    fn burst_bytes(self, rate: Bandwidth) -> u32 {
        u32::try_from(rate.0 / 8_000).unwrap_or(u32::MAX).max(2 * self.frame_bytes())
    }

    fn frame_bytes(self) -> u32 {
        self.mtu + ETHERNET_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topology_is_read_as_it_is_written() {
        let all = [
            Topology::Loopback,
            Topology::Pair,
            Topology::Link,
            Topology::Router,
            Topology::Crowd(250),
        ];
        for topology in all {
            assert_eq!(topology.to_string().parse(), Ok(topology));
        }
        assert_eq!(Topology::Crowd(3).clients(), 3);
        assert_eq!(Topology::Pair.clients(), 1);
        for text in ["", "star", "crowd", "crowd:0", "crowd:251", "pair:2"] {
            assert!(text.parse::<Topology>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_token_bucket_holds_two_frames_and_a_millisecond() {
        let line = |queue| Line { queue, ..Line::default() };
        let of_packets = line(Capacity::Packets(100));
        assert_eq!(of_packets.queue_bytes(), 151_400);
        assert_eq!(line(Capacity::Bytes(10)).queue_bytes(), 1_514);
        assert_eq!(of_packets.burst_bytes(Bandwidth(1_000_000)), 3_028);
        assert_eq!(of_packets.burst_bytes(Bandwidth(1_000_000_000)), 125_000);
    }
}
