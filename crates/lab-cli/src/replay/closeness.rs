//! How close unchanged runs are to the recording, and whether they are a copy of it.

use sockscope_analysis::LedgerPart;
use sockscope_program::loaded::STEAL_MIN;

use super::figures::Figures;

/// The figures of a copy differ by this part of the original's at most.
pub const TOLERANCE: f64 = 0.10;
/// A smaller place of the ledger is not judged.
pub const PLACE_MIN: f64 = 0.05;
/// Runs whose figures differ by more than this part of their median cannot tell a copy from another run.
pub const SPREAD_MAX: f64 = 0.20;

/// The sides, by their flows.
const SIDES: [&str; 2] = ["client", "server"];

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
    /// The part of the CPU time that the host of a virtual machine gave to others.
    Steal,
    /// The share of a place in the ledger of the data of the client, or of the server.
    Place(&'static str, LedgerPart),
}

impl Figure {
    /// The one by which these figures are judged: [`Figures::main`].
    pub fn main_of(figures: &Figures) -> Self {
        if figures.p50_ns.is_some() { Self::P50 } else { Self::Throughput }
    }
}

/// Whether the unchanged runs are a copy.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Copy,
    /// The figures that differ.
    NotACopy(Vec<Figure>),
    /// The figures that differ, and the least difference of the runs among themselves in these, as a part of the median.
    Unclear(Vec<Figure>, f64),
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
    let is_disturbed = |figures: &Figures| figures.steal.is_some_and(|share| share >= STEAL_MIN);
    let is_shown = is_disturbed(original) || is_disturbed(copy);
    let steal = is_shown.then_some(original.steal.unwrap_or(f64::NAN));
    let single = [
        (Figure::P50, original.p50_ns, copy.p50_ns, true),
        (Figure::P99, original.p99_ns, copy.p99_ns, false),
        (Figure::Throughput, original.throughput, copy.throughput, !has_exchanges),
        (Figure::SameCpu, original.same_cpu, copy.same_cpu, false),
        (Figure::Steal, steal, copy.steal, false),
    ];
    let mut pairs: Vec<Pair> = Vec::new();
    for (figure, original, copy, is_judged) in single {
        let both = original.map(|original| (original, copy.unwrap_or(f64::NAN)));
        pairs.extend(both.map(|(original, copy)| Pair { figure, original, copy, is_judged }));
    }
    for (flow, side) in SIDES.into_iter().enumerate() {
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

/// The lowest and the highest value of runs, and their difference as a part of the median.
struct Spread {
    low: f64,
    high: f64,
    share: f64,
}

impl Spread {
    /// `None` without a value.
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = super::figures::median(values.into_iter())?;
        Some(Self { low, high, share: (high - low) / middle })
    }

    /// Of this figure of a pair in each run.
    fn of_figure(pair: &Pair, runs: &[Figures]) -> Option<Self> {
        Self::of(runs.iter().filter_map(|run| match pair.figure {
            Figure::P50 => run.p50_ns,
            Figure::P99 => run.p99_ns,
            Figure::Throughput => run.throughput,
            Figure::SameCpu => run.same_cpu,
            Figure::Steal => run.steal,
            Figure::Place(side, part) => {
                let place = LedgerPart::ALL.iter().position(|own| *own == part)?;
                run.shares[usize::from(side == SIDES[1])].get(place).copied()
            }
        }))
    }
}

/// The largest difference between runs in the figure that they are judged by, as a part of the median; 0 without a run.
pub fn spread(runs: &[Figures]) -> f64 {
    Spread::of(runs.iter().filter_map(Figures::main)).map_or(0.0, |spread| spread.share)
}

/// Judges the runs by these pairs. The verdict is unclear in two cases. In the first the runs differ much in the figure
/// that they are judged by. In the second they differ much in each figure that is off, and the figure of the recording is
/// between theirs: some programs change between two ways to wait for each other from run to run.
pub fn verdict(pairs: &[Pair], runs: &[Figures]) -> Verdict {
    // NaN is far from everything.
    let is_far = |pair: &&Pair| pair.is_far() || (pair.is_judged && pair.copy.is_nan());
    let far: Vec<&Pair> = pairs.iter().filter(is_far).collect();
    let figures = || far.iter().map(|pair| pair.figure).collect();
    if far.is_empty() {
        return Verdict::Copy;
    }
    // 0 where the figure of the recording is not between those of the runs.
    let around = |pair: &&Pair| {
        let spread = Spread::of_figure(pair, runs);
        let around = spread.filter(|it| it.low <= pair.original && pair.original <= it.high);
        around.map_or(0.0, |it| it.share)
    };
    let least = far.iter().map(around).fold(f64::MAX, f64::min);
    match spread(runs).max(least) {
        spread if spread > SPREAD_MAX => Verdict::Unclear(figures(), spread),
        _ => Verdict::NotACopy(figures()),
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
    fn cpu_time_of_others_is_shown_where_it_is_large_and_never_judged() {
        let of = |steal| Figures { steal, ..figures(100.0, 0.5) };
        let shows = |original, copy| {
            let pairs = pairs(&of(original), &of(copy));
            pairs.iter().any(|pair| pair.figure == Figure::Steal && !pair.is_judged)
        };
        assert!(shows(Some(0.02), Some(0.0)) && shows(Some(0.0), Some(0.02)));
        assert!(!shows(Some(0.009), Some(0.0)) && !shows(None, None));
        // An older recording does not have it.
        assert!(shows(None, Some(0.02)));
        assert_eq!(judged(&of(Some(0.02)), &[of(Some(0.4))]), Verdict::Copy);
    }

    #[test]
    fn runs_without_exchanges_are_judged_by_their_throughput() {
        let of = |p50_ns| Figures { p50_ns, throughput: Some(7.0), ..Figures::default() };
        let named = [of(Some(1.0)), of(None)].map(|figures| Figure::main_of(&figures));
        assert_eq!(named, [Figure::P50, Figure::Throughput]);
        assert_eq!([of(Some(1.0)), of(None)].map(|it| it.main()), [Some(1.0), Some(7.0)]);
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
        let unclear = Verdict::Unclear(vec![Figure::P50], 31.0 / 130.0);
        assert_eq!(judged(&figures(100.0, 0.5), &runs), unclear);
    }

    #[test]
    fn places_by_which_the_runs_differ_as_much_leave_it_open() {
        let of_runs = |shares: [f64; 3]| shares.map(|share| figures(100.0, share));
        let places = [0, 1].map(|at| Figure::Place("client", LedgerPart::ALL[at]));
        // Two ways to wait: the recording and one run have the first, two runs have the second.
        let judged = |shares| judged(&figures(100.0, 0.4), &of_runs(shares));
        let unclear = Verdict::Unclear(places.to_vec(), (0.52_f64 - 0.38) / 0.51);
        let (Verdict::Unclear(figures, least), Verdict::Unclear(expected, by)) =
            (judged([0.51, 0.38, 0.52]), unclear)
        else {
            panic!("{:?}", judged([0.51, 0.38, 0.52]));
        };
        assert_eq!(figures, expected);
        assert!((least - by).abs() < 1e-9, "{least}");
        // No run is like the recording.
        assert_eq!(judged([0.51, 0.42, 0.60]), Verdict::NotACopy(places.to_vec()));
        // Runs that are alike.
        assert_eq!(judged([0.51, 0.50, 0.52]), Verdict::NotACopy(places.to_vec()));
    }
}
