//! The records of a run at the eight points, and the numbers that they show.
//!
//! The names are those of the model: the rows of Table 1 of the SunOS study, and the lengths and delays of its queues.
//! They are of the first connection, and of the data of its client.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use sockscope_analysis::{
    Analysis, Analyzer, ConnectionStore, FlowCurves, Passage, Stores, TraceFacts,
};
use sockscope_experiment::measurement::{Measure, PacketTimes, StageTime};
use sockscope_probe::{Cgroup, Options, Pick, Priority, Recorder, Sink, Summary};
use sockscope_record::{
    Connection, ConnectionId, Direction, Kind, Point, Record, Stage, tcp_flags,
};
use sockscope_trace::{BundleWriter, Meta};

use crate::collector::Collector;

/// For taking what is left at the end.
const DRAIN_DEADLINE: Duration = Duration::from_secs(5);
/// Packets closer than this to the one before belong to its burst, as in the model.
const BURST_GAP_NS: u64 = 800_000;
/// The queues of the study with the names of their measures.
const QUEUES: [(Stage, &str, &str); 4] = [
    (Stage::SendQueue, "send_queue_delay_us", "send_queue_mean_bytes"),
    (Stage::InterfaceQueue, "interface_queue_delay_us", "interface_queue_mean_bytes"),
    (Stage::InputQueue, "ip_queue_delay_us", "ip_queue_mean_bytes"),
    (Stage::ReceiveQueue, "receive_queue_delay_us", "receive_queue_mean_bytes"),
];

/// What was recorded of one run.
pub(super) struct Seen {
    stores: Stores,
    analysis: Analysis,
}

/// The bundle of a recorded run.
pub(super) struct Trace {
    pub(super) dir: PathBuf,
    /// What it says of itself from the start.
    pub(super) meta: Meta,
    /// Adds what is known only at the end.
    pub(super) complete: fn(&mut Meta, &Summary),
}

/// Takes records into an analysis, and into a bundle where one is kept.
struct Both {
    analysis: Collector,
    bundle: Option<BundleWriter>,
}

impl Sink for Both {
    fn records(&mut self, records: &[Record]) -> Result<(), String> {
        let bundle = self.bundle.as_mut();
        bundle.map_or(Ok(()), |it| it.append(records)).map_err(|error| error.to_string())?;
        self.analysis.records(records)
    }

    fn connection(&mut self, connection: &Connection) -> Result<(), String> {
        let bundle = self.bundle.as_mut();
        bundle.map_or(Ok(()), |it| it.connection(connection)).map_err(|error| error.to_string())?;
        self.analysis.connection(connection)
    }

    fn complete(&mut self, connection: ConnectionId) {
        if let Some(bundle) = &mut self.bundle {
            bundle.complete(connection);
        }
    }
}

/// Does `work` while the sockets of its programs are recorded, those at `port` alone where it is given. They are those
/// of the programs that `work` admits to the group: runs at the same time have the same addresses.
///
/// # Errors
///
/// What the recorder says, when it cannot record.
pub(super) fn of<T>(
    trace: Option<&Trace>,
    port: Option<u16>,
    work: impl FnOnce(&Cgroup) -> T,
) -> io::Result<(Seen, T)> {
    let group = Cgroup::create().map_err(io::Error::other)?;
    let pick =
        Pick { cgroup: Some(group.id()), ports: port.into_iter().collect(), ..Pick::default() };
    let is_over = AtomicBool::new(false);
    let (ready, is_ready) = mpsc::channel();
    thread::scope(|scope| {
        let (pick, is_over) = (&pick, &is_over);
        // Not on this thread: the programs would have the recorder's priority.
        let recording = scope.spawn(move || record(pick, trace, is_over, &ready));
        let done = is_ready.recv().is_ok().then(|| work(&group));
        is_over.store(true, Ordering::Release);
        let seen = recording.join().map_err(|_| io::Error::other("the recorder panicked"))??;
        let done = done.ok_or_else(|| io::Error::other("the recorder did not start"))?;
        Ok((seen, done))
    })
}

fn record(
    pick: &Pick,
    trace: Option<&Trace>,
    is_over: &AtomicBool,
    ready: &mpsc::Sender<()>,
) -> io::Result<Seen> {
    let mut recorder = Recorder::start(pick, Options::default()).map_err(io::Error::other)?;
    let begin = |trace: &Trace| {
        BundleWriter::create(&trace.dir, trace.meta.clone()).map_err(io::Error::other)
    };
    let bundle = trace.map(begin).transpose()?;
    let mut sink = Both { analysis: Collector(Analyzer::new()), bundle };
    let _priority = Priority::raise();
    // The receiver waits for it.
    let _ = ready.send(());
    while !is_over.load(Ordering::Acquire) {
        recorder.step(&mut sink).map_err(io::Error::other)?;
    }
    let summary = recorder.finish(&mut sink, DRAIN_DEADLINE).map_err(io::Error::other)?;
    let facts =
        TraceFacts { source: "live".into(), missed: summary.missed, ..TraceFacts::default() };
    if let (Some(trace), Some(bundle)) = (trace, sink.bundle) {
        let mut meta = trace.meta.clone();
        (trace.complete)(&mut meta, &summary);
        bundle.finish(meta).map_err(io::Error::other)?;
    }
    let (analysis, stores) = sink.analysis.0.finish_keeping(facts, NonZeroUsize::MIN);
    Ok(Seen { stores, analysis })
}

impl Seen {
    /// All numbers; what no packet shows is no number. `None` without a connection.
    pub(super) fn measures(&self) -> Option<Vec<Measure>> {
        let store = self.first()?;
        let flow = Flow { store, stores: &self.stores };
        let mut measures = flow.table_1().to_vec();
        let span_ns = flow.span_ns();
        for (stage, delay, length) in QUEUES {
            measures.push((delay, flow.mean_delay_us(stage)));
            measures.push((length, flow.mean_length(stage, span_ns)));
        }
        measures.push(("sender_idle_us", mean(&flow.gaps_between_bursts_us())));
        measures.push(("residue_bytes", self.residue_bytes() as f64));
        measures.extend(flow.of_today());
        Some(measures.into_iter().map(|(name, value)| Measure::new(name, value)).collect())
    }

    /// The first connection of the run.
    fn first(&self) -> Option<&ConnectionStore> {
        self.stores.connections.first()
    }

    /// Times of single packets in the protocol.
    pub(super) fn packet_times(&self) -> PacketTimes {
        let Some(store) = self.first() else { return PacketTimes::default() };
        let flow = Flow { store, stores: &self.stores };
        PacketTimes {
            sending_us: flow.gaps_in_bursts_us(),
            receiving_us: flow.delays_us(Point::InputDequeue, Point::ReceiveEnqueue),
        }
    }

    /// Times of the data in each stage, and in all of them.
    pub(super) fn stage_times(&self) -> Vec<StageTime> {
        let Some(store) = self.first() else { return Vec::new() };
        let curves = Flow { store, stores: &self.stores }.curves();
        let time = |stage: Stage| {
            let mut delays: Vec<(u64, u64)> =
                curves.delays(stage).iter().map(|run| (run.delay_ns(), run.len)).collect();
            StageTime {
                stage: stage.name(),
                p50_ns: weighted_median(&mut delays),
                mean_ns: weighted_mean(&delays),
            }
        };
        Stage::ALL.into_iter().map(time).collect()
    }

    /// How often data passed each point.
    pub(super) fn passages(&self) -> Vec<(&'static str, usize)> {
        let Some(store) = self.first() else { return Vec::new() };
        let flow = Flow { store, stores: &self.stores };
        Point::ALL.into_iter().map(|point| (point.name(), flow.data(point).len())).collect()
    }

    /// Records that were missed.
    pub(super) fn missed(&self) -> u64 {
        self.analysis.facts.missed.total()
    }

    /// Bytes that any queue's books have too many or too few of, of all connections.
    fn residue_bytes(&self) -> u64 {
        let flows = self.analysis.connections.iter().flat_map(|connection| &connection.flows);
        let stages = flows.flat_map(|flow| &flow.stages);
        stages.filter_map(|stage| stage.residue_bytes).map(i64::unsigned_abs).sum()
    }
}

/// The client's data of one connection.
struct Flow<'a> {
    store: &'a ConnectionStore,
    stores: &'a Stores,
}

impl Flow<'_> {
    /// Passages with data at a point.
    fn data(&self, point: Point) -> Vec<Passage> {
        let passes = self.store.flow(Direction::FromClient).at(point).iter();
        passes.filter(|pass| pass.len > 0).copied().collect()
    }

    fn curves(&self) -> FlowCurves {
        FlowCurves::new(
            self.store,
            Direction::FromClient,
            &self.stores.losses,
            &self.stores.drop_reasons,
        )
    }

    /// The rows of Table 1 in microseconds, means of all packets. Where packets leave in bursts, the sending protocol's
    /// time is the gap between two (§4.2.1). The copy for the reader is after point 8, and not counted. A call of write is
    /// recorded with the entry of its data: how long it took up to there is unknown.
    fn table_1(&self) -> [(&'static str, f64); 7] {
        use Point::{
            InputDequeue, InputEnqueue, InterfaceDequeue, InterfaceEnqueue, ReceiveDequeue,
            ReceiveEnqueue, SendEnqueue,
        };
        let delay = |from, to| mean(&self.delays_us(from, to));
        let gaps = self.gaps_in_bursts_us();
        let protocol =
            if gaps.is_empty() { delay(SendEnqueue, InterfaceEnqueue) } else { mean(&gaps) };
        [
            ("send_socket_us", f64::NAN),
            ("send_protocol_us", protocol),
            ("interface_queue_us", delay(InterfaceEnqueue, InterfaceDequeue)),
            ("driver_and_wire_us", delay(InterfaceDequeue, InputEnqueue)),
            ("ip_queue_us", delay(InputEnqueue, InputDequeue)),
            ("receive_protocol_us", delay(InputDequeue, ReceiveEnqueue)),
            ("receive_socket_us", delay(ReceiveEnqueue, ReceiveDequeue)),
        ]
    }

    /// Delay of each packet between two points, by the packet's first byte, in order of offsets.
    fn delays_us(&self, from: Point, to: Point) -> Vec<f64> {
        self.delays_by_offset(from, to).into_values().collect()
    }

    fn delays_by_offset(&self, from: Point, to: Point) -> BTreeMap<u64, f64> {
        let left: BTreeMap<u64, u64> =
            self.data(to).iter().map(|pass| (pass.offset, pass.at_ns)).collect();
        let delay = |pass: &Passage| {
            let left_ns = left.get(&pass.offset)?;
            Some((pass.offset, left_ns.saturating_sub(pass.at_ns) as f64 / 1e3))
        };
        self.data(from).iter().filter_map(delay).collect()
    }

    /// Mean delay of a byte in a stage, in microseconds.
    fn mean_delay_us(&self, stage: Stage) -> f64 {
        let runs = self.curves().delays(stage);
        let bytes: u64 = runs.iter().map(|run| run.len).sum();
        let weighted = runs.iter().map(|run| run.delay_ns() as f64 * run.len as f64);
        weighted.sum::<f64>() / bytes as f64 / 1e3
    }

    /// Length of a stage's queue over time.
    fn lengths(&self, stage: Stage) -> Vec<(u64, u64)> {
        let steps = self.curves().lengths(stage).unwrap_or_default();
        steps.iter().filter_map(|step| Some((step.at_ns, step.length_bytes?))).collect()
    }

    /// Mean over time of a stage's length between two times.
    fn mean_length(&self, stage: Stage, (from_ns, until_ns): (u64, u64)) -> f64 {
        let mut steps = self.lengths(stage);
        steps.push((until_ns, 0));
        let area = |pair: &[(u64, u64)]| {
            let overlap_ns = pair[1].0.min(until_ns).saturating_sub(pair[0].0.max(from_ns));
            overlap_ns as f64 * pair[0].1 as f64
        };
        steps.windows(2).map(area).sum::<f64>() / until_ns.saturating_sub(from_ns).max(1) as f64
    }

    /// From the first byte written to the last one read.
    fn span_ns(&self) -> (u64, u64) {
        let first = self.data(Point::SendEnqueue).first().map_or(0, |pass| pass.at_ns);
        let last = self.data(Point::ReceiveDequeue).last().map_or(0, |pass| pass.at_ns);
        (first, last)
    }

    fn gaps_in_bursts_us(&self) -> Vec<f64> {
        let gaps = gaps_ns(&self.data(Point::InterfaceEnqueue));
        gaps.into_iter().filter(|gap| *gap < BURST_GAP_NS).map(|gap| gap as f64 / 1e3).collect()
    }

    fn gaps_between_bursts_us(&self) -> Vec<f64> {
        let gaps = gaps_ns(&self.data(Point::InterfaceEnqueue));
        gaps.into_iter().filter(|gap| *gap >= BURST_GAP_NS).map(|gap| gap as f64 / 1e3).collect()
    }

    /// What the register's claims on traces ask for, and the model's checks read from its own records.
    fn of_today(&self) -> Vec<(&'static str, f64)> {
        let is_seen = |point: &&Point| !self.data(**point).is_empty();
        let points = Point::ALL.iter().filter(is_seen).count();
        let back = self.store.flow(Direction::FromServer).at(Point::ReceiveEnqueue);
        let back_bytes: u64 = back.iter().map(|pass| u64::from(pass.len)).sum();
        let is_fin = |pass: &&Passage| pass.len == 0 && pass.tcp_flags & tcp_flags::FIN != 0;
        let ends = [Direction::FromClient, Direction::FromServer].map(|direction| {
            self.store.flow(direction).at(Point::InterfaceEnqueue).iter().filter(is_fin).count()
        });
        let gaps = |point| gaps_ns(&self.data(point)).iter().map(|gap| *gap as f64).collect();
        let [handed, sent]: [Vec<f64>; 2] =
            [Point::InterfaceEnqueue, Point::InterfaceDequeue].map(gaps);
        // A gap differs by as much as the delays of its two packets do.
        let delays = self.delays_us(Point::InterfaceDequeue, Point::ReceiveEnqueue);
        let changes: Vec<f64> =
            delays.windows(2).map(|pair| 1e3 * (pair[1] - pair[0]).abs()).collect();
        let writes = self.store.flow(Direction::FromClient).events.iter();
        let empty = self.found_empty(Stage::InputQueue, Point::InputEnqueue);
        vec![
            ("points_seen", points as f64),
            ("data_bytes_back", back_bytes as f64),
            ("fin_packets", ends.iter().sum::<usize>() as f64),
            ("handed_gap_spread_percent", spread_percent(&handed)),
            ("sent_gap_spread_percent", spread_percent(&sent)),
            ("arrival_gap_change_percent", 100.0 * mean(&changes) / mean(&sent)),
            ("ip_queue_found_empty_percent", 100.0 * empty),
            ("write_calls", writes.filter(|event| event.kind == Kind::WriteCall).count() as f64),
            ("packet_bytes", mean(&self.lens(Point::InterfaceEnqueue))),
            ("last_in_burst_delay_us", self.last_delay_us()),
            ("pushed_emptying_percent", self.pushed_percent()),
        ]
    }

    /// Share of the packets with PSH that end with the last byte which had entered the send queue.
    fn pushed_percent(&self) -> f64 {
        let written = self.data(Point::SendEnqueue);
        let end_at =
            |at_ns: u64| written.iter().filter(|pass| pass.at_ns <= at_ns).map(Passage::end).max();
        let handed = self.data(Point::InterfaceEnqueue);
        let pushed = handed.iter().filter(|pass| pass.tcp_flags & tcp_flags::PSH != 0);
        let empties = pushed.map(|pass| f64::from(end_at(pass.at_ns) == Some(pass.end())));
        100.0 * mean(&empties.collect::<Vec<_>>())
    }

    /// Mean delay in the interface queue of the packets after which a burst ends.
    fn last_delay_us(&self) -> f64 {
        let handed = self.data(Point::InterfaceEnqueue);
        let delays = self.delays_by_offset(Point::InterfaceEnqueue, Point::InterfaceDequeue);
        let is_last = gaps_ns(&handed).into_iter().map(|gap| gap >= BURST_GAP_NS).chain([true]);
        let last = handed.iter().zip(is_last).filter(|(_, is)| *is);
        let last: Vec<f64> =
            last.filter_map(|(pass, _)| delays.get(&pass.offset).copied()).collect();
        mean(&last)
    }

    fn lens(&self, point: Point) -> Vec<f64> {
        self.data(point).iter().map(|pass| f64::from(pass.len)).collect()
    }

    /// Share of the packets that find a queue empty when they enter it.
    fn found_empty(&self, stage: Stage, point: Point) -> f64 {
        let lengths = self.lengths(stage);
        let before = |at_ns: u64| {
            let steps = lengths.partition_point(|&(ns, _)| ns < at_ns);
            steps.checked_sub(1).map_or(0, |last| lengths[last].1)
        };
        let found: Vec<f64> =
            self.data(point).iter().map(|pass| f64::from(before(pass.at_ns) == 0)).collect();
        mean(&found)
    }
}

fn gaps_ns(passes: &[Passage]) -> Vec<u64> {
    passes.windows(2).map(|pair| pair[1].at_ns.saturating_sub(pair[0].at_ns)).collect()
}

/// Standard deviation in percent of the mean.
fn spread_percent(values: &[f64]) -> f64 {
    let middle = mean(values);
    let squares: Vec<f64> = values.iter().map(|value| (value - middle).powi(2)).collect();
    100.0 * mean(&squares).sqrt() / middle
}

/// The value that half of the weights reach. Values are sorted by it.
fn weighted_median(values: &mut [(u64, u64)]) -> Option<u64> {
    values.sort_unstable();
    let all: u64 = values.iter().map(|(_, weight)| weight).sum();
    let mut sum = 0;
    let reaches = |(_, weight): &&(u64, u64)| {
        sum += weight;
        2 * sum >= all
    };
    values.iter().find(reaches).map(|(value, _)| *value)
}

fn weighted_mean(values: &[(u64, u64)]) -> Option<u64> {
    let all: u128 = values.iter().map(|(_, weight)| u128::from(*weight)).sum();
    let sum: u128 =
        values.iter().map(|(value, weight)| u128::from(*value) * u128::from(*weight)).sum();
    u64::try_from(sum.checked_div(all)?).ok()
}

/// Arithmetic mean; no number when there is nothing.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use sockscope_record::Protocol;

    use super::*;

    /// Two packets through all points, the second 1 ms behind the first, each 10 us from point to point.
    fn seen() -> Seen {
        let id = ConnectionId(2);
        let ends =
            ["198.18.0.1:5000", "198.18.0.2:7000"].map(|end| end.parse::<SocketAddr>().unwrap());
        let mut analyzer = Analyzer::new();
        analyzer.connection(Connection::new(id, Protocol::Tcp, ends, 0));
        let mut records: Vec<Record> = (0..2_u64)
            .flat_map(|packet| {
                Point::ALL.into_iter().enumerate().map(move |(at, point)| Record {
                    at_ns: 1_000_000 * (packet + 1) + 10_000 * at as u64,
                    kind: point.into(),
                    flow: id.flow(Direction::FromClient),
                    offset: 1000 * packet,
                    len: 1000,
                    tcp_flags: tcp_flags::PSH,
                    ..Record::default()
                })
            })
            .collect();
        records.sort_by_key(|record| record.at_ns);
        analyzer.push(&records);
        let (analysis, stores) = analyzer.finish_keeping(TraceFacts::default(), NonZeroUsize::MIN);
        Seen { stores, analysis }
    }

    #[test]
    fn the_rows_of_table_1_are_times_between_points() {
        let measures = seen().measures().expect("it has a connection");
        let of = |name: &str| measures.iter().find(|it| it.name == name).unwrap().value();
        for row in ["interface_queue_us", "driver_and_wire_us", "ip_queue_us", "receive_socket_us"]
        {
            assert_eq!(of(row), Some(10.0), "{row}");
        }
        assert_eq!((of("points_seen"), of("residue_bytes")), (Some(8.0), Some(0.0)));
        assert_eq!(of("sender_idle_us"), Some(1000.0));
        assert_eq!(of("ip_queue_found_empty_percent"), Some(100.0));
        assert_eq!((of("packet_bytes"), of("data_bytes_back")), (Some(1000.0), Some(0.0)));
        assert_eq!(of("send_socket_us"), None, "nothing is recorded before point 1");
        assert_eq!(of("last_in_burst_delay_us"), Some(10.0));
        assert_eq!(of("pushed_emptying_percent"), Some(100.0));
    }

    #[test]
    fn stages_have_the_median_of_their_octets_and_points_their_passages() {
        let times = seen().stage_times();
        let of = |name: &str| times.iter().find(|time| time.stage == name).unwrap();
        assert_eq!((of("tcp_output").p50_ns, of("total").p50_ns), (Some(10_000), Some(70_000)));
        assert!(seen().passages().iter().all(|(_, count)| *count == 2));
        assert_eq!(weighted_median(&mut [(9, 1), (1, 2), (5, 3)]), Some(5));
        assert_eq!((weighted_mean(&[(9, 1), (1, 3)]), weighted_mean(&[])), (Some(3), None));
    }

    #[test]
    fn a_spread_is_a_standard_deviation() {
        assert_eq!(spread_percent(&[1.0, 3.0]), 50.0);
        assert!(spread_percent(&[]).is_nan());
    }
}
