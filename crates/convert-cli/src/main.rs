//! The program `sockscope-convert`: captures of other tools as trace bundles, and bundles in forms of other tools.
//!
//! `sockscope convert` starts it for a capture file, and `sockscope export`. Messages go to standard error. Exit status: 0 done, 2 an error,
//! which one line names.

// It panics on a write error: use `stderr!`.
#![deny(clippy::print_stderr)]

use std::process::ExitCode;

use clap::Parser;
use sockscope_convert_cli::args::{Arguments, Command};
use sockscope_convert_cli::{convert, export};
use sockscope_program::outcome::{self, Outcome};
use sockscope_program::usage_error;

fn main() -> ExitCode {
    let arguments = Arguments::try_parse().map_err(|error| usage_error::failure(&error));
    outcome::exit_code(arguments.and_then(|arguments| match arguments.command {
        Command::Convert(arguments) => convert::convert(&arguments).map(|()| Outcome::Done),
        Command::Export(arguments) => export::export(&arguments).map(|()| Outcome::Done),
    }))
}
