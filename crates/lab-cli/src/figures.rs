//! Figures of an experiment's traces: of each case, and of several in one picture.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use sockscope_analysis::{ConnectionStore, Passage, Stores};
use sockscope_experiment::result::RunResult;
use sockscope_experiment::{Case, Figure};
use sockscope_lab::bundle;
use sockscope_lab::comparison::Comparison;
use sockscope_lab::figure::{self, Drawing, On};
use sockscope_program::failure::Failure;
use sockscope_program::loaded::Loaded;
use sockscope_program::output::write_to;
use sockscope_record::{Direction, FlowId, Point};
use sockscope_render::svg;
use sockscope_render::timeline::draw_timeline;
use sockscope_report::plot::{PlotOptions, draw};

use crate::experiment_ids::failure;

/// Width and height of a chart, pixels.
pub const FIGURE_PX: (u32, u32) = (960, 640);

/// A figure's name and its drawing.
type Named = (String, String);

/// The trace bundles that a run on this kernel kept.
pub fn bundles(results: &RunResult) -> &[(Case, PathBuf)] {
    results.kernel.as_ref().map_or(&[], |kernel| &kernel.bundles)
}

/// Writes the figures of the traces of all cases.
pub fn keep_traces(
    folder: &Path,
    results: &RunResult,
    bundles: &[(Case, PathBuf)],
) -> Result<(), Failure> {
    for (case, path) in bundles {
        stderr!("sockscope: trace bundle {}", path.display());
        for (figure, svg) in of_case(results, case, path)? {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            write_figure(&folder.join(format!("{stem}-{figure}.svg")), Ok::<_, &str>(svg))?;
        }
    }
    for (figure, svg) in of_all(results, bundles)? {
        let name = format!("{}-{figure}.svg", results.experiment.id);
        write_figure(&folder.join(name), Ok::<_, &str>(svg))?;
    }
    Ok(())
}

/// Writes the figures of traces, the model's above those of this kernel. The bundles are in folders of their own.
pub fn compare_traces(folder: &Path, compared: &Comparison) -> Result<(), Failure> {
    let (model, kernel) = (&compared.model, &compared.kernel);
    let today = bundles(kernel);
    let of_model = if today.is_empty() {
        Vec::new()
    } else {
        let written = bundle::write_bundles(&model.experiment, &folder.join("model"));
        written.map_err(|error| failure(&error))?
    };
    for (case, path) in today {
        let lower = of_case(kernel, case, path)?;
        let Some(then) = compared.then(case).next() else { continue };
        let Some((case, bundle)) = of_model.iter().find(|(case, _)| *case == then.case) else {
            continue;
        };
        let stem = bundle.file_stem().unwrap_or_default().to_string_lossy();
        let stem = format!("{stem}-compared");
        write_stacked(folder, &stem, (of_case(model, case, bundle)?, lower))?;
    }
    let stem = format!("{}-compared", model.experiment.id);
    write_stacked(folder, &stem, (of_all(model, &of_model)?, of_all(kernel, today)?))
}

/// Writes the figures that both have, one above the other.
fn write_stacked(
    folder: &Path,
    stem: &str,
    (upper, lower): (Vec<Named>, Vec<Named>),
) -> Result<(), Failure> {
    for (name, model) in upper {
        let Some((_, kernel)) = lower.iter().find(|(other, _)| *other == name) else { continue };
        let both = svg::stacked(&[&model, kernel]).ok_or("no figures");
        write_figure(&folder.join(format!("{stem}-{name}.svg")), both)?;
    }
    Ok(())
}

pub fn write_figure(path: &Path, svg: Result<String, impl Display>) -> Result<(), Failure> {
    let svg =
        svg.map_err(|error| Failure::new(format!("cannot draw {}: {error}", path.display())))?;
    write_to(path, |out| out.write_all(svg.as_bytes()))?;
    stderr!("sockscope: figure {}", path.display());
    Ok(())
}

/// A trace and its flow with the most data.
struct Trace {
    stores: Stores,
    flow: FlowId,
}

impl Trace {
    fn read(bundle: &Path) -> Result<Self, Failure> {
        let stores = Loaded::read(bundle)?.into_stores();
        let flow = stores.largest_flow();
        let none = || Failure::new(format!("{}: no flow to draw", bundle.display()));
        let is_there = |flow: &FlowId| {
            stores.connections.iter().any(|store| store.connection.id == flow.connection())
        };
        let flow = flow.filter(is_there).ok_or_else(none)?;
        Ok(Self { stores, flow })
    }

    fn store(&self) -> &ConnectionStore {
        let id = self.flow.connection();
        let mut connections = self.stores.connections.iter();
        connections.find(|store| store.connection.id == id).expect("it was found on reading")
    }

    /// The flow that is written last, of those with half of the largest one's data: in a pipeline what its stage sends.
    fn downstream(&self) -> (&ConnectionStore, Direction) {
        let bytes = |passes: &[Passage]| passes.iter().map(|it| u64::from(it.len)).sum::<u64>();
        let mut flows = Vec::new();
        for store in &self.stores.connections {
            for direction in [Direction::FromClient, Direction::FromServer] {
                let written = store.flow(direction).at(Point::SendEnqueue);
                if let Some(first) = written.first() {
                    flows.push((bytes(written), first.at_ns, store, direction));
                }
            }
        }
        let largest = flows.iter().map(|(bytes, ..)| *bytes).max().unwrap_or(0);
        let large = flows.into_iter().filter(|(bytes, ..)| *bytes >= largest / 2);
        let last = large.max_by_key(|(_, first_ns, ..)| *first_ns);
        last.map_or((self.store(), self.flow.direction()), |(.., store, direction)| {
            (store, direction)
        })
    }

    /// The other connections of the same two hosts.
    fn others(&self) -> Vec<&ConnectionStore> {
        let hosts = |store: &ConnectionStore| -> BTreeSet<IpAddr> {
            [store.connection.client.ip(), store.connection.server.ip()].into()
        };
        let own = self.store();
        let is_other = |store: &&ConnectionStore| {
            store.connection.id != own.connection.id && hosts(store) == hosts(own)
        };
        self.stores.connections.iter().filter(is_other).collect()
    }
}

/// The figures that the experiment wants of the trace of `case`.
fn of_case(results: &RunResult, case: &Case, bundle: &Path) -> Result<Vec<Named>, Failure> {
    let experiment = &results.experiment;
    let wanted = figure::plots(experiment, case);
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let trace = Trace::read(bundle)?;
    let (store, others) = (trace.store(), trace.others());
    let start_ns = store.first_ns().unwrap_or(0);
    let first_ns = others.iter().filter_map(|store| store.first_ns()).min();
    let at = |ms: Option<f64>| ms.map(|ms| start_ns.saturating_add((ms * 1e6) as u64));
    let mut drawn = Vec::new();
    for (figure, plot) in wanted {
        let shown = if figure.from_server { trace.flow.reverse() } else { trace.flow };
        let about = figure::about(figure, experiment, case, On::of(results));
        let losses = trace.stores.losses_of(shown.connection());
        let whole_ns = Some(first_ns.map_or(start_ns, |first_ns| first_ns.min(start_ns)));
        let svg = figure::in_kilobytes(|unit| {
            let notes: Vec<String> =
                figure.note.iter().cloned().chain(unit.map(str::to_owned)).collect();
            let options = PlotOptions {
                title: Some(&figure.title),
                about: Some(&about),
                notes: &notes,
                direction: shown.direction(),
                from_ns: if figure.whole { whole_ns } else { at(figure.from_ms) },
                to_ns: at(figure.to_ms),
                others: if figure.whole { &others } else { &[] },
                is_by_call: figure.by_call,
                losses: &losses,
                drop_reasons: &trace.stores.drop_reasons,
                network_namespaces: &trace.stores.network_namespaces,
                ..PlotOptions::default()
            };
            draw(plot, store, &options)
        });
        let svg = svg.map_err(|error| {
            let (name, of) = (&figure.name, bundle.display());
            Failure::new(format!("cannot draw {name} of {of}: {error}"))
        })?;
        drawn.push((figure.name.clone(), svg));
    }
    Ok(drawn)
}

/// The figures that the experiment wants of several traces, or of a trace and of the processes' reports.
fn of_all(results: &RunResult, bundles: &[(Case, PathBuf)]) -> Result<Vec<Named>, Failure> {
    let mut drawn = Vec::new();
    for figure in &results.experiment.figures {
        let svg = match () {
            () if figure.overlay.is_some() => overlaid(figure, results, bundles)?,
            () if figure.phases => activity(figure, results, bundles)?,
            () => None,
        };
        drawn.extend(svg.map(|svg| (figure.name.clone(), svg)));
    }
    Ok(drawn)
}

/// `None` where no case has a trace.
fn overlaid(
    figure: &Figure,
    results: &RunResult,
    bundles: &[(Case, PathBuf)],
) -> Result<Option<String>, Failure> {
    let mut traces = Vec::new();
    for (case, path) in bundles.iter().filter(|(case, _)| figure.shows(case)) {
        traces.push((case, Trace::read(path)?));
    }
    if traces.is_empty() {
        return Ok(None);
    }
    let traces = traces.iter().map(|(case, trace)| (*case, trace.store(), trace.flow.direction()));
    let shown: Vec<figure::Traced<'_>> = traces.collect();
    let chart = figure::overlaid(figure, results, &shown).map_err(Failure::new)?;
    let svg = Drawing::Chart(chart).draw(FIGURE_PX.0, FIGURE_PX.1);
    Ok(Some(svg.map_err(|error| Failure::new(error.to_string()))?))
}

/// `None` where the run has no states of processes.
fn activity(
    figure: &Figure,
    results: &RunResult,
    bundles: &[(Case, PathBuf)],
) -> Result<Option<String>, Failure> {
    let case = figure::case_of(figure, results).map(|found| &found.case);
    let bundle = bundles.iter().find(|(other, _)| Some(other) == case);
    let trace = match bundle {
        Some((_, path)) if !figure.queues.is_empty() => Some(Trace::read(path)?),
        _ => None,
    };
    let flow = trace.as_ref().map(Trace::downstream);
    let timeline = figure::activity(figure, results, flow).map_err(Failure::new)?;
    let Some(timeline) = timeline else { return Ok(None) };
    let svg = figure::in_kilobytes(|unit| {
        let mut timeline = timeline.clone();
        timeline.notes.extend(unit.map(str::to_owned));
        draw_timeline(&timeline, FIGURE_PX.0, FIGURE_PX.1)
    });
    Ok(Some(svg.map_err(|error| Failure::new(error.to_string()))?))
}
