//! The eight curves of one flow, and the points of it that were watched at all.

use sockscope_record::{Connection, Direction, Kind, Point, Stage};

use crate::curve::Curve;
use crate::drop_gap::{DropGap, DropGaps, never_back, with_returns};
use crate::drops;
use crate::kernel_socket;
use crate::packets;
use crate::queue::{Queue, QueueLists, each_residence, residences};
use crate::ranges::{self, Range};
use crate::record_loss::explain_holes;
use crate::record_loss_times::Losses;
use crate::socket_layers;
use crate::{ConnectionStore, DropReasons, FlowStore, LossInterval, QueueStep, Residence};

/// First passages of one flow's bytes at all eight points.
#[derive(Debug)]
pub struct FlowCurves {
    pub(crate) curves: [Curve; 8],
    /// Datagrams that left the path; empty for a stream, whose bytes are retransmitted.
    pub(crate) dropped: Curve,
    /// Of a stream, bytes that were dropped, until they were seen again.
    pub(crate) gaps: DropGaps,
    /// Whether the point was watched, in the order of [`Point::ALL`].
    pub(crate) observed: [bool; 8],
    /// Whether positions may be short by a multiple of 4 GiB behind a loss.
    pub(crate) is_uncertain: bool,
    preexisting: bool,
}

impl FlowCurves {
    /// Of one direction of a connection; `losses` are those of the whole trace, by start, and `reasons` the names
    /// of the numbers in its `Drop` records.
    pub fn new(
        store: &ConnectionStore,
        direction: Direction,
        losses: &[LossInterval],
        reasons: &DropReasons,
    ) -> Self {
        let losses = Losses::touching(store.connection.protocol, losses);
        let losses = losses.with_left_out(store).unwrap_or(losses);
        Self::with_losses(store, direction, &losses, reasons)
    }

    pub(crate) fn with_losses(
        store: &ConnectionStore,
        direction: Direction,
        losses: &Losses,
        reasons: &DropReasons,
    ) -> Self {
        let flow = store.flow(direction);
        let mut curves =
            Point::ALL.map(|point| match socket_layers::hides(store, direction, point) {
                true => Curve::default(),
                false => Curve::of(flow.at(point)),
            });
        let dropped = dropped(&store.connection, flow);
        let is_uncertain = explain_holes(&mut curves, flow, &dropped, losses, &store.connection);
        let gaps = DropGaps::new(store, direction, &curves, reasons);
        Self {
            observed: observed(store, direction, &curves),
            dropped,
            gaps,
            is_uncertain,
            preexisting: store.connection.preexisting,
            curves,
        }
    }

    /// Length of one stage's queue over time; `None` when one of its two points was not watched.
    ///
    /// Dropped bytes leave the queue at the drop, and enter again when they are retransmitted.
    pub fn lengths(&self, stage: Stage) -> Option<Vec<QueueStep>> {
        self.is_observed(stage).then(|| self.queue(stage, QueueLists::default()).steps())
    }

    /// Residence times of bytes in one stage, by position. Bytes whose passing was missed are left out; the
    /// time of bytes that were dropped there starts at their next passage.
    pub fn delays(&self, stage: Stage) -> Vec<Residence> {
        let mut delays = Vec::new();
        self.each_delay(stage, |residence| delays.push(residence));
        delays
    }

    /// Calls `each` with those, by position.
    pub fn each_delay(&self, stage: Stage, each: impl FnMut(Residence)) {
        let (entered, left) = (self.at(stage.enter()), self.at(stage.leave()));
        match self.drop_gaps_in(stage) {
            [] => each_residence(entered, left, self.floor(stage), each),
            gaps => each_residence(&with_returns(entered, gaps), left, self.floor(stage), each),
        }
    }

    /// The same with the time in which they were dropped.
    pub(crate) fn delays_with_drop_gaps(&self, stage: Stage) -> Vec<Residence> {
        residences(self.at(stage.enter()), self.at(stage.leave()), self.floor(stage))
    }

    /// Drops between the two points of a stage. From the first point to the last nothing is away: it was
    /// written and not yet read.
    pub(crate) fn drop_gaps_in(&self, stage: Stage) -> &[DropGap] {
        if stage == Stage::Total { &[] } else { self.gaps.after(stage.enter()) }
    }

    /// Bytes that are no longer in a stage though they never left it by its second point.
    pub(crate) fn gone(&self, stage: Stage) -> Vec<Range> {
        ranges::union(&self.dropped.covered, &never_back(self.drop_gaps_in(stage)))
    }

    pub(crate) fn at(&self, point: Point) -> &Curve {
        &self.curves[point.index()]
    }

    pub(crate) fn is_observed(&self, stage: Stage) -> bool {
        self.observed[stage.enter().index()] && self.observed[stage.leave().index()]
    }

    /// The queue of a stage, in the memory of another one's lists.
    pub(crate) fn queue(&self, stage: Stage, lists: QueueLists) -> Queue {
        let (entered, left) = (self.at(stage.enter()), self.at(stage.leave()));
        let mut queue = Queue::new(entered, left, &self.dropped, self.floor(stage), lists);
        queue.take_out(self.drop_gaps_in(stage), self.floor(stage));
        queue
    }

    /// The position below which the bytes that entered or left a stage are unknown: they passed
    /// before the recording. Bytes keep their order, so that it is the higher of the first
    /// positions at both points.
    pub(crate) fn floor(&self, stage: Stage) -> u64 {
        if !self.preexisting {
            return 0;
        }
        let first = |point| self.at(point).first().unwrap_or(0);
        first(stage.enter()).max(first(stage.leave()))
    }

    /// The first point that saw any byte, in path order.
    pub(crate) fn first_seen(&self) -> Option<&Curve> {
        self.curves.iter().find(|curve| !curve.is_empty())
    }

    /// The same, also of a point whose times are unknown.
    pub(crate) fn first_passed(&self) -> Option<&Curve> {
        self.curves.iter().find(|curve| !curve.covered.is_empty() || !curve.missed.is_empty())
    }

    /// The last point that saw any byte, in path order, also with unknown times.
    pub(crate) fn last_passed(&self) -> Option<&Curve> {
        self.curves.iter().rfind(|curve| !curve.covered.is_empty())
    }

    /// The bytes seen to be written and to be read.
    pub(crate) fn whole_way(&self) -> Vec<Range> {
        ranges::intersection(&self.curves[0].covered, &self.curves[7].covered)
    }

    /// For each point, the bytes seen at any point after it.
    pub(crate) fn seen_beyond(&self) -> [Vec<Range>; 8] {
        let mut beyond: [Vec<Range>; 8] = Default::default();
        for index in (0..7).rev() {
            beyond[index] = ranges::union(&beyond[index + 1], &self.curves[index + 1].covered);
        }
        beyond
    }

    /// Times at which the place of the oldest unread byte is unknown. Bytes that were only written unseen, and
    /// neither sent nor read, are behind all others: then no byte is known to be in transit.
    pub(crate) fn unknown_places_ns(&self) -> Vec<Range> {
        let is_only_written =
            self.curves.iter().filter(|curve| curve.open_ns.is_some()).count() == 1;
        let times = self.curves.iter().flat_map(|curve| {
            let open_ns = curve.open_ns.filter(|_| is_only_written);
            let at_end = open_ns.map(|from_ns| (from_ns, u64::MAX));
            curve.unknown_ns().filter(move |times| Some(*times) != at_end)
        });
        ranges::union_of(times)
    }

    /// All bytes seen anywhere.
    pub(crate) fn seen(&self) -> Vec<Range> {
        ranges::union_of(self.curves.iter().flat_map(|curve| &curve.covered).copied())
    }
}

/// A point was watched if bytes were seen there; or if it lies at an end on this host and no bytes
/// were seen beyond it either, so that none can have passed.
fn observed(store: &ConnectionStore, direction: Direction, curves: &[Curve; 8]) -> [bool; 8] {
    let last_seen = curves.iter().rposition(|curve| !curve.is_empty());
    // Captures of both hosts have both ends of the wire, and no socket.
    if last_seen.is_some() && packets::are_alone(store) {
        return curves.each_ref().map(|curve| !curve.is_empty());
    }
    let is_unwritten = curves[Point::SendEnqueue.index()].is_empty() && last_seen.is_some();
    // A socket that the kernel uses itself is written to and read elsewhere. A peer on this host is of
    // its kind.
    let is_inner = is_unwritten && store.connection.both_ends_here && !store.connection.preexisting
        || kernel_socket::is_sender_kernel_socket(store, store.reverse(direction));
    Point::ALL.map(|point| {
        let is_read_elsewhere = is_inner && point == Point::ReceiveDequeue;
        let nothing_beyond =
            last_seen.is_none_or(|last| last < point.index()) && !is_read_elsewhere;
        let before =
            store.window.is_some_and(|window| window.watched[direction as usize][point.index()]);
        !socket_layers::hides(store, direction, point)
            && (!curves[point.index()].is_empty()
                || before
                || nothing_beyond && end_is_here(store, direction, point))
    })
}

/// Whether the end of the flow at which `point` lies is a socket of this host: bytes into it or out
/// of it in either direction show that, and packets alone do not, which a capture has of both
/// directions at one place. A protocol's own engine sees points 1, 2, 7 and 8 alone, which proves
/// nothing of those between.
fn end_is_here(store: &ConnectionStore, direction: Direction, point: Point) -> bool {
    let seen = |flow: &FlowStore, lists: std::ops::Range<usize>| {
        flow.passages[lists].iter().any(|passes| !passes.is_empty())
    };
    let (flow, reverse) = (store.flow(direction), &store.flows[1 - direction as usize]);
    if (2..6).contains(&point.index()) && !seen(flow, 2..6) && !seen(reverse, 2..6) {
        return false;
    }
    let (own, others) = if point.index() < 4 { (0..2, 6..8) } else { (6..8, 0..2) };
    let came = point.index() >= 4 && drops::came_to_host(&store.connection, flow);
    store.connection.both_ends_here || came || seen(flow, own) || seen(reverse, others)
}

fn dropped(connection: &Connection, flow: &FlowStore) -> Curve {
    if connection.protocol.is_stream() {
        return Curve::default();
    }
    let drops = flow.events_of(Kind::Drop);
    Curve::of_ranges(0, drops.map(|drop| (drop.at_ns, drop.offset, drop.end())))
}
