//! How a claim is judged: a run, a number of its results, and ranges of the number.

use super::reading::Reading;

/// How a claim is judged.
pub(super) struct Rule {
    /// The claim.
    pub(super) id: &'static str,
    pub(super) run: &'static Run,
    pub(super) reading: Reading,
    /// Numbers with which the claim holds, both ends included.
    pub(super) holds: (f64, f64),
    /// Other numbers with which something of it is there; with all others it is gone.
    pub(super) changed: (f64, f64),
}

/// A run of an experiment on a kernel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The experiment.
    pub(super) id: &'static str,
    /// What is set otherwise than in its file, as `lab run --set` takes it.
    pub(super) sets: &'static [&'static str],
}

impl Run {
    /// Its command line.
    pub(super) fn command(&self) -> String {
        let sets = self.sets.iter().map(|set| format!(" --set {set}")).collect::<String>();
        format!("lab run {} --on live{sets}", self.id)
    }
}
