//! IP (RFC 791): output, the input queue, fragments, and ICMP: echo, and errors for UDP and TCP.
//!
//! A packet for another host is counted and dropped, or sent on by a gateway ([`StackConfig::forwards`]).
//! Options of received packets are taken off unread, none are sent.
//!
//! [`StackConfig::forwards`]: crate::StackConfig::forwards

mod forward;
mod fragments;
mod icmp;
mod input;
mod output;
mod reassembly;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;

pub use crate::pcb::LocalAddress;

pub use fragments::FragmentQueues;
pub(crate) use icmp::Complaint;

/// Bytes of an IP header without options.
pub const IP_HEADER_BYTES: usize = 20;

/// "More fragments" in the flags and offset field.
const MORE_FRAGMENTS: u16 = 0x2000;

/// Fragment offsets count units of so many bytes.
const FRAGMENT_UNIT_BYTES: usize = 8;

/// Protocol number of ICMP.
pub const PROTOCOL_ICMP: u8 = 1;
/// Protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;
/// Protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

/// Time to live of packets other than TCP's (`MAXTTL`).
pub const DEFAULT_TTL: u8 = 255;

/// Rules of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpRules {
    /// Calls of the 500 ms timer that an incomplete packet is kept for.
    pub fragment_ttl: u8,
    /// Headers that lie in a cluster are pulled up even if they are whole there.
    pub pulls_up_clusters: bool,
    /// The choice of a local address for a peer.
    pub local_address: LocalAddress,
    /// Bits of the type-of-service byte that mark a logged packet; 0 for none.
    pub log_tos: u8,
}

/// The parameters of `ip_output` in addition to the packet's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputHeader {
    /// Own address; unspecified for that of the interface used.
    pub source: Ipv4Addr,
    /// The peer's.
    pub destination: Ipv4Addr,
    /// As [`PROTOCOL_TCP`].
    pub protocol: u8,
    /// Time to live, in hops.
    pub ttl: u8,
}

/// The header of a received packet, without its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputHeader {
    /// The sender.
    pub source: Ipv4Addr,
    /// An address of this host, or a broadcast address.
    pub destination: Ipv4Addr,
    /// As [`PROTOCOL_TCP`].
    pub protocol: u8,
    /// Bytes behind the IP header, which the chain holds too.
    pub payload_bytes: u16,
    /// Type of service as received.
    pub tos: u8,
    /// The interface that received it.
    pub interface: u8,
}

/// Packets that IP and its neighbours dropped, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IpCounts {
    /// Packets received.
    pub received: u64,
    /// Header too short, too long or not of version 4.
    pub bad_headers: u64,
    /// Header checksum wrong.
    pub bad_checksums: u64,
    /// Shorter than the length in its header.
    pub too_short: u64,
    /// For another host, and not sent on.
    pub not_for_us: u64,
    /// For another host, and sent on.
    pub forwarded: u64,
    /// To be sent on, but without room in the next queue or without mbufs.
    pub not_forwarded: u64,
    /// To be sent on, but their time to live was over.
    pub time_exceeded: u64,
    /// For a protocol without a handler.
    pub no_protocol: u64,
    /// Fragments received.
    pub fragments: u64,
    /// Fragments dropped: no room, damaged, or their packet never became complete.
    pub fragments_dropped: u64,
    /// Packets sent in fragments.
    pub fragmented: u64,
    /// Packets that found no route.
    pub no_route: u64,
    /// UDP: shorter than the length in its header.
    pub udp_bad_lengths: u64,
    /// UDP: checksum wrong.
    pub udp_bad_checksums: u64,
    /// UDP: no socket at the port.
    pub udp_no_port: u64,
    /// UDP: the socket's buffer was full.
    pub udp_full: u64,
    /// ICMP: checksum wrong or too short.
    pub icmp_bad: u64,
}
