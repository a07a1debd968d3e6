//! `sockscope.lab`: experiments on the model, with their results as tables.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use arrow_array::{RecordBatch, RecordBatchIterator};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sockscope_experiment::result::{RunResult, write_json, write_text};
use sockscope_experiment::{Experiment, builtin, builtin_by_id};
use sockscope_lab::fleet::{Fleet, write_fleet};
use sockscope_lab::{bundle, figure, run as model};
use sockscope_record::counted;

use crate::bundle::{Bundle, open};
use crate::error::Problem;
use crate::figure::Figure;
use crate::lab_tables;
use crate::numbers;
use crate::table::Table;

impl From<sockscope_experiment::Error> for Problem {
    fn from(error: sockscope_experiment::Error) -> Self {
        // The name of a parameter stands alone in a call of Python.
        Self::new(error.to_string().replace("--set ", ""))
    }
}

/// The results of an experiment on the model.
#[pyclass(frozen, module = "sockscope.lab")]
pub(crate) struct Run {
    result: Arc<RunResult>,
}

/// The id and the title of each experiment.
#[pyfunction]
pub(crate) fn experiments() -> PyResult<Vec<(String, String)>> {
    let all = builtin().map_err(Problem::from)?;
    Ok(all.into_iter().map(|experiment| (experiment.id, experiment.title)).collect())
}

/// Runs an experiment, named by its id or by the path of its file, with these changes (`name=value`).
#[pyfunction]
#[pyo3(signature = (experiment, changes, *, seed=None, repetitions=None))]
pub(crate) fn run(
    py: Python<'_>,
    experiment: String,
    changes: Vec<String>,
    #[pyo3(from_py_with = numbers::seed)] seed: Option<u64>,
    #[pyo3(from_py_with = numbers::repetitions)] repetitions: Option<u32>,
) -> PyResult<Run> {
    let result = py.detach(|| {
        let mut experiment = named(&experiment)?;
        experiment.set_all(&changes)?;
        experiment.seed = seed.unwrap_or(experiment.seed);
        experiment.repetitions = repetitions.unwrap_or(experiment.repetitions);
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Ok::<_, Problem>(model::run(&experiment, threads, &mut |_, _| ())?)
    })?;
    Ok(Run { result: Arc::new(result) })
}

/// The changes that leave one case of an experiment each, in the order of the cases.
#[pyfunction]
pub(crate) fn cases(experiment: &str, changes: Vec<String>) -> PyResult<Vec<Vec<String>>> {
    let mut experiment = named(experiment)?;
    experiment.set_all(&changes).map_err(Problem::from)?;
    let cases = experiment.cases().map_err(Problem::from)?;
    let all = cases.iter().map(|case| {
        let command = experiment.command(case);
        let sets = command.windows(2).filter(|pair| pair[0] == "--set");
        sets.map(|pair| pair[1].clone()).collect()
    });
    Ok(all.collect())
}

fn named(name: &str) -> Result<Experiment, Problem> {
    let path = Path::new(name);
    if path.extension().is_none_or(|it| it != "toml") {
        return Ok(builtin_by_id(name)?);
    }
    let read = std::fs::read_to_string(path);
    let text = read.map_err(|error| Problem::file("cannot read", path, &error))?;
    let experiment = Experiment::parse(name, &text)?;
    figure::check_plots(name, &experiment)?;
    Ok(experiment)
}

/// Writes a spool of modelled hosts. Returns the truth about it as JSON.
#[pyfunction]
pub(crate) fn fleet(
    py: Python<'_>,
    spool: PathBuf,
    hosts: u32,
    rounds: u32,
    seed: u64,
) -> PyResult<Py<PyBytes>> {
    let truth = py.detach(|| {
        let truth = write_fleet(&spool, &Fleet { hosts, rounds, seed })?;
        serde_json::to_vec(&truth).map_err(Problem::new)
    })?;
    Ok(PyBytes::new(py, &truth).unbind())
}

#[pymethods]
impl Run {
    /// The id of the experiment.
    #[getter]
    fn experiment(&self) -> &str {
        &self.result.experiment.id
    }

    /// One row a case: its parameters, then its results.
    #[getter]
    fn cases(&self) -> PyResult<Table> {
        table("cases", lab_tables::cases(&self.result))
    }

    /// One row a result of a case: `case`, its parameters, `result`, `value`, as in CSV.
    #[getter]
    fn results(&self) -> PyResult<Table> {
        table("results", lab_tables::results(&self.result))
    }

    /// The results as a dict, schema `sockscope.lab/1`: the same content as `sockscope lab run --format json`.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut json = Vec::new();
        write_json(&self.result, &mut json)?;
        py.import("json")?.call_method1("loads", (PyBytes::new(py, &json),))
    }

    /// The names of the figures that the experiment has of its results.
    #[getter]
    fn figures(&self) -> PyResult<Vec<String>> {
        let charts = figure::charts(&self.result).map_err(Problem::new)?;
        Ok(charts.into_iter().map(|(name, _)| name).collect())
    }

    /// Draws a figure of the results.
    #[pyo3(signature = (figure, *, width=960, height=640))]
    fn plot(
        &self,
        figure: &str,
        #[pyo3(from_py_with = numbers::width)] width: u32,
        #[pyo3(from_py_with = numbers::height)] height: u32,
    ) -> PyResult<Figure> {
        let charts = figure::charts(&self.result).map_err(Problem::new)?;
        let names: Vec<_> = charts.iter().map(|(name, _)| name.as_str()).collect();
        let unknown = || {
            let known = if names.is_empty() { "none" } else { &names.join(", ") };
            let id = self.experiment();
            Problem::new(format!("{id}: no figure is called {figure:?}; there are {known}"))
        };
        let found = charts.iter().find(|(name, _)| name == figure);
        let (name, drawing) = found.ok_or_else(unknown)?;
        let svg = drawing.draw(width, height).map_err(Problem::new)?;
        Ok(Figure::new(name, svg))
    }

    /// Writes the trace bundle of each case into a folder, and opens them; none where the experiment keeps no trace.
    fn bundles(&self, py: Python<'_>, folder: PathBuf) -> PyResult<Vec<Py<Bundle>>> {
        let experiment = &self.result.experiment;
        let written =
            py.detach(|| bundle::write_bundles(experiment, &folder)).map_err(Problem::from)?;
        written.into_iter().map(|(_, path)| open(py, path)).collect()
    }

    /// The results as text, as `sockscope lab run` prints them.
    fn __str__(&self) -> PyResult<String> {
        let mut text = Vec::new();
        write_text(&self.result, &mut text)?;
        Ok(String::from_utf8(text).unwrap_or_default())
    }

    fn __repr__(&self) -> String {
        let RunResult { experiment, cases, .. } = &*self.result;
        let cases = counted(cases.len() as u64, "case");
        format!("<sockscope.lab.Run {}: {}, {cases} on the model>", experiment.id, experiment.title)
    }
}

fn table(name: &str, batch: Result<RecordBatch, Problem>) -> PyResult<Table> {
    let batch = batch?;
    let schema = batch.schema();
    Ok(Table::new(name, schema.clone(), move || {
        let batches = [Ok(batch.clone())].into_iter();
        Ok(Box::new(RecordBatchIterator::new(batches, schema.clone())))
    }))
}
