//! One number from the results of an experiment.

use sockscope_experiment::result::{CaseResult, RunResult};
use sockscope_experiment::{Case, word};

use super::interval::Scatter;

/// Parameters that a case has. The value `-` is that of a case without the parameter.
pub(super) type Wanted = &'static [(&'static str, &'static str)];

/// Results that are a part of a whole, in percent.
const SHARES: [&str; 3] =
    ["ip_queue_found_empty_percent", "pushed_emptying_percent", "copy_percent"];

/// How a number is made of results. `y` is a result by its name in CSV, `x` a parameter.
pub(super) enum Reading {
    /// A result of one case.
    Value { y: &'static str, of: Wanted },
    /// A result of one case over that of another.
    Ratio { y: &'static str, of: Wanted, to: Wanted },
    /// A ratio of two cases over the ratio of two others.
    Ratios { y: &'static str, of: [Wanted; 2], to: [Wanted; 2] },
    /// A result over another result of the same case, times a factor.
    Share { y: &'static str, to: &'static str, of: Wanted },
    /// The greatest result of some cases over the greatest of others.
    Best { y: &'static str, of: Wanted, to: Wanted },
    /// Which part of the gain from the least to the greatest `x` is reached at one value; 0 where nothing is gained.
    Gain { y: &'static str, x: &'static str, at: f64, of: Wanted },
    /// By how much the result at one value is below the mean of those next to it, in percent.
    Dip { y: &'static str, x: &'static str, at: f64, of: Wanted },
    /// How well a straight line describes the result: the coefficient of correlation with `x`.
    Line { y: &'static str, x: &'static str, of: Wanted },
    /// Correlation of the result, without its trend, with itself one period of `x` later.
    Period { y: &'static str, x: &'static str, period: f64, of: Wanted },
    /// The least number, of all cases, of acknowledgments in a window of twice the buffer.
    AcksPerWindow,
}

/// Whether a case has these parameters.
pub(super) fn is_case(case: &Case, wanted: Wanted) -> bool {
    wanted.iter().all(|(name, value)| {
        let found = case.value(name);
        if *value == "-" { found.is_none() } else { found.is_some_and(|it| word(it) == *value) }
    })
}

fn in_words(wanted: Wanted) -> String {
    let word = |(name, value): &(&str, &str)| match *value {
        "-" => format!("without {name}"),
        value => format!("{name} {value}"),
    };
    let words: Vec<String> = wanted.iter().map(word).collect();
    if words.is_empty() { "the only case".to_owned() } else { words.join(", ") }
}

impl Reading {
    /// The number; else why it cannot be read.
    pub(super) fn of(&self, result: &RunResult) -> Result<f64, String> {
        let results = Results(result);
        let number = match self {
            Self::Value { y, of } => results.one(y, of)?,
            Self::Ratio { y, of, to } => results.one(y, of)? / results.one(y, to)?,
            Self::Ratios { y, of: [a, b], to: [c, d] } => {
                let of = results.one(y, a)? / results.one(y, b)?;
                of / (results.one(y, c)? / results.one(y, d)?)
            }
            Self::Share { y, to, of } => results.one(y, of)? / results.one(to, of)?,
            Self::Best { y, of, to } => results.best(y, of)? / results.best(y, to)?,
            Self::Gain { y, x, at, of } => gain(&results.curve(y, x, of)?, *at)?,
            Self::Dip { y, x, at, of } => dip(&results.curve(y, x, of)?, *at)?,
            Self::Line { y, x, of } => correlation(&results.curve(y, x, of)?),
            Self::Period { y, x, period, of } => periodic(&results.curve(y, x, of)?, *period),
            Self::AcksPerWindow => results.acks_per_window()?,
        };
        if number.is_finite() { Ok(number) } else { Err(format!("{}: no number", self.words())) }
    }

    /// Between which numbers any reading is: results, and so their ratios, are not negative.
    pub(super) fn bounds(&self) -> (f64, f64) {
        const MOST: f64 = f64::INFINITY;
        match self {
            Self::Line { .. } | Self::Period { .. } => (-1.0, 1.0),
            Self::Dip { .. } => (-MOST, 100.0),
            Self::Gain { .. } => (-MOST, MOST),
            Self::Value { y, .. } if SHARES.contains(y) => (0.0, 100.0),
            _ => (0.0, MOST),
        }
    }

    /// How readings scatter.
    pub(super) fn scatter(&self) -> Scatter {
        match self {
            Self::Ratio { .. }
            | Self::Ratios { .. }
            | Self::Share { .. }
            | Self::Best { .. }
            | Self::AcksPerWindow => Scatter::Factors,
            Self::Value { .. }
            | Self::Gain { .. }
            | Self::Dip { .. }
            | Self::Line { .. }
            | Self::Period { .. } => Scatter::Amounts,
        }
    }

    /// What the number is.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Value { y, of } => format!("{y} of {}", in_words(of)),
            Self::Ratio { y, of, to } => {
                format!("{y} of {} over that of {}", in_words(of), in_words(to))
            }
            Self::Ratios { y, of: [a, b], to: [c, d] } => format!(
                "{y} of {} over that of {}, over the same ratio of {} and {}",
                in_words(a),
                in_words(b),
                in_words(c),
                in_words(d)
            ),
            Self::Share { y, to, of } => format!("{y} over {to} of {}", in_words(of)),
            Self::Best { y, of, to } => {
                format!("greatest {y} of {} over that of {}", in_words(of), in_words(to))
            }
            Self::Gain { y, x, at, of } => {
                format!("part of all gain of {y} that is reached at {x} {at}, of {}", in_words(of))
            }
            Self::Dip { y, x, at, of } => {
                format!(
                    "percent by which {y} at {x} {at} is below its neighbours, of {}",
                    in_words(of)
                )
            }
            Self::Line { y, x, of } => format!("correlation of {y} with {x}, of {}", in_words(of)),
            Self::Period { y, x, period, of } => {
                format!(
                    "correlation of {y} with itself at {period} more of {x}, of {}",
                    in_words(of)
                )
            }
            Self::AcksPerWindow => {
                "least acknowledgments in a window of twice the buffer asked for".to_owned()
            }
        }
    }

    /// Cases that it reads.
    pub(super) fn cases(&self) -> Vec<Wanted> {
        match self {
            Self::Value { of, .. } | Self::Share { of, .. } => vec![of],
            Self::Ratio { of, to, .. } | Self::Best { of, to, .. } => vec![of, to],
            Self::Ratios { of, to, .. } => [*of, *to].concat(),
            Self::Gain { of, .. }
            | Self::Dip { of, .. }
            | Self::Line { of, .. }
            | Self::Period { of, .. } => vec![of],
            Self::AcksPerWindow => vec![&[]],
        }
    }
}

struct Results<'a>(&'a RunResult);

impl Results<'_> {
    fn cases(&self, wanted: Wanted) -> impl Iterator<Item = &CaseResult> {
        self.0.cases.iter().filter(move |one| is_case(&one.case, wanted))
    }

    fn number(&self, of: &CaseResult, y: &str) -> Option<f64> {
        let numbers = of.measured.numbers(&self.0.experiment);
        numbers.into_iter().find(|(name, _)| name == y)?.1
    }

    fn one(&self, y: &str, wanted: Wanted) -> Result<f64, String> {
        let missing = || format!("no run of {} was left", in_words(wanted));
        let case = self.cases(wanted).next().ok_or_else(missing)?;
        // A count is of all runs that were left, and as many as the case has octets.
        let per = if y == "acks" { self.number(case, "bytes") } else { Some(1.0) };
        let number = self.number(case, y).zip(per).map(|(number, per)| number / per);
        number.ok_or_else(|| format!("{} has no {y}", in_words(wanted)))
    }

    fn best(&self, y: &str, wanted: Wanted) -> Result<f64, String> {
        let numbers = self.cases(wanted).filter_map(|case| self.number(case, y));
        numbers.reduce(f64::max).ok_or_else(|| format!("no run of {} was left", in_words(wanted)))
    }

    /// Results by a parameter, in its order.
    fn curve(&self, y: &str, x: &str, wanted: Wanted) -> Result<Vec<(f64, f64)>, String> {
        let points = self.cases(wanted).filter_map(|one| {
            let at = one.case.value(x)?.as_integer()? as f64;
            Some((at, self.number(one, y)?))
        });
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if points.len() < 3 {
            return Err(format!("fewer than three runs of {} were left", in_words(wanted)));
        }
        Ok(points)
    }

    fn acks_per_window(&self) -> Result<f64, String> {
        let of = |one: &CaseResult| {
            let window = 2.0 * one.case.parameters.socket_buffer_bytes? as f64;
            Some(one.measured.acks as f64 / (one.measured.bytes as f64 / window))
        };
        let least = self.0.cases.iter().filter_map(of).reduce(f64::min);
        least.ok_or_else(|| "no run with a buffer was left".to_owned())
    }
}

fn at_x(points: &[(f64, f64)], at: f64) -> Result<usize, String> {
    points.iter().position(|(x, _)| *x == at).ok_or_else(|| format!("no run at {at} was left"))
}

fn gain(points: &[(f64, f64)], at: f64) -> Result<f64, String> {
    /// A smaller gain, in parts of the first result, is noise.
    const NOISE: f64 = 0.05;
    let (first, last) = (points[0].1, points[points.len() - 1].1);
    let all = last - first;
    let part = (points[at_x(points, at)?].1 - first) / all;
    Ok(if all < NOISE * first { 0.0 } else { part })
}

fn dip(points: &[(f64, f64)], at: f64) -> Result<f64, String> {
    let at = at_x(points, at)?;
    let neighbours =
        at.checked_sub(1).and_then(|before| Some((points[before].1, points.get(at + 1)?.1)));
    let (before, after) = neighbours.ok_or("the dip is at an end of the curve")?;
    let mean = f64::midpoint(before, after);
    Ok(100.0 * (mean - points[at].1) / mean)
}

/// Pearson's coefficient.
fn correlation(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|it| it.0), mean(|it| it.1));
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|it| of(it.0 - x, it.1 - y)).sum::<f64>();
    sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt()
}

/// Of the differences from a mean over one period around each point.
fn periodic(points: &[(f64, f64)], period: f64) -> f64 {
    let around = |x: f64| {
        let near = points.iter().filter(|it| (it.0 - x).abs() <= period / 2.0);
        let near: Vec<f64> = near.map(|it| it.1).collect();
        near.iter().sum::<f64>() / near.len() as f64
    };
    let rest: Vec<(f64, f64)> = points.iter().map(|&(x, y)| (x, y - around(x))).collect();
    let later = |x: f64| rest.iter().find(|it| it.0 == x + period).map(|it| it.1);
    let pairs: Vec<(f64, f64)> = rest.iter().filter_map(|&(x, y)| Some((y, later(x)?))).collect();
    correlation(&pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_a_part_of_all_of_it_and_noise_is_none() {
        let points = [(4.0, 1.0), (16.0, 4.0), (51.0, 5.0)];
        assert_eq!(gain(&points, 16.0), Ok(0.75));
        assert_eq!(gain(&[(4.0, 100.0), (16.0, 104.0), (51.0, 104.0)], 16.0), Ok(0.0));
        assert!(gain(&points, 17.0).is_err());
    }

    #[test]
    fn a_dip_is_below_both_neighbours() {
        assert_eq!(dip(&[(1.0, 10.0), (2.0, 9.0), (3.0, 10.0)], 2.0), Ok(10.0));
        assert!(dip(&[(1.0, 10.0), (2.0, 9.0)], 2.0).is_err());
    }

    #[test]
    fn a_line_and_a_saw_tooth_are_known() {
        let line: Vec<_> = (0..100).map(|x| (f64::from(x), 3.0 * f64::from(x) + 7.0)).collect();
        assert!(correlation(&line) > 0.999_999);
        let saw: Vec<_> =
            (0..400).map(|x| (f64::from(x), f64::from(x) + 50.0 * f64::from(x % 44))).collect();
        assert!(periodic(&saw, 44.0) > 0.9, "{}", periodic(&saw, 44.0));
        assert!(periodic(&saw, 22.0) < 0.0, "{}", periodic(&saw, 22.0));
    }
}
