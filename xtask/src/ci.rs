//! `cargo xtask ci`: every check, cheapest first, the same on a desk and in CI.
//!
//! There is one build: tests, benchmarks, fuzz targets, clippy and docs share it.
//!
//! Live tests run one at a time, use about one CPU, and wait for much of their time. So their program is built first.
//! While it runs, the other CPUs build and do everything else in the background.

mod background;
mod commits;
mod fuzz;
mod live;
mod programs;
mod skipped;
mod step;

use std::path::Path;
use std::time::Instant;

use background::Background;
use live::{Rights, Which};
use skipped::Skipped;
use step::{Step, step};

use crate::tree::Tree;
use crate::{licences, tidy};

const FORMAT: Step = step("format", "cargo fmt --all -- --check");
/// Runs all steps in the checkout at `root`.
///
/// Ends with the number of skipped tests and their reasons. Fails with a line that names the steps.
pub fn run(root: &Path) -> Result<(), String> {
    let started = Instant::now();
    inside(FORMAT.name, || FORMAT.run(root).map(|_| ()))?;
    inside("tidy", || tidy_step(root))?;
    inside("commit subjects", || commits::check(root))?;
    inside("licences", || licence_step(root))?;
    let mut skipped = Skipped::default();
    let live = tests(root, &mut skipped)?;
    let seconds = started.elapsed().as_secs();
    println!("\nci: all checks and tests passed in {seconds} s\n{live}\n{skipped}");
    Ok(())
}

/// Runs the live tests where they can run, and all other steps meanwhile. Returns the line about the live tests for
/// the end of the output.
fn tests(root: &Path, skipped: &mut Skipped) -> Result<String, String> {
    let rights = live::rights();
    if let Rights::Missing(reason) = rights {
        if live::required() {
            return Err(format!("live tests failed: {reason}, and SOCKSCOPE_LIVE=1 demands them"));
        }
        Background::new(root, |lines| println!("{lines}"), |_| ()).run(skipped)?;
        let programs = programs::build(root, &[], programs::ALL)?;
        let tests: usize = programs.iter().map(live::count).sum::<Result<_, _>>()?;
        skipped.add(&reason, tests);
        return Ok(live::notice(&reason));
    }
    let mut first = Vec::new();
    inside("the program of the live tests", || {
        first = programs::build(root, &[], programs::LIVE)?;
        Ok(())
    })?;
    let mut meanwhile = Skipped::default();
    let mut unsteady = Vec::new();
    background::run_during(root, &mut meanwhile, |others| {
        let without_lab = inside("live tests", || {
            live::run(&first, Which::WithoutLab, &rights, skipped, &mut unsteady)
        });
        // Where they could not be built, the background reports that.
        let Ok(mut others) = others.recv() else { return without_lab };
        others.retain(|program| !first.contains(program));
        let of_lab = inside("live tests that start other programs", || {
            live::run(&first, Which::OfLab, &rights, skipped, &mut unsteady)
        });
        let of_others = inside("live tests of other crates", || {
            live::run(&others, Which::All, &rights, skipped, &mut unsteady)
        });
        without_lab.and(of_lab).and(of_others)
    })?;
    skipped.add_all(&meanwhile);
    let ran = "ci: the live tests (root_) ran too".to_owned();
    Ok([ran].into_iter().chain(live::unsteady_line(&unsteady)).collect::<Vec<_>>().join("\n"))
}

/// Runs one step between a line that announces it and a line with its duration.
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
