//! House rules as checks over the whole checkout.
//!
//! A rule is a function from a [`Tree`] to its [`Problem`]s. Each rule's tests hold a sample that
//! must fail and one that must pass; the last test here runs them all over the checkout itself.

mod circles;
mod crates;
mod docs;
mod files;
mod problem;
mod prose;
mod rust;
mod source;
pub mod words;

use crate::tree::Tree;
use problem::Problem;

/// A named check.
type Rule = (&'static str, fn(&Tree) -> Vec<Problem>);

/// Every rule, in the order in which their problems are printed.
const RULES: &[Rule] = &[
    ("level", crates::levels),
    ("no-circle", circles::no_circle),
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
    ("plain-words", words::plain_words),
    ("readme-words", docs::readme_words),
    ("licence-file", files::licence_files),
    ("vendored-licence", files::vendored_licence),
    ("bpf-licence", files::bpf_licence),
    ("size", files::size),
    ("machine-path", files::machine_paths),
];

/// Runs every rule; returns each problem with its rule's name.
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
}
