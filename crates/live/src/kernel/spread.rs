//! How far the runs of a case lie apart.

/// Half of the distance from the least to the greatest run of each case, in percent of the median.
#[derive(Debug, Default)]
pub(super) struct Spread {
    percents: Vec<f64>,
}

impl Spread {
    /// Adds the runs of a case; a single one has no spread.
    pub(super) fn add(&mut self, mut values: Vec<f64>) {
        values.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (values.first(), values.last()) else { return };
        let median = values[values.len() / 2];
        if values.len() > 1 && median > 0.0 {
            self.percents.push((most - least) / 2.0 / median * 100.0);
        }
    }

    /// In a sentence; `None` without two runs of one case.
    pub(super) fn words(&mut self) -> Option<String> {
        self.percents.sort_by(f64::total_cmp);
        let median = *self.percents.get(self.percents.len() / 2)?;
        let most = *self.percents.last()?;
        Some(format!(
            "runs of a case differ by ±{median:.1} % (median of the cases; at most ±{most:.1} %)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_half_the_distance_of_the_outer_runs() {
        let mut spread = Spread::default();
        spread.add(vec![110.0, 90.0, 100.0]);
        spread.add(vec![5.0]);
        spread.add(vec![200.0, 200.0]);
        spread.add(Vec::new());
        assert_eq!(spread.percents, [10.0, 0.0]);
        let words = "runs of a case differ by ±10.0 % (median of the cases; at most ±10.0 %)";
        assert_eq!(spread.words().as_deref(), Some(words));
        assert_eq!(Spread::default().words(), None);
    }
}
