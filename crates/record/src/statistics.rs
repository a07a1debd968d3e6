//! Percentiles by nearest rank.
//!
//! A percentile is the smallest value that at least that share of all values does not exceed (R. J.
//! Hyndman and Y. Fan, "Sample Quantiles in Statistical Packages", 1996, definition 1). Nothing is
//! interpolated, so each percentile is a value that was observed. The median is the 50th percentile:
//! of two values in the middle the lower one.

/// The percentile of `sorted`, which rises; `None` without values. `percent` above 100 counts as 100.
pub fn percentile<T: Copy>(sorted: &[T], percent: u32) -> Option<T> {
    percentile_index(sorted.len(), percent).map(|index| sorted[index])
}

/// The index of the percentile among `count` values in rising order, for a caller that selects it
/// without sorting all; `None` without values. `percent` above 100 counts as 100.
pub fn percentile_index(count: usize, percent: u32) -> Option<usize> {
    let percent = percent.min(100) as usize;
    // The whole hundreds apart, so that no product overflows.
    let rank = count / 100 * percent + (count % 100 * percent).div_ceil(100);
    (count > 0).then(|| rank.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_percentile_is_the_value_at_its_nearest_rank() {
        let percents = [0, 25, 26, 50, 75, 76, 100, 101];
        let values = percents.map(|percent| percentile(&[10, 20, 30, 40], percent));
        assert_eq!(values, [10, 10, 20, 20, 30, 40, 40, 40].map(Some));
        assert_eq!(percentile(&[2.5], 99), Some(2.5));
        assert_eq!(percentile::<u64>(&[], 50), None);
        assert_eq!(percentile_index(usize::MAX, 100), Some(usize::MAX - 1));
    }

    proptest! {
        /// The definition, counted out.
        #[test]
        fn a_percentile_is_the_smallest_value_that_its_share_does_not_exceed(
            mut values in prop::collection::vec(0_u8..50, 1..300),
            percent in 0_u32..=100,
        ) {
            values.sort_unstable();
            let reaches = |value: u8| {
                values.iter().filter(|it| **it <= value).count() * 100 >= values.len() * percent as usize
            };
            let smallest = values.iter().copied().find(|value| reaches(*value));
            prop_assert_eq!(percentile(&values, percent), smallest);
        }
    }
}
