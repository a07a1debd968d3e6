//! Results of the rounds of a trial, and the difference between those without a fix and those with it.

use sockscope_analysis::{Analysis, Distribution, Finding};
use sockscope_probe::{Fix, Outcome, Sides};
use sockscope_program::failure::Failure;
use sockscope_report::Origin;

use super::difference::Difference;
use super::round::Round;
use crate::args::Try;
use crate::bundle;

/// The figure by which rounds are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// The median of the exchanges of a round, nanoseconds.
    Exchanges,
    /// Bytes a second of the flow that carried most.
    Throughput,
}

impl Figure {
    /// The figure that the result has second.
    pub fn other(self) -> Self {
        match self {
            Self::Exchanges => Self::Throughput,
            Self::Throughput => Self::Exchanges,
        }
    }

    /// Of this round, as far as it is known.
    fn of(self, round: &Round) -> Option<f64> {
        match self {
            Self::Exchanges => round.exchange_p50(),
            Self::Throughput => round.throughput_bytes_per_s,
        }
    }

    /// The words for it, in the singular.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exchanges => "median exchange of a round",
            Self::Throughput => "throughput of a round",
        }
    }
}

/// The finding whose fix is tried, and those that cost more and have none to try.
pub struct Chosen {
    /// `None` where no finding has one.
    pub finding: Option<Finding>,
    /// Most expensive first.
    pub changes: Vec<Finding>,
}

/// A trial: its arguments and the results of its rounds.
pub struct Trial<'a> {
    pub arguments: &'a Try,
    pub fixes: Vec<Fix>,
    pub sides: Sides,
    /// `None` where the fix was named.
    pub chosen: Option<Chosen>,
    pub rounds: Vec<Round>,
}

impl Trial<'_> {
    /// The fixes as on the command line.
    pub fn named(&self) -> String {
        self.fixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// The fixes that the kernel accepted on at least one socket. A line on changed sockets names no other.
    pub fn named_accepted(&self) -> String {
        let fixes = self.fixes.iter().zip(self.outcomes());
        let accepted = fixes.filter(|(_, outcome)| outcome.accepted > 0);
        accepted.map(|(fix, _)| fix.to_string()).collect::<Vec<_>>().join(",")
    }

    fn of_kind(&self, with_fix: bool) -> impl Iterator<Item = &Round> {
        self.rounds.iter().filter(move |round| round.with_fix == with_fix)
    }

    /// Peers of the command whose sockets were changed.
    pub fn peers(&self) -> Vec<String> {
        let mut peers: Vec<String> =
            self.rounds.iter().flat_map(|round| round.peers.clone()).collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    }

    /// The outcome of each fix, all rounds together.
    pub fn outcomes(&self) -> Vec<Outcome> {
        let sum = |at: usize| {
            let of_rounds = self.rounds.iter().filter_map(|round| round.forced.outcomes.get(at));
            of_rounds.fold(Outcome::default(), |sum, one| sum.and(*one))
        };
        (0..self.fixes.len()).map(sum).collect()
    }

    /// Exchanges where each round has some, else throughput.
    pub fn figure(&self) -> Figure {
        let has_exchanges = self.rounds.iter().all(|round| !round.exchanges_ns.is_empty());
        if has_exchanges { Figure::Exchanges } else { Figure::Throughput }
    }

    /// The figure of each round of a kind, as far as it is known.
    pub fn figures(&self, figure: Figure, with_fix: bool) -> Vec<f64> {
        self.of_kind(with_fix).filter_map(|round| figure.of(round)).collect()
    }

    /// Between rounds without and with the fix.
    pub fn difference(&self, figure: Figure) -> Option<Difference> {
        Difference::of(&self.figures(figure, false), &self.figures(figure, true))
    }

    /// The exchanges of all rounds of a kind together, nanoseconds.
    pub fn exchanges(&self, with_fix: bool) -> Option<Distribution> {
        let mut all: Vec<u64> =
            self.of_kind(with_fix).flat_map(|round| round.exchanges_ns.iter().copied()).collect();
        Distribution::of(&mut all)
    }

    /// The round of a kind in the middle by the figure, among those that have it; where none has it, the first.
    pub(super) fn typical(&self, with_fix: bool) -> Option<&Round> {
        let figure = self.figure();
        let of_kind = self.of_kind(with_fix);
        let mut rounds: Vec<(f64, &Round)> =
            of_kind.filter_map(|round| Some((figure.of(round)?, round))).collect();
        rounds.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let middle = rounds.get(rounds.len().saturating_sub(1) / 2).map(|(_, round)| *round);
        middle.or_else(|| self.of_kind(with_fix).next())
    }

    /// The analysis of the round in the middle.
    ///
    /// # Errors
    ///
    /// When its bundle cannot be read.
    pub fn analysis(&self, with_fix: bool) -> Result<Option<(Analysis, Origin)>, Failure> {
        self.typical(with_fix).map(|round| bundle::analyze(&round.dir)).transpose()
    }
}
