//! The program `sockscope-lab`: experiments of classic papers, and VMTP.
//!
//! `sockscope lab`, `sockscope replay` and `sockscope vmtp` start it with their arguments. Results go to standard output,
//! messages to standard error. Exit status: 0 done, 1 `--check` found something, 2 an error, which one
//! line names.

// It panics on a write error: use `stderr!`.
#![deny(clippy::print_stderr)]

#[macro_use]
extern crate sockscope_program;

mod args;
mod choice;
mod experiment_ids;
mod figures;
mod host;
mod lab;
mod levels;
mod link;
mod pattern;
mod png;
mod profile;
mod programs;
mod replay;
mod same_cpu;
mod vmtp;
mod wire;
mod work;

use std::process::ExitCode;

use clap::Parser;
use sockscope_program::failure::Failure;
use sockscope_program::outcome::{self, Outcome};
use sockscope_program::usage_error;

use args::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::try_parse().map_err(|error| usage_error::failure(&error));
    outcome::exit_code(arguments.and_then(|arguments| execute(arguments.command)))
}

fn execute(command: Command) -> Result<Outcome, Failure> {
    match command {
        Command::Lab(arguments) => lab::lab(&arguments),
        Command::Replay(arguments) => replay::replay(&arguments),
        Command::Vmtp(arguments) => vmtp::vmtp(&arguments).map(|()| Outcome::Done),
    }
}
