//! A socket that carries VMTP packets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::RecvFlags;
use socket2::{Domain, Protocol, Socket, Type};

use super::filter::{Wanted, filter};
use crate::wire::Entity;

/// UDP port of servers that were given none. RFC 1045 knows VMTP over IP only; this number is ours.
pub const PORT: u16 = 10_450;
/// VMTP's IP protocol number (RFC 1045 §3.1).
const IP_PROTOCOL: i32 = 81;
/// Octets that any packet of VMTP over UDP or IP fits into.
pub(super) const RECEIVE_BYTES: usize = 65_536;
/// Octets that a socket keeps for a busy program, if the system grants them.
const BUFFER_BYTES: usize = 4 << 20;

/// The protocol below VMTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// UDP.
    Udp,
    /// IP protocol 81, without ports: one server for each address. Needs CAP_NET_RAW.
    Raw,
}

/// A socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct LinkError {
    /// The failed operation.
    pub what: String,
    /// The error of the system.
    pub source: io::Error,
}

impl LinkError {
    fn new(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self { what, source }
    }
}

/// Where a group is asked: its IPv4 host group, or for a network of IPv6 the group `ff15::5350:x:x` with
/// the low 32 bits of that (site-local, transient; RFC 4291 §2.7; the number is ours). `None` for a
/// single entity.
pub fn group_address(group: Entity, port: u16, is_ipv6: bool) -> Option<SocketAddr> {
    let v4 = group.host_group()?;
    let [high, low] = [(v4.to_bits() >> 16) as u16, v4.to_bits() as u16];
    let v6 = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0x5350, high, low);
    let address: IpAddr = if is_ipv6 { v6.into() } else { v4.into() };
    Some(SocketAddr::new(address, port))
}

/// A bound socket.
#[derive(Debug)]
pub struct Link {
    /// Sends and receives packets of any family that has addresses; also a raw one.
    socket: UdpSocket,
    transport: Transport,
    is_ipv6: bool,
}

impl Link {
    /// A socket at `address`; port 0 lets the system choose. Several servers may share an address, to
    /// be members of one group.
    ///
    /// # Errors
    ///
    /// When the system refuses the socket or the address.
    pub fn bind(transport: Transport, address: SocketAddr) -> Result<Self, LinkError> {
        let (kind, protocol, at) = match transport {
            Transport::Udp => (Type::DGRAM, Protocol::UDP, address),
            // A raw socket has no ports.
            Transport::Raw => {
                (Type::RAW, Protocol::from(IP_PROTOCOL), SocketAddr::new(address.ip(), 0))
            }
        };
        let right = if transport == Transport::Raw { " (it needs CAP_NET_RAW)" } else { "" };
        let socket = Socket::new(Domain::for_address(at), kind, Some(protocol))
            .map_err(LinkError::new(format!("cannot open a socket for VMTP{right}")))?;
        let is_shared = address.port() != 0 && transport == Transport::Udp;
        socket.set_reuse_address(is_shared).map_err(LinkError::new("cannot share an address"))?;
        // Less than asked for is enough for most.
        let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
        let _ = socket.set_send_buffer_size(BUFFER_BYTES);
        socket.bind(&at.into()).map_err(LinkError::new(format!("cannot bind {address}")))?;
        let socket = UdpSocket::from(socket);
        socket
            .set_read_timeout(Some(super::WAIT_MAX))
            .map_err(LinkError::new("cannot set a time limit"))?;
        Ok(Self { socket, transport, is_ipv6: address.is_ipv6() })
    }

    /// Where it is bound.
    ///
    /// # Errors
    ///
    /// When the system reports an error.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr().map(|address| self.place(address))
    }

    /// Takes packets to `group` on the interface with this address (IPv4) or on the system's choice.
    ///
    /// # Errors
    ///
    /// When the entity is no group, or the system refuses.
    pub fn join(&self, group: Entity, interface: Ipv4Addr) -> Result<(), LinkError> {
        let no_group = || LinkError {
            what: format!("{group} is no group"),
            source: io::Error::from(io::ErrorKind::InvalidInput),
        };
        let address = group_address(group, 0, self.is_ipv6).ok_or_else(no_group)?;
        let joined = match address.ip() {
            IpAddr::V4(address) => self.socket.join_multicast_v4(&address, &interface),
            IpAddr::V6(address) => self.socket.join_multicast_v6(&address, 0),
        };
        joined.map_err(LinkError::new(format!("cannot join {address}")))
    }

    /// Sends multicast packets by the interface with this address (IPv4).
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn multicast_by(&self, interface: Ipv4Addr) -> Result<(), LinkError> {
        let socket = socket2::SockRef::from(&self.socket);
        socket.set_multicast_if_v4(&interface).map_err(LinkError::new("cannot choose an interface"))
    }

    /// Lets the kernel drop unwanted packets: only raw sockets receive packets for others.
    ///
    /// # Errors
    ///
    /// When the kernel refuses. Then the filter is as it was.
    pub(super) fn want(&self, wanted: &Wanted) -> Result<(), LinkError> {
        if self.transport == Transport::Udp {
            return Ok(());
        }
        let socket = socket2::SockRef::from(&self.socket);
        let attached = socket.attach_filter(&filter(wanted, !self.is_ipv6));
        attached.map_err(LinkError::new("cannot filter packets for others"))
    }

    /// Sends a packet. A full queue or a peer that is not there is like a dropped packet.
    ///
    /// # Errors
    ///
    /// Other errors of the system.
    pub(super) fn send(&self, to: SocketAddr, octets: &[u8]) -> io::Result<()> {
        match self.socket.send_to(octets, to) {
            Err(error) if is_loss(&error) => Ok(()),
            sent => sent.map(|_| ()),
        }
    }

    /// The address as packets from there show it: raw IP has no ports.
    pub(super) fn place(&self, to: SocketAddr) -> SocketAddr {
        match self.transport {
            Transport::Udp => to,
            Transport::Raw => SocketAddr::new(to.ip(), 0),
        }
    }

    /// Waits for a packet, at most for `wait`; gives where from and where in `buffer` it is.
    ///
    /// # Errors
    ///
    /// Errors of the system other than that nothing arrived.
    pub(super) fn receive<'b>(
        &self,
        buffer: &'b mut [u8],
        wait: Duration,
    ) -> io::Result<Option<(SocketAddr, &'b [u8])>> {
        if wait != super::WAIT_MAX {
            self.wait_until_readable(wait)?;
            return self.receive_now(buffer);
        }
        match self.socket.recv_from(buffer) {
            Ok((len, from)) => Ok(Some((from, self.payload(&buffer[..len])))),
            Err(error) if is_nothing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits with the kernel's fine timers: the socket's own limit is rounded up to a tick, which is many
    /// times a gap between packets.
    fn wait_until_readable(&self, wait: Duration) -> io::Result<()> {
        if wait.is_zero() {
            return Ok(());
        }
        let limit = Timespec::try_from(wait).map_err(io::Error::other)?;
        let mut readable = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut readable, Some(&limit)).map_err(io::Error::from) {
            Err(error) if !is_nothing(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// A packet that is there already.
    fn receive_now<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Option<(SocketAddr, &'b [u8])>> {
        let received = rustix::net::recvfrom(&self.socket, &mut *buffer, RecvFlags::DONTWAIT);
        match received.map_err(io::Error::from) {
            Ok((len, _, from)) => {
                let from = from.and_then(|from| SocketAddr::try_from(from).ok());
                Ok(from.map(|from| (from, self.payload(&buffer[..len]))))
            }
            Err(error) if is_nothing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A raw IPv4 socket gives the IP header, too (raw(7)).
    fn payload<'b>(&self, octets: &'b [u8]) -> &'b [u8] {
        let has_header = self.transport == Transport::Raw && !self.is_ipv6;
        let header = if has_header {
            octets.first().map_or(0, |first| usize::from(first & 15) * 4)
        } else {
            0
        };
        octets.get(header..).unwrap_or_default()
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn is_nothing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted | ConnectionRefused)
}

fn is_loss(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, WouldBlock};
    // ENOBUFS has no kind of its own.
    let is_full = error.raw_os_error() == Some(105);
    is_full
        || matches!(
            error.kind(),
            ConnectionRefused | HostUnreachable | NetworkUnreachable | WouldBlock
        )
}
