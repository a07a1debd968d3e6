//! The bytes of a flow that were recorded at each point, and the position up to which its receiver has had it.
//!
//! Gaps are counted one check after a position was proven, as records of other CPUs may be later than the
//! proof. Each byte is checked once. A point that never recorded the flow is not on its path, and has no
//! gaps.

use std::collections::VecDeque;

use sockscope_record::{Point, Record, marks};

use super::unknown_positions::{MissedUntil, is_explained};

/// Points that a receiver's position can vouch for: 1 to 6.
const POINTS: usize = 6;

/// Ranges remembered for a point, at most; then the oldest gap counts as seen.
const RANGES_MAX: usize = 256;

/// Ranges that were sent again, remembered at most; older ones are forgotten.
const RESENT_MAX: usize = 64;

/// The recorded bytes of a flow by point, from the first byte not yet checked on.
#[derive(Default)]
pub(super) struct RecordedRanges {
    checked: u64,
    /// `None` before the first byte: datagrams have no ranges.
    points: Option<Box<[Seen; POINTS]>>,
    /// The furthest byte that the receiver has had, and the time of its first proof.
    proof: Proof,
    /// The proof at the last look.
    settled: Proof,
    /// Bytes that passed points again: their time is not that of the first passage.
    resent: VecDeque<(u64, u64)>,
}

#[derive(Clone, Copy, Default)]
struct Proof {
    position: u64,
    at_ns: u64,
}

/// Bytes seen at one point.
#[derive(Default)]
struct Seen {
    is_observed: bool,
    /// Apart from each other, in order.
    ranges: Vec<Range>,
    /// Earliest time at which the first byte not yet checked can have passed.
    since_ns: u64,
}

/// `[from, to)`; the last byte passed at `at_ns`.
#[derive(Clone, Copy)]
struct Range {
    from: u64,
    to: u64,
    at_ns: u64,
}

/// Gaps at one point; none of their bytes passed before `since_ns`.
pub(super) struct Gap {
    pub(super) count: u64,
    pub(super) since_ns: u64,
}

impl RecordedRanges {
    /// A probe at the point of this record saw its bytes.
    pub(super) fn note(&mut self, record: &Record) {
        let index = (record.kind as usize).wrapping_sub(1);
        if index >= POINTS {
            return;
        }
        let seen = &mut self.points.get_or_insert_default()[index];
        seen.is_observed = true;
        let from = record.offset.max(self.checked);
        if from >= record.end() {
            return;
        }
        let bytes = (record.offset, record.end());
        if record.is_marked(marks::RETRANSMITTED) && !self.resent.contains(&bytes) {
            if self.resent.len() == RESENT_MAX {
                self.resent.pop_front();
            }
            self.resent.push_back(bytes);
        }
        let mut resent = self.resent.iter();
        let is_again = resent.any(|resent| resent.0 < record.end() && record.offset < resent.1);
        let mut range = Range { from, to: record.end(), at_ns: record.at_ns };
        if is_again {
            // Bytes behind them may have passed since those before them did.
            range.at_ns = seen.since_ns(from).min(record.at_ns);
        }
        seen.add(range);
    }

    /// The receiver has had everything up to `position`; true when that is news.
    pub(super) fn prove(&mut self, position: u64, at_ns: u64) -> bool {
        if position <= self.proof.position {
            return false;
        }
        self.proof = Proof { position, at_ns };
        true
    }

    pub(super) fn is_settled(&self) -> bool {
        self.checked >= self.proof.position
    }

    /// Bytes that the last look proved and no record shows, by point, without the gaps that a counted loss of
    /// the point's hits explains. No byte passed before `opened_ns`.
    pub(super) fn check(
        &mut self,
        opened_ns: u64,
        missed_until: &MissedUntil,
    ) -> impl Iterator<Item = (Point, Gap, u64)> {
        let (from, settled) = (self.checked, self.settled);
        self.checked = from.max(settled.position);
        self.settled = self.proof;
        let (to, last) = (settled.position, settled.position.saturating_sub(1));
        let mut ranges =
            self.points.iter().flat_map(|all| all.iter()).flat_map(|seen| &seen.ranges);
        // A last number that no point saw may be that of a FIN, which is not written.
        let is_byte = ranges.any(|range| (range.from..range.to).contains(&last));
        let written = if is_byte { to } else { last.max(from) };
        let points = self.points.iter_mut().flat_map(|points| points.iter_mut());
        Point::ALL.into_iter().zip(points).filter_map(move |(point, seen)| {
            let to = if point <= Point::SendDequeue { written } else { to };
            let gap = seen.check((from, to), opened_ns, missed_until[point.index()])?;
            Some((point, gap, settled.at_ns))
        })
    }
}

impl Seen {
    /// Earliest time at which the bytes from this position on can have passed.
    fn since_ns(&self, from: u64) -> u64 {
        let after = self.ranges.partition_point(|range| range.from < from);
        after.checked_sub(1).map_or(self.since_ns, |before| self.ranges[before].at_ns)
    }

    fn add(&mut self, mut new: Range) {
        if let Some(last) = self.ranges.last_mut()
            && (last.from..=last.to).contains(&new.from)
        {
            if new.to > last.to {
                (last.to, last.at_ns) = (new.to, new.at_ns);
            }
            return;
        }
        let first = self.ranges.partition_point(|range| range.to < new.from);
        let after = self.ranges.partition_point(|range| range.from <= new.to);
        for range in self.ranges.drain(first..after) {
            new.from = new.from.min(range.from);
            if range.to >= new.to {
                (new.to, new.at_ns) = (range.to, range.at_ns);
            }
        }
        self.ranges.insert(first, new);
        debug_assert!(self.ranges.is_sorted_by(|one, next| one.to < next.from), "apart, in order");
        if self.ranges.len() > RANGES_MAX {
            let second = self.ranges.remove(1);
            self.ranges[0] = Range { from: self.ranges[0].from, ..second };
        }
    }

    /// The gaps in `[from, to)`, which is forgotten, without those that may be among the losses counted by
    /// `lost_until_ns`. An earlier gap may be one of them where a later one is not.
    fn check(&mut self, (from, to): (u64, u64), opened_ns: u64, lost_until_ns: u64) -> Option<Gap> {
        debug_assert!(from <= to, "what is proven only grows");
        let mut gap = Gap { count: 0, since_ns: u64::MAX };
        let mut widen = |since_ns: u64| {
            let since_ns = since_ns.max(opened_ns);
            if !is_explained(since_ns, lost_until_ns) {
                gap.widen(since_ns);
            }
        };
        let (mut reached, mut since_ns) = (from, self.since_ns);
        for range in self.ranges.iter().take_while(|range| range.from < to) {
            if range.from > reached {
                widen(since_ns);
            }
            (reached, since_ns) = (range.to, range.at_ns);
        }
        if reached < to {
            widen(since_ns);
        }
        self.since_ns = since_ns;
        self.ranges.retain(|range| range.to > to);
        if let Some(first) = self.ranges.first_mut() {
            first.from = first.from.max(to);
        }
        (self.is_observed && gap.count > 0).then_some(gap)
    }
}

impl Gap {
    fn widen(&mut self, since_ns: u64) {
        self.count += 1;
        self.since_ns = self.since_ns.min(since_ns);
    }
}

#[cfg(test)]
mod tests {
    use sockscope_record::Kind;

    use super::*;

    fn passed(at_ns: u64, offset: u64, marks: u8) -> Record {
        Record { at_ns, offset, len: 10, kind: Kind::InterfaceDequeue, marks, ..Record::default() }
    }

    #[test]
    fn bytes_behind_a_retransmission_may_have_passed_before_it() {
        let mut ranges = RecordedRanges::default();
        ranges.note(&passed(5, 0, 0));
        // [10, 30) has no record, and then its first half passes again.
        ranges.note(&passed(50, 10, marks::RETRANSMITTED));
        ranges.note(&passed(60, 30, 0));
        ranges.prove(40, 70);
        assert_eq!(ranges.check(0, &[0; 8]).count(), 0);
        let gaps: Vec<(Point, u64, u64)> = ranges
            .check(0, &[0; 8])
            .map(|(point, gap, _)| (point, gap.count, gap.since_ns))
            .collect();
        assert_eq!(gaps, [(Point::InterfaceDequeue, 1, 5)]);
    }
}
