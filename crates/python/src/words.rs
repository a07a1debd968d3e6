//! Points and stages as Python names them.

use pyo3::Borrowed;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use sockscope_record::{Point, Stage};

use crate::error::{Problem, found_type};

/// A point by its number, or by its name.
pub(crate) enum PointWord {
    Number(i64),
    Name(String),
}

impl<'py> FromPyObject<'_, 'py> for PointWord {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match value.extract() {
            Ok(number) => Ok(Self::Number(number)),
            Err(error) if PyErr::is_instance_of::<PyTypeError>(&error, value.py()) => value
                .extract()
                .map(Self::Name)
                .map_err(|_| found_type("point", "1 to 8, or a name", &value)),
            Err(_) => {
                Err(Problem::new(format!("point: expected 1 to 8, found {}", &*value)).into())
            }
        }
    }
}

impl PointWord {
    pub(crate) fn point(self) -> Result<Point, Problem> {
        let found = Point::ALL.into_iter().find(|point| match &self {
            Self::Number(number) => i64::from(point.number()) == *number,
            Self::Name(name) => point.name() == name,
        });
        found.ok_or_else(|| {
            let names = Point::ALL.map(Point::name).join(", ");
            let given = match &self {
                Self::Number(number) => number.to_string(),
                Self::Name(name) => format!("{name:?}"),
            };
            Problem::new(format!("point: expected 1 to 8, or one of {names}; found {given}"))
        })
    }
}

/// A stage by its name.
pub(crate) struct StageWord(String);

impl<'py> FromPyObject<'_, 'py> for StageWord {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        value.extract().map(Self).map_err(|_| found_type("stage", "a name", &value))
    }
}

impl StageWord {
    pub(crate) fn stage(self) -> Result<Stage, Problem> {
        let found = Stage::ALL.into_iter().find(|stage| stage.name() == self.0);
        found.ok_or_else(|| {
            let names = Stage::ALL.map(Stage::name).join(", ");
            Problem::new(format!("stage: expected one of {names}; found {:?}", self.0))
        })
    }
}
