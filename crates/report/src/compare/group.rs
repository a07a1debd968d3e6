//! The figures of the connections of one role in one run.

use std::collections::BTreeMap;

use sockscope_analysis::{
    Analysis, ConnectionAnalysis, Distribution, FindingId, FlowAnalysis, Ledger, RequestEnd,
};
use sockscope_record::{Direction, Side};
use sockscope_render::number::rounded;

use crate::total_cost::TotalCost;

/// Connections of one role in one run, all its rounds together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Group {
    pub(crate) connections: u64,
    /// How long each exchange took, nanoseconds, the shortest first.
    pub(crate) times_ns: Vec<u64>,
    /// Requests that missed records may have touched, which are not among them.
    pub(crate) left_out: u64,
    /// From the client, then from the server.
    pub(crate) flows: [FlowSum; 2],
    pub(crate) findings: BTreeMap<FindingId, FindingSum>,
    /// Connections on which the client and the server ask.
    asked_by: [u64; 2],
}

/// One direction of these connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct FlowSum {
    pub(crate) bytes: u64,
    pub(crate) bytes_are_lower_bound: bool,
    /// Throughput of each connection, bytes a second, the lowest first.
    pub(crate) throughputs: Vec<u64>,
    pub(crate) throughput_is_lower_bound: bool,
    pub(crate) ledger: Ledger,
}

/// The findings of one rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FindingSum {
    pub(crate) count: u64,
    /// Where findings of one round overlap, their time counts once.
    pub(crate) cost_ns: u64,
}

impl Group {
    /// Adds the connections of one round of the run.
    pub(crate) fn add_round(&mut self, connections: &[&ConnectionAnalysis]) {
        let mut costs: BTreeMap<FindingId, TotalCost> = BTreeMap::new();
        for connection in connections {
            self.add(connection);
            for finding in &connection.findings {
                costs.entry(finding.id).or_default().add(finding);
            }
        }
        for (id, cost) in costs {
            let sum = self.findings.entry(id).or_default();
            sum.cost_ns = sum.cost_ns.saturating_add(cost.ns());
        }
        self.times_ns.sort_unstable();
        self.flows.iter_mut().for_each(|flow| flow.throughputs.sort_unstable());
    }

    fn add(&mut self, connection: &ConnectionAnalysis) {
        self.connections += 1;
        self.times_ns.extend(exchange_times_ns(connection));
        self.left_out = self.left_out.saturating_add(connection.requests.left_out);
        let exchanges = connection.exchanges.as_ref().map(|exchanges| exchanges.asked_by);
        if let Some(side) = exchanges.or(connection.requests.asked_by) {
            self.asked_by[side as usize] += 1;
        }
        for (sum, flow) in self.flows.iter_mut().zip(&connection.flows) {
            sum.add(flow);
        }
        for finding in &connection.findings {
            let sum = self.findings.entry(finding.id).or_default();
            sum.count = sum.count.saturating_add(finding.count);
        }
    }

    /// The direction of the side that asks, else of more bytes.
    pub(crate) fn direction(&self) -> Direction {
        let bytes = self.flows.each_ref().map(|flow| flow.bytes);
        let [client, server] = if self.asked_by == [0; 2] { bytes } else { self.asked_by };
        if server > client { Side::Server.sends() } else { Side::Client.sends() }
    }

    /// Of the exchanges; `None` without one.
    pub(crate) fn exchanges(&self) -> Option<Distribution> {
        Distribution::of(&mut self.times_ns.clone())
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.flows.iter().fold(0, |sum, flow| sum.saturating_add(flow.bytes))
    }

    /// Cost of all findings.
    pub(crate) fn cost_ns(&self) -> u64 {
        self.findings.values().fold(0, |sum, finding| sum.saturating_add(finding.cost_ns))
    }
}

impl FlowSum {
    fn add(&mut self, flow: &FlowAnalysis) {
        self.bytes = self.bytes.saturating_add(flow.bytes);
        self.bytes_are_lower_bound |= flow.at_least.bytes;
        self.throughputs.extend(flow.throughput_bytes_per_s.and_then(rounded));
        self.throughput_is_lower_bound |= flow.at_least.throughput;
        for (sum, ns) in self.ledger.ns.iter_mut().zip(flow.ledger.ns) {
            *sum = sum.saturating_add(ns);
        }
    }
}

/// How long the exchanges of a connection took, nanoseconds. Where requests overlap, each that was answered counts.
pub fn exchange_times_ns(connection: &ConnectionAnalysis) -> impl Iterator<Item = u64> {
    let alternates = connection.exchanges.is_some();
    let counts = move |request: &&sockscope_analysis::Request| match alternates {
        true => request.is_exchange(),
        false => request.end == RequestEnd::Answered,
    };
    connection.requests.list.iter().filter(counts).filter_map(|request| request.total_ns())
}

/// The round's connections by role, each role's in the order of the analysis.
pub(crate) fn by_role(
    analysis: &Analysis,
) -> BTreeMap<super::role::Role, Vec<&ConnectionAnalysis>> {
    let mut roles: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for connection in &analysis.connections {
        let role = super::role::Role::of(&connection.connection);
        roles.entry(role).or_default().push(connection);
    }
    roles
}
