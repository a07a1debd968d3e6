//! Packets as a listener on the wire would have printed them: at the time when a whole frame has
//! arrived, from the records of point 5.
//!
//! Sequence numbers are positions plus 1, as in traces that count from the connection's start. The
//! ends are called `client` and `server`.

use std::collections::BTreeMap;

use sockscope_experiment::papers::{WireFlags, WireRow};
use sockscope_record::{Connection, Direction, FlowId, Kind, Protocol, Record, tcp_flags};

/// The packets in `records`, which are in order of time; `zero_ns` is the trace's start of time.
pub(crate) fn rows(records: &[Record], connections: &[Connection], zero_ns: u64) -> Vec<WireRow> {
    let mut rows = Vec::new();
    let mut fins: Vec<Record> = Vec::new();
    let mut announced: BTreeMap<FlowId, u32> = BTreeMap::new();
    for record in records {
        if let Some(bytes) = record.announced_segment_bytes() {
            announced.insert(record.flow, bytes);
        }
        if record.kind != Kind::InputEnqueue {
            continue;
        }
        let id = record.flow.connection();
        let Some(connection) = connections.iter().find(|connection| connection.id == id) else {
            continue;
        };
        if record.tcp_flags & tcp_flags::FIN != 0 {
            fins.push(*record);
        }
        let bytes = announced.get(&record.flow).copied();
        let is_syn = record.tcp_flags & tcp_flags::SYN != 0;
        let mss = bytes.filter(|bytes| is_syn && *bytes > 0).map(u64::from);
        rows.push(WireRow { mss, ..row(record, connection, &fins, zero_ns) });
    }
    rows
}

fn row(record: &Record, connection: &Connection, fins: &[Record], zero_ns: u64) -> WireRow {
    let client = format!("client.{}", connection.client.port());
    let server = format!("server.{}", connection.server.port());
    let (source, destination) = match record.flow.direction() {
        Direction::FromClient => (client, server),
        Direction::FromServer => (server, client),
    };
    let is_tcp = connection.protocol == Protocol::Tcp;
    let has = |flag| record.tcp_flags & flag != 0;
    let flags = WireFlags::Tcp {
        syn: has(tcp_flags::SYN),
        fin: has(tcp_flags::FIN),
        push: has(tcp_flags::PSH),
    };
    let header = record.segment_header();
    let acknowledged = header.and_then(|header| header.acknowledged);
    let is_numbered = record.len > 0 || has(tcp_flags::SYN) || has(tcp_flags::FIN);
    WireRow {
        at_ns: record.at_ns.saturating_sub(zero_ns),
        source,
        destination,
        flags: if is_tcp { flags } else { WireFlags::Udp },
        sequence: (is_tcp && is_numbered).then(|| (record.offset + 1, record.end() + 1)),
        bytes: record.len.into(),
        ack: acknowledged.map(|end| end + 1 + acked_fin(record.flow, end, fins)),
        window: header.map(|header| header.window_bytes.into()),
        mss: None,
    }
}

/// 1 if a segment of `flow` that acknowledges position `end` of the reverse flow acknowledges a FIN, which takes
/// a number that positions do not show: a FIN that arrived before from the other side, at that position.
fn acked_fin(flow: FlowId, end: u64, fins: &[Record]) -> u64 {
    let is_it = |fin: &Record| fin.flow == flow.reverse() && fin.end() == end;
    fins.iter().any(is_it).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockscope_record::{ConnectionId, SegmentHeader};

    #[test]
    fn records_of_point_five_become_lines() {
        let id = ConnectionId(1);
        let connection = Connection {
            id,
            protocol: Protocol::Tcp,
            client: ([192, 0, 2, 1], 1043).into(),
            server: ([192, 0, 2, 2], 1055).into(),
            opened_ns: 0,
            closed_ns: None,
            preexisting: false,
            both_ends_here: true,
            processes: Vec::new(),
            names: None,
            mark: None,
            elsewhere: None,
        };
        let left = |at_us: u64, direction, offset, len, ack, flags| {
            let header = SegmentHeader { acknowledged: Some(ack), window_bytes: 4096 };
            let record = Record {
                at_ns: at_us * 1000,
                flow: id.flow(direction),
                offset,
                len,
                kind: Kind::InputEnqueue,
                tcp_flags: flags,
                ..Record::default()
            };
            record.with_segment_header(header)
        };
        let (there, back) = (Direction::FromClient, Direction::FromServer);
        const ACK: u8 = tcp_flags::ACK;
        let options = Record { flow: id.flow(there), ..Record::default() };
        let options = options.with_announced_segment_bytes(1460);
        let records = [
            options,
            left(150, there, 0, 0, 0, tcp_flags::SYN),
            left(160, back, 0, 0, 0, tcp_flags::SYN | ACK),
            left(170, there, 0, 96, 0, ACK | tcp_flags::PSH),
            left(180, there, 96, 0, 0, ACK | tcp_flags::FIN),
            left(190, back, 0, 0, 96, ACK),
        ];
        let lines = rows(&records, &[connection], 100_000);
        let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "0.000050 client.1043 > server.1055: S 1:1(0) win 4096 <mss 1460>",
                "0.000060 server.1055 > client.1043: S 1:1(0) ack 1 win 4096",
                "0.000070 client.1043 > server.1055: P 1:97(96) ack 1 win 4096",
                "0.000080 client.1043 > server.1055: F 97:97(0) ack 1 win 4096",
                "0.000090 server.1055 > client.1043: . ack 98 win 4096",
            ]
        );
    }
}
