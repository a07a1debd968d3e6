//! One breach of a rule, printed as editors read it: `path:line: problem`.

use std::fmt;

/// One breach of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// File, from the checkout's root.
    pub path: String,
    /// Line from 1 on; 0 when the whole file is meant.
    pub line: usize,
    /// The problem and the expectation.
    pub text: String,
}

impl Problem {
    /// A breach on one line.
    pub fn at(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into() }
    }

    /// A breach of the whole file.
    pub fn file(path: &str, text: impl Into<String>) -> Self {
        Self::at(path, 0, text)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.text),
            line => write!(f, "{}:{line}: {}", self.path, self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_prints_as_editors_read_it() {
        assert_eq!(Problem::at("a.rs", 3, "too long").to_string(), "a.rs:3: too long");
        assert_eq!(Problem::file("a.rs", "too long").to_string(), "a.rs: too long");
    }
}
