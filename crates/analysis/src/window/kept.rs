//! One connection of a window: its records, and the results of its last analysis.

use sockscope_record::{Connection, ConnectionId, Direction, Point, Record, Side, tcp_flags};

use crate::assembly::{One, undescribed};
use crate::findings::{Delay, Opening};
use crate::record_buffer::is_gone;
use crate::{
    ConnectionAnalysis, ConnectionStore, Events, Finding, FlowStore, Ledger, Passage, StoreWindow,
};

/// The list after the lists of the eight points.
const EVENTS: usize = 8;

/// One connection.
#[derive(Debug)]
pub(super) struct Kept {
    pub store: ConnectionStore,
    pub is_described: bool,
    /// Some of its records were dropped.
    pub is_cut: bool,
    /// Since the last analysis.
    pub is_changed: bool,
    /// By flow, lists with a record that is older than the one before it: a bit for each point, and [`EVENTS`].
    unsorted: [u16; 2],
    /// Nothing was unread or moved in the window of the last analysis.
    is_settled: bool,
    /// End of the trace at the last analysis.
    analyzed_until_ns: u64,
    /// By flow, points at which bytes passed before the window.
    pub watched: [[bool; 8]; 2],
    /// By flow, the position below which all bytes were read before the window.
    pub floors: [u64; 2],
    found: Found,
}

/// Results that the rules over all connections change or take: needed when the connection is not analysed again.
#[derive(Debug, Default)]
struct Found {
    findings: Vec<Finding>,
    delays: Vec<Delay>,
    opening: Option<Opening>,
    asked_by: Option<Side>,
}

impl Kept {
    pub fn new(id: ConnectionId) -> Self {
        let flow = |direction| FlowStore {
            id: id.flow(direction),
            passages: Default::default(),
            events: Events::default(),
        };
        let flows = [Direction::FromClient, Direction::FromServer].map(flow);
        Self {
            store: ConnectionStore { connection: undescribed(id), flows, window: None },
            is_described: false,
            is_cut: false,
            is_changed: true,
            unsorted: [0; 2],
            is_settled: false,
            analyzed_until_ns: 0,
            watched: [[false; 8]; 2],
            floors: [0; 2],
            found: Found::default(),
        }
    }

    pub fn push(&mut self, record: &Record) {
        self.is_changed = true;
        let direction = record.flow.direction() as usize;
        let flow = &mut self.store.flows[direction];
        let (list, before_ns) = match Passage::of(record).filter(|_| !is_gone(record)) {
            Some(pass) => {
                let list = pass.point.index();
                let passes = &mut flow.passages[list];
                let before_ns = passes.last().map(|last| last.at_ns);
                passes.push(pass);
                (list, before_ns)
            }
            None => {
                let before_ns = flow.events.last().map(|last| last.at_ns);
                flow.events.push(*record);
                (EVENTS, before_ns)
            }
        };
        self.unsorted[direction] |= u16::from(before_ns > Some(record.at_ns)) << list;
    }

    pub fn describe(&mut self, connection: Connection) {
        self.is_described = true;
        let preexisting = connection.preexisting || self.is_cut;
        let connection = Connection { preexisting, ..connection };
        self.is_changed |= self.store.connection != connection;
        self.store.connection = connection;
    }

    pub fn records(&self) -> usize {
        let flows = self.store.flows.iter();
        flows
            .map(|flow| flow.passages.iter().map(Vec::len).sum::<usize>() + flow.events.len())
            .sum()
    }

    /// Each list by time, equal times in order of arrival.
    pub fn sort(&mut self) {
        for (flow, unsorted) in self.store.flows.iter_mut().zip(std::mem::take(&mut self.unsorted))
        {
            let is_unsorted = |list: usize| unsorted & (1 << list) != 0;
            for (list, passes) in flow.passages.iter_mut().enumerate() {
                if is_unsorted(list) {
                    passes.sort_by_key(|pass| pass.at_ns);
                }
            }
            if is_unsorted(EVENTS) {
                flow.events.sort_by_time();
            }
        }
    }

    /// Whether its last analysis may no longer hold. An open connection may wait until the end of the trace, and the
    /// findings on a handshake depend on other connections to the same server.
    pub fn needs(&self, openings_changed: bool) -> bool {
        let closed_ns = self.store.connection.closed_ns;
        let is_done = match self.store.window {
            Some(_) => self.is_settled,
            None => closed_ns.is_some_and(|closed_ns| closed_ns <= self.analyzed_until_ns),
        };
        self.is_changed || !is_done || (openings_changed && self.has_syn())
    }

    /// Direction of the last request that began before `at_ns`, where nothing was written after it until then.
    pub fn unanswered(&self, at_ns: u64) -> Option<Direction> {
        let written_ns = |direction: Direction| {
            let writes = self.store.flow(direction).at(Point::SendEnqueue).iter().rev();
            let mut writes = writes.filter(|pass| pass.len > 0 && pass.at_ns < at_ns);
            writes.next().map(|pass| pass.at_ns)
        };
        let asker = self.found.asked_by?.sends();
        let asked_ns = written_ns(asker)?;
        let is_last = written_ns(asker.reverse()).is_none_or(|answered_ns| answered_ns < asked_ns);
        is_last.then_some(asker)
    }

    /// No byte is unread, no request waits, and nothing passed in the window.
    fn is_quiet(&self) -> bool {
        let since_ns = self.store.window.map_or(0, |window| window.since_ns);
        let waits =
            self.store.connection.closed_ns.is_none() && self.unanswered(u64::MAX).is_some();
        !waits
            && self.store.flows.iter().zip(self.floors).all(|(flow, floor)| {
                let mut passes = flow.passages.iter().flatten();
                passes.all(|pass| pass.end() <= floor && pass.at_ns < since_ns)
                    && flow.events.iter().all(|event| event.at_ns < since_ns)
            })
    }

    /// Whether its analysis stays what it is until the next record: nothing moves, nothing waits, nothing is found.
    pub fn is_idle(&self) -> bool {
        self.is_described
            && !self.is_changed
            && self.is_settled
            && self.found.findings.is_empty()
            && self.store.connection.closed_ns.is_none()
    }

    fn has_syn(&self) -> bool {
        let passes = |flow: &FlowStore| {
            let points = &flow.passages[Point::InterfaceEnqueue.index()..];
            points.iter().flatten().any(|pass| pass.tcp_flags & tcp_flags::SYN != 0)
        };
        self.store.flows.iter().any(passes)
    }

    /// Keeps the parts of the results that the rules over all connections change or take.
    pub fn keep(&mut self, one: One, end_ns: u64) -> One {
        self.analyzed_until_ns = end_ns;
        self.is_changed = false;
        self.is_settled = self.is_quiet();
        self.found = Found {
            findings: one.analysis.findings.clone(),
            delays: one.delays.clone(),
            opening: one.opening,
            asked_by: one.analysis.requests.asked_by,
        };
        one
    }

    /// First and last instant of the ledgers.
    pub fn set_window(&mut self, window_ns: Option<(u64, u64)>) {
        let (watched, floors) = (self.watched, self.floors);
        self.store.window = window_ns.map(|(since_ns, until_ns)| StoreWindow {
            since_ns,
            until_ns,
            watched,
            floors,
        });
    }

    /// The results of the last analysis again. Nothing moved, so that each ledger has one place, until the end of the
    /// window.
    pub fn again(&mut self, mut last: ConnectionAnalysis, window_ns: Option<(u64, u64)>) -> One {
        last.findings.clone_from(&self.found.findings);
        self.set_window(window_ns);
        if let Some((since_ns, until_ns)) = window_ns {
            for flow in &mut last.flows {
                lengthen(&mut flow.ledger, until_ns - since_ns);
            }
        }
        One { analysis: last, delays: self.found.delays.clone(), opening: self.found.opening }
    }
}

/// A ledger with one place has it for so long; an empty one stays empty.
fn lengthen(ledger: &mut Ledger, duration_ns: u64) {
    debug_assert!(ledger.ns.iter().filter(|ns| **ns > 0).count() <= 1, "nothing moved");
    ledger.ns.iter_mut().filter(|ns| **ns > 0).for_each(|ns| *ns = duration_ns);
}
