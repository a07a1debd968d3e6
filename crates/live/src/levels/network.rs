//! Two hosts with sockets, and the wire between them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use sockscope_link::{Error, Hosts, Line, Side, Topology, Wire, carry};

use super::plan::Plan;

/// A receiver that others keep from the CPU must not lose packets: the wire alone drops them.
const RECEIVE_BYTES: usize = 32 << 20;
/// Of the block that RFC 2365 leaves to an organization.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 83, 80);
const GROUP_PORT: u16 = 7_080;

/// Makes the hosts, lets `work` use them, and gives the packets that the wire dropped, where there is one.
pub(super) fn with_hosts<T>(
    plan: &Plan,
    work: impl FnOnce(&Hosts) -> T,
) -> Result<(T, Option<u64>), Error> {
    let (hosts, ends) = plan.topology.build(Line { mtu: plan.mtu, ..Line::default() })?;
    if plan.topology == Topology::Loopback {
        return Ok((work(&hosts), None));
    }
    let ends = ends.ok_or(Error::Thread)?;
    // Each direction has a seed of its own, or both would drop the same packets.
    let wires = [0, 1].map(|index| {
        let seed = plan.seed.wrapping_mul(2).wrapping_add(index as u64);
        Wire::new(plan.settings[index].clone(), seed)
    });
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let carrying = scope.spawn(|| carry(&ends, wires, &is_over));
        let done = work(&hosts);
        is_over.store(true, Ordering::Relaxed);
        let ended = carrying.join().map_err(|_| Error::Thread)??;
        let dropped = ended.iter().map(|one| {
            one.counts.dropped_by_loss + one.counts.dropped_by_queue + one.counts.dropped_by_codel
        });
        Ok((done, Some(dropped.sum())))
    })
}

/// A socket at a port of the kernel's choice.
pub(super) fn socket(hosts: &Hosts, side: Side) -> io::Result<UdpSocket> {
    let bind = move || {
        let socket = UdpSocket::bind((side.address(), 0))?;
        set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    hosts.run(side, bind).map_err(io::Error::other)?
}

/// A socket that sends to the group.
pub(super) fn publisher(hosts: &Hosts) -> io::Result<UdpSocket> {
    let socket = socket(hosts, Side::Client)?;
    let by = v4(Side::Client);
    let connect = move || {
        SockRef::from(&socket).set_multicast_if_v4(&by)?;
        socket.connect((GROUP, GROUP_PORT))?;
        Ok(socket)
    };
    hosts.run(Side::Client, connect).map_err(io::Error::other)?
}

/// A socket of a member of the group.
pub(super) fn subscriber(hosts: &Hosts) -> io::Result<UdpSocket> {
    let by = v4(Side::Server);
    let join = move || {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        // All members are on one host, at the group's port.
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::new(GROUP.into(), GROUP_PORT).into())?;
        socket.join_multicast_v4(&GROUP, &by)?;
        set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES)?;
        socket.set_nonblocking(true)?;
        Ok(UdpSocket::from(socket))
    };
    hosts.run(Side::Server, join).map_err(io::Error::other)?
}

fn v4(side: Side) -> Ipv4Addr {
    match side.address() {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}
