//! `ip_forward`: a gateway sends a packet for another host on.

#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;

use sockscope_record::Point;

use super::icmp::{Answer, QUOTED_BYTES};
use super::input::Header;
use super::output::{Hop, Whole};
use super::{IP_HEADER_BYTES, OutputHeader, PROTOCOL_ICMP};
use crate::drop_reason::DropReason;
use crate::meter::Meter;
use crate::packet::Packet;
use crate::route::is_broadcast;
use crate::routine::{Routine, Work};
use crate::stack::Stack;

impl Stack {
    /// Sends a packet on, with a hop less to live. One that goes no further is answered by ICMP, unless it is itself a
    /// message of ICMP or not the first fragment (RFC 1009 §2.2).
    ///
    /// The gateway has no probes: it makes no record of the packet, whose mark travels on. Routing, header and checksum
    /// have their own cost; the rest of `ip_forward` is charged as `ip_output`. There are no redirects.
    pub(super) fn ip_forward(&mut self, mut packet: Packet, header: &Header, meter: &mut Meter) {
        let fields = header.fields;
        let mut quoted = [0; QUOTED_BYTES];
        let len = self.pool.copy_to(&packet.chain, 0, &mut quoted);
        meter.call(Routine::IpOutput, Work::NONE);
        let answer = if header.ttl <= 1 {
            self.ip_counts.time_exceeded += 1;
            Some(Answer::TimeExceeded)
        } else if is_broadcast(fields.destination) {
            // A broadcast of another network stays there.
            self.ip_counts.not_for_us += 1;
            return self.pool.m_freem(packet.chain, meter);
        } else {
            self.send_on(packet.take(), header, meter)
        };
        self.pool.m_freem(packet.chain, meter);
        let (_, offset, _) = header.fragment;
        let is_answered = fields.protocol != PROTOCOL_ICMP && offset == 0;
        if let Some(answer) = answer.filter(|_| is_answered) {
            let ends = (Ipv4Addr::UNSPECIFIED, fields.source);
            self.icmp_error(answer, &quoted[..len], ends, meter);
        }
    }

    /// The answer to its sender, if it does not go on.
    fn send_on(&mut self, packet: Packet, header: &Header, meter: &mut Meter) -> Option<Answer> {
        let fields = header.fields;
        let Some(route) = self.routes.look_up(fields.destination, meter) else {
            self.ip_counts.no_route += 1;
            self.pool.m_freem(packet.chain, meter);
            return Some(Answer::NoNetwork);
        };
        let hop = Hop::by(route, fields.destination);
        let (id, offset, has_more) = header.fragment;
        let whole = Whole { id, tos: fields.tos, offset, has_more };
        let sent = OutputHeader {
            source: fields.source,
            destination: fields.destination,
            protocol: fields.protocol,
            ttl: header.ttl - 1,
        };
        match self.send_whole(packet, &sent, whole, hop, meter) {
            Ok(()) => {
                self.ip_counts.forwarded += 1;
                None
            }
            Err(_) => {
                self.ip_counts.not_forwarded += 1;
                Some(Answer::Quench)
            }
        }
    }

    /// A packet for another host.
    pub(super) fn pass_on(&mut self, mut packet: Packet, header: &Header, meter: &mut Meter) {
        if !self.config.forwards {
            self.ip_counts.not_for_us += 1;
            return self.drop_packet(packet, DropReason::NotForUs, Point::InputDequeue, meter);
        }
        if header.bytes() > IP_HEADER_BYTES {
            let len = packet.chain.len() - (header.bytes() - IP_HEADER_BYTES);
            self.strip_options(&mut packet, header.bytes(), meter);
            if packet.chain.len() < len {
                // No mbuf was left for the header.
                self.ip_counts.not_forwarded += 1;
                return self.pool.m_freem(packet.chain, meter);
            }
        }
        self.ip_forward(packet, header, meter);
    }
}
