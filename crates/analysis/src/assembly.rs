//! From single connections to one [`Analysis`]: the counts of its records, and the findings over all connections.

use std::net::{Ipv4Addr, SocketAddr};

use sockscope_record::{
    Connection, ConnectionId, FlowId, Loss, Point, Protocol, Record, counted, marks,
};

use crate::clock_errors;
use crate::connection::{FlowParts, analyze_connection};
use crate::findings::{Churn, Delay, Delays, Opening};
use crate::openings::Openings;
use crate::record_buffer::is_gone;
use crate::record_loss_times::Losses;
use crate::timeline::by_start;
use crate::{
    Analysis, ConnectionAnalysis, ConnectionStore, LossInterval, Nesting, OfOthers, PointSummary,
    TraceFacts, findings, nest_requests,
};

/// Counts of the records received so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub records: u64,
    pub points: [u64; 8],
    /// Left out, because their positions overflow.
    pub impossible: u64,
    /// First and last time seen.
    pub span_ns: Option<(u64, u64)>,
}

/// One connection, with the inputs of the rules over all connections.
pub(crate) struct One {
    pub analysis: ConnectionAnalysis,
    pub delays: Vec<Delay>,
    pub opening: Option<Opening>,
}

impl One {
    pub fn of(
        store: &ConnectionStore,
        losses: &Losses,
        facts: &TraceFacts,
        end_ns: u64,
        openings: &Openings,
    ) -> Self {
        Self::with_parts(store, losses, facts, end_ns, openings, &mut |_| {})
    }

    /// The same, and shows the parts of each flow.
    pub fn with_parts(
        store: &ConnectionStore,
        losses: &Losses,
        facts: &TraceFacts,
        end_ns: u64,
        openings: &Openings,
        each: &mut dyn FnMut(&FlowParts<'_>),
    ) -> Self {
        let (analysis, delays) = analyze_connection(store, losses, facts, end_ns, openings, each);
        Self { analysis, delays, opening: Opening::of(store) }
    }
}

/// Adds the connections, and the findings over all of them.
pub(crate) fn join(analysis: &mut Analysis, all: Vec<One>) {
    let (mut churn, mut delays) = (Churn::default(), Delays::default());
    let end_ns = analysis.end_ns();
    for mut one in all {
        clock_errors::note(&analysis.facts.clocks, end_ns, &mut one.analysis);
        findings::note_clocks(&mut one.analysis);
        churn.add(one.opening);
        delays.add(one.analysis.connection.id, one.delays);
        analysis.connections.push(one.analysis);
    }
    debug_assert!(
        analysis.connections.is_sorted_by_key(|one| one.connection.id),
        "connections are found by binary search"
    );
    let connections = analysis.connections.iter();
    analysis.nesting = nest_requests(connections.map(|one| (&one.connection, &one.requests)));
    findings::find_across(analysis, &delays);
    churn.find(analysis);
}

/// Missed records of a trace, in the order in which they were recorded.
#[derive(Debug, Default)]
pub(crate) struct SeenLosses {
    /// That may have touched any connection.
    pub all: Vec<LossInterval>,
    pub of_others: OfOthers,
}

impl SeenLosses {
    /// Takes a record with its loss.
    pub fn take(&mut self, record: &Record, loss: Loss) {
        let is_of_others = record.is_marked(marks::OF_OTHERS);
        if is_of_others && record.flow != FlowId::default() {
            self.of_others.connections.insert(record.flow.connection());
        } else if is_of_others {
            self.of_others.losses.push(loss_interval(record, loss));
        } else {
            self.all.push(loss_interval(record, loss));
        }
    }

    /// Both lists by start.
    pub fn sort(&mut self) {
        self.all = by_start(std::mem::take(&mut self.all));
        self.of_others.losses = by_start(std::mem::take(&mut self.of_others.losses));
    }
}

/// Counts a record, and takes its loss; whether it is one of a connection. A record whose position overflows 64 bits is
/// only counted.
#[inline]
pub(crate) fn is_of_connection(
    record: &Record,
    tally: &mut Tally,
    losses: &mut SeenLosses,
) -> bool {
    tally.count(record);
    if let Some(loss) = record.loss() {
        losses.take(record, loss);
        return false;
    }
    let fits = record.offset.checked_add(u64::from(record.len)).is_some();
    tally.impossible += u64::from(!fits);
    fits
}

impl Tally {
    pub fn count(&mut self, record: &Record) {
        self.records += 1;
        if let Some(point) = record.point().filter(|_| !is_gone(record)) {
            self.points[point.index()] += 1;
        }
        let (first, last) = self.span_ns.unwrap_or((record.at_ns, record.at_ns));
        self.span_ns = Some((first.min(record.at_ns), last.max(record.at_ns)));
    }

    pub fn into_analysis(self, mut facts: TraceFacts, nameless: usize) -> Analysis {
        if self.impossible > 0 {
            facts.notes.push(format!(
                "{} with positions beyond 64 bits left out",
                counted(self.impossible, "record")
            ));
        }
        if nameless > 0 {
            facts.notes.push(format!("connections with records but no description: {nameless}"));
        }
        let (start_ns, last_ns) = self.span_ns.unwrap_or_default();
        let ended_ns = facts.ended_ns.filter(|_| self.span_ns.is_some());
        let end_ns = ended_ns.unwrap_or_default().max(last_ns);
        let points = Point::ALL.map(|point| PointSummary {
            point,
            records: self.points[point.index()],
            missed: facts.missed.points[point.index()],
        });
        Analysis {
            facts,
            start_ns,
            duration_ns: end_ns - start_ns,
            records: self.records,
            points,
            connections: Vec::new(),
            nesting: Nesting::default(),
        }
    }
}

/// Stands for a connection that the trace does not describe; as it may have been joined on the way,
/// it counts as preexisting.
pub(crate) fn undescribed(id: ConnectionId) -> Connection {
    let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    Connection {
        id,
        protocol: Protocol::Tcp,
        client: nowhere,
        server: nowhere,
        opened_ns: 0,
        closed_ns: None,
        preexisting: true,
        both_ends_here: false,
        processes: Vec::new(),
        names: None,
        mark: None,
        elsewhere: None,
    }
}

fn loss_interval(record: &Record, loss: Loss) -> LossInterval {
    let point = loss.point();
    LossInterval {
        start_ns: loss.since_ns.min(record.at_ns),
        end_ns: record.at_ns,
        point,
        count: loss.count,
        of_datagrams: record.is_marked(marks::DERIVED)
            && point.is_none_or(|point| point == Point::ReceiveDequeue),
        is_anchored: record.is_marked(marks::ANCHORED),
    }
}
