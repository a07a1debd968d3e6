//! The program `sockscope-watch`: a recorder that is already running when a problem appears.
//!
//! `sockscope watch` starts it with its arguments. Messages go to standard error. Exit status: 0 done, 2 an error, which
//! one line names.

// It panics on a write error: use `stderr!`.
#![deny(clippy::print_stderr)]

#[macro_use]
extern crate sockscope_program;

mod args;
mod collector;
mod findings;
mod keep;
mod otlp;
mod sampling;
mod sandbox;
mod segments;
mod serve;
mod spool;
mod watch;

use std::process::ExitCode;

use clap::Parser;
use sockscope_program::outcome::{self, Outcome};
use sockscope_program::usage_error;

use args::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::try_parse().map_err(|error| usage_error::failure(&error));
    outcome::exit_code(arguments.and_then(|arguments| match arguments.command {
        Command::Watch(watch) => watch::watch(&watch).map(|()| Outcome::Done),
    }))
}
