//! Which bytes passed one point, and when each of them first did.
//!
//! A byte may pass a point several times (retransmission), and bytes may pass out of order. Only the
//! first passage of a byte counts for queues and delays: by this rule a dropped byte stays in the
//! stage where it was dropped until its retransmission arrives. Where a record shows the drop, `drop_gap` takes the
//! byte out for that time.

use std::cmp::Reverse;

use crate::Pass;
use crate::ranges::{Range, RangeSet, are_in_order, minus, total, union};

/// Bytes `[offset, offset + len)` passed a point for the first time at `at_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub at_ns: u64,
    pub offset: u64,
    pub len: u32,
    /// Index of the pass that it is part of.
    pub pass: u32,
}

/// Bytes that passed a point unseen: their record was missed between two times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MissedPassage {
    pub offset: u64,
    pub end: u64,
    pub from_ns: u64,
    pub until_ns: u64,
}

/// A run, or a missed run at the last instant at which it can have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Passage {
    pub at_ns: u64,
    pub offset: u64,
    pub end: u64,
    /// False for a missed run: the time is a bound.
    pub seen: bool,
}

/// First passages at one point.
#[derive(Debug, Default)]
pub(crate) struct Curve {
    /// By offset; no byte is in two of them.
    pub runs: Vec<Run>,
    /// By offset; no byte of `runs` is in them.
    pub missed: Vec<MissedPassage>,
    /// From this time on, until the end of the trace, it cannot be known what passed.
    pub unknown_from_ns: Option<u64>,
    /// From this time on, until the end of the trace, bytes beyond the last ones may have passed.
    pub open_ns: Option<u64>,
    /// Times at which datagrams may have passed that left no hole; they neither touch nor overlap.
    pub blind: Vec<Range>,
    /// Whether passages were left out because they were seen after that time.
    pub is_cut: bool,
    /// Positions of `runs`, and of what passed at a time that was forgotten.
    pub covered: Vec<Range>,
    /// Bytes of all passes, repeated ones included.
    pub passed_bytes: u64,
    /// Bytes of passes that repeated an earlier one, be it that this one was not seen.
    pub repeated_bytes: u64,
}

impl Run {
    pub(crate) fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }
}

impl Curve {
    /// From passes in time order; those without bytes are no part of it.
    pub(crate) fn of(passes: &[Pass]) -> Self {
        let ranges = passes.iter().map(|pass| (pass.at_ns, pass.offset, pass.end()));
        Self::of_ranges(passes.len(), ranges)
    }

    /// From `(at_ns, offset, end)` in time order; `pass` of a run is then the place in that order.
    pub(crate) fn of_ranges(count: usize, ranges: impl Iterator<Item = (u64, u64, u64)>) -> Self {
        let mut runs = Vec::with_capacity(count);
        let mut covered = RangeSet::default();
        let mut passed_bytes = 0u64;
        for (index, (at_ns, offset, end)) in ranges.enumerate() {
            debug_assert!(offset <= end);
            passed_bytes = passed_bytes.saturating_add(end - offset);
            covered.insert(offset, end, |offset, end| {
                // A pass is at most 4 GiB long, and there are fewer of them than 4 Gi.
                runs.push(Run { at_ns, offset, len: (end - offset) as u32, pass: index as u32 });
            });
        }
        if !runs.is_sorted_by_key(|run| run.offset) {
            runs.sort_by_key(|run| run.offset);
        }
        let covered = covered.into_ranges();
        debug_assert!(runs.windows(2).all(|pair| pair[0].end() <= pair[1].offset));
        debug_assert_eq!(runs.iter().map(|run| u64::from(run.len)).sum::<u64>(), total(&covered));
        let repeated_bytes = passed_bytes.saturating_sub(total(&covered));
        Self { runs, covered, passed_bytes, repeated_bytes, ..Self::default() }
    }

    /// Whether any byte was seen to pass.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether no bytes passed that are known, be it that only a loss hides when.
    pub(crate) fn is_without_bytes(&self) -> bool {
        self.covered.is_empty() && self.missed.is_empty()
    }

    /// Lowest position seen.
    pub(crate) fn first(&self) -> Option<u64> {
        self.covered.first().map(|range| range.0)
    }

    /// Position after the highest one seen; 0 when none was.
    pub(crate) fn end(&self) -> u64 {
        self.covered.last().map_or(0, |range| range.1)
    }

    /// Runs and missed runs by offset.
    pub(crate) fn passages(&self) -> impl Iterator<Item = Passage> + '_ {
        let mut runs = self.runs.iter().map(Passage::of_run).peekable();
        let mut missed = self.missed.iter().map(Passage::of_missed).peekable();
        std::iter::from_fn(move || match (runs.peek(), missed.peek()) {
            (Some(run), Some(gap)) if gap.offset < run.offset => missed.next(),
            (None, _) => missed.next(),
            _ => runs.next(),
        })
    }

    /// The part of it that is not in `ranges`. Passes there stay counted: they are repetitions of
    /// passes that were not seen.
    pub(crate) fn without(&self, ranges: &[Range]) -> Self {
        let mut rest = Self { passed_bytes: self.passed_bytes, ..Self::default() };
        for run in &self.runs {
            let first = ranges.partition_point(|range| range.1 <= run.offset);
            for (offset, end) in minus(&[(run.offset, run.end())], &ranges[first..]) {
                rest.runs.push(Run { offset, len: (end - offset) as u32, ..*run });
            }
        }
        rest.covered = minus(&self.covered, ranges);
        let first_bytes = total(&self.covered) - total(&rest.covered);
        rest.repeated_bytes = self.repeated_bytes.saturating_add(first_bytes);
        rest
    }

    /// From a time on it is unknown when what passed: how much did, and in all which bytes, stays. What
    /// passed unseen between an earlier time and one after that makes it unknown from the earlier one on.
    pub(crate) fn forget_from(&mut self, from_ns: u64) {
        let mut from_ns = self.unknown_from_ns.map_or(from_ns, |known| known.min(from_ns));
        self.covered = union(&self.covered, &self.missed_ranges());
        let passages = self.runs.len() + self.missed.len();
        self.missed.sort_by_key(|missed| Reverse(missed.until_ns));
        self.missed.retain(|missed| {
            let is_kept = missed.until_ns < from_ns;
            if !is_kept {
                from_ns = from_ns.min(missed.from_ns);
            }
            is_kept
        });
        self.missed.sort_by_key(|missed| missed.offset);
        self.runs.retain(|run| run.at_ns < from_ns);
        self.is_cut |= self.runs.len() + self.missed.len() < passages;
        self.unknown_from_ns = Some(from_ns);
    }

    /// What passed within one of these intervals, which are in order and apart, did so at some time in it.
    pub(crate) fn forget_between(&mut self, intervals: &[Range]) {
        if intervals.is_empty() {
            return;
        }
        debug_assert!(are_in_order(intervals));
        let missed = &mut self.missed;
        self.runs.retain(|run| {
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

    /// What holds of every curve: its passages are in order of position, and no byte passed first twice.
    pub(crate) fn is_sound(&self) -> bool {
        self.runs.windows(2).all(|pair| pair[0].end() <= pair[1].offset)
            && self.missed.is_sorted_by_key(|missed| missed.offset)
    }

    /// Positions of missed runs.
    pub(crate) fn missed_ranges(&self) -> Vec<Range> {
        self.missed.iter().map(|missed| (missed.offset, missed.end)).collect()
    }

    /// Whether more may have passed than positions show.
    pub(crate) fn may_have_more(&self) -> bool {
        !self.is_end_known() || !self.blind.is_empty()
    }

    /// Whether it is known at the end of the trace what passed.
    pub(crate) fn is_end_known(&self) -> bool {
        self.unknown_from_ns.is_none() && self.open_ns.is_none()
    }

    /// Times at which it is unknown what passed, until the end of the trace for the last one.
    pub(crate) fn unknown_ns(&self) -> impl Iterator<Item = Range> + '_ {
        let missed = self.missed.iter().map(|missed| (missed.from_ns, missed.until_ns));
        let since = self.unknown_from_ns.into_iter().chain(self.open_ns);
        missed.chain(self.blind.iter().copied()).chain(since.map(|from_ns| (from_ns, u64::MAX)))
    }
}

impl Passage {
    fn of_run(run: &Run) -> Self {
        Self { at_ns: run.at_ns, offset: run.offset, end: run.end(), seen: true }
    }

    fn of_missed(missed: &MissedPassage) -> Self {
        Self { at_ns: missed.until_ns, offset: missed.offset, end: missed.end, seen: false }
    }
}

/// Walks through a curve's runs at growing positions, without searching again from the start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    runs: &'a [Run],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(curve: &'a Curve) -> Self {
        Self { runs: &curve.runs }
    }

    /// The run with the byte at `position`, which is not lower than at the call before.
    pub(crate) fn seek(&mut self, position: u64) -> Option<&'a Run> {
        while self.runs.first().is_some_and(|run| run.end() <= position) {
            self.runs = &self.runs[1..];
        }
        self.runs.first().filter(|run| run.offset <= position)
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
        let runs = curve.runs.iter();
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
