//! The native half of the Python package `sockscope`: traces, their analysis and the model for notebooks.
//!
//! Tables go to other libraries by the Arrow PyCapsule interface, without a copy and without any of these libraries.
//! Long work runs without the interpreter's lock. Recording is not here: it is the work of the program.

// It panics on a write error, and a library writes nothing on its own.
#![deny(clippy::print_stderr, clippy::print_stdout)]
// Python hands over values of its own: paths, lists and words that were made for the call.
#![allow(clippy::needless_pass_by_value)]

mod analyse;
mod analysed;
mod bundle;
mod connections;
mod convert;
mod error;
mod figure;
mod fleet;
mod lab;
mod lab_tables;
mod numbers;
mod stream;
mod table;
mod words;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<bundle::Analysis>()?;
    module.add_class::<bundle::Bundle>()?;
    module.add_class::<figure::Figure>()?;
    module.add_class::<lab::Run>()?;
    module.add_class::<table::Column>()?;
    module.add_class::<table::Table>()?;
    module.add_function(wrap_pyfunction!(analyse::analyse, module)?)?;
    module.add_function(wrap_pyfunction!(bundle::open, module)?)?;
    module.add_function(wrap_pyfunction!(convert::convert, module)?)?;
    module.add_function(wrap_pyfunction!(fleet::fleet_analyse, module)?)?;
    module.add_function(wrap_pyfunction!(fleet::fleet_plan, module)?)?;
    module.add_function(wrap_pyfunction!(fleet::fleet_write, module)?)?;
    module.add_function(wrap_pyfunction!(lab::cases, module)?)?;
    module.add_function(wrap_pyfunction!(lab::experiments, module)?)?;
    module.add_function(wrap_pyfunction!(lab::run, module)?)?;
    module.add_function(wrap_pyfunction!(lab::fleet, module)?)
}
