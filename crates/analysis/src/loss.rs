//! What a loss of records makes unknown, and no more than that.
//!
//! Positions tell: bytes that passed a point unseen leave a hole in what was seen there, which later
//! records bound. If a loss at that point falls between the neighbours of a hole, the bytes passed at
//! some time between them; before and after, the count is exact. A hole with no loss to explain it is
//! left as it is, and becomes residue.

use sockscope_record::{Connection, Point, Protocol};

use crate::LossInterval;
use crate::curve::{Curve, LostRun};
use crate::ranges::{Range, minus, union};

/// All losses of a trace.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// As recorded, by start.
    pub intervals: Vec<LossInterval>,
    /// Times at which records of each point were lost; sorted, they neither touch nor overlap.
    by_point: [Vec<Range>; 8],
}

impl Losses {
    /// From intervals sorted by start.
    pub(crate) fn new(intervals: Vec<LossInterval>) -> Self {
        let by_point = Point::ALL.map(|point| {
            let of_point = intervals.iter().filter(|loss| loss.point == Some(point));
            // The last instant counts: one more, as ranges end before their end.
            let times = of_point.map(|loss| (loss.start_ns, loss.end_ns.saturating_add(1)));
            union(&times.collect::<Vec<_>>(), &[])
        });
        Self { intervals, by_point }
    }

    /// First and last instant within `[from_ns, until_ns]` at which a record of `point` may be lost.
    fn within(&self, point: Point, from_ns: u64, until_ns: u64) -> Option<Range> {
        let losses = &self.by_point[point.index()];
        let first = losses.partition_point(|loss| loss.1 <= from_ns);
        let after = losses.partition_point(|loss| loss.0 <= until_ns);
        let touched = losses.get(first..after).filter(|touched| !touched.is_empty())?;
        let (first, last) = (touched[0], touched[touched.len() - 1]);
        Some((first.0.max(from_ns), (last.1 - 1).min(until_ns)))
    }
}

/// Fills the holes of a flow's curves that losses explain.
pub(crate) fn explain_holes(curves: &mut [Curve; 8], losses: &Losses, connection: &Connection) {
    for point in Point::ALL {
        if losses.by_point[point.index()].is_empty() {
            continue;
        }
        let passed = surely_passed(curves, point, connection);
        let reached = passed.last().map_or(0, |range| range.1);
        let came_before = curves[..point.index()].iter().map(Curve::end).max().unwrap_or(0);
        let curve = &mut curves[point.index()];
        for (offset, end) in minus(&passed, &curve.covered) {
            let (from_ns, until_ns) = neighbours_ns(curve, offset, end);
            if let Some((from_ns, until_ns)) = losses.within(point, from_ns, until_ns) {
                curve.lost.push(LostRun { offset, end, from_ns, until_ns });
            }
        }
        if came_before > reached {
            // Bytes came as far as the point before and no record says that they passed.
            let last_ns = curve.runs.iter().map(|run| run.at_ns).max().unwrap_or(0);
            let tail = losses.within(point, last_ns, u64::MAX);
            curve.unknown_from_ns = tail.map(|(from_ns, _)| from_ns);
        }
    }
}

/// Bytes that must have passed `point`, as they or (for a stream) later ones were seen there or
/// beyond.
fn surely_passed(curves: &[Curve; 8], point: Point, connection: &Connection) -> Vec<Range> {
    let from_here = &curves[point.index()..];
    let seen = from_here.iter().fold(Vec::new(), |seen, curve| union(&seen, &curve.covered));
    match (connection.protocol, seen.first(), seen.last()) {
        (Protocol::Tcp, Some(first), Some(last)) => {
            vec![(if connection.preexisting { first.0 } else { 0 }, last.1)]
        }
        _ => seen,
    }
}

/// When the bytes next below and next above a hole passed, in order of time.
fn neighbours_ns(curve: &Curve, offset: u64, end: u64) -> Range {
    let above = curve.runs.partition_point(|run| run.offset < end);
    let below_ns = curve.runs[..above].last().filter(|run| run.end() <= offset);
    let below_ns = below_ns.map_or(0, |run| run.at_ns);
    let above_ns = curve.runs.get(above).map_or(u64::MAX, |run| run.at_ns);
    (below_ns.min(above_ns), below_ns.max(above_ns))
}
