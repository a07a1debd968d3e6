//! Bins that suit the data: of one width where values are alike, of one ratio where they span
//! decades.
//!
//! One width follows the rule of Freedman and Diaconis ("On the histogram as a density estimator",
//! 1981): twice the interquartile range over the cube root of the count. Here it is rounded to 1,
//! 2 or 5 times a power of ten, so that bins have readable edges.

use sockscope_record::statistics::percentile;

use crate::scale::tick_step;

/// From this ratio of largest to smallest on, bins are logarithmic.
const LOG_RATIO_MIN: u64 = 100;
/// Logarithmic bins in each decade.
const BINS_PER_DECADE: f64 = 10.0;
/// Smaller values count as this one on a logarithmic axis, which has no zero.
pub const LOG_FLOOR: u64 = 10;
/// Bins of one width are widened until there are no more than this.
const BINS_MAX: f64 = 80.0;

/// Counts of values between edges; bin `i` holds `edges[i] <= value < edges[i + 1]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Rising; one more than there are counts.
    pub edges: Vec<f64>,
    /// Values in each bin.
    pub counts: Vec<u64>,
    /// The edges grow by a ratio.
    pub is_log: bool,
}

impl Histogram {
    /// Bins for `sorted`, which rises; `None` when it is empty.
    pub fn of(sorted: &[u64]) -> Option<Self> {
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        let is_log = last / first.max(LOG_FLOOR) >= LOG_RATIO_MIN;
        let edges = if is_log { log_edges(first, last) } else { even_edges(sorted, first, last) };
        let mut counts = vec![0; edges.len() - 1];
        let mut bin = 0;
        for value in sorted {
            while bin + 1 < counts.len() && *value as f64 >= edges[bin + 1] {
                bin += 1;
            }
            counts[bin] += 1;
        }
        Some(Self { edges, counts, is_log })
    }
}

fn log_edges(first: u64, last: u64) -> Vec<f64> {
    let decade = |value: u64| (value.max(LOG_FLOOR) as f64).log10() * BINS_PER_DECADE;
    let (from, to) = (decade(first).floor() as i32, decade(last).floor() as i32 + 1);
    (from..=to).map(|index| 10f64.powf(f64::from(index) / BINS_PER_DECADE)).collect()
}

fn even_edges(sorted: &[u64], first: u64, last: u64) -> Vec<f64> {
    let quartile = |percent| percentile(sorted, percent).unwrap_or(0) as f64;
    let spread = quartile(75) - quartile(25);
    let rule = 2.0 * spread / (sorted.len() as f64).cbrt();
    let range = (last - first) as f64;
    // Round widths are a factor of 2.5 apart at most: the next one above a little less than the
    // rule's is the nearest, as ratios go.
    // No reader needs a bin below a thousandth of its value, or one below the clock's nanosecond.
    let least = (range / BINS_MAX).max(last as f64 / 1000.0);
    let width = tick_step((rule / 1.6).max(least), 1).max(1.0);
    let start = (first as f64 / width).floor();
    let end = (last as f64 / width).floor() + 1.0;
    (0..=(end - start) as usize).map(|index| (start + index as f64) * width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_that_are_alike_get_bins_of_one_round_width() {
        let delays: Vec<u64> = (0..1000).map(|index| 2_000 + index % 100).collect();
        let bins = Histogram::of(&sorted(delays)).unwrap();
        assert!(!bins.is_log);
        assert_eq!(
            bins.edges,
            [
                2000.0, 2010.0, 2020.0, 2030.0, 2040.0, 2050.0, 2060.0, 2070.0, 2080.0, 2090.0,
                2100.0
            ]
        );
        assert_eq!(bins.counts, [100; 10]);
    }

    #[test]
    fn values_over_decades_get_bins_of_one_ratio() {
        let bins = Histogram::of(&[1_000, 1_100, 40_000_000]).unwrap();
        assert!(bins.is_log);
        assert_eq!(bins.counts.first(), Some(&2));
        assert_eq!(bins.counts.last(), Some(&1));
    }

    #[test]
    fn equal_values_and_zeros_have_a_bin() {
        assert_eq!(Histogram::of(&[0, 0, 0]).unwrap().counts, [3]);
        assert_eq!(Histogram::of(&[5_000; 4]).unwrap().counts, [4]);
        assert_eq!(Histogram::of(&[u64::MAX]).unwrap().counts, [1]);
        assert_eq!(Histogram::of(&[]), None);
    }

    proptest! {
        #[test]
        fn every_value_is_in_the_bin_that_its_edges_say(
            delays in prop::collection::vec(prop_oneof![0u64..100, 0u64..1_000_000, any::<u64>()], 1..200)
        ) {
            let delays = sorted(delays);
            let bins = Histogram::of(&delays).unwrap();
            prop_assert_eq!(bins.counts.iter().sum::<u64>(), delays.len() as u64);
            prop_assert!(bins.edges.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(bins.counts.len() <= 250, "{}", bins.counts.len());
        }
    }

    fn sorted(mut delays: Vec<u64>) -> Vec<u64> {
        delays.sort_unstable();
        delays
    }
}
