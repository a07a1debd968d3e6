//! Claims against runs on a kernel: what of each holds today, what has changed, and what is gone.
//!
//! A rule reads one number from the results of one experiment. The verdict is the range in which the number is.
//! `sockscope_live` runs the experiments; here is nothing of it, so that results of any machine can be judged.

mod reading;
mod rule;
mod rules;
mod write;

use sockscope_experiment::papers::{Claim, Claims, Live, PAPERS, Where};
use sockscope_experiment::result::RunResult;
use sockscope_experiment::{Error, Experiment, Result, builtin_by_id};
use sockscope_record::named;

pub use write::{write_live_json, write_live_text};

use rule::{Rule, Run};
use rules::{RULES, UNJUDGED};

/// What a kernel says to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveVerdict {
    /// It is as the paper found it.
    Holds,
    /// Something of it is there, and otherwise.
    Changed,
    /// Nothing of it is there.
    Gone,
    /// No run here tells; the reason stands with it.
    NotJudged,
}

named! {
    LiveVerdict {
        Holds => "holds",
        Changed => "changed",
        Gone => "gone",
        NotJudged => "not-judged",
    }
}

/// A claim and what a kernel says to it.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedClaim {
    /// The claim.
    pub claim: Claim,
    /// The verdict.
    pub verdict: LiveVerdict,
    /// The number that it is read from; `None` where no number was read.
    pub value: Option<f64>,
    /// What the number is, or why nothing is judged.
    pub words: String,
    /// The command line of the run; empty without one.
    pub run: String,
}

impl JudgedClaim {
    /// What the register expects of a Linux of today.
    pub fn expected(&self) -> LiveVerdict {
        match self.claim.live {
            Live::Holds => LiveVerdict::Holds,
            Live::Changed => LiveVerdict::Changed,
            Live::Gone => LiveVerdict::Gone,
            Live::NotApplicable => LiveVerdict::NotJudged,
        }
    }

    /// Whether it was judged, and otherwise than the register expects.
    pub fn is_surprise(&self) -> bool {
        self.verdict != LiveVerdict::NotJudged && self.verdict != self.expected()
    }
}

/// Judges the claims of `paper`, or of all, that a kernel can show, in the order of the register. `results` runs each
/// experiment once for all of its claims, or says why it does not.
///
/// # Errors
///
/// When there is no such paper.
pub fn judge(
    paper: Option<&str>,
    results: &mut dyn FnMut(&Experiment) -> std::result::Result<RunResult, String>,
) -> Result<Vec<JudgedClaim>> {
    if let Some(wanted) = paper.filter(|paper| !PAPERS.contains(paper)) {
        return Err(Error::NoSuchPaper { wanted: wanted.to_owned(), known: PAPERS.join(", ") });
    }
    let claims = Claims::builtin()?;
    let mut runs: Vec<(&Run, std::result::Result<RunResult, String>)> = Vec::new();
    let mut judged = Vec::new();
    for claim in claims.of(paper).filter(|claim| claim.check != Where::Model) {
        let Some(rule) = RULES.iter().find(|rule| rule.id == claim.id) else {
            let why = UNJUDGED.iter().find(|(id, _)| *id == claim.id).map_or("", |(_, why)| why);
            judged.push(unjudged(claim, why.to_owned(), String::new()));
            continue;
        };
        if !runs.iter().any(|(run, _)| *run == rule.run) {
            let mut experiment = builtin_by_id(rule.run.id)?;
            experiment.set_all(rule.run.sets)?;
            runs.push((rule.run, results(&experiment)));
        }
        let result = runs.iter().find(|(run, _)| *run == rule.run).map(|(_, result)| result);
        judged.push(match result {
            Some(Ok(result)) => rule.judge(claim, result),
            Some(Err(why)) => unjudged(claim, why.clone(), rule.run.command()),
            None => unjudged(claim, "its experiment did not run".to_owned(), String::new()),
        });
    }
    Ok(judged)
}

fn unjudged(claim: &Claim, words: String, run: String) -> JudgedClaim {
    JudgedClaim { claim: claim.clone(), verdict: LiveVerdict::NotJudged, value: None, words, run }
}

impl Rule {
    fn judge(&self, claim: &Claim, result: &RunResult) -> JudgedClaim {
        let run = self.run.command();
        let value = match self.reading.of(result) {
            Ok(value) => value,
            Err(why) => return unjudged(claim, why, run),
        };
        let is_in = |(least, most): (f64, f64)| (least..=most).contains(&value);
        let verdict = match (is_in(self.holds), is_in(self.changed)) {
            (true, _) => LiveVerdict::Holds,
            (false, true) => LiveVerdict::Changed,
            (false, false) => LiveVerdict::Gone,
        };
        let words = self.reading.words();
        JudgedClaim { claim: claim.clone(), verdict, value: Some(value), words, run }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sockscope_experiment::measurement::{Measure, Measurement};
    use sockscope_experiment::result::{CaseResult, OnKernel};

    use super::*;

    /// A result in which acknowledgments fall with the buffer as given.
    fn with_acks(acks: impl Fn(u64) -> u64) -> RunResult {
        let experiment = builtin_by_id("si-1b").unwrap();
        let cases = experiment.cases().unwrap().into_iter().map(|case| {
            let bytes = case.parameters.socket_buffer_bytes.unwrap();
            let measures = vec![Measure::new("write_calls", 1.0)];
            let measured = Measurement {
                acks: acks(bytes),
                bytes: 5_242_880,
                measures,
                ..Measurement::default()
            };
            CaseResult { case, measured }
        });
        let kernel = OnKernel {
            machine: "m".to_owned(),
            notes: Vec::new(),
            conditions: serde_json::json!({}),
            bundles: Vec::new(),
        };
        RunResult { cases: cases.collect(), experiment, kernel: Some(kernel) }
    }

    fn judged(id: &str, result: &RunResult) -> JudgedClaim {
        let claims = Claims::builtin().unwrap();
        let rule = RULES.iter().find(|rule| rule.id == id).unwrap();
        rule.judge(claims.claim(id).unwrap(), result)
    }

    #[test]
    fn a_verdict_is_the_range_of_a_number() {
        let verdict = |small: u64| {
            let acks = with_acks(|bytes| if bytes == 4096 { small } else { 1000 });
            judged("sunos-ipc/4.1.1-e", &acks).verdict
        };
        assert_eq!(verdict(2000), LiveVerdict::Holds);
        assert_eq!(verdict(5000), LiveVerdict::Changed);
        assert_eq!(verdict(1000), LiveVerdict::Gone);
    }

    #[test]
    fn a_case_with_a_dropped_run_has_the_same_verdict() {
        let mut result = with_acks(|bytes| if bytes == 4096 { 2000 } else { 1000 });
        let last = result.cases.len() - 1;
        let measured = &mut result.cases[last].measured;
        (measured.acks, measured.bytes) = (measured.acks / 2, measured.bytes / 2);
        assert_eq!(judged("sunos-ipc/4.1.1-e", &result).verdict, LiveVerdict::Holds);
    }

    #[test]
    fn a_case_without_a_run_is_not_judged() {
        let mut result = with_acks(|_| 1000);
        result.cases.remove(0);
        let one = judged("sunos-ipc/4.1.1-e", &result);
        assert_eq!((one.verdict, one.value), (LiveVerdict::NotJudged, None));
        assert!(one.words.contains("socket_buffer_bytes 4096"), "{}", one.words);
    }

    #[test]
    fn every_claim_for_a_kernel_has_a_rule_or_a_reason() {
        let claims = Claims::builtin().unwrap();
        let live: BTreeSet<_> = claims
            .of(None)
            .filter(|claim| claim.check != Where::Model)
            .map(|claim| claim.id.as_str())
            .collect();
        let ruled = RULES.iter().map(|rule| rule.id).chain(UNJUDGED.iter().map(|(id, _)| *id));
        let all: Vec<_> = ruled.collect();
        assert_eq!(all.iter().copied().collect::<BTreeSet<_>>(), live);
        assert_eq!(all.len(), live.len(), "one each");
    }

    #[test]
    fn every_rule_names_cases_and_sets_that_its_experiment_has() {
        for rule in RULES {
            let mut experiment = builtin_by_id(rule.run.id).unwrap();
            experiment
                .set_all(rule.run.sets)
                .unwrap_or_else(|error| panic!("{}: {error}", rule.id));
            let cases = experiment.cases().unwrap();
            for wanted in rule.reading.cases() {
                let found = cases.iter().any(|case| reading::is_case(case, wanted));
                assert!(found, "{}: {wanted:?}", rule.id);
            }
        }
    }

    #[test]
    fn each_run_is_made_once_and_one_that_fails_judges_nothing() {
        let mut asked = Vec::new();
        let judged = judge(Some("layering"), &mut |experiment| {
            asked.push(experiment.id.clone());
            Err("no right".to_owned())
        });
        let judged = judged.unwrap();
        assert!(
            judged.iter().all(|one| one.verdict == LiveVerdict::NotJudged && !one.is_surprise())
        );
        let runs: BTreeSet<_> = asked.iter().collect();
        assert!(asked.len() > 1 && runs.len() == asked.len(), "{asked:?}");
    }
}
