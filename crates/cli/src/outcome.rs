//! How a command ends, for the exit status.

/// How a command ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it was asked to do.
    Done,
    /// `--check` was given and there are findings, or recording does not work here.
    Found,
    /// `--exit-status` was given and the command failed so.
    OfCommand(u8),
}
