//! Many events on few pixels: an envelope per pixel column, which hides no extreme.
//!
//! A figure of ten million events has only some hundred pixel columns. Each column keeps the
//! smallest and largest value that occurs in it; nothing between is averaged, and nothing outside
//! is drawn. Values and positions are in pixels or base units, as the caller has them.

/// Smallest and largest value within one pixel column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Column {
    /// Middle of the column.
    pub x_px: f64,
    /// Smallest value in the column.
    pub min: f64,
    /// Largest value in the column.
    pub max: f64,
    /// Sum of values, each times the pixels for which it held, and of those pixels.
    area: f64,
    known_px: f64,
}

impl Column {
    /// Mean of a step curve over the known part of the column; of single events, their middle.
    pub fn mean(&self) -> f64 {
        if self.known_px > 0.0 { self.area / self.known_px } else { (self.min + self.max) / 2.0 }
    }
}

/// The columns of `[left_px, left_px + width_px]` that hold events, from left to right.
///
/// `events` are (pixel, value) in any order; one outside counts for the nearest column.
pub fn envelope(
    events: impl Iterator<Item = (f64, f64)>,
    left_px: f64,
    width_px: f64,
) -> Vec<Column> {
    let mut columns = empty_columns(left_px, width_px);
    let last = columns.len() - 1;
    for (x_px, value) in events {
        // A negative or impossible difference casts to column 0.
        let index = ((x_px - left_px) as usize).min(last);
        include(&mut columns[index], value);
    }
    columns.retain(|column| column.min <= column.max);
    columns
}

/// As [`envelope`], for a curve that keeps each value until the next step.
///
/// `steps` are (pixel, value) from left to right, `None` being "unknown": columns that are unknown
/// throughout have no entry. The last value holds to the right edge.
pub fn step_envelope(
    steps: impl Iterator<Item = (f64, Option<f64>)>,
    left_px: f64,
    width_px: f64,
) -> Vec<Column> {
    let mut columns = empty_columns(left_px, width_px);
    let last = columns.len() - 1;
    let (mut held, mut reached, mut reached_px) = (None, 0, 0.0);
    for (x_px, value) in steps {
        let step_px = (x_px - left_px).clamp(reached_px, (last + 1) as f64);
        let index = (step_px as usize).min(last);
        hold(&mut columns[reached..=index], held, (reached, reached_px, step_px));
        if let Some(value) = value {
            include(&mut columns[index], value);
        }
        (held, reached, reached_px) = (value, index, step_px);
    }
    hold(&mut columns[reached..], held, (reached, reached_px, (last + 1) as f64));
    columns.retain(|column| column.min <= column.max);
    columns
}

fn empty_columns(left_px: f64, width_px: f64) -> Vec<Column> {
    let count = (width_px.ceil() as usize).clamp(1, 1 << 16);
    (0..count)
        .map(|index| Column {
            x_px: left_px + index as f64 + 0.5,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            area: 0.0,
            known_px: 0.0,
        })
        .collect()
}

fn include(column: &mut Column, value: f64) {
    column.min = column.min.min(value);
    column.max = column.max.max(value);
}

/// `held` from pixel `from_px` to `to_px`, in columns numbered from `first` on.
fn hold(columns: &mut [Column], held: Option<f64>, (first, from_px, to_px): (usize, f64, f64)) {
    let Some(value) = held else { return };
    for (index, column) in columns.iter_mut().enumerate() {
        let left_px = (first + index) as f64;
        let known_px = (to_px.min(left_px + 1.0) - from_px.max(left_px)).max(0.0);
        include(column, value);
        column.area += value * known_px;
        column.known_px += known_px;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn summary(columns: &[Column]) -> String {
        let words: Vec<_> =
            columns.iter().map(|c| format!("{}: {}..{}", c.x_px, c.min, c.max)).collect();
        words.join(", ")
    }

    #[test]
    fn a_column_keeps_its_extremes_and_an_empty_one_is_absent() {
        let events = [(10.1, 5.0), (10.9, 2.0), (12.0, 7.0)];
        assert_eq!(summary(&envelope(events.into_iter(), 10.0, 4.0)), "10.5: 2..5, 12.5: 7..7");
    }

    #[test]
    fn a_step_holds_until_the_next_one_and_unknown_leaves_a_gap() {
        let steps = [(0.0, Some(3.0)), (1.5, Some(8.0)), (1.7, None), (3.2, Some(0.0))];
        assert_eq!(
            summary(&step_envelope(steps.into_iter(), 0.0, 5.0)),
            "0.5: 3..3, 1.5: 3..8, 3.5: 0..0, 4.5: 0..0"
        );
    }

    #[test]
    fn a_spike_hardly_moves_the_mean_of_its_column() {
        let steps = [(0.0, Some(0.0)), (0.5, Some(100.0)), (0.51, Some(0.0)), (2.5, None)];
        let means: Vec<f64> =
            step_envelope(steps.into_iter(), 0.0, 4.0).iter().map(Column::mean).collect();
        assert_eq!(means.len(), 3, "the last column is unknown");
        assert!((means[0] - 1.0).abs() < 1e-9 && means[1..] == [0.0, 0.0], "{means:?}");
    }

    proptest! {
        #[test]
        fn a_mean_lies_between_the_extremes(
            mut steps in prop::collection::vec((0.0..300.0f64, prop::option::of(0.0..1e6f64)), 1..99)
        ) {
            steps.sort_by(|left, right| left.0.total_cmp(&right.0));
            for column in step_envelope(steps.into_iter(), 0.0, 300.0) {
                let slack = column.max * 1e-9 + 1e-9;
                prop_assert!(column.mean() >= column.min - slack, "{column:?}");
                prop_assert!(column.mean() <= column.max + slack, "{column:?}");
            }
        }

        #[test]
        fn no_event_lies_outside_the_envelope(
            events in prop::collection::vec((-50.0..900.0f64, 0.0..1e9f64), 1..300)
        ) {
            let columns = envelope(events.iter().copied(), 60.0, 700.0);
            let lowest = events.iter().map(|event| event.1).fold(f64::INFINITY, f64::min);
            let highest = events.iter().map(|event| event.1).fold(0.0, f64::max);
            prop_assert_eq!(columns.iter().map(|c| c.min).fold(f64::INFINITY, f64::min), lowest);
            prop_assert_eq!(columns.iter().map(|c| c.max).fold(0.0, f64::max), highest);
            prop_assert!(columns.len() <= 700);
        }
    }
}
