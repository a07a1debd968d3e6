//! Capture files: pcap with microseconds or nanoseconds, and pcapng.
//!
//! A packet that a host sent passes `InterfaceDequeue` (point 4) there, one that it received `InputEnqueue` (point 5).
//! The packet's flags (pcapng), its cooked header (Linux), or the host's address says which. Where none does, the
//! capture is of a third host on the wire: its packets pass point 4, marked as derived. What a program wrote or read,
//! and when, is not in a capture.
//!
//! Times are nanoseconds since 1970, as the file has them.

mod container;
mod headers;
mod room;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};

use sockscope_record::{
    Connection, ConnectionId, Direction, FlowId, Kind, Loss, Point, Protocol, Record, Side, marks,
    tcp_flags,
};

pub use container::{Damage, Interface, Unreadable};
pub use headers::NotRead;

use crate::capture::Opened;
use container::Frame;
use headers::{Packet, Passage, Segment};
use room::Room;
use stream::{Place, Stream};

/// Connections of a capture at most, each counted for each place at which it was captured. A bound for memory: a file may
/// have one in each packet.
const CONNECTIONS_MAX: usize = 1 << 18;
/// Records handed over at once.
const BATCH: usize = 1 << 14;
/// Packets of other interfaces that are compared with the one at hand.
const LATEST: usize = 64;
/// A packet on another interface so much later is another one.
const AGAIN_NS_MAX: u64 = 100_000_000;

/// What the caller knows of a capture.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// Addresses of the host that captured.
    pub host: Vec<IpAddr>,
}

/// What was read of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// Packets of the file up to its end or its damage.
    pub packets: u64,
    /// Packets with a record that the host sent, that it received, and that it saw on the wire.
    pub sent_received_seen: [u64; 3],
    /// Packets without a record, in the order of [`NotRead::ALL`], with the number of the first one, from 1 on.
    pub not_read: Vec<(NotRead, u64, u64)>,
    /// Connections found.
    pub connections: usize,
    /// The interfaces in the order of the file.
    pub interfaces: Vec<Interface>,
    /// The place where reading ended, if not at the end.
    pub damage: Option<Damage>,
    /// Times of the first and the last packet with a record.
    pub span_ns: Option<(u64, u64)>,
}

/// Connections and records of a part of the file. Connections come before their records.
#[derive(Debug, Default)]
pub struct Part {
    /// New connections.
    pub connections: Vec<Connection>,
    /// In the order of the file.
    pub records: Vec<Record>,
}

/// Reads a file, and hands it over in parts.
///
/// # Errors
///
/// When the file is not a capture, or `take` fails.
pub fn read<E: From<Unreadable>>(
    input: impl Read + Send,
    told: &Told,
    mut take: impl FnMut(&Part) -> Result<(), E>,
) -> Result<Summary, E> {
    let mut reader = Reader { host: &told.host, ..Reader::default() };
    let mut failed = None;
    let (interfaces, damage) = container::each_packet(input, |interfaces, frame| {
        let has_others = interfaces.len() > 1;
        reader.frame(interfaces[frame.interface].link_type, frame, has_others);
        if reader.part.records.len() >= BATCH {
            failed = take(&reader.part).err();
            reader.part.records.clear();
            reader.part.connections.clear();
        }
        failed.is_none()
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    let missed = interfaces.iter().fold(0, |sum: u64, it| sum.saturating_add(it.missed));
    if let Some((first_ns, last_ns)) = reader.span_ns.filter(|_| missed > 0) {
        let loss = Loss::new(Some(Point::InterfaceDequeue), missed, first_ns);
        let record = Record { at_ns: last_ns, ..Record::default() };
        reader.part.records.push(record.with_loss(loss));
    }
    take(&reader.part)?;
    Ok(reader.summary(interfaces, damage))
}

/// Both directions of a connection.
#[derive(Debug)]
struct Pair {
    id: ConnectionId,
    /// The one that sends the first flow of `streams`.
    client: SocketAddr,
    /// From the client and from the server, at each vantage that has shown a packet.
    streams: Vec<(Vantage, [Stream; 2])>,
    was_reset_or_finished: bool,
}

/// Where a capture stands, of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vantage {
    /// On the client's host, or on the server's.
    Host(Side),
    /// On the wire between them.
    Wire,
}

/// A packet that an interface had: enough to know it again on another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    flow: FlowId,
    /// Sequence number, acknowledgment, flags and identification; of UDP only the last.
    fields: (u32, u32, u8, u16),
    len: u32,
}

impl Pair {
    /// The streams at a vantage. One that begins on the way has the positions of another vantage.
    fn at(
        &mut self,
        vantage: Vantage,
        segment: Option<&Segment<'_>>,
        from_client: bool,
    ) -> &mut [Stream; 2] {
        let found = self.streams.iter().position(|(at, _)| *at == vantage);
        let at = found.unwrap_or_else(|| {
            let mut new = [Stream::default(), Stream::default()];
            if let (Some((_, known)), Some(segment)) = (self.streams.first(), segment) {
                let (this, other) = if from_client { (0, 1) } else { (1, 0) };
                new[this].follow(&known[this], Some(segment.sequence));
                new[other].follow(&known[other], segment.acknowledged);
            }
            self.streams.push((vantage, new));
            self.streams.len() - 1
        });
        &mut self.streams[at].1
    }
}

#[derive(Debug, Default)]
struct Reader<'a> {
    host: &'a [IpAddr],
    part: Part,
    pairs: Vec<Pair>,
    /// The connection of two addresses, the lesser one first.
    found: HashMap<(Protocol, [SocketAddr; 2]), usize>,
    /// The last packets, with their interface and time, oldest first.
    latest: VecDeque<(Known, usize, u64)>,
    /// Streams of both directions, of all connections and places.
    places: usize,
    room: Room,
    packets: u64,
    sent_received_seen: [u64; 3],
    not_read: BTreeMap<NotRead, (u64, u64)>,
    span_ns: Option<(u64, u64)>,
}

impl Reader<'_> {
    /// `has_others`: the file has several interfaces.
    fn frame(&mut self, link_type: i32, frame: &Frame<'_>, has_others: bool) {
        self.packets += 1;
        let packet = headers::parse(link_type, frame.data, frame.original);
        if let Err(reason) = packet.and_then(|packet| self.take(&packet, frame, has_others)) {
            self.not_read.entry(reason).or_insert((0, self.packets)).0 += 1;
        }
    }

    fn take(
        &mut self,
        packet: &Packet<'_>,
        frame: &Frame<'_>,
        has_others: bool,
    ) -> Result<(), NotRead> {
        let at_ns = frame.at_ns;
        let passage = frame.passage.or(packet.passage).or_else(|| self.told(packet.ends));
        let index = self.pair(packet, at_ns)?;
        let pair = &self.pairs[index];
        let from_client = packet.ends[0] == pair.client;
        let direction = if from_client { Direction::FromClient } else { Direction::FromServer };
        let flow = pair.id.flow(direction);
        if has_others {
            self.note_new(Known { flow, fields: fields(packet), len: packet.len }, packet, frame)?;
        }
        let pair = &mut self.pairs[index];
        let (kind, mark) = match passage {
            Some(Passage::Sent) => (Kind::InterfaceDequeue, 0),
            Some(Passage::Received) => (Kind::InputEnqueue, 0),
            None => (Kind::InterfaceDequeue, marks::DERIVED),
        };
        let place = Place { kind, marks: mark, identification: packet.identification };
        let sender = if from_client { Side::Client } else { Side::Server };
        let vantage = match passage {
            Some(Passage::Sent) => Vantage::Host(sender),
            Some(Passage::Received) => Vantage::Host(sender.other()),
            None => Vantage::Wire,
        };
        let is_new = !pair.streams.iter().any(|(at, _)| *at == vantage);
        if is_new && self.places == CONNECTIONS_MAX {
            return Err(NotRead::TooManyConnections);
        }
        self.places += usize::from(is_new);
        let [one, other] = pair.at(vantage, packet.segment.as_ref(), from_client);
        let (stream, reverse) = if from_client { (one, other) } else { (other, one) };
        match &packet.segment {
            None => {
                let record = stream.datagram(flow, packet.len, at_ns, place);
                self.part.records.push(record);
            }
            Some(segment) => {
                let out = (&mut self.part.records, &mut self.room);
                stream.segment(reverse, flow, (segment, packet.len), at_ns, place, out);
                let ends = tcp_flags::FIN | tcp_flags::RST;
                pair.was_reset_or_finished |= segment.flags & ends != 0;
            }
        }
        let (first_ns, last_ns) = self.span_ns.unwrap_or((at_ns, at_ns));
        self.span_ns = Some((first_ns.min(at_ns), last_ns.max(at_ns)));
        self.sent_received_seen[passage.map_or(2, |passage| passage as usize)] += 1;
        Ok(())
    }

    /// Notes a packet, unless another interface has shown it before.
    fn note_new(
        &mut self,
        known: Known,
        packet: &Packet<'_>,
        frame: &Frame<'_>,
    ) -> Result<(), NotRead> {
        let is_known = |(other, interface, since_ns): &(Known, usize, u64)| {
            let is_soon = frame.at_ns.saturating_sub(*since_ns) < AGAIN_NS_MAX;
            *other == known && *interface != frame.interface && is_soon
        };
        let can_be_known = packet.segment.is_some() || packet.identification.is_some();
        if can_be_known && self.latest.iter().any(is_known) {
            return Err(NotRead::SeenBefore);
        }
        if self.latest.len() == LATEST {
            self.latest.pop_front();
        }
        self.latest.push_back((known, frame.interface, frame.at_ns));
        Ok(())
    }

    /// The passage by the addresses of the host. Between two addresses of one host both are true, and neither is said.
    fn told(&self, [source, destination]: [SocketAddr; 2]) -> Option<Passage> {
        let is_here = |end: SocketAddr| self.host.contains(&end.ip());
        match (is_here(source), is_here(destination)) {
            (true, false) => Some(Passage::Sent),
            (false, true) => Some(Passage::Received),
            _ => None,
        }
    }

    /// Place of the packet's connection, which is opened where it is new.
    fn pair(&mut self, packet: &Packet<'_>, at_ns: u64) -> Result<usize, NotRead> {
        let [source, destination] = packet.ends;
        let flags = packet.segment.map_or(0, |segment| segment.flags);
        let key = (packet.protocol, [source.min(destination), source.max(destination)]);
        if let Some(&index) = self.found.get(&key) {
            let pair = &self.pairs[index];
            let at = usize::from(source != pair.client);
            let opens_another = |segment: &Segment<'_>| {
                let is_another =
                    |(_, streams): &(Vantage, [Stream; 2])| streams[at].is_another(segment);
                headers::opens(flags)
                    && pair.was_reset_or_finished
                    && pair.streams.iter().all(is_another)
            };
            if !packet.segment.as_ref().is_some_and(opens_another) {
                return Ok(index);
            }
        }
        if self.pairs.len() == CONNECTIONS_MAX {
            return Err(NotRead::TooManyConnections);
        }
        let opened = match (packet.protocol, flags & tcp_flags::SYN != 0) {
            (Protocol::Tcp, false) => Opened::Before,
            (Protocol::Tcp, true) if headers::opens(flags) => Opened::BySender,
            (Protocol::Tcp, true) => Opened::ByReceiver,
            _ => Opened::BySender,
        };
        let id = ConnectionId(self.pairs.len() as u32 + 1);
        let connection = opened.connection(id, packet.protocol, packet.ends, at_ns);
        self.pairs.push(Pair {
            id,
            client: connection.client,
            streams: Vec::with_capacity(1),
            was_reset_or_finished: false,
        });
        self.part.connections.push(connection);
        self.found.insert(key, self.pairs.len() - 1);
        Ok(self.pairs.len() - 1)
    }

    fn summary(self, interfaces: Vec<Interface>, damage: Option<Damage>) -> Summary {
        let not_read = self.not_read.into_iter();
        Summary {
            packets: self.packets,
            sent_received_seen: self.sent_received_seen,
            not_read: not_read.map(|(reason, (count, first))| (reason, count, first)).collect(),
            connections: self.pairs.len(),
            interfaces,
            damage,
            span_ns: self.span_ns,
        }
    }
}

/// What stays the same of a packet that passes several interfaces.
fn fields(packet: &Packet<'_>) -> (u32, u32, u8, u16) {
    let identification = packet.identification.unwrap_or(0);
    packet.segment.map_or((0, 0, 0, identification), |segment| {
        (segment.sequence, segment.acknowledged.unwrap_or(0), segment.flags, identification)
    })
}
