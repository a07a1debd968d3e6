//! The headers of a packet: link, IP, TCP or UDP.

use std::net::{IpAddr, SocketAddr};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TcpOptionElement, TransportSlice};
use sockscope_record::{Protocol, tcp_flags};

/// Link types, by their numbers in the registry of LINKTYPE values.
pub(super) mod link {
    pub const NULL: i32 = 0;
    pub const ETHERNET: i32 = 1;
    pub const RAW: [i32; 3] = [101, 12, 14];
    pub const LOOP: i32 = 108;
    pub const LINUX_SLL: i32 = 113;
    pub const IPV4: i32 = 228;
    pub const IPV6: i32 = 229;
    pub const LINUX_SLL2: i32 = 276;
}

/// What a host did with a packet that passed its interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passage {
    Sent,
    Received,
}

/// A packet of TCP or UDP.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet<'a> {
    pub protocol: Protocol,
    /// Source and destination.
    pub ends: [SocketAddr; 2],
    /// Of a cooked header.
    pub passage: Option<Passage>,
    /// Identification of the IPv4 header, where its sender numbers packets.
    pub identification: Option<u16>,
    /// Octets of data on the wire, also where the file has fewer.
    pub len: u32,
    /// Of TCP.
    pub segment: Option<Segment<'a>>,
}

/// A header of TCP.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment<'a> {
    pub flags: u8,
    pub sequence: u32,
    pub acknowledged: Option<u32>,
    pub window: u16,
    options: &'a [u8],
}

/// Options of a segment that a reader of traces needs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Options {
    pub segment_bytes: Option<u16>,
    pub window_shift: Option<u8>,
    /// Blocks of a selective acknowledgment: first number, and the one after the last (RFC 2018 §3).
    pub blocks: [Option<(u32, u32)>; 4],
}

impl Segment<'_> {
    /// Those before the first damaged one.
    pub fn options(&self) -> Options {
        let mut found = Options::default();
        let elements = etherparse::TcpOptionsIterator::from_slice(self.options);
        for element in elements.map_while(Result::ok) {
            match element {
                TcpOptionElement::MaximumSegmentSize(bytes) => found.segment_bytes = Some(bytes),
                // RFC 7323 §2.3: a shift above 14 counts as 14.
                TcpOptionElement::WindowScale(shift) => found.window_shift = Some(shift.min(14)),
                TcpOptionElement::SelectiveAcknowledgement(first, rest) => {
                    found.blocks = [Some(first), rest[0], rest[1], rest[2]];
                }
                _ => {}
            }
        }
        found
    }

    pub fn has_options(&self) -> bool {
        !self.options.is_empty()
    }
}

/// Why a packet has no record. The words follow "packets ".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotRead {
    /// Neither TCP nor UDP over IP.
    OtherProtocol,
    /// Its headers are not all in the file.
    Cut,
    /// A length in a header contradicts another one, or a version is neither 4 nor 6.
    Damaged,
    /// A fragment after the first. A first one of UDP has the length of all; of TCP, its own part.
    LaterFragment,
    /// The interface's link type is not one that this reader knows.
    OtherLink,
    /// More connections than this reader keeps.
    TooManyConnections,
    /// Seen on another interface before, as a bridge and its port both show it.
    SeenBefore,
}

impl NotRead {
    /// All, in the order in which they are reported.
    pub const ALL: [Self; 7] = [
        Self::OtherProtocol,
        Self::Cut,
        Self::Damaged,
        Self::LaterFragment,
        Self::OtherLink,
        Self::TooManyConnections,
        Self::SeenBefore,
    ];

    /// Words for people, after "packets".
    pub fn words(self) -> &'static str {
        match self {
            Self::OtherProtocol => "of other protocols than TCP and UDP",
            Self::Cut => "whose headers are cut",
            Self::Damaged => "with damaged headers",
            Self::LaterFragment => "that are later fragments",
            Self::OtherLink => "of an unknown link type",
            Self::TooManyConnections => "of more connections than can be kept",
            Self::SeenBefore => "seen on another interface before",
        }
    }
}

/// Reads the headers of a packet whose length on the wire was `original` octets.
pub(super) fn parse(link_type: i32, data: &[u8], original: u32) -> Result<Packet<'_>, NotRead> {
    let (before_ip, ether_type, passage) = match link_type {
        link::ETHERNET => (14, Some(big_endian(data, 12)?), None),
        link::LINUX_SLL => (16, Some(big_endian(data, 14)?), passage(big_endian(data, 0)? as u8)),
        link::LINUX_SLL2 => {
            (20, Some(big_endian(data, 0)?), passage(*data.get(10).ok_or(NotRead::Cut)?))
        }
        // Four octets with a family, whose number differs between systems: the version of IP says it.
        link::NULL | link::LOOP => (4, None, None),
        raw if link::RAW.contains(&raw) => (0, None, None),
        link::IPV4 | link::IPV6 => (0, None, None),
        _ => return Err(NotRead::OtherLink),
    };
    let packet = data.get(before_ip..).ok_or(NotRead::Cut)?;
    let sliced = match ether_type {
        Some(ether_type) => LaxSlicedPacket::from_ether_type(EtherType(ether_type), packet),
        None => LaxSlicedPacket::from_ip(packet).map_err(|_| damage(packet))?,
    };
    let net = sliced.net.as_ref().ok_or_else(|| match ether_type {
        // IPv4, IPv6, and the tags of virtual networks.
        Some(0x0800 | 0x86dd) => damage(packet),
        Some(0x8100 | 0x88a8 | 0x9100) if sliced.stop_err.is_some() => NotRead::Cut,
        _ => NotRead::OtherProtocol,
    })?;
    let addresses = match net {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            [header.source_addr(), header.destination_addr()].map(IpAddr::V4)
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            [header.source_addr(), header.destination_addr()].map(IpAddr::V6)
        }
        LaxNetSlice::Arp(_) => return Err(NotRead::OtherProtocol),
    };
    let payload = net.ip_payload_ref().ok_or(NotRead::OtherProtocol)?;
    let protocol = match payload.ip_number {
        etherparse::IpNumber::TCP => Protocol::Tcp,
        etherparse::IpNumber::UDP => Protocol::Udp,
        _ => return Err(NotRead::OtherProtocol),
    };
    let fragment = fragment(net);
    if fragment.offset > 0 {
        return Err(NotRead::LaterFragment);
    }
    // The payload begins somewhere in `data`, and ends where the wire's packet did.
    let at = payload.payload.as_ptr() as usize - data.as_ptr() as usize;
    let rest = (original as usize).saturating_sub(at);
    let on_wire = ip_payload_len(net).filter(|len| *len <= rest).unwrap_or(rest);
    let identification = fragment.identification;
    let end = |address, port| SocketAddr::new(address, port);
    match (protocol, payload.payload) {
        (Protocol::Tcp, tcp) => {
            let slice = match sliced.transport {
                Some(TransportSlice::Tcp(slice)) => slice,
                _ => etherparse::TcpSlice::from_slice(tcp).map_err(|_| cut_or_damaged(tcp, 20))?,
            };
            let header = usize::from(slice.data_offset()) * 4;
            let len = on_wire.saturating_sub(header);
            let ack = slice.ack().then(|| slice.acknowledgment_number());
            Ok(Packet {
                protocol,
                ends: [
                    end(addresses[0], slice.source_port()),
                    end(addresses[1], slice.destination_port()),
                ],
                passage,
                identification,
                len: u32::try_from(len).map_err(|_| NotRead::Damaged)?,
                segment: Some(Segment {
                    // Offset 13 of the header has the low eight flags.
                    flags: slice.header_slice()[13],
                    sequence: slice.sequence_number(),
                    acknowledged: ack,
                    window: slice.window_size(),
                    options: &slice.header_slice()[20..],
                }),
            })
        }
        (Protocol::Udp, udp) => {
            let word = |at| big_endian(udp, at);
            let (source, destination, len) = (word(0)?, word(2)?, usize::from(word(4)?));
            // Of a fragment, and of a jumbogram, the header or the packet has it.
            let len = match len.checked_sub(8) {
                Some(len) => len,
                None if len == 0 => on_wire.saturating_sub(8),
                None => return Err(NotRead::Damaged),
            };
            if !fragment.has_more && len > on_wire.saturating_sub(8) {
                return Err(NotRead::Damaged);
            }
            Ok(Packet {
                protocol,
                ends: [end(addresses[0], source), end(addresses[1], destination)],
                passage,
                identification,
                len: len as u32,
                segment: None,
            })
        }
        _ => Err(NotRead::OtherProtocol),
    }
}

/// Part of a datagram.
struct Fragment {
    /// First octet, in units of 8 octets.
    offset: u16,
    has_more: bool,
    identification: Option<u16>,
}

fn fragment(net: &LaxNetSlice<'_>) -> Fragment {
    match net {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            Fragment {
                offset: header.fragments_offset().value(),
                has_more: header.more_fragments(),
                // A sender that numbers none has 0 in all (RFC 6864).
                identification: Some(header.identification()).filter(|number| *number != 0),
            }
        }
        LaxNetSlice::Ipv6(ip) => {
            let mut parts = Fragment { offset: 0, has_more: false, identification: None };
            for extension in ip.extensions().clone() {
                if let etherparse::Ipv6ExtensionSlice::Fragment(header) = extension {
                    parts.offset = header.fragment_offset().value();
                    parts.has_more = header.more_fragments();
                }
            }
            parts
        }
        LaxNetSlice::Arp(_) => Fragment { offset: 0, has_more: false, identification: None },
    }
}

/// Octets behind the IP header and its extensions by its own length; `None` where the kernel had not set it yet, as
/// for a packet that a device was to cut.
fn ip_payload_len(net: &LaxNetSlice<'_>) -> Option<usize> {
    match net {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            let total = usize::from(header.total_len());
            (total > 0).then(|| {
                total.saturating_sub(
                    header.slice().len()
                        + ip.extensions().auth.as_ref().map_or(0, |auth| auth.slice().len()),
                )
            })
        }
        LaxNetSlice::Ipv6(ip) => {
            let len = usize::from(ip.header().payload_length());
            (len > 0).then(|| len.saturating_sub(ip.extensions().slice().len()))
        }
        LaxNetSlice::Arp(_) => None,
    }
}

/// A cooked header's packet type: 4 is sent by this host, 3 is for another host, others are received.
fn passage(packet_type: u8) -> Option<Passage> {
    match packet_type {
        4 => Some(Passage::Sent),
        0..=2 => Some(Passage::Received),
        _ => None,
    }
}

/// Two octets as a number.
fn big_endian(data: &[u8], at: usize) -> Result<u16, NotRead> {
    let octets = data.get(at..at + 2).ok_or(NotRead::Cut)?;
    Ok(u16::from_be_bytes([octets[0], octets[1]]))
}

/// Why an IP packet cannot be read.
fn damage(packet: &[u8]) -> NotRead {
    match packet.first().map(|first| first >> 4) {
        None => NotRead::Cut,
        Some(4) => cut_or_damaged(packet, 20),
        Some(6) => cut_or_damaged(packet, 40),
        _ => NotRead::Damaged,
    }
}

fn cut_or_damaged(data: &[u8], least: usize) -> NotRead {
    let header = match data.get(12) {
        // A header of TCP has its own length there; that of IP is in its first octet.
        Some(offset) if least == 20 => usize::from(offset >> 4) * 4,
        _ => least,
    };
    if data.len() < least.max(header) { NotRead::Cut } else { NotRead::Damaged }
}

/// Whether a segment opens a connection, and does not answer an opening.
pub(super) fn opens(flags: u8) -> bool {
    flags & (tcp_flags::SYN | tcp_flags::ACK) == tcp_flags::SYN
}
