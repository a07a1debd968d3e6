//! Where a number is expected that was read several times.

/// Both ends are included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub least: f64,
    /// The upper end.
    pub most: f64,
}

/// Student's t for a probability of 95 %, two-sided, by degrees of freedom from 1 on (any table of the distribution).
const T_95: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

/// How values scatter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scatter {
    /// By amounts.
    Amounts,
    /// By factors, as ratios do: that of two numbers and its inverse are sure or unsure alike.
    Factors,
}

impl Interval {
    /// The interval of confidence of the mean (95 %), and all values, within the bounds that no value can pass. `None`
    /// with fewer than two values. That of factors is of the geometric mean; values of 0 have none.
    pub(super) fn of(values: &[f64], bounds: (f64, f64), scatter: Scatter) -> Option<Self> {
        if scatter == Scatter::Factors && values.iter().all(|value| *value > 0.0) {
            let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
            let Self { least, most } = Self::around_mean(&logarithms)?;
            // The logarithm of a value gives it back but for the last digits.
            let least = values.iter().copied().fold(least.exp(), f64::min);
            let most = values.iter().copied().fold(most.exp(), f64::max);
            return Some(Self::sure(values).unwrap_or(Self { least, most }).within(bounds));
        }
        Some(Self::around_mean(values)?.within(bounds))
    }

    /// Of values that are all the same.
    fn sure(values: &[f64]) -> Option<Self> {
        let first = *values.first()?;
        let is_same = values.iter().all(|value| value.to_bits() == first.to_bits());
        is_same.then_some(Self { least: first, most: first })
    }

    fn within(self, (least, most): (f64, f64)) -> Self {
        Self { least: self.least.max(least), most: self.most.min(most) }
    }

    fn around_mean(values: &[f64]) -> Option<Self> {
        let n = values.len();
        let t = T_95.get(n.checked_sub(2)?).or(T_95.last()).copied()?;
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let half = t * (squares / (n - 1) as f64 / n as f64).sqrt();
        let least = values.iter().copied().fold(mean - half, f64::min);
        let most = values.iter().copied().fold(mean + half, f64::max);
        Some(Self { least, most })
    }
}

#[cfg(test)]
mod tests {
    use super::Scatter::{Amounts, Factors};
    use super::*;

    const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

    #[test]
    fn it_is_that_of_students_t() {
        let Interval { least, most } = Interval::of(&[1.0, 2.0, 3.0], ANY, Amounts).unwrap();
        // 2 ± 4.303 · 1 / √3.
        assert!((least + 0.4843).abs() < 1e-3 && (most - 4.4843).abs() < 1e-3, "{least} {most}");
    }

    #[test]
    fn it_has_all_values_and_stays_in_its_bounds() {
        // 0.23 ± 2.26 · 0.1 has not the outlier.
        let values = [vec![0.2; 10], vec![1.0]].concat();
        assert_eq!(Interval::of(&values, ANY, Amounts).unwrap().most, 1.0);
        let within = Interval::of(&[0.9, 1.0], (0.0, 1.0), Amounts).unwrap();
        assert!((within.least - 0.3147).abs() < 1e-9 && within.most == 1.0, "{within:?}");
    }

    #[test]
    fn one_value_has_none_and_equal_values_are_sure() {
        assert_eq!(Interval::of(&[1.0], ANY, Amounts), None);
        let sure = Interval::of(&[8.0, 8.0, 8.0], ANY, Amounts).unwrap();
        assert_eq!((sure.least, sure.most), (8.0, 8.0));
    }

    #[test]
    fn a_ratio_and_its_inverse_are_sure_alike() {
        let values = [4.0, 8.0, 16.0];
        let Interval { least, most } = Interval::of(&values, ANY, Factors).unwrap();
        let inverse = Interval::of(&values.map(|value| 1.0 / value), ANY, Factors).unwrap();
        assert!((least * inverse.most - 1.0).abs() < 1e-9, "{least} {inverse:?}");
        assert!((most * inverse.least - 1.0).abs() < 1e-9, "{most} {inverse:?}");
        // 8 times or over exp(4.303 · ln 2 / √3).
        assert!((most - 44.77).abs() < 0.05, "{most}");
        let sure = Interval::of(&[5.1; 3], ANY, Factors).unwrap();
        assert_eq!((sure.least, sure.most), (5.1, 5.1));
        assert!(Interval::of(&[0.0, 1.0, 2.0], ANY, Factors).unwrap().least < 0.0);
    }
}
