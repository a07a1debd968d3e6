//! Rows for tests.

use sockscope_analysis::{FindingId, Ledger, LedgerPart};
use sockscope_record::{Connection, ConnectionId, Direction, Hold, Process, Protocol, Side};

use super::{Row, RowFinding};

const MS: u64 = 1_000_000;

/// A connection that waited 440 of 1,000 ms by Nagle's algorithm.
pub(super) fn row(id: u32) -> Row {
    let mut ledger = Ledger::default();
    ledger.ns[LedgerPart::AppIdle as usize] = 500 * MS;
    ledger.ns[LedgerPart::SendNagle as usize] = 440 * MS;
    ledger.ns[LedgerPart::Wire as usize] = 60 * MS;
    let process = |pid, comm: &str, side| Process::new(pid, comm, side);
    Row {
        connection: Connection {
            id: ConnectionId(id),
            protocol: Protocol::Tcp,
            client: ([127, 0, 0, 1], 40_000).into(),
            server: ([127, 0, 0, 1], 80).into(),
            opened_ns: 0,
            closed_ns: None,
            preexisting: false,
            both_ends_here: true,
            processes: vec![
                process(100 + id, "client", Side::Client),
                process(7, "server", Side::Server),
            ],
            names: None,
            mark: None,
            elsewhere: None,
        },
        namespaces: [None, None],
        direction: Direction::FromClient,
        ledger,
        waited_ns: 440 * MS,
        send_queue_bytes: Some(300),
        receive_queue_bytes: Some(0),
        oldest_ns: Some(30 * MS),
        hold: Hold::Nagle,
        findings: vec![RowFinding {
            id: FindingId::NagleDelayedAck,
            cost_ns: 440 * MS,
            is_new: true,
            side: Side::Client,
            summary: "10 stalls of 44 ms".to_owned(),
        }],
        closed_ns: None,
    }
}

/// The row of a connection that waited so many milliseconds.
pub(super) fn delayed(id: u32, ms: u64) -> Row {
    let mut row = row(id);
    row.ledger.ns[LedgerPart::SendNagle as usize] = ms * MS;
    row.waited_ns = ms * MS;
    row
}
