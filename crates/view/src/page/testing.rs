//! Traces for tests.

use sockscope_analysis::{Analyzer, TraceFacts};
use sockscope_record::{
    Connection, ConnectionId, Direction, Kind, Point, Process, Protocol, Record, Side,
};
use sockscope_report::Origin;

use super::{Answer, Trace};

/// Where times of the traces count from.
pub(super) const START_NS: u64 = 5_000;

/// Bytes of the client that pass each point at one time; those at point 2 wait until then.
pub(super) fn passed(
    id: u32,
    offset: u64,
    len: u32,
    written_ns: u64,
    taken_ns: u64,
) -> Vec<Record> {
    let flow = ConnectionId(id).flow(Direction::FromClient);
    let record = |point: &Point| Record {
        at_ns: if *point == Point::SendEnqueue { written_ns } else { taken_ns },
        offset,
        flow,
        len,
        kind: Kind::from(*point),
        ..Record::default()
    };
    Point::ALL.iter().map(record).collect()
}

pub(super) fn connection(id: u32) -> Connection {
    let process = |name: &str, side| Process::new(7, name, side);
    Connection {
        processes: vec![process("caller", Side::Client), process("redis", Side::Server)],
        both_ends_here: true,
        ..Connection::new(
            ConnectionId(id),
            Protocol::Tcp,
            [([127, 0, 0, 1], 4_000).into(), ([127, 0, 0, 1], 80).into()],
            START_NS,
        )
    }
}

/// One connection: 100 bytes that pass at once at 0, and 300 that wait from 1,000 to 45,000 in the send queue.
pub(super) fn stalled() -> Trace {
    let first = passed(1, 0, 100, START_NS, START_NS);
    trace([first, passed(1, 100, 300, START_NS + 1_000, START_NS + 45_000)])
}

/// A trace of the connection 1 with these records.
pub(super) fn trace(parts: impl IntoIterator<Item = Vec<Record>>) -> Trace {
    let mut analyzer = Analyzer::new();
    analyzer.connection(connection(1));
    for records in parts {
        analyzer.push(&records);
    }
    let (analysis, stores) =
        analyzer.finish_keeping(TraceFacts::default(), std::num::NonZeroUsize::MIN);
    Trace::whole("stalled".to_owned(), Origin::default(), analysis, stores)
}

pub(super) fn floats(answer: &Answer) -> Vec<f64> {
    let bytes = answer.bytes().chunks_exact(8);
    bytes.map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

pub(super) fn json(answer: &Answer) -> serde_json::Value {
    serde_json::from_slice(answer.bytes()).unwrap()
}
