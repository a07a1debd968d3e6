//! Losses of records by the points and the times that they may have touched.

use std::collections::BTreeSet;

use sockscope_record::{Connection, ConnectionId, Point, Protocol};

use crate::ranges::{Range, union};
use crate::timeline::by_start;
use crate::{ConnectionStore, LossInterval, OfOthers, Passage};

/// All losses of a trace, by the records that they may have touched.
#[derive(Debug)]
pub(crate) struct TraceLosses<'o> {
    /// Any connection of the protocol.
    any: ByProtocol,
    /// One that other users asked for.
    of_others: ByProtocol,
    others: &'o BTreeSet<ConnectionId>,
}

impl<'o> TraceLosses<'o> {
    /// From intervals sorted by start.
    pub(crate) fn new(intervals: &[LossInterval], of_others: &'o OfOthers) -> Self {
        let all = by_start(intervals.iter().chain(&of_others.losses).copied().collect());
        Self {
            any: ByProtocol::new(intervals),
            of_others: ByProtocol::new(&all),
            others: &of_others.connections,
        }
    }

    /// Those that this connection may have been touched by.
    pub(crate) fn of(&self, connection: &Connection) -> &Losses {
        let is_of_others = self.others.contains(&connection.id);
        let losses = if is_of_others { &self.of_others } else { &self.any };
        match connection.protocol {
            Protocol::Udp => &losses.datagrams,
            _ => &losses.streams,
        }
    }
}

/// Losses by the records that they may have touched.
#[derive(Debug)]
struct ByProtocol {
    streams: Losses,
    datagrams: Losses,
}

impl ByProtocol {
    fn new(intervals: &[LossInterval]) -> Self {
        Self {
            streams: Losses::touching(Protocol::Tcp, intervals),
            datagrams: Losses::touching(Protocol::Udp, intervals),
        }
    }
}

/// Losses that one connection may have been touched by.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// As recorded, by start.
    pub intervals: Vec<LossInterval>,
    /// Times at which records of each point were missed; sorted, they neither touch nor overlap.
    pub(crate) by_point: [Vec<Range>; 8],
    /// The same of all hits that record each point.
    by_hit: [Vec<Range>; 8],
    /// The same of records of no point.
    beside: Vec<Range>,
    /// The same of all records.
    any: Vec<Range>,
    /// By point, losses after which positions may be short by a multiple of 4 GiB.
    unanchored: [Unanchored; 8],
}

impl Losses {
    /// Those of a trace's, sorted by start, that may have touched connections of this protocol.
    pub(crate) fn touching(protocol: Protocol, intervals: &[LossInterval]) -> Self {
        let touching = intervals.iter().filter(|loss| loss.may_touch(protocol));
        Self::new(touching.copied().collect())
    }

    /// From intervals sorted by start.
    fn new(intervals: Vec<LossInterval>) -> Self {
        debug_assert!(intervals.iter().all(|loss| loss.start_ns <= loss.end_ns));
        let times_of = |point: Option<Point>| {
            let losses = intervals.iter().filter(|loss| loss.point == point);
            // The last instant counts: one more, as ranges end before their end.
            let times = losses.map(|loss| (loss.start_ns, loss.end_ns.saturating_add(1)));
            union(&times.collect::<Vec<_>>(), &[])
        };
        let by_point = Point::ALL.map(|point| times_of(Some(point)));
        let by_hit = Point::ALL.map(|point| {
            let told = Point::ALL.into_iter().filter(|told| told.of_hit().contains(&point));
            told.fold(Vec::new(), |all, told| union(&all, &by_point[told.index()]))
        });
        let unanchored = Point::ALL.map(|point| {
            let losses = intervals.iter().filter(|loss| !loss.is_anchored);
            Unanchored::new(losses.filter(|loss| loss.point == Some(point)))
        });
        let beside = times_of(None);
        let any = by_point.iter().fold(beside.clone(), |any, times| union(&any, times));
        Self { by_point, by_hit, beside, any, unanchored, intervals }
    }

    /// These, and after the time at which sampling left the connection out any record of it; `None` if it did not.
    pub(crate) fn with_left_out(&self, store: &ConnectionStore) -> Option<Self> {
        let start_ns = store.left_out_ns()?;
        let of_point = |point| LossInterval {
            start_ns,
            end_ns: u64::MAX,
            point,
            count: 1,
            of_datagrams: false,
            // Positions before it are as certain as they were.
            is_anchored: true,
        };
        let points = Point::ALL.map(Some).into_iter().chain([None]);
        let all = self.intervals.iter().copied().chain(points.map(of_point));
        Some(Self::new(by_start(all.collect())))
    }

    /// Whether losses may have hidden records at `point`, also those recorded as of another one.
    pub(crate) fn may_touch(&self, point: Point) -> bool {
        Point::ALL
            .iter()
            .any(|told| !self.by_point[told.index()].is_empty() && told.of_hit().contains(&point))
    }

    /// First and last instant within `[from_ns, until_ns]` at which a record of `point` may be missed.
    pub(crate) fn within(&self, point: Point, from_ns: u64, until_ns: u64) -> Option<Range> {
        ends_within(&self.by_point[point.index()], from_ns, until_ns)
    }

    /// The same of all hits that record `point`.
    pub(crate) fn within_hits(&self, point: Point, from_ns: u64, until_ns: u64) -> Option<Range> {
        if self.by_hit[point.index()].is_empty() {
            return None;
        }
        let told = Point::ALL.into_iter().filter(|told| told.of_hit().contains(&point));
        let found = told.filter_map(|told| self.within(told, from_ns, until_ns));
        found.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
    }

    /// The same of a datagram, whose drop may be missed too, which counts at no point. A datagram in a receive
    /// queue is announced only where IP was seen to take it.
    pub(crate) fn within_datagrams(
        &self,
        point: Point,
        from_ns: u64,
        until_ns: u64,
    ) -> Option<Range> {
        let hits = self.within_hits(point, from_ns, until_ns);
        let taken = Some(Point::InputDequeue).filter(|_| point == Point::ReceiveEnqueue);
        let taken = taken.and_then(|taken| self.within_hits(taken, from_ns, until_ns));
        let drops = ends_within(&self.beside, from_ns, until_ns);
        let found = [hits, taken, drops].into_iter().flatten();
        found.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
    }

    /// First and last instant within `[from_ns, until_ns]` at which any record may be missed.
    pub(crate) fn within_any(&self, from_ns: u64, until_ns: u64) -> Option<Range> {
        ends_within(&self.any, from_ns, until_ns)
    }

    /// Times within `bounds` at which hits that record `point` may be missed.
    pub(crate) fn times_of_hits(&self, point: Point, bounds: Range) -> Vec<Range> {
        within(touching(&self.by_hit[point.index()], bounds.0, bounds.1), bounds)
    }

    /// Losses recorded as of `point` after which positions may be short by a multiple of 4 GiB.
    pub(crate) fn unanchored(&self, point: Point) -> &Unanchored {
        &self.unanchored[point.index()]
    }

    /// Whether records of no point were missed between two times.
    pub(crate) fn beside_points(&self, from_ns: u64, until_ns: u64) -> bool {
        !touching(&self.beside, from_ns, until_ns).is_empty()
    }
}

/// Losses of one point by start, after which positions may be short by a multiple of 4 GiB.
#[derive(Debug, Default)]
pub(crate) struct Unanchored {
    starts_ns: Vec<u64>,
    /// End of the last one so far.
    ended_ns: Vec<u64>,
    /// Records missed before each, and last of all by all.
    missed: Vec<u128>,
}

impl Unanchored {
    fn new<'a>(losses: impl Iterator<Item = &'a LossInterval>) -> Self {
        let mut all = Self { missed: vec![0], ..Self::default() };
        let (mut ended_ns, mut missed) = (0, 0);
        for loss in losses {
            ended_ns = loss.end_ns.max(ended_ns);
            missed += u128::from(loss.count);
            debug_assert!(all.starts_ns.last().is_none_or(|before| *before <= loss.start_ns));
            all.starts_ns.push(loss.start_ns);
            all.ended_ns.push(ended_ns);
            all.missed.push(missed);
        }
        all
    }

    /// Start of the first losses that no pass parts and that together missed `count` records or more. `passes` are
    /// in order of time.
    pub(crate) fn since_ns(&self, passes: &[Passage], count: u64) -> Option<u64> {
        let count = u128::from(count);
        if self.missed.last().is_none_or(|all| *all < count) {
            return None;
        }
        let mut first = 0;
        let parted = passes.iter().filter_map(|pass| self.parted_by(pass.at_ns));
        for next in parted.chain([self.starts_ns.len()]) {
            if self.missed[next] - self.missed[first] >= count {
                return self.starts_ns.get(first).copied();
            }
            first = next;
        }
        None
    }

    /// The first loss after a time that no loss contains.
    fn parted_by(&self, at_ns: u64) -> Option<usize> {
        let next = self.starts_ns.partition_point(|start_ns| *start_ns <= at_ns);
        let is_apart = next == 0 || self.ended_ns[next - 1] < at_ns;
        (is_apart && next < self.starts_ns.len()).then_some(next)
    }
}

/// Those of `losses`, sorted and apart, that have an instant between two times, both included.
fn touching(losses: &[Range], from_ns: u64, until_ns: u64) -> &[Range] {
    let first = losses.partition_point(|loss| loss.1 <= from_ns);
    let after = losses.partition_point(|loss| loss.0 <= until_ns);
    losses.get(first..after).unwrap_or_default()
}

/// First and last instant of `losses`, sorted and apart, between two times, both included.
fn ends_within(losses: &[Range], from_ns: u64, until_ns: u64) -> Option<Range> {
    let touched = touching(losses, from_ns, until_ns);
    let (first, last) = (touched.first()?, touched.last()?);
    let found = (first.0.max(from_ns), (last.1 - 1).min(until_ns));
    debug_assert!(from_ns > until_ns || found.0 <= found.1);
    Some(found)
}

/// The part of `ranges` inside `bounds`.
pub(crate) fn within(ranges: &[Range], bounds: Range) -> Vec<Range> {
    let inside = ranges.iter().map(|range| (range.0.max(bounds.0), range.1.min(bounds.1)));
    inside.filter(|range| range.0 < range.1).collect()
}
