//! `ipintr`: one packet of the IP input queue to its protocol.

use std::net::Ipv4Addr;

use etherparse::Ipv4HeaderSlice;
use sockscope_record::Point;

use super::{IP_HEADER_BYTES, InputHeader, PROTOCOL_ICMP, PROTOCOL_TCP, PROTOCOL_UDP};
use crate::checksum::checksum;
use crate::meter::Meter;
use crate::observe::DropReason;
use crate::packet::Packet;
use crate::route::is_broadcast;
use crate::routine::{Routine, Work};
use crate::stack::Stack;

/// Bytes of an IP header with all options that fit (RFC 791 §3.1).
const HEADER_BYTES_MAX: usize = 60;

/// What the fixed header says, once it has been read.
pub(super) struct Header {
    pub(super) fields: InputHeader,
    header_bytes: usize,
    /// Identification, offset in bytes, and whether more follows.
    pub(super) fragment: (u16, usize, bool),
}

impl Stack {
    /// The soft interrupt: takes one packet from the IP input queue (point 6) and hands it up.
    ///
    /// `true` when there was one: call again. The loop over the queue is one call of `ipintr`,
    /// which ends with the first call that finds the queue empty and returns `false`.
    pub fn ip_input_step(&mut self, meter: &mut Meter) -> bool {
        let Some((interface, packet)) = self.ip_queue.pop_front() else {
            self.is_draining = false;
            return false;
        };
        if self.is_draining {
            meter.charge(Routine::Ipintr, Work::mbufs(1));
        } else {
            meter.call(Routine::Ipintr, Work::mbufs(1));
        }
        self.is_draining = true;
        self.ip_counts.received += 1;
        self.ip_input(interface, packet, meter);
        true
    }

    /// Whether the soft interrupt is in the middle of the queue: its next packet is not its first.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// The packet that [`Stack::ip_input_step`] will take next.
    #[must_use]
    pub fn next_input(&self) -> Option<&Packet> {
        self.ip_queue.front().map(|(_, packet)| packet)
    }

    fn ip_input(&mut self, interface: u8, packet: Packet, meter: &mut Meter) {
        let Some(mut packet) = self.pull_up(packet, IP_HEADER_BYTES, meter) else {
            self.ip_counts.too_short += 1;
            return;
        };
        let header = match self.read_header(&mut packet, interface, meter) {
            Ok(header) => header,
            Err(reason) => return self.drop_packet(packet, reason, Point::InputDequeue, meter),
        };
        if !self.is_for_us(header.fields.destination) {
            self.ip_counts.not_for_us += 1;
            return self.drop_packet(packet, DropReason::NotForUs, Point::InputDequeue, meter);
        }
        self.strip_options(&mut packet, &header, meter);
        let (_, offset, more) = header.fragment;
        if offset > 0 || more {
            self.ip_counts.fragments += 1;
            if let Some((packet, fields)) = self.ip_reass(packet, &header, meter) {
                self.protocol_input(packet, fields, meter);
            }
        } else {
            self.protocol_input(packet, header.fields, meter);
        }
    }

    /// Makes the first `len` bytes contiguous in a plain mbuf, if they are not; `None`, the packet
    /// freed, when it is shorter or the pool is used up.
    pub(crate) fn pull_up(
        &mut self,
        packet: Packet,
        len: usize,
        meter: &mut Meter,
    ) -> Option<Packet> {
        let Packet { chain, mark } = packet;
        let first = chain.first()?;
        let is_whole = self.pool.len(first) >= len;
        if is_whole && (self.pool.is_plain(first) || !self.personality.ip.pulls_up_clusters) {
            return Some(Packet { chain, mark });
        }
        Some(Packet { chain: self.pool.m_pullup(chain, len, meter)?, mark })
    }

    /// Checks header and length and cuts what is behind the packet's end.
    fn read_header(
        &mut self,
        packet: &mut Packet,
        interface: u8,
        meter: &mut Meter,
    ) -> Result<Header, DropReason> {
        let first = packet.chain.first().map_or(&[][..], |first| self.pool.data(first));
        let has_options = first.first() != Some(&0x45);
        let mut copy = [0; HEADER_BYTES_MAX];
        let header = if has_options {
            let have = self.pool.copy_to(&packet.chain, 0, &mut copy);
            &copy[..have]
        } else {
            first
        };
        let Ok(slice) = Ipv4HeaderSlice::from_slice(header) else {
            self.ip_counts.bad_headers += 1;
            return Err(DropReason::Malformed);
        };
        let bytes = slice.slice();
        meter.call(Routine::InCksum, Work::bytes(bytes.len()));
        if checksum(bytes) != 0 {
            self.ip_counts.bad_checksums += 1;
            return Err(DropReason::BadChecksum);
        }
        let total = usize::from(slice.total_len());
        if total < bytes.len() || total > packet.chain.len() {
            self.ip_counts.too_short += 1;
            return Err(DropReason::Malformed);
        }
        let header = Header::of(&slice, interface);
        if total < packet.chain.len() {
            let beyond = packet.chain.len() - total;
            self.pool.m_adj(&mut packet.chain, -(beyond as i32), meter);
        }
        Ok(header)
    }

    fn is_for_us(&self, destination: Ipv4Addr) -> bool {
        // An address of all ones or zeros counts if one of our networks is meant, or all.
        self.has_address(destination)
            || destination.is_broadcast()
            || is_broadcast(destination) && self.is_local(destination)
    }

    fn strip_options(&mut self, packet: &mut Packet, header: &Header, meter: &mut Meter) {
        if header.header_bytes > IP_HEADER_BYTES {
            self.strip_some_options(packet, header, meter);
        }
    }

    #[cold]
    fn strip_some_options(&mut self, packet: &mut Packet, header: &Header, meter: &mut Meter) {
        let Some(first) = packet.chain.first() else { return };
        let mut fixed = [0; IP_HEADER_BYTES];
        fixed.copy_from_slice(&self.pool.data(first)[..IP_HEADER_BYTES]);
        self.pool.drop_front(&mut packet.chain, header.header_bytes, meter);
        let rest = packet.chain.take();
        if let Some(mut chain) = self.pool.chain_of(&fixed, meter) {
            self.pool.append(&mut chain, rest);
            packet.chain = chain;
        } else {
            packet.chain = rest;
        }
    }

    fn protocol_input(&mut self, packet: Packet, header: InputHeader, meter: &mut Meter) {
        match header.protocol {
            PROTOCOL_TCP => self.tcp_input(packet, header, meter),
            PROTOCOL_UDP => self.udp_input(packet, header, meter),
            PROTOCOL_ICMP => self.icmp_input(packet, header, meter),
            _ => {
                self.ip_counts.no_protocol += 1;
                self.drop_packet(packet, DropReason::NotForUs, Point::InputDequeue, meter);
            }
        }
    }
}

impl Header {
    fn of(slice: &Ipv4HeaderSlice<'_>, interface: u8) -> Self {
        let header_bytes = slice.slice().len();
        let fields = InputHeader {
            source: slice.source_addr(),
            destination: slice.destination_addr(),
            protocol: slice.protocol().0,
            payload_bytes: slice.total_len() - header_bytes as u16,
            tos: slice.slice()[1],
            interface,
        };
        let offset = usize::from(slice.fragments_offset().value()) * 8;
        let fragment = (slice.identification(), offset, slice.more_fragments());
        Self { fields, header_bytes, fragment }
    }
}
