//! Every check of every paper, and the run of all experiments that the wanted ones need.

use std::collections::BTreeSet;

use sockscope_experiment::papers::{Claim, Claims, Evidence, EvidenceList, PAPERS};
use sockscope_experiment::result::RunResult;
use sockscope_experiment::{Error, Experiment, Result, builtin_by_id};
use sockscope_lab::run;

use super::{
    Check, Checked, Comparison, Runs, buffers, design, explanation, layering, packets, profile,
    protocol_atm, protocol_atm_design, protocol_vmtp, protocol_vmtp_design, sunos_acks,
    sunos_bound, sunos_contention, sunos_load, sunos_throughput, sunos_tools, sunos_trace,
    sunos_windows,
};

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
        sunos_throughput::CHECKS,
        sunos_trace::CHECKS,
        sunos_acks::CHECKS,
        sunos_windows::CHECKS,
        sunos_load::CHECKS,
        sunos_bound::CHECKS,
        sunos_contention::CHECKS,
        sunos_tools::CHECKS,
    ];
    papers.into_iter().flatten()
}

/// Checks the claims of `paper`, or of all, in the order of the register. `progress` gets the number of each
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
    let (claims, evidence) = (Claims::builtin()?, EvidenceList::builtin()?);
    let is_wanted = |check: &&Check| claims.of(paper).any(|claim| claim.id == check.id);
    let needed: BTreeSet<_> =
        checks().filter(is_wanted).flat_map(|check| check.needs).copied().collect();
    let experiments = needed.iter().map(|id| builtin_by_id(id)).collect::<Result<Vec<_>>>()?;
    let runs = Runs(needed.into_iter().zip(results(&experiments)?).collect());
    Ok(claims.of(paper).map(|claim| checked(claim, evidence.of(claim), &runs)).collect())
}

pub(super) fn checked(claim: &Claim, evidence: &Evidence, runs: &Runs) -> Checked {
    let check = checks().find(|check| check.id == claim.id);
    let comparison = check.map_or_else(
        || Comparison::no_experiment(claim),
        |check| (check.compare)(claim, runs).unwrap_or_else(Comparison::not_checkable),
    );
    let explanation = explanation::explanation(claim, &comparison, runs);
    Checked { claim: claim.clone(), evidence: evidence.clone(), comparison, explanation }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockscope_experiment::builtin;

    #[test]
    fn every_check_has_a_claim_and_experiments_that_feed_it() {
        let claims = Claims::builtin().unwrap();
        for check in checks() {
            let claim = claims.claim(check.id).unwrap_or_else(|| panic!("{}", check.id));
            for need in check.needs {
                let feeds = builtin_by_id(need).unwrap().feeds;
                assert!(
                    feeds.contains(&claim.id),
                    "{need} does not say that it feeds {}",
                    claim.id
                );
            }
        }
    }

    #[test]
    fn no_claim_has_two_checks() {
        let ids: Vec<_> = checks().map(|check| check.id).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    }

    #[test]
    fn every_claim_that_an_experiment_feeds_has_a_check() {
        for experiment in builtin().unwrap() {
            for id in &experiment.feeds {
                assert!(checks().any(|check| check.id == id), "{}: {id}", experiment.id);
            }
        }
    }

    #[test]
    fn every_claim_of_the_papers_that_are_modelled_has_a_check() {
        let claims = Claims::builtin().unwrap();
        let papers = ["bsd-buffers", "layering", "protocol-choice"];
        for claim in papers.iter().flat_map(|paper| claims.of(Some(paper))) {
            assert!(checks().any(|check| check.id == claim.id), "{}", claim.id);
        }
    }
}
