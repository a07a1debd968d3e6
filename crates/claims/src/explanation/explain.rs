//! How a difference is explained.

use sockscope_experiment::papers::Claim;

use crate::Runs;

/// Observations of runs: whether they bear a cause out, and their numbers.
pub(super) type Shown = Result<(bool, String), String>;

/// How a difference is explained.
pub(super) struct Explain {
    /// The claim.
    pub(super) id: &'static str,
    /// The cause, or what is known where none is.
    pub(super) cause: &'static str,
    /// Whether the runs show a cause; else they show what is known.
    pub(super) is_known: bool,
    /// What the paper leaves open.
    pub(super) open: &'static str,
    /// The runs.
    pub(super) show: fn(&Claim, &Runs) -> Shown,
}
