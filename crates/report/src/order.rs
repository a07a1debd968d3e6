//! The order by importance: connections by cost, findings summed over connections, time by place.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use sockscope_analysis::{ConnectionAnalysis, Finding, FindingId, FlowAnalysis, LedgerPart};
use sockscope_record::{ConnectionId, Protocol};

use crate::Report;
use crate::total_cost::TotalCost;

/// One rule's findings, all connections together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FindingTotal<'a> {
    pub(crate) id: FindingId,
    pub(crate) count: u64,
    /// By all of them; where they overlap it counts once.
    pub(crate) cost_ns: u64,
    /// Connections that have it.
    pub(crate) connections: u64,
    /// Where it costs most.
    pub(crate) worst: &'a Finding,
    pub(crate) worst_in: &'a ConnectionAnalysis,
}

/// A finding is the verdict on a run when it costs at least one part in this many of the run's time.
///
/// Less is below the difference between two runs of the same program on any machine, so that its cure
/// could show no effect; and a trace of minutes always has a microsecond that some rule can explain.
pub(crate) const VERDICT_SHARE_DIVISOR: u64 = 100;

/// The connection of the verdict, then by the cost of findings, then by bytes; ties by id.
pub(crate) fn by_importance<'a>(
    report: &Report<'a>,
    lead: Option<ConnectionId>,
) -> Vec<&'a ConnectionAnalysis> {
    let mut connections: Vec<_> = report.connections().collect();
    connections.sort_by_cached_key(|connection| {
        (
            Some(connection.connection.id) != lead,
            Reverse(cost_ns(report, connection)),
            Reverse(report.flows(connection).map(|flow| flow.bytes).fold(0, u64::saturating_add)),
            connection.connection.id,
        )
    });
    connections
}

/// Cost of all findings of a connection, nanoseconds; where they overlap it counts once.
pub fn cost_ns<'a>(report: &Report<'a>, connection: &'a ConnectionAnalysis) -> u64 {
    report.findings(connection).collect::<TotalCost>().ns()
}

/// The findings by rule, highest cost first.
pub(crate) fn finding_totals<'a>(report: &Report<'a>) -> Vec<FindingTotal<'a>> {
    let mut totals: BTreeMap<FindingId, FindingTotal<'a>> = BTreeMap::new();
    let mut costs: BTreeMap<FindingId, TotalCost> = BTreeMap::new();
    for connection in report.connections() {
        let mut here = std::collections::BTreeSet::new();
        for finding in report.findings(connection) {
            let first_here = here.insert(finding.id);
            costs.entry(finding.id).or_default().add(finding);
            totals
                .entry(finding.id)
                .and_modify(|total| total.add(finding, connection, first_here))
                .or_insert(FindingTotal::new(finding, connection));
        }
    }
    let mut totals: Vec<_> = totals.into_values().collect();
    for total in &mut totals {
        total.cost_ns = costs.get(&total.id).map_or(0, TotalCost::ns);
    }
    totals.sort_unstable_by_key(|total| (Reverse(total.cost_ns), Reverse(total.count), total.id));
    totals
}

impl<'a> FindingTotal<'a> {
    fn new(finding: &'a Finding, connection: &'a ConnectionAnalysis) -> Self {
        Self {
            id: finding.id,
            count: finding.count,
            cost_ns: finding.cost_ns,
            connections: finding.connections,
            worst: finding,
            worst_in: connection,
        }
    }

    /// Whether it is the verdict, by [`VERDICT_SHARE_DIVISOR`]. The run's time is that in which bytes
    /// were in transit on the connection that it cost most, where that is less than `duration_ns`: a
    /// recording that continued for an hour after the traffic makes no stall harmless. Datagrams that
    /// no program will read are no matter of time.
    pub(crate) fn is_worth_a_verdict(&self, duration_ns: u64) -> bool {
        if self.id.is_failure() {
            return true;
        }
        is_verdicts_share(self.worst.cost_ns, self.worst_in, duration_ns)
    }

    fn add(&mut self, finding: &'a Finding, connection: &'a ConnectionAnalysis, first_here: bool) {
        self.count = self.count.saturating_add(finding.count);
        // Both sides may have one of the same connections.
        self.connections = (self.connections + u64::from(first_here)).max(finding.connections);
        if finding.cost_ns > self.worst.cost_ns {
            (self.worst, self.worst_in) = (finding, connection);
        }
    }
}

/// Whether the cost on a connection is the part of the run's time that [`VERDICT_SHARE_DIVISOR`] asks for.
pub(crate) fn is_verdicts_share(
    cost_ns: u64,
    connection: &ConnectionAnalysis,
    duration_ns: u64,
) -> bool {
    let busy = connection.flows.iter().map(under_way_ns).fold(0, u64::saturating_add);
    // Nothing is known of where the bytes were: the trace as a whole has to do.
    let run_ns = if busy == 0 { duration_ns } else { duration_ns.min(busy) };
    cost_ns > 0 && cost_ns.saturating_mul(VERDICT_SHARE_DIVISOR) >= run_ns
}

/// The findings by rule and the position of the one that is the verdict, if one is.
pub(crate) fn verdict<'a>(report: &Report<'a>) -> (Vec<FindingTotal<'a>>, Option<usize>) {
    let totals = finding_totals(report);
    let duration_ns = report.analysis.duration_ns;
    let is_worthy = |total: &FindingTotal<'_>| total.is_worth_a_verdict(duration_ns);
    let first = totals.iter().position(is_worthy);
    let is_consequence = |at: &usize| totals[*at].id.is_consequence();
    let Some(effect) = first.filter(is_consequence) else { return (totals, first) };
    // Its cause has a finding with most of that time, if it has one.
    let is_cause = |total: &FindingTotal<'_>| {
        let is_most = total.cost_ns.saturating_mul(2) >= totals[effect].cost_ns;
        !total.id.is_consequence() && is_worthy(total) && (is_most || total.id.is_failure())
    };
    let cause = totals.iter().position(is_cause);
    (totals, cause.or(first))
}

/// The name of a place in texts: of datagrams no TCP has them.
pub fn place_name(name: &'static str, is_udp: bool) -> &'static str {
    match name {
        "tcp_output" if is_udp => "udp_output",
        "tcp_input" if is_udp => "udp_input",
        name => name,
    }
}

/// Whether all connections that are written of `report` are UDP.
pub(crate) fn is_all_udp(report: &Report<'_>) -> bool {
    let mut connections = report.connections();
    connections.all(|connection| connection.connection.protocol == Protocol::Udp)
}

/// Whether no connection passes a network.
pub(crate) fn is_all_unix(report: &Report<'_>) -> bool {
    report.connections().all(|connection| connection.connection.protocol.is_unix())
}

/// Nanoseconds in each part of the ledgers of all flows together, in the order of
/// [`LedgerPart::ALL`].
pub(crate) fn ledger_sum<'a>(
    flows: impl Iterator<Item = &'a FlowAnalysis>,
) -> [u64; LedgerPart::ALL.len()] {
    let mut sum = [0u64; LedgerPart::ALL.len()];
    for flow in flows {
        for (sum, ns) in sum.iter_mut().zip(flow.ledger.ns) {
            *sum = sum.saturating_add(ns);
        }
    }
    sum
}

/// Time in which bytes of the flow were under way.
pub(crate) fn under_way_ns(flow: &FlowAnalysis) -> u64 {
    let parts = LedgerPart::ALL.into_iter().zip(flow.ledger.ns);
    parts.filter(|&(part, _)| is_under_way(part)).map(|(_, ns)| ns).fold(0, u64::saturating_add)
}

/// Whether bytes were under way in this part: neither idle, nor a handshake, nor unknown.
pub(crate) fn is_under_way(part: LedgerPart) -> bool {
    !matches!(part, LedgerPart::AppIdle | LedgerPart::Handshake | LedgerPart::Unknown)
}
