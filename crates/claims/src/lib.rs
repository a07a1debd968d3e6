//! Claims against runs: each claim of a paper, and what the model says to it.
//!
//! A check names the experiments that it needs and gives a [`Comparison`]; each experiment runs once
//! for all checks. A claim without a check is not passed over: it is reported as not checkable, with
//! the reason.

mod buffers;
mod cause;
mod comparison;
mod design;
mod explanation;
mod forwarding;
mod layering;
mod live;
mod packets;
mod profile;
mod protocol_atm;
mod protocol_atm_design;
#[cfg(test)]
mod protocol_tests;
mod protocol_vmtp;
mod protocol_vmtp_design;
mod registry;
mod report;
mod summary;
mod sunos;
mod sunos_acks;
mod sunos_bound;
mod sunos_contention;
mod sunos_load;
mod sunos_runs;
mod sunos_throughput;
mod sunos_tools;
mod sunos_trace;
mod sunos_windows;
mod variation;

use std::collections::BTreeMap;

use sockscope_experiment::papers::{Claim, Evidence};
use sockscope_experiment::result::RunResult;

pub use cause::{CauseVerdict, Explanation};
pub use comparison::{Comparison, Shown, Verdict};
pub use live::{
    Judged, JudgedClaim, JudgingRun, LiveVerdict, judge, write_live_json, write_live_text,
};
pub use registry::{check, check_results};
pub use report::{write_json, write_text};

/// What a check gives: a comparison, or why nothing here can tell.
pub(crate) type Outcome = Result<Comparison, String>;

/// How a claim is checked.
#[derive(Clone, Copy)]
pub(crate) struct Check {
    /// The claim.
    pub id: &'static str,
    /// Experiments whose results it needs.
    pub needs: &'static [&'static str],
    /// What the results say to it.
    pub compare: fn(&Claim, &Runs) -> Outcome,
}

/// A claim and how it compares.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The claim.
    pub claim: Claim,
    /// What agreement is worth.
    pub evidence: Evidence,
    /// What the model says to it.
    pub comparison: Comparison,
    /// Why it differs; none where it does not.
    pub explanation: Option<Explanation>,
}

/// Results of the experiments that checks need.
pub struct Runs(BTreeMap<&'static str, RunResult>);

impl Runs {
    /// The results of an experiment that the check named.
    ///
    /// # Panics
    ///
    /// When the check did not name it: a mistake in the table of checks, which a test finds.
    pub(crate) fn of(&self, experiment: &str) -> &RunResult {
        &self.0[experiment]
    }
}

/// The largest of some measures; no number where one is missing, or all are.
pub(crate) fn most(values: impl IntoIterator<Item = f64>) -> f64 {
    let larger = |most: f64, value: f64| if most.is_nan() || most > value { most } else { value };
    values.into_iter().reduce(larger).unwrap_or(f64::NAN)
}

/// The smallest, likewise.
pub(crate) fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    -most(values.into_iter().map(|value| -value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_measure_is_not_passed_over() {
        assert_eq!((most([1.0, 3.0, 2.0]), least([2.0, 1.0, 3.0])), (3.0, 1.0));
        for missing in [vec![], vec![f64::NAN, 1.0], vec![1.0, f64::NAN], vec![1.0, f64::NAN, 2.0]]
        {
            assert!(most(missing.clone()).is_nan() && least(missing).is_nan());
        }
    }
}
