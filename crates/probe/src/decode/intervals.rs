//! Times in which hits were missed.

use std::collections::VecDeque;

/// Intervals remembered, at most; older ones become one.
const INTERVALS_MAX: usize = 4_096;

/// Intervals in order of time, apart from each other; from and until, both included.
#[derive(Default)]
pub(super) struct Intervals(VecDeque<(u64, u64)>);

impl Intervals {
    /// None of those before ends later.
    pub(super) fn add(&mut self, since_ns: u64, until_ns: u64) {
        let Self(intervals) = self;
        if let Some(last) = intervals.back_mut()
            && since_ns <= last.1
        {
            *last = (last.0.min(since_ns), last.1.max(until_ns));
            return;
        }
        if intervals.len() == INTERVALS_MAX
            && let Some(oldest) = intervals.pop_front()
            && let Some(second) = intervals.front_mut()
        {
            second.0 = oldest.0;
        }
        intervals.push_back((since_ns, until_ns.max(since_ns)));
        debug_assert!(intervals.len() <= INTERVALS_MAX);
    }

    /// The sum of the parts of intervals between two times.
    pub(super) fn within_ns(&self, from_ns: u64, until_ns: u64) -> u64 {
        let later = self.0.iter().rev().take_while(|(_, until)| *until > from_ns);
        later.fold(0, |sum: u64, (since, until)| {
            let inside = (*until).min(until_ns).saturating_sub((*since).max(from_ns));
            sum.saturating_add(inside)
        })
    }

    /// The end of the last interval that had begun by then; 0 if none had.
    pub(super) fn until_ns(&self, at_ns: u64) -> u64 {
        let begun = self.0.iter().rfind(|(since, _)| *since <= at_ns);
        begun.map_or(0, |(_, until)| *until)
    }

    /// Whether an interval has a part of the time between two times.
    pub(super) fn touch(&self, from_ns: u64, until_ns: u64) -> bool {
        let mut later = self.0.iter().rev().take_while(|(_, until)| *until >= from_ns);
        later.any(|(since, _)| *since <= until_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_that_meet_are_one() {
        let mut intervals = Intervals::default();
        for (since, until) in [(10, 20), (20, 30), (40, 50)] {
            intervals.add(since, until);
        }
        assert_eq!(intervals.0, [(10, 30), (40, 50)]);
        assert_eq!([intervals.within_ns(0, 60), intervals.within_ns(15, 45)], [30, 20]);
        assert_eq!([9, 10, 35, 40].map(|at_ns| intervals.until_ns(at_ns)), [0, 30, 30, 50]);
        let touched = [(0, 9), (0, 10), (31, 39), (30, 39), (31, 40), (51, 60)];
        let touched = touched.map(|(from, until)| intervals.touch(from, until));
        assert_eq!(touched, [false, true, false, true, true, false]);
    }

    #[test]
    fn of_more_than_are_remembered_the_oldest_become_one() {
        let mut intervals = Intervals::default();
        (1..=INTERVALS_MAX as u64 + 2)
            .for_each(|number| intervals.add(number * 10, number * 10 + 1));
        assert_eq!((intervals.0.len(), intervals.0[0]), (INTERVALS_MAX, (10, 31)));
    }
}
