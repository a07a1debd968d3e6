//! Least squares with no negative answers, for a handful of unknowns.

/// Unknowns: a call, a byte, an mbuf, an mbuf walked.
pub const UNKNOWNS: usize = 4;

/// One equation: the work done, and the time that it took.
#[derive(Debug, Clone, Copy)]
pub struct Equation {
    /// Calls, bytes, mbufs, mbufs walked.
    pub work: [f64; UNKNOWNS],
    /// Seconds measured.
    pub seconds: f64,
}

/// Below so many seconds the profiler had taken few samples, at one for each tick of a clock that
/// also decides when acknowledgments are sent.
const SECONDS_MIN: f64 = 1.0;

/// The costs, none negative, nearest to all equations; errors count relative to the measured
/// values. With four unknowns every set of them that may be positive can be tried.
pub fn fit(equations: &[Equation]) -> [f64; UNKNOWNS] {
    let candidates = (1_u32..1 << UNKNOWNS).filter_map(|set| {
        let answer = solve(equations, set)?;
        answer.iter().all(|cost| *cost >= 0.0).then_some(answer)
    });
    let mut best = ([0.0; UNKNOWNS], error(equations, &[0.0; UNKNOWNS]));
    for answer in candidates {
        let error = error(equations, &answer);
        // An unknown more must be worth its while.
        if error < best.1 * 0.999 {
            best = (answer, error);
        }
    }
    best.0
}

fn weight(equation: &Equation) -> f64 {
    1.0 / equation.seconds.max(SECONDS_MIN)
}

fn error(equations: &[Equation], costs: &[f64; UNKNOWNS]) -> f64 {
    let one = |equation: &Equation| {
        let model: f64 = equation.work.iter().zip(costs).map(|(work, cost)| work * cost).sum();
        ((model - equation.seconds) * weight(equation)).powi(2)
    };
    equations.iter().map(one).sum()
}

/// Normal equations of the unknowns in `set`, by elimination; `None` when they do not decide.
fn solve(equations: &[Equation], set: u32) -> Option<[f64; UNKNOWNS]> {
    let chosen: Vec<usize> = (0..UNKNOWNS).filter(|at| set & 1 << at != 0).collect();
    let size = chosen.len();
    let mut matrix = vec![vec![0.0; size + 1]; size];
    for equation in equations {
        let squared = weight(equation).powi(2);
        for (row, at) in chosen.iter().enumerate() {
            for (column, other) in chosen.iter().enumerate() {
                matrix[row][column] += equation.work[*at] * equation.work[*other] * squared;
            }
            matrix[row][size] += equation.work[*at] * equation.seconds * squared;
        }
    }
    for pivot in 0..size {
        let row = matrix[pivot].clone();
        // Columns are of very different size: each is held against its own.
        if row[pivot].abs() <= 1e-9 * column_size(equations, chosen[pivot]) {
            return None;
        }
        for (_, other) in matrix.iter_mut().enumerate().filter(|(at, _)| *at != pivot) {
            let factor = other[pivot] / row[pivot];
            other.iter_mut().zip(&row).for_each(|(cell, above)| *cell -= factor * above);
        }
    }
    let mut answer = [0.0; UNKNOWNS];
    for (row, at) in chosen.iter().enumerate() {
        answer[*at] = matrix[row][size] / matrix[row][row];
    }
    Some(answer)
}

/// The sum of squares of one unknown's coefficients.
fn column_size(equations: &[Equation], at: usize) -> f64 {
    equations.iter().map(|equation| (equation.work[at] * weight(equation)).powi(2)).sum()
}
