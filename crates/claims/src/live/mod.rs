//! Claims against runs on a kernel: what of each holds today, what has changed, and what is gone.
//!
//! A rule reads one number from the results of one experiment. Each experiment is run several times, so that the
//! number has an interval. The verdict is the range in which the interval is; one that lies in two ranges judges
//! nothing. `sockscope_live` runs the experiments; here is nothing of it, so that results of any machine can be judged.

mod interval;
mod reading;
mod rule;
mod rules;
mod write;

use std::time::{Duration, Instant};

use sockscope_experiment::papers::{Claim, Claims, Live, PAPERS, Where};
use sockscope_experiment::result::RunResult;
use sockscope_experiment::{Case, Error, Experiment, Result, builtin_by_id};
use sockscope_record::named;

pub use write::{write_live_json, write_live_text};

pub use interval::Interval;
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

/// How often each experiment is run for its claims.
pub const TIMES: usize = 3;

/// A claim and what a kernel says to it.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedClaim {
    /// The claim.
    pub claim: Claim,
    /// The verdict.
    pub verdict: LiveVerdict,
    /// The number that it is read from, the median of all times; `None` where no number was read.
    pub value: Option<f64>,
    /// The number of each time, in their order.
    pub values: Vec<f64>,
    /// Where the number is expected, by all times; `None` with fewer than two.
    pub interval: Option<Interval>,
    /// What the number is, or why nothing is judged.
    pub words: String,
    /// The command line of the run; empty without one.
    pub run: String,
}

/// Claims, and the runs that judged them.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// In the order of the register.
    pub claims: Vec<JudgedClaim>,
    /// In the order of their first claims.
    pub runs: Vec<JudgingRun>,
}

/// A run of an experiment for its claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgingRun {
    /// The command line of the run.
    pub run: String,
    /// How long all times took together.
    pub took: Duration,
    /// How often it was run.
    pub times: usize,
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

/// Runs the cases of an experiment that are wanted, or says why it does not run.
pub type RunCases<'a> =
    dyn FnMut(&Experiment, &dyn Fn(&Case) -> bool) -> std::result::Result<RunResult, String> + 'a;

/// Judges the claims of `paper`, or of all, that a kernel can show, in the order of the register. `results` runs an
/// experiment, all cases that its second argument wants, or says why it does not. These are the cases that the rules of
/// these claims read. Each experiment is run three times for all of its claims together, one after
/// the other, so that the times of one are far apart. A reason ends the times of its experiment.
///
/// # Errors
///
/// When there is no such paper.
pub fn judge(paper: Option<&str>, results: &mut RunCases<'_>) -> Result<Judged> {
    if let Some(wanted) = paper.filter(|paper| !PAPERS.contains(paper)) {
        return Err(Error::NoSuchPaper { wanted: wanted.to_owned(), known: PAPERS.join(", ") });
    }
    let claims = Claims::builtin()?;
    let for_kernel = || claims.of(paper).filter(|claim| claim.check != Where::Model);
    let rule_of = |claim: &Claim| RULES.iter().find(|rule| rule.id == claim.id);
    let mut runs: Vec<Times> = Vec::new();
    for rule in for_kernel().filter_map(rule_of) {
        match runs.iter_mut().find(|times| *times.run == *rule.run) {
            Some(times) => times.rules.push(rule),
            None => runs.push(Times::of(rule)),
        }
    }
    for _ in 0..TIMES {
        for times in runs.iter_mut().filter(|times| times.problem.is_none()) {
            let mut experiment = builtin_by_id(times.run.id)?;
            experiment.set_all(times.run.sets)?;
            let began = Instant::now();
            let rules = &times.rules;
            let is_read = |case: &Case| rules.iter().any(|rule| rule.reads(case));
            let outcome = results(&experiment, &is_read);
            times.took += began.elapsed();
            match outcome {
                Ok(result) => times.results.push(result),
                Err(why) => times.problem = Some(why),
            }
        }
    }
    let judged = for_kernel().map(|claim| {
        let Some(rule) = rule_of(claim) else {
            let why = UNJUDGED.iter().find(|(id, _)| *id == claim.id).map_or("", |(_, why)| why);
            return unjudged(claim, why.to_owned(), String::new());
        };
        match runs.iter().find(|times| *times.run == *rule.run) {
            Some(Times { problem: Some(why), .. }) => {
                unjudged(claim, why.clone(), rule.run.command())
            }
            Some(Times { results, .. }) => rule.judge(claim, results),
            None => unjudged(claim, "its experiment did not run".to_owned(), String::new()),
        }
    });
    let claims = judged.collect();
    let runs = runs.into_iter().map(|times| JudgingRun {
        run: times.run.command(),
        took: times.took,
        times: times.results.len() + usize::from(times.problem.is_some()),
    });
    Ok(Judged { claims, runs: runs.collect() })
}

/// All times of one run.
struct Times {
    run: &'static Run,
    rules: Vec<&'static Rule>,
    results: Vec<RunResult>,
    /// Why it does not run.
    problem: Option<String>,
    took: Duration,
}

impl Times {
    fn of(rule: &'static Rule) -> Self {
        let (results, problem) = (Vec::new(), None);
        Self { run: rule.run, rules: vec![rule], results, problem, took: Duration::ZERO }
    }
}

fn unjudged(claim: &Claim, words: String, run: String) -> JudgedClaim {
    JudgedClaim {
        claim: claim.clone(),
        verdict: LiveVerdict::NotJudged,
        value: None,
        values: Vec::new(),
        interval: None,
        words,
        run,
    }
}

impl Rule {
    /// Whether its number is made of this case, maybe with others.
    fn reads(&self, case: &Case) -> bool {
        self.reading.cases().into_iter().any(|wanted| reading::is_case(case, wanted))
    }

    fn judge(&self, claim: &Claim, results: &[RunResult]) -> JudgedClaim {
        let run = self.run.command();
        let mut values = Vec::new();
        let mut why = String::new();
        for result in results {
            match self.reading.of(result) {
                Ok(value) => values.push(value),
                Err(reason) => why = reason,
            }
        }
        let Some(interval) = Interval::of(&values, self.reading.bounds(), self.reading.scatter())
        else {
            let why = match values.len() {
                0 => why,
                _ => format!("a single time of {} has a number: {why}", results.len()),
            };
            return JudgedClaim { values, ..unjudged(claim, why, run) };
        };
        let words = self.reading.words();
        let (verdict, words) = match self.verdict_of(interval) {
            Some(verdict) => (verdict, words),
            None => (
                LiveVerdict::NotJudged,
                format!("the interval of {words} lies in the ranges of two verdicts"),
            ),
        };
        let value = Some(median(&values));
        JudgedClaim {
            claim: claim.clone(),
            verdict,
            value,
            values,
            interval: Some(interval),
            words,
            run,
        }
    }

    /// The verdict of a number.
    fn verdict(&self, value: f64) -> LiveVerdict {
        let is_in = |(least, most): (f64, f64)| (least..=most).contains(&value);
        match (is_in(self.holds), is_in(self.changed)) {
            (true, _) => LiveVerdict::Holds,
            (false, true) => LiveVerdict::Changed,
            (false, false) => LiveVerdict::Gone,
        }
    }

    /// The verdict of all numbers of an interval; `None` where they have different ones.
    fn verdict_of(&self, interval: Interval) -> Option<LiveVerdict> {
        let ends = [self.holds.0, self.holds.1, self.changed.0, self.changed.1];
        // A verdict changes at an end of a range alone, which itself is of the range.
        let borders = ends.into_iter().flat_map(|end| [end.next_down(), end, end.next_up()]);
        let inside = borders.filter(|it| (interval.least..=interval.most).contains(it));
        let first = self.verdict(interval.least);
        let mut all = inside.chain([interval.most]).map(|value| self.verdict(value));
        all.all(|verdict| verdict == first).then_some(first)
    }
}

/// Of the times; the lower of two in the middle.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[(sorted.len() - 1) / 2]
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
        judged_by(id, &vec![result.clone(); TIMES])
    }

    fn judged_by(id: &str, times: &[RunResult]) -> JudgedClaim {
        let claims = Claims::builtin().unwrap();
        let rule = RULES.iter().find(|rule| rule.id == id).unwrap();
        rule.judge(claims.claim(id).unwrap(), times)
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
    fn an_interval_with_a_border_in_it_judges_nothing() {
        let times = |small: [u64; 3]| {
            small.map(|small| with_acks(|bytes| if bytes == 4096 { small } else { 1000 }))
        };
        let id = "sunos-ipc/4.1.1-e";
        let sure = judged_by(id, &times([1990, 2000, 2010]));
        assert_eq!((sure.verdict, sure.value), (LiveVerdict::Holds, Some(2.0)));
        assert_eq!(sure.values, [1.99, 2.0, 2.01]);
        // The mean holds, and so do two of three.
        let unsure = judged_by(id, &times([1400, 2000, 2100]));
        assert_eq!((unsure.verdict, unsure.value), (LiveVerdict::NotJudged, Some(2.0)));
        assert!(unsure.words.ends_with("in the ranges of two verdicts"), "{}", unsure.words);
        // All are in the range, and may be out of it the next time.
        let near = judged_by(id, &times([1610, 1650, 1690]));
        assert_eq!(near.verdict, LiveVerdict::NotJudged);
    }

    #[test]
    fn a_range_in_the_middle_of_an_interval_is_a_border() {
        let rule = RULES.iter().find(|rule| rule.id == "sunos-ipc/4.1.1-e").unwrap();
        let of = |least, most| rule.verdict_of(Interval { least, most });
        assert_eq!(of(1.2, 3.0), None, "it contains all of `holds`");
        assert_eq!(of(1.6, 2.4), Some(LiveVerdict::Holds));
        assert_eq!(of(2.4, 2.5), None);
        assert_eq!(of(0.0, 1.0), Some(LiveVerdict::Gone));
    }

    #[test]
    fn a_single_time_with_a_number_judges_nothing() {
        let good = with_acks(|_| 1000);
        let mut bad = good.clone();
        bad.cases.remove(0);
        let one = judged_by("sunos-ipc/4.1.1-e", &[good, bad.clone(), bad]);
        assert_eq!((one.verdict, one.values.len()), (LiveVerdict::NotJudged, 1));
        assert!(one.words.starts_with("a single time of 3 has a number"), "{}", one.words);
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
    fn each_run_is_made_some_times() {
        let mut asked = Vec::new();
        let judged = judge(Some("layering"), &mut |experiment, _| {
            asked.push(experiment.id.clone());
            Ok(RunResult { experiment: experiment.clone(), cases: Vec::new(), kernel: None })
        });
        let judged = judged.unwrap();
        assert!(judged.claims.iter().all(|one| one.verdict == LiveVerdict::NotJudged));
        let runs = asked.iter().collect::<BTreeSet<_>>().len();
        assert_eq!(asked.len(), TIMES * runs);
        assert_eq!(judged.runs.iter().map(|run| run.times).collect::<Vec<_>>(), vec![TIMES; runs]);
        assert_eq!(asked[..runs], asked[runs..2 * runs], "one after the other");
    }

    #[test]
    fn only_cases_that_a_rule_reads_are_run() {
        let mut counts = std::collections::BTreeMap::new();
        let judged = judge(Some("protocol-choice"), &mut |experiment, is_wanted| {
            let cases = experiment.cases().unwrap();
            let wanted: Vec<Case> = cases.iter().filter(|case| is_wanted(case)).cloned().collect();
            counts.insert(experiment.id.clone(), (wanted.len(), cases.len()));
            // A machine of its own is left out on a kernel: the first one stands for all.
            let machine = |case: &&Case| case.value("machine") == cases[0].value("machine");
            let bytes = |case: &Case| case.value("request_bytes").and_then(|it| it.as_integer());
            let sizes: Vec<_> = wanted.iter().filter(machine).filter_map(bytes).collect();
            assert!(experiment.id != "pc-3" || sizes == [8192, 16_384], "{sizes:?}");
            Err("no right".to_owned())
        });
        assert!(judged.is_ok() && counts["pc-3"] == (6, 96), "{counts:?}");
        assert_eq!(counts["pc-2"].0, counts["pc-2"].1, "a line is of all sizes");
    }

    #[test]
    fn a_run_that_fails_is_made_once_and_judges_nothing() {
        let mut asked = Vec::new();
        let judged = judge(Some("layering"), &mut |experiment, _| {
            asked.push(experiment.id.clone());
            Err("no right".to_owned())
        });
        let judged = judged.unwrap().claims;
        assert!(
            judged.iter().all(|one| one.verdict == LiveVerdict::NotJudged && !one.is_surprise())
        );
        let runs: BTreeSet<_> = asked.iter().collect();
        assert!(asked.len() > 1 && runs.len() == asked.len(), "{asked:?}");
    }
}
