//! Whole numbers among the arguments. Python's have no limits, and the errors of pyo3's conversion do not name them.

use std::num::NonZeroU32;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::{Problem, found_type};

const MOST: u64 = u32::MAX as u64;

fn whole<T: TryFrom<u64>>(
    name: &str,
    value: &Bound<'_, PyAny>,
    least: u64,
    most: u64,
) -> PyResult<T> {
    let number = match value.extract::<u64>() {
        Err(error) if error.is_instance_of::<PyTypeError>(value.py()) => {
            return Err(found_type(name, "a whole number", value));
        }
        other => other.ok().filter(|number| (least..=most).contains(number)),
    };
    if let Some(number) = number.and_then(|number| T::try_from(number).ok()) {
        return Ok(number);
    }
    let expected =
        if value.lt(least)? { format!("{least} or more") } else { format!("{most} or less") };
    Err(Problem::new(format!("{name}: expected {expected}, found {value}")).into())
}

fn present<'a, 'py>(value: &'a Bound<'py, PyAny>) -> Option<&'a Bound<'py, PyAny>> {
    (!value.is_none()).then_some(value)
}

pub(crate) fn flow(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    whole("flow", value, 0, MOST)
}

pub(crate) fn flow_or_none(value: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
    present(value).map(flow).transpose()
}

pub(crate) fn bins(value: &Bound<'_, PyAny>) -> PyResult<Option<NonZeroU32>> {
    let bins = present(value).map(|value| whole("bins", value, 1, MOST)).transpose()?;
    Ok(bins.and_then(NonZeroU32::new))
}

pub(crate) fn from_ns(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    present(value).map(|value| whole("from_ns", value, 0, u64::MAX)).transpose()
}

pub(crate) fn to_ns(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    present(value).map(|value| whole("to_ns", value, 0, u64::MAX)).transpose()
}

pub(crate) fn width(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    whole("width", value, 0, MOST)
}

pub(crate) fn height(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    whole("height", value, 0, MOST)
}

pub(crate) fn seed(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    present(value).map(|value| whole("seed", value, 0, u64::MAX)).transpose()
}

pub(crate) fn repetitions(value: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
    present(value).map(|value| whole("repetitions", value, 1, MOST)).transpose()
}
