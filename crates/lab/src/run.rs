//! Running experiments: every repetition of every case is a job, and jobs run on several threads.
//! Results are in the order of the file, in any order of the threads.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use sockscope_experiment::measurement::Measurement;
use sockscope_experiment::result::{CaseResult, RunResult};
use sockscope_experiment::{Case, Error, Experiment, Result, Workload};

use crate::atm_pair;
use crate::cache_interface;
use crate::model;
use crate::vmtp_pair;

/// Runs one experiment on the model.
///
/// `progress` gets the number of completed repetitions and the number of all.
///
/// # Errors
///
/// When a case has no sense or its run fails; the first in the order of the file is reported.
pub fn run(
    experiment: &Experiment,
    threads: usize,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<RunResult> {
    let experiments = std::slice::from_ref(experiment);
    let mut results = run_all(experiments, threads, progress)?;
    // One experiment gives one result.
    Ok(results.remove(0))
}

/// One repetition of one case.
struct Job<'a> {
    experiment: &'a Experiment,
    case: &'a Case,
    repetition: u32,
}

/// Runs several experiments at once, results in their order.
///
/// # Errors
///
/// As [`run`].
pub fn run_all(
    experiments: &[Experiment],
    threads: usize,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<RunResult>> {
    let cases = experiments.iter().map(Experiment::cases).collect::<Result<Vec<_>>>()?;
    let mut jobs = Vec::new();
    for (experiment, cases) in experiments.iter().zip(&cases) {
        for case in cases {
            if experiment.workload == Workload::Program {
                let problem = "programs of others run on a kernel alone: add --on live".to_owned();
                return Err(experiment.failed(case, problem));
            }
            let has_cells_to = case.atm.as_ref().is_some_and(|atm| atm.cells_to.is_some());
            let of_kernel = case.parameters.of_kernel_alone().next();
            if let Some(name) = of_kernel.or(has_cells_to.then_some("cells_to")) {
                let problem = format!("`{name}` is of a kernel of today: add --on live");
                return Err(experiment.failed(case, problem));
            }
            let repetitions = 0..experiment.repetitions;
            jobs.extend(repetitions.map(|repetition| Job { experiment, case, repetition }));
        }
    }
    let mut measured = run_jobs(&jobs, threads, progress)?.into_iter();
    let mut results = Vec::new();
    for (experiment, cases) in experiments.iter().zip(&cases) {
        let joined = |case: &Case| {
            let repetitions = measured.by_ref().take(experiment.repetitions as usize);
            CaseResult {
                case: case.clone(),
                measured: repetitions.reduce(Measurement::and).unwrap_or_default(),
            }
        };
        let notes: BTreeSet<_> =
            cases.iter().filter_map(|case| model::beyond_limit(&case.parameters)).collect();
        let cases = cases.iter().map(joined).collect();
        let mut experiment = experiment.clone();
        experiment.notes.extend(notes);
        results.push(RunResult { experiment, cases, kernel: None });
    }
    Ok(results)
}

/// Runs all jobs and gives their results in their order.
fn run_jobs(
    jobs: &[Job<'_>],
    threads: usize,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Measurement>> {
    let next = AtomicUsize::new(0);
    let (done, finished) = mpsc::channel();
    let mut slots: Vec<Option<Result<Measurement>>> = jobs.iter().map(|_| None).collect();
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            let (next, done) = (&next, done.clone());
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at) else { return };
                    if done.send((at, job.run())).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        for (count, (at, result)) in finished.into_iter().enumerate() {
            slots[at] = Some(result);
            progress(count + 1, jobs.len());
        }
    });
    let missing = || Err(Error::file("run", "a thread ended without a result"));
    slots.into_iter().map(|slot| slot.unwrap_or_else(missing)).collect()
}

impl Job<'_> {
    fn run(&self) -> Result<Measurement> {
        let Self { experiment, case, repetition } = *self;
        let measured = match (&case.atm, &case.vmtp, &case.cache) {
            (Some(atm), ..) => atm_pair::run(experiment, atm, repetition),
            (_, Some(vmtp), _) => vmtp_pair::run(experiment, vmtp, repetition),
            (.., Some(cache)) => cache_interface::run(experiment, cache, repetition),
            _ => model::run(experiment, case, repetition),
        };
        measured.map_err(|problem| experiment.failed(case, problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockscope_experiment::builtin_by_id;

    fn small(changes: &[&str]) -> Experiment {
        let mut experiment = builtin_by_id("bb-2").unwrap();
        changes.iter().for_each(|change| experiment.set(change).unwrap());
        experiment
    }

    #[test]
    fn results_stand_in_file_order_and_progress_counts_to_the_end() {
        let experiment = small(&["messages=3"]);
        let mut told = Vec::new();
        let result = run(&experiment, 4, &mut |done, of| told.push((done, of))).unwrap();
        let sizes: Vec<_> = result.cases.iter().map(|case| case.case.words()).collect();
        assert_eq!(sizes[0], "message_bytes 1");
        assert_eq!(sizes[5], "message_bytes 1025");
        assert!(result.cases.iter().all(|case| case.measured.calls_of("sosend") == 3));
        assert_eq!(told, (1..=6).map(|done| (done, 6)).collect::<Vec<_>>());
    }

    #[test]
    fn options_that_no_stack_of_the_model_has_are_refused() {
        let said = run(&small(&["sack=false"]), 1, &mut |_, _| {}).unwrap_err().to_string();
        assert!(said.ends_with("`sack` is of a kernel of today: add --on live"), "{said}");
        let mut cells = builtin_by_id("pc-2").unwrap();
        cells.set_all(&["cells_to=pipe", "data_bytes=100"]).unwrap();
        let said = run(&cells, 1, &mut |_, _| {}).unwrap_err().to_string();
        assert!(said.contains("`cells_to` is of a kernel"), "{said}");
    }

    #[test]
    fn programs_of_others_are_refused() {
        const FILE: &str = r#"
            id = "x"
            title = "t"
            paper = "none"
            source = "s"
            question = "q"
            workload = "program"
            seed = 1
            repetitions = 1
            record = ["throughput"]
            program = { command = "iperf3 -c 198.18.0.2 -J", parse = "iperf3" }
        "#;
        let experiment = Experiment::parse("x", FILE).unwrap();
        let said = run(&experiment, 1, &mut |_, _| {}).unwrap_err().to_string();
        assert!(
            said.ends_with("programs of others run on a kernel alone: add --on live"),
            "{said}"
        );
    }

    #[test]
    fn repetitions_of_a_case_are_joined() {
        let mut experiment = small(&["messages=3", "message_bytes=112"]);
        experiment.repetitions = 4;
        let result = run(&experiment, 2, &mut |_, _| {}).unwrap();
        let measured = &result.cases[0].measured;
        assert_eq!(
            (measured.calls_of("sosend"), measured.call_ns.n(), measured.bytes),
            (12, 12, 12 * 112)
        );
    }

    /// The error of a run of some experiment with changes.
    fn problem(id: &str, changes: &[&str]) -> String {
        let mut experiment = builtin_by_id(id).unwrap();
        experiment.set_all(changes).unwrap();
        let told = run(&experiment, 2, &mut |_, _| {});
        told.map_or_else(|error| error.to_string(), |_| "results".to_owned())
    }

    #[test]
    fn a_name_that_is_not_known_is_told_with_the_case_and_those_that_are() {
        for (change, words) in [
            ("machine=pdp-11", "no machine `pdp-11`: expected one of vax-11-750, "),
            ("personality=minix", "no personality `minix`: expected one of 4.2bsd, "),
        ] {
            let error = problem("bb-2", &[change, "message_bytes=1"]);
            assert!(error.starts_with("bb-2, the only case: ") && error.contains(words), "{error}");
        }
    }

    /// The effect of a number in a machine's file can be tried without building anything.
    #[test]
    fn a_machine_may_be_a_file_with_a_number_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("slow.toml");
        let carried = include_str!("../../../machines/sparcstation-1.toml");
        let set = format!("machine={}", path.display());
        let changes = [set.as_str(), "total_bytes=65536", "socket_buffer_bytes=4096"];
        let taken_ns = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let mut experiment = builtin_by_id("si-1b").unwrap();
            experiment.set_all(&changes).unwrap();
            run(&experiment, 1, &mut |_, _| {}).unwrap().cases[0].measured.transfer_ns
        };
        let slow = carried.replace("switch_ns = 180000", "switch_ns = 400000");
        assert!(taken_ns(&slow) > taken_ns(carried));
        for (text, words) in [("name = ", "machine "), (&carried.replace("sosend", "snd"), "snd")] {
            std::fs::write(&path, text).unwrap();
            let error = problem("si-1b", &changes);
            assert!(error.contains(words) && !error.contains('\n'), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(problem("si-1b", &changes).contains("No such file"));
    }

    /// 10,000 refused writes would be 0 Mbit/s without a word of why.
    #[test]
    fn datagrams_longer_than_their_socket_takes_are_an_error() {
        let error = problem("bb-2", &["message_bytes=3000"]);
        assert!(error.contains("datagram of 3000 octets: the message is longer"), "{error}");
    }

    #[test]
    fn a_run_without_end_says_when_it_was_given_up() {
        // An hour between two of fifty writes.
        let error = problem("si-2b", &["write_pause_ms=3600000"]);
        assert!(error.contains("no end after 100000 s of the model's time; 0 of 2"), "{error}");
        // Load keeps the CPUs busy all the time.
        let changes = ["write_pause_ms=3600000", "load=1", "total_bytes=2048", "write_bytes=1024"];
        let error = problem("si-2b", &changes);
        assert!(error.contains("no end after 3000 s of the model's time; 0 of 2"), "{error}");
    }

    /// Once for all cases, and only where it is so.
    #[test]
    fn a_buffer_past_the_limit_of_its_system_is_noted() {
        let notes = |buffer: &str| {
            let mut experiment = builtin_by_id("si-1b").unwrap();
            experiment.set_all(&["total_bytes=100000", "write_bytes=100000", buffer]).unwrap();
            let own = experiment.notes.len();
            run(&experiment, 1, &mut |_, _| {}).unwrap().experiment.notes.split_off(own)
        };
        assert_eq!(notes("socket_buffer_bytes=52428"), [] as [String; 0]);
        let noted = notes("socket_buffer_bytes=60000");
        assert_eq!(
            noted,
            [
                "sunos-4.0.3 refuses a program socket buffers of more than 52,428 octets; the laboratory sets 60,000 past that limit"
            ]
        );
    }
}
