//! A step curve at any zoom: the extremes of each column of a picture, exact, without a look at each step.
//!
//! Above the steps lie levels of cells. A cell has the smallest and the largest value of eight cells below it. A column
//! takes whole cells in its middle and single steps at its ends, so that its cost grows with the logarithm of the
//! steps. No value is left out: a spike of one step shows at any zoom.

/// Cells, or steps, below one cell.
const FACTOR: usize = 8;

/// A curve that changes in steps, with its levels of detail.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Detail {
    times_ns: Vec<u64>,
    values: Vec<f64>,
    levels: Vec<Vec<Cell>>,
}

/// Extremes of the known values of neighbouring steps.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cell {
    min: f64,
    max: f64,
}

/// The columns of one curve. A value is NaN where it is unknown, or before the first step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Columns {
    /// Smallest known value within each column.
    pub min: Vec<f64>,
    /// Largest known value within each column.
    pub max: Vec<f64>,
    /// Value at the end of each column.
    pub last: Vec<f64>,
}

impl Cell {
    const EMPTY: Self = Self { min: f64::NAN, max: f64::NAN };

    /// `min` and `max` of floats take the other value where one is NaN.
    fn with(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    fn of(value: f64) -> Self {
        Self { min: value, max: value }
    }
}

impl Detail {
    /// From steps in time order: from its time on, the curve has the value, NaN where that is unknown. Of several steps
    /// at one instant the last one counts.
    pub fn new(steps: impl IntoIterator<Item = (u64, f64)>) -> Self {
        let mut detail = Self::default();
        for (at_ns, value) in steps {
            debug_assert!(detail.times_ns.last().is_none_or(|last| *last <= at_ns));
            match detail.values.last_mut() {
                Some(last) if detail.times_ns.last() == Some(&at_ns) => *last = value,
                _ => {
                    detail.times_ns.push(at_ns);
                    detail.values.push(value);
                }
            }
        }
        detail.times_ns.shrink_to_fit();
        detail.values.shrink_to_fit();
        let first = |values: &[f64]| values.iter().map(|value| Cell::of(*value)).reduce(Cell::with);
        let mut level: Vec<Cell> = detail.values.chunks(FACTOR).filter_map(first).collect();
        while level.len() > 1 {
            let next = |cells: &[Cell]| cells.iter().copied().reduce(Cell::with);
            let above = level.chunks(FACTOR).filter_map(next).collect();
            detail.levels.push(std::mem::replace(&mut level, above));
        }
        detail.levels.push(level);
        detail
    }

    /// Number of its steps.
    pub fn len(&self) -> usize {
        self.times_ns.len()
    }

    /// Whether it has no step.
    pub fn is_empty(&self) -> bool {
        self.times_ns.is_empty()
    }

    /// Its steps, in order of time.
    pub fn steps(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        self.times_ns.iter().copied().zip(self.values.iter().copied())
    }

    /// Value at an instant; NaN before the first step.
    pub fn at(&self, at_ns: u64) -> f64 {
        let after = self.times_ns.partition_point(|time_ns| *time_ns <= at_ns);
        after.checked_sub(1).map_or(f64::NAN, |index| self.values[index])
    }

    /// Columns from edge to edge, see [`edges`]: each from its edge on, up to the next one, which is no longer part of it.
    pub fn columns(&self, edges: &[u64]) -> Columns {
        let mut columns = Columns::default();
        let mut edges = edges.iter();
        let Some(first) = edges.next() else { return columns };
        // Steps before `from`, of which the last one holds at the edge.
        let mut from = self.times_ns.partition_point(|time_ns| time_ns <= first);
        for edge in edges {
            let to = from + self.times_ns[from..].partition_point(|time_ns| time_ns < edge);
            let cell = self.extremes(from.saturating_sub(1), to);
            columns.min.push(cell.min);
            columns.max.push(cell.max);
            columns.last.push(to.checked_sub(1).map_or(f64::NAN, |index| self.values[index]));
            let is_at_edge = self.times_ns.get(to) == Some(edge);
            from = to + usize::from(is_at_edge);
        }
        columns
    }

    /// Extremes of the steps in `from..to`.
    fn extremes(&self, mut from: usize, mut to: usize) -> Cell {
        let mut cell = Cell::EMPTY;
        let values = |range: std::ops::Range<usize>| {
            self.values[range].iter().map(|value| Cell::of(*value)).fold(Cell::EMPTY, Cell::with)
        };
        let (above_from, above_to) = (from.div_ceil(FACTOR), to / FACTOR);
        if above_from >= above_to {
            return values(from..to);
        }
        cell = cell.with(values(from..above_from * FACTOR)).with(values(above_to * FACTOR..to));
        (from, to) = (above_from, above_to);
        for level in &self.levels {
            let (above_from, above_to) = (from.div_ceil(FACTOR), to / FACTOR);
            if above_from >= above_to {
                return level[from..to].iter().copied().fold(cell, Cell::with);
            }
            let ends = level[from..above_from * FACTOR].iter().chain(&level[above_to * FACTOR..to]);
            cell = ends.copied().fold(cell, Cell::with);
            (from, to) = (above_from, above_to);
        }
        cell
    }
}

/// The edges of so many columns of one width, one more than columns: from `from_ns` to `to_ns`. Where there are more
/// columns than nanoseconds, some have no width.
pub fn edges(from_ns: u64, to_ns: u64, columns: usize) -> Vec<u64> {
    let (width, count) = (u128::from(to_ns.saturating_sub(from_ns)), columns.max(1) as u128);
    let edge = |index: u128| from_ns + (width * index / count) as u64;
    (0..=count).map(edge).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The columns by a look at each step.
    fn naive(steps: &[(u64, f64)], edges: &[u64]) -> Columns {
        let mut columns = Columns::default();
        for pair in edges.windows(2) {
            let before = steps.iter().rfind(|step| step.0 <= pair[0]);
            let within = steps.iter().filter(|step| pair[0] < step.0 && step.0 < pair[1]);
            let seen: Vec<f64> = before.into_iter().chain(within).map(|step| step.1).collect();
            columns.min.push(seen.iter().copied().fold(f64::NAN, f64::min));
            columns.max.push(seen.iter().copied().fold(f64::NAN, f64::max));
            columns.last.push(seen.last().copied().unwrap_or(f64::NAN));
        }
        columns
    }

    fn bits(columns: &Columns) -> Vec<Option<i64>> {
        let all = [&columns.min, &columns.max, &columns.last];
        let all = all.into_iter().flatten();
        all.map(|value| (!value.is_nan()).then_some(*value as i64)).collect()
    }

    fn steps() -> impl Strategy<Value = Vec<(u64, f64)>> {
        let step =
            (0u64..40, prop_oneof![9 => (0u32..1000).prop_map(f64::from), 1 => Just(f64::NAN)]);
        prop::collection::vec(step, 0..700).prop_map(|gaps| {
            let mut at_ns = 100;
            // A gap of 0 would be a second step at one instant, which `naive` does not know.
            gaps.into_iter()
                .map(|(gap, value)| {
                    at_ns += gap + 1;
                    (at_ns, value)
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn columns_are_those_of_a_look_at_each_step(
            steps in steps(), from in 0u64..16_000, width in 0u64..16_000, count in 1usize..60,
        ) {
            let edges = edges(from, from + width, count);
            let detail = Detail::new(steps.iter().copied());
            prop_assert_eq!(bits(&detail.columns(&edges)), bits(&naive(&steps, &edges)));
        }
    }

    #[test]
    fn a_spike_of_one_step_shows_in_its_column() {
        let steps = (0..100_000u64).map(|at| (at * 10, if at == 54_321 { 40.0 } else { 1.0 }));
        let columns = Detail::new(steps).columns(&edges(0, 1_000_000, 100));
        let high: Vec<usize> = (0..100).filter(|index| columns.max[*index] > 1.0).collect();
        assert_eq!(high, [54]);
        assert!(columns.min.iter().chain(&columns.last).all(|value| *value == 1.0));
    }

    #[test]
    fn an_unknown_value_is_a_gap_and_hides_no_known_one() {
        let detail = Detail::new([(10, 1.0), (20, f64::NAN), (30, 3.0)]);
        let columns = detail.columns(&[0, 10, 20, 30, 40]);
        assert!(columns.min[0].is_nan() && columns.last[2].is_nan() && columns.max[2].is_nan());
        assert_eq!((columns.max[1], columns.max[3]), (1.0, 3.0));
        assert_eq!(detail.columns(&[0, 40]).max, [3.0]);
        assert!(detail.at(9).is_nan());
        assert_eq!(detail.at(10), 1.0);
    }

    #[test]
    fn of_several_steps_at_one_instant_the_last_one_counts() {
        let detail = Detail::new([(10, 1.0), (10, 7.0), (10, 2.0)]);
        assert_eq!((detail.len(), detail.at(10)), (1, 2.0));
        assert_eq!(detail.columns(&[0, 20]).max, [2.0]);
        assert!(Detail::new([]).is_empty());
    }

    #[test]
    fn more_columns_than_nanoseconds_repeat_the_value() {
        let edges = edges(10, 12, 4);
        assert_eq!(edges, [10, 10, 11, 11, 12]);
        assert_eq!(Detail::new([(11, 5.0)]).columns(&edges).last[3], 5.0);
    }
}
