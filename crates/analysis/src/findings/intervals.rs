//! Sets of times: sorted, disjoint, half-open intervals of nanoseconds.
//!
//! Rules express "the time in which A held, without the time that B explains" with them, so that
//! no two rules count the same nanosecond.

/// From `start_ns` on, up to but without `end_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Interval {
    pub start_ns: u64,
    pub end_ns: u64,
}

impl Interval {
    pub(super) fn new(start_ns: u64, end_ns: u64) -> Self {
        Self { start_ns, end_ns }
    }

    pub(super) fn duration_ns(self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// Intervals in time order that neither overlap nor touch; none of them is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Intervals(Vec<Interval>);

impl Intervals {
    /// The union of `intervals`, which may overlap and be in any order.
    pub(super) fn union_of(intervals: impl IntoIterator<Item = Interval>) -> Self {
        let mut all: Vec<_> = intervals.into_iter().filter(|one| one.duration_ns() > 0).collect();
        if !all.is_sorted() {
            all.sort_unstable();
        }
        all.dedup_by(|next, last| {
            let is_joined = next.start_ns <= last.end_ns;
            if is_joined {
                last.end_ns = last.end_ns.max(next.end_ns);
            }
            is_joined
        });
        debug_assert!(all.windows(2).all(|pair| pair[0].end_ns < pair[1].start_ns));
        Self(all)
    }

    /// The same, with the gaps that are shorter than this.
    pub(super) fn with_gaps_below(&self, gap_ns: u64) -> Self {
        let mut all = self.0.clone();
        all.dedup_by(|next, last| {
            let is_joined = next.start_ns - last.end_ns < gap_ns;
            if is_joined {
                last.end_ns = next.end_ns;
            }
            is_joined
        });
        Self(all)
    }

    /// The times in both.
    pub(super) fn intersect(&self, other: &Self) -> Self {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            let common = Interval::new(a.start_ns.max(b.start_ns), a.end_ns.min(b.end_ns));
            if common.duration_ns() > 0 {
                both.push(common);
            }
            if a.end_ns <= b.end_ns {
                left.next()
            } else {
                right.next()
            };
        }
        let both = Self(both);
        debug_assert!(both.total_ns() <= self.total_ns().min(other.total_ns()));
        both
    }

    /// The times in this and not in `other`.
    pub(super) fn without(&self, other: &Self) -> Self {
        let mut rest = Vec::new();
        let mut holes = other.0.iter().peekable();
        for &Interval { mut start_ns, end_ns } in &self.0 {
            while holes.next_if(|hole| hole.end_ns <= start_ns).is_some() {}
            let mut inside = holes.clone();
            while let Some(hole) = inside.next_if(|hole| hole.start_ns < end_ns) {
                rest.push(Interval::new(start_ns, hole.start_ns));
                start_ns = hole.end_ns;
            }
            rest.push(Interval::new(start_ns, end_ns));
        }
        let rest = Self::union_of(rest);
        debug_assert_eq!(rest.total_ns() + self.intersect(other).total_ns(), self.total_ns());
        rest
    }

    /// Whether some time of `interval` is in the set.
    pub(super) fn touches(&self, interval: Interval) -> bool {
        let after = self.0.partition_point(|one| one.end_ns <= interval.start_ns);
        self.0.get(after).is_some_and(|one| one.start_ns < interval.end_ns)
    }

    /// Time of `interval` that is in the set, nanoseconds.
    pub(super) fn overlap_ns(&self, interval: Interval) -> u64 {
        let first = self.0.partition_point(|one| one.end_ns <= interval.start_ns);
        let inside = self.0[first..].iter().take_while(|one| one.start_ns < interval.end_ns);
        let common =
            inside.map(|one| one.end_ns.min(interval.end_ns) - one.start_ns.max(interval.start_ns));
        common.sum()
    }

    pub(super) fn total_ns(&self) -> u64 {
        self.0.iter().map(|one| one.duration_ns()).sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Interval> + '_ {
        self.0.iter().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(pairs: &[(u64, u64)]) -> Intervals {
        Intervals::union_of(pairs.iter().map(|&(start, end)| Interval::new(start, end)))
    }

    #[test]
    fn touching_intervals_become_one_and_empty_ones_vanish() {
        assert_eq!(set(&[(5, 9), (9, 12), (20, 20), (1, 3)]), set(&[(1, 3), (5, 12)]));
    }

    #[test]
    fn one_hole_may_lie_in_two_intervals() {
        assert_eq!(set(&[(0, 10), (20, 30)]).without(&set(&[(5, 25)])), set(&[(0, 5), (25, 30)]));
    }

    fn contains(set: &Intervals, at_ns: u64) -> bool {
        set.touches(Interval::new(at_ns, at_ns + 1))
    }

    proptest! {
        #[test]
        fn each_instant_is_treated_alone(
            a in prop::collection::vec((0u64..60, 0u64..60), 0..8),
            b in prop::collection::vec((0u64..60, 0u64..60), 0..8),
        ) {
            let (a, b) = (set(&a), set(&b));
            let (both, rest) = (a.intersect(&b), a.without(&b));
            for at_ns in 0..60 {
                let (in_a, in_b) = (contains(&a, at_ns), contains(&b, at_ns));
                prop_assert_eq!(contains(&both, at_ns), in_a && in_b);
                prop_assert_eq!(contains(&rest, at_ns), in_a && !in_b);
            }
            prop_assert_eq!(both.total_ns() + rest.total_ns(), a.total_ns());
        }
    }
}
