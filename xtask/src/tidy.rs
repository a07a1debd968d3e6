//! House rules as checks over the whole checkout.
//!
//! A rule is a function from a [`Tree`] to its [`Problem`]s. Each rule's tests hold a sample that
//! must fail and one that must pass; the last test here runs them all over the checkout itself.

mod crates;
mod docs;
mod files;
mod rust;
mod source;

use std::fmt;

use crate::tree::Tree;

/// One breach of a rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    /// File, from the checkout's root.
    pub path: String,
    /// Line from 1 on; 0 when the whole file is meant.
    pub line: usize,
    /// What is wrong and what is expected.
    pub text: String,
}

impl Problem {
    fn at(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into() }
    }

    fn file(path: &str, text: impl Into<String>) -> Self {
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

/// A named check.
type Rule = (&'static str, fn(&Tree) -> Vec<Problem>);

/// Every rule, in the order in which their problems are printed.
const RULES: &[Rule] = &[
    ("level", crates::levels),
    ("lints", crates::lints),
    ("workspace-dependency", crates::unused_workspace_dependencies),
    ("module-header", rust::module_header),
    ("no-ignore", rust::no_ignored_test),
    ("unwrap-reason", rust::unwrap_has_reason),
    ("unsafe", rust::unsafe_only_where_allowed),
    ("length", rust::length),
    ("todo", source::todo_has_issue),
    ("names", source::names),
    ("changelog", docs::changelog),
    ("finding-page", docs::finding_pages),
    ("crate-mentioned", docs::crates_mentioned),
    ("level-table", docs::level_table),
    ("decision-name", docs::decision_names),
    ("link", docs::links),
    ("markdown-width", docs::width),
    ("licence-file", files::licence_files),
    ("bpf-licence", files::bpf_licence),
    ("size", files::size),
    ("machine-path", files::machine_paths),
];

/// Runs every rule; each problem comes with its rule's name.
pub fn check(tree: &Tree) -> Vec<(&'static str, Problem)> {
    let found = |(name, rule): &Rule| {
        let name = *name;
        rule(tree).into_iter().map(move |problem| (name, problem)).collect::<Vec<_>>()
    };
    RULES.iter().flat_map(found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_checkout_is_tidy() {
        let tree = Tree::read(&crate::tree::root()).expect("git lists the checkout");
        let problems: Vec<String> =
            check(&tree).iter().map(|(rule, problem)| format!("{problem} [{rule}]")).collect();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn a_problem_prints_as_editors_read_it() {
        assert_eq!(Problem::at("a.rs", 3, "too long").to_string(), "a.rs:3: too long");
        assert_eq!(Problem::file("a.rs", "too long").to_string(), "a.rs: too long");
    }
}
