//! Protocol control blocks: ports, local addresses, and the search for a packet's socket.

mod table;

use std::net::Ipv4Addr;

use sockscope_record::Protocol;

use crate::meter::Meter;
use crate::route::network_of;
use crate::routine::{Routine, Work};
use crate::socket::{ANY, Endpoint, SocketError, SocketId};
use crate::stack::Stack;

pub use table::LocalAddress;
pub(crate) use table::Pcbs;

/// First port that is given out when none was asked for (`IPPORT_RESERVED`).
const PORT_MIN: u16 = 1024;

/// Last port that is given out (`IPPORT_USERRESERVED`).
const PORT_MAX: u16 = 5000;

impl Stack {
    /// `in_pcballoc`: the socket gets a control block.
    pub(crate) fn in_pcballoc(&mut self, id: SocketId) {
        let socket = &mut self.sockets[id];
        assert!(!socket.is_attached, "{id:?} has a control block already");
        socket.is_attached = true;
        self.pcbs.of_mut(socket.protocol).sockets.push(id);
    }

    /// `in_pcbdetach`: frees the control block, and the socket too if no process holds it.
    pub(crate) fn in_pcbdetach(&mut self, id: SocketId, meter: &mut Meter) {
        let socket = &mut self.sockets[id];
        socket.is_attached = false;
        socket.route.clear();
        self.pcbs.of_mut(socket.protocol).sockets.retain(|other| *other != id);
        self.sofree(id, meter);
    }

    /// `in_pcbbind`: takes a local address; port 0 asks for any free one.
    pub(crate) fn in_pcbbind(
        &mut self,
        id: SocketId,
        local: Endpoint,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        let (address, port) = local;
        if self.sockets[id].local != ANY {
            return Err(SocketError::Invalid);
        }
        if !address.is_unspecified() && !self.has_address(address) {
            return Err(SocketError::AddressNotAvailable);
        }
        if port != 0 {
            let protocol = self.sockets[id].protocol;
            let wildcard = !self.sockets[id].options.reuse_address;
            if self.in_pcblookup(protocol, ANY, local, wildcard, meter).is_some() {
                return Err(SocketError::AddressInUse);
            }
            self.sockets[id].local = local;
            return Ok(());
        }
        self.sockets[id].local.0 = address;
        self.bind_any_port(id, meter)
    }

    fn bind_any_port(&mut self, id: SocketId, meter: &mut Meter) -> Result<(), SocketError> {
        let protocol = self.sockets[id].protocol;
        let address = self.sockets[id].local.0;
        for _ in PORT_MIN..=PORT_MAX {
            let list = self.pcbs.of_mut(protocol);
            let next = list.last_port.wrapping_add(1);
            let port = if (PORT_MIN..=PORT_MAX).contains(&next) { next } else { PORT_MIN };
            list.last_port = port;
            if self.in_pcblookup(protocol, ANY, (address, port), true, meter).is_none() {
                self.sockets[id].local.1 = port;
                return Ok(());
            }
        }
        Err(SocketError::AddressInUse)
    }

    /// `in_pcbconnect`: sets the peer, and the local address and port if they are not set.
    pub(crate) fn in_pcbconnect(
        &mut self,
        id: SocketId,
        foreign: Endpoint,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        meter.call(Routine::InPcbconnect, Work::NONE);
        let (mut address, port) = foreign;
        if port == 0 {
            return Err(SocketError::AddressNotAvailable);
        }
        if address.is_unspecified() {
            // "This host": its first interface.
            address = self.interfaces.first().map_or(address, |interface| interface.address);
        }
        let (own_address, own_port) = self.sockets[id].local;
        let local_address = if own_address.is_unspecified() {
            self.local_address_for(id, address, meter)?
        } else {
            own_address
        };
        let protocol = self.sockets[id].protocol;
        let pair = ((address, port), (local_address, own_port));
        if self.in_pcblookup(protocol, pair.0, pair.1, false, meter).is_some() {
            return Err(SocketError::AddressInUse);
        }
        if own_port == 0 {
            self.bind_any_port(id, meter)?;
        }
        let socket = &mut self.sockets[id];
        socket.local.0 = local_address;
        socket.foreign = (address, port);
        assert!(socket.local.1 != 0 && port != 0, "a connection without ports");
        Ok(())
    }

    fn local_address_for(
        &mut self,
        id: SocketId,
        peer: Ipv4Addr,
        meter: &mut Meter,
    ) -> Result<Ipv4Addr, SocketError> {
        let number = match self.personality.ip.local_address {
            LocalAddress::NetworkOf => {
                meter.calls_of(Routine::InNetof, 1);
                meter.call(Routine::IfIfonnetof, Work::walked(self.interfaces.len() as u32));
                self.interface_on(peer)
            }
            LocalAddress::Scan => {
                self.route_to(id, peer, meter);
                meter.call(Routine::IfaIfwithdstaddr, Work::walked(self.interfaces.len() as u32));
                meter.calls_of(Routine::InNetof, 1);
                meter.call(Routine::InIaonnetof, Work::walked(self.interfaces.len() as u32));
                self.interface_on(peer)
            }
            LocalAddress::OfRoute => self.route_to(id, peer, meter),
        };
        // Without any, the first interface serves.
        let interface = self.interfaces.get(usize::from(number.unwrap_or(0)));
        interface.map(|interface| interface.address).ok_or(SocketError::AddressNotAvailable)
    }

    /// The interface of the route to the peer, which the control block then keeps.
    fn route_to(&mut self, id: SocketId, peer: Ipv4Addr, meter: &mut Meter) -> Option<u8> {
        if let Some(route) = self.sockets[id].route.to(peer) {
            return Some(route.interface);
        }
        let route = self.routes.look_up(peer, meter)?;
        self.sockets[id].route.set(peer, route);
        Some(route.interface)
    }

    fn interface_on(&self, peer: Ipv4Addr) -> Option<u8> {
        let network = network_of(peer);
        let same = |address: Ipv4Addr| network_of(address) == network;
        let found = self.interfaces.iter().position(|interface| same(interface.address));
        found.map(|at| at as u8)
    }

    /// `in_pcbdisconnect`: forgets the peer.
    pub(crate) fn in_pcbdisconnect(&mut self, id: SocketId, meter: &mut Meter) {
        meter.call(Routine::InPcbdisconnect, Work::NONE);
        self.sockets[id].foreign = ANY;
    }

    /// `in_pcblookup`: the socket for these addresses, newest first. With `wildcard` an address
    /// that a socket has left open matches too, the closer match winning.
    pub(crate) fn in_pcblookup(
        &self,
        protocol: Protocol,
        foreign: Endpoint,
        local: Endpoint,
        wildcard: bool,
        meter: &mut Meter,
    ) -> Option<SocketId> {
        let mut walked = 0;
        let mut best = None;
        for id in self.pcbs.of(protocol).sockets.iter().rev() {
            walked += 1;
            let socket = &self.sockets[*id];
            let Some(open) = open_places(socket.foreign, socket.local, foreign, local) else {
                continue;
            };
            if open > 0 && !wildcard {
                continue;
            }
            if best.is_none_or(|(fewest, _)| open < fewest) {
                best = Some((open, *id));
            }
            if open == 0 {
                break;
            }
        }
        meter.call(Routine::InPcblookup, Work::walked(walked));
        best.map(|(_, id)| id)
    }
}

/// The number of the two addresses that match only because one side leaves them open; `None` when
/// they do not match.
fn open_places(
    own_foreign: Endpoint,
    own_local: Endpoint,
    foreign: Endpoint,
    local: Endpoint,
) -> Option<u32> {
    if own_local.1 != local.1 {
        return None;
    }
    let mut open = 0;
    for (own, other, ports_matter) in [(own_local, local, false), (own_foreign, foreign, true)] {
        match (own.0.is_unspecified(), other.0.is_unspecified()) {
            (true, true) => {}
            (true, false) | (false, true) => open += 1,
            (false, false) if own.0 != other.0 || ports_matter && own.1 != other.1 => return None,
            (false, false) => {}
        }
    }
    Some(open)
}
