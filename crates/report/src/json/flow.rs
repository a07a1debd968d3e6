//! One flow: its stages, its ledger, its acknowledgments, its bursts and its calls.

use serde::{Serialize, Serializer};
use sockscope_analysis::{
    AckDelayCause, AckSummary, BurstSummary, Distribution, DropCount, FlowAnalysis, Ledger,
    LedgerPart, StageAnalysis,
};

use super::number;
use crate::number::rounded;

#[derive(Serialize)]
pub(super) struct FlowView<'a> {
    id: u32,
    from: &'static str,
    bytes: u64,
    segments: u64,
    retransmitted_bytes: u64,
    drops: Vec<DropView<'a>>,
    datagrams_refused: u64,
    stages: StagesView<'a>,
    lost_byte_delay_ns: Option<u64>,
    ledger: LedgerView<'a>,
    to: &'static str,
    throughput_bytes_per_s: Option<f64>,
    ledger_total_ns: u64,
    acks: Option<AcksView>,
    bursts: BurstsView,
    write_bytes: Option<SizesView>,
    read_bytes: Option<SizesView>,
    reads_are_guessed: bool,
    read_copy_bytes_max: Option<u64>,
}

impl<'a> FlowView<'a> {
    pub(super) fn new(flow: &'a FlowAnalysis, is_udp: bool) -> Self {
        let direction = flow.id.direction();
        Self {
            id: flow.id.0,
            from: direction.sender().name(),
            bytes: flow.bytes,
            segments: flow.segments,
            retransmitted_bytes: flow.retransmitted_bytes,
            drops: flow.drops.iter().map(DropView::new).collect(),
            datagrams_refused: flow.datagrams_refused,
            stages: StagesView(&flow.stages),
            lost_byte_delay_ns: flow.lost_byte_delay_ns.and_then(rounded),
            ledger: LedgerView(&flow.ledger),
            to: direction.receiver().name(),
            throughput_bytes_per_s: flow.throughput_bytes_per_s.and_then(number),
            ledger_total_ns: flow.ledger.total_ns(),
            acks: (!is_udp).then(|| AcksView::new(&flow.acks)),
            bursts: BurstsView::new(&flow.bursts),
            write_bytes: flow.write_bytes.as_ref().map(SizesView::new),
            read_bytes: flow.read_bytes.as_ref().map(SizesView::new),
            reads_are_guessed: flow.reads_are_guessed,
            read_copy_bytes_max: flow.read_copy_bytes_max,
        }
    }
}

/// What the kernel dropped for one reason.
#[derive(Serialize)]
struct DropView<'a> {
    reason: &'a str,
    count: u64,
    bytes: u64,
}

impl<'a> DropView<'a> {
    fn new(drops: &'a DropCount) -> Self {
        Self { reason: &drops.reason, count: drops.count, bytes: drops.bytes }
    }
}

/// The stages by name, in path order.
struct StagesView<'a>(&'a [StageAnalysis]);

impl Serialize for StagesView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_map(self.0.iter().map(|stage| (stage.stage.name(), StageView::new(stage))))
    }
}

#[derive(Serialize)]
struct StageView {
    delay_ns: Option<TimesView>,
    byte_delay_ns: Option<u64>,
    length_bytes: Option<LengthView>,
    residue_bytes: Option<i64>,
    resident_bytes: u64,
    unknown_intervals: u64,
}

#[derive(Serialize)]
struct LengthView {
    mean: Option<f64>,
    max: u64,
}

impl StageView {
    fn new(stage: &StageAnalysis) -> Self {
        let length = stage.length_bytes;
        Self {
            delay_ns: stage.delay_ns.as_ref().map(TimesView::new),
            byte_delay_ns: stage.byte_delay_ns.and_then(rounded),
            length_bytes: length.map(|it| LengthView { mean: number(it.mean), max: it.max }),
            residue_bytes: stage.residue_bytes,
            resident_bytes: stage.resident_bytes,
            unknown_intervals: stage.unknown_intervals,
        }
    }
}

/// Shares of the flow's time by part, which add up to 1.
struct LedgerView<'a>(&'a Ledger);

impl Serialize for LedgerView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_map(LedgerPart::ALL.iter().map(|&part| (part.name(), self.0.share(part))))
    }
}

/// A distribution of times: all integers, the mean rounded.
#[derive(Serialize)]
pub(super) struct TimesView {
    count: u64,
    mean: Option<u64>,
    min: u64,
    p50: u64,
    p90: u64,
    p99: u64,
    max: u64,
}

impl TimesView {
    pub(super) fn new(times: &Distribution) -> Self {
        let Distribution { count, mean, min, p50, p90, p99, max } = *times;
        Self { count, mean: rounded(mean), min, p50, p90, p99, max }
    }
}

/// A distribution of sizes: the mean may be a fraction.
#[derive(Serialize)]
struct SizesView {
    count: u64,
    mean: Option<f64>,
    min: u64,
    p50: u64,
    p90: u64,
    p99: u64,
    max: u64,
}

impl SizesView {
    fn new(sizes: &Distribution) -> Self {
        let Distribution { count, mean, min, p50, p90, p99, max } = *sizes;
        Self { count, mean: number(mean), min, p50, p90, p99, max }
    }
}

#[derive(Serialize)]
struct AcksView {
    advancing: u64,
    pure: u64,
    duplicate: u64,
    bytes: Option<SizesView>,
    delay_ns: Option<TimesView>,
    late: LateView,
}

#[derive(Serialize, Default)]
struct LateView {
    timer: u64,
    piggyback: u64,
    read: u64,
    unknown: u64,
}

impl AcksView {
    fn new(acks: &AckSummary) -> Self {
        Self {
            advancing: acks.advancing,
            pure: acks.pure,
            duplicate: acks.duplicate,
            bytes: acks.bytes.as_ref().map(SizesView::new),
            delay_ns: acks.delay_ns.as_ref().map(TimesView::new),
            late: LateView::new(&acks.late),
        }
    }
}

impl LateView {
    fn new(late: &[(AckDelayCause, u64)]) -> Self {
        let mut view = Self::default();
        for &(cause, count) in late {
            let counter = match cause {
                AckDelayCause::Timer => &mut view.timer,
                AckDelayCause::Piggyback => &mut view.piggyback,
                AckDelayCause::Read => &mut view.read,
                AckDelayCause::Unknown => &mut view.unknown,
            };
            *counter = counter.saturating_add(count);
        }
        view
    }
}

#[derive(Serialize)]
struct BurstsView {
    count: u64,
    bytes: Option<SizesView>,
    duration_ns: Option<TimesView>,
    gap_ns: Option<TimesView>,
}

impl BurstsView {
    fn new(bursts: &BurstSummary) -> Self {
        Self {
            count: bursts.count,
            bytes: bursts.bytes.as_ref().map(SizesView::new),
            duration_ns: bursts.duration_ns.as_ref().map(TimesView::new),
            gap_ns: bursts.gap_ns.as_ref().map(TimesView::new),
        }
    }
}
