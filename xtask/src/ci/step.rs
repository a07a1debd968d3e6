//! A step that is one command, and where it builds.

use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::thread;

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
    /// Runs it at the lowest priority and returns its output. Fails with the command and its output.
    pub fn run(&self, root: &Path) -> Result<Printed, String> {
        let [nice, arguments @ ..] = LOWEST_PRIORITY;
        let mut command = Command::new(nice);
        command.args(arguments).args(self.command.split(' ')).envs(self.variable).current_dir(root);
        command.env("CARGO_TARGET_DIR", target_folder(root));
        Printed::by(&mut command).map_err(|error| format!("run `{}` alone\n{error}", self.command))
    }
}

/// The output of a command: first its standard error, then its standard output.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Printed {
    pub errors: String,
    pub output: String,
}

impl Printed {
    /// Runs the command to its end. Fails with its output, or with the reason why it could not start.
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

/// Does the work of all items, on each CPU one at a time, and returns the result of each. Fails where the work panicked.
pub fn on_each_cpu<T: Send, R: Send>(
    items: impl Iterator<Item = T> + Send,
    work: impl Fn(T) -> R + Sync,
) -> Result<Vec<R>, String> {
    let items = Mutex::new(items);
    let next = || items.lock().ok().and_then(|mut items| items.next());
    let all = || std::iter::from_fn(next).map(&work).collect::<Vec<R>>();
    thread::scope(|scope| {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..cpus).map(|_| scope.spawn(all)).collect();
        let done: Result<Vec<_>, _> = workers.into_iter().map(|worker| worker.join()).collect();
        let done = done.map_err(|_| "a thread panicked".to_owned())?;
        Ok(done.into_iter().flatten().collect())
    })
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
    fn all_items_are_worked_on() {
        let mut squares = on_each_cpu(0..100_u32, |item| item * item).unwrap();
        squares.sort_unstable();
        assert_eq!(squares, (0..100).map(|item| item * item).collect::<Vec<_>>());
        assert!(on_each_cpu([1].into_iter(), |_| panic!("the work")).map(|_: Vec<()>| ()).is_err());
    }

    #[test]
    fn a_step_runs_at_the_lowest_priority() {
        assert_eq!(printed("nice"), Ok("19\n".to_owned()));
    }
}
