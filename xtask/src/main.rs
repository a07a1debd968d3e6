//! Development tasks: `cargo xtask ci`, `tidy`, `words`, `licences` and `levels`.
//!
//! Exit status: 0 done, 1 a check found something, 2 the task could not run.

mod ci;
mod levels;
mod licences;
mod tidy;
mod tree;

use std::process::ExitCode;

use tree::Tree;

const USAGE: &str = "\
usage: cargo xtask TASK

  ci        every check and test: format, tidy, licences, clippy, tests, docs, fuzz, live tests
  tidy      the house rules of CONTRIBUTING.md
  words     lowers the numbers of xtask/words.txt to the breaches that are left
  licences  the licences of what we depend on
  levels    the table of crates and levels, as ARCHITECTURE.md shows it
";

fn main() -> ExitCode {
    let root = tree::root();
    let task = std::env::args().nth(1).unwrap_or_default();
    match task.as_str() {
        "ci" => finish(ci::run(&root).map(|()| Vec::new())),
        "tidy" => finish(Tree::read(&root).map(|tree| {
            let problems = tidy::check(&tree);
            problems.iter().map(|(rule, problem)| format!("{problem} [{rule}]")).collect()
        })),
        "words" => finish(Tree::read(&root).and_then(|tree| {
            let list = root.join(tidy::words::LIST);
            std::fs::write(&list, tidy::words::lowered(&tree))
                .map_err(|error| format!("cannot write {}: {error}", list.display()))?;
            Ok(Vec::new())
        })),
        "licences" => finish(licences::check(&root)),
        "levels" => finish(Tree::read(&root).map(|tree| {
            print!("{}", levels::markdown(&tree.crates()));
            Vec::new()
        })),
        _ => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Prints the problems, one line each.
fn finish(found: Result<Vec<String>, String>) -> ExitCode {
    match found {
        Ok(found) if found.is_empty() => ExitCode::SUCCESS,
        Ok(found) => {
            println!("{}", found.join("\n"));
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}
