//! The one ICMP message that the model needs: destination unreachable, port (RFC 792).

use super::{DEFAULT_TTL, IP_HEADER_BYTES, InputHeader, OutputHeader, PROTOCOL_ICMP, PROTOCOL_UDP};
use crate::checksum::{Checksum, checksum};
use crate::mbuf::Chain;
use crate::meter::Meter;
use crate::packet::Packet;
use crate::routine::{Routine, Work};
use crate::stack::Stack;

/// Type of "destination unreachable".
const UNREACHABLE: u8 = 3;

/// Its code for a port.
const PORT: u8 = 3;

/// Bytes of an ICMP header.
const ICMP_HEADER_BYTES: usize = 8;

/// Bytes of the packet complained of: its IP header and eight more (RFC 792).
const QUOTED_BYTES: usize = IP_HEADER_BYTES + 8;

impl Stack {
    /// `icmp_error`: tells the sender of a datagram that no socket listens at its port.
    ///
    /// Nothing is sent when the pool is used up or the interface queue full.
    pub(crate) fn icmp_port_unreachable(
        &mut self,
        about: &Chain,
        ip: InputHeader,
        meter: &mut Meter,
    ) {
        meter.call(Routine::IcmpError, Work::NONE);
        let mut bytes = [0; IP_HEADER_BYTES + ICMP_HEADER_BYTES + QUOTED_BYTES];
        let message = &mut bytes[IP_HEADER_BYTES..];
        message[..2].copy_from_slice(&[UNREACHABLE, PORT]);
        let quoted = self.pool.copy_to(about, 0, &mut message[ICMP_HEADER_BYTES..]);
        let len = ICMP_HEADER_BYTES + quoted;
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
        let header = OutputHeader {
            source: ip.destination,
            destination: ip.source,
            protocol: PROTOCOL_ICMP,
            ttl: DEFAULT_TTL,
        };
        // An error message that does not get through is not complained of (RFC 1122 §3.2.2).
        let _ = self.ip_output(Packet { chain, mark: None }, &header, None, meter);
    }

    /// `icmp_input`: the packet still has its IP header.
    pub(super) fn icmp_input(&mut self, packet: Packet, _ip: InputHeader, meter: &mut Meter) {
        let len = packet.chain.len().saturating_sub(IP_HEADER_BYTES);
        meter.call(Routine::IcmpInput, Work::NONE);
        let mut sum = Checksum::default();
        sum.add_chain(&self.pool, &packet.chain, IP_HEADER_BYTES);
        meter.call(Routine::InCksum, Work { mbufs: packet.chain.mbufs(), ..Work::bytes(len) });
        let mut bytes = [0; ICMP_HEADER_BYTES + QUOTED_BYTES];
        let have = self.pool.copy_to(&packet.chain, IP_HEADER_BYTES, &mut bytes);
        self.pool.m_freem(packet.chain, meter);
        if !sum.is_valid() || have < ICMP_HEADER_BYTES {
            self.ip_counts.icmp_bad += 1;
            return;
        }
        let quoted = &bytes[ICMP_HEADER_BYTES..];
        let is_ours = bytes[..2] == [UNREACHABLE, PORT] && quoted[0] == 0x45;
        if have == bytes.len() && is_ours && quoted[9] == PROTOCOL_UDP {
            let [.., a, b, c, d] = quoted[..IP_HEADER_BYTES] else { return };
            let port = u16::from_be_bytes([quoted[22], quoted[23]]);
            self.udp_unreachable(([a, b, c, d].into(), port), meter);
        }
    }
}
