//! What can go wrong in the laboratory.

/// Why an experiment, a claim or a table could not be used, or a run not be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A file is not of the form that its place demands. `file` is its path in the project.
    #[error("{file}: {problem}")]
    File {
        /// The file.
        file: String,
        /// What is wrong, and where in it.
        problem: String,
    },
    /// No experiment has this id.
    #[error("no experiment `{wanted}`; `sockscope lab list` names them")]
    NoSuchExperiment {
        /// The id asked for.
        wanted: String,
    },
    /// No paper has this name.
    #[error("no paper `{wanted}`: expected one of {known}")]
    NoSuchPaper {
        /// The name asked for.
        wanted: String,
        /// The names that there are.
        known: String,
    },
    /// A case could not be run, or its run failed: damaged data, or no end in sight.
    #[error("{experiment}, {case}: {problem}")]
    Run {
        /// The experiment's id.
        experiment: String,
        /// The case: `case` and its parameters, or that it is the only one.
        case: String,
        /// What happened.
        problem: String,
    },
    /// Results or a trace could not be written.
    #[error("cannot write {what}: {problem}")]
    Write {
        /// What was being written.
        what: String,
        /// What the system or the trace's writer said.
        problem: String,
    },
}

impl Error {
    /// What TOML says of `text`, in one line.
    pub(crate) fn toml(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let message = error.message().replace('\n', " ");
        let line = error.span().and_then(|span| text.get(..span.start));
        let line = line.map(|before| before.matches('\n').count() + 1);
        let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        Self::file(file, format!("{place}{message}"))
    }

    /// A problem with a file of the project.
    pub fn file(file: &str, problem: impl Into<String>) -> Self {
        Self::File { file: file.to_owned(), problem: problem.into() }
    }
}

/// Result with the laboratory's error.
pub type Result<T> = std::result::Result<T, Error>;
