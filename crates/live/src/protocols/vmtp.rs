//! VMTP over UDP and over IP protocol 81, one entity for each client, all served by one thread.
//!
//! The probes know no IP protocol 81, so that the engines tell of points 1, 2, 7 and 8 themselves where
//! a ledger is wanted. Then each client has an address of its own, by which the server's engine tells
//! clients apart.
//!
//! Raw IP has no ports: every socket at an address gets the packets of all, and an engine that has no such
//! entity says so. Servers of several runs at once have addresses of their own.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use sockscope_record::{Connection, ConnectionId, Process, Record, Side};
use sockscope_vmtp::driver::{Caller, Link, Service, Trace, Transport as Carrier};
use sockscope_vmtp::wire::Entity;
use sockscope_vmtp::{Config, Options, Outcome, Request};

use super::record::Told;
use super::transport::{Client, Message, Server, Transport, Worker, answer};

/// Payload of the longest UDP datagram; raw IP has eight octets more, which no packet needs.
const PAYLOAD_BYTES: usize = 65_507;
/// A segment travels in a run of packet groups above this.
const GROUP_BYTES: usize = 16 << 10;

/// VMTP in one of its carriers, on loopback, where a packet group fits one packet.
#[derive(Debug)]
pub(super) struct Vmtp {
    pub carrier: Carrier,
    /// Its engines tell of what passes them when there is somebody to tell.
    pub told: Option<Told>,
}

/// What an engine saw: its connections, and records of them.
type Seen = (Vec<Connection>, Vec<Record>);

/// Addresses of loopback for servers over raw IP, and for clients that tell.
const SERVERS: [u8; 2] = [127, 81];
const CLIENTS: [u8; 2] = [127, 82];

/// An address of loopback that no other process takes this way while it is held: a name of a Unix socket, which
/// belongs to one socket of the network namespace, stands for it.
#[derive(Debug)]
struct OwnAddress {
    ip: Ipv4Addr,
    _held: UnixDatagram,
}

impl OwnAddress {
    /// The first of `network` that is free.
    fn take([first, second]: [u8; 2]) -> io::Result<Self> {
        for number in 1..u16::MAX {
            let [third, last] = number.to_be_bytes();
            let ip = Ipv4Addr::new(first, second, third, last);
            let name = UnixAddr::from_abstract_name(format!("sockscope {ip}"))?;
            match UnixDatagram::bind_addr(&name) {
                Ok(held) => return Ok(Self { ip, _held: held }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other(format!("no free address in {first}.{second}.0.0/16")))
    }
}

impl Transport for Vmtp {
    fn serve(&self, request_bytes: usize) -> io::Result<Box<dyn Server>> {
        let own = match self.carrier {
            Carrier::Udp => None,
            Carrier::Raw => Some(OwnAddress::take(SERVERS)?),
        };
        let ip = own.as_ref().map_or(Ipv4Addr::LOCALHOST, |own| own.ip);
        let at = SocketAddr::new(IpAddr::V4(ip), 0);
        let link = Link::bind(self.carrier, at).map_err(io::Error::other)?;
        let address = link.local_address()?;
        let entity = Entity::new(std::process::id(), Ipv4Addr::LOCALHOST);
        let config = Config::for_payload(PAYLOAD_BYTES);
        let mut service = Service::new(link, entity, config);
        if self.told.is_some() {
            service.log().begin();
        }
        let unseen = Arc::new(AtomicU64::new(0));
        let worker = Worker::start({
            let (told, unseen) = (self.told.clone(), Arc::clone(&unseen));
            move |ends| {
                let ended = |_: &mut Service| ends.load(Ordering::Acquire);
                // A network that fails shows as calls that do.
                let _ = service.serve(ended, |request| reply(&request.segment));
                if let Some(told) = told {
                    let seen = seen(address, Side::Server, || service.log().poll());
                    unseen.fetch_add(service.log().lost(), Ordering::Relaxed);
                    tell_server(seen, &unseen, &told);
                }
            }
        });
        let (carrier, told) = (self.carrier, self.told.clone());
        Ok(Box::new(VmtpServer {
            carrier,
            told,
            request_bytes,
            address,
            entity,
            unseen,
            _worker: worker,
            _own: own,
        }))
    }
}

fn reply(request: &[u8]) -> Outcome {
    Outcome { user: answer(request), ..Outcome::default() }
}

struct VmtpServer {
    carrier: Carrier,
    told: Option<Told>,
    request_bytes: usize,
    address: SocketAddr,
    entity: Entity,
    /// Passages that its engine and its clients' could not keep.
    unseen: Arc<AtomicU64>,
    _worker: Worker,
    /// Its address, while the worker hears it.
    _own: Option<OwnAddress>,
}

impl Server for VmtpServer {
    fn client(&self) -> io::Result<Box<dyn Client>> {
        /// Clients of this process, for their names.
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let own = self.told.as_ref().map(|_| OwnAddress::take(CLIENTS)).transpose()?;
        let ip = own.as_ref().map_or(self.address.ip(), |own| IpAddr::V4(own.ip));
        let link = Link::bind(self.carrier, SocketAddr::new(ip, 0)).map_err(io::Error::other)?;
        let entity = Entity::new(0x0800_0000 | number, Ipv4Addr::LOCALHOST);
        let config = Config::for_payload(PAYLOAD_BYTES);
        let mut caller = Caller::new(link, entity, 1, config);
        if self.told.is_some() {
            caller.log().begin();
        }
        Ok(Box::new(VmtpClient {
            caller,
            told: self.told.clone(),
            unseen: Arc::clone(&self.unseen),
            id: ConnectionId(number),
            server: self.entity,
            address: self.address,
            message: Message::new(self.request_bytes),
            _own: own,
        }))
    }
}

struct VmtpClient {
    caller: Caller,
    told: Option<Told>,
    /// Passages that this and other engines of the server and its clients could not keep.
    unseen: Arc<AtomicU64>,
    /// Its own number, under which it tells.
    id: ConnectionId,
    server: Entity,
    address: SocketAddr,
    message: Message,
    /// Its own address, while it hears it.
    _own: Option<OwnAddress>,
}

impl Client for VmtpClient {
    fn call(&mut self, number: u64) -> io::Result<()> {
        let segment = self.message.number(number).to_vec();
        let options = Options { long_response: segment.len() > GROUP_BYTES, ..Options::default() };
        let request = Request { segment, ..Request::default() };
        let response = self.caller.call(self.server, self.address, request, options);
        self.message.response = response.map_err(io::Error::other)?.user;
        self.message.check()
    }

    fn port(&self) -> Option<u16> {
        let address = self.caller.link().local_address().ok()?;
        Some(address.port()).filter(|&port| port > 0)
    }
}

impl Drop for VmtpClient {
    fn drop(&mut self) {
        let Some(told) = &self.told else { return };
        let Ok(local) = self.caller.link().local_address() else { return };
        let caller = &mut self.caller;
        let seen = seen(local, Side::Client, || caller.log().poll());
        self.unseen.fetch_add(caller.log().lost(), Ordering::Relaxed);
        tell_client(self.id, seen, told);
    }
}

/// Tells of a client's connection.
fn tell_client(id: ConnectionId, (connections, records): Seen, told: &Told) {
    // Poisoned only by a client that panicked, whose case has failed.
    let Ok(mut told) = told.lock() else { return };
    told.0.extend(connections.into_iter().map(|it| Connection { id, both_ends_here: true, ..it }));
    told.1.extend(records.into_iter().map(|record| of(id, record)));
}

/// Adds what the server saw to the connections that clients reported before. When any engine did not
/// see all, nothing is kept: a ledger of a part would be one of another load.
fn tell_server((connections, records): Seen, unseen: &AtomicU64, told: &Told) {
    let Ok(mut told) = told.lock() else { return };
    // Clients added theirs before they took the lock.
    if unseen.load(Ordering::Relaxed) > 0 {
        *told = Seen::default();
        return;
    }
    for connection in connections {
        let id =
            told.0.iter().find(|known| known.client == connection.client).map(|known| known.id);
        let own = records.iter().filter(|record| record.flow.connection() == connection.id);
        told.1.extend(id.into_iter().flat_map(|id| own.clone().map(move |record| of(id, *record))));
    }
}

/// The same record of another connection.
fn of(id: ConnectionId, record: Record) -> Record {
    Record { flow: id.flow(record.flow.direction()), ..record }
}

/// All that an engine saw of the socket at `local`.
fn seen(
    local: SocketAddr,
    side: Side,
    poll: impl FnMut() -> Option<sockscope_vmtp::observe::Seen<SocketAddr>>,
) -> Seen {
    let process = Process::new(std::process::id(), "", side);
    let mut trace = Trace::new(local, side, process);
    std::iter::from_fn(poll).for_each(|seen| trace.add(&seen));
    (trace.take_connections(), trace.take_records(0))
}

#[cfg(test)]
mod tests {
    use sockscope_vmtp::observe::{Seen as Passage, Sight};

    use super::super::record::ledger_of;
    use super::*;

    /// What an end saw that sent one packet to the other.
    fn sent(local: SocketAddr, side: Side, peer: SocketAddr) -> Seen {
        let sight = Sight::Sent { octets: 64, since_ns: 10 };
        let mut passages = vec![Passage { at_ns: 20, peer, sight }].into_iter();
        seen(local, side, || passages.next())
    }

    /// Two runs at once: neither's server hears the other's clients. The network is no other process's, and
    /// none that servers or clients have, so that no other socket takes what is let go.
    #[test]
    fn an_address_is_one_holder_s_until_it_lets_go() {
        let network = (std::process::id() as u16 | 0x8000).to_be_bytes();
        let take = || OwnAddress::take(network).expect("a free address");
        let (one, other) = (take(), take());
        assert_ne!(one.ip, other.ip);
        let ip = one.ip;
        drop(one);
        assert_eq!(take().ip, ip);
    }

    #[test]
    fn a_ledger_is_of_all_that_passed_or_there_is_none() {
        let server: SocketAddr = "127.0.81.1:0".parse().expect("an address");
        for (unseen, connections) in [(0, Some(2)), (1, None)] {
            let told = Told::default();
            let clients = [1, 2].map(|number| (ConnectionId(number), [127, 82, 0, number as u8]));
            for (id, ip) in clients {
                tell_client(id, sent((ip, 0).into(), Side::Client, server), &told);
            }
            let own = sent(server, Side::Server, (clients[0].1, 0).into());
            tell_server(own, &AtomicU64::new(unseen), &told);
            let (told, records) = std::mem::take(&mut *told.lock().expect("no panic"));
            assert_eq!(records.is_empty(), connections.is_none());
            let ledger = ledger_of(told, records, false);
            assert_eq!(ledger.map(|ledger| ledger.connections), connections);
        }
    }
}
