//! What was seen since the start, in the form of OpenMetrics.

use std::collections::HashSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::{CounterWithExemplar, HistogramWithExemplars};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use sockscope_analysis::{
    Analysis, ConnectionAnalysis, ConnectionStore, DropReasons, FlowCurves, FreshCost, LedgerPart,
    LossInterval,
};
use sockscope_record::{
    Connection, Direction, Kind, LossCounts, Point, PointCost, RetransmitClass, Stage,
};

use crate::exponential::Exponential;
use crate::exposition;
use crate::labels::{
    Group, OfConnection, OfFinding, OfPlace, OfPoint, OfResult, OfRetransmission, OfSample, OfStage,
};

type Seconds = Counter<f64, AtomicU64>;
type Delays = HistogramWithExemplars<OfConnection>;

/// Groups of connections that have series of their own; later ones are together in the group `other`.
const GROUPS_MAX: usize = 200;
/// The group of those.
const OTHER: &str = "other";
/// Two buckets for each doubling, from 1 us to 10 s.
const BUCKETS: usize = 48;
const NS: f64 = 1e-9;

/// Figures of the recorder itself.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counted {
    /// Records that were missed since the start.
    pub missed: LossCounts,
    /// Run time of the probes since the start, in the order of [`Point::ALL`]; `None` where it is not measured.
    pub costs: Option<[PointCost; 8]>,
    /// CPU time of this process since the start, seconds.
    pub cpu_s: f64,
    /// The part of new connections that is recorded now.
    pub share: f64,
    /// Connections that sampling left out since the start.
    pub left_out: u64,
    /// Recorded connections that it left out on the way.
    pub left_out_later: u64,
    /// Bytes of the segments on the disk.
    pub segment_bytes: u64,
    /// Bundles that were kept.
    pub kept: u64,
    /// Bundles that were not kept, as there were enough in the hour.
    pub refused: u64,
    /// Segments that were removed before their time, as the disk or its bound had no room.
    pub removed_early: u64,
    /// Messages that a collector took, and those that were dropped; `None` without a collector.
    pub otlp: Option<[u64; 2]>,
}

/// Sums over all that was analysed.
pub struct Metrics {
    registry: Registry,
    groups: HashSet<Group>,
    ledger: Family<OfPlace, Seconds>,
    findings: Family<OfFinding, CounterWithExemplar<OfConnection>>,
    lost: Family<OfFinding, Seconds>,
    delays: Family<OfStage, Delays, fn() -> Delays>,
    /// The same for OTLP, in the order of [`Stage::ALL`].
    exponential: [Exponential; Stage::ALL.len()],
    queue: Family<OfStage, Gauge<f64, AtomicU64>>,
    queue_max: Family<OfStage, Gauge>,
    retransmitted: Family<OfRetransmission, Counter>,
    missed: Family<OfPoint, Counter>,
    run_time: Family<OfPoint, Seconds>,
    records: Counter,
    connections: Family<OfSample, Gauge>,
    left_out: Counter,
    left_out_later: Counter,
    share: Gauge<f64, AtomicU64>,
    overflow: Counter,
    cpu: Seconds,
    segment_bytes: Gauge,
    kept: Counter,
    refused: Counter,
    removed_early: Counter,
    otlp: Family<OfResult, Counter>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("groups", &self.groups).finish_non_exhaustive()
    }
}

fn buckets() -> Delays {
    Delays::new((0..BUCKETS).map(|at| 1e-6 * 2f64.powf(at as f64 / 2.0)))
}

impl Default for Metrics {
    fn default() -> Self {
        let mut this = Self {
            registry: Registry::with_prefix("sockscope"),
            groups: HashSet::new(),
            ledger: Family::default(),
            findings: Family::default(),
            lost: Family::default(),
            delays: Family::new_with_constructor(buckets as fn() -> Delays),
            exponential: Default::default(),
            queue: Family::default(),
            queue_max: Family::default(),
            retransmitted: Family::default(),
            missed: Family::default(),
            run_time: Family::default(),
            records: Counter::default(),
            connections: Family::default(),
            left_out: Counter::default(),
            left_out_later: Counter::default(),
            share: Gauge::default(),
            overflow: Counter::default(),
            cpu: Seconds::default(),
            segment_bytes: Gauge::default(),
            kept: Counter::default(),
            refused: Counter::default(),
            removed_early: Counter::default(),
            otlp: Family::default(),
        };
        this.register();
        this
    }
}

impl Metrics {
    fn register(&mut self) {
        let all = &mut self.registry;
        let seconds = || Unit::Seconds;
        all.register_with_unit(
            "ledger",
            "Time by the place of the oldest byte that was not read",
            seconds(),
            self.ledger.clone(),
        );
        all.register(
            "findings",
            "Refreshes in which a connection had the finding",
            self.findings.clone(),
        );
        all.register_with_unit(
            "finding_lost",
            "Time that findings cost",
            seconds(),
            self.lost.clone(),
        );
        all.register_with_unit(
            "stage_delay",
            "Time that bytes were in a stage, by runs of neighbouring bytes",
            seconds(),
            self.delays.clone(),
        );
        all.register_with_unit(
            "stage_queue",
            "Bytes in the stage, the mean of the last refresh, all flows together",
            Unit::Bytes,
            self.queue.clone(),
        );
        all.register_with_unit(
            "stage_queue_max",
            "The longest queue of a flow in the last refresh",
            Unit::Bytes,
            self.queue_max.clone(),
        );
        all.register_with_unit(
            "retransmitted",
            "Bytes that TCP sent again, by its reason",
            Unit::Bytes,
            self.retransmitted.clone(),
        );
        all.register_with_unit(
            "probe_run",
            "Run time of the probes, where it is measured",
            seconds(),
            self.run_time.clone(),
        );
        all.register("records_missed", "Records that were missed", self.missed.clone());
        all.register("records", "Records that were analysed", self.records.clone());
        all.register(
            "connections",
            "Connections with records in the last refresh, or with unread bytes; those left out since the refresh before",
            self.connections.clone(),
        );
        all.register(
            "connections_left_out",
            "Connections that sampling left out",
            self.left_out.clone(),
        );
        all.register(
            "connections_left_out_later",
            "Recorded connections that sampling left out on the way",
            self.left_out_later.clone(),
        );
        all.register_with_unit(
            "sample",
            "The part of new connections that is recorded",
            Unit::Other("ratio".to_owned()),
            self.share.clone(),
        );
        all.register(
            "series_overflow",
            "Connections in a refresh whose program and port have no series of their own",
            self.overflow.clone(),
        );
        all.register_with_unit(
            "recorder_cpu",
            "CPU time of the recorder",
            seconds(),
            self.cpu.clone(),
        );
        all.register_with_unit(
            "segments",
            "Size of the recording on the disk",
            Unit::Bytes,
            self.segment_bytes.clone(),
        );
        all.register("bundles_kept", "Bundles that were kept", self.kept.clone());
        all.register(
            "bundles_refused",
            "Bundles that were not kept, as the hour had enough",
            self.refused.clone(),
        );
        all.register(
            "segments_removed_early",
            "Segments that made room before their time",
            self.removed_early.clone(),
        );
        all.register(
            "otlp_messages",
            "Messages that the collector took, and those that were dropped",
            self.otlp.clone(),
        );
    }

    /// Adds the analysis of the next part, with its [fresh costs](sockscope_analysis::FreshCosts) and so many new records.
    pub fn add(&mut self, analysis: &Analysis, costs: &[FreshCost], records: u64) {
        self.records.inc_by(records);
        let sampled = OfSample { sampled: "true" };
        let connections = i64::try_from(analysis.connections.len()).unwrap_or(i64::MAX);
        self.connections.get_or_create(&sampled).set(connections);
        let mut longest = [0u64; Stage::ALL.len()];
        let mut means = [0f64; Stage::ALL.len()];
        for (one, costs) in analysis.connections.iter().zip(costs) {
            let group = self.group(&one.connection);
            self.overflow.inc_by(u64::from(group.port == OTHER));
            self.add_connection(one, &costs.findings_ns, &group);
            for stage in one.flows.iter().flat_map(|flow| &flow.stages) {
                let Some(length) = stage.length_bytes else { continue };
                let longest = &mut longest[stage.stage as usize];
                *longest = (*longest).max(length.max);
                means[stage.stage as usize] += length.mean;
            }
        }
        for (stage, (longest, mean)) in Stage::ALL.into_iter().zip(longest.into_iter().zip(means)) {
            let of_stage = OfStage { stage: stage.name() };
            self.queue.get_or_create(&of_stage).set(mean);
            self.queue_max.get_or_create(&of_stage).set(i64::try_from(longest).unwrap_or(i64::MAX));
        }
    }

    fn add_connection(&self, one: &ConnectionAnalysis, costs: &[u64], group: &Group) {
        for (flow, direction) in
            one.flows.iter().zip([Direction::FromClient, Direction::FromServer])
        {
            for part in LedgerPart::ALL {
                let ns = flow.ledger.ns[part as usize];
                if ns > 0 {
                    let labels = OfPlace {
                        place: part.name(),
                        direction: direction.sender().name(),
                        group: group.clone(),
                    };
                    self.ledger.get_or_create(&labels).inc_by(ns as f64 * NS);
                }
            }
        }
        for (finding, cost_ns) in one.findings.iter().zip(costs) {
            let labels = OfFinding { finding: finding.id.name(), group: group.clone() };
            let example = OfConnection { connection: one.connection.id.0 };
            self.findings.get_or_create(&labels).inc_by(1, Some(example), None);
            self.lost.get_or_create(&labels).inc_by(*cost_ns as f64 * NS);
        }
    }

    /// Adds the times that bytes of a connection were in its stages, of those that left within `times`, and the bytes
    /// that were sent again then. `losses` are those that touched the connection.
    pub fn add_flows(
        &mut self,
        store: &ConnectionStore,
        losses: &[LossInterval],
        reasons: &DropReasons,
        times: RangeInclusive<u64>,
    ) {
        let example = OfConnection { connection: store.connection.id.0 };
        for direction in [Direction::FromClient, Direction::FromServer] {
            self.add_retransmissions(store, direction, &times);
            let curves = FlowCurves::new(store, direction, losses, reasons);
            for stage in Stage::ALL {
                let of_stage = self.delays.get_or_create(&OfStage { stage: stage.name() });
                let exponential = &mut self.exponential[stage as usize];
                let mut longest_ns = None;
                curves.each_delay(stage, |residence| {
                    if !times.contains(&residence.left_ns) {
                        return;
                    }
                    let delay_s = residence.delay_ns() as f64 * NS;
                    // Few delays are longer than all before, and an exemplar costs more than the rest.
                    let is_longest = Some(residence.delay_ns()) > longest_ns;
                    longest_ns = longest_ns.max(Some(residence.delay_ns()));
                    of_stage.observe(delay_s, is_longest.then_some(example), None);
                    exponential.observe(delay_s);
                });
            }
        }
    }

    fn add_retransmissions(
        &mut self,
        store: &ConnectionStore,
        direction: Direction,
        times: &RangeInclusive<u64>,
    ) {
        let events = store.flow(direction).events_of(Kind::Retransmit);
        for event in events.filter(|event| times.contains(&event.at_ns) && event.len > 0) {
            let labels = OfRetransmission {
                class: RetransmitClass::from_code(event.code).name(),
                direction: direction.sender().name(),
                group: self.group(&store.connection),
            };
            self.retransmitted.get_or_create(&labels).inc_by(u64::from(event.len));
        }
    }

    /// The program at the server's end, else at the client's, with the server's port.
    fn group(&mut self, connection: &Connection) -> Group {
        let at_server = connection.processes.iter().find(|it| it.side.name() == "server");
        let process = at_server.or(connection.processes.first());
        let names = process.and_then(|process| process.named_group());
        let container = names.and_then(|it| it.container.as_ref());
        let pod = names.and_then(|it| it.pod.as_ref());
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let group = Group {
            unit: text(names.and_then(|it| it.unit.as_deref())),
            container: text(container.map(|it| it.label())),
            namespace: text(pod.and_then(|it| it.namespace.as_deref())),
            pod: text(pod.map(|it| it.name.as_deref().unwrap_or(&it.uid))),
            process: process.map_or("unknown".to_owned(), |process| process.comm.clone()),
            port: match connection.protocol.is_unix() {
                true => String::new(),
                false => connection.server.port().to_string(),
            },
            protocol: connection.protocol.name(),
        };
        if self.groups.contains(&group) {
            return group;
        }
        if self.groups.len() < GROUPS_MAX {
            self.groups.insert(group.clone());
            return group;
        }
        let (process, port) = (OTHER.to_owned(), OTHER.to_owned());
        Group { process, port, protocol: group.protocol, ..Group::default() }
    }

    /// The figures of the recorder itself as of now.
    pub fn recorder(&self, counted: &Counted) {
        let to = |counter: &Counter, now: u64| {
            counter.inc_by(now.saturating_sub(counter.get()));
        };
        for (point, missed) in counted.missed.by_point() {
            let point = point.map_or("none", Point::name);
            to(&self.missed.get_or_create(&OfPoint { point }), missed);
        }
        for (point, cost) in Point::ALL.into_iter().zip(counted.costs.into_iter().flatten()) {
            let seconds = self.run_time.get_or_create(&OfPoint { point: point.name() });
            seconds.inc_by((cost.run_ns as f64 * NS - seconds.get()).max(0.0));
        }
        for (sampled, all, now) in [
            ("false", &self.left_out, counted.left_out),
            ("partly", &self.left_out_later, counted.left_out_later),
        ] {
            let fresh = i64::try_from(now.saturating_sub(all.get())).unwrap_or(i64::MAX);
            self.connections.get_or_create(&OfSample { sampled }).set(fresh);
            to(all, now);
        }
        self.share.set(counted.share);
        self.cpu.inc_by((counted.cpu_s - self.cpu.get()).max(0.0));
        self.segment_bytes.set(i64::try_from(counted.segment_bytes).unwrap_or(i64::MAX));
        to(&self.kept, counted.kept);
        to(&self.refused, counted.refused);
        to(&self.removed_early, counted.removed_early);
        for (result, messages) in
            ["sent", "dropped"].into_iter().zip(counted.otlp.into_iter().flatten())
        {
            to(&self.otlp.get_or_create(&OfResult { result }), messages);
        }
    }

    /// Delays of the stages, in the order of [`Stage::ALL`].
    pub(crate) fn exponential(&self) -> &[Exponential; Stage::ALL.len()] {
        &self.exponential
    }

    /// All of it as text (OpenMetrics 1.0).
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// All of it in the older text form of Prometheus, for programs that ask for no OpenMetrics.
    pub fn plain_text(&self) -> String {
        exposition::plain(&self.text())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};
    use std::sync::Arc;

    use sockscope_analysis::{FindingId, FreshCosts, TraceFacts, Window};
    use sockscope_record::{
        ConnectionId, Container, ControlGroup, Kind, Pod, Protocol, Record, UnixName,
    };

    use super::*;
    use crate::testing::{SECOND, analysis, connection, whole_costs};

    #[test]
    fn connections_that_sampling_left_out_are_counted_by_refresh_and_in_all() {
        let metrics = Metrics::default();
        for (left_out, left_out_later) in [(7, 1), (10, 6)] {
            let counted = Counted { left_out, left_out_later, share: 0.25, ..Counted::default() };
            metrics.recorder(&counted);
        }
        let text = metrics.text();
        for line in [
            "sockscope_connections{sampled=\"false\"} 3",
            "sockscope_connections{sampled=\"partly\"} 5",
            "sockscope_connections_left_out_total 10",
            "sockscope_connections_left_out_later_total 6",
            "sockscope_sample_ratio 0.25",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn series_have_the_names_of_the_programs_group() {
        let mut metrics = Metrics::default();
        let mut part = analysis(&[(1, FindingId::NagleDelayedAck, 40)]);
        let mut group = ControlGroup::of_path("/kubepods");
        group.container = Some(Container { id: "0123456789abcdef".into(), name: None });
        let namespace = Some("shop".into());
        group.pod = Some(Pod { uid: "9".into(), namespace, name: Some("web-0".into()) });
        part.connections[0].connection.processes[0].group = Some(Arc::new(group));
        metrics.add(&part, &whole_costs(&part), 7);
        let labels = "process=\"redis\",port=\"6379\",protocol=\"tcp\",container=\"0123456789ab\",\
                      namespace=\"shop\",pod=\"web-0\"}";
        let text = metrics.text();
        assert!(text.contains(&format!("{{finding=\"nagle-delayed-ack\",{labels} 1")), "{text}");
    }

    #[test]
    fn a_unix_socket_has_no_port() {
        let mut metrics = Metrics::default();
        let mut part = analysis(&[(1, FindingId::SlowReader, 40)]);
        let connection = &mut part.connections[0].connection;
        let ends = ["unix:7", "/run/redis.sock"].map(UnixName::new);
        let of_unix = Connection::of_unix(connection.id, Protocol::Unix, ends, 0);
        connection.processes.truncate(1);
        *connection = Connection { processes: connection.processes.clone(), ..of_unix };
        metrics.add(&part, &whole_costs(&part), 7);
        let text = metrics.text();
        let labels = "finding=\"slow-reader\",process=\"redis\",protocol=\"unix\"}";
        assert!(text.contains(labels), "{text}");
        assert!(!text.contains("port="), "{text}");
    }

    #[test]
    fn ledgers_add_up_by_place() {
        let mut metrics = Metrics::default();
        let mut part = analysis(&[(1, FindingId::NagleDelayedAck, 40)]);
        part.connections[0].flows[0].ledger.ns[LedgerPart::SendNagle as usize] = 40_000_000;
        part.connections[0].flows[0].ledger.ns[LedgerPart::Wire as usize] = 10_000_000;
        metrics.add(&part, &whole_costs(&part), 7);
        metrics.add(&part, &whole_costs(&part), 7);
        let text = metrics.text();
        for line in [
            "sockscope_ledger_seconds_total{place=\"send_queue.nagle\",direction=\"client\",process=\"redis\",port=\"6379\",protocol=\"tcp\"} 0.08",
            "sockscope_ledger_seconds_total{place=\"wire\",direction=\"client\",process=\"redis\",port=\"6379\",protocol=\"tcp\"} 0.02",
            "sockscope_findings_total{finding=\"nagle-delayed-ack\",process=\"redis\",port=\"6379\",protocol=\"tcp\"} 2 # {connection=\"1\"} 1.0",
            "sockscope_finding_lost_seconds_total{finding=\"nagle-delayed-ack\",process=\"redis\",port=\"6379\",protocol=\"tcp\"} 0.08",
            "sockscope_records_total 14",
            "sockscope_connections{sampled=\"true\"} 1",
            "# UNIT sockscope_ledger_seconds seconds",
            "# EOF",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn a_wait_in_three_refreshes_adds_its_time_once() {
        let mut metrics = Metrics::default();
        let mut costs = FreshCosts::default();
        for (until_ms, finding) in [
            (750, FindingId::Unanswered),
            (1_750, FindingId::Unanswered),
            (2_750, FindingId::SlowReader),
        ] {
            let waited_ms = until_ms.min(2_000);
            let mut part = analysis(&[(1, finding, waited_ms)]);
            part.connections[0].findings[0].times = vec![(0, waited_ms * 1_000_000)];
            metrics.add(&part, &costs.take(&part), 0);
        }
        let lost = "sockscope_finding_lost_seconds_total{finding=";
        let text = metrics.text();
        let lines = text.lines().filter_map(|line| line.strip_prefix(lost));
        let value = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        let mut sums: Vec<_> =
            lines.map(|line| (line.contains("unanswered"), value(line))).collect();
        sums.sort_by_key(|(is_unanswered, _)| *is_unanswered);
        assert_eq!(sums, [(false, 2.0), (true, 1.75)]);
    }

    #[test]
    fn a_delay_is_in_the_bucket_above_it() {
        let mut metrics = Metrics::default();
        let mut window = Window::new();
        window.connection(connection(1));
        // Written at 1 s and taken by TCP 44 ms later.
        let flow = ConnectionId(1).flow(Direction::FromClient);
        let passed = |kind, at_ns| Record { at_ns, flow, len: 300, kind, ..Record::default() };
        let taken_ns = SECOND + 44_000_000;
        window.push(&[passed(Kind::SendEnqueue, SECOND), passed(Kind::SendDequeue, taken_ns)]);
        window.refresh(TraceFacts::default(), Some(2 * SECOND));
        let store = window.store(ConnectionId(1)).unwrap();
        let none = DropReasons::new();
        metrics.add_flows(store, &[], &none, taken_ns + 1..=2 * SECOND);
        assert!(!metrics.text().contains("_count{stage=\"send_queue\"} 1"), "{}", metrics.text());
        metrics.add_flows(store, &[], &none, 0..=taken_ns);
        let text = metrics.text();
        let bounds: Vec<(f64, u64)> = text
            .lines()
            .filter(|line| line.contains("stage=\"send_queue\""))
            .filter_map(|line| line.strip_prefix("sockscope_stage_delay_seconds_bucket{le=\""))
            .filter_map(|line| {
                let (bound, rest) = line.split_once('"')?;
                Some((bound.parse().ok()?, rest.split(' ').nth(1)?.parse().ok()?))
            })
            .collect();
        let at = bounds.partition_point(|(_, count)| *count == 0);
        let (below, above) = (bounds[at - 1].0, bounds[at].0);
        assert!(below < 0.044 && 0.044 <= above && above / below < 1.42, "{below} to {above}");
    }

    #[test]
    fn later_groups_share_one_series_and_are_counted() {
        let mut metrics = Metrics::default();
        let mut part = analysis(&[]);
        let one = analysis(&[(1, FindingId::NagleDelayedAck, 1)]).connections.remove(0);
        for id in 1..=300u32 {
            let server = std::net::SocketAddr::from(([127, 0, 0, 1], 10_000 + id as u16));
            let connection = Connection { server, ..connection(id) };
            part.connections.push(ConnectionAnalysis { connection, ..one.clone() });
        }
        metrics.add(&part, &whole_costs(&part), 0);
        let text = metrics.text();
        let series =
            text.lines().filter(|line| line.starts_with("sockscope_findings_total")).count();
        assert_eq!(series, GROUPS_MAX + 1);
        assert!(text.contains("sockscope_series_overflow_total 100\n"), "{text}");
    }

    #[test]
    fn bytes_that_are_sent_again_count_by_reason_and_refresh() {
        let mut metrics = Metrics::default();
        let mut window = Window::new();
        window.connection(connection(1));
        let flow = ConnectionId(1).flow(Direction::FromClient);
        let again = |at_ns, class: RetransmitClass| {
            let record =
                Record { at_ns, flow, kind: Kind::Retransmit, len: 300, ..Record::default() };
            Record { code: class as u8, ..record }
        };
        let fast = again(SECOND, RetransmitClass::Fast);
        window.push(&[fast, again(3 * SECOND, RetransmitClass::Timeout)]);
        window.refresh(TraceFacts::default(), Some(4 * SECOND));
        let store = window.store(ConnectionId(1)).unwrap();
        let none = DropReasons::new();
        metrics.add_flows(store, &[], &none, 0..=2 * SECOND);
        let begins = "sockscope_retransmitted_bytes_total{class=";
        let value = |metrics: &Metrics, class: &str| {
            let text = metrics.text();
            let line = text.lines().find(|line| line.starts_with(&format!("{begins}\"{class}\"")));
            line.map(|line| line.rsplit(' ').next().unwrap_or_default().to_owned())
        };
        assert_eq!(value(&metrics, "fast").as_deref(), Some("300"));
        assert_eq!(value(&metrics, "timeout"), None);
        metrics.add_flows(store, &[], &none, 2 * SECOND + 1..=4 * SECOND);
        assert_eq!(value(&metrics, "fast").as_deref(), Some("300"));
        assert_eq!(value(&metrics, "timeout").as_deref(), Some("300"));
    }

    #[test]
    fn promtool_accepts_the_plain_text() {
        let mut metrics = Metrics::default();
        let part = analysis(&[(1, FindingId::NagleDelayedAck, 40)]);
        metrics.add(&part, &whole_costs(&part), 7);
        metrics.recorder(&Counted { costs: Some(Default::default()), ..Counted::default() });
        let mut promtool = Command::new("promtool");
        let promtool = promtool
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut promtool) = promtool else {
            let test = "promtool_accepts_the_plain_text";
            let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: there is no promtool");
            return;
        };
        let text = metrics.plain_text();
        promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let judged = promtool.wait_with_output().unwrap();
        let said =
            String::from_utf8_lossy(&judged.stderr) + String::from_utf8_lossy(&judged.stdout);
        assert!(judged.status.success() && said.is_empty(), "{said}\n{text}");
    }

    #[test]
    fn counters_of_the_recorder_never_fall() {
        let metrics = Metrics::default();
        for kept in [1, 3, 2, 3] {
            metrics.recorder(&Counted { kept, cpu_s: kept as f64, ..Counted::default() });
        }
        let text = metrics.text();
        assert!(text.contains("sockscope_bundles_kept_total 3\n"), "{text}");
        assert!(text.contains("sockscope_recorder_cpu_seconds_total 3.0\n"), "{text}");
    }
}
