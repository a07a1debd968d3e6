//! ICMP (RFC 792): echo is answered, and errors reach the protocol that they are about. A datagram without a socket is
//! answered by "port unreachable", and a gateway answers the packets that it cannot forward.

use std::net::Ipv4Addr;

use super::{
    DEFAULT_TTL, IP_HEADER_BYTES, InputHeader, OutputHeader, PROTOCOL_ICMP, PROTOCOL_TCP,
    PROTOCOL_UDP,
};
use crate::checksum::{Checksum, checksum};
use crate::mbuf::Chain;
use crate::meter::Meter;
use crate::packet::Packet;
use crate::routine::{Routine, Work};
use crate::socket::SocketError;
use crate::stack::Stack;

/// Types of messages.
const ECHO_REPLY: u8 = 0;
const UNREACHABLE: u8 = 3;
const SOURCE_QUENCH: u8 = 4;
const ECHO: u8 = 8;
const TIME_EXCEEDED: u8 = 11;

/// Codes of "destination unreachable".
const NETWORK: u8 = 0;
const HOST: u8 = 1;
const PROTOCOL: u8 = 2;
const PORT: u8 = 3;

/// Bytes of an ICMP header.
const ICMP_HEADER_BYTES: usize = 8;

/// Bytes of the packet complained of: its IP header and eight more (RFC 792).
pub(super) const QUOTED_BYTES: usize = IP_HEADER_BYTES + 8;

/// What a host answers to a packet that goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// No socket listens at the port.
    NoPort,
    /// No route leads to the network.
    NoNetwork,
    /// The queue of the next link is full.
    Quench,
    /// The time to live is over in transit.
    TimeExceeded,
}

impl Answer {
    /// Type and code.
    fn bytes(self) -> [u8; 2] {
        match self {
            Self::NoPort => [UNREACHABLE, PORT],
            Self::NoNetwork => [UNREACHABLE, NETWORK],
            Self::Quench => [SOURCE_QUENCH, 0],
            Self::TimeExceeded => [TIME_EXCEEDED, 0],
        }
    }
}

/// An error that a protocol gets to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Complaint {
    /// Less, please.
    Quench,
    /// The host, its network or the port cannot be reached.
    Unreachable(SocketError),
}

impl Complaint {
    /// By the type and code of a message; `None` for any other.
    fn of(kind: u8, code: u8) -> Option<Self> {
        match (kind, code) {
            (SOURCE_QUENCH, _) => Some(Self::Quench),
            (UNREACHABLE, NETWORK) => Some(Self::Unreachable(SocketError::NetworkUnreachable)),
            (UNREACHABLE, HOST) => Some(Self::Unreachable(SocketError::HostUnreachable)),
            (UNREACHABLE, PROTOCOL | PORT) => {
                Some(Self::Unreachable(SocketError::ConnectionRefused))
            }
            _ => None,
        }
    }
}

impl Stack {
    /// Informs the sender of a datagram that no socket listens at its port.
    pub(crate) fn icmp_port_unreachable(
        &mut self,
        about: &Chain,
        ip: InputHeader,
        meter: &mut Meter,
    ) {
        let mut quoted = [0; QUOTED_BYTES];
        let len = self.pool.copy_to(about, 0, &mut quoted);
        let ends = (ip.destination, ip.source);
        self.icmp_error(Answer::NoPort, &quoted[..len], ends, meter);
    }

    /// `icmp_error`: an answer about the packet that begins with the quoted bytes, from the first address (unspecified:
    /// that of the interface) to the second.
    ///
    /// Nothing is sent when the pool is used up or the interface queue full.
    pub(super) fn icmp_error(
        &mut self,
        answer: Answer,
        quoted: &[u8],
        (source, destination): (Ipv4Addr, Ipv4Addr),
        meter: &mut Meter,
    ) {
        meter.call(Routine::IcmpError, Work::NONE);
        let mut bytes = [0; IP_HEADER_BYTES + ICMP_HEADER_BYTES + QUOTED_BYTES];
        let message = &mut bytes[IP_HEADER_BYTES..];
        message[..2].copy_from_slice(&answer.bytes());
        message[ICMP_HEADER_BYTES..][..quoted.len()].copy_from_slice(quoted);
        let len = ICMP_HEADER_BYTES + quoted.len();
        let sum = checksum(&message[..len]);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        meter.call(Routine::InCksum, Work::bytes(len));
        let Some(id) = self.pool.m_get(meter) else { return };
        let whole = IP_HEADER_BYTES + len;
        let offset = self.pool.trailing_room(id) - whole;
        self.pool.set_range(id, offset, whole);
        self.pool.data_mut(id).copy_from_slice(&bytes[..whole]);
        let mut chain = Chain::new();
        self.pool.push_back(&mut chain, id);
        let header =
            OutputHeader { source, destination, protocol: PROTOCOL_ICMP, ttl: DEFAULT_TTL };
        // An error message that does not get through is not complained of (RFC 1122 §3.2.2).
        let _ = self.ip_output(Packet { chain, mark: None }, &header, None, meter);
    }

    /// `icmp_input`: the packet still has its IP header.
    pub(super) fn icmp_input(&mut self, packet: Packet, ip: InputHeader, meter: &mut Meter) {
        let len = packet.chain.len().saturating_sub(IP_HEADER_BYTES);
        meter.call(Routine::IcmpInput, Work::NONE);
        let mut sum = Checksum::default();
        sum.add_chain(&self.pool, &packet.chain, IP_HEADER_BYTES);
        meter.call(Routine::InCksum, Work { mbufs: packet.chain.mbufs(), ..Work::bytes(len) });
        let mut bytes = [0; ICMP_HEADER_BYTES + QUOTED_BYTES];
        let have = self.pool.copy_to(&packet.chain, IP_HEADER_BYTES, &mut bytes);
        let is_whole = sum.is_valid() && have >= ICMP_HEADER_BYTES;
        if is_whole && bytes[..2] == [ECHO, 0] && self.has_address(ip.destination) {
            return self.icmp_reflect(packet, ip, meter);
        }
        self.pool.m_freem(packet.chain, meter);
        if !is_whole {
            self.ip_counts.icmp_bad += 1;
            return;
        }
        let quoted = &bytes[ICMP_HEADER_BYTES..];
        let complaint = Complaint::of(bytes[0], bytes[1]);
        let Some(complaint) = complaint.filter(|_| have == bytes.len() && quoted[0] == 0x45) else {
            return;
        };
        let address =
            |at: usize| Ipv4Addr::new(quoted[at], quoted[at + 1], quoted[at + 2], quoted[at + 3]);
        let port = |at: usize| u16::from_be_bytes([quoted[at], quoted[at + 1]]);
        let [local, foreign] = [(address(12), port(20)), (address(16), port(22))];
        match quoted[9] {
            PROTOCOL_TCP => self.tcp_ctlinput(complaint, local, foreign, meter),
            PROTOCOL_UDP if bytes[..2] == [UNREACHABLE, PORT] => {
                self.udp_unreachable(foreign, meter);
            }
            _ => {}
        }
    }

    /// `icmp_reflect`: an echo is returned unchanged, but for its type.
    fn icmp_reflect(&mut self, mut packet: Packet, ip: InputHeader, meter: &mut Meter) {
        if !self.pull_up(&mut packet.chain, IP_HEADER_BYTES + ICMP_HEADER_BYTES, meter) {
            return;
        }
        let Some(first) = packet.chain.first() else { return };
        let message = &mut self.pool.data_mut(first)[IP_HEADER_BYTES..];
        message[0] = ECHO_REPLY;
        // The type was the high byte of the first word, and the sum is that of the complement (RFC 1624).
        let sum = u16::from_be_bytes([message[2], message[3]]);
        let (sum, carry) = sum.overflowing_add(u16::from(ECHO) << 8);
        message[2..4].copy_from_slice(&(sum + u16::from(carry)).to_be_bytes());
        let header = OutputHeader {
            source: ip.destination,
            destination: ip.source,
            protocol: PROTOCOL_ICMP,
            ttl: DEFAULT_TTL,
        };
        // The sender of the request will ask again.
        let _ = self.ip_output(packet, &header, None, meter);
    }
}
