//! The program `sockscope`: see where every byte waits between `write()` and `read()`.
//!
//! Results go to standard output, messages to standard error. Exit status: 0 done, 1 `--check` found
//! something, 2 an error, which one line names; of `run`, the status of a command that failed.

// It panics on a write error: use `stderr!`.
#![deny(clippy::print_stderr)]

#[macro_use]
extern crate sockscope_program;

mod args;
mod bundle;
mod command;
mod compare;
mod convert;
mod demo;
mod doctor;
mod explain;
mod for_host;
mod merge;
mod meta_thread;
mod other_host;
mod others;
mod progress;
mod recording;
mod sink;
mod terminal;
mod trial;
#[cfg(test)]
mod usage_error_tests;
mod user;
mod with_hosts;

use std::process::ExitCode;

use clap::Parser;
use sockscope_program::failure::Failure;
use sockscope_program::hand_over::hand_over;
use sockscope_program::outcome::{self, Outcome};
use sockscope_program::usage_error;

use args::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::try_parse().map_err(|error| usage_error::failure(&error));
    outcome::exit_code(arguments.and_then(|arguments| execute(arguments.command)))
}

fn execute(command: Command) -> Result<Outcome, Failure> {
    match command {
        Command::Run(run) => recording::run(&run),
        Command::Record(record) if record.for_host => {
            for_host::serve(&record).map(|()| Outcome::Done)
        }
        Command::Record(record) => recording::record(&record).map(|()| Outcome::Done),
        Command::Report(report) => bundle::report(&report),
        Command::Show(show) => bundle::show(&show).map(|()| Outcome::Done),
        Command::Plot(rest) => Err(hand_over("plot", &rest.arguments)),
        Command::Explain(finding) => explain::explain(&finding).map(|()| Outcome::Done),
        Command::Doctor(doctor) => doctor::doctor(&doctor),
        Command::Convert(convert) => convert::convert(&convert).map(|()| Outcome::Done),
        Command::Merge(merge) => merge::merge(&merge).map(|()| Outcome::Done),
        Command::Compare(compare) => compare::compare(&compare).map(|()| Outcome::Done),
        Command::Demo(demo) => demo::demo(&demo).map(|()| Outcome::Done),
        Command::Try(arguments) => trial::try_fixes(&arguments).map(|()| Outcome::Done),
        Command::Export(rest) => Err(hand_over("export", &rest.arguments)),
        Command::Top(rest) => Err(hand_over("top", &rest.arguments)),
        Command::Watch(rest) => Err(hand_over("watch", &rest.arguments)),
        Command::View(rest) => Err(hand_over("view", &rest.arguments)),
        Command::Lab(rest) => Err(hand_over("lab", &rest.arguments)),
        Command::Replay(rest) => Err(hand_over("replay", &rest.arguments)),
        Command::Vmtp(rest) => Err(hand_over("vmtp", &rest.arguments)),
    }
}
