//! A step that is one command, and where it builds.

use std::path::{Path, PathBuf};

/// A step that is one command.
pub struct Step {
    pub name: &'static str,
    /// The program and its arguments, separated by single spaces.
    pub command: &'static str,
    /// A variable set for this step alone.
    pub variable: Option<(&'static str, &'static str)>,
}

/// A step without a variable.
pub const fn step(name: &'static str, command: &'static str) -> Step {
    Step { name, command, variable: None }
}

/// One target folder for every task and step, the fuzz workspace included.
pub fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Runs a command so that all others get the CPUs first.
pub const LOWEST_PRIORITY: [&str; 3] = ["nice", "-n", "19"];
