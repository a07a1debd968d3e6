//! How a command ends, and the exit status for it.

use std::process::ExitCode;

use crate::failure::Failure;

/// How a command ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it was asked to do.
    Done,
    /// `--check` was given and there are findings, or recording does not work here.
    Found,
    /// The recorded command failed so.
    OfCommand(u8),
}

/// The exit status of a program that ends so; a failure is said in one line.
pub fn exit_code(ended: Result<Outcome, Failure>) -> ExitCode {
    match ended {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Found) => ExitCode::from(1),
        Ok(Outcome::OfCommand(code)) => ExitCode::from(code),
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            stderr!("sockscope: {failure}");
            ExitCode::from(2)
        }
    }
}
