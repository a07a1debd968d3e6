//! The places of segments in their streams, from the SYNs that passed and the numbers of the headers.
//!
//! Packets of simulated hosts carry a mark. Packets from outside do not: a live probe knows no more of them than this.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use sockscope_record::{FlowId, Unwrapper, tcp_flags};
use sockscope_stack::interface::Frame;
use sockscope_stack::ip::{IP_HEADER_BYTES, PROTOCOL_TCP};
use sockscope_stack::tcp::{Header, TCP_HEADER_BYTES};
use sockscope_stack::{Endpoint, Mark};

/// The connections of a host, by its own end and the other one.
#[derive(Debug, Default)]
pub(super) struct Streams {
    connections: BTreeMap<[Endpoint; 2], Connection>,
}

/// One connection with the outside.
#[derive(Debug)]
struct Connection {
    /// The flow that the host sends.
    flow: FlowId,
    own: Stream,
    other: Stream,
}

/// One direction. Its first number is known once its SYN has passed.
#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    positions: Option<(u32, Unwrapper)>,
    /// Where it ends, once its FIN has passed.
    end: Option<u64>,
    /// The shift of its sender's windows that its SYN announced.
    shift: Option<u8>,
}

impl Stream {
    /// A segment passes; the position of its data.
    fn pass(&mut self, segment: &Segment) -> Option<u64> {
        if segment.header.has(tcp_flags::SYN) && !self.begins_with(segment.header.seq.0) {
            let first = segment.header.seq.0.wrapping_add(1);
            let shift = segment.header.options.window_shift;
            *self = Self { positions: Some((first, Unwrapper::new(first))), end: None, shift };
        }
        let (_, positions) = self.positions.as_mut()?;
        let offset = positions.position(segment.header.seq.0);
        let end = positions.position(segment.header.seq.0.wrapping_add(segment.len));
        if segment.header.has(tcp_flags::FIN) {
            self.end = Some(end);
        }
        Some(self.within(offset))
    }

    /// Whether this is the number of its SYN.
    fn begins_with(&self, seq: u32) -> bool {
        self.positions.is_some_and(|(first, _)| first == seq.wrapping_add(1))
    }

    /// The position that an acknowledgment of this number means.
    fn acknowledged(&self, ack: u32) -> u64 {
        let position = self.positions.map_or(0, |(_, positions)| positions.peek(ack));
        self.within(position)
    }

    /// A FIN has a number, but no place in the stream.
    fn within(&self, position: u64) -> u64 {
        self.end.map_or(position, |end| position.min(end))
    }
}

/// A TCP segment of an IP packet.
struct Segment {
    source: Endpoint,
    destination: Endpoint,
    header: Header,
    /// Data bytes.
    len: u32,
}

impl Segment {
    /// The segment of a packet; `None` for all else, for fragments too.
    fn read(packet: &[u8]) -> Option<Self> {
        let fixed = packet.get(..IP_HEADER_BYTES)?;
        let header_bytes = usize::from(fixed[0] & 0xf) * 4;
        let is_fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff != 0;
        if fixed[0] >> 4 != 4 || fixed[9] != PROTOCOL_TCP || is_fragment {
            return None;
        }
        let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        let segment = packet.get(header_bytes..total)?;
        let header = Header::read(segment)?;
        let offset_byte = segment.get(TCP_HEADER_BYTES - 8)?;
        let len = segment.len().checked_sub(usize::from(offset_byte >> 4) * 4)?;
        let address =
            |at: usize| Ipv4Addr::new(fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]);
        Some(Self {
            source: (address(12), header.source_port),
            destination: (address(16), header.destination_port),
            header,
            len: u32::try_from(len).ok()?,
        })
    }
}

impl Streams {
    /// A packet of the host leaves. The one with a SYN makes a logged connection known.
    pub(super) fn leaves(&mut self, frame: &Frame) {
        let Some((mark, segment)) = frame.mark.zip(Segment::read(&frame.bytes)) else { return };
        let ends = [segment.source, segment.destination];
        if segment.header.flags & (tcp_flags::SYN | tcp_flags::ACK) == tcp_flags::SYN
            && self.connections.get(&ends).is_none_or(|known| known.flow != mark.flow)
        {
            let [own, other] = [Stream::default(); 2];
            self.connections.insert(ends, Connection { flow: mark.flow, own, other });
        }
        if let Some(connection) = self.connections.get_mut(&ends) {
            connection.own.pass(&segment);
        }
    }

    /// The client and the server of the connection that a packet from outside opens, if it does.
    pub(super) fn opened_by(&self, packet: &[u8]) -> Option<[Endpoint; 2]> {
        let Segment { source, destination, header, .. } = Segment::read(packet)?;
        let is_first = header.flags & (tcp_flags::SYN | tcp_flags::ACK) == tcp_flags::SYN;
        let known = self.connections.get(&[destination, source]);
        let is_new = known.is_none_or(|known| !known.other.begins_with(header.seq.0));
        (is_first && is_new).then_some([source, destination])
    }

    /// A packet from outside arrives: its mark. `opened` is the client's flow of the connection that it opens.
    pub(super) fn arrives(&mut self, packet: &[u8], opened: Option<FlowId>) -> Option<Mark> {
        let segment = Segment::read(packet)?;
        let header = &segment.header;
        let ends = [segment.destination, segment.source];
        if let Some(flow) = opened {
            let [own, other] = [Stream::default(); 2];
            self.connections.insert(ends, Connection { flow: flow.reverse(), own, other });
        }
        let connection = self.connections.get_mut(&ends)?;
        let offset = connection.other.pass(&segment)?;
        // Windows are shifted if both ends announced it, that of a SYN never (RFC 1323 §2.2).
        let shift = connection.other.shift.filter(|_| connection.own.shift.is_some());
        let shift = shift.filter(|_| !header.has(tcp_flags::SYN)).unwrap_or(0);
        let has_ack = header.has(tcp_flags::ACK);
        Some(Mark {
            flow: connection.flow.reverse(),
            offset,
            number: if has_ack { connection.own.acknowledged(header.ack.0) } else { 0 },
            len: segment.len,
            window: u32::from(header.window) << shift,
            tcp_flags: header.flags,
            ..Mark::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sockscope_record::{ConnectionId, Direction};

    use super::*;

    const HOST: Endpoint = (Ipv4Addr::new(10, 0, 0, 1), 80);
    const OTHER: Endpoint = (Ipv4Addr::new(10, 0, 0, 2), 1_024);

    /// A packet: flags, sequence number, acknowledgment, data bytes.
    fn packet(
        from: Endpoint,
        to: Endpoint,
        (flags, seq, ack, len): (u8, u32, u32, usize),
    ) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, PROTOCOL_TCP, 0, 0];
        packet.extend(from.0.octets());
        packet.extend(to.0.octets());
        packet.extend(from.1.to_be_bytes());
        packet.extend(to.1.to_be_bytes());
        packet.extend(seq.to_be_bytes());
        packet.extend(ack.to_be_bytes());
        packet.extend([0x50, flags, 0x10, 0, 0, 0, 0, 0]);
        packet.resize(packet.len() + len, 7);
        let total = packet.len() as u16;
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        packet
    }

    const SYN: u8 = tcp_flags::SYN;
    const ACK: u8 = tcp_flags::ACK;
    const FIN: u8 = tcp_flags::FIN;

    fn client_flow(connection: u32) -> FlowId {
        ConnectionId(connection).flow(Direction::FromClient)
    }

    /// The arriving segment, as text: flow, offset, length, acknowledgment.
    fn arrives(streams: &mut Streams, connection: u32, segment: (u8, u32, u32, usize)) -> String {
        let packet = packet(OTHER, HOST, segment);
        let opened = streams.opened_by(&packet).map(|ends| {
            assert_eq!(ends, [OTHER, HOST]);
            client_flow(connection)
        });
        match streams.arrives(&packet, opened) {
            None => "unknown".to_owned(),
            Some(Mark { flow, offset, len, number, .. }) => {
                let new = if opened.is_some() { "new " } else { "" };
                format!("{new}{} {offset}+{len} ack {number}", flow.0)
            }
        }
    }

    fn leaves(streams: &mut Streams, flow: FlowId, segment: (u8, u32, u32, usize)) {
        let bytes = packet(HOST, OTHER, segment);
        streams.leaves(&Frame { bytes, mark: Some(Mark { flow, ..Mark::default() }) });
    }

    #[test]
    fn places_follow_from_the_syns_of_both_ends() {
        let mut streams = Streams::default();
        // Numbers wrap within the first segments.
        let (theirs, ours) = (u32::MAX - 1, 500);
        let flow = client_flow(1).0;
        assert_eq!(arrives(&mut streams, 1, (SYN, theirs, 0, 0)), format!("new {flow} 0+0 ack 0"));
        leaves(
            &mut streams,
            client_flow(1).reverse(),
            (SYN | ACK, ours, theirs.wrapping_add(1), 0),
        );
        let said = arrives(&mut streams, 1, (ACK, theirs.wrapping_add(1), 501, 100));
        assert_eq!(said, format!("{flow} 0+100 ack 0"));
        leaves(&mut streams, client_flow(1).reverse(), (ACK, 501, 99, 300));
        assert_eq!(arrives(&mut streams, 1, (ACK, 99, 801, 10)), format!("{flow} 100+10 ack 300"));
        // Repeated, and then the end: a FIN has a number and no place.
        assert_eq!(arrives(&mut streams, 1, (ACK, 99, 801, 10)), format!("{flow} 100+10 ack 300"));
        assert_eq!(
            arrives(&mut streams, 1, (FIN | ACK, 109, 801, 0)),
            format!("{flow} 110+0 ack 300")
        );
        leaves(&mut streams, client_flow(1).reverse(), (FIN | ACK, 801, 110, 0));
        assert_eq!(arrives(&mut streams, 1, (ACK, 110, 802, 0)), format!("{flow} 110+0 ack 300"));
    }

    #[test]
    fn a_syn_that_is_repeated_opens_nothing_and_another_one_does() {
        let mut streams = Streams::default();
        assert!(arrives(&mut streams, 1, (SYN, 7, 0, 0)).starts_with("new"));
        assert!(!arrives(&mut streams, 2, (SYN, 7, 0, 0)).starts_with("new"));
        assert!(arrives(&mut streams, 2, (SYN, 9_000, 0, 0)).starts_with("new"));
        assert_eq!(
            arrives(&mut streams, 2, (ACK, 9_001, 0, 5)),
            format!("{} 0+5 ack 0", client_flow(2).0)
        );
    }

    #[test]
    fn a_connection_of_the_host_is_known_by_the_mark_of_its_syn() {
        let mut streams = Streams::default();
        assert_eq!(arrives(&mut streams, 1, (SYN | ACK, 7, 501, 0)), "unknown");
        leaves(&mut streams, client_flow(3), (SYN, 500, 0, 0));
        let flow = client_flow(3).reverse().0;
        assert_eq!(arrives(&mut streams, 1, (SYN | ACK, 7, 501, 0)), format!("{flow} 0+0 ack 0"));
        assert_eq!(arrives(&mut streams, 1, (ACK, 8, 501, 20)), format!("{flow} 0+20 ack 0"));
    }

    #[test]
    fn windows_are_shifted_if_both_syns_announce_it() {
        let window = |own_announces: bool| {
            let with_shift = |mut packet: Vec<u8>, shift: u8| {
                packet.extend([1, 3, 3, shift]);
                packet[3] = packet.len() as u8;
                packet[IP_HEADER_BYTES + 12] = 0x60;
                packet
            };
            let mut streams = Streams::default();
            let opening = with_shift(packet(OTHER, HOST, (SYN, 7, 0, 0)), 3);
            let of_syn = streams.arrives(&opening, Some(client_flow(1))).unwrap().window;
            let mut bytes = packet(HOST, OTHER, (SYN | ACK, 500, 8, 0));
            if own_announces {
                bytes = with_shift(bytes, 0);
            }
            let mark = Mark { flow: client_flow(1).reverse(), ..Mark::default() };
            streams.leaves(&Frame { bytes, mark: Some(mark) });
            let later = packet(OTHER, HOST, (ACK, 8, 501, 0));
            (of_syn, streams.arrives(&later, None).unwrap().window)
        };
        assert_eq!(window(true), (0x1000, 0x8000));
        assert_eq!(window(false), (0x1000, 0x1000));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_segment_within_the_packet_or_none(
            bytes in prop::collection::vec(any::<u8>(), 0..120),
            has_head: bool,
        ) {
            let mut bytes = bytes;
            if has_head && bytes.len() >= IP_HEADER_BYTES {
                bytes[0] = 0x45;
                bytes[6..8].copy_from_slice(&[0, 0]);
                bytes[9] = PROTOCOL_TCP;
            }
            if let Some(segment) = Segment::read(&bytes) {
                prop_assert!(segment.len as usize + IP_HEADER_BYTES + TCP_HEADER_BYTES <= bytes.len());
            }
            let mut streams = Streams::default();
            let opened = streams.opened_by(&bytes).map(|_| client_flow(1));
            streams.arrives(&bytes, opened);
        }
    }
}
