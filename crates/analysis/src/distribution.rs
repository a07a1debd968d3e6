//! Exact distributions.

use sockscope_record::statistics::percentile_index;

use crate::Distribution;

impl Distribution {
    /// Of these values, each weighing the same; `None` without a value. Their order is changed.
    ///
    /// Percentiles are those of [`sockscope_record::statistics`]: each is one of the values.
    pub fn of(values: &mut [u64]) -> Option<Self> {
        let count = values.len();
        let index = |percent| percentile_index(count, percent);
        let (i50, i90, i99) = (index(50)?, index(90)?, index(99)?);
        let sum: u128 = values.iter().map(|&value| u128::from(value)).sum();
        let (mut min, mut max) = (u64::MAX, 0);
        for &value in &*values {
            (min, max) = (min.min(value), max.max(value));
        }
        if min == max {
            // Common: nothing waits where a device has no queue.
            return Some(Self {
                count: count as u64,
                mean: sum as f64 / count as f64,
                min,
                p50: min,
                p90: min,
                p99: min,
                max,
            });
        }
        // Each selection leaves everything above its place to the right of it.
        let p50 = select(values, i50);
        let p90 = select(&mut values[i50..], i90 - i50);
        let p99 = select(&mut values[i90..], i99 - i90);
        debug_assert!([min, p50, p90, p99, max].is_sorted());
        let mean = sum as f64 / count as f64;
        Some(Self { count: count as u64, mean, min, p50, p90, p99, max })
    }
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
