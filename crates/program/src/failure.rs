//! Errors that end the program with status 2: one line for the user.

use std::fmt;
use std::io;
use std::path::Path;

/// An error as the user sees it.
#[derive(Debug)]
pub struct Failure {
    line: String,
    kind: Option<io::ErrorKind>,
}

impl Failure {
    /// A failure with this line.
    pub fn new(line: impl Into<String>) -> Self {
        Self { line: line.into(), kind: None }
    }

    /// A file that could not be used; `what` names the attempt.
    pub fn file(what: &str, path: &Path, error: &io::Error) -> Self {
        Self { line: format!("{what} {}: {error}", path.display()), kind: Some(error.kind()) }
    }

    /// The requested output could not be printed.
    pub fn output(error: &io::Error) -> Self {
        Self { line: format!("cannot write the output: {error}"), kind: Some(error.kind()) }
    }

    /// The reader of our output has gone away: no error for a filter.
    pub fn is_broken_pipe(&self) -> bool {
        self.kind == Some(io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self { line: error.to_string(), kind: Some(error.kind()) }
    }
}

impl From<sockscope_probe::Error> for Failure {
    fn from(error: sockscope_probe::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<sockscope_trace::Error> for Failure {
    fn from(error: sockscope_trace::Error) -> Self {
        let is_full = |source: &io::Error| {
            matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        };
        let advice = match &error {
            sockscope_trace::Error::Io { source, .. } if is_full(source) => {
                ": the trace ends there; make room, or write it elsewhere with -o"
            }
            sockscope_trace::Error::NotAFolder { .. } => {
                ": sockscope convert makes a bundle of a capture"
            }
            _ => "",
        };
        Self::new(format!("{error}{advice}"))
    }
}

impl From<sockscope_report::FilterError> for Failure {
    fn from(error: sockscope_report::FilterError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<sockscope_report::ReportError> for Failure {
    fn from(error: sockscope_report::ReportError) -> Self {
        match error {
            sockscope_report::ReportError::Write(error) => Self::output(&error),
            other => Self::new(other.to_string()),
        }
    }
}
