//! What was seen since the start, in the form of OpenMetrics.

use std::collections::HashSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use sockscope_analysis::{
    Analysis, ConnectionAnalysis, ConnectionStore, DropReasons, FlowCurves, LedgerPart,
    LossInterval,
};
use sockscope_record::{Connection, Direction, LossCounts, Point, Stage};

type Seconds = Counter<f64, AtomicU64>;

/// Groups of connections that have series of their own; later ones are together in the group `other`.
const GROUPS_MAX: usize = 200;
/// The group of those.
const OTHER: &str = "other";
/// Two buckets for each doubling, from 1 us to 10 s.
const BUCKETS: usize = 48;
const NS: f64 = 1e-9;

/// Connections of one program and server port. Never of a client's port or an address: each connection has another one.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Group {
    process: String,
    port: String,
    protocol: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfPlace {
    place: &'static str,
    direction: &'static str,
    process: String,
    port: String,
    protocol: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfFinding {
    finding: &'static str,
    process: String,
    port: String,
    protocol: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfStage {
    stage: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfPoint {
    point: &'static str,
}

/// Figures of the recorder itself.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counted {
    /// Records that were missed since the start.
    pub missed: LossCounts,
    /// CPU time of this process since the start, seconds.
    pub cpu_s: f64,
    /// Bytes of the segments on the disk.
    pub segment_bytes: u64,
    /// Bundles that were kept.
    pub kept: u64,
    /// Bundles that were not kept, as there were enough in the hour.
    pub refused: u64,
    /// Segments that were removed before their time, as the disk or its bound had no room.
    pub removed_early: u64,
}

/// Sums over all that was analysed.
pub struct Metrics {
    registry: Registry,
    groups: HashSet<Group>,
    ledger: Family<OfPlace, Seconds>,
    findings: Family<OfFinding, Counter>,
    lost: Family<OfFinding, Seconds>,
    delays: Family<OfStage, Histogram, fn() -> Histogram>,
    queue_max: Family<OfStage, Gauge>,
    missed: Family<OfPoint, Counter>,
    records: Counter,
    connections: Gauge,
    overflow: Counter,
    cpu: Seconds,
    segment_bytes: Gauge,
    kept: Counter,
    refused: Counter,
    removed_early: Counter,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("groups", &self.groups).finish_non_exhaustive()
    }
}

fn buckets() -> Histogram {
    Histogram::new((0..BUCKETS).map(|at| 1e-6 * 2f64.powf(at as f64 / 2.0)))
}

impl Default for Metrics {
    fn default() -> Self {
        let mut this = Self {
            registry: Registry::with_prefix("sockscope"),
            groups: HashSet::new(),
            ledger: Family::default(),
            findings: Family::default(),
            lost: Family::default(),
            delays: Family::new_with_constructor(buckets as fn() -> Histogram),
            queue_max: Family::default(),
            missed: Family::default(),
            records: Counter::default(),
            connections: Gauge::default(),
            overflow: Counter::default(),
            cpu: Seconds::default(),
            segment_bytes: Gauge::default(),
            kept: Counter::default(),
            refused: Counter::default(),
            removed_early: Counter::default(),
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
            "stage_queue_max",
            "The longest queue of a flow in the last refresh",
            Unit::Bytes,
            self.queue_max.clone(),
        );
        all.register("records_missed", "Records that were missed", self.missed.clone());
        all.register("records", "Records that were analysed", self.records.clone());
        all.register(
            "connections",
            "Connections with records in the last refresh, or with unread bytes",
            self.connections.clone(),
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
    }

    /// Adds the analysis of the next part, with so many new records.
    pub fn add(&mut self, analysis: &Analysis, records: u64) {
        self.records.inc_by(records);
        self.connections.set(i64::try_from(analysis.connections.len()).unwrap_or(i64::MAX));
        let mut longest = [0u64; Stage::ALL.len()];
        for one in &analysis.connections {
            let group = self.group(&one.connection);
            self.add_connection(one, &group);
            for stage in one.flows.iter().flat_map(|flow| &flow.stages) {
                let longest = &mut longest[stage.stage as usize];
                *longest = (*longest).max(stage.length_bytes.map_or(0, |length| length.max));
            }
        }
        for (stage, longest) in Stage::ALL.into_iter().zip(longest) {
            let of_stage = OfStage { stage: stage.name() };
            self.queue_max.get_or_create(&of_stage).set(i64::try_from(longest).unwrap_or(i64::MAX));
        }
    }

    fn add_connection(&self, one: &ConnectionAnalysis, group: &Group) {
        let Group { process, port, protocol } = group.clone();
        for (flow, direction) in
            one.flows.iter().zip([Direction::FromClient, Direction::FromServer])
        {
            for part in LedgerPart::ALL {
                let ns = flow.ledger.ns[part as usize];
                if ns > 0 {
                    let labels = OfPlace {
                        place: part.name(),
                        direction: direction.sender().name(),
                        process: process.clone(),
                        port: port.clone(),
                        protocol,
                    };
                    self.ledger.get_or_create(&labels).inc_by(ns as f64 * NS);
                }
            }
        }
        for finding in &one.findings {
            let labels = OfFinding {
                finding: finding.id.name(),
                process: process.clone(),
                port: port.clone(),
                protocol,
            };
            self.findings.get_or_create(&labels).inc();
            self.lost.get_or_create(&labels).inc_by(finding.cost_ns as f64 * NS);
        }
    }

    /// Adds the times that bytes of a connection were in its stages, of those that left within `times`. `losses` are
    /// those that touched the connection.
    pub fn add_delays(
        &self,
        store: &ConnectionStore,
        losses: &[LossInterval],
        reasons: &DropReasons,
        times: RangeInclusive<u64>,
    ) {
        for direction in [Direction::FromClient, Direction::FromServer] {
            let curves = FlowCurves::new(store, direction, losses, reasons);
            for stage in Stage::ALL {
                let of_stage = self.delays.get_or_create(&OfStage { stage: stage.name() });
                let left = curves.delays(stage).into_iter();
                for residence in left.filter(|it| times.contains(&it.left_ns)) {
                    of_stage.observe(residence.delay_ns() as f64 * NS);
                }
            }
        }
    }

    /// The program at the server's end, else at the client's, with the server's port.
    fn group(&mut self, connection: &Connection) -> Group {
        let at_server = connection.processes.iter().find(|it| it.side.name() == "server");
        let process = at_server.or(connection.processes.first());
        let group = Group {
            process: process.map_or("unknown".to_owned(), |process| process.comm.clone()),
            port: connection.server.port().to_string(),
            protocol: connection.protocol.name(),
        };
        if self.groups.contains(&group) {
            return group;
        }
        if self.groups.len() < GROUPS_MAX {
            self.groups.insert(group.clone());
            return group;
        }
        self.overflow.inc();
        Group { process: OTHER.to_owned(), port: OTHER.to_owned(), ..group }
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
        self.cpu.inc_by((counted.cpu_s - self.cpu.get()).max(0.0));
        self.segment_bytes.set(i64::try_from(counted.segment_bytes).unwrap_or(i64::MAX));
        to(&self.kept, counted.kept);
        to(&self.refused, counted.refused);
        to(&self.removed_early, counted.removed_early);
    }

    /// All of it as text (OpenMetrics 1.0).
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use sockscope_analysis::{FindingId, TraceFacts, Window};
    use sockscope_record::{ConnectionId, Kind, Record};

    use super::*;
    use crate::testing::{SECOND, analysis, connection};

    #[test]
    fn ledgers_add_up_by_place() {
        let mut metrics = Metrics::default();
        let mut part = analysis(&[(1, FindingId::NagleDelayedAck, 40)]);
        part.connections[0].flows[0].ledger.ns[LedgerPart::SendNagle as usize] = 40_000_000;
        part.connections[0].flows[0].ledger.ns[LedgerPart::Wire as usize] = 10_000_000;
        metrics.add(&part, 7);
        metrics.add(&part, 7);
        let text = metrics.text();
        for line in [
            "sockscope_ledger_seconds_total{place=\"send_queue.nagle\",direction=\"client\",process=\"redis\",port=\"6379\",protocol=\"tcp\"} 0.08",
            "sockscope_ledger_seconds_total{place=\"wire\",direction=\"client\",process=\"redis\",port=\"6379\",protocol=\"tcp\"} 0.02",
            "sockscope_findings_total{finding=\"nagle-delayed-ack\",process=\"redis\",port=\"6379\",protocol=\"tcp\"} 2",
            "sockscope_finding_lost_seconds_total{finding=\"nagle-delayed-ack\",process=\"redis\",port=\"6379\",protocol=\"tcp\"} 0.08",
            "sockscope_records_total 14",
            "sockscope_connections 1",
            "# UNIT sockscope_ledger_seconds seconds",
            "# EOF",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn a_delay_is_in_the_bucket_above_it() {
        let metrics = Metrics::default();
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
        metrics.add_delays(store, &[], &none, taken_ns + 1..=2 * SECOND);
        assert!(!metrics.text().contains("_count{stage=\"send_queue\"} 1"), "{}", metrics.text());
        metrics.add_delays(store, &[], &none, 0..=taken_ns);
        let text = metrics.text();
        let bounds: Vec<(f64, u64)> = text
            .lines()
            .filter(|line| line.contains("stage=\"send_queue\""))
            .filter_map(|line| line.strip_prefix("sockscope_stage_delay_seconds_bucket{le=\""))
            .filter_map(|line| {
                let (bound, rest) = line.split_once('"')?;
                Some((bound.parse().ok()?, rest.rsplit_once(' ')?.1.parse().ok()?))
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
        metrics.add(&part, 0);
        let text = metrics.text();
        let series =
            text.lines().filter(|line| line.starts_with("sockscope_findings_total")).count();
        assert_eq!(series, GROUPS_MAX + 1);
        assert!(text.contains("sockscope_series_overflow_total 100\n"), "{text}");
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
