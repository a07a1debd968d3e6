//! The difference between rounds without a fix and rounds with it, and its interval by order statistics.
//!
//! The unit is the round, since exchanges of one round share its conditions and pooling them would make the
//! interval too narrow. The interval is that of Hodges and Lehmann: order statistics of the differences of all
//! pairs of rounds, whose coverage is that of the test of Mann and Whitney (Annals of Mathematical Statistics 18,
//! 1947). It assumes no form of the distribution.

use serde::Serialize;

/// The coverage to reach, where the rounds are enough.
const COVERAGE: f64 = 0.99;
/// Without this coverage no difference counts as shown. Four rounds of each kind reach it.
const COVERAGE_MIN: f64 = 0.95;
/// Smaller differences, as a share of the figure without the fix, do not count: two recordings of the same
/// program differ by as much.
pub const SHARE_MIN: f64 = 0.02;

/// A difference of a figure that each round has.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Difference {
    /// Median of the rounds without the fix.
    pub without: f64,
    /// Median of the rounds with it.
    pub with: f64,
    /// The second less the first.
    pub difference: f64,
    /// The interval of the difference.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The share of trials whose interval has the true difference.
    pub coverage: f64,
    /// Whether the rounds show a difference.
    pub is_shown: bool,
}

impl Difference {
    /// Between the figures of rounds without the fix and those of rounds with it; `None` without a round.
    pub fn of(without: &[f64], with: &[f64]) -> Option<Self> {
        let (before, after) = (median(without)?, median(with)?);
        let mut all: Vec<f64> =
            with.iter().flat_map(|with| without.iter().map(move |one| with - one)).collect();
        all.sort_unstable_by(f64::total_cmp);
        let (rank, coverage) = rank(without.len(), with.len());
        let (low, high) = (*all.get(rank)?, *all.get(all.len().checked_sub(rank + 1)?)?);
        let difference = after - before;
        let is_large = difference.abs() >= SHARE_MIN * before.abs();
        let found =
            Self { without: before, with: after, difference, low, high, coverage, is_shown: false };
        let is_shown = !found.is_of_too_few() && found.excludes_zero() && is_large;
        Some(Self { is_shown, ..found })
    }

    /// Whether the rounds are too few to show any difference.
    pub fn is_of_too_few(&self) -> bool {
        self.coverage < COVERAGE_MIN
    }

    /// Whether 0 is outside the interval, as printed.
    pub fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// The median; the mean of the two in the middle of an even number.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let high = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { high } else { f64::midpoint(*sorted.get(middle - 1)?, high) })
}

/// The rank of the lower end among the sorted differences, from 0, and the coverage of the interval.
fn rank(without: usize, with: usize) -> (usize, f64) {
    let counts = arrangements(without, with);
    let total: f64 = counts.iter().sum();
    let (mut rank, mut tail) = (0, counts.first().copied().unwrap_or_default());
    let coverage = |tail: f64| 1.0 - 2.0 * tail / total;
    while let Some(more) = counts.get(rank + 1)
        && coverage(tail + more) >= COVERAGE
    {
        (rank, tail) = (rank + 1, tail + more);
    }
    (rank, coverage(tail))
}

/// By the statistic of Mann and Whitney, the number of orders in which so many values of each kind can be.
fn arrangements(first: usize, second: usize) -> Vec<f64> {
    // Those of (i, j) are those of (i - 1, j), moved by j, and those of (i, j - 1).
    let mut rows = vec![vec![1.0]; second + 1];
    for _ in 0..first {
        for j in 1..=second {
            let (earlier, later) = rows.split_at_mut(j);
            let (Some(fewer), Some(row)) = (earlier.last(), later.first_mut()) else { continue };
            let mut next = vec![0.0; row.len().saturating_add(j).max(fewer.len())];
            next.iter_mut().skip(j).zip(row.iter()).for_each(|(to, from)| *to += from);
            next.iter_mut().zip(fewer).for_each(|(to, from)| *to += from);
            *row = next;
        }
    }
    rows.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(first: usize, second: usize) -> Vec<f64> {
        let mut counts = vec![0.0; first * second + 1];
        for places in 0u32..1 << (first + second) {
            if places.count_ones() as usize == first {
                let is_first = |at: usize| places >> at & 1 == 1;
                let pairs = (0..first + second).filter(|at| is_first(*at));
                let below = pairs.map(|at| (0..at).filter(|other| !is_first(*other)).count());
                counts[below.sum::<usize>()] += 1.0;
            }
        }
        counts
    }

    #[test]
    fn arrangements_are_those_that_counting_finds() {
        for (first, second) in [(1, 1), (2, 3), (3, 3), (4, 4), (5, 3)] {
            assert_eq!(arrangements(first, second), counted(first, second), "{first} {second}");
        }
    }

    /// Tables of the test have these: 2 of 70 orders, and 8 of 924 at both ends.
    #[test]
    fn four_rounds_of_each_kind_cover_97_of_100_and_six_reach_99() {
        let (rank_of_4, of_4) = rank(4, 4);
        assert_eq!(rank_of_4, 0);
        assert!((of_4 - (1.0 - 2.0 / 70.0)).abs() < 1e-9, "{of_4}");
        let (rank_of_6, of_6) = rank(6, 6);
        assert_eq!(rank_of_6, 2);
        assert!((of_6 - (1.0 - 8.0 / 924.0)).abs() < 1e-9, "{of_6}");
        assert!(rank(2, 2).1 < COVERAGE_MIN);
    }

    #[test]
    fn rounds_that_are_apart_show_a_difference() {
        let found = Difference::of(&[44.0, 43.9, 44.1, 44.0], &[0.05, 0.06, 0.05, 0.04]).unwrap();
        assert!(found.is_shown, "{found:?}");
        assert!((found.difference + 43.95).abs() < 1e-9 && found.high < -43.8, "{found:?}");
    }

    #[test]
    fn rounds_that_overlap_or_differ_by_little_show_none() {
        let overlapping = Difference::of(&[1.0, 2.0, 3.0, 4.0], &[1.5, 2.5, 3.5, 0.5]).unwrap();
        assert!(!overlapping.is_shown && overlapping.low < 0.0, "{overlapping:?}");
        let small = Difference::of(&[100.0; 4], &[101.0; 4]).unwrap();
        assert!(!small.is_shown && small.low > 0.0, "{small:?}");
        let few = Difference::of(&[44.0, 43.0], &[1.0, 2.0]).unwrap();
        assert!(!few.is_shown, "{few:?}");
        assert_eq!(Difference::of(&[], &[1.0]), None);
    }
}
