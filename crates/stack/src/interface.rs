//! Interfaces: their queues, link headers and trailers, and the copy to and from a frame.
//!
//! An Ethernet header of the 3 Mbit/s kind is 4 bytes (destination and source host, type), of the
//! 10 Mbit/s kind 14. There is no ARP: the link address follows from the IP address. Frames carry
//! no preamble and no CRC.

mod input;
mod output;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use crate::mbuf::Chain;
use crate::packet::{Mark, Packet};
use crate::route::host_of;

/// Packets that an interface queue and the IP input queue hold at most (`IFQ_MAXLEN`).
pub const QUEUE_PACKETS_MAX: usize = 50;

/// Link type of an IP packet (RFC 894).
const TYPE_IP: u16 = 0x0800;

/// Link type of a packet with a trailer and no data; each 512 bytes of data add one (RFC 893).
const TYPE_TRAILER: u16 = 0x1000;

/// Data of a trailer packet are in units of so many bytes (RFC 893).
const TRAILER_UNIT_BYTES: usize = 512;

/// Most units of data in a trailer packet.
const TRAILER_UNITS_MAX: usize = 15;

/// Type and length before the headers at the end of a trailer packet (RFC 893).
const TRAILER_HEADER_BYTES: usize = 4;

/// Shortest 10 Mbit/s frame, the CRC aside.
const ETHERNET10_BYTES_MIN: usize = 60;

/// Rules of drivers and link layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceRules {
    /// Packets go out with a trailer where the interface allows it too.
    pub uses_trailers: bool,
    /// The rest of a received frame goes into a cluster if it is at least so long.
    pub input_cluster_min_bytes: usize,
    /// The driver lends the buffer that the device filled, if the frame would not fit a plain mbuf
    /// (SunOS). The driver gets it back when it is free.
    pub lends_input: bool,
    /// `splnet` keeps the interrupts of network devices out too, not only the network's software
    /// interrupt: a driver waits while the protocol runs (the SunOS study, §4.2.2 and §4.4.1).
    pub masks_devices: bool,
}

/// The kind of an interface's link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceKind {
    /// No link: packets go to the IP input queue.
    Loopback,
    /// Experimental 3 Mbit/s Ethernet.
    Ethernet3,
    /// 10 Mbit/s Ethernet (RFC 894).
    Ethernet10,
    /// A line to one other host; frames are bare IP packets.
    PointToPoint,
}

impl InterfaceKind {
    /// Bytes of the link header.
    pub fn header_bytes(self) -> usize {
        match self {
            Self::Loopback | Self::PointToPoint => 0,
            Self::Ethernet3 => 4,
            Self::Ethernet10 => 14,
        }
    }
}

/// One interface of a host that is being set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceConfig {
    /// As in `en0`.
    pub name: String,
    /// The kind of its link.
    pub kind: InterfaceKind,
    /// Its only address.
    pub address: Ipv4Addr,
    /// Longest IP packet, in bytes; at least 68 (RFC 791 §3.2).
    pub mtu: u32,
    /// Packets that its queue holds.
    pub queue_packets_max: usize,
    /// Frames that its device takes from the driver before the first of them has gone.
    pub device_frames_max: usize,
    /// Trailers may be used on it, if the personality knows them.
    pub uses_trailers: bool,
}

impl InterfaceConfig {
    /// `lo0` with this address; its MTU is 1536.
    pub fn loopback(address: Ipv4Addr) -> Self {
        Self::of("lo0", InterfaceKind::Loopback, address, 1536)
    }

    /// A 3 Mbit/s Ethernet interface with trailers; its MTU is 1536.
    pub fn ethernet3(name: &str, address: Ipv4Addr) -> Self {
        let plain = Self::of(name, InterfaceKind::Ethernet3, address, 1536);
        Self { uses_trailers: true, ..plain }
    }

    /// A 10 Mbit/s Ethernet interface without trailers; its MTU is 1500.
    pub fn ethernet10(name: &str, address: Ipv4Addr) -> Self {
        Self::of(name, InterfaceKind::Ethernet10, address, 1500)
    }

    /// One end of a line.
    pub fn point_to_point(name: &str, address: Ipv4Addr, mtu: u32) -> Self {
        Self::of(name, InterfaceKind::PointToPoint, address, mtu)
    }

    fn of(name: &str, kind: InterfaceKind, address: Ipv4Addr, mtu: u32) -> Self {
        let name = name.to_owned();
        let queue_packets_max = QUEUE_PACKETS_MAX;
        Self {
            name,
            kind,
            address,
            mtu,
            queue_packets_max,
            device_frames_max: 1,
            uses_trailers: false,
        }
    }
}

/// Frames and packets that passed an interface, and those dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InterfaceCounts {
    /// Frames made.
    pub out_frames: u64,
    /// Packets that found the queue full.
    pub out_drops: u64,
    /// Packets in the queue, at most.
    pub queue_max: usize,
    /// Frames received.
    pub in_frames: u64,
    /// Frames that could not be read.
    pub in_errors: u64,
    /// Packets that found the IP input queue full, or no mbufs.
    pub in_drops: u64,
}

/// One interface of a running host.
#[derive(Debug)]
pub struct Interface {
    /// As in `en0`.
    pub name: String,
    /// The kind of its link.
    pub kind: InterfaceKind,
    /// Its only address.
    pub address: Ipv4Addr,
    /// Longest IP packet, in bytes.
    pub mtu: u32,
    /// Its counts.
    pub counts: InterfaceCounts,
    /// [`InterfaceKind::header_bytes`] of its kind.
    header_bytes: usize,
    queue_packets_max: usize,
    device_frames_max: usize,
    uses_trailers: bool,
    queue: VecDeque<Packet>,
    /// Packets in transit to the queue in effects that have not happened yet.
    pending: usize,
    /// Frames that the driver has taken and that have not gone, as far as it knows.
    in_device: usize,
    /// Clusters mapped into the frame being sent: free after it has gone.
    mapped: Chain,
}

/// A frame as a device sends it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// Link header and packet, no CRC.
    pub bytes: Vec<u8>,
    /// The mark of its packet.
    pub mark: Option<Mark>,
}

impl From<Vec<u8>> for Frame {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, mark: None }
    }
}

impl Interface {
    pub(crate) fn new(config: &InterfaceConfig) -> Self {
        Self {
            name: config.name.clone(),
            kind: config.kind,
            address: config.address,
            mtu: config.mtu.max(68),
            counts: InterfaceCounts::default(),
            header_bytes: config.kind.header_bytes(),
            queue_packets_max: config.queue_packets_max,
            device_frames_max: config.device_frames_max,
            uses_trailers: config.uses_trailers,
            queue: VecDeque::new(),
            pending: 0,
            in_device: 0,
            mapped: Chain::new(),
        }
    }

    /// Whether a packet made now will find the queue full. Packets made before it in the same step are
    /// in the queue by then, except those that an idle device has taken at once.
    fn is_full(&self) -> bool {
        let taken = match self.queue.is_empty() {
            true => self.device_frames_max.saturating_sub(self.in_device),
            false => 0,
        };
        self.queue.len() + self.pending >= self.queue_packets_max + taken
    }
}

/// The link header of a packet from one host to another. The experimental Ethernet addresses hosts
/// by the last byte of the host number.
fn ethernet3_header(source: Ipv4Addr, to: Ipv4Addr, link_type: u16) -> [u8; 4] {
    let host = |address| host_of(address).unwrap_or(0) as u8;
    let [high, low] = link_type.to_be_bytes();
    [host(to), host(source), high, low]
}

/// As [`ethernet3_header`], for 10 Mbit/s.
fn ethernet10_header(source: Ipv4Addr, to: Ipv4Addr, link_type: u16) -> [u8; 14] {
    // The locally administered 48-bit addresses that represent IP addresses.
    let mut header = [0x02, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0, 0];
    header[2..6].copy_from_slice(&to.octets());
    header[8..12].copy_from_slice(&source.octets());
    header[12..].copy_from_slice(&link_type.to_be_bytes());
    header
}
