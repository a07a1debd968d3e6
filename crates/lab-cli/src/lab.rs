//! `sockscope lab`: experiments of classic papers on the model, and their claims checked.

use std::io::Write;
use std::path::Path;
use std::thread;

use sockscope_claims::Verdict;
use sockscope_experiment::{Case, Experiment, builtin, builtin_by_id, one_value_each, result};
use sockscope_lab::comparison::{Comparison, write_comparison, write_comparison_json};
use sockscope_lab::{bundle, capture, figure, run};
use sockscope_live::conditions::Rule;
use sockscope_live::{composed, integrated, kernel, protocols};
use sockscope_program::failure::Failure;
use sockscope_program::machine;
use sockscope_program::outcome::Outcome;
use sockscope_program::output::write_to;
use sockscope_program::progress::Progress;
use sockscope_program::recorded::complete;
use sockscope_record::counted;
use sockscope_render::chart::{Chart, draw_chart};
use sockscope_trace::Meta;

use crate::args::{
    CheckFormat, CompareFormat, Lab, LabCheck, LabCommand, LabCompare, LabFormat, LabOn, LabRun,
};
use crate::experiment_ids::{LIVE, failure};
use crate::figures::{self, FIGURE_PX, bundles, write_figure};
use crate::{host, levels, link, pattern, png, profile, work};

/// Height of what stands around the panels of a chart of several, and of each panel.
const CHART_HEAD_PX: u32 = 160;
const PANEL_PX: u32 = 340;

/// `sockscope lab`.
pub fn lab(arguments: &Lab) -> Result<Outcome, Failure> {
    match &arguments.command {
        LabCommand::List => list().map(|()| Outcome::Done),
        LabCommand::Run(arguments) => run_one(arguments).map(|()| Outcome::Done),
        LabCommand::Check(arguments) => check(arguments),
        LabCommand::Link(arguments) => link::link(arguments),
        LabCommand::Levels(arguments) => levels::levels(arguments).map(|()| Outcome::Done),
        LabCommand::Compare(arguments) => compare(arguments).map(|()| Outcome::Done),
        LabCommand::Host(arguments) => host::host(arguments),
        LabCommand::Profile(arguments) => profile::profile(arguments),
        LabCommand::Png(arguments) => png::png(arguments).map(|()| Outcome::Done),
        LabCommand::Pattern(arguments) => pattern::extract(arguments).map(|()| Outcome::Done),
        LabCommand::Work(arguments) => work::work(arguments),
    }
}

fn list() -> Result<(), Failure> {
    let mut lines = Vec::new();
    for experiment in builtin().map_err(|error| failure(&error))? {
        let cases = experiment.cases().map_err(|error| failure(&error))?.len();
        let (id, title, paper) = (&experiment.id, &experiment.title, &experiment.paper);
        let source = &experiment.source;
        let word = if cases == 1 { "case " } else { "cases" };
        lines.push(format!("{id:<16} {title:<38} {cases:>4} {word}  {paper}, {source}"));
    }
    lines.extend(LIVE.iter().map(|(id, title)| format!("{id:<16} {title:<38}   with --on live")));
    write_to(Path::new("-"), |out| lines.iter().try_for_each(|line| writeln!(out, "{line}")))
}

fn run_one(arguments: &LabRun) -> Result<(), Failure> {
    one_value_each(&arguments.set).map_err(|error| failure(&error))?;
    match arguments.on {
        LabOn::Live => run_live(arguments),
        LabOn::Model => run_model(arguments),
    }
}

fn run_model(arguments: &LabRun) -> Result<(), Failure> {
    if arguments.keep_disturbed {
        return Err(Failure::new("--keep-disturbed is for --on live: nothing disturbs the model"));
    }
    if arguments.experiment == integrated::ID {
        return model_integrated(arguments);
    }
    if let Some(id) = [protocols::ID, composed::ID].iter().find(|id| arguments.experiment == **id) {
        let text = format!("`{id}` runs on this machine only: add --on live");
        return Err(Failure::new(text));
    }
    let mut experiment = experiment(&arguments.experiment)?;
    experiment.set_all(&arguments.set).map_err(|error| failure(&error))?;
    if let Some(repetitions) = arguments.repetitions {
        experiment.repetitions = repetitions;
    }
    if let Some(seed) = arguments.seed {
        experiment.seed = seed;
    }
    let progress = Progress::begin("runs on the model", 0);
    let results = run::run(&experiment, threads(), &mut |done, of| progress.set(done, of))
        .map_err(|error| failure(&error))?;
    drop(progress);
    if let Some(folder) = &arguments.output {
        keep(folder, &experiment, &results)?;
    }
    show(&results, [result::write_json, result::write_csv, result::write_text], arguments.format)
}

/// An experiment on this machine.
fn run_live(arguments: &LabRun) -> Result<(), Failure> {
    if arguments.seed.is_some() {
        return Err(Failure::new("--seed is for the model: nothing here is drawn by chance"));
    }
    match arguments.experiment.as_str() {
        integrated::ID => run_integrated(arguments),
        composed::ID => run_composed(arguments),
        protocols::ID => run_protocols(arguments),
        _ => run_on_kernel(arguments),
    }
}

/// An experiment of a file, on this machine's kernel.
fn run_on_kernel(arguments: &LabRun) -> Result<(), Failure> {
    let mut experiment = experiment(&arguments.experiment)?;
    experiment.set_all(&arguments.set).map_err(|error| failure(&error))?;
    let output = arguments.output.as_deref();
    let wish = Wish {
        runs: arguments.repetitions,
        keeps_disturbed: arguments.keep_disturbed,
        profiles: true,
        traces: output,
    };
    let results = on_kernel(&experiment, wish, &|_| true, &mut case_begins)?;
    if let Some(folder) = output {
        keep_results(folder, &results)?;
        figures::keep_traces(folder, &results, bundles(&results))?;
        stderr!("sockscope: results in {}", folder.display());
    }
    show(&results, [result::write_json, result::write_csv, result::write_text], arguments.format)
}

/// Says which case begins.
fn case_begins(case: &str) {
    stderr!("sockscope: {case}");
}

/// How an experiment is run on this kernel.
#[derive(Clone, Copy)]
struct Wish<'a> {
    /// Runs of each case; `None`: as many as suit it.
    runs: Option<u32>,
    /// Disturbed runs count.
    keeps_disturbed: bool,
    /// Senders are profiled, where the file asks for it.
    profiles: bool,
    /// Where traces are kept; `None`: nowhere.
    traces: Option<&'a Path>,
}

/// Results of an experiment on this kernel.
fn on_kernel(
    experiment: &Experiment,
    wish: Wish<'_>,
    is_wanted: &dyn Fn(&Case) -> bool,
    progress: &mut dyn FnMut(&str),
) -> Result<result::RunResult, Failure> {
    let laboratory = std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find this program: {error}")))?;
    let Wish { runs, keeps_disturbed, profiles, traces } = wish;
    let rule = Rule { drops: !keeps_disturbed, ..Rule::default() };
    if let Some(folder) = traces {
        create(folder)?;
    }
    let meta = Meta {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        host: machine::host(),
        kernel: machine::kernel(),
        machine: machine::machine(),
        clock: vec![machine::reading()],
        command: std::env::args().collect(),
        drop_reasons: sockscope_probe::drop_reasons().into_iter().collect(),
        ..Meta::default()
    };
    let traces = traces.map(|folder| kernel::Traces { folder, meta: &meta, complete });
    let plan = kernel::Plan { laboratory: &laboratory, runs, rule, profiles, traces };
    kernel::run(experiment, plan, is_wanted, progress)
        .map_err(|error| Failure::new(error.to_string()))
}

fn create(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| Failure::file("cannot create", folder, &error))
}

/// `sockscope lab compare`.
fn compare(arguments: &LabCompare) -> Result<(), Failure> {
    let mut experiment = experiment(&arguments.experiment)?;
    experiment.set_all(&arguments.set).map_err(|error| failure(&error))?;
    // First the kernel: whether it can run the experiment shows at once.
    let traces = arguments.output.as_ref().map(|folder| folder.join("live"));
    let wish = Wish {
        runs: arguments.repetitions,
        keeps_disturbed: arguments.keep_disturbed,
        profiles: true,
        traces: traces.as_deref(),
    };
    let kernel = on_kernel(&experiment, wish, &|_| true, &mut case_begins)?;
    let progress = Progress::begin("runs on the model", 0);
    let model = run::run(&experiment, threads(), &mut |done, of| progress.set(done, of))
        .map_err(|error| failure(&error))?;
    drop(progress);
    let compared = Comparison { model, kernel };
    let forms: [(&str, WriteForm<Comparison>); 2] =
        [("txt", write_comparison), ("json", write_comparison_json)];
    if let Some(folder) = &arguments.output {
        let id = &experiment.id;
        for (ending, write) in forms {
            let path = folder.join(format!("{id}-compared.{ending}"));
            write_to(&path, |out| write(&compared, out))?;
        }
        for (name, drawing) in compared.charts().map_err(Failure::new)? {
            let path = folder.join(format!("{id}-compared-{name}.svg"));
            let height = CHART_HEAD_PX + PANEL_PX * u32::try_from(drawing.panels()).unwrap_or(1);
            write_figure(&path, drawing.draw(FIGURE_PX.0, height))?;
        }
        figures::compare_traces(folder, &compared)?;
    }
    let (_, write) = forms[usize::from(matches!(arguments.format, CompareFormat::Json))];
    write_to(Path::new("-"), |out| write(&compared, out))
}

fn run_protocols(arguments: &LabRun) -> Result<(), Failure> {
    let mut plan = protocols::Plan::default();
    plan.repetitions = arguments.repetitions.unwrap_or(plan.repetitions);
    for text in &arguments.set {
        plan.set(text).map_err(Failure::new)?;
    }
    plan.rule.drops = !arguments.keep_disturbed;
    let progress = |case: &str| stderr!("sockscope: {case}");
    let comparison = protocols::compare(plan, &progress);
    let forms = [protocols::write_json, protocols::write_csv, protocols::write_text];
    hand_out(arguments, &comparison, forms, protocols::chart)
}

fn run_integrated(arguments: &LabRun) -> Result<(), Failure> {
    let mut plan = integrated::Plan::default();
    plan.turns = arguments.repetitions.unwrap_or(plan.turns);
    for text in &arguments.set {
        plan.set(text).map_err(Failure::new)?;
    }
    let comparison = integrated::compare(plan);
    let forms = [integrated::write_json, integrated::write_csv, integrated::write_text];
    hand_out(arguments, &comparison, forms, integrated::chart)
}

fn run_composed(arguments: &LabRun) -> Result<(), Failure> {
    let mut plan = composed::Plan::default();
    plan.turns = arguments.repetitions.unwrap_or(plan.turns);
    for text in &arguments.set {
        plan.set(text).map_err(Failure::new)?;
    }
    let measured = composed::measure(plan);
    let forms = [composed::write_json, composed::write_csv, composed::write_text];
    hand_out(arguments, &measured, forms, composed::chart)
}

/// One path in the model, which has no chance in it: no seed, no repetitions.
fn model_integrated(arguments: &LabRun) -> Result<(), Failure> {
    if arguments.seed.is_some() || arguments.repetitions.is_some() {
        let text = "takes no --seed and no --repetitions: nothing is drawn by chance";
        return Err(Failure::new(format!("`{}` in the model {text}", integrated::ID)));
    }
    let mut plan = integrated::ModelPlan::default();
    for text in &arguments.set {
        plan.set(text).map_err(Failure::new)?;
    }
    let modelled = integrated::model(&plan).map_err(Failure::new)?;
    let forms =
        [integrated::write_model_json, integrated::write_model_csv, integrated::write_model_text];
    hand_out(arguments, &modelled, forms, integrated::model_chart)
}

/// Prints a comparison, and keeps it in all its forms with its chart where the user names a folder.
fn hand_out<T>(
    arguments: &LabRun,
    compared: &T,
    forms: [WriteForm<T>; 3],
    chart: fn(&T) -> Chart,
) -> Result<(), Failure> {
    if let Some(folder) = &arguments.output {
        let (id, chart) = (&arguments.experiment, chart(compared));
        keep_forms(folder, id, compared, forms)?;
        let height = CHART_HEAD_PX + PANEL_PX * u32::try_from(chart.panels.len()).unwrap_or(1);
        write_figure(&folder.join(format!("{id}.svg")), draw_chart(&chart, FIGURE_PX.0, height))?;
        stderr!("sockscope: results in {}", folder.display());
    }
    show(compared, forms, arguments.format)
}

/// Writes results to standard output in one form; writers are those of JSON, CSV and text.
fn show<T>(
    results: &T,
    [json, csv, text]: [WriteForm<T>; 3],
    as_form: LabFormat,
) -> Result<(), Failure> {
    let write = match as_form {
        LabFormat::Text => text,
        LabFormat::Json => json,
        LabFormat::Csv => csv,
    };
    write_to(Path::new("-"), |out| write(results, out))
}

/// Writes results of one kind in one form.
type WriteForm<T> = fn(&T, &mut dyn Write) -> std::io::Result<()>;

/// Writes results into `folder` as `ID.json`, `ID.csv` and `ID.txt`, with one writer each.
fn keep_forms<T>(
    folder: &Path,
    id: &str,
    results: &T,
    forms: [WriteForm<T>; 3],
) -> Result<(), Failure> {
    create(folder)?;
    for (ending, write) in ["json", "csv", "txt"].into_iter().zip(forms) {
        write_to(&folder.join(format!("{id}.{ending}")), |out| write(results, out))?;
    }
    Ok(())
}

/// An experiment of the project by its id, or one of the user's own by its path.
fn experiment(name: &str) -> Result<Experiment, Failure> {
    if Path::new(name).extension().is_none_or(|it| it != "toml") {
        return builtin_by_id(name).map_err(|error| failure(&error));
    }
    let text = std::fs::read_to_string(name)
        .map_err(|error| Failure::file("cannot read", Path::new(name), &error))?;
    let experiment = Experiment::parse(name, &text).map_err(|error| failure(&error))?;
    figure::check_plots(name, &experiment).map_err(|error| failure(&error))?;
    Ok(experiment)
}

/// Writes results and, where the experiment records them, a trace bundle for each case.
fn keep(
    folder: &Path,
    experiment: &Experiment,
    results: &result::RunResult,
) -> Result<(), Failure> {
    keep_results(folder, results)?;
    let bundles = bundle::write_bundles(experiment, folder).map_err(|error| failure(&error))?;
    figures::keep_traces(folder, results, &bundles)?;
    for written in capture::write_captures(experiment, folder).map_err(|error| failure(&error))? {
        let frames = counted(written.frames as u64, "frame");
        let path = written.path.display();
        stderr!("sockscope: capture {path}: {frames}, {} missed", written.missed);
    }
    stderr!("sockscope: results in {}", folder.display());
    Ok(())
}

/// Writes results in all their forms, and the figures of their tables.
fn keep_results(folder: &Path, results: &result::RunResult) -> Result<(), Failure> {
    let id = &results.experiment.id;
    let forms = [result::write_json, result::write_csv, result::write_text];
    keep_forms(folder, id, results, forms)?;
    for (name, drawing) in figure::charts(results).map_err(Failure::new)? {
        let path = folder.join(format!("{id}-{name}.svg"));
        write_figure(&path, drawing.draw(FIGURE_PX.0, FIGURE_PX.1))?;
    }
    Ok(())
}

/// What this machine says to the claims.
fn check_live(arguments: &LabCheck) -> Result<Outcome, Failure> {
    let mut machine = String::new();
    let judged =
        sockscope_claims::judge(arguments.paper.as_deref(), &mut |experiment, is_wanted| {
            stderr!("sockscope: {}", experiment.id);
            // Each experiment is run several times; a time averages the phases of timers where the model does.
            let runs = Some(if experiment.repetitions > 1 { 2 } else { 1 });
            let keeps_disturbed = arguments.keep_disturbed;
            // No claim is on the time in single routines of today.
            let wish = Wish { runs, keeps_disturbed, profiles: false, traces: None };
            let result = on_kernel(experiment, wish, is_wanted, &mut |_| {});
            let result = result.map_err(|failure| failure.to_string())?;
            machine = result.kernel.as_ref().map_or(String::new(), |kernel| kernel.machine.clone());
            Ok(result)
        });
    let judged = judged.map_err(|error| failure(&error))?;
    let write = match arguments.format {
        CheckFormat::Text => sockscope_claims::write_live_text,
        CheckFormat::Json => sockscope_claims::write_live_json,
    };
    write_to(Path::new("-"), |out| write(&judged, &machine, out))?;
    let differs = judged.claims.iter().any(sockscope_claims::JudgedClaim::is_surprise);
    Ok(if arguments.check && differs { Outcome::Found } else { Outcome::Done })
}

fn check(arguments: &LabCheck) -> Result<Outcome, Failure> {
    if arguments.on == LabOn::Live {
        return check_live(arguments);
    }
    if arguments.keep_disturbed {
        return Err(Failure::new("--keep-disturbed is for --on live: nothing disturbs the model"));
    }
    let progress = Progress::begin("runs on the model", 0);
    let mut show = |done, of| progress.set(done, of);
    let checked = sockscope_claims::check(arguments.paper.as_deref(), threads(), &mut show)
        .map_err(|error| failure(&error))?;
    drop(progress);
    let write = match arguments.format {
        CheckFormat::Text => sockscope_claims::write_text,
        CheckFormat::Json => sockscope_claims::write_json,
    };
    write_to(Path::new("-"), |out| write(&checked, out))?;
    let differs = checked.iter().any(|one| one.comparison.verdict == Verdict::Differs);
    Ok(if arguments.check && differs { Outcome::Found } else { Outcome::Done })
}

fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
