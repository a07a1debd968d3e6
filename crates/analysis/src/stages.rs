//! Figures of each stage of one flow: delays, lengths and the balance of its bytes.

use std::borrow::Cow;

use sockscope_record::{Direction, Stage};

use crate::ack_bounds;
use crate::flow_curves::FlowCurves;
use crate::queue::{Queue, QueueLists, Residence};
use crate::ranges::{self, Range, are_in_order, from, intersection, minus, total};
use crate::{ConnectionStore, Distribution, LengthSummary, QueueStep, StageAnalysis};

/// All stages in the order of [`Stage::ALL`]; `end_ns` is the connection's last record.
pub(crate) fn stages(
    store: &ConnectionStore,
    direction: Direction,
    curves: &FlowCurves,
    end_ns: u64,
) -> Vec<StageAnalysis> {
    let at_most_ns = ack_bounds::at_most_ns(store, direction, curves);
    let beyond = curves.seen_beyond();
    let whole_way = curves.whole_way();
    let is_over = is_closed_and_read(store, curves);
    let mut lists = StageLists::default();
    Stage::ALL
        .into_iter()
        .map(|stage| {
            let beyond = (!is_over).then_some(beyond[stage.leave().index()].as_slice());
            let analysis = analyze(curves, stage, beyond, &whole_way, end_ns, &mut lists);
            StageAnalysis { delay_at_most_ns: at_most_ns[stage as usize], ..analysis }
        })
        .collect()
}

/// Memory that the stages of a flow use one after the other.
#[derive(Default)]
struct StageLists {
    delays: Vec<u64>,
    queue: QueueLists,
}

/// Whether nothing can be left anywhere: the connection closed and its last byte was read.
fn is_closed_and_read(store: &ConnectionStore, curves: &FlowCurves) -> bool {
    let read = curves.curves[7].end().max(curves.dropped.end());
    let sent = curves.curves.iter().map(|curve| curve.end()).max();
    // The end of a datagram's reader does not wait for data in transit.
    let is_stream = store.connection.protocol.is_stream();
    is_stream && store.connection.closed_ns.is_some() && sent == Some(read)
}

fn analyze(
    curves: &FlowCurves,
    stage: Stage,
    beyond: Option<&[Range]>,
    whole_way: &[Range],
    end_ns: u64,
    lists: &mut StageLists,
) -> StageAnalysis {
    let delays = &mut lists.delays;
    delays.clear();
    delays.reserve(curves.at(stage.leave()).seen.len());
    let mut byte_mean = ByteMean::of(whole_way);
    curves.each_delay(stage, |residence| {
        delays.push(residence.delay_ns());
        byte_mean.add(&residence);
    });
    let byte_delay_ns = byte_mean.ns();
    let delay_ns = Distribution::of(delays);
    if !curves.is_observed(stage) {
        return StageAnalysis {
            stage,
            delay_ns,
            delay_at_most_ns: None,
            byte_delay_ns,
            length_bytes: None,
            residue_bytes: None,
            resident_bytes: None,
            unknown_intervals: 0,
            uncertainty: None,
        };
    }
    let queue = curves.queue(stage, std::mem::take(&mut lists.queue));
    let (residue, resident_bytes) = balance(curves, stage, beyond);
    let analysis = StageAnalysis {
        stage,
        delay_ns,
        delay_at_most_ns: None,
        byte_delay_ns,
        length_bytes: summarize(&queue, end_ns),
        residue_bytes: (!is_touched_by_loss(curves, stage)).then_some(residue),
        resident_bytes: is_end_known(curves, stage).then_some(resident_bytes),
        unknown_intervals: queue.unknown_intervals(),
        uncertainty: None,
    };
    lists.queue = queue.into_lists();
    analysis
}

/// Mean delay of the bytes in some ranges, from residences by position.
struct ByteMean<'a> {
    /// Those not yet passed.
    ranges: &'a [Range],
    bytes: u64,
    area: u128,
    /// Position of the last residence.
    before: u64,
}

impl<'a> ByteMean<'a> {
    fn of(ranges: &'a [Range]) -> Self {
        debug_assert!(are_in_order(ranges));
        Self { ranges, bytes: 0, area: 0, before: 0 }
    }

    fn add(&mut self, residence: &Residence) {
        debug_assert!(self.before <= residence.offset);
        self.before = residence.offset;
        let last = residence.offset.saturating_add(residence.len);
        while let Some(&(start, end)) = self.ranges.first() {
            let inside = end.min(last).saturating_sub(start.max(residence.offset));
            self.bytes = self.bytes.saturating_add(inside);
            let area = u128::from(inside) * u128::from(residence.delay_ns());
            self.area = self.area.saturating_add(area);
            if end > last {
                break;
            }
            self.ranges = &self.ranges[1..];
        }
    }

    /// `None` without such bytes.
    fn ns(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.area as f64 / self.bytes as f64)
    }
}

fn byte_mean(residences: &[Residence], ranges: &[Range]) -> Option<f64> {
    let mut mean = ByteMean::of(ranges);
    residences.iter().for_each(|residence| mean.add(residence));
    mean.ns()
}

/// Mean time in which a byte of those seen at points 1 and 8 was away: dropped, and not yet back at its
/// place; `None` without such a byte.
pub(crate) fn drop_gap_mean(curves: &FlowCurves) -> Option<f64> {
    let whole_way = curves.whole_way();
    let stages = Stage::ALL.into_iter().filter(|stage| !curves.drop_gaps_in(*stage).is_empty());
    let means = stages.filter_map(|stage| {
        let with_drop_gaps = byte_mean(&curves.delays_with_drop_gaps(stage), &whole_way)?;
        Some(with_drop_gaps - byte_mean(&curves.delays(stage), &whole_way)?)
    });
    let mean = means.sum::<f64>();
    (mean > 0.0).then_some(mean)
}

fn is_touched_by_loss(curves: &FlowCurves, stage: Stage) -> bool {
    let is_touched = |point| curves.at(point).unknown_ns().next().is_some();
    is_touched(stage.enter()) || is_touched(stage.leave())
}

/// Whether passages of both points are known at the end of the trace.
fn is_end_known(curves: &FlowCurves, stage: Stage) -> bool {
    [stage.enter(), stage.leave()].into_iter().all(|point| curves.at(point).is_end_known())
}

/// Residue and resident bytes. `beyond` has the bytes recorded after the stage; `None` when no byte
/// can be left in it.
///
/// A byte that entered and did not leave is resident, unless it was seen further on: then it did
/// leave, and this point missed it.
fn balance(curves: &FlowCurves, stage: Stage, beyond: Option<&[Range]>) -> (i64, u64) {
    let floor = curves.floor(stage);
    let passed = |point| {
        let curve = curves.at(point);
        if floor == 0 && curve.missed.is_empty() {
            return Cow::Borrowed(curve.covered.as_slice());
        }
        Cow::Owned(from(&ranges::union(&curve.covered, &curve.missed_ranges()), floor))
    };
    let (entered, left) = (passed(stage.enter()), passed(stage.leave()));
    let only_left = minus(&left, &entered);
    let stayed = minus(&minus(&entered, &left), &curves.gone(stage));
    let missed = match beyond {
        Some(beyond) => intersection(&stayed, beyond),
        None => stayed.clone(),
    };
    debug_assert!(total(&missed) <= total(&stayed) && total(&stayed) <= total(&entered));
    let residue = total(&only_left).saturating_add(total(&missed));
    (i64::try_from(residue).unwrap_or(i64::MAX), total(&stayed) - total(&missed))
}

/// Mean and maximum over the time at which the length is known.
fn summarize(queue: &Queue, end_ns: u64) -> Option<LengthSummary> {
    let (mut area, mut known_ns, mut max) = (0u128, 0u64, None);
    let mut last: Option<QueueStep> = None;
    let mut add = |step: &QueueStep, until_ns: u64| {
        if let Some(length) = step.length_bytes {
            let lasted_ns = until_ns.saturating_sub(step.at_ns);
            area += u128::from(length) * u128::from(lasted_ns);
            known_ns += lasted_ns;
            max = max.max(Some(length));
        }
    };
    queue.each_step(|step| {
        if let Some(last) = last.replace(step) {
            add(&last, step.at_ns);
        }
    });
    let Some(last) = last else {
        return Some(LengthSummary { mean: 0.0, max: 0 });
    };
    // After the last byte out nothing more counts; while bytes remain, time goes on.
    add(&last, if last.length_bytes == Some(0) { last.at_ns } else { end_ns });
    let mean = if known_ns == 0 { 0.0 } else { area as f64 / known_ns as f64 };
    max.map(|max| LengthSummary { mean, max })
}
