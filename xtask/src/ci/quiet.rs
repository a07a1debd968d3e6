//! The quiet steps: clippy, docs and the fuzz targets, at the lowest priority.
//!
//! They run during the live tests, which write to the terminal. So their own output is kept and printed as one block
//! when the live tests have ended. A failure is printed at once.

use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Instant;

use super::fuzz;
use super::step::{LOWEST_PRIORITY, Step, step, target_folder};

/// Steps that print nothing unless something is wrong, and open no socket.
const QUIET_STEPS: &[Step] = &[
    step("clippy", "cargo clippy --quiet --workspace --all-targets -- -D warnings"),
    Step {
        name: "docs",
        command: "cargo doc --quiet --workspace --no-deps",
        variable: Some(("RUSTDOCFLAGS", "-D warnings")),
    },
];

/// The fuzz targets are a workspace of their own; their smoke run follows these. They are quiet too.
const FUZZ_STEPS: &[Step] = &[
    step("fuzz format", "cargo fmt --manifest-path fuzz/Cargo.toml -- --check"),
    step("fuzz targets", "cargo build --quiet --manifest-path fuzz/Cargo.toml"),
];

/// Runs `live` and meanwhile all quiet steps. Fails where one of both fails; both end first.
///
/// `live` gets the sender of a signal. It sends the signal, or drops the sender, when the steps may begin.
pub fn run_during(
    root: &Path,
    live: impl FnOnce(Sender<()>) -> Result<(), String>,
) -> Result<(), String> {
    during(|say| run(root, say), live)
}

/// Runs all quiet steps one after the other. `say` gets what each printed and a line with its time.
///
/// Fails with the name of the first step that fails, and with its output.
pub fn run(root: &Path, mut say: impl FnMut(&str)) -> Result<(), String> {
    for step in QUIET_STEPS {
        timed(step.name, &mut say, || captured(root, step))?;
    }
    if root.join("fuzz/Cargo.toml").exists() {
        for step in FUZZ_STEPS {
            timed(step.name, &mut say, || captured(root, step))?;
        }
        let smoke = || fuzz::smoke(root, &target_folder(root)).map(|()| String::new());
        timed("fuzz smoke run", &mut say, smoke)?;
    }
    Ok(())
}

fn during(
    steps: impl FnOnce(&mut dyn FnMut(&str)) -> Result<(), String> + Send,
    live: impl FnOnce(Sender<()>) -> Result<(), String>,
) -> Result<(), String> {
    let (begun, may_begin) = channel();
    thread::scope(|scope| {
        let steps = scope.spawn(move || {
            let mut said = Vec::new();
            let _ = may_begin.recv();
            let result = steps(&mut |lines| said.push(lines.to_owned()));
            if let Err(error) = &result {
                println!("\nci: {error}\nci: the run fails when the live tests have ended");
            }
            (said, result)
        });
        let live = live(begun);
        let panicked = |_| (Vec::new(), Err("a thread panicked".to_owned()));
        let (said, steps) = steps.join().unwrap_or_else(panicked);
        println!("ci: during the live tests:\n{}", said.join("\n"));
        live.and(steps)
    })
}

fn timed(
    name: &str,
    say: &mut impl FnMut(&str),
    step: impl FnOnce() -> Result<String, String>,
) -> Result<(), String> {
    let started = Instant::now();
    let printed = step().map_err(|error| format!("{name} failed: {error}"))?;
    say(&format!("{printed}ci: {name} passed in {:.1} s", started.elapsed().as_secs_f64()));
    Ok(())
}

/// Runs the command of a step, and returns what it printed.
fn captured(root: &Path, step: &Step) -> Result<String, String> {
    let [nice, arguments @ ..] = LOWEST_PRIORITY;
    let mut command = Command::new(nice);
    command.args(arguments).args(step.command.split(' ')).envs(step.variable).current_dir(root);
    command.env("CARGO_TARGET_DIR", target_folder(root));
    if stderr().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let output =
        command.output().map_err(|error| format!("cannot start `{}`: {error}", step.command))?;
    let printed = [output.stderr, output.stdout].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    if output.status.success() {
        Ok(printed)
    } else {
        Err(format!("run `{}` alone\n{printed}", step.command))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn a_step(command: &'static str) -> Step {
        Step { name: "a step", command, variable: Some(("WORD", "b")) }
    }

    #[test]
    fn the_output_of_a_step_is_kept() {
        let root = crate::tree::root();
        assert_eq!(captured(&root, &a_step("printenv WORD")), Ok("b\n".to_owned()));
        let mut said = String::new();
        let mut say = |lines: &str| said.push_str(lines);
        timed("a step", &mut say, || captured(&root, &a_step("printenv WORD"))).unwrap();
        assert!(said.starts_with("b\nci: a step passed in "), "{said}");
    }

    #[test]
    fn a_step_that_fails_says_what_it_printed() {
        let root = crate::tree::root();
        let error = captured(&root, &a_step("ls no-such-file")).unwrap_err();
        assert!(error.starts_with("run `ls no-such-file` alone\n"), "{error}");
        assert!(error.contains("No such file"), "{error}");
        assert!(captured(&root, &a_step("no-such-program")).is_err());
    }

    #[test]
    fn a_step_runs_at_the_lowest_priority() {
        assert_eq!(captured(&crate::tree::root(), &a_step("nice")), Ok("19\n".to_owned()));
    }

    #[test]
    fn steps_begin_when_the_live_tests_run() {
        for sends in [true, false] {
            let order = Mutex::new(Vec::new());
            let note = |what| order.lock().unwrap().push(what);
            let steps = |_: &mut dyn FnMut(&str)| {
                note("steps");
                Ok(())
            };
            let live = |begun: Sender<()>| {
                note("cargo");
                if sends {
                    begun.send(()).unwrap();
                }
                Ok(())
            };
            assert_eq!(during(steps, live), Ok(()));
            assert_eq!(*order.lock().unwrap(), ["cargo", "steps"]);
        }
    }

    #[test]
    fn a_failure_on_either_side_fails_the_run() {
        let fails = || Err("it".to_owned());
        assert_eq!(during(|_| fails(), |_| Ok(())), fails());
        assert_eq!(during(|_| Ok(()), |_| fails()), fails());
    }
}
