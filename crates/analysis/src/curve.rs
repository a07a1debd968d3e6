//! Bytes that passed one point, with the time of the first passage of each.
//!
//! A byte may pass a point several times (retransmission), and bytes may pass out of order. Only the first passage
//! of a byte counts for queues and delays: by this rule a dropped byte stays in the stage where it was dropped
//! until its retransmission arrives. Where a record shows the drop, `drop_gap` takes the byte out for that time.

use std::cmp::Reverse;

use crate::Passage;
use crate::ranges::{Range, RangeSet, are_in_order, minus, total, union};

/// Bytes `[offset, offset + len)` passed a point for the first time at `at_ns`, as a record shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FirstPassage {
    pub at_ns: u64,
    pub offset: u64,
    pub len: u32,
    /// Index of the [`Passage`] that it is part of.
    pub pass: u32,
}

/// Bytes whose first passage is bounded by two times, because its record was missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MissedPassage {
    pub offset: u64,
    pub end: u64,
    pub from_ns: u64,
    pub until_ns: u64,
}

/// A first passage at its time, or a missed one at the last instant at which it can have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LatestPassage {
    pub at_ns: u64,
    pub offset: u64,
    pub end: u64,
    /// False for a missed one: the time is a bound.
    pub seen: bool,
}

/// First passages at one point.
#[derive(Debug, Default)]
pub(crate) struct Curve {
    /// By offset; no byte is in two of them.
    pub seen: Vec<FirstPassage>,
    /// By offset; no byte of `seen` is in them.
    pub missed: Vec<MissedPassage>,
    /// From this time on, until the end of the trace, the passages are unknown.
    pub unknown_from_ns: Option<u64>,
    /// From this time on, until the end of the trace, bytes beyond the last ones may have passed.
    pub open_ns: Option<u64>,
    /// Times at which datagrams may have passed that left no hole; they neither touch nor overlap.
    pub blind: Vec<Range>,
    /// Whether passages were left out because they were seen after that time.
    pub is_cut: bool,
    /// Positions of `seen`, and of bytes whose passage time was forgotten.
    pub covered: Vec<Range>,
    /// Bytes of all passes, repeated ones included.
    pub passed_bytes: u64,
    /// Bytes of passes that repeated an earlier one, seen or not.
    pub repeated_bytes: u64,
}

impl FirstPassage {
    pub(crate) fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }
}

impl Curve {
    /// From passages in time order; those without bytes are no part of it.
    pub(crate) fn of(passes: &[Passage]) -> Self {
        let ranges = passes.iter().map(|pass| (pass.at_ns, pass.offset, pass.end()));
        Self::of_ranges(passes.len(), ranges)
    }

    /// From `(at_ns, offset, end)` in time order; `pass` of each is then the place in that order.
    pub(crate) fn of_ranges(count: usize, ranges: impl Iterator<Item = (u64, u64, u64)>) -> Self {
        let mut seen = Vec::with_capacity(count);
        let mut covered = RangeSet::default();
        let mut passed_bytes = 0u64;
        for (index, (at_ns, offset, end)) in ranges.enumerate() {
            debug_assert!(offset <= end);
            passed_bytes = passed_bytes.saturating_add(end - offset);
            covered.insert(offset, end, |offset, end| {
                // A pass is at most 4 GiB long, and there are fewer of them than 4 Gi.
                seen.push(FirstPassage {
                    at_ns,
                    offset,
                    len: (end - offset) as u32,
                    pass: index as u32,
                });
            });
        }
        if !seen.is_sorted_by_key(|run| run.offset) {
            seen.sort_by_key(|run| run.offset);
        }
        let covered = covered.into_ranges();
        debug_assert!(seen.windows(2).all(|pair| pair[0].end() <= pair[1].offset));
        debug_assert_eq!(seen.iter().map(|run| u64::from(run.len)).sum::<u64>(), total(&covered));
        let repeated_bytes = passed_bytes.saturating_sub(total(&covered));
        Self { seen, covered, passed_bytes, repeated_bytes, ..Self::default() }
    }

    /// Whether any byte was seen to pass.
    pub(crate) fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Whether no bytes are known to have passed, even at an unknown time.
    pub(crate) fn is_without_bytes(&self) -> bool {
        self.covered.is_empty() && self.missed.is_empty()
    }

    /// The first passage with the byte at `position`.
    pub(crate) fn at(&self, position: u64) -> Option<&FirstPassage> {
        let before = self.seen.partition_point(|run| run.end() <= position);
        self.seen.get(before).filter(|run| run.offset <= position)
    }

    /// Lowest position seen.
    pub(crate) fn first(&self) -> Option<u64> {
        self.covered.first().map(|range| range.0)
    }

    /// Position after the highest one seen; 0 without any.
    pub(crate) fn end(&self) -> u64 {
        self.covered.last().map_or(0, |range| range.1)
    }

    /// All first passages by offset, each at the latest time that it can have.
    pub(crate) fn latest(&self) -> impl Iterator<Item = LatestPassage> + '_ {
        let mut seen = self.seen.iter().map(LatestPassage::of_seen).peekable();
        let mut missed = self.missed.iter().map(LatestPassage::of_missed).peekable();
        std::iter::from_fn(move || match (seen.peek(), missed.peek()) {
            (Some(seen), Some(gap)) if gap.offset < seen.offset => missed.next(),
            (None, _) => missed.next(),
            _ => seen.next(),
        })
    }

    /// The part of it that is not in `ranges`. Passes there stay counted: they are repetitions of
    /// passes that were not seen.
    pub(crate) fn without(&self, ranges: &[Range]) -> Self {
        let mut rest = Self { passed_bytes: self.passed_bytes, ..Self::default() };
        for run in &self.seen {
            let first = ranges.partition_point(|range| range.1 <= run.offset);
            for (offset, end) in minus(&[(run.offset, run.end())], &ranges[first..]) {
                rest.seen.push(FirstPassage { offset, len: (end - offset) as u32, ..*run });
            }
        }
        rest.covered = minus(&self.covered, ranges);
        let first_bytes = total(&self.covered) - total(&rest.covered);
        rest.repeated_bytes = self.repeated_bytes.saturating_add(first_bytes);
        rest
    }

    /// Forgets the passage times from a time on; the number of bytes and their positions stay. If bytes passed
    /// unseen between an earlier time and one after that, passages are unknown from the earlier one on.
    pub(crate) fn forget_from(&mut self, from_ns: u64) {
        let mut from_ns = self.unknown_from_ns.map_or(from_ns, |known| known.min(from_ns));
        self.covered = union(&self.covered, &self.missed_ranges());
        let passages = self.seen.len() + self.missed.len();
        self.missed.sort_by_key(|missed| Reverse(missed.until_ns));
        self.missed.retain(|missed| {
            let is_kept = missed.until_ns < from_ns;
            if !is_kept {
                from_ns = from_ns.min(missed.from_ns);
            }
            is_kept
        });
        self.missed.sort_by_key(|missed| missed.offset);
        self.seen.retain(|run| run.at_ns < from_ns);
        self.is_cut |= self.seen.len() + self.missed.len() < passages;
        self.unknown_from_ns = Some(from_ns);
    }

    /// Passages within one of these intervals, which are in order and apart, get the whole interval as their time.
    pub(crate) fn forget_between(&mut self, intervals: &[Range]) {
        if intervals.is_empty() {
            return;
        }
        debug_assert!(are_in_order(intervals));
        let missed = &mut self.missed;
        self.seen.retain(|run| {
            let next = intervals.partition_point(|times| times.1 < run.at_ns);
            let times = intervals.get(next).filter(|times| times.0 <= run.at_ns);
            let forgotten = times.map(|&(from_ns, until_ns)| MissedPassage {
                offset: run.offset,
                end: run.end(),
                from_ns,
                until_ns,
            });
            missed.extend(forgotten);
            forgotten.is_none()
        });
        self.missed.sort_by_key(|missed| missed.offset);
    }

    /// Invariant of every curve: its passages are in order of position, and no byte passed first twice.
    pub(crate) fn is_sound(&self) -> bool {
        self.seen.windows(2).all(|pair| pair[0].end() <= pair[1].offset)
            && self.missed.is_sorted_by_key(|missed| missed.offset)
    }

    /// Positions of missed passages.
    pub(crate) fn missed_ranges(&self) -> Vec<Range> {
        self.missed.iter().map(|missed| (missed.offset, missed.end)).collect()
    }

    /// Whether more may have passed than positions show.
    pub(crate) fn may_have_more(&self) -> bool {
        !self.is_end_known() || !self.blind.is_empty()
    }

    /// Whether passages are known at the end of the trace.
    pub(crate) fn is_end_known(&self) -> bool {
        self.unknown_from_ns.is_none() && self.open_ns.is_none()
    }

    /// Times at which passages are unknown, until the end of the trace for the last one.
    pub(crate) fn unknown_ns(&self) -> impl Iterator<Item = Range> + '_ {
        let missed = self.missed.iter().map(|missed| (missed.from_ns, missed.until_ns));
        let since = self.unknown_from_ns.into_iter().chain(self.open_ns);
        missed.chain(self.blind.iter().copied()).chain(since.map(|from_ns| (from_ns, u64::MAX)))
    }
}

impl LatestPassage {
    pub(crate) fn of_seen(seen: &FirstPassage) -> Self {
        Self { at_ns: seen.at_ns, offset: seen.offset, end: seen.end(), seen: true }
    }

    fn of_missed(missed: &MissedPassage) -> Self {
        Self { at_ns: missed.until_ns, offset: missed.offset, end: missed.end, seen: false }
    }
}

/// Walks through a curve's first passages at growing positions, without searching again from the start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    seen: &'a [FirstPassage],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(curve: &'a Curve) -> Self {
        Self { seen: &curve.seen }
    }

    /// First passages from the byte at `position` on, which is not lower than at the call before.
    pub(crate) fn skip_to(&mut self, position: u64) -> &'a [FirstPassage] {
        self.seek(position);
        self.seen
    }

    /// The first passage with the byte at `position`, which is not lower than at the call before.
    pub(crate) fn seek(&mut self, position: u64) -> Option<&'a FirstPassage> {
        while self.seen.first().is_some_and(|run| run.end() <= position) {
            self.seen = &self.seen[1..];
        }
        self.seen.first().filter(|run| run.offset <= position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use sockscope_record::Point;

    fn runs(text: &str) -> String {
        let store = testing::store(text);
        let curve = Curve::of(store.flows[0].at(Point::SendDequeue));
        let runs = curve.seen.iter();
        let runs: Vec<_> =
            runs.map(|run| format!("{} {}..{}", run.at_ns, run.offset, run.end())).collect();
        format!("{} ({} bytes passed)", runs.join(" | "), curve.passed_bytes)
    }

    #[test]
    fn a_retransmission_changes_no_first_passage() {
        insta::assert_snapshot!(runs("10 2 0..100 | 20 2 100..200 | 30 2 0..100 retransmitted"),
            @"10 0..100 | 20 100..200 (300 bytes passed)");
    }

    #[test]
    fn a_retransmission_that_reaches_further_counts_from_its_first_new_byte() {
        insta::assert_snapshot!(runs("10 2 0..100 | 20 2 50..150"),
            @"10 0..100 | 20 100..150 (200 bytes passed)");
    }

    #[test]
    fn a_late_range_stands_at_its_place_with_its_own_time() {
        insta::assert_snapshot!(runs("10 2 0..100 | 20 2 200..300 | 30 2 100..200"),
            @"10 0..100 | 30 100..200 | 20 200..300 (300 bytes passed)");
    }
}
