//! The whole trace: its facts, its verdict, its connections by the time that they cost.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;
use sockscope_analysis::{Analysis, ConnectionAnalysis, Ledger, LedgerPart};
use sockscope_record::{Protocol, Side};
use sockscope_report::{Options, Report, cost_ns, write_verdict};

use super::asked::since;
use super::{Answer, ListAsked, Trace};

#[derive(Serialize)]
struct OverviewView<'a> {
    name: &'a str,
    is_running: bool,
    host: Option<&'a str>,
    kernel: Option<&'a str>,
    command: Option<&'a str>,
    /// Wall clock of the start, nanoseconds since 1970; null without one.
    started_unix_ns: Option<u64>,
    duration: f64,
    records: u64,
    missed: u64,
    is_unfinished: bool,
    notes: &'a [String],
    verdict: String,
    /// Connections of the trace.
    of: usize,
    /// Those that have the words.
    matching: usize,
    connections: Vec<ConnectionView<'a>>,
    findings: Vec<FindingView>,
}

#[derive(Serialize)]
struct ConnectionView<'a> {
    id: u32,
    protocol: &'static str,
    client: EndView<'a>,
    server: EndView<'a>,
    cost_ns: u64,
    opened: f64,
    closed: Option<f64>,
    flows: [FlowView; 2],
    findings: Vec<FoundView>,
}

/// One end of a connection.
#[derive(Serialize)]
pub(super) struct EndView<'a> {
    address: String,
    /// Of `ip netns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    network_namespace_name: Option<&'a str>,
    processes: Vec<ProcessView<'a>>,
}

#[derive(Serialize)]
struct ProcessView<'a> {
    pid: u32,
    name: &'a str,
    /// Its unit, container and pod in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
}

#[derive(Serialize)]
struct FlowView {
    flow: u32,
    bytes: u64,
    ledger: Places,
}

/// Nanoseconds by the name of the place, without those in which no time was.
pub(super) type Places = BTreeMap<&'static str, u64>;

#[derive(Serialize)]
struct FoundView {
    id: &'static str,
    count: u64,
    cost_ns: u64,
}

/// A rule and its findings on all connections.
#[derive(Serialize, Default)]
struct FindingView {
    id: &'static str,
    count: u64,
    connections: u64,
    /// On the connection where it costs most.
    worst_ns: u64,
    worst_connection: u32,
    summary: String,
}

/// The trace, and its connections by cost, those that have all the words asked for.
pub fn overview(trace: &Trace, asked: &ListAsked) -> Answer {
    let analysis = trace.analysis();
    let options = Options { width: Options::WIDTH_MAX, ..Options::default() };
    let report = Report { origin: trace.origin(), analysis, options: &options };
    let words: Vec<String> = asked.words.split_whitespace().map(str::to_lowercase).collect();
    let mut rows: Vec<_> = analysis
        .connections
        .iter()
        .filter(|one| has_words(one, &words))
        .map(|one| (cost_ns(&report, one), one))
        .collect();
    let bytes = |one: &ConnectionAnalysis| one.flows.iter().map(|flow| flow.bytes).max();
    rows.sort_by_key(|(cost, one)| (Reverse(*cost), Reverse(bytes(one)), one.connection.id));
    let matching = rows.len();
    rows.truncate(asked.limit());
    let start_ns = trace.start_ns();
    let origin = trace.origin();
    let began = origin.recorded.as_ref().map(|recorded| recorded.began);
    Answer::json(&OverviewView {
        name: trace.name(),
        is_running: trace.is_running(),
        host: origin.host.as_deref(),
        kernel: origin.kernel.as_deref(),
        command: origin.command.as_deref(),
        started_unix_ns: began.map(|began| began.at(start_ns)),
        duration: analysis.duration_ns as f64,
        records: analysis.records,
        missed: trace.missed(),
        is_unfinished: analysis.facts.unfinished,
        notes: &analysis.facts.notes,
        verdict: verdict(&report),
        of: analysis.connections.len(),
        matching,
        connections: rows
            .into_iter()
            .map(|(cost_ns, one)| ConnectionView::new(one, cost_ns, start_ns))
            .collect(),
        findings: findings(analysis),
    })
}

fn has_words(one: &ConnectionAnalysis, words: &[String]) -> bool {
    if words.is_empty() {
        return true;
    }
    let connection = &one.connection;
    let mut text = format!("{} {}", connection.end(Side::Client), connection.end(Side::Server));
    let processes = connection.processes.iter().map(|process| process.comm.as_str());
    for part in processes.chain(one.findings.iter().map(|finding| finding.id.name())) {
        text.push(' ');
        text.push_str(part);
    }
    let text = text.to_lowercase();
    words.iter().all(|word| text.contains(word))
}

/// The verdict of the report; its lines are as long as the page lets them.
fn verdict(report: &Report<'_>) -> String {
    let mut text = Vec::new();
    match write_verdict(report, &mut text) {
        Ok(()) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => error.to_string(),
    }
}

fn findings(analysis: &Analysis) -> Vec<FindingView> {
    let mut by_id: BTreeMap<&'static str, FindingView> = BTreeMap::new();
    for one in &analysis.connections {
        for finding in &one.findings {
            let id = finding.id.name();
            let sum = by_id.entry(id).or_insert_with(|| FindingView { id, ..Default::default() });
            sum.count = sum.count.saturating_add(finding.count);
            sum.connections += 1;
            if finding.cost_ns >= sum.worst_ns {
                sum.worst_ns = finding.cost_ns;
                sum.worst_connection = one.connection.id.0;
                sum.summary.clone_from(&finding.summary);
            }
        }
    }
    let mut findings: Vec<_> = by_id.into_values().collect();
    findings.sort_by_key(|finding| (Reverse(finding.worst_ns), finding.id));
    findings
}

pub(super) fn places(ledger: &Ledger) -> Places {
    let parts = LedgerPart::ALL.into_iter().zip(ledger.ns);
    parts.filter(|(_, ns)| *ns > 0).map(|(part, ns)| (part.name(), ns)).collect()
}

impl<'a> EndView<'a> {
    pub(super) fn new(one: &'a ConnectionAnalysis, side: Side) -> Self {
        let connection = &one.connection;
        let address = match side {
            Side::Client => connection.end(Side::Client),
            Side::Server => connection.end(Side::Server),
        };
        let mut processes: Vec<ProcessView<'a>> = Vec::new();
        for process in connection.processes.iter().filter(|process| process.side == side) {
            if !processes.iter().any(|one| (one.pid, one.name) == (process.pid, &process.comm)) {
                let group = process.named_group().map(ToString::to_string);
                processes.push(ProcessView { pid: process.pid, name: &process.comm, group });
            }
        }
        let network_namespace_name = one.namespace_name(side);
        Self { address: address.to_string(), network_namespace_name, processes }
    }
}

impl<'a> ConnectionView<'a> {
    fn new(one: &'a ConnectionAnalysis, cost_ns: u64, start_ns: u64) -> Self {
        let connection = &one.connection;
        let flow = |index: usize| {
            let flow = &one.flows[index];
            FlowView { flow: flow.id.0, bytes: flow.bytes, ledger: places(&flow.ledger) }
        };
        Self {
            id: connection.id.0,
            protocol: Protocol::name(connection.protocol),
            client: EndView::new(one, Side::Client),
            server: EndView::new(one, Side::Server),
            cost_ns,
            opened: since(start_ns, connection.opened_ns),
            closed: connection.closed_ns.map(|at_ns| since(start_ns, at_ns)),
            flows: [flow(0), flow(1)],
            findings: one
                .findings
                .iter()
                .map(|it| FoundView { id: it.id.name(), count: it.count, cost_ns: it.cost_ns })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::testing::{json, stalled};

    fn matching(words: &str) -> u64 {
        let asked = ListAsked { words: words.to_owned(), limit: None };
        json(&overview(&stalled(), &asked))["matching"].as_u64().unwrap()
    }

    #[test]
    fn all_words_must_be_of_a_connection() {
        assert_eq!(
            ["", "redis", "REDIS caller", "127.0.0.1:80", "nginx", "redis nginx"].map(matching),
            [1, 1, 1, 1, 0, 0]
        );
    }

    #[test]
    fn a_connection_has_both_flows_with_the_places_that_have_time() {
        let found =
            json(&overview(&stalled(), &ListAsked { words: String::new(), limit: Some(1) }));
        let one = &found["connections"][0];
        assert_eq!((&one["flows"][0]["flow"], &one["flows"][0]["bytes"]), (&2.into(), &400.into()));
        let ledger = one["flows"][0]["ledger"].as_object().unwrap();
        assert!(ledger.values().all(|ns| ns.as_u64() > Some(0)), "{ledger:?}");
        assert_eq!(one["client"]["processes"][0]["name"], "caller");
    }
}
