//! Medians and their intervals.

/// A median with an interval that holds it with at least 95 % confidence.
#[derive(Debug, Clone, Copy)]
pub struct Median {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Median {
    /// Of at least one value.
    ///
    /// The interval is from order statistics and assumes no distribution: between the k-th
    /// smallest and the k-th largest of n values the median lies with probability
    /// 1 - 2·P(B < k), B binomial of n and 1/2 (W. J. Conover, Practical Nonparametric Statistics,
    /// 3rd edition, §3.2). The k is the largest that leaves 95 %: 7 of 24. Under six values none
    /// does, and the interval is the range.
    pub fn of(mut values: Vec<f64>) -> Self {
        assert!(!values.is_empty(), "a median needs values");
        values.sort_by(f64::total_cmp);
        let n = values.len();
        let k = rank(n);
        let value = f64::midpoint(values[(n - 1) / 2], values[n / 2]);
        Self { value, low: values[k - 1], high: values[n - k] }
    }

    /// Between the ends of the interval.
    pub fn width(self) -> f64 {
        self.high - self.low
    }

    /// Whether the whole interval is at or above the target, `None` where the target lies within.
    pub fn is_at_least(self, target: f64) -> Option<bool> {
        (self.low >= target || self.high < target).then_some(self.low >= target)
    }

    /// The same of a target that is not to be passed.
    pub fn is_at_most(self, target: f64) -> Option<bool> {
        (self.high <= target || self.low > target).then_some(self.high <= target)
    }

    /// As `0.91 (0.89-0.92)`.
    pub fn text(self, decimals: usize) -> String {
        let Self { value, low, high } = self;
        format!("{value:.decimals$} ({low:.decimals$}-{high:.decimals$})")
    }
}

/// The k of [`Median::of`], at least 1.
fn rank(n: usize) -> usize {
    let mut below = 0.0;
    let mut chance = 0.5_f64.powi(n as i32);
    for k in 1..=n {
        below += chance;
        chance *= (n - k + 1) as f64 / k as f64;
        if 2.0 * below > 0.05 {
            return (k - 1).max(1);
        }
    }
    1
}
