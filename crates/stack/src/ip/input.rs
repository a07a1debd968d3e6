//! `ipintr`: one packet of the IP input queue to its protocol.

use std::net::Ipv4Addr;

use sockscope_record::Point;

use super::{
    FRAGMENT_UNIT_BYTES, IP_HEADER_BYTES, InputHeader, MORE_FRAGMENTS, PROTOCOL_ICMP, PROTOCOL_TCP,
    PROTOCOL_UDP,
};
use crate::checksum::{Checksum, header_words};
use crate::drop_reason::DropReason;
use crate::mbuf::Chain;
use crate::meter::Meter;
use crate::packet::Packet;
use crate::route::is_broadcast;
use crate::routine::{Routine, Work};
use crate::stack::Stack;

/// Bytes of an IP header with all options that fit (RFC 791 §3.1).
const HEADER_BYTES_MAX: usize = 60;

/// The fields of the fixed header, once read.
pub(super) struct Header {
    pub(super) fields: InputHeader,
    header_bytes: usize,
    /// Time to live, in hops.
    pub(super) ttl: u8,
    /// Bytes of the packet.
    total_bytes: usize,
    /// Of the fixed header.
    sum: Checksum,
    /// Identification, offset in bytes, and whether more follows.
    pub(super) fragment: (u16, usize, bool),
}

impl Stack {
    /// The soft interrupt: takes one packet from the IP input queue (point 6) and hands it up.
    ///
    /// `true` when there was one: call again. The loop over the queue is one call of `ipintr`,
    /// which ends with the first call that finds the queue empty and returns `false`.
    pub fn ip_input_step(&mut self, meter: &mut Meter) -> bool {
        if self.ends_input() {
            return false;
        }
        self.take_input(meter);
        true
    }

    fn take_input(&mut self, meter: &mut Meter) {
        let Some((interface, packet)) = self.ip_queue.pop_front() else { return };
        if self.is_draining {
            meter.charge(Routine::Ipintr, Work::mbufs(1));
        } else {
            meter.call(Routine::Ipintr, Work::mbufs(1));
        }
        self.is_draining = true;
        self.ip_counts.received += 1;
        self.ip_input(interface, packet, meter);
    }

    /// Whether the soft interrupt is in the middle of the queue: its next packet is not its first.
    pub fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Whether the soft interrupt finds its queue empty and ends, as [`Stack::ip_input_step`] without
    /// a packet would.
    pub fn ends_input(&mut self) -> bool {
        let ends = self.ip_queue.is_empty();
        if ends {
            self.is_draining = false;
        }
        ends
    }

    /// The packet that [`Stack::ip_input_step`] will take next.
    pub fn next_input(&self) -> Option<&Packet> {
        self.ip_queue.front().map(|(_, packet)| packet)
    }

    fn ip_input(&mut self, interface: u8, mut packet: Packet, meter: &mut Meter) {
        if !self.pull_up(&mut packet.chain, IP_HEADER_BYTES, meter) {
            self.ip_counts.too_short += 1;
            return;
        }
        let header = match self.read_header(&mut packet, interface, meter) {
            Ok(header) => header,
            Err(reason) => return self.drop_packet(packet, reason, Point::InputDequeue, meter),
        };
        if !self.is_for_us(header.fields.destination) {
            return self.pass_on(packet, &header, meter);
        }
        if header.header_bytes > IP_HEADER_BYTES {
            self.strip_options(&mut packet, header.header_bytes, meter);
        }
        let mut fields = header.fields;
        if header.is_fragment() {
            let Some(whole) = self.take_fragment(&mut packet, interface, meter) else { return };
            fields = whole;
        }
        self.protocol_input(&mut packet, fields, meter);
    }

    /// Leaves the whole packet in place of its last fragment; `None` for any other.
    fn take_fragment(
        &mut self,
        packet: &mut Packet,
        interface: u8,
        meter: &mut Meter,
    ) -> Option<InputHeader> {
        self.ip_counts.fragments += 1;
        let header = self.header_of(&packet.chain, interface)?;
        let (whole, fields) = self.ip_reass(packet.take(), &header, meter)?;
        *packet = whole;
        Some(fields)
    }

    /// The fixed header; `None` for another version, a short one, or one not in one mbuf.
    fn header_of(&self, chain: &Chain, interface: u8) -> Option<Header> {
        let first = chain.first().map_or(&[][..], |first| self.pool.data(first));
        header_words(first).and_then(|words| Header::of(words, interface))
    }

    /// Makes the first `len` bytes contiguous in a plain mbuf, if they are not; `false`, the
    /// packet's chain freed, when it is shorter or the pool is used up.
    pub(crate) fn pull_up(&mut self, chain: &mut Chain, len: usize, meter: &mut Meter) -> bool {
        let Some(first) = chain.first() else { return false };
        let is_whole = self.pool.len(first) >= len;
        if is_whole && (self.pool.is_plain(first) || !self.personality.ip.pulls_up_clusters) {
            return true;
        }
        self.pool.m_pullup(chain, len, meter)
    }

    /// Checks header and length and cuts the bytes behind the packet's end.
    fn read_header(
        &mut self,
        packet: &mut Packet,
        interface: u8,
        meter: &mut Meter,
    ) -> Result<Header, DropReason> {
        let header = self.header_of(&packet.chain, interface);
        let Some(header) = header.filter(|header| header.header_bytes <= packet.chain.len()) else {
            self.ip_counts.bad_headers += 1;
            return Err(DropReason::Malformed);
        };
        meter.call(Routine::InCksum, Work::bytes(header.header_bytes));
        let mut sum = header.sum;
        if header.header_bytes > IP_HEADER_BYTES {
            sum = self.with_options(sum, &packet.chain, header.header_bytes);
        }
        if !sum.is_valid() {
            self.ip_counts.bad_checksums += 1;
            return Err(DropReason::BadChecksum);
        }
        if header.total_bytes < header.header_bytes || header.total_bytes > packet.chain.len() {
            self.ip_counts.too_short += 1;
            return Err(DropReason::Malformed);
        }
        if header.total_bytes < packet.chain.len() {
            let beyond = packet.chain.len() - header.total_bytes;
            self.pool.m_adj(&mut packet.chain, -(beyond as i32), meter);
        }
        Ok(header)
    }

    fn with_options(&self, mut sum: Checksum, chain: &Chain, header_bytes: usize) -> Checksum {
        let mut options = [0; HEADER_BYTES_MAX - IP_HEADER_BYTES];
        let options = &mut options[..header_bytes - IP_HEADER_BYTES];
        self.pool.copy_to(chain, IP_HEADER_BYTES, options);
        sum.add(options);
        sum
    }

    fn is_for_us(&self, destination: Ipv4Addr) -> bool {
        // An address of all ones or zeros counts if one of our networks is meant, or all.
        self.has_address(destination)
            || destination.is_broadcast()
            || is_broadcast(destination) && self.is_local(destination)
    }

    pub(super) fn strip_options(
        &mut self,
        packet: &mut Packet,
        header_bytes: usize,
        meter: &mut Meter,
    ) {
        let Some(first) = packet.chain.first() else { return };
        let mut fixed = [0; IP_HEADER_BYTES];
        fixed.copy_from_slice(&self.pool.data(first)[..IP_HEADER_BYTES]);
        self.pool.drop_front(&mut packet.chain, header_bytes, meter);
        let rest = packet.chain.take();
        if let Some(mut chain) = self.pool.chain_of(&fixed, meter) {
            self.pool.append(&mut chain, rest);
            packet.chain = chain;
        } else {
            packet.chain = rest;
        }
    }

    fn protocol_input(&mut self, packet: &mut Packet, header: InputHeader, meter: &mut Meter) {
        match header.protocol {
            PROTOCOL_TCP => self.tcp_input(packet, header, meter),
            _ => self.other_input(packet.take(), header, meter),
        }
    }

    fn other_input(&mut self, packet: Packet, header: InputHeader, meter: &mut Meter) {
        match header.protocol {
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
    /// Bytes of the header with its options.
    pub(super) fn bytes(&self) -> usize {
        self.header_bytes
    }

    fn is_fragment(&self) -> bool {
        let (_, offset, more) = self.fragment;
        offset > 0 || more
    }

    /// The header in the fixed words (RFC 791 §3.1); `None` for one of another version or too short
    /// for itself.
    fn of(words: [u32; 5], interface: u8) -> Option<Self> {
        let [version, identification, protocol, source, destination] = words;
        let header_bytes = (version >> 24 & 0xf) as usize * 4;
        if version >> 28 != 4 || header_bytes < IP_HEADER_BYTES {
            return None;
        }
        let total_bytes = (version & 0xffff) as usize;
        let fields = InputHeader {
            source: source.into(),
            destination: destination.into(),
            protocol: (protocol >> 16) as u8,
            payload_bytes: total_bytes.saturating_sub(header_bytes) as u16,
            tos: (version >> 16) as u8,
            interface,
        };
        let offset = (identification & 0x1fff) as usize * FRAGMENT_UNIT_BYTES;
        let has_more = identification as u16 & MORE_FRAGMENTS != 0;
        let fragment = ((identification >> 16) as u16, offset, has_more);
        let mut sum = Checksum::default();
        sum.add_header(words);
        let ttl = (protocol >> 24) as u8;
        Some(Self { fields, header_bytes, ttl, total_bytes, sum, fragment })
    }
}
