//! A generated stream of calls.

use sockscope_record::{
    Connection, ConnectionId, Direction, Kind, Point, Protocol, Record, SegmentHeader, tcp_flags,
};

/// Calls of several connections, one after the other, without an end: 16 records a call.
pub struct Calls {
    pub connections: u32,
    pub call: u64,
}

impl Calls {
    /// Bytes of a question and of its answer.
    const BYTES: [u64; 2] = [100, 300];
    /// Between the starts of two calls.
    const EVERY_NS: u64 = 1_000_000;

    /// Describes the connections.
    pub fn describe(&self, each: impl FnMut(Connection)) {
        (1..=self.connections).map(connection).for_each(each);
    }

    /// The records of the next call, and when it ended.
    pub fn next(&mut self, out: &mut Vec<Record>) -> u64 {
        let id = ConnectionId(1 + (self.call % u64::from(self.connections)) as u32);
        let number = self.call / u64::from(self.connections);
        let mut at_ns = self.call * Self::EVERY_NS;
        for direction in [Direction::FromClient, Direction::FromServer] {
            let bytes = Self::BYTES[direction as usize];
            let answered = Self::BYTES[1 - direction as usize];
            let read = if direction == Direction::FromClient { number } else { number + 1 };
            for point in Point::ALL {
                at_ns += 1_000;
                let passed = Record {
                    at_ns,
                    offset: number * bytes,
                    flow: id.flow(direction),
                    len: bytes as u32,
                    kind: Kind::from(point),
                    thread: 7 + direction as u32,
                    ..Record::default()
                };
                let is_segment = (2..6).contains(&point.index());
                out.push(if is_segment {
                    let header =
                        SegmentHeader { acknowledged: Some(read * answered), window_bytes: 65_535 };
                    Record { tcp_flags: tcp_flags::ACK, ..passed }.with_segment_header(header)
                } else {
                    passed
                });
            }
        }
        self.call += 1;
        at_ns
    }
}

fn connection(id: u32) -> Connection {
    let end = |port: u32| ([127, 0, 0, 1], port as u16).into();
    Connection {
        id: ConnectionId(id),
        protocol: Protocol::Tcp,
        client: end(10_000 + id),
        server: end(80),
        opened_ns: 0,
        closed_ns: None,
        preexisting: false,
        both_ends_here: true,
        processes: Vec::new(),
        names: None,
        mark: None,
        elsewhere: None,
    }
}
