//! How close unchanged runs are to the recording, and whether they are a copy of it.

use sockscope_analysis::LedgerPart;

use super::figures::Figures;

/// The figures of a copy differ by this part of the original's at most.
pub const TOLERANCE: f64 = 0.10;
/// A smaller place of the ledger is not judged.
pub const PLACE_MIN: f64 = 0.05;
/// Runs whose median exchanges differ by more than this part of their median cannot tell a copy from another run.
pub const SPREAD_MAX: f64 = 0.20;

/// A figure of the original and of the copy.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub figure: Figure,
    pub original: f64,
    pub copy: f64,
    /// The copy must be as close as [`TOLERANCE`].
    pub is_judged: bool,
}

/// A figure that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    P50,
    P99,
    Throughput,
    /// The share of the reads on the CPU of the write that they waited for.
    SameCpu,
    /// The share of a place in the ledger of the data of the client, or of the server.
    Place(&'static str, LedgerPart),
}

/// Whether the unchanged runs are a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Copy,
    /// The figures that differ.
    NotACopy(Vec<Figure>),
    /// The figures that differ, by no more than the runs do among themselves.
    Unclear(Vec<Figure>),
}

impl Pair {
    /// The copy's figure as a multiple of the original's.
    pub fn ratio(&self) -> f64 {
        self.copy / self.original
    }

    fn is_far(&self) -> bool {
        self.is_judged && (self.copy - self.original).abs() > TOLERANCE * self.original
    }
}

/// The figures next to each other. Without exchanges the throughput is judged.
pub fn pairs(original: &Figures, copy: &Figures) -> Vec<Pair> {
    let has_exchanges = original.p50_ns.is_some();
    let single = [
        (Figure::P50, original.p50_ns, copy.p50_ns, true),
        (Figure::P99, original.p99_ns, copy.p99_ns, false),
        (Figure::Throughput, original.throughput, copy.throughput, !has_exchanges),
        (Figure::SameCpu, original.same_cpu, copy.same_cpu, false),
    ];
    let mut pairs: Vec<Pair> = Vec::new();
    for (figure, original, copy, is_judged) in single {
        let both = original.map(|original| (original, copy.unwrap_or(f64::NAN)));
        pairs.extend(both.map(|(original, copy)| Pair { figure, original, copy, is_judged }));
    }
    for (flow, side) in ["client", "server"].into_iter().enumerate() {
        let shares = original.shares[flow].iter().zip(&copy.shares[flow]);
        for (part, (original, copy)) in LedgerPart::ALL.into_iter().zip(shares) {
            if original.max(*copy) > PLACE_MIN {
                pairs.push(Pair {
                    figure: Figure::Place(side, part),
                    original: *original,
                    copy: *copy,
                    is_judged: *original > PLACE_MIN,
                });
            }
        }
    }
    pairs
}

/// The largest difference between runs, as a part of their median; 0 without two runs.
pub fn spread(runs: &[Figures]) -> f64 {
    let values: Vec<f64> = runs.iter().filter_map(Figures::main).collect();
    let high = values.iter().copied().fold(f64::MIN, f64::max);
    let low = values.iter().copied().fold(f64::MAX, f64::min);
    let middle = super::figures::median(values.into_iter());
    middle.map_or(0.0, |middle| (high - low) / middle)
}

/// Judges the runs by these pairs.
pub fn verdict(pairs: &[Pair], runs: &[Figures]) -> Verdict {
    // NaN is far from everything.
    let is_far = |pair: &&Pair| pair.is_far() || (pair.is_judged && pair.copy.is_nan());
    let far: Vec<Figure> = pairs.iter().filter(is_far).map(|pair| pair.figure).collect();
    match far.is_empty() {
        true => Verdict::Copy,
        false if spread(runs) > SPREAD_MAX => Verdict::Unclear(far),
        false => Verdict::NotACopy(far),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(p50_ns: f64, first_share: f64) -> Figures {
        let shares = [vec![first_share, 1.0 - first_share], Vec::new()];
        Figures { exchanges: 5, p50_ns: Some(p50_ns), shares, ..Figures::default() }
    }

    fn judged(original: &Figures, runs: &[Figures]) -> Verdict {
        verdict(&pairs(original, &Figures::median(runs)), runs)
    }

    #[test]
    fn a_copy_is_within_a_tenth_in_each_figure() {
        let original = figures(100.0, 0.5);
        assert_eq!(judged(&original, &[figures(109.0, 0.46)]), Verdict::Copy);
        let slow = judged(&original, &[figures(111.0, 0.5)]);
        assert_eq!(slow, Verdict::NotACopy(vec![Figure::P50]));
        let first = Figure::Place("client", LedgerPart::ALL[0]);
        let other = judged(&original, &[figures(100.0, 0.44)]);
        assert_eq!(
            other,
            Verdict::NotACopy(vec![first, Figure::Place("client", LedgerPart::ALL[1])])
        );
    }

    #[test]
    fn a_small_place_is_not_judged_and_missing_exchanges_are_no_copy() {
        assert_eq!(judged(&figures(9.0, 0.04), &[figures(9.0, 0.02)]), Verdict::Copy);
        let none = Figures { p50_ns: None, ..figures(9.0, 0.5) };
        assert_eq!(judged(&figures(9.0, 0.5), &[none]), Verdict::NotACopy(vec![Figure::P50]));
    }

    #[test]
    fn runs_that_differ_too_much_leave_it_open() {
        let runs = [figures(100.0, 0.5), figures(130.0, 0.5), figures(131.0, 0.5)];
        assert_eq!(judged(&figures(100.0, 0.5), &runs), Verdict::Unclear(vec![Figure::P50]));
    }
}
