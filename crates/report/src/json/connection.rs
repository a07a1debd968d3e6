//! One connection: its ends, its flows, its exchanges and its findings.

use serde::Serialize;
use sockscope_analysis::{
    BufferGrant, ConnectionAnalysis, Evidence, ExchangeSummary, Finding, Ledger, LedgerPart,
    TransactionSummary, Unopened,
};
use sockscope_record::{Process, Protocol};

use super::flow::{FlowView, TimesView};
use super::group::GroupView;
use super::requests::RequestsView;
use crate::{Report, fix_to_try};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ConnectionView<'a> {
    id: u32,
    protocol: &'static str,
    client: String,
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    elsewhere: Option<EndsView>,
    processes: Vec<ProcessView<'a>>,
    flows: Vec<FlowView<'a>>,
    findings: Vec<FindingView<'a>>,
    opened_ns: u64,
    closed_ns: Option<u64>,
    preexisting: bool,
    both_ends_here: bool,
    kernels_own: bool,
    layers: Vec<LayerView>,
    refused: bool,
    syn_dropped: Option<&'a str>,
    reset: Option<ResetView>,
    windows_shut: Vec<ShutView>,
    exchanges: Option<ExchangesView>,
    requests: RequestsView,
    #[serde(skip_serializing_if = "Option::is_none")]
    transactions: Option<TransactionsView>,
    buffers: Vec<BufferView>,
}

/// A layer of the kernel at one end.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LayerView {
    side: &'static str,
    layer: &'static str,
}

impl<'a> ConnectionView<'a> {
    pub(super) fn new(report: &Report<'a>, analysis: &'a ConnectionAnalysis) -> Self {
        let connection = &analysis.connection;
        let is_tcp = connection.protocol == Protocol::Tcp;
        Self {
            id: connection.id.0,
            protocol: connection.protocol.name(),
            client: connection.end(sockscope_record::Side::Client).to_string(),
            server: connection.end(sockscope_record::Side::Server).to_string(),
            elsewhere: connection.translated().map(|[client, server]| EndsView {
                client: client.to_string(),
                server: server.to_string(),
            }),
            processes: connection.processes.iter().map(ProcessView::new).collect(),
            flows: report.flows(analysis).map(|flow| FlowView::new(flow, is_tcp)).collect(),
            findings: report
                .findings(analysis)
                .map(|finding| FindingView::new(finding, connection.protocol))
                .collect(),
            opened_ns: connection.opened_ns,
            closed_ns: connection.closed_ns,
            preexisting: connection.preexisting,
            both_ends_here: connection.both_ends_here,
            kernels_own: analysis.is_inner,
            layers: analysis
                .layers
                .iter()
                .map(|(side, layer)| LayerView { side: side.name(), layer: layer.name() })
                .collect(),
            refused: analysis.unopened == Some(Unopened::Refused),
            syn_dropped: analysis.unopened.as_ref().and_then(|unopened| match unopened {
                Unopened::Dropped(reason) => Some(reason.as_str()),
                Unopened::Refused => None,
            }),
            reset: analysis.reset.map(|(by, at_ns)| ResetView { by: by.name(), at_ns }),
            windows_shut: analysis
                .shut_windows
                .iter()
                .map(|&(by, since_ns)| ShutView { by: by.name(), since_ns })
                .collect(),
            exchanges: analysis.exchanges.as_ref().map(ExchangesView::new),
            requests: RequestsView::new(&analysis.requests),
            transactions: analysis.transactions.as_ref().map(TransactionsView::new),
            buffers: analysis.buffers.iter().map(BufferView::new).collect(),
        }
    }
}

/// The ends as the other host has them, where something between the hosts translates addresses.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct EndsView {
    client: String,
    server: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ShutView {
    by: &'static str,
    since_ns: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ResetView {
    by: &'static str,
    at_ns: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProcessView<'a> {
    pid: u32,
    comm: &'a str,
    side: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<GroupView<'a>>,
}

impl<'a> ProcessView<'a> {
    fn new(process: &'a Process) -> Self {
        Self {
            pid: process.pid,
            comm: &process.comm,
            side: process.side.name(),
            group: process.group.as_deref().map(GroupView::new),
        }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FindingView<'a> {
    id: &'static str,
    count: u64,
    cost_ns: u64,
    flow: u32,
    side: &'static str,
    summary: &'a str,
    evidence: Vec<EvidenceView<'a>>,
    fix: &'a str,
    /// The command that shows the fix, on the unchanged program or on a replay of its calls; absent where neither can.
    #[serde(rename = "try", skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

impl<'a> FindingView<'a> {
    fn new(finding: &'a Finding, protocol: Protocol) -> Self {
        Self {
            id: finding.id.name(),
            count: finding.count,
            cost_ns: finding.cost_ns,
            flow: finding.flow.0,
            side: finding.side.name(),
            summary: &finding.summary,
            evidence: finding.evidence.iter().map(EvidenceView::new).collect(),
            fix: &finding.fix,
            command: fix_to_try::fix_command(finding, protocol),
        }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct EvidenceView<'a> {
    at_ns: u64,
    text: &'a str,
}

impl<'a> EvidenceView<'a> {
    fn new(evidence: &'a Evidence) -> Self {
        Self { at_ns: evidence.at_ns, text: &evidence.text }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ExchangesView {
    asked_by: &'static str,
    total_ns: TimesView,
    #[cfg_attr(test, schemars(schema_with = "super::schema::parts"))]
    request_ns: PartsView,
    service_ns: TimesView,
    #[cfg_attr(test, schemars(schema_with = "super::schema::parts"))]
    response_ns: PartsView,
    slowest: SlowestView,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SlowestView {
    at_ns: u64,
    total_ns: u64,
}

impl ExchangesView {
    fn new(exchanges: &ExchangeSummary) -> Self {
        let (at_ns, total_ns) = exchanges.slowest;
        Self {
            asked_by: exchanges.asked_by.name(),
            total_ns: TimesView::new(&exchanges.total_ns),
            request_ns: PartsView(exchanges.request_ns.clone()),
            service_ns: TimesView::new(&exchanges.service_ns),
            response_ns: PartsView(exchanges.response_ns.clone()),
            slowest: SlowestView { at_ns, total_ns },
        }
    }
}

/// Nanoseconds by part of the ledger.
pub(crate) struct PartsView(pub(crate) Ledger);

impl Serialize for PartsView {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(LedgerPart::ALL.iter().map(|part| part.name()).zip(self.0.ns))
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TransactionsView {
    total_ns: Option<TimesView>,
    failed: u64,
    client_blocks_again: u64,
    server_blocks_again: u64,
}

impl TransactionsView {
    fn new(transactions: &TransactionSummary) -> Self {
        let [client_blocks_again, server_blocks_again] = transactions.blocks_again;
        Self {
            total_ns: transactions.total_ns.as_ref().map(TimesView::new),
            failed: transactions.failed,
            client_blocks_again,
            server_blocks_again,
        }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BufferView {
    side: &'static str,
    buffer: &'static str,
    asked_bytes: Option<u64>,
    set_by_program: bool,
    granted_bytes: Option<u64>,
}

impl BufferView {
    fn new(grant: &BufferGrant) -> Self {
        Self {
            side: grant.side.name(),
            buffer: if grant.is_send { "send" } else { "receive" },
            asked_bytes: grant.asked_bytes,
            set_by_program: grant.is_set_by_program,
            granted_bytes: grant.granted_bytes,
        }
    }
}
