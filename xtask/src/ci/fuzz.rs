//! The smoke run of the fuzz targets: each one for a bounded number of inputs, grown from the seeds
//! that are kept for it in `fuzz/seeds/`.
//!
//! The targets are built here as the tests are, without instrumentation: a smoke run finds breakage, a long run
//! (CONTRIBUTING.md) finds cases that no test has.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::step::{LOWEST_PRIORITY, on_each_cpu};

/// Inputs a target, besides its seeds.
const RUNS: u32 = 2_000;
/// The limit for one input in seconds, far above the duration of any: an input that takes longer has no end.
const LIMIT_S: u32 = 120;

/// Runs every target of `fuzz/fuzz_targets`, whose programs were built into `target`: on each CPU one.
///
/// Fails with the name of a target that found a fault, and the command that shows it.
pub fn smoke(root: &Path, target: &Path) -> Result<(), String> {
    let names = names(&root.join("fuzz/fuzz_targets"))?;
    on_each_cpu(names.into_iter(), |name| smoke_one(root, target, &name))?.into_iter().collect()
}

fn smoke_one(root: &Path, target: &Path, name: &str) -> Result<(), String> {
    let seeds = root.join("fuzz/seeds").join(name);
    if !seeds.is_dir() {
        return Err(format!("{name} has no seeds: expected files in {}", seeds.display()));
    }
    // libFuzzer keeps new inputs in the first folder: not among the seeds.
    let kept = target.join("fuzz-smoke").join(name);
    std::fs::create_dir_all(&kept)
        .map_err(|error| format!("cannot create {}: {error}", kept.display()))?;
    run(&target.join("debug").join(name), &kept, &seeds)
}

/// Names of the targets, in order.
fn names(folder: &Path) -> Result<Vec<String>, String> {
    let unreadable = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path: PathBuf = entry.map_err(unreadable)?.path();
        names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    names.sort();
    if names.is_empty() { Err(format!("no target in {}", folder.display())) } else { Ok(names) }
}

fn run(program: &Path, kept: &Path, seeds: &Path) -> Result<(), String> {
    let [nice, arguments @ ..] = LOWEST_PRIORITY;
    let mut command = Command::new(nice);
    command
        .args(arguments)
        .arg(program)
        .arg(format!("-runs={RUNS}"))
        .arg(format!("-timeout={LIMIT_S}"))
        .args(["-seed=1", "-max_len=4096"])
        .arg(format!("-artifact_prefix={}/", kept.display()))
        .args([kept, seeds]);
    let output =
        command.output().map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = said.lines().rev().take(12).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    let last = last.join("\n");
    Err(format!(
        "{} found an input that breaks it, in {}\n{last}",
        program.display(),
        kept.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_come_in_order_and_none_is_an_error() {
        let folder = std::env::temp_dir().join(format!("sockscope-xtask-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert!(names(&folder).unwrap_err().starts_with("no target in"));
        for name in ["b.rs", "a.rs"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        assert_eq!(names(&folder).unwrap(), ["a", "b"]);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(names(&folder).unwrap_err().starts_with("cannot read"));
    }
}
