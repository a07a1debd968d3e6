//! A step that is one command, and where it builds.

use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs a command so that all others get the CPUs first.
pub const LOWEST_PRIORITY: [&str; 3] = ["nice", "-n", "19"];

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

impl Step {
    /// Runs it at the lowest priority and returns what it printed. Fails with the command and the same.
    pub fn run(&self, root: &Path) -> Result<Printed, String> {
        let [nice, arguments @ ..] = LOWEST_PRIORITY;
        let mut command = Command::new(nice);
        command.args(arguments).args(self.command.split(' ')).envs(self.variable).current_dir(root);
        command.env("CARGO_TARGET_DIR", target_folder(root));
        Printed::by(&mut command).map_err(|error| format!("run `{}` alone\n{error}", self.command))
    }
}

/// What a command printed: first to standard error, then to standard output.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Printed {
    pub errors: String,
    pub output: String,
}

impl Printed {
    /// Runs the command to its end. Fails with what it printed, or with why it could not start.
    pub fn by(command: &mut Command) -> Result<Self, String> {
        if stderr().is_terminal() {
            command.env("CARGO_TERM_COLOR", "always");
        }
        let Output { status, stdout, stderr } = command
            .output()
            .map_err(|error| format!("cannot start {:?}: {error}", command.get_program()))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let printed = Self { errors: text(stderr), output: text(stdout) };
        if status.success() { Ok(printed) } else { Err(printed.errors + &printed.output) }
    }
}

/// One target folder for every task and step, the fuzz workspace included.
pub fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_step(command: &'static str) -> Step {
        Step { name: "a step", command, variable: Some(("WORD", "b")) }
    }

    fn printed(command: &'static str) -> Result<String, String> {
        a_step(command).run(&crate::tree::root()).map(|printed| printed.output)
    }

    #[test]
    fn the_output_of_a_step_is_kept() {
        assert_eq!(printed("printenv WORD"), Ok("b\n".to_owned()));
    }

    #[test]
    fn a_step_that_fails_says_what_it_printed() {
        let error = printed("ls no-such-file").unwrap_err();
        assert!(error.starts_with("run `ls no-such-file` alone\n"), "{error}");
        assert!(error.contains("No such file"), "{error}");
        assert!(printed("no-such-program").is_err());
    }

    #[test]
    fn a_step_runs_at_the_lowest_priority() {
        assert_eq!(printed("nice"), Ok("19\n".to_owned()));
    }
}
