//! The connections with their last seconds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use sockscope_analysis::{
    Analysis, ConnectionAnalysis, ConnectionStore, Finding, FindingId, FreshCosts, Ledger,
    TraceFacts, Window,
};
use sockscope_record::{Connection, ConnectionId, Direction, Record, Side, Stage};

use super::row::{Row, RowFinding, hold, oldest_ns, resident, waited_ns};

/// Closed connections that are kept at most.
const CLOSED_MAX: usize = 200;
const DIRECTIONS: [Direction; 2] = [Direction::FromClient, Direction::FromServer];

/// Connections that are recorded, and their waits in the last seconds.
///
/// Each [`refresh`](Self::refresh) analyses the records since the last one; a figure of a row is the sum over several
/// refreshes. So each record is analysed once, and the memory is that of the time between two refreshes and of the
/// bytes in socket buffers.
#[derive(Debug)]
pub struct Board {
    window: Window,
    /// A wait that is open over several refreshes costs its time once.
    costs: FreshCosts,
    histories: BTreeMap<ConnectionId, History>,
    /// Refreshes over which a row sums up.
    slices: usize,
    refreshed_ns: Option<u64>,
    rows: Vec<Row>,
    /// Connections that closed before the window, the last one first.
    closed: VecDeque<Closed>,
}

/// A connection that closed, with its last figures.
#[derive(Debug)]
struct Closed {
    row: Row,
    at_ns: u64,
}

/// The last seconds of one connection.
#[derive(Debug, Default)]
struct History {
    slices: VecDeque<Slice>,
}

/// One connection between two refreshes.
#[derive(Debug, Default)]
struct Slice {
    ledgers: [Ledger; 2],
    findings: Vec<Found>,
}

/// A finding of a slice.
#[derive(Debug)]
struct Found {
    id: FindingId,
    cost_ns: u64,
    side: Side,
    summary: String,
}

impl Board {
    /// Rows sum up so many refreshes, at least one.
    pub fn new(slices: usize) -> Self {
        Self {
            window: Window::new(),
            costs: FreshCosts::default(),
            histories: BTreeMap::new(),
            slices: slices.max(1),
            refreshed_ns: None,
            rows: Vec::new(),
            closed: VecDeque::new(),
        }
    }

    /// Takes the next records, nearly in time order.
    pub fn push(&mut self, records: &[Record]) {
        self.window.push(records);
    }

    /// Takes the description of a connection; the last one for an id counts.
    pub fn connection(&mut self, connection: Connection) {
        self.window.connection(connection);
    }

    /// Records in memory.
    pub fn records(&self) -> usize {
        self.window.records()
    }

    /// Analyses the records since the last refresh, up to `until_ns`, on their clock. `now_ns` is the time now: later by
    /// the time that a recorder takes to hand a record over. The ages of bytes are as of now.
    pub fn refresh(&mut self, facts: TraceFacts, until_ns: u64, now_ns: u64) {
        if let Some(refreshed_ns) = self.refreshed_ns {
            self.window.forget_before(refreshed_ns);
        }
        self.refreshed_ns = Some(until_ns);
        let analysis = self.window.refresh(facts, Some(until_ns));
        for history in self.histories.values_mut() {
            history.slices.push_front(Slice::default());
        }
        let costs = self.costs.take(analysis);
        for (one, cost) in analysis.connections.iter().zip(&costs) {
            let history = self.histories.entry(one.connection.id).or_default();
            if history.slices.is_empty() {
                history.slices.push_front(Slice::default());
            }
            history.slices[0] = Slice::of(one, &cost.findings_ns);
        }
        let (slices, window) = (self.slices, &self.window);
        self.histories.retain(|id, history| {
            history.slices.truncate(slices);
            window.store(*id).is_some()
        });
        let analysis = self.window.analysis();
        let connections = analysis.map_or(&[][..], |analysis| &analysis.connections);
        let rows = connections.iter().filter_map(|one| {
            let store = self.window.store(one.connection.id)?;
            Some(self.histories.get(&one.connection.id)?.row(one, store, now_ns))
        });
        let before = std::mem::replace(&mut self.rows, rows.collect());
        self.keep_closed(before, now_ns);
    }

    /// Keeps the rows of connections that closed and are no longer in the window, the last ones of them.
    fn keep_closed(&mut self, before: Vec<Row>, now_ns: u64) {
        for mut row in before {
            let id = row.connection.id;
            let is_kept = self.closed.iter().any(|closed| closed.row.connection.id == id);
            if let Some(at_ns) = row.connection.closed_ns.filter(|_| !is_kept)
                && self.window.store(id).is_none()
            {
                row.findings.iter_mut().for_each(|finding| finding.is_new = false);
                self.closed.push_front(Closed { row, at_ns });
            }
        }
        self.closed.truncate(CLOSED_MAX);
        self.rows.extend(self.closed.iter().map(|Closed { row, at_ns }| Row {
            closed_ns: Some(now_ns.saturating_sub(*at_ns)),
            oldest_ns: None,
            ..row.clone()
        }));
    }

    /// The connections as of the last refresh, by id; behind them those that closed, the last one first.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The analysis of the records between the last two refreshes; `None` before the first one.
    pub fn analysis(&self) -> Option<&Analysis> {
        self.window.analysis()
    }
}

impl Slice {
    fn of(one: &ConnectionAnalysis, costs_ns: &[u64]) -> Self {
        let ledgers = DIRECTIONS.map(|direction| one.flows[direction as usize].ledger.clone());
        let findings = one.findings.iter().zip(costs_ns);
        Self { ledgers, findings: findings.map(|(one, cost)| Found::of(one, *cost)).collect() }
    }
}

impl Found {
    fn of(finding: &Finding, cost_ns: u64) -> Self {
        let Finding { id, side, ref summary, .. } = *finding;
        Self { id, cost_ns, side, summary: summary.clone() }
    }
}

impl History {
    fn row(&self, one: &ConnectionAnalysis, store: &ConnectionStore, now_ns: u64) -> Row {
        let ledgers = DIRECTIONS.map(|direction| self.ledger(direction));
        let [client, server] = ledgers.each_ref().map(waited_ns);
        let oldest = DIRECTIONS.map(|direction| oldest_ns(store, direction));
        let is_server =
            server > client || (server == client && oldest[0].is_none() && oldest[1].is_some());
        let direction = DIRECTIONS[usize::from(is_server)];
        let [client_ledger, server_ledger] = ledgers;
        let send_queue_bytes = resident(one, direction, Stage::SendQueue);
        Row {
            connection: one.connection.clone(),
            namespaces: [Side::Client, Side::Server]
                .map(|side| one.namespace_name(side).map(str::to_owned)),
            direction,
            ledger: if is_server { server_ledger } else { client_ledger },
            waited_ns: client.max(server),
            send_queue_bytes,
            receive_queue_bytes: resident(one, direction, Stage::ReceiveQueue),
            oldest_ns: oldest[direction as usize].map(|at_ns| now_ns.saturating_sub(at_ns)),
            hold: hold(store.flow(direction), send_queue_bytes),
            findings: self.findings(),
            closed_ns: one.connection.closed_ns.map(|at_ns| now_ns.saturating_sub(at_ns)),
        }
    }

    fn ledger(&self, direction: Direction) -> Ledger {
        let mut sum = Ledger::default();
        for slice in &self.slices {
            for (sum, ns) in sum.ns.iter_mut().zip(slice.ledgers[direction as usize].ns) {
                *sum = sum.saturating_add(ns);
            }
        }
        sum
    }

    fn findings(&self) -> Vec<RowFinding> {
        let mut findings: Vec<RowFinding> = Vec::new();
        for (age, slice) in self.slices.iter().enumerate() {
            for found in &slice.findings {
                match findings.iter_mut().find(|one| one.id == found.id && one.side == found.side) {
                    Some(one) => one.cost_ns = one.cost_ns.saturating_add(found.cost_ns),
                    None => findings.push(RowFinding {
                        id: found.id,
                        cost_ns: found.cost_ns,
                        is_new: age == 0,
                        side: found.side,
                        summary: found.summary.clone(),
                    }),
                }
            }
        }
        findings.sort_by_key(|one| (Reverse(one.cost_ns), one.id));
        findings
    }
}

#[cfg(test)]
mod tests {
    use sockscope_record::{Kind, Point};

    use super::*;
    use crate::top::testing::row;

    const SECOND: u64 = 1_000_000_000;

    fn connection(id: u32) -> Connection {
        Connection { id: ConnectionId(id), processes: Vec::new(), ..row(id).connection }
    }

    /// A write of so many bytes that stays in the receive queue.
    fn unread(id: u32, at_ns: u64, len: u32) -> Vec<Record> {
        let flow = ConnectionId(id).flow(Direction::FromClient);
        let points = &Point::ALL[..7];
        let record = |point: &Point| Record {
            at_ns,
            flow,
            len,
            kind: Kind::from(*point),
            ..Record::default()
        };
        points.iter().map(record).collect()
    }

    fn ids(board: &Board) -> Vec<u32> {
        board.rows().iter().map(|row| row.connection.id.0).collect()
    }

    #[test]
    fn an_unread_byte_has_its_age_and_its_queue() {
        let mut board = Board::new(2);
        board.connection(connection(1));
        board.push(&unread(1, SECOND, 500));
        for (now, age) in [(2, 1), (3, 2), (4, 3)] {
            board.refresh(TraceFacts::default(), now * SECOND, now * SECOND);
            let row = &board.rows()[0];
            assert_eq!(row.oldest_ns, Some(age * SECOND));
            assert_eq!((row.send_queue_bytes, row.receive_queue_bytes), (Some(0), Some(500)));
        }
        // Of two refreshes.
        assert_eq!(board.rows()[0].waited_ns, 2 * SECOND);
    }

    /// The findings of the first row: name, cost in seconds, whether the last refresh found it.
    fn findings(board: &Board) -> Vec<(&'static str, u64, bool)> {
        let found = board.rows()[0].findings.iter();
        found.map(|one| (one.id.name(), one.cost_ns / SECOND, one.is_new)).collect()
    }

    #[test]
    fn an_open_wait_costs_its_time_once() {
        let mut board = Board::new(2);
        board.connection(connection(1));
        board.push(&unread(1, SECOND, 500));
        for (now, cost) in [(2, 1), (3, 2), (4, 2), (5, 2)] {
            board.refresh(TraceFacts::default(), now * SECOND, now * SECOND);
            assert_eq!(findings(&board), [("unanswered", cost, true)], "at {now} s");
        }
    }

    #[test]
    fn no_refresh_finds_what_a_closed_connection_had() {
        let mut board = Board::new(2);
        board.push(&unread(1, SECOND, 500));
        board.connection(Connection { closed_ns: Some(2 * SECOND), ..connection(1) });
        for (now, is_new) in [(3, true), (4, false), (5, false)] {
            board.refresh(TraceFacts::default(), now * SECOND, now * SECOND);
            let found = findings(&board);
            assert!(!found.is_empty(), "at {now} s");
            assert!(found.iter().all(|one| one.2 == is_new), "at {now} s: {found:?}");
        }
    }

    #[test]
    fn closed_connections_are_kept_behind_the_open_ones() {
        let mut board = Board::new(2);
        for id in [1, 2] {
            board.connection(connection(id));
            board.push(&unread(id, SECOND, 10));
        }
        board.connection(Connection { closed_ns: Some(SECOND), ..connection(1) });
        for now in 2..6 {
            board.refresh(TraceFacts::default(), now * SECOND, now * SECOND);
            let closed = board.rows().iter().find(|row| row.connection.id.0 == 1).unwrap();
            assert_eq!(closed.closed_ns, Some((now - 1) * SECOND));
        }
        assert_eq!(ids(&board), [2, 1]);
    }
}
