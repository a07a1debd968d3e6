//! Why a host does not run.

use sockscope_sim::ScenarioError;

/// Why a host does not run.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// No such personality or machine.
    #[error("no {what} `{name}`: expected one of {known}")]
    Name {
        /// Personality or machine.
        what: &'static str,
        /// The name asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// It cannot be simulated.
    #[error("the host cannot be simulated: {0}")]
    Scenario(#[from] ScenarioError),
    /// The device or the namespace failed.
    #[error(transparent)]
    Link(#[from] sockscope_link::Error),
    /// The bundle cannot be written.
    #[error("cannot write the trace: {0}")]
    Trace(#[from] sockscope_trace::Error),
}
