//! Errors, with their place and the expected value.

use std::io;
use std::path::{Path, PathBuf};

/// A spool cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused a file or a folder.
    #[error("{attempt} {path}: {source}", path = path.display())]
    Io {
        /// As `cannot write`.
        attempt: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The trace has no reading of the wall clock.
    #[error(
        "no wall clock in the trace, and a spool needs one: record it anew with `sockscope record`"
    )]
    NoClock,
    /// The trace has no name of its host.
    #[error("no name of a host in the trace, and a spool needs one")]
    NoHost,
    /// A text between two programs is not the expected one.
    #[error("{what}: {source}")]
    Json {
        /// The text.
        what: String,
        /// The place in it.
        source: serde_json::Error,
    },
    /// A spool has no segment.
    #[error("{}: no segment in this spool: `sockscope export TRACE --to spool -o DIR` writes one", .0.display())]
    Empty(PathBuf),
    /// A table cannot be made or read.
    #[error(transparent)]
    Table(#[from] sockscope_tables::Error),
    /// A table cannot be made.
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] sockscope_trace::Error),
}

impl Error {
    pub(crate) fn io<'a>(
        attempt: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::Io { attempt, path: path.to_owned(), source }
    }

    pub(crate) fn json(what: impl Into<String>) -> impl FnOnce(serde_json::Error) -> Self {
        let what = what.into();
        move |source| Self::Json { what, source }
    }
}
