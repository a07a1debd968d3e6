//! The experiments of the papers on this machine's kernel: the same files, the same names of results.
//!
//! Each run has namespaces of its own, in which the programs of `sockscope lab work` send and receive. The ATM
//! experiments run in this process, in memory. What only the model has (machine, personality, phases of timers, costs)
//! is left out, and a note says so. So does one for each number of the file that is smaller here.

mod cells;
mod children;
mod error;
mod network;
mod others;
mod packet_thread;
mod programs;
mod recorded;
mod run;
mod sends;
mod spread;

use std::fs;
use std::path::{Path, PathBuf};

use sockscope_experiment::measurement::{Measure, Measurement, PacketTimes, Phase};
use sockscope_experiment::result::{CaseResult, OnKernel, RunResult};
use sockscope_experiment::{Case, Experiment, Keep, Workload};
use sockscope_probe::Summary;
use sockscope_record::counted;
use sockscope_trace::Meta;

use crate::conditions::{
    Conditions, DROPPED, Disturbed, Namespaces, Rule, Watch, add_case, scattered,
    without_names_of_all,
};
use crate::profile::Symbols;
pub use error::KernelError;
use programs::{Kind, Programs};
use recorded::Trace;
use spread::Spread;

/// Parameters of the model alone: they change nothing here. The pipes between the processes of a stage hold what the
/// kernel gives them, which is no `depth`.
const OF_MODEL: [&str; 36] = [
    "ack_rule",
    "bystanders",
    "capture_buffer_frames",
    "capture_clock_us",
    "capture_frame_us",
    "client_timer_ms",
    "close_after_ms",
    "data_costs_only",
    "depth",
    "driver_gap",
    "load_before_s",
    "machine",
    "message_setup_cycles",
    "other_frame_bytes",
    "other_frames_per_s",
    "personality",
    "portmap",
    "probe_idle",
    "probe_list_records",
    "probe_read_ms",
    "probing",
    "profiling",
    "profiling_cost_percent",
    "protocol_cost_percent",
    "read_after_us",
    "read_delay_us",
    "reader_close_us",
    "repair_check_cycles",
    "scheduler",
    "server_machine",
    "server_timer_ms",
    "so_log",
    "udp_answers",
    "udp_route_cache",
    "variation_percent",
    "write_after_us",
];
/// Rules of `sosend` that no option of a socket has.
const SEND_RULES_OF_MODEL: [&str; 4] = ["personality", "fill", "old", "cluster"];
/// Results of the model alone.
const RESULTS_OF_MODEL: [Keep; 5] =
    [Keep::Calls, Keep::Seconds, Keep::Wire, Keep::SystemCalls, Keep::Trace];
/// The greatest values here of numbers that make a run long, so that all experiments together take minutes.
const SHORTER: [(&str, i64); 7] = [
    ("total_bytes", 1 << 20),
    ("write_bytes", 1 << 20),
    ("messages", 500),
    ("write_pause_ms", 20),
    ("pieces", 10),
    ("compute_us", 20_000),
    ("run_ms", 1000),
];
/// Octets of a transfer whose reader pauses, and milliseconds of clients in an experiment of many cases.
const TOTAL_BYTES_OF_PAUSES: i64 = 1 << 17;
const RUN_MS_OF_MANY: i64 = 300;
/// More cases than these have two runs each, or one.
const FEW: usize = 8;
const MANY: usize = 30;
/// Passes over the cases of a sweep of cells.
const PASSES: usize = 5;
/// Runs of a case of few, where the model makes one alone, and where it makes many to average its timers.
const RUNS: [u32; 2] = [3, 5];
/// Cases of which an additional run is recorded, at most.
const RECORDED_MAX: usize = 30;
/// Disturbed runs of an experiment that are made again.
const AGAIN_IN_ALL: usize = 12;

/// How an experiment is run.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// The program that has `lab work`.
    pub laboratory: &'a Path,
    /// Runs of each case; `None`: as many as suit it.
    pub runs: Option<u32>,
    /// Which runs are dropped.
    pub rule: Rule,
    /// Profiles the senders of an experiment whose file asks for the time in each routine.
    pub profiles: bool,
    /// Where the traces of an experiment that records them are kept; `None`: nowhere.
    pub traces: Option<Traces<'a>>,
}

/// Where traces are kept, and what they say of themselves.
#[derive(Debug, Clone, Copy)]
pub struct Traces<'a> {
    /// The folder, which is there.
    pub folder: &'a Path,
    /// What all of them say.
    pub meta: &'a Meta,
    /// Adds what is known only at the end of a recording.
    pub complete: fn(&mut Meta, &Summary),
}

/// Runs an experiment on this kernel, all cases that `is_wanted`; `progress` gets each case in words before it begins.
/// A case is run in the same way with and without the others.
///
/// # Errors
///
/// When it does not run here, without the rights to make namespaces and devices, or when a program fails.
pub fn run(
    experiment: &Experiment,
    plan: Plan<'_>,
    is_wanted: &dyn Fn(&Case) -> bool,
    progress: &mut dyn FnMut(&str),
) -> Result<RunResult, KernelError> {
    let traces = plan.traces.filter(|_| experiment.keeps(Keep::Trace));
    let symbols = (plan.profiles && sends::are_profiled(experiment)).then(sends::symbols);
    let (symbols, refused) = match symbols.transpose() {
        Ok(symbols) => (symbols, None),
        Err(error) => (None, Some(error)),
    };
    let mut experiment = if symbols.is_some() {
        let mut prepared = of_kernel(&sends::prepared(experiment)?)?;
        prepared.notes.extend(sends::notes(&prepared));
        prepared
    } else {
        of_kernel(experiment)?
    };
    experiment.notes.extend(refused.map(|error| format!("there is no profile: {error}")));
    // A protocol that is compared has the runs that the first one has alone.
    let suiting = match experiment.cases()?.len() {
        _ if symbols.is_some() => RUNS[0],
        few if few <= FEW => RUNS[usize::from(experiment.repetitions > 1)],
        some if some <= MANY => 2,
        _ => 1,
    };
    let mut experiment = experiment.with_live_sweep();
    let cases = experiment.cases()?;
    experiment.repetitions = plan.runs.unwrap_or(suiting);
    let not_here = |reason| KernelError::NotHere { experiment: experiment.id.clone(), reason };
    let mut works: Vec<Work> = cases
        .iter()
        .map(|case| Work::of(&experiment, case))
        .collect::<Result<_, _>>()
        .map_err(not_here)?;
    if symbols.is_some() {
        works.iter_mut().filter_map(Work::programs_mut).for_each(sends::on_fast_wire);
    }
    // A profile has a recorded run of its own.
    let is_recorded = symbols.is_none() && records(&experiment, &works);
    let plan = Plan { traces, ..plan };
    if is_recorded && !experiment.keeps(Keep::Measures) {
        experiment.record.push(Keep::Measures);
    }
    let watch = Watch::begin();
    let of_wanted = cases.iter().zip(&mut works).filter(|(case, _)| is_wanted(case));
    pass_over_cells(of_wanted.collect());
    let mut runs = Runs {
        plan,
        is_recorded,
        symbols,
        disturbed: Vec::new(),
        spread: Spread::default(),
        late: 0,
        missed: 0,
        bundles: Vec::new(),
        namespaces: Vec::new(),
    };
    let mut results = Vec::new();
    let mut notes = Vec::new();
    for (case, work) in cases.into_iter().zip(works).filter(|(case, _)| is_wanted(case)) {
        if let Some(why) = cells::refused(&case) {
            notes.push(format!("{}: {why}", case.words()));
            continue;
        }
        progress(&case.words());
        match runs.of_case(&experiment, &case, &work)? {
            Ok(measured) => results.push(CaseResult { case, measured }),
            Err(why) => notes.push(format!("{}: {why}", case.words())),
        }
    }
    if results.is_empty() && runs.disturbed.is_empty() {
        return Err(not_here(notes.join("; ")));
    }
    notes.extend(runs.words());
    notes.extend(sends::watched_by_others(&results));
    let bundles = std::mem::take(&mut runs.bundles);
    let namespaces = without_names_of_all(runs.namespaces);
    let conditions =
        Conditions { namespaces, ..Conditions::of(watch.end(), plan.rule, runs.disturbed) };
    notes.extend(conditions.disturbed_words());
    notes.push(conditions.others.words());
    let kernel = OnKernel {
        machine: conditions.machine.words(),
        notes,
        conditions: serde_json::to_value(&conditions).unwrap_or_default(),
        bundles,
    };
    Ok(RunResult { experiment, cases: results, kernel: Some(kernel) })
}

/// The experiment without the parameters and results of the model alone, and with shorter runs.
fn of_kernel(experiment: &Experiment) -> Result<Experiment, KernelError> {
    let names = experiment.parameter_names();
    let left_out: Vec<&str> = OF_MODEL.into_iter().filter(|name| names.contains(name)).collect();
    let mut notes = Vec::new();
    if !left_out.is_empty() {
        notes.push(format!("only the model has {}", left_out.join(", ")));
    }
    if names.contains("send_rule") {
        notes.push("of the rules of sosend only low-water has a counterpart".to_owned());
    }
    let mut rest = experiment.without(&left_out, &RESULTS_OF_MODEL)?;
    if rest.workload == Workload::Send && !rest.keeps(Keep::Time) {
        // A program knows the time of each call, of which the model counts the routines instead.
        rest.record.push(Keep::Time);
    }
    rest.drop_values("send_rule", |value| {
        value.as_str().is_some_and(|rule| SEND_RULES_OF_MODEL.contains(&rule))
    });
    let of_host = ["machine=this-one", "personality=linux"];
    let has_stack = rest.workload.has_stack();
    rest.set_all(if has_stack { &of_host } else { &of_host[..1] })?;
    notes.extend(shortened(&mut rest)?);
    for figure in &mut rest.figures {
        if let Some(note) = figure.live_note.take() {
            figure.note = Some(note).filter(|note| !note.is_empty());
        }
        figure.y_scale = figure.live_y_scale.unwrap_or(figure.y_scale);
    }
    for figure in rest.figures.iter_mut().filter(|figure| figure.plot.is_some()) {
        (figure.from_ms, figure.to_ms) = (figure.live_from_ms, figure.live_to_ms);
    }
    // Shorter runs have no work in the time that the figure of a model's run shows.
    for figure in rest.figures.iter_mut().filter(|figure| figure.phases) {
        (figure.from_ms, figure.to_ms) = (None, None);
    }
    rest.notes = notes;
    Ok(rest)
}

/// Makes runs shorter, and says how.
fn shortened(experiment: &mut Experiment) -> Result<Vec<String>, KernelError> {
    let has_pauses = experiment.parameter_names().contains("read_pause_ms");
    let has_many = experiment.cases()?.len() > MANY;
    let mut notes = Vec::new();
    for (name, most) in SHORTER {
        let most = match name {
            "total_bytes" | "write_bytes" if has_pauses => TOTAL_BYTES_OF_PAUSES,
            "run_ms" if has_many => RUN_MS_OF_MANY,
            _ => most,
        };
        if let Some(value) = experiment.shorten(name, most) {
            notes.push(format!("{name} is {most} in place of {value}"));
        }
    }
    Ok(notes)
}

/// Whether an additional run of each case is recorded: where the experiment has numbers of traces, and of few cases.
fn records(experiment: &Experiment, works: &[Work]) -> bool {
    let is_of_stream = |work: &Work| matches!(work, Work::Programs(it) if matches!(it.kind, Kind::Transfer | Kind::Calls | Kind::Pipeline));
    let is_few = works.len() <= FEW;
    works.iter().any(is_of_stream)
        && works.len() <= RECORDED_MAX
        && (is_few || experiment.keeps(Keep::Measures))
}

/// Runs the cases of a sweep of cells all over, several times. Where something else slows this processor for a while,
/// the least time of a case is of another pass.
fn pass_over_cells(mut cases: Vec<(&Case, &mut Work)>) {
    if cases.len() <= MANY {
        return;
    }
    for _ in 1..PASSES {
        for (case, work) in &mut cases {
            if let Work::Cells { workload: workload @ Workload::AtmSend, earlier } = work
                && let Ok(measured) = cells::measure(*workload, case)
            {
                *earlier = Some(Box::new(cells::least(case, earlier.as_deref(), measured)));
            }
        }
    }
}

/// What a run of a case does.
enum Work {
    /// Programs, in namespaces.
    Programs(Box<Programs>),
    /// Cells, in this process, with the least times of earlier passes.
    Cells { workload: Workload, earlier: Option<Box<Measurement>> },
}

impl Work {
    fn of(experiment: &Experiment, case: &Case) -> Result<Self, String> {
        Ok(match experiment.workload {
            Workload::AtmSend | Workload::AtmLoss | Workload::BusAccess => {
                Self::Cells { workload: experiment.workload, earlier: None }
            }
            workload @ (Workload::AtmEcho | Workload::CacheInterface) => {
                return Err(format!("only the model has the machines of `{}`", workload.name()));
            }
            _ => Self::Programs(Box::new(Programs::of(experiment, case)?)),
        })
    }
}

impl Work {
    fn programs_mut(&mut self) -> Option<&mut Programs> {
        match self {
            Self::Programs(programs) => Some(programs),
            Self::Cells { .. } => None,
        }
    }
}

/// Numbers of a recorded run.
struct OfRecords {
    measures: Vec<Measure>,
    times: PacketTimes,
    phases: Vec<Phase>,
}

/// The runs of all cases.
struct Runs<'a> {
    plan: Plan<'a>,
    /// An additional run of each case is recorded.
    is_recorded: bool,
    /// Names for the profile of each case.
    symbols: Option<Symbols>,
    disturbed: Vec<Disturbed>,
    spread: Spread,
    /// Runs whose wire was late.
    late: u64,
    /// Records that were missed.
    missed: u64,
    /// Traces that were kept.
    bundles: Vec<(Case, PathBuf)>,
    /// Settings of the namespaces of the runs.
    namespaces: Vec<Namespaces>,
}

impl Runs<'_> {
    /// All runs of a case, or why none is left.
    fn of_case(
        &mut self,
        experiment: &Experiment,
        case: &Case,
        work: &Work,
    ) -> Result<Result<Measurement, String>, KernelError> {
        let mut measured = Vec::new();
        for _ in 0..experiment.repetitions {
            match self.one(experiment, case, work)? {
                Ok(run) => measured.extend(run),
                Err(why) => return Ok(Err(why)),
            }
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
        let Some(mut all) = measured.into_iter().reduce(Measurement::and) else {
            let last = self.disturbed.last();
            return Ok(Err(
                last.map_or("no run".to_owned(), |it| format!("{DROPPED} {}", it.reason))
            ));
        };
        let is_recorded = self.is_recorded || self.plan.traces.is_some();
        if let (true, Work::Programs(programs)) = (is_recorded, work) {
            let seen = self.recorded(experiment, case, programs)?;
            if let Some(OfRecords { measures, times, phases }) = seen {
                // States of processes stand above the queues of the same run.
                all.phases = phases;
                if self.is_recorded {
                    all.measures.splice(0..0, measures);
                    all.packet_times = times;
                }
            }
        }
        if let (Some(symbols), Work::Programs(programs)) = (&self.symbols, work) {
            let rounds = experiment.repetitions;
            let found = sends::profile(programs, self.plan.laboratory, rounds, symbols);
            all.sends = Some(found.map_err(|error| in_case(experiment, case, error))?);
        }
        Ok(Ok(all))
    }

    /// Numbers of the recorded run, whose trace is kept where the plan says so. It is made again where it has no
    /// connection, as after records that were missed.
    fn recorded(
        &mut self,
        experiment: &Experiment,
        case: &Case,
        programs: &Programs,
    ) -> Result<Option<OfRecords>, KernelError> {
        let trace = self.plan.traces.map(|traces| {
            let dir = traces.folder.join(experiment.bundle_name(case));
            let meta = Meta { pick: case.words(), ..traces.meta.clone() };
            Trace { dir, meta, complete: traces.complete }
        });
        for _ in 0..=self.plan.rule.again_max {
            let seen = run::record(programs, self.plan.laboratory, trace.as_ref());
            let (seen, measured) = seen.map_err(|error| in_case(experiment, case, error))?;
            self.missed += seen.missed();
            if let Some(measures) = seen.measures() {
                self.bundles.extend(trace.map(|trace| (case.clone(), trace.dir)));
                let (times, phases) = (seen.packet_times(), measured.phases);
                return Ok(Some(OfRecords { measures, times, phases }));
            }
            if let Some(trace) = &trace {
                // The next run has its place.
                let removed = fs::remove_dir_all(&trace.dir);
                removed.map_err(|error| {
                    in_case(experiment, case, children::problem(error.to_string()))
                })?;
            }
        }
        Ok(None)
    }

    /// One run, made again while others disturb it; `None` where they did each time. The inner error says why the case
    /// has no run.
    fn one(
        &mut self,
        experiment: &Experiment,
        case: &Case,
        work: &Work,
    ) -> Result<Result<Option<Measurement>, String>, KernelError> {
        for _ in 0..=self.plan.rule.again_max {
            let watch = Watch::begin();
            let measured = match work {
                Work::Cells { workload, earlier } => match cells::measure(*workload, case) {
                    Ok(measured) => cells::least(case, earlier.as_deref(), measured),
                    Err(why) => return Ok(Err(why)),
                },
                Work::Programs(programs) => {
                    let run = run::run(programs, self.plan.laboratory)
                        .map_err(|error| in_case(experiment, case, error))?;
                    self.late += u64::from(run.is_late);
                    add_case(&mut self.namespaces, case.words(), run.namespaces);
                    run.measured
                }
            };
            let Some(reason) = self.plan.rule.reason(&watch.end()) else {
                return Ok(Ok(Some(measured)));
            };
            self.disturbed.push(Disturbed { case: case.words(), reason });
            if !self.plan.rule.drops {
                return Ok(Ok(Some(measured)));
            }
            if self.disturbed.len() > AGAIN_IN_ALL {
                break;
            }
        }
        Ok(Ok(None))
    }

    /// What a reader must know of all of them.
    fn words(&mut self) -> Vec<String> {
        let mut notes: Vec<String> = self.spread.words().into_iter().collect();
        if self.late > 0 {
            let runs = counted(self.late, "run");
            notes.push(format!("in {runs} the wire was late by more than 5 % of its delay (p99)"));
        }
        if self.is_recorded {
            notes.push(
                "times and lengths of stages are of one additional run, which was recorded"
                    .to_owned(),
            );
        }
        if self.missed > 0 {
            notes.push(format!("{} of these were missed", counted(self.missed, "record")));
        }
        notes
    }
}

/// The error of a run with its case.
fn in_case(experiment: &Experiment, case: &Case, error: KernelError) -> KernelError {
    match error {
        KernelError::Program { problem, .. } => {
            KernelError::Program { case: format!("{}, {}", experiment.id, case.words()), problem }
        }
        other => other,
    }
}

/// What is compared of the runs of a case: throughput where the experiment has it, else the mean time, or the number
/// that cells or programs of others have.
fn value(experiment: &Experiment, measured: &Measurement) -> f64 {
    let throughput =
        measured.throughput_bits_per_s().filter(|_| experiment.keeps(Keep::Throughput));
    let alone = ["total_ns", "access_ns", "goodput_bits_per_s", "requests_per_s"];
    let one = alone.iter().find_map(|name| measured.measure(name));
    throughput.or(one).unwrap_or(measured.call_ns.mean_ns().unwrap_or(0) as f64)
}

#[cfg(test)]
mod tests {
    use sockscope_experiment::{builtin, builtin_by_id};

    use super::*;

    #[test]
    fn what_only_the_model_has_is_left_out_and_said() {
        let buffers = of_kernel(&builtin_by_id("si-1a").unwrap()).unwrap();
        let cases = buffers.cases().unwrap();
        // Of three variants two differ in the machine, and in its system and driver, alone.
        assert_eq!(cases.len(), 2 * 13);
        assert_eq!(
            buffers.notes,
            [
                "only the model has driver_gap, machine, personality",
                "total_bytes is 1048576 in place of 5242880",
                "write_bytes is 1048576 in place of 5242880"
            ]
        );
        assert!(cases.iter().all(|case| case.parameters.personality == "linux"));
    }

    /// Neither the list of the model's probes nor its capturing host hinders the rest.
    #[test]
    fn what_goes_together_in_the_model_is_left_out_together() {
        let mut probed = builtin_by_id("si-2a").unwrap();
        let changes = [
            "probe_list_records=100",
            "probe_read_ms=50",
            "capture_clock_us=1",
            "capture_frame_us=2",
        ];
        probed.set_all(&changes).unwrap();
        assert_eq!(of_kernel(&probed).unwrap().cases().unwrap().len(), 1);
        let tool = of_kernel(&builtin_by_id("si-6a").unwrap()).unwrap();
        assert_eq!(tool.cases().unwrap().len(), 1, "its variants differ in the tool alone");
    }

    #[test]
    fn every_experiment_has_programs_or_cells_here() {
        // A gateway, a card on a bus and a cache are the model's alone.
        let of_model = ["gw-1", "pc-1b", "pc-8", "pc-8b", "pc-8c"];
        let all = builtin().unwrap().into_iter();
        let all = all.filter(|experiment| !of_model.contains(&experiment.id.as_str()));
        for experiment in all {
            let here = of_kernel(&experiment).unwrap_or_else(|error| panic!("{error}"));
            let here = here.with_live_sweep();
            for case in here.cases().unwrap() {
                let work = Work::of(&here, &case);
                assert!(work.is_ok(), "{}: {:?}", here.id, work.err());
            }
        }
    }

    #[test]
    fn what_the_model_alone_has_is_refused_by_its_name() {
        let refused = |id: &str, changes: &[&str]| {
            let mut experiment = builtin_by_id(id).unwrap();
            experiment.set_all(changes).unwrap();
            let here = of_kernel(&experiment).unwrap();
            let work = Work::of(&here, &here.cases().unwrap()[0]);
            work.err().map(|error| error.to_string()).unwrap_or_default()
        };
        let said = refused("gw-1", &[]);
        assert!(said.contains("`gateway_kbit_per_s` has no counterpart here"), "{said}");
        for (id, workload) in [("pc-1b", "atm-echo"), ("pc-8", "cache-interface")] {
            let said = refused(id, &[]);
            assert!(
                said.contains(&format!("only the model has the machines of `{workload}`")),
                "{said}"
            );
        }
        let said = refused("lh-6", &["topology=gateway"]);
        assert!(said.contains("only the model has `topology = \"gateway\"`"), "{said}");
    }

    #[test]
    fn calls_go_over_each_protocol_next_to_the_other() {
        let sizes = of_kernel(&builtin_by_id("pc-3").unwrap()).unwrap();
        let words: Vec<String> = sizes
            .with_live_sweep()
            .cases()
            .unwrap()
            .iter()
            .map(|case| case.words())
            .filter(|words| words.starts_with("request_bytes 16384, "))
            .collect();
        let expected =
            ["vmtp", "tcp", "quic"].map(|it| format!("request_bytes 16384, protocol {it}"));
        assert_eq!((words.as_slice(), sizes.cases().unwrap().len()), (&expected[..], 32));
        let mut set = builtin_by_id("pc-3").unwrap();
        set.set("protocol=tcp").unwrap();
        let set = of_kernel(&set).unwrap().with_live_sweep();
        assert_eq!(set.cases().unwrap().len(), 32);
    }

    #[test]
    fn a_figure_of_a_machine_is_of_the_cases_here() {
        let stage = of_kernel(&builtin_by_id("si-4c").unwrap()).unwrap();
        let phases = stage.figures.iter().find(|figure| figure.phases).unwrap();
        assert!(phases.only.is_empty() && phases.from_ms.is_none(), "{phases:?}");
    }

    #[test]
    fn a_rule_of_the_model_makes_no_case_of_its_own() {
        let rules = of_kernel(&builtin_by_id("lh-7").unwrap()).unwrap();
        let cases = rules.cases().unwrap();
        let of_rule =
            |value| cases.iter().filter(move |case| case.parameters.low_water_bytes == value);
        let sizes = of_rule(Some(1460)).count();
        assert_eq!(
            of_rule(None).count(),
            3 * sizes,
            "with and without TCP_NODELAY, and 4,096 octets"
        );
    }

    #[test]
    fn what_does_not_run_here_says_why() {
        let mut uncached = builtin_by_id("pc-1").unwrap();
        uncached.set_all(&["data_from=uncached", "driver=packets"]).unwrap();
        let plan = Plan {
            laboratory: Path::new("none"),
            runs: Some(1),
            rule: Rule { drops: false, ..Rule::default() },
            profiles: true,
            traces: None,
        };
        let error = run(&uncached, plan, &|_| true, &mut |_| {}).unwrap_err().to_string();
        let words = "`pc-1` does not run on this kernel: ";
        assert!(error.starts_with(words) && error.ends_with("is read past the cache"), "{error}");
    }
}
