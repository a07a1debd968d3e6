//! Records as a capture file for packet analysers: one file for a vantage.
//!
//! The vantage is one end of each connection. A packet that this end's host sent is taken at point 4, one that it
//! received at point 5. Two points of one packet in a file would look like a packet sent twice. Headers are made anew:
//! Ethernet without addresses, IP, TCP or UDP; the first octet of data has sequence number 1. There is no data: captured
//! lengths are those of the headers, original lengths are true.

mod block;
mod frames;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::IpAddr;

use etherparse::{
    IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpHeader, TcpOptionElement, UdpHeader,
};
use sockscope_record::{
    Connection, ConnectionId, FlowId, Kind, Protocol, Record, Side, counted, tcp_flags,
};

use block::{Block, Packet};

pub use frames::{Frame, write_frames};

/// Largest number in a header's length.
const IP_LEN_MAX: usize = 65_535;
/// Shift of windows, where a SYN is there to announce it (RFC 7323 §2.3): units of 256 octets up to 16 MiB.
const SHIFT: u8 = 8;

/// A remark for a packet: the first one of the connection from then on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The flow whose packet proves it.
    pub flow: FlowId,
    /// On the clock of the records.
    pub at_ns: u64,
    /// One line.
    pub words: String,
}

/// What a file says about itself.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The program and its version.
    pub program: String,
    /// Nanoseconds to add to a time of the records for one since 1970.
    pub offset_ns: i128,
    /// Records that the trace missed.
    pub missed: u64,
    /// Names of hosts.
    pub names: Vec<(IpAddr, String)>,
}

/// Writes the packets of one vantage.
pub struct Writer<'a, W> {
    out: W,
    block: Block,
    offset_ns: i128,
    ends: HashMap<ConnectionId, End<'a>>,
    /// Remarks by connection, the latest first.
    remarks: HashMap<ConnectionId, Vec<Remark>>,
    headers: Vec<u8>,
    /// Packets written.
    packets: u64,
}

/// A connection as one of its ends sees it.
struct End<'a> {
    connection: &'a Connection,
    side: Side,
    /// Of the SYN of each direction: the announced segment.
    announced: [Option<u16>; 2],
    /// Shift of windows of each direction; `None` where no SYN of it was written.
    shifts: [Option<u8>; 2],
    /// Position of each direction's FIN.
    fins: [Option<u64>; 2],
    /// The point at which packets from the other end are taken: the first that shows one.
    received_at: Option<Kind>,
    was_seen: bool,
}

impl<'a, W: Write> Writer<'a, W> {
    /// A file of these connections, each as the end that goes with it sees it.
    ///
    /// # Errors
    ///
    /// When `out` fails.
    pub fn new(
        mut out: W,
        facts: &Facts,
        ends: impl IntoIterator<Item = (&'a Connection, Side)>,
        remarks: Vec<Remark>,
    ) -> io::Result<Self> {
        let mut block = Block::default();
        let mut comment = "headers are made anew from records: sequence numbers begin at 0, and data, checksums and \
                           options of TCP are not there"
            .to_owned();
        if facts.missed > 0 {
            comment += &format!("; {} missed", counted(facts.missed, "record"));
        }
        block.section(&comment, &facts.program, &mut out)?;
        block.interface("host", &mut out)?;
        if !facts.names.is_empty() {
            block.names(&facts.names, &mut out)?;
        }
        let end = |(connection, side): (&'a Connection, Side)| {
            let end = End {
                connection,
                side,
                announced: [None; 2],
                shifts: [None; 2],
                fins: [None; 2],
                received_at: None,
                was_seen: false,
            };
            (connection.id, end)
        };
        let mut by_connection: HashMap<_, Vec<Remark>> = HashMap::new();
        for remark in remarks {
            by_connection.entry(remark.flow.connection()).or_default().push(remark);
        }
        let latest_first = |remark: &Remark| std::cmp::Reverse(remark.at_ns);
        by_connection.values_mut().for_each(|remarks| remarks.sort_by_key(latest_first));
        Ok(Self {
            out,
            block,
            offset_ns: facts.offset_ns,
            ends: ends.into_iter().map(end).collect(),
            remarks: by_connection,
            headers: Vec::with_capacity(128),
            packets: 0,
        })
    }

    /// Writes the packet of a record, where it is one of this vantage. Records must be in order of time.
    ///
    /// # Errors
    ///
    /// When the output fails.
    pub fn record(&mut self, record: &Record) -> io::Result<()> {
        let id = record.flow.connection();
        let Some(end) = self.ends.get_mut(&id) else { return Ok(()) };
        let at = record.flow.direction() as usize;
        if let Some(bytes) = record.announced_segment_bytes() {
            end.announced[at] = u16::try_from(bytes).ok().filter(|bytes| *bytes > 0);
        }
        let is_sent = record.flow.direction().sender() == end.side;
        if !end.takes(record.kind, is_sent) {
            return Ok(());
        }
        self.headers.clear();
        let on_wire = end.headers(record, at, &mut self.headers)?;
        let comment = comment(end, record, self.remarks.get_mut(&id));
        end.was_seen = true;
        let at_ns = i128::from(record.at_ns) + self.offset_ns;
        let packet = Packet {
            at_ns: u64::try_from(at_ns.max(0)).unwrap_or(u64::MAX),
            is_sent,
            // Flows and positions of some terabytes have numbers of their own.
            id: u64::from(record.flow.0) << 42 ^ record.offset,
            headers: &self.headers,
            original: on_wire,
            comment: comment.as_deref(),
        };
        self.packets += 1;
        self.block.packet(&packet, &mut self.out)
    }

    /// Ends the file; the number of its packets.
    ///
    /// # Errors
    ///
    /// When the output fails.
    pub fn finish(mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.packets)
    }
}

/// The processes of a connection with its first packet, and the remarks that are due.
fn comment(end: &End<'_>, record: &Record, remarks: Option<&mut Vec<Remark>>) -> Option<String> {
    let mut lines = Vec::new();
    if !end.was_seen {
        let processes = &end.connection.processes;
        lines.extend(processes.iter().map(|process| format!("{}: {process}", process.side.name())));
    }
    let remarks = remarks.map(|remarks| {
        let is_due = |remark: &Remark| remark.at_ns <= record.at_ns;
        let first = remarks.iter().position(is_due).unwrap_or(remarks.len());
        remarks.split_off(first)
    });
    lines.extend(remarks.into_iter().flatten().rev().map(|remark| remark.words));
    (!lines.is_empty()).then(|| lines.join("\n"))
}

impl End<'_> {
    /// Whether a record of this kind is a packet of the vantage. A device without the queue of point 5 shows received
    /// packets at point 6.
    fn takes(&mut self, kind: Kind, is_sent: bool) -> bool {
        if is_sent {
            return kind == Kind::InterfaceDequeue;
        }
        let is_input = matches!(kind, Kind::InputEnqueue | Kind::InputDequeue);
        is_input && kind == *self.received_at.get_or_insert(kind)
    }

    /// Appends the headers of a record's packet; gives its length on the wire.
    fn headers(&mut self, record: &Record, at: usize, out: &mut Vec<u8>) -> io::Result<u32> {
        let Connection { client, server, protocol, .. } = self.connection;
        let (source, destination) = if at == 0 { (client, server) } else { (server, client) };
        let mut transport = Vec::with_capacity(60);
        let number = match protocol {
            Protocol::Tcp => {
                self.tcp(record, at, [source.port(), destination.port()]).write(&mut transport)?;
                IpNumber::TCP
            }
            Protocol::Udp => {
                let len = record.len.saturating_add(8).min(IP_LEN_MAX as u32) as u16;
                let header = UdpHeader {
                    source_port: source.port(),
                    destination_port: destination.port(),
                    length: len,
                    checksum: 0,
                };
                header.write(&mut transport)?;
                IpNumber::UDP
            }
            // It has no record at points 3 to 6.
            _ => return Err(io::Error::other("a Unix socket sends no packets")),
        };
        out.extend([0; 12]);
        let payload = transport.len() + record.len as usize;
        match (source.ip(), destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                out.extend([0x08, 0x00]);
                let mut ip = Ipv4Header {
                    // Longer ones have no length, as for a device that is to cut them.
                    total_len: u16::try_from(payload + 20).unwrap_or(0),
                    time_to_live: 64,
                    protocol: number,
                    source: source.octets(),
                    destination: destination.octets(),
                    dont_fragment: true,
                    ..Ipv4Header::default()
                };
                ip.header_checksum = ip.calc_header_checksum();
                ip.write_raw(out)?;
            }
            (source, destination) => {
                out.extend([0x86, 0xdd]);
                let octets = |address: IpAddr| match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                    IpAddr::V6(address) => address.octets(),
                };
                let ip = Ipv6Header {
                    flow_label: Ipv6FlowLabel::ZERO,
                    payload_length: u16::try_from(payload).unwrap_or(0),
                    next_header: number,
                    hop_limit: 64,
                    source: octets(source),
                    destination: octets(destination),
                    ..Ipv6Header::default()
                };
                ip.write(out)?;
            }
        }
        out.extend(transport);
        Ok(u32::try_from(out.len()).unwrap_or(u32::MAX).saturating_add(record.len))
    }

    fn tcp(&mut self, record: &Record, at: usize, [source, destination]: [u16; 2]) -> TcpHeader {
        let is = |flag| record.tcp_flags & flag != 0;
        let is_syn = is(tcp_flags::SYN);
        let header = record.segment_header().unwrap_or_default();
        // The SYN has number 0, so that data begins with number 1, as analysers show it.
        // A FIN has a number of its own, which is behind it.
        let is_fin = is(tcp_flags::FIN);
        let is_behind = |fin: Option<u64>, position| fin.is_some_and(|fin| position >= fin);
        let behind_fin = u32::from(!is_fin && is_behind(self.fins[at], record.offset));
        let sequence = (record.offset as u32).wrapping_add(1 + behind_fin);
        let sequence = if is_syn { 0 } else { sequence };
        let mut tcp = TcpHeader::new(source, destination, sequence, 0);
        (tcp.syn, tcp.fin, tcp.rst) = (is_syn, is(tcp_flags::FIN), is(tcp_flags::RST));
        (tcp.psh, tcp.ack, tcp.urg) = (is(tcp_flags::PSH), is(tcp_flags::ACK), is(tcp_flags::URG));
        (tcp.ece, tcp.cwr) = (is(tcp_flags::ECE), is(tcp_flags::CWR));
        if tcp.ack {
            let position = header.acknowledged.unwrap_or(0);
            // Of the other end's own acknowledgment it is not known whether this end's FIN is in it.
            let is_own = record.flow.direction().sender() == self.side;
            let of_fin = u32::from(is_own && is_behind(self.fins[1 - at], position));
            tcp.acknowledgment_number = (position as u32).wrapping_add(1 + of_fin);
        }
        if is_fin {
            self.fins[at] = Some(record.end());
        }
        if is_syn {
            self.shifts[at] = Some(SHIFT);
            let mut options = vec![TcpOptionElement::WindowScale(SHIFT)];
            options.extend(self.announced[at].map(TcpOptionElement::MaximumSegmentSize));
            // Two options are always room for less than 40 octets.
            let _ = tcp.set_options(&options);
        }
        // Windows of a connection are scaled only where both ends announced it (RFC 7323 §2.2).
        let are_scaled = self.shifts.iter().all(Option::is_some);
        let shift = if are_scaled && !is_syn { SHIFT } else { 0 };
        let window = u16::try_from(header.window_bytes >> shift).unwrap_or(u16::MAX);
        // A small window is not a closed one.
        tcp.window_size = window.max(u16::from(header.window_bytes > 0));
        tcp
    }
}
