//! When bytes of a stream were in no queue: dropped on their way, and not yet there again.
//!
//! Only what the kernel tells of is known: bytes that are lost on the wire stay in the stage where they were
//! seen last until a later transmission gets through.

use sockscope_record::{Direction, Point, Protocol, Record};

use crate::curve::{Curve, Run};
use crate::lost::{LostPacket, lost_packets};
use crate::ranges::{Range, intersection, minus, union};
use crate::{ConnectionStore, DropReasons, Pass};

/// Bytes that left a stage by a drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Absence {
    /// When they were dropped.
    pub from_ns: u64,
    /// When they passed the point before the drop again; `None` when they were not seen to.
    pub until_ns: Option<u64>,
    pub offset: u64,
    pub end: u64,
}

/// A pass of bytes of which some had passed the point before.
#[derive(Debug, Clone, Copy)]
struct Again {
    at_ns: u64,
    offset: u64,
    end: u64,
}

/// All of one flow; none of datagrams, which are not sent again.
#[derive(Debug, Default)]
pub(crate) struct Absences {
    /// By the last point passed before the drop, each in order of time.
    by_point: [Vec<Absence>; 8],
    /// The same by position, with the index of that point; and with that of point 1 what the sender's own
    /// host refused before it had passed another: TCP keeps it in the send queue.
    by_offset: Vec<(usize, Absence)>,
    /// The longest of them, bytes.
    len_max: u64,
    /// What passed each point again.
    again: [Vec<Again>; 8],
    /// Those of `by_point` that last at the drop looked at.
    away: [Vec<Absence>; 8],
}

impl Absences {
    pub(crate) fn new(
        store: &ConnectionStore,
        direction: Direction,
        curves: &[Curve; 8],
        reasons: &DropReasons,
    ) -> Self {
        let mut absences = Self::default();
        if store.connection.protocol != Protocol::Tcp {
            return absences;
        }
        let on_the_way = Point::SendDequeue..Point::ReceiveEnqueue;
        let lost = lost_packets(store, direction, reasons).into_iter();
        let lost: Vec<_> = lost.filter(|lost| lost.drop.len > 0).collect();
        if lost.is_empty() {
            return absences;
        }
        let flow = store.flow(direction);
        absences.again =
            Point::ALL.map(|point| repetitions(flow.at(point), &curves[point.index()]));
        let mut refused = Vec::new();
        for LostPacket { drop, after } in lost {
            let Some(after) = after.filter(|after| on_the_way.contains(after)) else {
                refused.extend(refusal(drop, curves));
                continue;
            };
            let index = after.index();
            let entered = passed(&curves[index], (drop.offset, drop.end()), drop.at_ns);
            absences.drop_at(index, drop.at_ns, &entered, &curves[index + 1]);
        }
        absences.sort_by_offset(refused);
        absences
    }

    fn sort_by_offset(&mut self, refused: Vec<Absence>) {
        let all = self.by_point.iter().enumerate();
        let all = all.flat_map(|(index, all)| all.iter().map(move |absence| (index, *absence)));
        self.by_offset = all.chain(refused.into_iter().map(|absence| (0, absence))).collect();
        self.by_offset.sort_by_key(|(_, absence)| absence.offset);
        let lens = self.by_offset.iter().map(|(_, absence)| absence.end - absence.offset);
        self.len_max = lens.max().unwrap_or(0);
    }

    /// Bytes in `dropped` were dropped behind the point; `left` is what came to the next one.
    fn drop_at(&mut self, index: usize, from_ns: u64, dropped: &[Range], left: &Curve) {
        let away = &mut self.away[index];
        away.retain(|away| away.until_ns.is_none_or(|until_ns| until_ns > from_ns));
        let away_already: Vec<_> = away.iter().map(|away| (away.offset, away.end)).collect();
        let mut rest = minus(dropped, &union(&away_already, &[]));
        let again = &self.again[index];
        let later = again.partition_point(|again| again.at_ns <= from_ns);
        let before = self.by_point[index].len();
        for again in &again[later..] {
            if rest.is_empty() {
                break;
            }
            let back = intersection(&rest, &[(again.offset, again.end)]);
            rest = minus(&rest, &back);
            let until_ns = Some(again.at_ns);
            self.by_point[index].extend(absent(&back, from_ns, until_ns, left));
        }
        self.by_point[index].extend(absent(&rest, from_ns, None, left));
        self.away[index].extend_from_slice(&self.by_point[index][before..]);
    }

    /// Those behind a point, in order of time.
    pub(crate) fn after(&self, point: Point) -> &[Absence] {
        &self.by_point[point.index()]
    }

    /// What a byte passed and where it was dropped, other than its first passages: time, number of the point,
    /// and whether it was dropped behind it.
    pub(crate) fn of_byte(&self, offset: u64) -> Vec<(u64, usize, bool)> {
        let mut events = Vec::new();
        let from_there = self.by_offset.partition_point(|(_, absence)| absence.offset <= offset);
        let near = self.by_offset[..from_there].iter().rev();
        let near = near.take_while(|(_, absence)| offset - absence.offset < self.len_max);
        for (index, absence) in near.filter(|(_, absence)| offset < absence.end) {
            events.push((absence.from_ns, index + 1, true));
            let mut at_ns = absence.from_ns;
            for (number, again) in (2..=index + 1).zip(&self.again[1..]) {
                let later = again.partition_point(|again| again.at_ns <= absence.from_ns);
                let mut back = again[later..].iter();
                if let Some(back) = back.find(|again| again.offset <= offset && offset < again.end)
                {
                    // The clocks of two CPUs may disagree a little.
                    at_ns = at_ns.max(back.at_ns);
                    events.push((at_ns, number, false));
                }
            }
        }
        events
    }
}

/// Bytes of a segment that was dropped before any point beyond the first had seen them.
fn refusal(drop: &Record, curves: &[Curve; 8]) -> impl Iterator<Item = Absence> {
    let at = |point: Point| passed(&curves[point.index()], (drop.offset, drop.end()), drop.at_ns);
    let sent = union(&at(Point::SendDequeue), &at(Point::InterfaceEnqueue));
    let ranges = minus(&at(Point::SendEnqueue), &union(&sent, &at(Point::InterfaceDequeue)));
    let from_ns = drop.at_ns;
    ranges.into_iter().map(move |(offset, end)| Absence { from_ns, until_ns: None, offset, end })
}

/// The parts of `ranges` that no other transmission had brought to the next point before `until_ns`.
fn absent(
    ranges: &[Range],
    from_ns: u64,
    until_ns: Option<u64>,
    left: &Curve,
) -> impl Iterator<Item = Absence> {
    let before_ns = until_ns.map_or(u64::MAX, |until_ns| until_ns.saturating_sub(1));
    let brought = ranges.iter().map(|range| passed(left, *range, before_ns));
    let brought = brought.fold(left.lost_ranges(), |all, ranges| union(&all, &ranges));
    let parts = minus(ranges, &brought).into_iter();
    parts.map(move |(offset, end)| Absence { from_ns, until_ns, offset, end })
}

/// What of `range` had passed by `at_ns`.
fn passed(curve: &Curve, range: Range, at_ns: u64) -> Vec<Range> {
    let first = curve.runs.partition_point(|run| run.end() <= range.0);
    let runs = curve.runs[first..].iter().take_while(|run| run.offset < range.1);
    let runs = runs.filter(|run| run.at_ns <= at_ns);
    runs.map(|run| (run.offset.max(range.0), run.end().min(range.1))).collect()
}

/// Passes with bytes that had passed before, in order of time.
fn repetitions(passes: &[Pass], curve: &Curve) -> Vec<Again> {
    let mut fresh_bytes = vec![0_u64; passes.len()];
    for run in &curve.runs {
        fresh_bytes[run.pass as usize] += u64::from(run.len);
    }
    let passes = passes.iter().zip(fresh_bytes);
    let repeated = passes.filter(|(pass, fresh_bytes)| *fresh_bytes < u64::from(pass.len));
    repeated
        .map(|(pass, _)| Again { at_ns: pass.at_ns, offset: pass.offset, end: pass.end() })
        .collect()
}

/// `entered` with the last time for those bytes that were dropped and came there again.
pub(crate) fn with_returns(entered: &Curve, absences: &[Absence]) -> Curve {
    let returns = absences
        .iter()
        .rev()
        .filter_map(|absence| Some((absence.until_ns?, absence.offset, absence.end)));
    let returned = Curve::of_ranges(0, returns);
    let mut curve = entered.without(&returned.covered);
    curve.lost = entered.lost.clone();
    curve.runs.extend(returned.runs.iter().map(|run| Run { pass: u32::MAX, ..*run }));
    curve.runs.sort_by_key(|run| run.offset);
    curve
}

/// Bytes that were not seen to come back.
pub(crate) fn never_back(absences: &[Absence]) -> Vec<Range> {
    let ranges: Vec<_> = absences
        .iter()
        .filter(|absence| absence.until_ns.is_none())
        .map(|absence| (absence.offset, absence.end))
        .collect();
    union(&ranges, &[])
}
