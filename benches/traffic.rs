//! Records of made traffic, for benchmarks.

use std::net::{Ipv4Addr, SocketAddr};

use sockscope_record::{
    Connection, ConnectionId, Direction, Hold, Kind, Point, Protocol, ReaderTimes, Record,
    SegmentHeader, marks, tcp_flags,
};

/// Traffic of many connections that take turns.
pub struct Traffic {
    now_ns: u64,
    bulk: u32,
    next: usize,
    /// Bytes sent so far in each direction.
    sent: Vec<[u64; 2]>,
    random: u64,
}

impl Traffic {
    /// So many connections, of which the first ones carry bulk data and the others make calls.
    pub fn new(connections: u32, bulk: u32) -> Self {
        let sent = vec![[0; 2]; connections as usize];
        Self { now_ns: 1_000_000, bulk, next: 0, sent, random: 0x5350 }
    }

    /// One skb of bulk data, or one call, on the next connection.
    pub fn step(&mut self, out: &mut Vec<Record>) {
        let index = self.next;
        self.next = (index + 1) % self.sent.len();
        let id = ConnectionId(index as u32 + 1);
        if (index as u32) < self.bulk {
            self.data(id, Direction::FromClient, 65_536, out);
            self.acknowledge(id, Direction::FromClient, out);
        } else {
            let request = 64 + self.random(400) as u32;
            self.data(id, Direction::FromClient, request, out);
            self.now_ns += self.random(20_000);
            self.data(id, Direction::FromServer, 4096, out);
            self.acknowledge(id, Direction::FromServer, out);
        }
        self.now_ns += self.random(5_000);
    }

    fn data(&mut self, id: ConnectionId, direction: Direction, len: u32, out: &mut Vec<Record>) {
        let flow = id.flow(direction);
        let [client, server] = self.sent[id.0 as usize - 1];
        let (offset, acknowledged) = match direction {
            Direction::FromClient => (client, server),
            Direction::FromServer => (server, client),
        };
        self.sent[id.0 as usize - 1][direction as usize] += u64::from(len);
        let thread = id.0 * 2 + direction as u32;
        let base = Record { flow, offset, len, thread, ..Record::default() };
        out.push(Record { at_ns: self.now_ns, kind: Kind::WriteCall, ..base });
        for point in Point::ALL {
            self.now_ns += self.random(2_000);
            let kind = Kind::from(point);
            let mut record = Record { at_ns: self.now_ns, kind, ..base };
            match point {
                Point::SendEnqueue | Point::SendDequeue => record = record.with_hold(Hold::Cwnd),
                Point::ReceiveEnqueue => record.marks = marks::WAITED_FOR,
                Point::ReceiveDequeue => {
                    record = record.with_reader_times(ReaderTimes::new(self.now_ns - 500, 0));
                }
                _ => record = acknowledging(record, acknowledged),
            }
            out.push(record);
        }
        out.push(Record { at_ns: self.now_ns, kind: Kind::ReadReturn, ..base });
    }

    fn acknowledge(&mut self, id: ConnectionId, of: Direction, out: &mut Vec<Record>) {
        let sent = self.sent[id.0 as usize - 1];
        let flow = id.flow(of).reverse();
        let (acknowledged, offset) = (sent[of as usize], sent[1 - of as usize]);
        let base = acknowledging(Record { flow, offset, ..Record::default() }, acknowledged);
        for point in &Point::ALL[2..6] {
            self.now_ns += self.random(1_000);
            out.push(Record { at_ns: self.now_ns, kind: Kind::from(*point), ..base });
        }
        let state =
            Record { at_ns: self.now_ns, kind: Kind::TcpState, flow: flow.reverse(), ..base };
        out.push(state);
    }

    /// Below `limit`; Knuth's MMIX generator.
    fn random(&mut self, limit: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % limit
    }
}

/// The description of a connection of it.
pub fn connection(id: u32) -> Connection {
    Connection {
        id: ConnectionId(id),
        protocol: Protocol::Tcp,
        client: SocketAddr::from((Ipv4Addr::LOCALHOST, 40_000)),
        server: SocketAddr::from((Ipv4Addr::LOCALHOST, 80)),
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

fn acknowledging(segment: Record, acknowledged: u64) -> Record {
    let header = SegmentHeader { acknowledged: Some(acknowledged), window_bytes: 0 };
    Record { tcp_flags: tcp_flags::ACK, ..segment }.with_segment_header(header)
}
