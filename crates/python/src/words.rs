//! Points and stages as Python names them.

use pyo3::prelude::*;
use sockscope_record::{Point, Stage};

use crate::error::Problem;

/// A point by its number, or by its name.
#[derive(FromPyObject)]
pub(crate) enum PointWord {
    Number(i64),
    Name(String),
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
#[derive(FromPyObject)]
#[pyo3(transparent)]
pub(crate) struct StageWord(String);

impl StageWord {
    pub(crate) fn stage(self) -> Result<Stage, Problem> {
        let found = Stage::ALL.into_iter().find(|stage| stage.name() == self.0);
        found.ok_or_else(|| {
            let names = Stage::ALL.map(Stage::name).join(", ");
            Problem::new(format!("stage: expected one of {names}; found {:?}", self.0))
        })
    }
}
