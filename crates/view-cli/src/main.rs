//! The program `sockscope-view`: views of connections, in a terminal and in a browser.
//!
//! `sockscope top`, `view` and `report --format html` start it with their arguments. Results go to standard output,
//! messages to standard error. Exit status: 0 done, 1 `--check` found something, 2 an error, which one line names.

// It panics on a write error: use `stderr!`.
#![deny(clippy::print_stderr)]

#[macro_use]
extern crate sockscope_program;

mod args;
mod keys;
mod plot;
mod report;
mod top;
mod view;

use std::process::ExitCode;

use clap::Parser;
use sockscope_program::outcome::{self, Outcome};
use sockscope_program::usage_error;

use args::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::try_parse().map_err(|error| usage_error::failure(&error));
    outcome::exit_code(arguments.and_then(|arguments| match arguments.command {
        Command::Plot(plot) => plot::plot(&plot).map(|()| Outcome::Done),
        Command::Top(top) => top::top(&top).map(|()| Outcome::Done),
        Command::View(view) => view::view(&view).map(|()| Outcome::Done),
        Command::Report(report) => report::report(&report),
    }))
}
