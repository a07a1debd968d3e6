//! `cargo xtask ci`: every check, cheapest first, the same on a desk and in CI.
//!
//! One profile is used throughout: clippy, docs and the fuzz check share one set of dependency
//! metadata, and all tests share one build. The first step that fails ends the run.

mod live;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use live::Rights;

use crate::tree::Tree;
use crate::{licences, tidy};

/// A step that runs cargo: its name and cargo's arguments.
struct Step {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Variables set for this step alone.
    environment: &'static [(&'static str, &'static str)],
}

const FORMAT: Step = step("format", &["fmt", "--all", "--", "--check"]);
const CLIPPY: Step =
    step("clippy", &["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]);
const TESTS: Step = step("tests", &["test", "--workspace", "--", "--skip", "root_"]);
const DOCS: Step = Step {
    name: "docs",
    arguments: &["doc", "--quiet", "--workspace", "--no-deps"],
    environment: &[("RUSTDOCFLAGS", "-D warnings")],
};
const FUZZ: Step = step("fuzz targets", &["check", "--manifest-path", "fuzz/Cargo.toml"]);

/// Runs all steps in the checkout at `root`, the live tests last.
///
/// Fails with one line that names the step.
pub fn run(root: &Path) -> Result<(), String> {
    let started = Instant::now();
    cargo(root, &FORMAT)?;
    inside("tidy", || tidy_step(root))?;
    inside("licences", || licence_step(root))?;
    cargo(root, &CLIPPY)?;
    cargo(root, &TESTS)?;
    cargo(root, &DOCS)?;
    if root.join("fuzz/Cargo.toml").exists() {
        cargo(root, &FUZZ)?;
    }
    let live = live::rights();
    if let Rights::Root | Rights::Sudo = live {
        inside("live tests", || live::run(root, &live))?;
    }
    println!("\nci: all checks and tests passed in {} s", started.elapsed().as_secs());
    match live {
        Rights::Missing(reason) if live::required() => {
            return Err(format!("live tests failed: {reason}, and SOCKSCOPE_LIVE=1 demands them"));
        }
        Rights::Missing(reason) => println!("{}", live::notice(&reason)),
        Rights::Root | Rights::Sudo => println!("ci: the live tests (root_) ran too"),
    }
    Ok(())
}

fn cargo(root: &Path, step: &Step) -> Result<(), String> {
    inside(step.name, || {
        let status = Command::new("cargo")
            .args(step.arguments)
            .envs(step.environment.iter().copied())
            .current_dir(root)
            .status()
            .map_err(|error| format!("cannot start cargo: {error}"))?;
        let again = || format!("run `cargo {}` alone", step.arguments.join(" "));
        if status.success() { Ok(()) } else { Err(again()) }
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

const fn step(name: &'static str, arguments: &'static [&'static str]) -> Step {
    Step { name, arguments, environment: &[] }
}
