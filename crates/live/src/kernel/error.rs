//! Why an experiment did not run.

/// Why an experiment does not run here.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// It is of something that no kernel does, or has a parameter without a counterpart here.
    #[error("`{experiment}` does not run on this kernel: {reason}")]
    NotHere {
        /// Its id.
        experiment: String,
        /// Why.
        reason: String,
    },
    /// Its file makes no sense without the parameters and results of the model alone.
    #[error(transparent)]
    Experiment(#[from] sockscope_experiment::Error),
    /// The namespaces, devices or the wire of a run.
    #[error("{0}")]
    Network(#[from] sockscope_link::Error),
    /// A program of a run.
    #[error("{case}: {problem}")]
    Program {
        /// The case that ran, in words.
        case: String,
        /// What went wrong.
        problem: String,
    },
}
