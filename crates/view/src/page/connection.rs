//! One connection: its ends, its path in numbers, its findings with their evidence.

use serde::Serialize;
use sockscope_analysis::{
    ConnectionAnalysis, Device, Distribution, FlowAnalysis, HopAnalysis, StageAnalysis, Uncertainty,
};
use sockscope_record::{ConnectionId, Point, Protocol, Side};
use sockscope_report::{Format, Json, Options, Report, fix_command};

use super::asked::since;
use super::overview::{EndView, Places, places};
use super::{Answer, Refused, Trace};
use crate::alone::alone;

#[derive(Serialize)]
struct ConnectionView<'a> {
    id: u32,
    protocol: &'static str,
    client: EndView<'a>,
    server: EndView<'a>,
    /// First and last record.
    from: f64,
    to: f64,
    preexisting: bool,
    /// Layers of the kernel at its ends, in words.
    layers: Option<String>,
    records: u64,
    flows: Vec<FlowView>,
    findings: Vec<FindingView<'a>>,
}

#[derive(Serialize)]
struct FlowView {
    flow: u32,
    from: &'static str,
    bytes: u64,
    segments: u64,
    retransmitted_bytes: u64,
    throughput_bytes_per_s: Option<f64>,
    ledger: Places,
    stages: Vec<StageView>,
    hops: Vec<HopView>,
    /// Points at which bytes were seen.
    points: Vec<u8>,
}

#[derive(Serialize)]
struct StageView {
    stage: &'static str,
    delay_p50_ns: Option<u64>,
    delay_p99_ns: Option<u64>,
    delay_max_ns: Option<u64>,
    length_mean_bytes: Option<f64>,
    length_max_bytes: Option<u64>,
    /// Error of delays between two hosts: null within a host, and where no bound is known.
    uncertainty_ns: Option<u64>,
    uncertainty_is_unknown: bool,
}

/// A device between the two ends on this host.
#[derive(Serialize)]
struct HopView {
    device: String,
    /// Its name, else the inode number; null where neither is known.
    network_namespace: Option<String>,
    arrived_by: Option<String>,
    bytes: u64,
    transit: Option<TimesView>,
    queue: Option<TimesView>,
    length_mean_bytes: Option<f64>,
    length_max_bytes: Option<u64>,
    residue_bytes: Option<u64>,
}

#[derive(Serialize)]
struct TimesView {
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    /// Part of the ledger's wire.
    ledger_ns: u64,
}

#[derive(Serialize)]
struct FindingView<'a> {
    id: &'static str,
    flow: u32,
    side: &'static str,
    count: u64,
    cost_ns: u64,
    summary: &'a str,
    fix: &'a str,
    /// A command that shows the effect of the fix.
    command: Option<String>,
    evidence: Vec<EvidenceView<'a>>,
    /// The first of its times.
    first: Option<(f64, f64)>,
    /// The longest of its times.
    longest: Option<(f64, f64)>,
}

#[derive(Serialize)]
struct EvidenceView<'a> {
    at: f64,
    text: &'a str,
}

/// The connection with this number.
///
/// # Errors
///
/// When the trace has no such connection.
pub fn connection(trace: &Trace, id: u32) -> Result<Answer, Refused> {
    let id = ConnectionId(id);
    let (one, store) = (trace.one(id)?, trace.store(id)?);
    let start_ns = trace.start_ns();
    let (first_ns, last_ns) = store.span_ns().unwrap_or((start_ns, start_ns));
    let until_ns = store.window.map_or(last_ns, |window| window.until_ns.max(last_ns));
    let connection = &one.connection;
    Ok(Answer::json(&ConnectionView {
        id: id.0,
        protocol: Protocol::name(connection.protocol),
        client: EndView::new(one, Side::Client),
        server: EndView::new(one, Side::Server),
        from: since(start_ns, first_ns),
        to: since(start_ns, until_ns),
        preexisting: connection.preexisting,
        layers: one.layers_in_words(),
        records: one.records,
        flows: one.flows.iter().map(|flow| FlowView::new(flow, trace)).collect(),
        findings: findings(one, start_ns),
    }))
}

/// The report of one connection, as JSON of the schema `sockscope.report/2`.
///
/// # Errors
///
/// When there is no such connection.
pub fn report(trace: &Trace, id: u32) -> Result<Answer, Refused> {
    let id = ConnectionId(id);
    trace.one(id)?;
    let absent = || Refused::Absent(format!("no connection {} in this trace", id.0));
    let analysis = alone(trace.analysis(), id).ok_or_else(absent)?;
    let options = Options::default();
    let report = Report { origin: trace.origin(), analysis: &analysis, options: &options };
    let mut json = Vec::new();
    Json.write(&report, &mut json).map_err(|error| Refused::Wrong(error.to_string()))?;
    Ok(Answer::Json(json))
}

fn findings(one: &ConnectionAnalysis, start_ns: u64) -> Vec<FindingView<'_>> {
    let time = |times: &(u64, u64)| (since(start_ns, times.0), since(start_ns, times.1));
    let view = one.findings.iter().map(|finding| FindingView {
        id: finding.id.name(),
        flow: finding.flow.0,
        side: finding.side.name(),
        count: finding.count,
        cost_ns: finding.cost_ns,
        summary: &finding.summary,
        fix: &finding.fix,
        command: fix_command(finding, one.connection.protocol),
        evidence: finding
            .evidence
            .iter()
            .map(|it| EvidenceView { at: since(start_ns, it.at_ns), text: &it.text })
            .collect(),
        first: finding.times.first().map(time),
        longest: finding.times.iter().max_by_key(|times| times.1.saturating_sub(times.0)).map(time),
    });
    view.collect()
}

impl FlowView {
    fn new(flow: &FlowAnalysis, trace: &Trace) -> Self {
        let store = trace.store(flow.id.connection());
        let has = |point: &Point| {
            store.as_ref().is_ok_and(|store| !store.flow(flow.id.direction()).at(*point).is_empty())
        };
        Self {
            flow: flow.id.0,
            from: flow.id.direction().sender().name(),
            bytes: flow.bytes,
            segments: flow.segments,
            retransmitted_bytes: flow.retransmitted_bytes,
            throughput_bytes_per_s: flow.throughput_bytes_per_s,
            ledger: places(&flow.ledger),
            stages: flow.stages.iter().map(StageView::new).collect(),
            hops: flow.hops.iter().map(HopView::new).collect(),
            points: Point::ALL.into_iter().filter(has).map(|point| point.number()).collect(),
        }
    }
}

impl HopView {
    fn new(hop: &HopAnalysis) -> Self {
        let times = |ns: &Distribution, ledger_ns| TimesView {
            p50_ns: ns.p50,
            p99_ns: ns.p99,
            max_ns: ns.max,
            ledger_ns,
        };
        Self {
            device: hop.device.shown(),
            network_namespace: hop.device.shown_namespace(),
            arrived_by: hop.arrived_by.as_ref().map(Device::shown),
            bytes: hop.bytes,
            transit: hop.transit_ns.as_ref().map(|ns| times(ns, hop.ledger_transit_ns)),
            queue: hop.queue_ns.as_ref().map(|ns| times(ns, hop.ledger_queue_ns)),
            length_mean_bytes: hop.queue_bytes.map(|length| length.mean),
            length_max_bytes: hop.queue_bytes.map(|length| length.max),
            residue_bytes: hop.residue_bytes,
        }
    }
}

impl StageView {
    fn new(stage: &StageAnalysis) -> Self {
        Self {
            stage: stage.stage.name(),
            delay_p50_ns: stage.delay_ns.map(|delay| delay.p50),
            delay_p99_ns: stage.delay_ns.map(|delay| delay.p99),
            delay_max_ns: stage.delay_ns.map(|delay| delay.max),
            length_mean_bytes: stage.length_bytes.map(|length| length.mean),
            length_max_bytes: stage.length_bytes.map(|length| length.max),
            uncertainty_ns: stage.uncertainty.and_then(Uncertainty::at_most_ns),
            uncertainty_is_unknown: stage.uncertainty == Some(Uncertainty::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use serde_json::json;
    use sockscope_analysis::{Analyzer, HostClocks, TraceFacts};
    use sockscope_record::{Connection, DevicePlace, Direction, Hop, InterfacePart, Kind, Record};
    use sockscope_report::Origin;

    use super::*;
    use crate::page::testing::{self, START_NS, passed};

    /// The error of the stage on the wire.
    fn error(clocks: HostClocks) -> (serde_json::Value, serde_json::Value) {
        let mut analyzer = Analyzer::new();
        let ends = testing::connection(1);
        analyzer.connection(Connection { elsewhere: Some([ends.client, ends.server]), ..ends });
        analyzer.push(&passed(1, 0, 100, START_NS, START_NS + 9));
        let facts = TraceFacts { clocks, ..TraceFacts::default() };
        let (analysis, stores) = analyzer.finish_keeping(facts, NonZeroUsize::MIN);
        let trace = Trace::whole("merged".to_owned(), Origin::default(), analysis, stores);
        let Ok(answer) = connection(&trace, 1) else { panic!("it is in the trace") };
        let stages = testing::json(&answer)["flows"][0]["stages"].clone();
        let wire = stages.as_array().unwrap().iter().find(|it| it["stage"] == "wire").unwrap();
        (wire["uncertainty_ns"].clone(), wire["uncertainty_is_unknown"].clone())
    }

    #[test]
    fn a_hop_has_its_device_and_its_times() {
        let device = DevicePlace { namespace: 9, index: 3 };
        let pass = |after_ns, point| {
            let (at_ns, flow) = (START_NS + after_ns, ConnectionId(1).flow(Direction::FromClient));
            let record = Record { at_ns, flow, len: 100, kind: Kind::Hop, ..Record::default() };
            record.with_hop(Hop { point: Some(point), device })
        };
        let mut records = passed(1, 0, 100, START_NS, START_NS + 99).to_vec();
        let name = |text: &[u8]| std::array::from_fn(|at| text.get(at).copied().unwrap_or(0));
        let parts = [
            InterfacePart::Device(name(b"eth0")),
            InterfacePart::Discipline(name(b"fq")),
            InterfacePart::Place { index: 2, namespace: 9 },
        ];
        let flow = ConnectionId(1).flow(Direction::FromClient);
        let own = Record { at_ns: START_NS, flow, ..Record::default() };
        records.extend(parts.map(|part| own.with_interface(part)));
        records.push(pass(10, Point::InterfaceEnqueue));
        records.push(pass(40, Point::InterfaceDequeue));
        records.sort_by_key(|record| record.at_ns);
        let mut analyzer = Analyzer::new();
        analyzer.connection(testing::connection(1));
        analyzer.push(&records);
        let facts = TraceFacts {
            network_namespaces: [(9, "shop".to_owned())].into(),
            ..TraceFacts::default()
        };
        let (analysis, stores) = analyzer.finish_keeping(facts, NonZeroUsize::MIN);
        let trace = Trace::whole("path".to_owned(), Origin::default(), analysis, stores);
        let Ok(answer) = connection(&trace, 1) else { panic!("it is in the trace") };
        let shown = testing::json(&answer);
        assert_eq!(shown["client"]["network_namespace_name"], "shop");
        assert_eq!(shown["server"].get("network_namespace_name"), None);
        let hops = shown["flows"][0]["hops"].clone();
        assert_eq!(hops.as_array().map(Vec::len), Some(1));
        let hop = &hops[0];
        assert_eq!(
            (&hop["device"], &hop["network_namespace"]),
            (&json!("device 3"), &json!("shop"))
        );
        assert_eq!((&hop["arrived_by"], &hop["transit"]), (&json!(null), &json!(null)));
        assert_eq!((&hop["queue"]["p50_ns"], &hop["queue"]["max_ns"]), (&json!(30), &json!(30)));
        assert_eq!((&hop["length_max_bytes"], &hop["residue_bytes"]), (&json!(100), &json!(0)));
    }

    #[test]
    fn a_stage_between_two_hosts_has_its_error() {
        let band = HostClocks::Bounded(vec![vec![[START_NS, 300, 400]]]);
        assert_eq!(error(band), (json!(400), json!(false)));
        assert_eq!(error(HostClocks::Unknown), (json!(null), json!(true)));
        assert_eq!(error(HostClocks::One), (json!(null), json!(false)));
    }
}
