//! Errors of a link and of its settings.

use std::io;

/// A link that cannot be made or goes on no more.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused something.
    #[error("cannot {what}: {cause}")]
    Refused {
        /// The action, as `open a TUN device`.
        what: &'static str,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A command that cannot be started.
    #[error("cannot start {program}: {cause}")]
    Start {
        /// Its name.
        program: String,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A thread of the link panicked.
    #[error("the thread of one end of the link ended early")]
    Thread,
}

/// A setting that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A number that is missing or has no known unit.
    #[error("{text:?} is no {kind}; write it as {example}")]
    Quantity {
        /// The text given.
        text: String,
        /// As `time`.
        kind: &'static str,
        /// As `20ms`.
        example: &'static str,
    },
    /// A word that no setting has.
    #[error("{text:?} is no {kind}; there are {known}")]
    Word {
        /// The text given.
        text: String,
        /// As `loss model`.
        kind: &'static str,
        /// The words that there are.
        known: &'static str,
    },
    /// A trace of opportunities that cannot be used.
    #[error(
        "line {line} of the trace: expected a time in milliseconds, not before that of the line above"
    )]
    Trace {
        /// From 1 on.
        line: usize,
    },
    /// A trace without opportunities, or that ends at 0 ms.
    #[error("the trace has no opportunity after 0 ms, so that nothing would ever be sent")]
    EmptyTrace,
    /// Settings that exclude each other.
    #[error("{0}")]
    Conflict(&'static str),
}
