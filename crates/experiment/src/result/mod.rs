//! What a run gave: schema `sockscope.lab/1` and its text and CSV forms.

mod csv;
mod json;
mod sends;
mod table;
mod text;

pub use csv::write_csv;
pub use json::write_json;
pub use text::{wrapped, write_tables, write_text};

use std::path::PathBuf;

use crate::measurement::Measurement;
use crate::{Case, Experiment, word};

/// Everything that an experiment gave.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// The experiment as it was run.
    pub experiment: Experiment,
    /// Its cases in order.
    pub cases: Vec<CaseResult>,
    /// Where it ran; `None`: on the model.
    pub kernel: Option<OnKernel>,
}

/// A run on a kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct OnKernel {
    /// The machine, in words.
    pub machine: String,
    /// What a reader must know of the runs, one sentence each.
    pub notes: Vec<String>,
    /// The machine, what others did on it, and which runs were dropped, for programs.
    pub conditions: serde_json::Value,
    /// The trace bundles that were kept, with their cases.
    pub bundles: Vec<(Case, PathBuf)>,
}

/// What one case gave.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseResult {
    /// What was run.
    pub case: Case,
    /// What was measured.
    pub measured: Measurement,
}

impl RunResult {
    /// The cases whose parameters have all these values, as `("data_bytes", "4800")`.
    pub fn cases_with<'a>(
        &'a self,
        wanted: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = &'a CaseResult> {
        let has = |case: &Case, name: &str, value: &str| {
            case.value(name).is_some_and(|it| word(it) == value)
        };
        self.cases
            .iter()
            .filter(move |result| wanted.iter().all(|(name, value)| has(&result.case, name, value)))
    }
}
