//! A set of times, and the numbers that stand for it.

use sockscope_record::statistics::percentile;

/// Times in nanoseconds, sorted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Distribution {
    sorted_ns: Vec<u64>,
}

impl Distribution {
    /// Adds times; cheap for many at once.
    pub fn extend(&mut self, times_ns: impl IntoIterator<Item = u64>) {
        self.sorted_ns.extend(times_ns);
        self.sorted_ns.sort_unstable();
    }

    /// The times, shortest first.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.sorted_ns.iter().copied()
    }

    /// How many there are.
    pub fn n(&self) -> usize {
        self.sorted_ns.len()
    }

    /// Their mean, rounded down; `None` of none.
    pub fn mean_ns(&self) -> Option<u64> {
        let sum: u128 = self.sorted_ns.iter().map(|ns| u128::from(*ns)).sum();
        // The mean of 64-bit numbers fits into 64 bits.
        sum.checked_div(self.n() as u128).map(|mean| mean as u64)
    }

    /// The shortest.
    pub fn min_ns(&self) -> Option<u64> {
        self.sorted_ns.first().copied()
    }

    /// The longest.
    pub fn max_ns(&self) -> Option<u64> {
        self.sorted_ns.last().copied()
    }

    /// The percentile of [`sockscope_record::statistics`].
    pub fn percentile_ns(&self, percent: u32) -> Option<u64> {
        percentile(&self.sorted_ns, percent)
    }
}

impl FromIterator<u64> for Distribution {
    fn from_iter<I: IntoIterator<Item = u64>>(times_ns: I) -> Self {
        let mut all = Self::default();
        all.extend(times_ns);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_ranks_are_values_of_the_set() {
        let times: Distribution = [30, 10, 20, 40].into_iter().collect();
        let percentiles = [0, 25, 50, 75, 76, 100].map(|percent| times.percentile_ns(percent));
        assert_eq!(percentiles, [10, 10, 20, 30, 40, 40].map(Some));
        assert_eq!(
            (times.mean_ns(), times.min_ns(), times.max_ns()),
            (Some(25), Some(10), Some(40))
        );
    }

    #[test]
    fn nothing_has_no_mean() {
        let none = Distribution::default();
        assert_eq!((none.n(), none.mean_ns(), none.percentile_ns(50)), (0, None, None));
    }
}
