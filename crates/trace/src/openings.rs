//! Rows of connections in order of their opening times, to find the one that opened nearest to a time.

use std::collections::BTreeSet;

/// Rows that have something in common, as their addresses.
#[derive(Debug, Default)]
pub(crate) struct Openings {
    /// Time of opening, and index of the row. Of rows with one time the lowest index is found.
    rows: BTreeSet<(u64, usize)>,
}

impl Openings {
    /// Adds a row.
    pub(crate) fn insert(&mut self, opened_ns: u64, index: usize) {
        self.rows.insert((opened_ns, index));
    }

    /// Removes a row, which is no candidate any more.
    pub(crate) fn remove(&mut self, opened_ns: u64, index: usize) {
        self.rows.remove(&(opened_ns, index));
    }

    /// Distance in nanoseconds and index of the row that opened nearest to this time; the lower index where
    /// two are equally near. Takes a time that grows as the logarithm of the number of rows.
    pub(crate) fn nearest(&self, opened_ns: u64) -> Option<(u64, usize)> {
        let first_from = |from_ns: u64| self.rows.range((from_ns, 0)..).next().copied();
        let before = self.rows.range(..(opened_ns, 0)).next_back();
        let before = before.and_then(|&(before_ns, _)| first_from(before_ns));
        let found = before.into_iter().chain(first_from(opened_ns));
        found.map(|(at_ns, index)| (at_ns.abs_diff(opened_ns), index)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_opening_is_the_one_that_a_look_at_all_of_them_finds() {
        let times = [50, 10, 10, 30, 50, 70];
        for at_ns in 0..80_u64 {
            let mut openings = Openings::default();
            let mut left: Vec<usize> = (0..times.len()).collect();
            left.iter().for_each(|&index| openings.insert(times[index], index));
            while !left.is_empty() {
                let distance = |index: usize| (times[index].abs_diff(at_ns), index);
                let expected = left.iter().map(|&index| distance(index)).min();
                assert_eq!(openings.nearest(at_ns), expected, "{left:?} at {at_ns}");
                let taken = expected.expect("one is left").1;
                openings.remove(times[taken], taken);
                left.retain(|&index| index != taken);
            }
            assert_eq!(openings.nearest(at_ns), None);
        }
    }
}
