//! Whether two samples differ, as far as they can show it.
//!
//! The interval of a median is that of order statistics (W. J. Conover, Practical Nonparametric Statistics, §3.2): it
//! asks nothing of the distribution. With 97.5 % for each of two medians, the interval of their difference has 95 % or
//! more, whether the samples depend on each other or not (Bonferroni). It counts the spread within the runs. The
//! spread between runs is in it only where a run has several rounds.

/// Chance that a median lies below its interval, and that it lies above.
const TAIL: f64 = 0.0125;

/// The normal quantile of [`TAIL`].
const TAIL_QUANTILE: f64 = 2.2414;

/// Up to this number of values the binomial distribution is summed up.
const EXACT_MAX: usize = 1000;

/// Fewer values have no interval: all may lie on one side of the median.
pub(crate) const VALUES_MIN: usize = 7;

/// How the median of a later sample differs from that of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Every value is the same.
    Same,
    /// The interval of the difference contains 0.
    NotShown(Difference),
    /// It does not.
    Shown(Difference),
    /// A sample has fewer than [`VALUES_MIN`] values: the medians differ by this, which may be chance.
    TooFew(i64),
    /// A sample is not whole or not there.
    Unknown,
}

/// Later less first, of the medians, and the ends of its interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) value: i64,
    pub(crate) low: i64,
    pub(crate) high: i64,
}

impl Change {
    /// Of samples in ascending order. Where values of one are missing, a difference may be shown, but no sameness.
    pub(crate) fn of(first: &[u64], later: &[u64], are_whole: bool) -> Self {
        let (Some(first_p50), Some(later_p50)) = (median(first), median(later)) else {
            return Self::Unknown;
        };
        let value = difference(later_p50, first_p50);
        let change = match (median_interval(first), median_interval(later)) {
            _ if first == later => Self::Same,
            (Some((first_low, first_high)), Some((later_low, later_high))) => {
                let low = difference(later_low, first_high);
                let high = difference(later_high, first_low);
                let difference = Difference { value, low, high };
                if low > 0 || high < 0 {
                    Self::Shown(difference)
                } else {
                    Self::NotShown(difference)
                }
            }
            _ => Self::TooFew(value),
        };
        match change {
            Self::Same | Self::NotShown(_) | Self::TooFew(_) if !are_whole => Self::Unknown,
            change => change,
        }
    }

    /// The word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::NotShown(_) => "no_difference_shown",
            Self::Shown(difference) if difference.value > 0 => "higher",
            Self::Shown(_) => "lower",
            Self::TooFew(_) => "too_few",
            Self::Unknown => "unknown",
        }
    }
}

fn median(sorted: &[u64]) -> Option<u64> {
    sockscope_record::statistics::percentile(sorted, 50)
}

fn difference(left: u64, right: u64) -> i64 {
    let distance = i64::try_from(left.abs_diff(right)).unwrap_or(i64::MAX);
    if left < right { -distance } else { distance }
}

/// The values between which the median lies.
fn median_interval(sorted: &[u64]) -> Option<(u64, u64)> {
    let outside = outside(sorted.len());
    Some((*sorted.get(outside.checked_sub(1)?)?, *sorted.get(sorted.len() - outside)?))
}

/// Rank of the lowest value of the interval, from 1; 0 where there is no interval.
fn outside(count: usize) -> usize {
    if count > EXACT_MAX {
        let count = count as f64;
        return (count / 2.0 - TAIL_QUANTILE * count.sqrt() / 2.0).floor() as usize;
    }
    // Of `count` values, the chance that `below` of them lie below the median, and the sum of these chances.
    let mut chance = 0.5f64.powi(count as i32);
    let (mut below, mut sum) = (0, chance);
    while sum <= TAIL && below < count {
        chance *= (count - below) as f64 / (below + 1) as f64;
        below += 1;
        sum += chance;
    }
    below
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_interval_of_a_median_has_the_ranks_of_the_tables() {
        // Binomial distribution with p = 1/2: P(X <= k) <= 0.0125 below these ranks.
        assert_eq!([6, 7, 8, 9, 10, 20, 100].map(outside), [0, 1, 1, 1, 2, 5, 39]);
        assert_eq!(VALUES_MIN, (0..).find(|count| outside(*count) > 0).unwrap());
    }

    #[test]
    fn the_approximation_continues_the_exact_ranks() {
        let exact = outside(EXACT_MAX) as i64;
        assert!((outside(EXACT_MAX + 1) as i64 - exact).abs() <= 1);
    }

    #[test]
    fn values_apart_are_a_difference_and_values_among_each_other_are_none() {
        let from = |low: u64| (low..low + 20).collect::<Vec<_>>();
        let shown = Difference { value: 100, low: 100 - 11, high: 100 + 11 };
        assert_eq!(Change::of(&from(50), &from(150), true), Change::Shown(shown));
        assert_eq!(Change::of(&from(50), &from(150), true).name(), "higher");
        assert_eq!(Change::of(&from(150), &from(50), true).name(), "lower");
        assert_eq!(Change::of(&from(50), &from(52), true).name(), "no_difference_shown");
    }

    #[test]
    fn few_values_show_nothing() {
        assert_eq!(Change::of(&[1, 2, 3], &[1001, 1002, 1003], true), Change::TooFew(1000));
        assert_eq!(Change::of(&[7], &[], true), Change::Unknown);
    }

    #[test]
    fn what_is_not_whole_is_never_the_same() {
        let alike: Vec<u64> = (0..50).collect();
        assert_eq!(Change::of(&alike, &alike, true), Change::Same);
        assert_eq!(Change::of(&alike, &alike, false), Change::Unknown);
        let far: Vec<u64> = (500..550).collect();
        assert_eq!(Change::of(&alike, &far, false).name(), "higher");
    }

    proptest! {
        #[test]
        fn the_interval_contains_the_difference(
            mut first in prop::collection::vec(any::<u64>(), 7..80),
            mut later in prop::collection::vec(any::<u64>(), 7..80),
        ) {
            first.sort_unstable();
            later.sort_unstable();
            if let Change::Shown(it) | Change::NotShown(it) = Change::of(&first, &later, true) {
                prop_assert!(it.low <= it.value && it.value <= it.high, "{:?}", it);
            }
        }
    }
}
