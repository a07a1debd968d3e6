//! Rules on Rust sources.

use super::problem::Problem;
use super::source::Line;
use crate::tree::{File, Tree};

/// Lines of one file, its tests left aside.
const LINES_MAX: usize = 800;

/// Shortest header that can describe a file.
const HEADER_BYTES_MIN: usize = 10;

/// Crates that may use `unsafe`, for calls into the kernel and shared memory; and the file that takes a stream from
/// another library in the same process.
const UNSAFE_PLACES: [&str; 4] =
    ["crates/probe/", "crates/channel/", "crates/link/", "crates/python/src/stream.rs"];

/// Each file opens with a `//!` header.
pub fn module_header(tree: &Tree) -> Vec<Problem> {
    let headless = tree.ending(".rs").filter(|file| {
        let mut lines = file.text.lines();
        // Attributes of the whole file may stand first, as fuzz targets need them.
        let first = lines.find(|line| !line.is_empty() && !line.starts_with("#!["));
        let header = first.and_then(|line| line.strip_prefix("//!"));
        header.is_none_or(|header| header.len() < HEADER_BYTES_MIN)
    });
    headless
        .map(|file| Problem::at(&file.path, 1, "expected a `//!` header that says what this is"))
        .collect()
}

/// No test is switched off: the first word of its name is its requirement.
pub fn no_ignored_test(tree: &Tree) -> Vec<Problem> {
    let text = "no ignored tests: begin the name with `root_` or `slow_`";
    each_line(tree, |file, number, line| {
        line.code.contains("#[ignore").then(|| Problem::at(&file.path, number, text))
    })
}

/// Outside tests, `unwrap()` has its reason in a comment on its line or the one before.
pub fn unwrap_has_reason(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.ending(".rs").filter(|file| !is_for_tests(tree, &file.path)) {
        let mut commented_before = false;
        for (line, number) in outside_tests(&file.text).zip(1..) {
            let Line { code, comment } = Line::split(line, "//");
            if code.contains(".unwrap()") && comment.is_empty() && !commented_before {
                let text = "`unwrap` without the reason why it cannot fail";
                problems.push(Problem::at(&file.path, number, text));
            }
            commented_before = !comment.is_empty();
        }
    }
    problems
}

/// `unsafe` is used only in the crates that call the kernel or share memory.
pub fn unsafe_only_where_allowed(tree: &Tree) -> Vec<Problem> {
    let text = "`unsafe` is for `probe`, `channel`, `link` and python/src/stream.rs only";
    each_line(tree, |file, number, line| {
        let allowed = UNSAFE_PLACES.iter().any(|folder| file.path.starts_with(folder));
        let mut words = line.code.split(|char: char| !char.is_alphanumeric() && char != '_');
        let found = words.any(|word| word == "unsafe" || word == "unsafe_code");
        (found && !allowed).then(|| Problem::at(&file.path, number, text))
    })
}

/// A file stays below [`LINES_MAX`] lines outside its tests.
pub fn length(tree: &Tree) -> Vec<Problem> {
    let files = tree.ending(".rs").filter(|file| !is_for_tests(tree, &file.path));
    files
        .filter_map(|file| {
            let lines = outside_tests(&file.text).count();
            let text = format!("{lines} lines outside tests, {LINES_MAX} at most: look for a seam");
            (lines > LINES_MAX).then(|| Problem::file(&file.path, text))
        })
        .collect()
}

fn each_line(
    tree: &Tree,
    check: impl Fn(&File, usize, &Line<'_>) -> Option<Problem>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.ending(".rs") {
        for (line, number) in file.text.lines().zip(1..) {
            problems.extend(check(file, number, &Line::split(line, "//")));
        }
    }
    problems
}

/// Lines before the file's test module, which is last.
fn outside_tests(text: &str) -> impl Iterator<Item = &str> {
    let mut lines = text.lines().peekable();
    std::iter::from_fn(move || {
        let line = lines.next()?;
        let test_module = line == "#[cfg(test)]"
            && lines.peek().is_some_and(|next| next.starts_with("mod tests {"));
        (!test_module).then_some(line)
    })
}

/// Whether this file is compiled for tests and benches only: by its place, or because the module
/// above it declares it so.
fn is_for_tests(tree: &Tree, path: &str) -> bool {
    let by_place = ["tests/", "benches/"]
        .iter()
        .any(|folder| path.starts_with(folder) || path.contains(&format!("/{folder}")));
    by_place || is_declared_for_tests(tree, path)
}

fn is_declared_for_tests(tree: &Tree, path: &str) -> bool {
    let Some((folder, name)) = path.rsplit_once('/') else { return false };
    let name = name.trim_end_matches(".rs");
    let parents = [
        format!("{folder}.rs"),
        format!("{folder}/mod.rs"),
        format!("{folder}/lib.rs"),
        format!("{folder}/main.rs"),
    ];
    let mut parents = parents.iter().filter_map(|parent| tree.file(parent));
    parents.any(|parent| {
        let mut declarations = parent.text.split("#[cfg(test)]\n").skip(1);
        declarations.any(|rest| {
            let line = rest.lines().next().unwrap_or("");
            line.split(' ').next_back() == Some(&format!("{name};"))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(rule: fn(&Tree) -> Vec<Problem>, path: &str, text: &str) -> usize {
        rule(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn a_file_opens_with_its_header() {
        assert_eq!(count(module_header, "src/a.rs", "//! Length of one queue.\n"), 0);
        assert_eq!(count(module_header, "f/a.rs", "#![no_main]\n//! Bytes into the reader.\n"), 0);
        assert_eq!(count(module_header, "src/a.rs", "use std::fmt;\n//! Late.\n"), 1);
        assert_eq!(count(module_header, "src/a.rs", "//!\n"), 1);
        assert_eq!(count(module_header, "src/a.rs", ""), 1);
    }

    #[test]
    fn an_ignored_test_is_refused() {
        assert_eq!(count(no_ignored_test, "a.rs", "#[test]\n#[ignore]\nfn a() {}"), 1);
        assert_eq!(count(no_ignored_test, "a.rs", "#[ignore = \"slow\"]"), 1);
        assert_eq!(count(no_ignored_test, "a.rs", "#[test]\nfn root_a() {}"), 0);
    }

    #[test]
    fn unwrap_outside_tests_needs_a_reason() {
        assert_eq!(count(unwrap_has_reason, "a.rs", "let a = b.unwrap();"), 1);
        assert_eq!(count(unwrap_has_reason, "a.rs", "// Checked above.\nlet a = b.unwrap();"), 0);
        assert_eq!(count(unwrap_has_reason, "a.rs", "let a = b.unwrap(); // Never empty."), 0);
        let in_test = "#[cfg(test)]\nmod tests {\n    let a = b.unwrap();\n}";
        assert_eq!(count(unwrap_has_reason, "a.rs", in_test), 0);
        assert_eq!(count(unwrap_has_reason, "tests/a.rs", "let a = b.unwrap();"), 0);
    }

    #[test]
    fn a_module_declared_for_tests_may_unwrap_wherever_it_stands() {
        let of = |declaration: &str, path: &str| {
            let files = [("src/lib.rs", declaration), (path, "let a = b.unwrap();")];
            unwrap_has_reason(&Tree::of(&files)).len()
        };
        assert_eq!(of("#[cfg(test)]\nmod fixture;\n", "src/fixture.rs"), 0);
        assert_eq!(of("#[cfg(test)]\npub(crate) mod fixture;\n", "src/fixture.rs"), 0);
        assert_eq!(of("mod fixture;\n#[cfg(test)]\nmod other;", "src/fixture.rs"), 1);
    }

    #[test]
    fn unsafe_outside_probe_and_channel_is_refused() {
        let code = "let a = unsafe { *pointer };";
        assert_eq!(count(unsafe_only_where_allowed, "crates/trace/src/a.rs", code), 1);
        assert_eq!(count(unsafe_only_where_allowed, "crates/probe/src/a.rs", code), 0);
        let comment = "// Without unsafe code.";
        assert_eq!(count(unsafe_only_where_allowed, "crates/trace/src/a.rs", comment), 0);
        let allow = "#![allow(unsafe_code)]";
        assert_eq!(count(unsafe_only_where_allowed, "crates/trace/src/a.rs", allow), 1);
    }

    #[test]
    fn a_long_file_is_refused_and_its_tests_do_not_count() {
        let long = "fn a() {}\n".repeat(LINES_MAX + 1);
        assert_eq!(count(length, "src/a.rs", &long), 1);
        assert_eq!(count(length, "src/tests/a.rs", &long), 0);
        let tested = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
        assert_eq!(count(length, "src/a.rs", &tested), 0);
        assert_eq!(count(length, "src/a.rs", &"fn a() {}\n".repeat(LINES_MAX)), 0);
    }
}
