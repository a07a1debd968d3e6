//! Tables for every library that takes Arrow: the PyCapsule interface, and conversions by name.
//!
//! A table makes its batches when they are asked for, and again for each consumer. None of the libraries is needed to
//! load the package.

use std::sync::Arc;

use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{Field, SchemaRef};
use pyo3::exceptions::PyModuleNotFoundError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use sockscope_tables::{DESCRIPTION, UNIT};

use crate::error::Problem;

/// Batches of one pass over a table.
pub(crate) type Batches = Box<dyn RecordBatchReader + Send>;

/// Begins a pass. It runs without the interpreter.
type Begin = dyn Fn() -> Result<Batches, Problem> + Send + Sync;

/// A table as a stream of Arrow batches, which pyarrow, polars, pandas and DuckDB take.
#[pyclass(frozen, module = "sockscope")]
pub(crate) struct Table {
    name: String,
    schema: SchemaRef,
    begin: Arc<Begin>,
}

impl Table {
    pub(crate) fn new(
        name: impl Into<String>,
        schema: SchemaRef,
        begin: impl Fn() -> Result<Batches, Problem> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), schema, begin: Arc::new(begin) }
    }
}

/// A column of a table: its name, its type in Arrow, its unit and its meaning, the last two empty where they are unknown.
#[pyclass(frozen, get_all, module = "sockscope")]
pub(crate) struct Column {
    name: String,
    r#type: String,
    unit: String,
    description: String,
}

impl Column {
    fn of(field: &Field) -> Self {
        let fact = |key: &str| field.metadata().get(key).cloned().unwrap_or_default();
        Self {
            name: field.name().clone(),
            r#type: field.data_type().to_string(),
            unit: fact(UNIT),
            description: fact(DESCRIPTION),
        }
    }
}

#[pymethods]
impl Column {
    fn __repr__(&self) -> String {
        let Self { name, r#type, unit, description } = self;
        let unit = if unit.is_empty() { String::new() } else { format!(" [{unit}]") };
        let description =
            if description.is_empty() { String::new() } else { format!("  {description}") };
        format!("{name}: {type}{unit}{description}")
    }
}

#[pymethods]
impl Table {
    /// The name of the table, as `flows`.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The type of each column, by name, in the order of the columns.
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let types = PyDict::new(py);
        for field in self.schema.fields() {
            types.set_item(field.name(), field.data_type().to_string())?;
        }
        Ok(types)
    }

    /// The columns with their units and meanings.
    #[getter]
    fn columns(&self) -> Vec<Column> {
        self.schema.fields().iter().map(|field| Column::of(field)).collect()
    }

    /// A new pass over the batches (Arrow PyCapsule interface). Types are those of `schema`, whatever is requested.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = py.detach(|| (self.begin)())?;
        let stream = FFI_ArrowArrayStream::new(batches);
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The types of the columns (Arrow PyCapsule interface).
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema).map_err(Problem::from)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// As a `pyarrow.Table`.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        library(slf.py(), "pyarrow", "to_pyarrow")?.call_method1("table", (slf,))
    }

    /// As a `polars.DataFrame`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        library(slf.py(), "polars", "to_polars")?.call_method1("DataFrame", (slf,))
    }

    /// As a `pandas.DataFrame`.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let frame = library(slf.py(), "pandas", "to_pandas")?.getattr("DataFrame")?;
        // Since pandas 3.0. It reads Arrow by pyarrow, as the releases before it do through the table.
        match frame.getattr_opt("from_arrow")? {
            Some(from_arrow) => from_arrow.call1((slf,)),
            None => Self::to_pyarrow(slf)?.call_method0("to_pandas"),
        }
    }

    fn __repr__(&self) -> String {
        let columns = self.columns();
        let lines: String =
            columns.iter().map(|column| format!("\n  {}", column.__repr__())).collect();
        format!("<sockscope.Table {}: {} columns>{lines}", self.name, columns.len())
    }
}

/// A library that only this conversion needs.
fn library<'py>(py: Python<'py>, name: &str, method: &str) -> PyResult<Bound<'py, PyModule>> {
    py.import(name).map_err(|error| {
        if !error.is_instance_of::<PyModuleNotFoundError>(py) {
            return error;
        }
        let line = format!("{method}() needs {name}, which is not installed: pip install {name}");
        let missing = PyModuleNotFoundError::new_err(line);
        missing.set_cause(py, Some(error));
        missing
    })
}
