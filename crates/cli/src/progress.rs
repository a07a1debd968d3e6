//! The line that `record` keeps up to date on a terminal while it records.
//!
//! Counted from the records that the trace gets, without an analysis. A request begins with the first byte that the
//! client was seen to write, and is answered with the first byte that the server was seen to write; where one of
//! them is on another host, with the first read. A report counts exactly.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sockscope_record::{Connection, ConnectionId, Direction, Kind, Record};
use sockscope_render::number::{count, counted, size, time};
use sockscope_render::style::Charset;

/// Rates are those of this time.
const RATE_OVER: Duration = Duration::from_secs(1);

/// What the trace has so far.
#[derive(Debug, Default)]
pub struct Traffic {
    connections: u64,
    last: Option<ConnectionId>,
    /// When the client of a connection began to wait for an answer.
    asked_ns: HashMap<ConnectionId, u64>,
    answered: u64,
    slowest_ns: u64,
}

impl Traffic {
    /// A row of a connection; their numbers grow.
    pub fn connection(&mut self, connection: &Connection) {
        if self.last.is_none_or(|last| connection.id > last) {
            self.connections += 1;
            self.last = Some(connection.id);
        }
    }

    /// Nothing more of a connection follows.
    pub fn complete(&mut self, connection: ConnectionId) {
        self.asked_ns.remove(&connection);
    }

    /// Records in the order of the trace.
    pub fn records(&mut self, records: &[Record]) {
        for record in records {
            if matches!(record.kind, Kind::SendEnqueue | Kind::ReceiveDequeue) && record.len > 0 {
                self.data(record);
            }
        }
    }

    fn data(&mut self, record: &Record) {
        let connection = record.flow.connection();
        match record.flow.direction() {
            Direction::FromClient => {
                self.asked_ns.entry(connection).or_insert(record.at_ns);
            }
            Direction::FromServer => {
                if let Some(asked_ns) = self.asked_ns.remove(&connection) {
                    self.answered += 1;
                    self.slowest_ns = self.slowest_ns.max(record.at_ns.saturating_sub(asked_ns));
                }
            }
        }
    }
}

/// Totals at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records read.
    pub records: u64,
    /// Records missed.
    pub missed: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

/// The line, and the rates in it.
#[derive(Debug)]
pub struct Progress {
    since: Instant,
    /// Records and requests at that time.
    before: (u64, u64),
    /// Records and requests a second.
    rates: Option<(u64, u64)>,
    /// Columns of the line that is shown.
    shown: usize,
}

impl Progress {
    /// Begins at this time.
    pub fn new(now: Instant) -> Self {
        Self { since: now, before: (0, 0), rates: None, shown: 0 }
    }

    /// What to print in the place of the last line; at most `columns` columns.
    pub fn line(
        &mut self,
        now: Instant,
        totals: Totals,
        traffic: &Traffic,
        columns: usize,
    ) -> String {
        let passed = now.saturating_duration_since(self.since);
        if passed >= RATE_OVER {
            let (records, requests) = self.before;
            let rate = |more: u64| (more as f64 / passed.as_secs_f64()).round() as u64;
            self.rates = Some((rate(totals.records - records), rate(traffic.answered - requests)));
            (self.since, self.before) = (now, (totals.records, traffic.answered));
        }
        let text: String = words(totals, traffic, self.rates).chars().take(columns).collect();
        let length = text.chars().count();
        let blanks = self.shown.saturating_sub(length);
        self.shown = length;
        format!("\r{text}{:blanks$}", "")
    }
}

fn words(totals: Totals, traffic: &Traffic, rates: Option<(u64, u64)>) -> String {
    let mut parts = vec![counted(traffic.connections, "connection")];
    match rates {
        None => parts.push(counted(totals.records, "record")),
        Some((records, requests)) => {
            parts.push(format!("{} records/s", count(records)));
            parts.push(format!("{} requests/s", count(requests)));
        }
    }
    if traffic.answered > 0 {
        // The terminal may not show the sign of microseconds.
        parts.push(format!("slowest {}", time(traffic.slowest_ns, Charset::Ascii)));
    }
    parts.push(size(totals.bytes));
    parts.push(format!("{} missed", count(totals.missed)));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Direction = Direction::FromClient;
    const SERVER: Direction = Direction::FromServer;

    fn data(connection: u32, direction: Direction, kind: Kind, at_ns: u64) -> Record {
        let flow = ConnectionId(connection).flow(direction);
        Record { at_ns, flow, kind, len: 10, ..Record::default() }
    }

    fn connection(id: u32) -> Connection {
        let nowhere = ([0, 0, 0, 0], 0).into();
        Connection {
            id: ConnectionId(id),
            protocol: sockscope_record::Protocol::Tcp,
            client: nowhere,
            server: nowhere,
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

    #[test]
    fn a_request_lasts_until_the_server_begins_to_answer() {
        let mut traffic = Traffic::default();
        traffic.records(&[
            // A greeting answers nothing.
            data(1, SERVER, Kind::SendEnqueue, 50),
            data(1, CLIENT, Kind::SendEnqueue, 100),
            data(1, CLIENT, Kind::SendEnqueue, 150),
            data(1, CLIENT, Kind::ReceiveDequeue, 160),
            data(2, CLIENT, Kind::SendEnqueue, 200),
            data(1, SERVER, Kind::SendEnqueue, 400),
            data(1, SERVER, Kind::SendEnqueue, 500),
            data(1, SERVER, Kind::ReceiveDequeue, 600),
        ]);
        assert_eq!((traffic.answered, traffic.slowest_ns), (1, 300));
        traffic.complete(ConnectionId(2));
        traffic.records(&[data(2, SERVER, Kind::SendEnqueue, 900)]);
        assert_eq!(traffic.answered, 1);
    }

    #[test]
    fn an_end_on_another_host_is_known_by_what_is_read_here() {
        let mut traffic = Traffic::default();
        traffic.records(&[
            data(1, CLIENT, Kind::ReceiveDequeue, 100),
            data(1, SERVER, Kind::SendEnqueue, 107),
            data(2, CLIENT, Kind::SendEnqueue, 100),
            data(2, SERVER, Kind::ReceiveDequeue, 105),
        ]);
        assert_eq!((traffic.answered, traffic.slowest_ns), (2, 7));
    }

    #[test]
    fn each_connection_counts_once() {
        let mut traffic = Traffic::default();
        [1, 2, 1, 3, 2].map(connection).iter().for_each(|row| traffic.connection(row));
        assert_eq!(traffic.connections, 3);
    }

    #[test]
    fn the_line_has_rates_after_a_second_and_covers_the_one_before() {
        let start = Instant::now();
        let mut progress = Progress::new(start);
        let mut traffic = Traffic::default();
        traffic.connection(&connection(1));
        let totals = Totals { records: 1200, missed: 0, bytes: 2048 };
        let first = progress.line(start, totals, &traffic, 200);
        assert_eq!(first, "\r1 connection, 1,200 records, 2.00 KiB, 0 missed");
        traffic.records(&[
            data(1, CLIENT, Kind::SendEnqueue, 0),
            data(1, SERVER, Kind::SendEnqueue, 40_000_000),
        ]);
        let later = start + Duration::from_secs(2);
        let totals = Totals { records: 3200, missed: 7, bytes: 5 << 20 };
        let second = progress.line(later, totals, &traffic, 200);
        assert_eq!(
            second,
            "\r1 connection, 1,600 records/s, 1 requests/s, slowest 40.0 ms, 5.00 MiB, 7 missed"
        );
        let narrow = progress.line(later, totals, &traffic, 20);
        assert_eq!(narrow.trim_end(), "\r1 connection, 1,600");
        assert_eq!(narrow.len(), second.len());
    }
}
