//! `cargo xtask ci`: every check, cheapest first, the same on a desk and in CI.
//!
//! One profile is used throughout: clippy and docs share one set of dependency
//! metadata, all tests share one build, and the fuzz targets most of its dependencies.
//! The first step that fails ends the run.
//!
//! Live tests run one at a time and use about one CPU. So clippy, docs and the fuzz targets, which open no socket,
//! run during the live tests on the CPUs that these leave idle.

mod commits;
mod fuzz;
mod live;
mod quiet;
mod skipped;
mod step;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use live::Rights;
use skipped::Skipped;
use step::{Step, step, target_folder};

use crate::tree::Tree;
use crate::{licences, tidy};

/// Steps that need no rights, after those that need no build.
const STEPS: &[Step] = &[
    step("workloads", "python3 -B -m unittest discover --start-directory tests/workloads"),
    step("tests", "cargo test --workspace -- --skip root_"),
];
const FORMAT: Step = step("format", "cargo fmt --all -- --check");

/// Runs all steps in the checkout at `root`, the live tests and the quiet steps last.
///
/// Ends with the number of skipped tests and their reasons. Fails with a line that names the step.
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
    let live = last_steps(root, &mut skipped)?;
    let seconds = started.elapsed().as_secs();
    println!("\nci: all checks and tests passed in {seconds} s\n{live}\n{skipped}");
    Ok(())
}

/// Runs the live tests where they can run, and the quiet steps meanwhile. Returns the line about the live tests that
/// stands at the end.
fn last_steps(root: &Path, skipped: &mut Skipped) -> Result<String, String> {
    match live::rights() {
        Rights::Missing(reason) if live::required() => {
            Err(format!("live tests failed: {reason}, and SOCKSCOPE_LIVE=1 demands them"))
        }
        Rights::Missing(reason) => {
            quiet::run(root, |lines| println!("{lines}"))?;
            skipped.add(&reason, live::count(root)?);
            Ok(live::notice(&reason))
        }
        rights @ (Rights::Root | Rights::Sudo) => {
            quiet::run_during(root, |begun| {
                inside("live tests", || live::run(root, &rights, skipped, begun))
            })?;
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
