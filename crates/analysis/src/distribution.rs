//! Exact distributions.

use crate::Distribution;

impl Distribution {
    /// Of these values, each weighing the same; `None` when there are none. Their order is changed.
    ///
    /// A percentile is the smallest value that is not below that share of all values (nearest rank,
    /// no interpolation), so that each one was in fact observed.
    #[must_use]
    pub fn of(values: &mut [u64]) -> Option<Self> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let sum: u128 = values.iter().map(|&value| u128::from(value)).sum();
        let (mut min, mut max) = (u64::MAX, 0);
        for &value in &*values {
            (min, max) = (min.min(value), max.max(value));
        }
        // Each selection leaves everything above its place to the right of it.
        let [r50, r90, r99] = [50, 90, 99].map(|percent| rank(count, percent));
        let p50 = select(values, r50);
        let p90 = select(&mut values[r50..], r90 - r50);
        let p99 = select(&mut values[r90..], r99 - r90);
        let mean = sum as f64 / count as f64;
        Some(Self { count: count as u64, mean, min, p50, p90, p99, max })
    }
}

/// Index of the nearest rank: the smallest `r` with `(r + 1) / count >= percent / 100`.
fn rank(count: usize, percent: usize) -> usize {
    // Split so that no product overflows.
    (count / 100 * percent + (count % 100 * percent).div_ceil(100)).saturating_sub(1)
}

fn select(values: &mut [u64], index: usize) -> u64 {
    *values.select_nth_unstable(index).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_of_one_to_a_thousand_are_their_own_rank() {
        let mut values: Vec<u64> = (1..=1000).rev().collect();
        let all = Distribution::of(&mut values).unwrap();
        assert_eq!((all.p50, all.p90, all.p99, all.max), (500, 900, 990, 1000));
        assert_eq!((all.count, all.min, all.mean), (1000, 1, 500.5));
    }

    #[test]
    fn one_value_is_every_percentile() {
        let all = Distribution::of(&mut [7]).unwrap();
        assert_eq!((all.min, all.p50, all.p90, all.p99, all.max), (7, 7, 7, 7, 7));
    }

    #[test]
    fn no_values_have_no_distribution() {
        assert_eq!(Distribution::of(&mut []), None);
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_list(mut values in prop::collection::vec(any::<u64>(), 1..400)) {
            let all = Distribution::of(&mut values).unwrap();
            values.sort_unstable();
            let nearest = |percent: usize| values[(percent * values.len()).div_ceil(100) - 1];
            prop_assert_eq!([all.p50, all.p90, all.p99], [nearest(50), nearest(90), nearest(99)]);
            prop_assert_eq!([all.min, all.max], [values[0], values[values.len() - 1]]);
        }
    }
}
