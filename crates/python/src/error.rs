//! Errors as exceptions of the package: one line each, with the place and the expectation.

use std::io;
use std::path::{Path, PathBuf};

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use rustix::io::Errno;
use sockscope_program::failure::Failure;

/// Why something was not done. It becomes `sockscope.Error`, or `sockscope.FileError` where the system refused.
#[derive(Debug)]
pub(crate) struct Problem {
    line: String,
    /// The system's number, and the file or folder.
    system: Option<(i32, PathBuf)>,
}

impl Problem {
    pub(crate) fn new(line: impl ToString) -> Self {
        Self { line: line.to_string(), system: None }
    }

    /// Of a file; `attempt` is as `cannot read`.
    pub(crate) fn file(attempt: &str, path: &Path, error: &io::Error) -> Self {
        let number = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
        let line = Failure::file(attempt, path, error).to_string();
        Self { line, system: Some((number, path.to_owned())) }
    }

    fn exception<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let errors = py.import(intern!(py, "sockscope._errors"))?;
        match &self.system {
            None => errors.getattr("Error")?.call1((&self.line,)),
            Some((number, path)) => errors.getattr("FileError")?.call1((&self.line, *number, path)),
        }
    }
}

/// Of an argument whose type is not the expected one.
pub(crate) fn found_type(name: &str, expected: &str, value: &Bound<'_, PyAny>) -> PyErr {
    match value.get_type().name() {
        Ok(found) => PyTypeError::new_err(format!("{name}: expected {expected}, found {found}")),
        Err(error) => error,
    }
}

impl From<Problem> for PyErr {
    fn from(problem: Problem) -> Self {
        Python::attach(|py| match problem.exception(py) {
            Ok(exception) => Self::from_value(exception),
            Err(error) => error,
        })
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::new(failure)
    }
}

impl From<sockscope_trace::Error> for Problem {
    fn from(error: sockscope_trace::Error) -> Self {
        use sockscope_trace::Error;
        let system = match &error {
            Error::Io { path, source } => {
                Some((source.raw_os_error().map(Errno::from_raw_os_error), path))
            }
            Error::NotThere(path) => Some((Some(Errno::NOENT), path)),
            Error::NotAFolder(path) => Some((Some(Errno::NOTDIR), path)),
            Error::OwnersOnly { path, .. } => Some((Some(Errno::ACCESS), path)),
            _ => None,
        };
        let system =
            system.map(|(number, path)| (number.unwrap_or(Errno::IO).raw_os_error(), path.clone()));
        // With the advice that the programs give.
        Self { line: Failure::from(error).to_string(), system }
    }
}

/// Errors of which the line is all.
macro_rules! lines {
    ($($error:ty),+ $(,)?) => {
        $(impl From<$error> for Problem {
            fn from(error: $error) -> Self {
                Self::new(error)
            }
        })+
    };
}

lines!(
    arrow_schema::ArrowError,
    sockscope_report::FilterError,
    sockscope_report::ReportError,
    sockscope_report::plot::PlotError,
    sockscope_fleet::Error,
    sockscope_tables::Error,
);
