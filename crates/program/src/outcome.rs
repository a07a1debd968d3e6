//! The end of a command, and its exit status.

use std::process::ExitCode;

use crate::failure::Failure;

/// The end of a command without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The command did its work.
    Done,
    /// `--check` was given and there are findings, or recording does not work here.
    Found,
    /// The recorded command failed with this status.
    OfCommand(u8),
}

/// The exit status of a program with this end; a failure is printed in one line.
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
