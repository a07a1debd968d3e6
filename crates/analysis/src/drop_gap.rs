//! Drop gaps: intervals in which dropped bytes of a stream were in no queue, until they arrived again.
//!
//! Only drops that the kernel reports are known: bytes that are dropped on the wire stay in the stage where
//! they were seen last until a later transmission gets through.

use std::collections::BTreeMap;

use sockscope_record::{Direction, Point, Protocol, Record};

use crate::curve::{Curve, FirstPassage};
use crate::dropped_packets::{DroppedPacket, dropped_packets};
use crate::ranges::{Range, intersection, minus, union};
use crate::{ConnectionStore, DropReasons, Passage};

/// Bytes that left a stage by a drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DropGap {
    /// When they were dropped.
    pub from_ns: u64,
    /// When they passed the point before the drop again; `None` when they were not seen to.
    pub until_ns: Option<u64>,
    pub offset: u64,
    pub end: u64,
}

/// A pass of bytes; some of them had passed the point before.
#[derive(Debug, Clone, Copy)]
struct Again {
    at_ns: u64,
    offset: u64,
    end: u64,
}

/// Passes of bytes that had passed the point before.
#[derive(Debug, Default)]
struct Repetitions {
    /// In order of time.
    all: Vec<Again>,
    /// Indices in `all`, by the offset of the entry.
    by_offset: Vec<usize>,
    /// The longest of them, bytes.
    len_max: u64,
}

/// DropGaps that last, by offset: they share no byte.
#[derive(Debug, Default)]
struct Away {
    gaps: BTreeMap<u64, DropGap>,
}

/// All of one flow; empty for datagrams, which are not retransmitted.
#[derive(Debug, Default)]
pub(crate) struct DropGaps {
    /// By the last point passed before the drop, each in order of time.
    by_point: [Vec<DropGap>; 8],
    /// The same by position, with the index of that point; and with that of point 1 the bytes that the
    /// sender's own host refused before another point: TCP keeps them in the send queue.
    by_offset: Vec<(usize, DropGap)>,
    /// The longest of them, bytes.
    len_max: u64,
    /// Repeated passes of each point.
    again: [Repetitions; 8],
    /// Those of `by_point` that last at the drop looked at.
    away: [Away; 8],
}

impl DropGaps {
    pub(crate) fn new(
        store: &ConnectionStore,
        direction: Direction,
        curves: &[Curve; 8],
        reasons: &DropReasons,
    ) -> Self {
        let mut gaps = Self::default();
        if store.connection.protocol != Protocol::Tcp {
            return gaps;
        }
        let on_the_way = Point::SendDequeue..Point::ReceiveEnqueue;
        let dropped = dropped_packets(store, direction, reasons).into_iter();
        let dropped: Vec<_> = dropped.filter(|packet| packet.drop.len > 0).collect();
        if dropped.is_empty() {
            return gaps;
        }
        let flow = store.flow(direction);
        gaps.again =
            Point::ALL.map(|point| Repetitions::of(flow.at(point), &curves[point.index()]));
        let mut refused = Vec::new();
        for DroppedPacket { drop, after } in dropped {
            let Some(after) = after.filter(|after| on_the_way.contains(after)) else {
                refused.extend(refusal(drop, curves));
                continue;
            };
            let index = after.index();
            let entered = passed(&curves[index], (drop.offset, drop.end()), drop.at_ns);
            gaps.drop_at(index, drop.at_ns, &entered, &curves[index + 1]);
        }
        gaps.sort_by_offset(refused);
        gaps
    }

    fn sort_by_offset(&mut self, refused: Vec<DropGap>) {
        let all = self.by_point.iter().enumerate();
        let all = all.flat_map(|(index, all)| all.iter().map(move |gap| (index, *gap)));
        self.by_offset = all.chain(refused.into_iter().map(|gap| (0, gap))).collect();
        self.by_offset.sort_by_key(|(_, gap)| gap.offset);
        debug_assert!(
            self.by_offset
                .iter()
                .all(|(index, gap)| { *index < Point::ALL.len() && gap.offset < gap.end })
        );
        let lens = self.by_offset.iter().map(|(_, gap)| gap.end - gap.offset);
        self.len_max = lens.max().unwrap_or(0);
    }

    /// Bytes in `dropped` were dropped behind the point; `left` has the passages of the next one.
    fn drop_at(&mut self, index: usize, from_ns: u64, dropped: &[Range], left: &Curve) {
        let mut rest = minus(dropped, &self.away[index].of(dropped, from_ns));
        let before = self.by_point[index].len();
        for again in self.again[index].later(from_ns, hull(&rest)) {
            let back = intersection(&rest, &[(again.offset, again.end)]);
            if back.is_empty() {
                continue;
            }
            rest = minus(&rest, &back);
            debug_assert!(from_ns < again.at_ns, "bytes come back after they were dropped");
            let until_ns = Some(again.at_ns);
            self.by_point[index].extend(gaps_in(&back, from_ns, until_ns, left));
        }
        self.by_point[index].extend(gaps_in(&rest, from_ns, None, left));
        self.away[index].add(&self.by_point[index][before..]);
    }

    /// Those behind a point, in order of time.
    pub(crate) fn after(&self, point: Point) -> &[DropGap] {
        &self.by_point[point.index()]
    }

    /// Later passages and drops of a byte, without its first passages: time, number of the point, and whether
    /// it was dropped behind it.
    pub(crate) fn of_byte(&self, offset: u64) -> Vec<(u64, usize, bool)> {
        let mut events = Vec::new();
        let from_there = self.by_offset.partition_point(|(_, gap)| gap.offset <= offset);
        let near = self.by_offset[..from_there].iter().rev();
        let near = near.take_while(|(_, gap)| offset - gap.offset < self.len_max);
        for (index, gap) in near.filter(|(_, gap)| offset < gap.end) {
            events.push((gap.from_ns, index + 1, true));
            let mut at_ns = gap.from_ns;
            for (number, again) in (2..=index + 1).zip(&self.again[1..]) {
                let byte = (offset, offset.saturating_add(1));
                if let Some(back) = again.later(gap.from_ns, byte).next() {
                    // The clocks of two CPUs may disagree a little.
                    at_ns = at_ns.max(back.at_ns);
                    events.push((at_ns, number, false));
                }
            }
        }
        events
    }
}

impl Repetitions {
    fn of(passes: &[Passage], curve: &Curve) -> Self {
        let all = repetitions(passes, curve);
        let mut by_offset: Vec<_> = (0..all.len()).collect();
        by_offset.sort_by_key(|&index| all[index].offset);
        let len_max = all.iter().map(|again| again.end - again.offset).max().unwrap_or(0);
        Self { all, by_offset, len_max }
    }

    /// Those after `at_ns` with a byte of the range, in order of time.
    fn later(&self, at_ns: u64, (start, end): Range) -> impl Iterator<Item = &Again> {
        let first_later = self.all.partition_point(|again| again.at_ns <= at_ns);
        let is_below =
            |index: &usize| self.all[*index].offset.saturating_add(self.len_max) <= start;
        let near = self.by_offset[self.by_offset.partition_point(is_below)..].iter().copied();
        let near = near.take_while(|&index| self.all[index].offset < end);
        let near = near.filter(|&index| index >= first_later && self.all[index].end > start);
        let mut near: Vec<_> = near.collect();
        near.sort_unstable();
        near.into_iter().map(|index| &self.all[index])
    }
}

impl Away {
    /// The part of `ranges` that is away at `at_ns`, which only moves forward. Forgets the bytes that are
    /// back by then.
    fn of(&mut self, ranges: &[Range], at_ns: u64) -> Vec<Range> {
        let (start, end) = hull(ranges);
        let near = self.gaps.range(..end).rev();
        let near = near.take_while(|(_, gap)| gap.end > start);
        let near: Vec<_> = near.map(|(_, gap)| *gap).collect();
        let is_away = |gap: &DropGap| gap.until_ns.is_none_or(|until_ns| until_ns > at_ns);
        let (away, back): (Vec<_>, Vec<_>) = near.into_iter().partition(is_away);
        for gap in back {
            self.gaps.remove(&gap.offset);
        }
        let away: Vec<_> = away.iter().map(|gap| (gap.offset, gap.end)).collect();
        union(&away, &[])
    }

    /// `gaps` are of bytes that were not away.
    fn add(&mut self, gaps: &[DropGap]) {
        self.gaps.extend(gaps.iter().map(|gap| (gap.offset, *gap)));
    }
}

/// From the first to the last byte of sorted ranges.
fn hull(ranges: &[Range]) -> Range {
    ranges.first().zip(ranges.last()).map_or((0, 0), |(first, last)| (first.0, last.1))
}

/// Bytes of a segment that was dropped before any point beyond the first had seen them.
fn refusal(drop: &Record, curves: &[Curve; 8]) -> impl Iterator<Item = DropGap> {
    let at = |point: Point| passed(&curves[point.index()], (drop.offset, drop.end()), drop.at_ns);
    let sent = union(&at(Point::SendDequeue), &at(Point::InterfaceEnqueue));
    let ranges = minus(&at(Point::SendEnqueue), &union(&sent, &at(Point::InterfaceDequeue)));
    let from_ns = drop.at_ns;
    ranges.into_iter().map(move |(offset, end)| DropGap { from_ns, until_ns: None, offset, end })
}

/// The parts of `ranges` that no other transmission had brought to the next point before `until_ns`.
fn gaps_in(
    ranges: &[Range],
    from_ns: u64,
    until_ns: Option<u64>,
    left: &Curve,
) -> impl Iterator<Item = DropGap> {
    let before_ns = until_ns.map_or(u64::MAX, |until_ns| until_ns.saturating_sub(1));
    let brought = ranges.iter().flat_map(|range| {
        let first = left.missed.partition_point(|missed| missed.end <= range.0);
        let missed = left.missed[first..].iter().take_while(|missed| missed.offset < range.1);
        let missed = missed.map(|missed| (missed.offset, missed.end));
        passed(left, *range, before_ns).into_iter().chain(missed)
    });
    let brought: Vec<_> = brought.collect();
    let parts = minus(ranges, &union(&brought, &[])).into_iter();
    parts.map(move |(offset, end)| DropGap { from_ns, until_ns, offset, end })
}

/// The part of `range` that had passed by `at_ns`.
fn passed(curve: &Curve, range: Range, at_ns: u64) -> Vec<Range> {
    let first = curve.seen.partition_point(|run| run.end() <= range.0);
    let runs = curve.seen[first..].iter().take_while(|run| run.offset < range.1);
    let runs = runs.filter(|run| run.at_ns <= at_ns);
    runs.map(|run| (run.offset.max(range.0), run.end().min(range.1))).collect()
}

/// Passes with bytes that had passed before, in order of time.
fn repetitions(passes: &[Passage], curve: &Curve) -> Vec<Again> {
    let mut fresh_bytes = vec![0_u64; passes.len()];
    for run in &curve.seen {
        fresh_bytes[run.pass as usize] += u64::from(run.len);
    }
    debug_assert!(
        passes.iter().zip(&fresh_bytes).all(|(pass, fresh)| *fresh <= u64::from(pass.len)),
        "a first passage is a part of its pass"
    );
    let passes = passes.iter().zip(fresh_bytes);
    let repeated = passes.filter(|(pass, fresh_bytes)| *fresh_bytes < u64::from(pass.len));
    repeated
        .map(|(pass, _)| Again { at_ns: pass.at_ns, offset: pass.offset, end: pass.end() })
        .collect()
}

/// `entered` with the last time for those bytes that were dropped and arrived there again.
pub(crate) fn with_returns(entered: &Curve, gaps: &[DropGap]) -> Curve {
    let returns = gaps.iter().rev().filter_map(|gap| Some((gap.until_ns?, gap.offset, gap.end)));
    let returned = Curve::of_ranges(0, returns);
    let mut curve = entered.without(&returned.covered);
    curve.missed = entered.missed.clone();
    curve.seen.extend(returned.seen.iter().map(|run| FirstPassage { pass: u32::MAX, ..*run }));
    curve.seen.sort_by_key(|run| run.offset);
    curve
}

/// Dropped bytes that no later record shows again.
pub(crate) fn never_back(gaps: &[DropGap]) -> Vec<Range> {
    let ranges: Vec<_> =
        gaps.iter().filter(|gap| gap.until_ns.is_none()).map(|gap| (gap.offset, gap.end)).collect();
    union(&ranges, &[])
}
