//! The native half of `sockscope.fleet`: work that a task of any engine does, without the interpreter's lock.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sockscope_fleet::{Plan, Summary, Task, analyse, write_summaries};

use crate::error::Problem;

fn text(value: &impl Serialize) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(value).map_err(Problem::new)
}

fn parsed<T: DeserializeOwned>(name: &str, text: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(text).map_err(|error| Problem::new(format!("{name}: {error}")))
}

/// A task, and the number of its records.
type Counted = (Py<PyBytes>, u64);

/// The head of a spool, and a task with the number of its records for each bucket.
#[pyfunction]
pub(crate) fn fleet_plan(py: Python<'_>, spool: PathBuf) -> PyResult<(Py<PyBytes>, Vec<Counted>)> {
    let (head, tasks) = py.detach(|| {
        let Plan { head, tasks } = Plan::of(&spool)?;
        let tasks = tasks.iter().map(|task| Ok((text(task)?, task.records())));
        Ok::<_, Problem>((text(&head)?, tasks.collect::<Result<Vec<_>, Problem>>()?))
    })?;
    let tasks = tasks.into_iter().map(|(task, records)| (bytes(py, &task), records));
    Ok((bytes(py, &head), tasks.collect()))
}

/// The summary of a task.
#[pyfunction]
pub(crate) fn fleet_analyse(py: Python<'_>, task: &[u8]) -> PyResult<Py<PyBytes>> {
    let summary = py.detach(|| {
        let task: Task = parsed("task", task)?;
        text(&analyse(&task))
    })?;
    Ok(bytes(py, &summary))
}

/// Writes the summaries of all tasks: the numbers of connections, records and findings, and what was not whole.
#[pyfunction]
pub(crate) fn fleet_write(
    py: Python<'_>,
    head: &[u8],
    summaries: Vec<Vec<u8>>,
    folder: PathBuf,
) -> PyResult<(u64, u64, u64, Vec<String>)> {
    let written = py.detach(|| {
        let summaries: Result<Vec<Summary>, Problem> =
            summaries.iter().map(|summary| parsed("summary", summary)).collect();
        Ok::<_, Problem>(write_summaries(&parsed("head", head)?, summaries?, &folder)?)
    })?;
    Ok((written.connections, written.records, written.findings, written.problems))
}

fn bytes(py: Python<'_>, text: &[u8]) -> Py<PyBytes> {
    PyBytes::new(py, text).unbind()
}
