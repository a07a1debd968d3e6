//! Times at which records were missed, and hits without a position for that.
//!
//! A sequence number shows a position only to within 4 GiB. Where 2 GiB of a connection may have passed
//! since its last placed hit, a hit is not placed: it is counted as missed at its point, in an interval.

use std::collections::BTreeMap;

use sockscope_record::{Loss, LossCounts, Point, Record, marks};

use super::intervals::Intervals;

/// No connection carries 2 GiB, within which a position is unique, in this time: that is 107 GB/s.
const UNSEEN_NS_MAX: u64 = 20_000_000;

/// By when hits of each point were last missed; 0 for never.
pub(super) type MissedUntil = [u64; 8];

/// Times at which hits were missed, and hits that could not be placed for that.
#[derive(Default)]
pub(super) struct UnknownPositions {
    intervals: Intervals,
    /// Hits that were not placed, by point, with the times between which they can have been.
    by_point: BTreeMap<Option<Point>, Interval>,
    counts: LossCounts,
}

#[derive(Clone, Copy)]
struct Interval {
    count: u64,
    since_ns: u64,
    until_ns: u64,
}

impl UnknownPositions {
    /// Hits were missed between these times.
    pub(super) fn add(&mut self, since_ns: u64, until_ns: u64) {
        self.intervals.add(since_ns, until_ns);
    }

    /// Whether 2 GiB of one connection may have passed unseen between two times.
    pub(super) fn may_hide_positions(&self, from_ns: u64, until_ns: u64) -> bool {
        self.intervals.within_ns(from_ns, until_ns) >= UNSEEN_NS_MAX
    }

    /// A hit of this point could not be placed.
    pub(super) fn leave(&mut self, point: Option<Point>, since_ns: u64, at_ns: u64) {
        self.leave_some(point, 1, since_ns, at_ns);
    }

    /// Bytes passed this point unseen until `at_ns`, by hits that are counted elsewhere.
    pub(super) fn leave_bytes(&mut self, point: Point, since_ns: u64, at_ns: u64) {
        self.leave_some(Some(point), 0, since_ns, at_ns);
    }

    fn leave_some(&mut self, point: Option<Point>, count: u64, since_ns: u64, at_ns: u64) {
        let since_ns = since_ns.min(at_ns);
        let fresh = Interval { count: 0, since_ns, until_ns: at_ns };
        let interval = self.by_point.entry(point).or_insert(fresh);
        interval.count += count;
        interval.since_ns = interval.since_ns.min(since_ns);
        interval.until_ns = interval.until_ns.max(at_ns);
        self.counts.add(point, count);
    }

    /// The losses for the hits left out since the last call, with this mark too.
    pub(super) fn take_losses(&mut self, mark: u8) -> impl Iterator<Item = Record> + use<> {
        std::mem::take(&mut self.by_point).into_iter().map(move |(point, interval)| {
            let loss = Loss::new(point, interval.count, interval.since_ns);
            let (at_ns, marks) = (interval.until_ns, marks::ANCHORED | mark);
            Record { at_ns, marks, ..Record::default() }.with_loss(loss)
        })
    }

    /// Number of hits left out since the last call.
    pub(super) fn take_counts(&mut self) -> LossCounts {
        std::mem::take(&mut self.counts)
    }
}

/// Whether a gap since then may be among the losses counted by `lost_until_ns`; 0: there are no losses.
pub(super) fn is_explained(since_ns: u64, lost_until_ns: u64) -> bool {
    since_ns <= lost_until_ns && lost_until_ns > 0
}
