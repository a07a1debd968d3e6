//! Claims against runs: each claim of a paper, and what the model says to it.
//!
//! A check names the experiments that it needs and gives a [`Judgement`]; each experiment runs once
//! for all checks. A claim without a check is not passed over: it is reported as not checkable, with
//! the reason.

mod buffers;
mod design;
mod judgement;
mod layering;
mod packets;
mod profile;
mod protocol_atm;
mod protocol_atm_design;
#[cfg(test)]
mod protocol_tests;
mod protocol_vmtp;
mod protocol_vmtp_design;
mod report;
mod sunos;
mod sunos_acks;
mod sunos_crowd;
mod sunos_runs;
mod sunos_tools;
mod sunos_trace;

use std::collections::{BTreeMap, BTreeSet};

pub use judgement::{Judgement, Shown, Verdict};
pub use report::{write_json as write_claims_json, write_text as write_claims_text};

use crate::error::Result;
use crate::experiment::{Experiment, carried_by_id};
use crate::papers::{Claim, Claims, PAPERS};
use crate::result::RunResult;
use crate::{Error, run};

/// How a claim is checked.
#[derive(Clone, Copy)]
pub(crate) struct Check {
    /// The claim.
    pub id: &'static str,
    /// Experiments whose results it needs.
    pub needs: &'static [&'static str],
    /// What the results say to it.
    pub judge: fn(&Claim, &Runs) -> Judgement,
}

/// A claim and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The claim.
    pub claim: Claim,
    /// What the model says to it.
    pub judgement: Judgement,
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

/// Every check of every paper.
fn checks() -> impl Iterator<Item = &'static Check> {
    let papers = [
        buffers::CHECKS,
        profile::CHECKS,
        layering::CHECKS,
        packets::CHECKS,
        design::CHECKS,
        protocol_vmtp::CHECKS,
        protocol_vmtp_design::CHECKS,
        protocol_atm::CHECKS,
        protocol_atm_design::CHECKS,
        sunos::CHECKS,
        sunos_acks::CHECKS,
        sunos_crowd::CHECKS,
        sunos_trace::CHECKS,
        sunos_tools::CHECKS,
    ];
    papers.into_iter().flatten()
}

/// Checks the claims of `paper`, or of all, in the order of the register. `progress` is told of each
/// finished case, of how many.
///
/// # Errors
///
/// When there is no such paper, or a run fails.
pub fn check(
    paper: Option<&str>,
    threads: usize,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Checked>> {
    check_results(paper, |experiments| run::run_all(experiments, threads, progress))
}

/// Checks as [`check`] does, on what `results` gives for the experiments that are needed: one result
/// each, in their order.
///
/// # Errors
///
/// When there is no such paper, or `results` fails.
pub fn check_results(
    paper: Option<&str>,
    results: impl FnOnce(&[Experiment]) -> Result<Vec<RunResult>>,
) -> Result<Vec<Checked>> {
    if let Some(wanted) = paper.filter(|paper| !PAPERS.contains(paper)) {
        return Err(Error::NoSuchPaper { wanted: wanted.to_owned(), known: PAPERS.join(", ") });
    }
    let claims = Claims::carried()?;
    let is_wanted = |check: &&Check| claims.of(paper).any(|claim| claim.id == check.id);
    let needed: BTreeSet<_> =
        checks().filter(is_wanted).flat_map(|check| check.needs).copied().collect();
    let experiments = needed.iter().map(|id| carried_by_id(id)).collect::<Result<Vec<_>>>()?;
    let runs = Runs(needed.into_iter().zip(results(&experiments)?).collect());
    Ok(claims.of(paper).map(|claim| checked(claim, &runs)).collect())
}

fn checked(claim: &Claim, runs: &Runs) -> Checked {
    let check = checks().find(|check| check.id == claim.id);
    let judgement = match check {
        Some(check) => (check.judge)(claim, runs),
        None => Judgement::no_experiment(claim),
    };
    Checked { claim: claim.clone(), judgement }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::carried;

    #[test]
    fn every_check_has_a_claim_and_experiments_that_feed_it() {
        let claims = Claims::carried().unwrap();
        for check in checks() {
            let claim = claims.claim(check.id).unwrap_or_else(|| panic!("{}", check.id));
            for need in check.needs {
                let feeds = carried_by_id(need).unwrap().feeds;
                assert!(
                    feeds.contains(&claim.id),
                    "{need} does not say that it feeds {}",
                    claim.id
                );
            }
        }
    }

    #[test]
    fn a_missing_measure_is_not_passed_over() {
        assert_eq!((most([1.0, 3.0, 2.0]), least([2.0, 1.0, 3.0])), (3.0, 1.0));
        for missing in [vec![], vec![f64::NAN, 1.0], vec![1.0, f64::NAN], vec![1.0, f64::NAN, 2.0]]
        {
            assert!(most(missing.clone()).is_nan() && least(missing).is_nan());
        }
    }

    #[test]
    fn no_claim_has_two_checks() {
        let ids: Vec<_> = checks().map(|check| check.id).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    }

    #[test]
    fn every_claim_that_an_experiment_feeds_has_a_check() {
        for experiment in carried().unwrap() {
            for id in &experiment.feeds {
                assert!(checks().any(|check| check.id == id), "{}: {id}", experiment.id);
            }
        }
    }

    #[test]
    fn every_claim_of_the_papers_that_are_modelled_has_a_check() {
        let claims = Claims::carried().unwrap();
        let papers = ["bsd-buffers", "layering", "protocol-choice"];
        for claim in papers.iter().flat_map(|paper| claims.of(Some(paper))) {
            assert!(checks().any(|check| check.id == claim.id), "{}", claim.id);
        }
    }
}
