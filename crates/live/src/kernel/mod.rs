//! The experiments of the papers on this machine's kernel: the same files, the same names of results.
//!
//! Each run has namespaces of its own, in which the programs of `sockscope lab work` send and receive. What only the
//! model has (machine, personality, phases of timers, costs) is left out, and a note says so.

mod error;
mod network;
mod programs;
mod run;
mod spread;

use std::path::Path;

use sockscope_experiment::measurement::Measurement;
use sockscope_experiment::result::{CaseResult, OnKernel, RunResult};
use sockscope_experiment::{Case, Experiment, Keep, Workload};
use sockscope_record::counted;

use crate::conditions::{Conditions, DROPPED, Disturbed, Rule, Watch, scattered};
pub use error::KernelError;
use programs::Programs;
use spread::Spread;

/// Parameters of the model alone: they change nothing here.
const OF_MODEL: [&str; 24] = [
    "ack_rule",
    "client_timer_ms",
    "close_after_ms",
    "data_costs_only",
    "driver_gap",
    "load_before_s",
    "low_water_bytes",
    "machine",
    "nagle",
    "personality",
    "portmap",
    "probing",
    "profiling",
    "protocol_cost_percent",
    "read_after_us",
    "read_delay_us",
    "reader_close_us",
    "scheduler",
    "send_rule",
    "server_timer_ms",
    "so_log",
    "udp_answers",
    "udp_route_cache",
    "write_after_us",
];
/// Results of the model alone, and of traces, which these runs do not record.
const RESULTS_OF_MODEL: [Keep; 6] =
    [Keep::Calls, Keep::Seconds, Keep::Wire, Keep::SystemCalls, Keep::Trace, Keep::Measures];
/// Runs of a case, where the model makes one alone, and where it makes many to average its timers.
const RUNS: [u32; 2] = [3, 5];

/// How an experiment is run.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// The program that has `lab work`.
    pub laboratory: &'a Path,
    /// Runs of each case; `None`: as many as suit it.
    pub runs: Option<u32>,
    /// Which runs are dropped.
    pub rule: Rule,
}

/// Runs an experiment on this kernel; `progress` gets each case in words before it begins.
///
/// # Errors
///
/// When it does not run here, without the rights to make namespaces and devices, or when a program fails.
pub fn run(
    experiment: &Experiment,
    plan: Plan<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<RunResult, KernelError> {
    let mut experiment = of_kernel(experiment)?;
    experiment.repetitions = plan.runs.unwrap_or(RUNS[usize::from(experiment.repetitions > 1)]);
    let cases = experiment.cases()?;
    let not_here = |reason| KernelError::NotHere { experiment: experiment.id.clone(), reason };
    let programs: Vec<Programs> = cases
        .iter()
        .map(|case| Programs::of(&experiment, case))
        .collect::<Result<_, _>>()
        .map_err(not_here)?;
    let watch = Watch::begin();
    let mut runs = Runs { plan, disturbed: Vec::new(), spread: Spread::default(), late: 0 };
    let mut results = Vec::new();
    let mut notes = Vec::new();
    for (case, programs) in cases.into_iter().zip(programs) {
        progress(&case.words());
        match runs.of_case(&experiment, &case, &programs)? {
            Ok(measured) => results.push(CaseResult { case, measured }),
            Err(why) => notes.push(format!("{}: {why}", case.words())),
        }
    }
    notes.extend(runs.spread.words());
    if runs.late > 0 {
        let runs = counted(runs.late, "run");
        notes.push(format!("in {runs} the wire was late by more than 5 % of its delay (p99)"));
    }
    let conditions = Conditions::of(watch.end(), plan.rule, runs.disturbed);
    notes.extend(conditions.disturbed_words());
    notes.push(conditions.others.words());
    let kernel = OnKernel {
        machine: conditions.machine.words(),
        notes,
        conditions: serde_json::to_value(&conditions).unwrap_or_default(),
    };
    Ok(RunResult { experiment, cases: results, kernel: Some(kernel) })
}

/// The experiment without the parameters and results of the model alone.
fn of_kernel(experiment: &Experiment) -> Result<Experiment, KernelError> {
    let not_here =
        |reason: String| KernelError::NotHere { experiment: experiment.id.clone(), reason };
    let workloads = [Workload::Discard, Workload::Send, Workload::RpcEcho];
    if !workloads.contains(&experiment.workload) {
        return Err(not_here(format!(
            "no program here does the work `{}`",
            experiment.workload.name()
        )));
    }
    let names = experiment.parameter_names();
    let left_out: Vec<&str> = OF_MODEL.into_iter().filter(|name| names.contains(name)).collect();
    let left_out_words = left_out.join(", ");
    let mut rest = experiment.without(&left_out, &RESULTS_OF_MODEL)?;
    rest.set_all(&["machine=this-one", "personality=linux"])?;
    rest.notes = vec![format!("only the model has {left_out_words}")];
    Ok(rest)
}

/// The runs of all cases.
struct Runs<'a> {
    plan: Plan<'a>,
    disturbed: Vec<Disturbed>,
    spread: Spread,
    /// Runs whose wire was late.
    late: u64,
}

impl Runs<'_> {
    /// All runs of a case, or why none is left.
    fn of_case(
        &mut self,
        experiment: &Experiment,
        case: &Case,
        programs: &Programs,
    ) -> Result<Result<Measurement, String>, KernelError> {
        let mut measured = Vec::new();
        for _ in 0..experiment.repetitions {
            measured.extend(self.one(experiment, case, programs)?);
        }
        if self.plan.rule.drops {
            let values: Vec<f64> = measured.iter().map(|it| value(experiment, it)).collect();
            let far = scattered(&values, self.plan.rule.scatter_percent_max);
            for (at, percent) in far.into_iter().rev() {
                measured.remove(at);
                let reason = format!("it was {percent:.0} % from the median of its case");
                self.disturbed.push(Disturbed { case: case.words(), reason });
            }
        }
        let values = measured.iter().map(|it| value(experiment, it));
        self.spread.add(values.collect());
        match (measured.into_iter().reduce(Measurement::and), self.disturbed.last()) {
            (Some(all), _) => Ok(Ok(all)),
            (None, Some(last)) => Ok(Err(format!("{DROPPED} {}", last.reason))),
            (None, None) => Ok(Err("no run".to_owned())),
        }
    }

    /// One run, made again while others disturb it; `None` where they did each time.
    fn one(
        &mut self,
        experiment: &Experiment,
        case: &Case,
        programs: &Programs,
    ) -> Result<Option<Measurement>, KernelError> {
        for _ in 0..=self.plan.rule.again_max {
            let watch = Watch::begin();
            let run = run::run(programs, self.plan.laboratory).map_err(|error| match error {
                KernelError::Program { problem, .. } => KernelError::Program {
                    case: format!("{}, {}", experiment.id, case.words()),
                    problem,
                },
                other => other,
            })?;
            self.late += u64::from(run.is_late);
            let Some(reason) = self.plan.rule.reason(&watch.end()) else {
                return Ok(Some(run.measured));
            };
            self.disturbed.push(Disturbed { case: case.words(), reason });
            if !self.plan.rule.drops {
                return Ok(Some(run.measured));
            }
        }
        Ok(None)
    }
}

/// What is compared of the runs of a case: throughput where the experiment has it, else the mean time.
fn value(experiment: &Experiment, measured: &Measurement) -> f64 {
    let throughput =
        measured.throughput_bits_per_s().filter(|_| experiment.keeps(Keep::Throughput));
    throughput.unwrap_or(measured.call_ns.mean_ns().unwrap_or(0) as f64)
}

#[cfg(test)]
mod tests {
    use sockscope_experiment::builtin_by_id;

    use super::*;

    #[test]
    fn what_only_the_model_has_is_left_out_and_said() {
        let buffers = of_kernel(&builtin_by_id("si-1a").unwrap()).unwrap();
        let cases = buffers.cases().unwrap();
        // Of three variants two differ in the machine alone.
        assert_eq!(cases.len(), 2 * 13);
        assert_eq!(buffers.notes, ["only the model has machine, personality"]);
        assert!(cases.iter().all(|case| case.parameters.personality == "linux"));
    }

    #[test]
    fn what_does_not_run_here_says_why() {
        let refused = |id: &str| of_kernel(&builtin_by_id(id).unwrap()).unwrap_err().to_string();
        let words = "`pc-1` does not run on this kernel: no program here does the work `atm-send`";
        assert_eq!(refused("pc-1"), words);
    }
}
