//! Why claims differ: a cause for each, and runs that bear it out or do not.
//!
//! Most runs take the cause away, and judge the claim by its own check again. A cause that no run can show
//! is not known. Each explanation names what its paper leaves open.

mod buffers;
mod choice;
mod explain;
mod layering;
mod load;
mod single;
mod throughput;
mod trace;
mod windows;

use sockscope_experiment::papers::Claim;

use self::explain::Explain;
use super::cause::{CauseVerdict, Explanation};
use super::{Comparison, Runs, Verdict};

/// Every explanation.
fn explanations() -> impl Iterator<Item = &'static Explain> {
    let parts = [
        buffers::EXPLANATIONS,
        layering::EXPLANATIONS,
        throughput::EXPLANATIONS,
        trace::EXPLANATIONS,
        single::EXPLANATIONS,
        windows::EXPLANATIONS,
        load::EXPLANATIONS,
        choice::EXPLANATIONS,
    ];
    parts.into_iter().flatten()
}

/// Why a claim differs; none where it does not, or nothing explains it.
pub(super) fn explanation(
    claim: &Claim,
    comparison: &Comparison,
    runs: &Runs,
) -> Option<Explanation> {
    if comparison.verdict != Verdict::Differs {
        return None;
    }
    let explain = explanations().find(|explain| explain.id == claim.id)?;
    Some(explained(explain, claim, runs))
}

/// What the runs say to a cause. One that fails shows nothing.
fn explained(explain: &Explain, claim: &Claim, runs: &Runs) -> Explanation {
    let (verdict, observed) = match (explain.show)(claim, runs) {
        Ok((true, observed)) if explain.is_known => (CauseVerdict::Holds, observed),
        Ok((true, observed)) => (CauseVerdict::NotKnown, observed),
        Ok((false, observed)) => (CauseVerdict::DoesNotHold, observed),
        Err(problem) => (CauseVerdict::DoesNotHold, problem),
    };
    Explanation { cause: explain.cause, verdict, observed, open: explain.open }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::explain::Shown;
    use super::*;
    use sockscope_experiment::papers::Claims;

    #[test]
    fn a_cause_that_runs_do_not_show_does_not_hold() {
        let claims = Claims::builtin().unwrap();
        let claim = claims.claim("sunos-ipc/4.1.1-b").unwrap();
        let runs = Runs(BTreeMap::new());
        type Show = fn(&Claim, &Runs) -> Shown;
        let verdict = |is_known, show: Show| {
            let explain = Explain { id: "", cause: "a cause", is_known, open: "all", show };
            explained(&explain, claim, &runs).verdict
        };
        let yes: Show = |_, _| Ok((true, String::new()));
        let no: Show = |_, _| Ok((false, String::new()));
        assert_eq!(verdict(true, yes), CauseVerdict::Holds);
        assert_eq!(verdict(false, yes), CauseVerdict::NotKnown);
        assert_eq!(verdict(true, no), CauseVerdict::DoesNotHold);
        assert_eq!(verdict(false, no), CauseVerdict::DoesNotHold);
        assert_eq!(verdict(true, |_, _| Err("no run".into())), CauseVerdict::DoesNotHold);
    }

    #[test]
    fn a_claim_that_is_reproduced_needs_no_explanation() {
        let claims = Claims::builtin().unwrap();
        let claim = claims.claim("sunos-ipc/4.2.1-d").unwrap();
        let comparison = Comparison::holds(true, "", "");
        assert_eq!(explanation(claim, &comparison, &Runs(BTreeMap::new())), None);
    }

    #[test]
    fn every_explanation_is_of_one_claim_and_says_what_is_open() {
        let claims = Claims::builtin().unwrap();
        let mut ids = BTreeSet::new();
        for explain in explanations() {
            assert!(claims.claim(explain.id).is_some(), "{}", explain.id);
            assert!(ids.insert(explain.id), "{} stands twice", explain.id);
            assert!(!explain.cause.is_empty() && !explain.open.is_empty(), "{}", explain.id);
        }
    }
}
