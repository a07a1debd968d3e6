//! `ip_output`: header, route, fragments.

use std::net::Ipv4Addr;

use super::{FRAGMENT_UNIT_BYTES, IP_HEADER_BYTES, MORE_FRAGMENTS, OutputHeader};
use crate::checksum::{Checksum, header_bytes};
use crate::mbuf::Chain;
use crate::meter::Meter;
use crate::packet::{Mark, Packet};
use crate::route::{Route, is_broadcast};
use crate::routine::{Routine, Work};
use crate::socket::{SocketError, SocketId};
use crate::stack::Stack;

/// The next hop of a packet.
#[derive(Clone, Copy)]
pub(super) struct Hop {
    pub(super) interface: u8,
    host: Ipv4Addr,
}

impl Hop {
    pub(super) fn by(route: Route, destination: Ipv4Addr) -> Self {
        Self { interface: route.interface, host: route.gateway.unwrap_or(destination) }
    }
}

/// The part of a packet's payload that one fragment carries.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) offset: usize,
    pub(super) len: usize,
    pub(super) is_last: bool,
}

/// The fields that all fragments of a packet have in common; the packet may itself be a fragment.
#[derive(Clone, Copy)]
pub(super) struct Whole {
    pub(super) id: u16,
    pub(super) tos: u8,
    /// Offset of its own payload, in bytes.
    pub(super) offset: usize,
    /// Another fragment follows it.
    pub(super) has_more: bool,
}

impl Stack {
    /// Sends a packet whose first mbuf begins with [`IP_HEADER_BYTES`] for the header, which are
    /// filled in here. `socket` is the one whose cached route serves, if any.
    ///
    /// The packet is consumed for any result. The errors are `NetworkUnreachable` without a route,
    /// and `NoBuffers` when the interface queue is full or the pool used up. `MessageSize` is for
    /// more than 65,535 bytes, or for a broadcast that would need fragments.
    pub(crate) fn ip_output(
        &mut self,
        packet: Packet,
        header: &OutputHeader,
        socket: Option<SocketId>,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        meter.call(Routine::IpOutput, Work::NONE);
        let route = match self.output_route(header.destination, socket, meter) {
            Some(route) => route,
            None => {
                self.ip_counts.no_route += 1;
                self.pool.m_freem(packet.chain, meter);
                return Err(SocketError::NetworkUnreachable);
            }
        };
        let hop = Hop::by(route, header.destination);
        let interface = &self.interfaces[usize::from(hop.interface)];
        let mtu = interface.mtu as usize;
        // Two host tests: is a source address given, is the destination a broadcast address.
        meter.calls_of(Routine::InLnaof, 2);
        let is_given = !header.source.is_unspecified();
        let source = if is_given { header.source } else { interface.address };
        let header = OutputHeader { source, ..*header };
        self.ip_id = self.ip_id.wrapping_add(1);
        let tos = if packet.mark.is_some() { self.personality.ip.log_tos } else { 0 };
        let whole = Whole { id: self.ip_id, tos, offset: 0, has_more: false };
        let len = packet.chain.len();
        if len > mtu && (len > usize::from(u16::MAX) || is_broadcast(header.destination)) {
            self.pool.m_freem(packet.chain, meter);
            return Err(SocketError::MessageSize);
        }
        self.send_whole(packet, &header, whole, hop, meter)
    }

    /// Sends a packet whole, or in fragments where its interface cannot take it whole.
    pub(super) fn send_whole(
        &mut self,
        packet: Packet,
        header: &OutputHeader,
        whole: Whole,
        hop: Hop,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        let len = packet.chain.len();
        if len > self.interfaces[usize::from(hop.interface)].mtu as usize {
            return self.send_fragments(packet, header, whole, hop, meter);
        }
        let part = Part { offset: 0, len: len - IP_HEADER_BYTES, is_last: true };
        self.send_part(packet, header, (whole, part), hop, meter)
    }

    /// The socket's cached route, or a new one that it then keeps.
    fn output_route(
        &mut self,
        destination: Ipv4Addr,
        socket: Option<SocketId>,
        meter: &mut Meter,
    ) -> Option<Route> {
        if let Some(route) = socket.and_then(|id| self.sockets[id].route.to(destination)) {
            return Some(route);
        }
        // Getting the route and letting it go are lines of ip_output itself.
        meter.charge(Routine::IpOutput, Work::walked(1));
        let route = self.routes.look_up(destination, meter)?;
        if let Some(id) = socket {
            self.sockets[id].route.set(destination, route);
        }
        Some(route)
    }

    /// Fills in the IP header of one packet or fragment and gives it to the interface.
    fn send_part(
        &mut self,
        packet: Packet,
        header: &OutputHeader,
        (whole, part): (Whole, Part),
        hop: Hop,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        debug_assert_eq!(packet.chain.len(), IP_HEADER_BYTES + part.len, "a part's length");
        let bytes = header_of(header, whole, part);
        meter.call(Routine::InCksum, Work::bytes(IP_HEADER_BYTES));
        let place = packet.chain.first().map(|first| self.pool.data_mut(first));
        match place.and_then(|data| data.first_chunk_mut()) {
            Some(place) => *place = bytes,
            None => {
                self.pool.m_freem(packet.chain, meter);
                return Err(SocketError::Invalid);
            }
        }
        self.if_output(hop.interface, hop.host, packet, meter)
    }

    /// Each fragment gets a header mbuf and a copy of its part of the payload.
    fn send_fragments(
        &mut self,
        packet: Packet,
        header: &OutputHeader,
        whole: Whole,
        hop: Hop,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        self.ip_counts.fragmented += 1;
        let mtu = self.interfaces[usize::from(hop.interface)].mtu as usize;
        let payload_bytes = packet.chain.len() - IP_HEADER_BYTES;
        let step = (mtu - IP_HEADER_BYTES) / FRAGMENT_UNIT_BYTES * FRAGMENT_UNIT_BYTES;
        let mut result = Ok(());
        for offset in (0..payload_bytes).step_by(step) {
            let len = step.min(payload_bytes - offset);
            let part = Part { offset, len, is_last: offset + len == payload_bytes };
            result = match self.fragment(&packet, part, meter) {
                Some(fragment) => self.send_part(fragment, header, (whole, part), hop, meter),
                None => Err(SocketError::NoBuffers),
            };
            if result.is_err() {
                break;
            }
        }
        self.pool.m_freem(packet.chain, meter);
        result
    }

    fn fragment(&mut self, packet: &Packet, part: Part, meter: &mut Meter) -> Option<Packet> {
        let id = self.pool.new_header(meter)?;
        let room = self.pool.trailing_room(id);
        self.pool.set_range(id, room - IP_HEADER_BYTES, IP_HEADER_BYTES);
        let mut chain = Chain::new();
        self.pool.push_back(&mut chain, id);
        let from = IP_HEADER_BYTES + part.offset;
        let Some(copy) = self.pool.m_copy(&packet.chain, from, part.len, meter) else {
            self.pool.free_chain(chain, meter);
            return None;
        };
        self.pool.append(&mut chain, copy);
        let payload_bytes = packet.chain.len() - IP_HEADER_BYTES;
        Some(Packet { chain, mark: packet.mark.map(|mark| part_of(mark, payload_bytes, part)) })
    }
}

/// The mark of one fragment: its share of the data behind the transport header.
fn part_of(mark: Mark, payload_bytes: usize, part: Part) -> Mark {
    let header_bytes = payload_bytes.saturating_sub(mark.len as usize);
    let skip = part.offset.saturating_sub(header_bytes);
    let end = (part.offset + part.len).saturating_sub(header_bytes);
    mark.part(skip as u32, (end - skip) as u32)
}

/// The header to send (RFC 791 §3.1), its checksum filled in.
fn header_of(header: &OutputHeader, whole: Whole, part: Part) -> [u8; IP_HEADER_BYTES] {
    let Whole { id, tos, offset, has_more } = whole;
    let more = if part.is_last && !has_more { 0 } else { MORE_FRAGMENTS };
    let place = more | ((offset + part.offset) / FRAGMENT_UNIT_BYTES) as u16;
    let len = (part.len + IP_HEADER_BYTES) as u16;
    let mut words = [
        0x4500_0000 | u32::from(tos) << 16 | u32::from(len),
        u32::from(id) << 16 | u32::from(place),
        u32::from(header.ttl) << 24 | u32::from(header.protocol) << 16,
        u32::from(header.source),
        u32::from(header.destination),
    ];
    let mut sum = Checksum::default();
    sum.add_header(words);
    words[2] |= u32::from(sum.finish());
    header_bytes(words)
}
