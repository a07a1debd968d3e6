//! The classes `Analysis` and `Bundle`: reports, tables and figures of a trace.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sockscope_program::loaded::Loaded;
use sockscope_record::{FlowId, counted};
use sockscope_report::{Json, Summary};
use sockscope_tables::{self as tables, Tables, WallClock};
use sockscope_trace::Bundle as TraceBundle;

use crate::analysed::{Analysed, Once};
use crate::error::Problem;
use crate::figure::{self, Figure, Wish};
use crate::numbers;
use crate::table::Table;
use crate::words::{PointWord, StageWord};

/// What the records of a trace show: reports, tables and figures.
#[pyclass(frozen, subclass, module = "sockscope")]
pub(crate) struct Analysis {
    once: Arc<Once>,
}

impl Analysis {
    pub(crate) fn new(once: Once) -> Self {
        Self { once: Arc::new(once) }
    }

    /// What `work` makes of the analysis, without the interpreter.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Arc<Analysed>) -> Result<T, Problem> + Send,
    ) -> PyResult<T> {
        Ok(py.detach(|| work(&self.once.analysed()?))?)
    }

    /// A table of the analysis, which each consumer has made anew.
    fn table(
        &self,
        py: Python<'_>,
        of: impl Fn(&Tables) -> Result<tables::Table, tables::Error> + Send + Sync + 'static,
    ) -> PyResult<Table> {
        self.with(py, |analysed| {
            let tables = analysed.tables.clone();
            let first = of(&tables)?;
            let (name, schema) = (first.name(), first.schema());
            Ok(Table::new(name, schema, move || Ok(Box::new(of(&tables)?))))
        })
    }
}

#[pymethods]
impl Analysis {
    /// The report as a dict, schema `sockscope.report/2`: the same content as `sockscope report --format json`.
    #[pyo3(signature = (*, flow=None))]
    fn report<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = numbers::flow_or_none)] flow: Option<u32>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let json = self.with(py, |analysed| analysed.report(&Json, flow))?;
        py.import("json")?.call_method1("loads", (PyBytes::new(py, &json),))
    }

    /// One row for each direction of each connection.
    #[getter]
    fn flows(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, |tables| Ok(tables.flows()))
    }

    /// One row for each stage of each flow: its delays and its queue.
    #[getter]
    fn stages(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, |tables| Ok(tables.stages()))
    }

    /// One row for each finding, by connection, highest cost first.
    #[getter]
    fn findings(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, |tables| Ok(tables.findings()))
    }

    /// The times that each finding cost.
    #[getter]
    fn finding_times(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, |tables| Ok(tables.finding_times()))
    }

    /// The records that prove each finding.
    #[getter]
    fn evidence(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, |tables| Ok(tables.evidence()))
    }

    /// One row for each request with its response.
    #[getter]
    fn exchanges(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, |tables| Ok(tables.exchanges()))
    }

    /// One row for each call of a program that moved bytes; a recording has them with `--calls`.
    #[getter]
    fn calls(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, |tables| Ok(tables.calls()))
    }

    /// The time that the oldest unread byte spent in each place: of a flow or of all, in so many intervals or in one.
    #[pyo3(signature = (flow=None, bins=None))]
    fn ledger(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = numbers::flow_or_none)] flow: Option<u32>,
        #[pyo3(from_py_with = numbers::bins)] bins: Option<NonZeroU32>,
    ) -> PyResult<Table> {
        self.table(py, move |tables| tables.ledger(flow.map(FlowId), bins))
    }

    /// The bytes of a flow that have passed a point (1 to 8, or its name), as steps over time.
    fn curve(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = numbers::flow)] flow: u32,
        point: PointWord,
    ) -> PyResult<Table> {
        let point = point.point()?;
        self.table(py, move |tables| tables.curve(FlowId(flow), point))
    }

    /// The length of the queue of a stage, as steps over time.
    fn queue(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = numbers::flow)] flow: u32,
        stage: StageWord,
    ) -> PyResult<Table> {
        let stage = stage.stage()?;
        self.table(py, move |tables| tables.queue(FlowId(flow), stage))
    }

    /// The time in a stage of each run of bytes, by position.
    fn delays(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = numbers::flow)] flow: u32,
        stage: StageWord,
    ) -> PyResult<Table> {
        let stage = stage.stage()?;
        self.table(py, move |tables| tables.delays(FlowId(flow), stage))
    }

    /// Draws a figure: `requests` of all connections, or one of a flow, as `queue-length`. Without a flow it is of the
    /// one that carried most bytes. Times are nanoseconds after the trace's first record.
    #[pyo3(signature = (figure, *, flow=None, from_ns=None, to_ns=None, width=800, height=600))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn plot(
        &self,
        py: Python<'_>,
        figure: String,
        #[pyo3(from_py_with = numbers::flow_or_none)] flow: Option<u32>,
        #[pyo3(from_py_with = numbers::from_ns)] from_ns: Option<u64>,
        #[pyo3(from_py_with = numbers::to_ns)] to_ns: Option<u64>,
        #[pyo3(from_py_with = numbers::width)] width: u32,
        #[pyo3(from_py_with = numbers::height)] height: u32,
    ) -> PyResult<Figure> {
        let wish = Wish { figure, flow, from_ns, to_ns, size: (width, height) };
        self.with(py, |analysed| figure::draw(analysed, &wish))
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let html = self.with(py, |analysed| analysed.report(&Summary, None))?;
        Ok(String::from_utf8(html).unwrap_or_default())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |analysed| {
            let connections = &analysed.tables.analysis().connections;
            let findings: usize = connections.iter().map(|one| one.findings.len()).sum();
            Ok(format!(
                "<sockscope.Analysis: {}, {}>",
                counted(connections.len() as u64, "connection"),
                counted(findings as u64, "finding")
            ))
        })
    }
}

/// A trace bundle that is open. Its analysis is made when a report, a figure or a table first needs it.
#[pyclass(frozen, extends = Analysis, module = "sockscope")]
pub(crate) struct Bundle {
    bundle: Arc<TraceBundle>,
}

#[pymethods]
impl Bundle {
    /// The folder.
    #[getter]
    fn path(&self) -> PathBuf {
        self.bundle.dir().to_owned()
    }

    /// One row for each record, in the order of the file, which is nearly that of time. It is read batch by batch.
    #[getter]
    fn records(&self, py: Python<'_>) -> PyResult<Table> {
        let bundle = Arc::clone(&self.bundle);
        let first = py.detach(|| tables::records(&bundle)).map_err(Problem::from)?;
        let (name, schema) = (first.name(), first.schema());
        Ok(Table::new(name, schema, move || Ok(Box::new(tables::records(&bundle)?))))
    }

    /// What is not whole, or was not recorded, one sentence each.
    #[getter]
    fn notes(&self) -> Vec<String> {
        let problems = self.bundle.problems().iter().map(ToString::to_string);
        problems.chain(self.bundle.meta().notes.iter().cloned()).collect()
    }

    fn __repr__(&self) -> String {
        format!(
            "<sockscope.Bundle {}: {} of {}>",
            self.bundle.dir().display(),
            counted(self.bundle.record_rows(), "record"),
            counted(self.bundle.connections().len() as u64, "connection")
        )
    }
}

/// Opens a trace bundle, the folder that `sockscope record` writes.
#[pyfunction]
pub(crate) fn open(py: Python<'_>, path: PathBuf) -> PyResult<Py<Bundle>> {
    let bundle = Arc::new(py.detach(|| TraceBundle::open(&path)).map_err(Problem::from)?);
    let clock = WallClock::of(bundle.meta());
    let once = Once::new(move || {
        let (analysis, stores, origin, _) = Loaded::read(&path)?.finish_with_stores();
        Ok(Analysed { tables: Tables::new(analysis, stores, clock), origin })
    });
    let base = PyClassInitializer::from(Analysis::new(once));
    Py::new(py, base.add_subclass(Bundle { bundle }))
}
