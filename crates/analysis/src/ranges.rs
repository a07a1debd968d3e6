//! Sets of stream positions as sorted ranges.
//!
//! Streams mostly grow at their end, so the highest range is kept apart and grows in place; holes
//! and the bytes that fill them cost a tree look-up.

use std::collections::BTreeMap;

/// Positions `[.0, .1)`; never empty where stored.
pub(crate) type Range = (u64, u64);

/// Positions seen so far.
#[derive(Debug, Default)]
pub(crate) struct RangeSet {
    /// Start to end of every range below `tail`; they neither touch each other nor `tail`.
    below: BTreeMap<u64, u64>,
    /// The highest range; empty only while the set is.
    tail: Range,
}

impl RangeSet {
    /// Adds `[start, end)` and calls `fresh` with each part that was not in the set, lowest first.
    pub(crate) fn insert(&mut self, start: u64, end: u64, mut fresh: impl FnMut(u64, u64)) {
        if start >= end {
            return;
        }
        let (tail_start, tail_end) = self.tail;
        if tail_start == tail_end || start > tail_end {
            if tail_start < tail_end {
                self.below.insert(tail_start, tail_end);
            }
            self.tail = (start, end);
            return fresh(start, end);
        }
        if start < tail_start {
            self.insert_below(start, end.min(tail_start), &mut fresh);
        }
        if end > tail_end {
            fresh(tail_end, end);
            self.tail.1 = end;
        }
    }

    /// Adds a range that ends at or before the start of `tail`.
    fn insert_below(&mut self, start: u64, end: u64, fresh: &mut impl FnMut(u64, u64)) {
        let mut merged = (start, end);
        let mut done = start;
        if let Some((&before, &before_end)) = self.below.range(..start).next_back()
            && before_end >= start
        {
            merged = (before, end.max(before_end));
            done = before_end;
        }
        while let Some((&next, &next_end)) = self.below.range(start..=end).next() {
            if next > done {
                fresh(done, next);
            }
            done = done.max(next_end);
            merged.1 = merged.1.max(next_end);
            self.below.remove(&next);
        }
        if done < end {
            fresh(done, end);
        }
        debug_assert!(merged.0 < merged.1 && merged.1 <= self.tail.0);
        if merged.1 == self.tail.0 {
            self.below.remove(&merged.0);
            self.tail.0 = merged.0;
        } else {
            self.below.insert(merged.0, merged.1);
        }
        let last = self.below.last_key_value();
        debug_assert!(last.is_none_or(|(_, last_end)| *last_end < self.tail.0));
    }

    /// Whether all of `[start, end)`, which is not empty, is in the set.
    pub(crate) fn contains(&self, start: u64, end: u64) -> bool {
        let (tail_start, tail_end) = self.tail;
        if start >= tail_start {
            return end <= tail_end;
        }
        let before = self.below.range(..=start).next_back();
        before.is_some_and(|(_, &before_end)| end <= before_end)
    }

    /// The ranges, lowest first; they do not touch.
    pub(crate) fn into_ranges(self) -> Vec<Range> {
        let tail = (self.tail.0 < self.tail.1).then_some(self.tail);
        let ranges: Vec<Range> = self.below.into_iter().chain(tail).collect();
        debug_assert!(are_in_order(&ranges));
        ranges
    }
}

/// Positions in all ranges.
pub(crate) fn total(ranges: &[Range]) -> u64 {
    debug_assert!(ranges.iter().all(|range| range.0 <= range.1));
    ranges.iter().map(|(start, end)| end - start).sum()
}

/// Positions in `a` or in `b`.
pub(crate) fn union(a: &[Range], b: &[Range]) -> Vec<Range> {
    union_of(a.iter().chain(b).copied())
}

/// Positions in any of these ranges.
pub(crate) fn union_of(ranges: impl Iterator<Item = Range>) -> Vec<Range> {
    let mut all: Vec<Range> = ranges.collect();
    all.sort_unstable();
    all.dedup_by(|next, last| {
        let is_joined = next.0 <= last.1;
        if is_joined {
            last.1 = last.1.max(next.1);
        }
        is_joined
    });
    all
}

/// Positions in `a` but not in `b`.
pub(crate) fn minus(a: &[Range], b: &[Range]) -> Vec<Range> {
    let mut rest = Vec::new();
    let mut first = 0;
    debug_assert!(are_in_order(a), "a cut is looked for from the last one on");
    for &(mut start, end) in a {
        while b.get(first).is_some_and(|cut| cut.1 <= start) {
            first += 1;
        }
        for &(cut_start, cut_end) in b[first..].iter().take_while(|cut| cut.0 < end) {
            if cut_start > start {
                rest.push((start, cut_start));
            }
            start = start.max(cut_end);
        }
        if start < end {
            rest.push((start, end));
        }
    }
    rest
}

/// Positions in both `a` and `b`.
pub(crate) fn intersection(a: &[Range], b: &[Range]) -> Vec<Range> {
    let both = minus(a, &minus(a, b));
    debug_assert!(total(&both) <= total(a));
    both
}

/// Positions of `ranges` from `floor` on.
pub(crate) fn from(ranges: &[Range], floor: u64) -> Vec<Range> {
    let kept = ranges.iter().filter(|range| range.1 > floor);
    kept.map(|&(start, end)| (start.max(floor), end)).collect()
}

/// Disjoint ranges in order, with their total length within any range.
pub(crate) struct Sums {
    ranges: Vec<Range>,
    /// Positions in all ranges before each.
    before: Vec<u64>,
}

impl Sums {
    /// Of ranges that do not overlap, in order.
    pub(crate) fn new(ranges: Vec<Range>) -> Self {
        debug_assert!(are_in_order(&ranges));
        let before = ranges.iter().scan(0u64, |sum, range| {
            let before = *sum;
            *sum += range.1 - range.0;
            Some(before)
        });
        let before = before.collect();
        Self { ranges, before }
    }

    /// Positions of `range` that are in the ranges.
    pub(crate) fn overlap(&self, range: Range) -> u64 {
        self.until(range.1) - self.until(range.0)
    }

    fn until(&self, at: u64) -> u64 {
        let after = self.ranges.partition_point(|range| range.0 < at);
        let Some(last) = after.checked_sub(1) else { return 0 };
        self.before[last] + (self.ranges[last].1.min(at) - self.ranges[last].0)
    }
}

/// Whether they stand in order and do not overlap.
pub(crate) fn are_in_order(ranges: &[Range]) -> bool {
    ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn inserted(ranges: &[Range]) -> (RangeSet, Vec<Range>) {
        let mut set = RangeSet::default();
        let mut fresh = Vec::new();
        for &(start, end) in ranges {
            set.insert(start, end, |start, end| fresh.push((start, end)));
        }
        (set, fresh)
    }

    #[test]
    fn a_hole_is_filled_once() {
        let (set, fresh) = inserted(&[(0, 10), (20, 30), (5, 25), (0, 30)]);
        assert_eq!(fresh, [(0, 10), (20, 30), (10, 20)]);
        assert_eq!(set.into_ranges(), [(0, 30)]);
    }

    #[test]
    fn what_the_set_contains_has_no_hole() {
        let (set, _) = inserted(&[(5, 10), (20, 30)]);
        let contained = [(5, 10), (9, 10), (20, 30), (29, 30)];
        let others = [(4, 6), (9, 11), (10, 11), (5, 30), (15, 25), (29, 31), (30, 31)];
        assert!(contained.iter().all(|&(start, end)| set.contains(start, end)));
        assert!(!others.iter().any(|&(start, end)| set.contains(start, end)));
        assert!(!RangeSet::default().contains(0, 1));
    }

    #[test]
    fn a_range_over_several_holes_reports_each() {
        let (set, fresh) = inserted(&[(10, 12), (14, 16), (18, 20), (30, 40), (0, 25)]);
        assert_eq!(fresh[4..], [(0, 10), (12, 14), (16, 18), (20, 25)]);
        assert_eq!(set.into_ranges(), [(0, 25), (30, 40)]);
    }

    fn bits(ranges: &[Range]) -> u64 {
        ranges.iter().flat_map(|&(start, end)| start..end).fold(0, |bits, bit| bits | 1 << bit)
    }

    fn any_ranges() -> impl Strategy<Value = Vec<Range>> {
        prop::collection::vec(
            (0u64..60, 0u64..9).prop_map(|(start, len)| (start, (start + len).min(64))),
            0..24,
        )
    }

    fn as_set(ranges: &[Range]) -> Vec<Range> {
        inserted(ranges).0.into_ranges()
    }

    proptest! {
        #[test]
        fn a_set_holds_what_was_inserted_and_each_position_is_fresh_once(ranges in any_ranges()) {
            let (set, fresh) = inserted(&ranges);
            let ranges_now = set.into_ranges();
            prop_assert_eq!(bits(&ranges_now), bits(&ranges));
            prop_assert_eq!(bits(&fresh), bits(&ranges));
            prop_assert_eq!(total(&fresh), u64::from(bits(&ranges).count_ones()));
            prop_assert!(ranges_now.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }

        #[test]
        fn set_operations_are_those_of_bits(a in any_ranges(), b in any_ranges(), floor in 0u64..63) {
            let (a, b) = (as_set(&a), as_set(&b));
            prop_assert_eq!(bits(&union(&a, &b)), bits(&a) | bits(&b));
            prop_assert_eq!(bits(&minus(&a, &b)), bits(&a) & !bits(&b));
            prop_assert_eq!(bits(&intersection(&a, &b)), bits(&a) & bits(&b));
            prop_assert_eq!(bits(&from(&a, floor)), bits(&a) & (u64::MAX << floor));
            let until = (floor + 7).min(64);
            let within = bits(&[(floor, until)]) & bits(&a);
            prop_assert_eq!(Sums::new(a).overlap((floor, until)), u64::from(within.count_ones()));
        }
    }
}
