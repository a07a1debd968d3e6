//! The conditions of a run on this machine: what the machine is, what others did on it meanwhile, and which runs were
//! dropped for that.
//!
//! The papers measured on machines of their own, and dropped a run that others disturbed. Here a written [`Rule`] drops
//! it, and the result has the reason. A machine that is always busy gives no number.

mod machine;
mod namespaces;
mod others;
mod processes;
mod rule;

use serde::Serialize;

pub use machine::{Device, Machine};
pub use namespaces::Namespaces;
pub(crate) use namespaces::{add_case, without_names_of_all};
pub use others::{Others, Watch};
pub use processes::Busy;
pub use rule::{DROPPED, Rule, scattered};

/// The conditions of all runs of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Conditions {
    /// What the machine is.
    pub machine: Machine,
    /// Settings of the namespaces in which the traffic was; none: it was in that of the machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<Namespaces>,
    /// What others did from the first run to the last.
    pub others: Others,
    /// Which runs are dropped.
    pub rule: Rule,
    /// Runs that the rule is about, in order: they were dropped, where it drops any.
    pub disturbed: Vec<Disturbed>,
}

/// A run that others disturbed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Disturbed {
    /// The case that ran, in words.
    pub case: String,
    /// What disturbed it, in words.
    pub reason: String,
}

impl Conditions {
    /// On this machine.
    pub fn of(others: Others, rule: Rule, disturbed: Vec<Disturbed>) -> Self {
        Self { machine: Machine::read(), namespaces: Vec::new(), others, rule, disturbed }
    }

    /// The number of disturbed runs, and the reason of the first; `None` without one.
    pub fn disturbed_words(&self) -> Option<String> {
        let first = self.disturbed.first()?;
        let runs = sockscope_record::counted(self.disturbed.len() as u64, "disturbed run");
        let done = if self.rule.drops { "dropped" } else { "kept" };
        Some(format!("{done} {runs}; the first, {}, because {}", first.case, first.reason))
    }
}
