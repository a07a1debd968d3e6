//! One flow: its stages, its ledger, its acknowledgments, its bursts and its calls.

use serde::{Serialize, Serializer};
use sockscope_analysis::{
    AckDelayCause, AckSummary, BurstSummary, Device, Distribution, DropCount, FlowAnalysis,
    HopAnalysis, Interface, Ledger, LedgerPart, LengthSummary, StageAnalysis, Uncertainty,
};
use sockscope_render::number::rounded;

use super::number::number;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FlowView<'a> {
    id: u32,
    from: &'static str,
    bytes: u64,
    bytes_is_lower_bound: bool,
    segments: u64,
    segments_is_lower_bound: bool,
    retransmitted_bytes: u64,
    retransmitted_bytes_is_lower_bound: bool,
    drops: Vec<DropView<'a>>,
    datagrams_refused: u64,
    drops_are_lower_bounds: bool,
    #[cfg_attr(test, schemars(schema_with = "super::schema::stages"))]
    stages: StagesView<'a>,
    dropped_byte_delay_ns: Option<u64>,
    #[cfg_attr(test, schemars(schema_with = "super::schema::shares"))]
    ledger: LedgerView<'a>,
    to: &'static str,
    throughput_bytes_per_s: Option<f64>,
    throughput_is_lower_bound: bool,
    ledger_total_ns: u64,
    /// Nanoseconds by which the ledger's time on the wire may be longer or shorter; null as in a stage.
    ledger_wire_uncertainty_ns: Option<u64>,
    acks: Option<AcksView>,
    bursts: BurstsView,
    write_bytes: Option<SizesView>,
    write_count_is_lower_bound: bool,
    read_bytes: Option<SizesView>,
    read_count_is_lower_bound: bool,
    reads_are_guessed: bool,
    read_copy_bytes_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<InterfaceView<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hops: Vec<HopView<'a>>,
}

/// The interface by which a flow leaves.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct InterfaceView<'a> {
    device: &'a str,
    queueing_discipline: &'a str,
    index: u32,
    network_namespace: u64,
    network_namespace_name: Option<&'a str>,
}

impl<'a> InterfaceView<'a> {
    fn new(interface: &'a Interface) -> Self {
        let Interface { device, discipline, index, namespace, namespace_name } = interface;
        Self {
            device,
            queueing_discipline: discipline,
            index: *index,
            network_namespace: *namespace,
            network_namespace_name: namespace_name.as_deref(),
        }
    }
}

impl<'a> FlowView<'a> {
    pub(super) fn new(flow: &'a FlowAnalysis, is_tcp: bool) -> Self {
        let direction = flow.id.direction();
        let at_least = &flow.at_least;
        Self {
            id: flow.id.0,
            from: direction.sender().name(),
            bytes: flow.bytes,
            bytes_is_lower_bound: at_least.bytes,
            segments: flow.segments,
            segments_is_lower_bound: at_least.segments,
            retransmitted_bytes: flow.retransmitted_bytes,
            retransmitted_bytes_is_lower_bound: at_least.retransmitted,
            drops: flow.drops.iter().map(DropView::new).collect(),
            datagrams_refused: flow.datagrams_refused,
            drops_are_lower_bounds: at_least.drops,
            stages: StagesView(&flow.stages),
            dropped_byte_delay_ns: flow.dropped_byte_delay_ns.and_then(rounded),
            ledger: LedgerView(&flow.ledger),
            to: direction.receiver().name(),
            throughput_bytes_per_s: flow.throughput_bytes_per_s.and_then(number),
            throughput_is_lower_bound: at_least.throughput,
            ledger_total_ns: flow.ledger.total_ns(),
            ledger_wire_uncertainty_ns: flow
                .ledger_uncertainty(LedgerPart::Wire)
                .and_then(Uncertainty::at_most_ns),
            acks: is_tcp.then(|| AcksView::new(&flow.acks, at_least.acks)),
            bursts: BurstsView::new(&flow.bursts, at_least.bursts),
            write_bytes: flow.write_bytes.as_ref().map(SizesView::new),
            write_count_is_lower_bound: at_least.writes,
            read_bytes: flow.read_bytes.as_ref().map(SizesView::new),
            read_count_is_lower_bound: at_least.reads,
            reads_are_guessed: flow.reads_are_guessed,
            read_copy_bytes_max: flow.read_copy_bytes_max,
            interface: flow.interface.as_ref().map(InterfaceView::new),
            hops: flow.hops.iter().map(HopView::new).collect(),
        }
    }
}

/// A device between the two ends of a flow.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct HopView<'a> {
    device: DeviceView<'a>,
    arrived_by: Option<DeviceView<'a>>,
    bytes: u64,
    transit_ns: Option<TimesView>,
    queue_ns: Option<TimesView>,
    queue_bytes: Option<LengthView>,
    residue_bytes: Option<u64>,
    ledger_transit_ns: u64,
    ledger_queue_ns: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DeviceView<'a> {
    name: Option<&'a str>,
    index: u32,
    network_namespace: Option<u32>,
    network_namespace_name: Option<&'a str>,
}

impl<'a> HopView<'a> {
    fn new(hop: &'a HopAnalysis) -> Self {
        Self {
            device: DeviceView::new(&hop.device),
            arrived_by: hop.arrived_by.as_ref().map(DeviceView::new),
            bytes: hop.bytes,
            transit_ns: hop.transit_ns.as_ref().map(TimesView::new),
            queue_ns: hop.queue_ns.as_ref().map(TimesView::new),
            queue_bytes: hop.queue_bytes.map(|it| LengthView::new(it, false)),
            residue_bytes: hop.residue_bytes,
            ledger_transit_ns: hop.ledger_transit_ns,
            ledger_queue_ns: hop.ledger_queue_ns,
        }
    }
}

impl<'a> DeviceView<'a> {
    fn new(device: &'a Device) -> Self {
        Self {
            name: device.name.as_deref(),
            index: device.index,
            network_namespace: Some(device.namespace).filter(|namespace| *namespace > 0),
            network_namespace_name: device.namespace_name.as_deref(),
        }
    }
}

/// What the kernel dropped for one reason.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct StageView {
    delay_ns: Option<TimesView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_at_most_ns: Option<TimesView>,
    byte_delay_ns: Option<u64>,
    length_bytes: Option<LengthView>,
    residue_bytes: Option<i64>,
    resident_bytes: Option<u64>,
    unknown_intervals: u64,
    /// Nanoseconds by which the delays of a stage between two hosts may be longer or shorter; null within a host, and
    /// where that is not known.
    uncertainty_ns: Option<u64>,
    /// The clocks of the two hosts differ by an unknown time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    uncertainty_is_unknown: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LengthView {
    mean: Option<f64>,
    max: u64,
    max_is_lower_bound: bool,
}

impl LengthView {
    fn new(length: LengthSummary, max_is_lower_bound: bool) -> Self {
        Self { mean: number(length.mean), max: length.max, max_is_lower_bound }
    }
}

impl StageView {
    fn new(stage: &StageAnalysis) -> Self {
        let length = stage.length_bytes;
        Self {
            delay_ns: stage.delay_ns.as_ref().map(TimesView::new),
            delay_at_most_ns: stage.delay_at_most_ns.as_ref().map(TimesView::new),
            byte_delay_ns: stage.byte_delay_ns.and_then(rounded),
            length_bytes: length.map(|it| LengthView::new(it, stage.unknown_intervals > 0)),
            residue_bytes: stage.residue_bytes,
            resident_bytes: stage.resident_bytes,
            unknown_intervals: stage.unknown_intervals,
            uncertainty_ns: stage.uncertainty.and_then(Uncertainty::at_most_ns),
            uncertainty_is_unknown: stage.uncertainty == Some(Uncertainty::Unknown),
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TimesView {
    count: u64,
    mean: Option<u64>,
    min: u64,
    p50: u64,
    p90: u64,
    p99: u64,
    max: u64,
}

impl TimesView {
    pub(crate) fn new(times: &Distribution) -> Self {
        let Distribution { count, mean, min, p50, p90, p99, max } = *times;
        Self { count, mean: rounded(mean), min, p50, p90, p99, max }
    }
}

/// A distribution of sizes: the mean may be a fraction.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AcksView {
    advancing: u64,
    pure: u64,
    duplicate: u64,
    counts_are_lower_bounds: bool,
    bytes: Option<SizesView>,
    delay_ns: Option<TimesView>,
    late: LateView,
}

#[derive(Serialize, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LateView {
    timer: u64,
    piggyback: u64,
    read: u64,
    unknown: u64,
}

impl AcksView {
    fn new(acks: &AckSummary, counts_are_lower_bounds: bool) -> Self {
        Self {
            advancing: acks.advancing,
            pure: acks.pure,
            duplicate: acks.duplicate,
            counts_are_lower_bounds,
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BurstsView {
    count: u64,
    count_is_lower_bound: bool,
    bytes: Option<SizesView>,
    duration_ns: Option<TimesView>,
    gap_ns: Option<TimesView>,
}

impl BurstsView {
    fn new(bursts: &BurstSummary, count_is_lower_bound: bool) -> Self {
        Self {
            count: bursts.count,
            count_is_lower_bound,
            bytes: bursts.bytes.as_ref().map(SizesView::new),
            duration_ns: bursts.duration_ns.as_ref().map(TimesView::new),
            gap_ns: bursts.gap_ns.as_ref().map(TimesView::new),
        }
    }
}
