//! Rules on the text of programs in any language, and the split of a line that they rest on.

use super::problem::Problem;
use crate::tree::{File, Tree};

/// Words without meaning: a thing is named after its work.
const EMPTY_WORDS: [&str; 6] = ["util", "utils", "helper", "helpers", "manager", "managers"];

/// Words that precede the name of a new item, in Rust, C and Python.
const DEFINING: [&str; 9] =
    ["fn", "mod", "struct", "enum", "trait", "type", "union", "def", "class"];

/// A line of a program, its string literals emptied.
pub struct Line<'a> {
    /// The part for the compiler, without the contents of string and character literals.
    pub code: String,
    /// From the comment's mark on; empty without a comment.
    pub comment: &'a str,
}

impl<'a> Line<'a> {
    /// Splits one line; `mark` starts a comment (`//` or `#`).
    ///
    /// Lines are taken one by one: a literal that continues over a line's end is not followed.
    pub fn split(line: &'a str, mark: &str) -> Self {
        let mut code = String::new();
        let mut quoted = false;
        let mut chars = line.char_indices();
        while let Some((at, char)) = chars.next() {
            match char {
                '"' => {
                    quoted = !quoted;
                    code.push('"');
                }
                '\\' if quoted => drop(chars.next()),
                _ if quoted => {}
                _ if line[at..].starts_with("'\"'") => drop(chars.nth(1)),
                _ if line[at..].starts_with(mark) => return Self { code, comment: &line[at..] },
                _ => code.push(char),
            }
        }
        Self { code, comment: "" }
    }
}

/// The comment mark of a file's language; `None` when it is no program.
pub fn comment_mark(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((_, "rs" | "c" | "h")) => Some("//"),
        Some((_, "py" | "sh" | "toml")) => Some("#"),
        None if path.starts_with("scripts/") || name == "Makefile" || path == ".ci/run" => {
            Some("#")
        }
        _ => None,
    }
}

/// Each numbered line of each program in the tree, split.
fn lines(tree: &Tree) -> impl Iterator<Item = (&File, usize, Line<'_>)> {
    let programs = tree.files.iter().filter_map(|file| Some((file, comment_mark(&file.path)?)));
    programs.flat_map(|(file, mark)| {
        let numbered = file.text.lines().zip(1..);
        numbered.map(move |(line, number)| (file, number, Line::split(line, mark)))
    })
}

/// A note of work to do carries the number of its issue, and none is left as a panic.
pub fn todo_has_issue(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (file, number, line) in lines(tree) {
        let Line { code, comment } = line;
        let notes = ["TODO", "FIXME", "XXX"];
        if notes.iter().any(|note| comment.split(note).skip(1).any(|rest| !has_issue(rest))) {
            let text = "a TODO names its issue, as in `TODO(#12)`";
            problems.push(Problem::at(&file.path, number, text));
        }
        if code.contains("todo!") || code.contains("unimplemented!") {
            let text = "unfinished code must not land";
            problems.push(Problem::at(&file.path, number, text));
        }
    }
    problems
}

fn has_issue(after_note: &str) -> bool {
    let digits = after_note.strip_prefix("(#").and_then(|rest| rest.split_once(')'));
    digits.is_some_and(|(digits, _)| digits.parse::<u32>().is_ok())
}

/// No `get_` functions, but for those that a trait names; nothing is named after being useful (`utils`, `helper`, `manager`).
pub fn names(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.files.iter().filter(|file| comment_mark(&file.path).is_some()) {
        if file.path.split(['/', '.']).any(is_empty_name) {
            problems.push(Problem::file(&file.path, "this file's name does not say what is in it"));
        }
    }
    let mut is_of_trait = false;
    for (file, number, line) in lines(tree) {
        if !line.code.starts_with(char::is_whitespace) && !line.code.is_empty() {
            is_of_trait = line.code.starts_with("impl") && line.code.contains(" for ");
        }
        for name in defined(&line.code) {
            if is_empty_name(name) {
                let text = format!("`{name}` does not say what it is for");
                problems.push(Problem::at(&file.path, number, text));
            }
            if name.starts_with("get_") && !is_of_trait {
                let text = format!("`{name}`: name the value, without `get_`");
                problems.push(Problem::at(&file.path, number, text));
            }
        }
    }
    problems
}

/// Names that this line gives to functions, modules and types.
fn defined(code: &str) -> impl Iterator<Item = &str> {
    let mut words = code.split(|char: char| !char.is_alphanumeric() && char != '_');
    let mut before = words.next().unwrap_or("");
    words.filter(move |word| {
        let is_defined = DEFINING.contains(&before);
        before = word;
        is_defined
    })
}

/// Whether a word of this `snake_case` or `CamelCase` name is one of [`EMPTY_WORDS`].
fn is_empty_name(name: &str) -> bool {
    let mut snake = String::new();
    for char in name.chars() {
        if char.is_uppercase() {
            snake.push('_');
        }
        snake.extend(char.to_lowercase());
    }
    snake.split(['_', '-']).any(|word| EMPTY_WORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(rule: fn(&Tree) -> Vec<Problem>, path: &str, text: &str) -> usize {
        rule(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn a_line_splits_at_a_comment_that_no_string_holds() {
        let line = Line::split(r#"let a = "x // \" y"; // why"#, "//");
        assert_eq!((line.code.as_str(), line.comment), ("let a = \"\"; ", "// why"));
        let line = Line::split("if char == '\"' { a } // b", "//");
        assert_eq!((line.code.as_str(), line.comment), ("if char ==  { a } ", "// b"));
    }

    #[test]
    fn a_todo_without_an_issue_is_refused() {
        assert_eq!(count(todo_has_issue, "a.rs", "// TODO: later"), 1);
        assert_eq!(count(todo_has_issue, "a.py", "x = 1  # FIXME(soon)"), 1);
        assert_eq!(count(todo_has_issue, "a.rs", "fn a() { todo!() }"), 1);
        assert_eq!(count(todo_has_issue, "a.rs", "// TODO(#12): later"), 0);
        assert_eq!(count(todo_has_issue, "a.rs", "let a = \"// TODO\";"), 0);
    }

    #[test]
    fn a_getter_is_named_after_its_value() {
        assert_eq!(count(names, "a.rs", "pub fn get_length(&self) -> u64 {"), 1);
        assert_eq!(count(names, "a.py", "def get_length():"), 1);
        assert_eq!(count(names, "a.rs", "pub fn length(&self) -> u64 { self.map.get_mut() }"), 0);
        let of_trait = "impl Pages for File {\n    fn get_page(&self) {}\n}\n";
        assert_eq!(count(names, "a.rs", of_trait), 0, "the trait names it");
        let own = format!("{of_trait}\nimpl File {{\n    fn get_page(&self) {{}}\n}}\n");
        assert_eq!(count(names, "a.rs", &own), 1);
    }

    #[test]
    fn a_name_that_says_nothing_is_refused() {
        assert_eq!(count(names, "a.rs", "mod test_utils;"), 1);
        assert_eq!(count(names, "a.rs", "pub struct RingManager;"), 1);
        assert_eq!(count(names, "src/helpers.rs", ""), 1);
        assert_eq!(count(names, "src/ring.rs", "pub struct Ring; // a helper of the reader"), 0);
        assert_eq!(count(names, "README.md", "fn helper"), 0);
    }
}
