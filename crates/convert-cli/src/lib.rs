//! The work of the program `sockscope-convert`, which the Python package does too: captures of other tools as trace
//! bundles, and bundles in forms of other tools.

// It panics on a write error: use `stderr!`.
#![deny(clippy::print_stderr)]

pub mod args;
pub mod convert;
pub mod export;
