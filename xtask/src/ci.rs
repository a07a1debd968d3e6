//! `cargo xtask ci`: every check, cheapest first, the same on a desk and in CI.
//!
//! One profile is used throughout: clippy and docs share one set of dependency
//! metadata, all tests share one build, and the fuzz targets most of its dependencies.
//! The first step that fails ends the run.

mod commits;
mod fuzz;
mod live;
mod skipped;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use live::Rights;
use skipped::Skipped;

use crate::tree::Tree;
use crate::{licences, tidy};

/// A step that is one command.
struct Step {
    name: &'static str,
    /// The program and its arguments, separated by single spaces.
    command: &'static str,
    /// A variable set for this step alone.
    variable: Option<(&'static str, &'static str)>,
}

/// Steps that need no rights, after those that need no build.
const STEPS: &[Step] = &[
    step("clippy", "cargo clippy --quiet --workspace --all-targets -- -D warnings"),
    step("workloads", "python3 -B -m unittest discover --start-directory tests/workloads"),
    step("tests", "cargo test --workspace -- --skip root_"),
    Step {
        name: "docs",
        command: "cargo doc --quiet --workspace --no-deps",
        variable: Some(("RUSTDOCFLAGS", "-D warnings")),
    },
];
const FORMAT: Step = step("format", "cargo fmt --all -- --check");

/// The fuzz targets are a workspace of their own; their smoke run follows these.
const FUZZ_STEPS: &[Step] = &[
    step("fuzz format", "cargo fmt --manifest-path fuzz/Cargo.toml -- --check"),
    step("fuzz targets", "cargo build --quiet --manifest-path fuzz/Cargo.toml"),
];

/// Runs all steps in the checkout at `root`, the live tests last.
///
/// Ends with the number of skipped tests and their reasons. Fails with one line that names the step.
pub fn run(root: &Path) -> Result<(), String> {
    let started = Instant::now();
    let mut skipped = Skipped::default();
    run_step(root, &FORMAT, &mut skipped)?;
    inside("tidy", || tidy_step(root))?;
    inside("commit subjects", || commits::check(root))?;
    inside("licences", || licence_step(root))?;
    for step in STEPS {
        run_step(root, step, &mut skipped)?;
    }
    if root.join("fuzz/Cargo.toml").exists() {
        for step in FUZZ_STEPS {
            run_step(root, step, &mut skipped)?;
        }
        inside("fuzz smoke run", || fuzz::smoke(root, &target_folder(root)))?;
    }
    let live = live_step(root, &mut skipped)?;
    let seconds = started.elapsed().as_secs();
    println!("\nci: all checks and tests passed in {seconds} s\n{live}\n{skipped}");
    Ok(())
}

/// Runs the live tests where they can run, and returns the line about them that stands at the end.
fn live_step(root: &Path, skipped: &mut Skipped) -> Result<String, String> {
    match live::rights() {
        Rights::Missing(reason) if live::required() => {
            Err(format!("live tests failed: {reason}, and SOCKSCOPE_LIVE=1 demands them"))
        }
        Rights::Missing(reason) => {
            skipped.add(&reason, live::count(root)?);
            Ok(live::notice(&reason))
        }
        rights @ (Rights::Root | Rights::Sudo) => {
            inside("live tests", || live::run(root, &rights, skipped))?;
            Ok("ci: the live tests (root_) ran too".to_owned())
        }
    }
}

fn run_step(root: &Path, step: &Step, skipped: &mut Skipped) -> Result<(), String> {
    inside(step.name, || {
        let mut words = step.command.split(' ');
        let program = words.next().unwrap_or_default();
        let mut command = Command::new(program);
        command.args(words).envs(step.variable).current_dir(root);
        command.env("CARGO_TARGET_DIR", target_folder(root));
        let status = skipped
            .watch(&mut command)
            .map_err(|error| format!("cannot start {program}: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("run `{}` alone", step.command)) }
    })
}

/// One target folder for every task and step, the fuzz workspace included.
pub fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Runs one step between a line that announces it and one that says how long it took.
fn inside(name: &str, step: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    println!("ci: {name}");
    let started = Instant::now();
    step().map_err(|error| format!("{name} failed: {error}"))?;
    println!("ci: {name} passed in {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

fn tidy_step(root: &Path) -> Result<(), String> {
    let problems = tidy::check(&Tree::read(root)?);
    for (rule, problem) in &problems {
        println!("{problem} [{rule}]");
    }
    if problems.is_empty() { Ok(()) } else { Err(format!("{} problems", problems.len())) }
}

fn licence_step(root: &Path) -> Result<(), String> {
    let refused = licences::check(root)?;
    if refused.is_empty() { Ok(()) } else { Err(refused.join("; ")) }
}

const fn step(name: &'static str, command: &'static str) -> Step {
    Step { name, command, variable: None }
}
