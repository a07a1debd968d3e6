//! A packet in transit through one host, and the mark that makes its passage visible.

use sockscope_record::{FlowId, Point, Record, SegmentHeader, marks, tcp_flags};

use crate::mbuf::Chain;

/// The record data of a packet at points 3 to 6, fixed when its segment was made.
///
/// The mark of a logged socket travels with the packet, so that the receiving host knows the flow
/// without a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// The direction of the connection that it belongs to.
    pub flow: FlowId,
    /// Position in the stream of its first data byte.
    pub offset: u64,
    /// For TCP the acknowledgment carried, a position in the reverse flow; for UDP the datagram's
    /// number in its flow.
    pub number: u64,
    /// Data bytes.
    pub len: u32,
    /// Window offered, in bytes; 0 for UDP.
    pub window: u32,
    /// TCP flags, low eight bits; 0 for UDP.
    pub tcp_flags: u8,
    /// The bytes were sent before.
    pub is_retransmission: bool,
    /// The packet passes the loopback interface.
    pub is_loopback: bool,
}

impl Mark {
    /// The record of this packet passing `point`; time, CPU and thread are left 0.
    pub fn record(&self, point: Point) -> Record {
        let passed = Record {
            offset: self.offset,
            flow: self.flow,
            len: self.len,
            kind: point.into(),
            tcp_flags: self.tcp_flags,
            marks: self.marks(),
            ..Record::default()
        };
        match point {
            Point::SendEnqueue | Point::SendDequeue => passed,
            Point::ReceiveEnqueue | Point::ReceiveDequeue => passed,
            _ if self.tcp_flags == 0 => passed.with_datagram_number(self.number),
            _ => passed.with_segment_header(self.header()),
        }
    }

    fn header(&self) -> SegmentHeader {
        let has_ack = self.tcp_flags & tcp_flags::ACK != 0;
        SegmentHeader { acknowledged: has_ack.then_some(self.number), window_bytes: self.window }
    }

    /// Bits of [`marks`] that hold at every point.
    pub fn marks(&self) -> u8 {
        let retransmitted = if self.is_retransmission { marks::RETRANSMITTED } else { 0 };
        let loopback = if self.is_loopback { marks::LOOPBACK } else { 0 };
        retransmitted | loopback
    }

    /// The mark of the part of the data that begins `skip` bytes in and is at most `len` long.
    #[must_use]
    pub fn part(mut self, skip: u32, len: u32) -> Self {
        let skip = skip.min(self.len);
        self.offset += u64::from(skip);
        self.len = (self.len - skip).min(len);
        self
    }
}

/// A chain of mbufs and its mark. Its first bytes are those of the outermost header made so far.
#[derive(Debug)]
pub struct Packet {
    /// The bytes.
    pub chain: Chain,
    /// `None` when the socket that sent it is not logged.
    pub mark: Option<Mark>,
}

impl Packet {
    /// Takes the bytes and the mark, leaving an empty packet.
    pub fn take(&mut self) -> Self {
        Self { chain: self.chain.take(), mark: self.mark.take() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_mark_cover_its_data_once() {
        let mark = Mark { offset: 100, len: 50, ..Mark::default() };
        let parts = [mark.part(0, 30), mark.part(30, 30), mark.part(60, 30)];
        assert_eq!(parts.map(|part| (part.offset, part.len)), [(100, 30), (130, 20), (150, 0)]);
    }
}
