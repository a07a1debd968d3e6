//! UDP (RFC 768) as the BSD systems had it.

mod rules;
#[cfg(test)]
mod tests;

use sockscope_record::{Hold, Point, Protocol};

use crate::checksum::Checksum;
use crate::drop_reason::DropReason;
use crate::effect::Effect;
use crate::ip::{DEFAULT_TTL, IP_HEADER_BYTES, InputHeader, OutputHeader, PROTOCOL_UDP};
use crate::mbuf::Chain;
use crate::meter::Meter;
use crate::packet::{Mark, Packet};
use crate::request::Request;
use crate::route::is_broadcast;
use crate::routine::{Routine, Work};
use crate::socket::{ANY, Endpoint, SocketError, SocketId};
use crate::stack::Stack;

pub use rules::{UdpHeader, UdpRules};

/// Bytes of a UDP header.
pub const UDP_HEADER_BYTES: usize = 8;

/// Bytes of both headers, which share an mbuf.
const HEADERS_BYTES: usize = IP_HEADER_BYTES + UDP_HEADER_BYTES;

impl Stack {
    /// `udp_usrreq`
    pub(crate) fn udp_usrreq(
        &mut self,
        id: SocketId,
        request: Request,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        meter.call(Routine::UdpUsrreq, Work::NONE);
        match request {
            Request::Attach => {
                self.in_pcballoc(id);
                self.soreserve(id);
                Ok(())
            }
            Request::Detach | Request::Abort => {
                self.in_pcbdetach(id, meter);
                Ok(())
            }
            Request::Connect(foreign) => {
                if self.sockets[id].foreign != ANY {
                    return Err(SocketError::IsConnected);
                }
                self.in_pcbconnect(id, foreign, meter)?;
                self.soisconnected(id, meter);
                Ok(())
            }
            Request::Disconnect => {
                self.in_pcbdisconnect(id, meter);
                self.sockets[id].state.is_connected = false;
                Ok(())
            }
            Request::Shutdown => {
                self.socantsendmore(id, meter);
                Ok(())
            }
            Request::Listen | Request::Accept => Err(SocketError::NotSupported),
        }
    }

    /// As [`Stack::udp_usrreq`], of `PRU_RCVD`.
    pub(crate) fn udp_pru_rcvd(&mut self, meter: &mut Meter) -> Result<(), SocketError> {
        meter.call(Routine::UdpUsrreq, Work::NONE);
        Ok(())
    }

    /// As [`Stack::udp_usrreq`], of `PRU_SEND`: a datagram with a destination connects the socket
    /// for as long as it takes.
    pub(crate) fn udp_pru_send(
        &mut self,
        id: SocketId,
        data: Chain,
        to: Option<Endpoint>,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        meter.call(Routine::UdpUsrreq, Work::NONE);
        let own_address = self.sockets[id].local.0;
        let connected = match to {
            Some(_) if self.sockets[id].foreign != ANY => Err(SocketError::IsConnected),
            Some(foreign) => self.in_pcbconnect(id, foreign, meter),
            None if self.sockets[id].foreign == ANY => Err(SocketError::NotConnected),
            None => Ok(()),
        };
        if let Err(error) = connected {
            self.pool.m_freem(data, meter);
            return Err(error);
        }
        let result = self.udp_output(id, data, meter);
        if to.is_some() {
            self.in_pcbdisconnect(id, meter);
            self.sockets[id].local.0 = own_address;
        }
        result
    }

    fn udp_output(
        &mut self,
        id: SocketId,
        data: Chain,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        meter.call(Routine::UdpOutput, Work::NONE);
        let len = data.len();
        let mark = self.udp_mark(id, len, meter);
        let mut chain = data;
        if !self.udp_header_room(&mut chain, meter) {
            self.pool.m_freem(chain, meter);
            return Err(SocketError::NoBuffers);
        }
        let socket = &self.sockets[id];
        let (local, foreign) = (socket.local, socket.foreign);
        let mut header = udp_header(local, foreign, len);
        if self.personality.udp.sums_output {
            let mut sum = pseudo_header(local, foreign, len + UDP_HEADER_BYTES);
            sum.add(&header);
            sum.add_chain(&self.pool, &chain, HEADERS_BYTES);
            meter
                .call(Routine::UdpCksum, Work { mbufs: chain.mbufs(), ..Work::bytes(chain.len()) });
            // Zero would mean that it is missing (RFC 768).
            let sum = match sum.finish() {
                0 => 0xffff,
                sum => sum,
            };
            header[6..].copy_from_slice(&sum.to_be_bytes());
        }
        if let Some(first) = chain.first() {
            let place = &mut self.pool.data_mut(first)[IP_HEADER_BYTES..HEADERS_BYTES];
            place.copy_from_slice(&header);
        }
        if !self.personality.udp.caches_route {
            self.sockets[id].route.clear();
        }
        let (source, destination) = (local.0, foreign.0);
        let header = OutputHeader { source, destination, protocol: PROTOCOL_UDP, ttl: DEFAULT_TTL };
        self.ip_output(Packet { chain, mark }, &header, Some(id), meter)
    }

    /// Points 1 and 2 are one: nothing waits in the send buffer. The mark for the points below.
    fn udp_mark(&mut self, id: SocketId, len: usize, meter: &mut Meter) -> Option<Mark> {
        let socket = &mut self.sockets[id];
        socket.observe_send_enqueue(len, || Hold::None, meter);
        let offset = socket.snd.pass(len);
        let number = socket.datagrams.0;
        socket.datagrams.0 += 1;
        let flow = socket.log?;
        let mark = Mark { flow, offset, number, len: len as u32, ..Mark::default() };
        meter.effect(Effect::Observed(mark.record(Point::SendDequeue)));
        Some(mark)
    }

    /// Makes room for both headers before the data.
    fn udp_header_room(&mut self, chain: &mut Chain, meter: &mut Meter) -> bool {
        let rule = self.personality.udp.header;
        let has_room =
            chain.first().is_some_and(|first| self.pool.leading_room(first) >= HEADERS_BYTES);
        if rule == UdpHeader::InPlace && has_room {
            return self.pool.prepend(chain, HEADERS_BYTES, meter);
        }
        let id = match rule {
            UdpHeader::Function => self.pool.m_get(meter),
            UdpHeader::Macro | UdpHeader::InPlace => self.pool.new_header(meter),
        };
        let Some(id) = id else { return false };
        // At the end, so that link headers find room before them.
        let offset = self.pool.trailing_room(id) - HEADERS_BYTES;
        self.pool.set_range(id, offset, HEADERS_BYTES);
        self.pool.push_front(chain, id);
        true
    }

    /// `udp_input`: the packet still has its IP header.
    pub(crate) fn udp_input(&mut self, mut packet: Packet, ip: InputHeader, meter: &mut Meter) {
        meter.call(Routine::UdpInput, Work::NONE);
        if !self.pull_up(&mut packet.chain, HEADERS_BYTES, meter) {
            self.ip_counts.udp_bad_lengths += 1;
            return;
        }
        let Some((source_port, port, has_sum)) = self.read_udp_header(&mut packet, ip, meter)
        else {
            self.ip_counts.udp_bad_lengths += 1;
            self.pool.m_freem(packet.chain, meter);
            return;
        };
        if has_sum
            && self.personality.udp.checks_input
            && !self.is_udp_sum_valid(&packet, ip, meter)
        {
            self.ip_counts.udp_bad_checksums += 1;
            return self.drop_packet(packet, DropReason::BadChecksum, Point::InputDequeue, meter);
        }
        let (from, to) = ((ip.source, source_port), (ip.destination, port));
        // A broadcast reaches the socket that left its address open.
        match self.in_pcblookup(Protocol::Udp, from, to, true, meter) {
            Some(id) => self.udp_deliver(id, from, packet, meter),
            None => {
                self.ip_counts.udp_no_port += 1;
                self.udp_no_port(packet, ip, meter);
            }
        }
    }

    /// Source port, destination port and whether there is a checksum; the packet is cut to the
    /// length in its header. `None` when that is impossible.
    fn read_udp_header(
        &mut self,
        packet: &mut Packet,
        ip: InputHeader,
        meter: &mut Meter,
    ) -> Option<(u16, u16, bool)> {
        let mut bytes = [0; HEADERS_BYTES];
        self.pool.copy_to(&packet.chain, 0, &mut bytes);
        let word = |at: usize| {
            let at = IP_HEADER_BYTES + at;
            u16::from_be_bytes([bytes[at], bytes[at + 1]])
        };
        let len = usize::from(word(4));
        if len < UDP_HEADER_BYTES || len > usize::from(ip.payload_bytes) {
            return None;
        }
        let beyond = usize::from(ip.payload_bytes) - len;
        if beyond > 0 {
            self.pool.m_adj(&mut packet.chain, -(beyond as i32), meter);
        }
        Some((word(0), word(2), word(6) != 0))
    }

    fn is_udp_sum_valid(&self, packet: &Packet, ip: InputHeader, meter: &mut Meter) -> bool {
        let chain = &packet.chain;
        meter.call(Routine::UdpCksum, Work { mbufs: chain.mbufs(), ..Work::bytes(chain.len()) });
        let len = chain.len() - IP_HEADER_BYTES;
        let mut sum = pseudo_header((ip.source, 0), (ip.destination, 0), len);
        sum.add_chain(&self.pool, chain, IP_HEADER_BYTES);
        sum.is_valid()
    }

    fn udp_deliver(&mut self, id: SocketId, from: Endpoint, packet: Packet, meter: &mut Meter) {
        let Packet { mut chain, mark } = packet;
        self.pool.drop_front(&mut chain, HEADERS_BYTES, meter);
        let socket = &mut self.sockets[id];
        let waited_for = socket.rcv.is_waited_for;
        let rules = &self.personality.socket.buffers;
        let appended = socket.rcv.append_datagram(from, chain, mark, rules, &mut self.pool, meter);
        if let Err(chain) = appended {
            self.ip_counts.udp_full += 1;
            let packet = Packet { chain, mark };
            let reason = DropReason::ReceiveBufferFull;
            return self.drop_packet(packet, reason, Point::InputDequeue, meter);
        }
        self.observe_datagram(mark, waited_for, meter);
        self.sorwakeup(id, meter);
    }

    fn udp_no_port(&mut self, packet: Packet, ip: InputHeader, meter: &mut Meter) {
        if self.config.answers_unreachable && !is_broadcast(ip.destination) {
            self.icmp_port_unreachable(&packet.chain, ip, meter);
        }
        self.drop_packet(packet, DropReason::NoSocket, Point::InputDequeue, meter);
    }

    /// A peer has no socket at its port: the sockets connected to it get an error.
    pub(crate) fn udp_unreachable(&mut self, foreign: Endpoint, meter: &mut Meter) {
        if !self.personality.udp.reports_unreachable {
            return;
        }
        let sockets = self.pcbs.of(Protocol::Udp).sockets.len();
        meter.call(Routine::InPcbnotify, Work::walked(sockets as u32));
        for at in 0..sockets {
            let id = self.pcbs.of(Protocol::Udp).sockets[at];
            if self.sockets[id].foreign == foreign {
                self.sockets[id].error = Some(SocketError::ConnectionRefused);
                self.sorwakeup(id, meter);
                self.sowwakeup(id, meter);
            }
        }
    }
}

fn udp_header(local: Endpoint, foreign: Endpoint, len: usize) -> [u8; UDP_HEADER_BYTES] {
    let mut header = [0; UDP_HEADER_BYTES];
    header[..2].copy_from_slice(&local.1.to_be_bytes());
    header[2..4].copy_from_slice(&foreign.1.to_be_bytes());
    header[4..6].copy_from_slice(&((len + UDP_HEADER_BYTES) as u16).to_be_bytes());
    header
}

fn pseudo_header(source: Endpoint, destination: Endpoint, len: usize) -> Checksum {
    let (source, destination) = (source.0.octets(), destination.0.octets());
    Checksum::of_pseudo_header(source, destination, PROTOCOL_UDP, len as u16)
}
