//! Observations that the kernel skipped: bytes arrived that no probe recorded at an earlier point.
//!
//! A kernel may run no program where a tracepoint fires, and count nothing: one does so in softirqs that
//! interrupt a process which it keeps from being traced. Where both ends of a connection are sockets of
//! this host, positions show it: all bytes that the receiver has had passed points 1 to 6. Times are
//! nanoseconds of the trace's clock.

use sockscope_record::{Loss, LossCounts, Point, Record, marks};

use super::flow_state::ConnectionState;
use super::in_transit::Unseen;
use super::intervals::Intervals;
use super::udp::Skipped;
use super::unknown_positions::{MissedUntil, is_explained};

/// The time in which a recording is complete, and the knowledge of its losses.
#[derive(Default)]
pub(super) struct MissedTracker {
    pub(super) attached_ns: u64,
    pub(super) until_ns: Option<u64>,
    /// When hits were lost, of any connection, and of those of others.
    lost: [Lost; 2],
    /// Connections with bytes that are proven and not yet checked.
    pub(super) moved: Vec<u32>,
    pub(super) found: LossCounts,
}

/// When hits were lost and counted.
#[derive(Default)]
struct Lost {
    between: Intervals,
    /// The last one that could not be placed; 0 for none.
    unplaced_ns: u64,
    /// By when hits that record each point were lost; 0 for never.
    of_points: MissedUntil,
}

impl Lost {
    fn note(&mut self, until_ns: u64, points: &[Point]) {
        for point in points.iter().flat_map(|point| point.of_hit()) {
            let lost_ns = &mut self.of_points[point.index()];
            *lost_ns = until_ns.max(*lost_ns);
        }
    }
}

impl MissedTracker {
    /// For a hit at `at_ns`: the end of the counted losses that may be of its connection; 0 without any. Later
    /// losses do not count, though they are known when it is decoded.
    pub(super) fn lost_until_ns(&self, of_others: bool, at_ns: u64) -> u64 {
        let lost = &self.lost[usize::from(of_others)];
        lost.between.until_ns(at_ns).max(lost.unplaced_ns)
    }

    /// By when hits that record each point were lost.
    pub(super) fn missed_until(&self, of_others: bool) -> &MissedUntil {
        &self.lost[usize::from(of_others)].of_points
    }

    /// Hits of these points were lost between two times: of any connection, or of those of others alone.
    pub(super) fn lost_between(
        &mut self,
        (since_ns, until_ns): (u64, u64),
        points: &[Point],
        of_others: bool,
    ) {
        for lost in &mut self.lost[usize::from(of_others)..] {
            lost.between.add(since_ns, until_ns);
            lost.note(until_ns, points);
        }
    }

    /// A hit of this point could not be placed.
    pub(super) fn unplaced(&mut self, at_ns: u64, point: Option<Point>, of_others: bool) {
        for lost in &mut self.lost[usize::from(of_others)..] {
            lost.unplaced_ns = lost.unplaced_ns.max(at_ns);
            lost.note(at_ns, point.as_slice());
        }
    }

    /// A point had no hook of its own until `at_ns`: no record of it is missing by then, and none of another point.
    pub(super) fn unobserved_until(&mut self, at_ns: u64, point: Point) {
        self.lost.iter_mut().for_each(|lost| lost.note(at_ns, &[point]));
    }

    /// Whether the recording had ended by `at_ns`.
    pub(super) fn is_over(&self, at_ns: u64) -> bool {
        self.until_ns.is_some_and(|until_ns| at_ns > until_ns)
    }

    /// Notes the evidence of one hit at `at_ns` for a connection.
    pub(super) fn follow(&mut self, state: &mut ConnectionState, shown: &[Record], at_ns: u64) {
        // Points 2 to 6 of a Unix socket do not exist.
        if state.info.preexisting || state.info.protocol.is_unix() {
            return;
        }
        for record in shown {
            state.flows[(record.flow.0 & 1) as usize].path.recorded_ranges.note(record);
        }
        let mut has_changed = false;
        for flow in &mut state.flows {
            // A copy adds nothing: bytes are read only after they are in the receive queue.
            let position = flow.receiver.received();
            has_changed |= flow.path.recorded_ranges.prove(position, at_ns);
        }
        if has_changed && !std::mem::replace(&mut state.is_moved, true) {
            self.moved.push(state.info.id.0);
        }
    }

    /// A datagram arrived that two points, or those from one to the other, should have seen.
    pub(super) fn skipped(
        &mut self,
        skipped: &Skipped,
        at_ns: u64,
        of_others: bool,
        out: &mut Vec<Record>,
    ) {
        // Their hits show no positions: one that was lost anywhere may look like another.
        let lost_until_ns = self.lost_until_ns(of_others, at_ns);
        if skipped.since_ns < self.attached_ns || is_explained(skipped.since_ns, lost_until_ns) {
            return;
        }
        let [first, last] = skipped.points;
        debug_assert!(first <= last, "points are passed in order");
        for point in &Point::ALL[first.index()..=last.index()] {
            out.extend(self.found(Some(*point), 1, (skipped.since_ns, at_ns), of_others));
        }
    }

    /// Datagrams have passed their next points unseen, or were dropped unseen. This may become known long after: a loss
    /// that was counted meanwhile explains it only where it has a part of that time.
    pub(super) fn vanished(
        &mut self,
        unseen: &mut Vec<Unseen>,
        of_others: bool,
        out: &mut Vec<Record>,
    ) {
        let attached_ns = self.attached_ns;
        for times in unseen.drain(..).filter(|times| times.0 >= attached_ns) {
            if self.lost[usize::from(of_others)].between.touch(times.0, times.1) {
                continue;
            }
            let loss = self.count(None, 1, times, of_others);
            // Of datagrams alone: of a stream nothing is missing.
            out.push(Record { marks: loss.marks | marks::DERIVED, ..loss });
        }
    }

    /// `count` observations of a point, or events of none, were skipped between two times; `None` when a loss
    /// that is counted already explains it: of the point's hits, or of any.
    pub(super) fn found(
        &mut self,
        point: Option<Point>,
        count: u64,
        times: (u64, u64),
        of_others: bool,
    ) -> Option<Record> {
        let of_point = |point: Point| self.missed_until(of_others)[point.index()];
        let lost_until_ns = point.map_or(self.lost_until_ns(of_others, times.1), of_point);
        let is_news = !is_explained(times.0, lost_until_ns);
        is_news.then(|| self.count(point, count, times, of_others))
    }

    pub(super) fn count(
        &mut self,
        point: Option<Point>,
        count: u64,
        (since_ns, at_ns): (u64, u64),
        of_others: bool,
    ) -> Record {
        self.found.add(point, count);
        let record = Record { at_ns, marks: mark_of(of_others), ..Record::default() };
        record.with_loss(Loss::new(point, count, since_ns.min(at_ns)))
    }
}

/// The mark of a loss that touches connections of others alone.
pub(super) fn mark_of(of_others: bool) -> u8 {
    if of_others { marks::OF_OTHERS } else { 0 }
}
