//! The transfer in the records of a run, put in order by flow.
//!
//! Times are nanoseconds of the model's clock, lengths bytes; §§ are those of the SunOS IPC study.

mod activity;
mod measures;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use sockscope_analysis::{
    Analysis, Analyzer, ConnectionStore, FlowCurves, Passage, Residence, Stores, TraceFacts,
};
use sockscope_experiment::measurement::Measurement;
use sockscope_record::{Direction, Kind, Point, Stage, marks, tcp_flags};
use sockscope_sim::Everything;
use sockscope_stack::DropReason;

pub use self::activity::Activities;
pub use self::measures::mean;
use super::simulation::Ended;

/// Packets closer than this to the one before belong to its burst: the paper's histogram of the
/// protocol's time for one ends at 650 us, and the wire needs 870.
const BURST_GAP_NS: u64 = 800_000;

/// The records of one run, by flow.
#[derive(Debug)]
pub struct Observed {
    stores: Stores,
    /// The analysis of `sockscope report`.
    pub analysis: Analysis,
    /// Activities of processes.
    pub activities: Activities,
    /// The measurements of the programs, and the work of the first host.
    pub measured: Measurement,
    /// Bytes of received frames that the last host's driver copied.
    pub copied_in_bytes: u64,
    /// Copying a byte to a program's memory, in picoseconds.
    pub copy_byte_ps: u32,
}

/// Packets that TCP handed down one right after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Burst {
    /// Time of the first.
    pub first_ns: u64,
    /// Time of the last.
    pub last_ns: u64,
    /// Number of packets.
    pub packets: usize,
    /// Bytes of data.
    pub bytes: u64,
}

impl Observed {
    /// The transfer in the records of a run.
    pub(super) fn new(run: &Ended, all: &Everything) -> Self {
        let mut analyzer = Analyzer::new();
        for connection in &run.connections {
            analyzer.connection(connection.clone());
        }
        analyzer.push(&all.records);
        let reasons = DropReason::ALL.into_iter();
        let drop_reasons =
            reasons.map(|reason| (reason as u32, reason.name().to_owned())).collect();
        let facts = TraceFacts { drop_reasons, ..TraceFacts::default() };
        let (analysis, stores) = analyzer.finish_keeping(facts, NonZeroUsize::MIN);
        let activities = Activities::new(run.processes.clone(), all.activities.clone());
        Self {
            stores,
            analysis,
            activities,
            measured: run.measured.clone(),
            copied_in_bytes: run.copied_in_bytes,
            copy_byte_ps: run.copy_byte_ps,
        }
    }

    /// Bytes that any queue's books have too many or too few of, of all connections; 0 when every byte
    /// is accounted for.
    pub fn residue_bytes(&self) -> u64 {
        let flows = self.analysis.connections.iter().flat_map(|connection| &connection.flows);
        let stages = flows.flat_map(|flow| &flow.stages);
        stages.filter_map(|stage| stage.residue_bytes).map(i64::unsigned_abs).sum()
    }

    /// The first connection; every run has one.
    fn connection(&self) -> &ConnectionStore {
        &self.stores.connections[0]
    }

    /// Passages of the sender's data (or with `Direction::FromServer` of the answers) at a point.
    pub fn passes(&self, direction: Direction, point: Point) -> &[Passage] {
        self.connection().flow(direction).at(point)
    }

    /// Passages with data from the sender.
    pub fn data(&self, point: Point) -> Vec<Passage> {
        let passes = self.passes(Direction::FromClient, point).iter();
        passes.filter(|pass| pass.len > 0).copied().collect()
    }

    /// Segments without data that acknowledge, as the receiver handed them down, and not of the
    /// connection's beginning or end.
    pub fn acks(&self) -> Vec<Passage> {
        acks_of(self.connection())
    }

    /// Whether nothing was sent twice.
    pub fn is_clean(&self) -> bool {
        let sent = self.passes(Direction::FromClient, Point::InterfaceEnqueue).iter();
        sent.clone().all(|pass| pass.marks & marks::RETRANSMITTED == 0)
    }

    fn curves(&self, connection: usize) -> FlowCurves {
        let stores = &self.stores;
        let store = &stores.connections[connection];
        FlowCurves::new(store, Direction::FromClient, &stores.losses, &stores.drop_reasons)
    }

    /// Delays in a stage, of the sender's data, by position.
    pub fn delays(&self, stage: Stage) -> Vec<Residence> {
        self.delays_of(0, stage)
    }

    /// The same of one of several connections.
    pub fn delays_of(&self, connection: usize, stage: Stage) -> Vec<Residence> {
        self.curves(connection).delays(stage)
    }

    /// Delay of each packet between two points, by the packet's first byte, in order of sending.
    pub fn packet_delays_us(&self, from: Point, to: Point) -> Vec<f64> {
        let left: BTreeMap<u64, u64> =
            self.data(to).iter().map(|pass| (pass.offset, pass.at_ns)).collect();
        let entered = self.data(from);
        let delay = |pass: &Passage| {
            let left_ns = left.get(&pass.offset)?;
            Some(left_ns.saturating_sub(pass.at_ns) as f64 / 1e3)
        };
        entered.iter().filter_map(delay).collect()
    }

    /// Calls of `write()`: when, the position of the first byte, and how many bytes the program gave.
    pub fn write_calls(&self) -> Vec<(u64, u64, u64)> {
        let calls = self.connection().flow(Direction::FromClient).events_of(Kind::WriteCall);
        calls.map(|call| (call.at_ns, call.offset, u64::from(call.len))).collect()
    }

    /// The acknowledgments as [`Observed::acks`], of each connection.
    pub fn acks_of_each(&self) -> Vec<Vec<Passage>> {
        self.stores.connections.iter().map(acks_of).collect()
    }

    /// Delay of each packet from the call that wrote its first byte to a point: data given to `write()`
    /// counts as queued (§4.2). In microseconds, in order of sending.
    pub fn delays_from_write_us(&self, to: Point) -> Vec<f64> {
        let events = &self.connection().flow(Direction::FromClient).events;
        let calls = events.iter().filter(|event| event.kind == Kind::WriteCall);
        let called: BTreeMap<u64, u64> = calls.map(|event| (event.offset, event.at_ns)).collect();
        let delay = |pass: &Passage| {
            let called_ns = called.get(&pass.offset)?;
            Some(pass.at_ns.saturating_sub(*called_ns) as f64 / 1e3)
        };
        self.data(to).iter().filter_map(delay).collect()
    }

    /// Delay between two points of the packets that arrived in order, in microseconds: the wait for a
    /// retransmission of another packet is no time of the protocol.
    pub fn in_order_delays_us(&self, from: Point, to: Point) -> Vec<f64> {
        let left: BTreeMap<u64, u64> =
            self.data(to).iter().map(|pass| (pass.offset, pass.at_ns)).collect();
        let (mut early, mut next) = (BTreeMap::new(), 0);
        let mut delays = Vec::new();
        for pass in self.data(from) {
            if pass.offset != next {
                early.insert(pass.offset, pass.end());
                continue;
            }
            next = pass.end();
            while let Some(end) = early.remove(&next) {
                next = end;
            }
            let left_ns = left.get(&pass.offset).copied();
            delays.extend(left_ns.map(|ns| ns.saturating_sub(pass.at_ns) as f64 / 1e3));
        }
        delays
    }

    /// Mean time of a byte in the program's buffer, in microseconds: from the return of the write before
    /// its own, when the program had it ready, until it is in the socket's.
    pub fn mean_program_delay_us(&self) -> f64 {
        let events = &self.connection().flow(Direction::FromClient).events;
        let (mut ready, mut returned_ns) = (BTreeMap::new(), None);
        for event in events {
            match event.kind {
                Kind::WriteCall => {
                    ready.insert(event.offset, returned_ns.unwrap_or(event.at_ns));
                }
                Kind::WriteReturn => returned_ns = Some(event.at_ns),
                _ => {}
            }
        }
        let entered = self.data(Point::SendEnqueue);
        let waited = entered.iter().filter_map(|pass| {
            let (_, ready_ns) = ready.range(..=pass.offset).next_back()?;
            Some(pass.at_ns.saturating_sub(*ready_ns) as f64 / 1e3 * f64::from(pass.len))
        });
        let bytes: f64 = entered.iter().map(|pass| f64::from(pass.len)).sum();
        waited.sum::<f64>() / bytes
    }

    /// Mean delay of a byte in a stage, in microseconds.
    pub fn mean_delay_us(&self, stage: Stage) -> f64 {
        let runs = self.delays(stage);
        let bytes: u64 = runs.iter().map(|run| run.len).sum();
        let weighted = runs.iter().map(|run| run.delay_ns() as f64 * run.len as f64);
        weighted.sum::<f64>() / bytes as f64 / 1e3
    }

    /// Length of a stage's queue over time.
    pub fn lengths(&self, stage: Stage) -> Vec<(u64, u64)> {
        let steps = self.curves(0).lengths(stage).unwrap_or_default();
        steps.iter().filter_map(|step| Some((step.at_ns, step.length_bytes?))).collect()
    }

    /// Length of a stage's queue that each packet with data finds at a point, in order of passing.
    pub fn found(&self, stage: Stage, point: Point) -> Vec<u64> {
        let lengths = self.lengths(stage);
        self.data(point).iter().map(|pass| length_before(&lengths, pass.at_ns)).collect()
    }

    /// Mean over time of a stage's length between two times.
    pub fn mean_length(&self, stage: Stage, from_ns: u64, until_ns: u64) -> f64 {
        let mut steps = self.lengths(stage);
        steps.push((until_ns, 0));
        let area = |pair: &[(u64, u64)]| {
            let overlap_ns = pair[1].0.min(until_ns).saturating_sub(pair[0].0.max(from_ns));
            overlap_ns as f64 * pair[0].1 as f64
        };
        steps.windows(2).map(area).sum::<f64>() / until_ns.saturating_sub(from_ns).max(1) as f64
    }

    /// From the first byte written to the last one read.
    pub fn span_ns(&self) -> (u64, u64) {
        let first = self.data(Point::SendEnqueue).first().map_or(0, |pass| pass.at_ns);
        let last = self.data(Point::ReceiveDequeue).last().map_or(0, |pass| pass.at_ns);
        (first, last)
    }

    /// Bursts of data at the interface queue's entry.
    pub fn bursts(&self) -> Vec<Burst> {
        let mut bursts: Vec<Burst> = Vec::new();
        for pass in self.data(Point::InterfaceEnqueue) {
            match bursts.last_mut() {
                Some(burst) if pass.at_ns - burst.last_ns < BURST_GAP_NS => {
                    burst.last_ns = pass.at_ns;
                    burst.packets += 1;
                    burst.bytes += u64::from(pass.len);
                }
                _ => bursts.push(Burst {
                    first_ns: pass.at_ns,
                    last_ns: pass.at_ns,
                    packets: 1,
                    bytes: pass.len.into(),
                }),
            }
        }
        bursts
    }

    /// Gaps between packets of one burst at the interface queue's entry, in microseconds: the
    /// protocol's time for one (§4.2.1).
    pub fn gaps_in_bursts_us(&self) -> Vec<f64> {
        gaps_ns(&self.data(Point::InterfaceEnqueue))
            .filter(|&gap_ns| gap_ns < BURST_GAP_NS)
            .map(|gap_ns| gap_ns as f64 / 1e3)
            .collect()
    }

    /// Gaps between bursts at the interface queue's entry, in microseconds.
    pub fn gaps_between_bursts_us(&self) -> Vec<f64> {
        let gap = |pair: &[Burst]| pair[1].first_ns.saturating_sub(pair[0].last_ns) as f64 / 1e3;
        self.bursts().windows(2).map(gap).collect()
    }

    /// Gaps between packets at a point, in microseconds.
    pub fn gaps_us(&self, point: Point) -> Vec<f64> {
        gaps_ns(&self.data(point)).map(|gap_ns| gap_ns as f64 / 1e3).collect()
    }
}

fn acks_of(connection: &ConnectionStore) -> Vec<Passage> {
    let control = tcp_flags::SYN | tcp_flags::FIN | tcp_flags::RST;
    let passes = connection.flow(Direction::FromServer).at(Point::InterfaceEnqueue).iter();
    passes.filter(|pass| pass.len == 0 && pass.tcp_flags & control == 0).copied().collect()
}

/// Length of a queue just after a time, from its steps in order of time; it begins empty.
pub fn length_at(lengths: &[(u64, u64)], at_ns: u64) -> u64 {
    length_after(lengths, lengths.partition_point(|&(ns, _)| ns <= at_ns))
}

/// Length of a queue just before a time, likewise.
fn length_before(lengths: &[(u64, u64)], at_ns: u64) -> u64 {
    length_after(lengths, lengths.partition_point(|&(ns, _)| ns < at_ns))
}

/// Length after so many steps.
fn length_after(lengths: &[(u64, u64)], steps: usize) -> u64 {
    steps.checked_sub(1).map_or(0, |last| lengths[last].1)
}

fn gaps_ns(passes: &[Passage]) -> impl Iterator<Item = u64> {
    passes.windows(2).map(|pair| pair[1].at_ns.saturating_sub(pair[0].at_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_has_one_length_before_a_step_and_another_at_it() {
        let lengths = [(10, 100), (20, 0)];
        let around = |at_ns| (length_before(&lengths, at_ns), length_at(&lengths, at_ns));
        assert_eq!(
            [9, 10, 15, 20, 21].map(around),
            [(0, 0), (0, 100), (100, 100), (100, 0), (0, 0)]
        );
    }
}
