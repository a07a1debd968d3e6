//! What is not whole in a spool.

use serde::{Deserialize, Serialize};

/// Something that is not whole, and was left out of the analysis.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Problem {
    /// Its kind.
    pub trouble: Trouble,
    /// The host; empty where it is not known.
    pub host: String,
    /// A sentence with the place.
    pub line: String,
}

/// Kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// No segment of a host to which others have connections.
    MissingHost,
    /// A segment between others has no seal.
    MissingSegment,
    /// A seal or a file is not as it was written, or is not there.
    DamagedSegment,
    /// The segments of two hosts contradict each other: a clock was set.
    Clock,
}

impl Trouble {
    /// The word in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::MissingHost => "missing-host",
            Self::MissingSegment => "missing-segment",
            Self::DamagedSegment => "damaged-segment",
            Self::Clock => "clock",
        }
    }
}

impl Problem {
    pub(crate) fn new(trouble: Trouble, host: &str, line: impl Into<String>) -> Self {
        Self { trouble, host: host.to_owned(), line: line.into() }
    }
}
