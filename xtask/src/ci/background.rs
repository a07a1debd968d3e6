//! The steps in the background, at the lowest priority: all that needs no rights.
//!
//! They run during the live tests, which write to the terminal. So their own output is kept and printed as one block
//! when the live tests have ended. A failure is printed at once.

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use super::fuzz;
use super::programs::{self, Program};
use super::skipped::Skipped;
use super::step::{LOWEST_PRIORITY, Printed, Step, on_each_cpu, step, target_folder};

/// Steps that run with the tests, and begin before them: they use one CPU, and wait.
const STEPS: &[Step] = &[
    Step {
        name: "doc tests",
        command: "cargo test --quiet --workspace --doc",
        variable: Some(programs::LINT),
    },
    step("workloads", "python3 -B -m unittest discover --start-directory tests/workloads"),
    Step {
        name: "python package",
        command: "scripts/python-package",
        variable: Some(programs::LINT),
    },
];

/// Runs `live` and meanwhile all steps of the background. Fails where one of both fails; both end first.
///
/// `live` gets the test programs when they are built. It gets none where they cannot be built.
pub fn run_during(
    root: &Path,
    skipped: &mut Skipped,
    live: impl FnOnce(Receiver<Vec<Program>>) -> Result<(), String>,
) -> Result<(), String> {
    let steps = |say: &mut (dyn FnMut(&str) + Send), built: &mut dyn FnMut(&[Program])| {
        Background::new(root, say, built).run(skipped)
    };
    during(steps, live)
}

fn during(
    steps: impl FnOnce(&mut (dyn FnMut(&str) + Send), &mut dyn FnMut(&[Program])) -> Result<(), String>
    + Send,
    live: impl FnOnce(Receiver<Vec<Program>>) -> Result<(), String>,
) -> Result<(), String> {
    let (sender, programs) = channel();
    thread::scope(|scope| {
        let steps = scope.spawn(move || {
            let mut said = Vec::new();
            let mut built = |programs: &[Program]| drop(sender.send(programs.to_vec()));
            let result = steps(&mut |lines| said.push(lines.to_owned()), &mut built);
            if let Err(error) = &result {
                println!("\nci: {error}\nci: the run fails when the live tests have ended");
            }
            (said, result)
        });
        let live = live(programs);
        let panicked = |_| (Vec::new(), Err("a thread panicked".to_owned()));
        let (said, steps) = steps.join().unwrap_or_else(panicked);
        println!("ci: during the live tests:\n{}", said.join("\n"));
        live.and(steps)
    })
}

/// The work of one CPU at a time.
enum Task<'a> {
    Step(&'static Step),
    Tests(&'a Program),
}

impl Task<'_> {
    fn name(&self) -> String {
        match self {
            Self::Step(step) => step.name.to_owned(),
            Self::Tests(program) => format!("tests of {}", program.name),
        }
    }

    fn run(&self, root: &Path) -> Result<Printed, String> {
        match self {
            Self::Step(step) => step.run(root),
            Self::Tests(program) => {
                Printed::by(program.command(&LOWEST_PRIORITY).args(["--skip", "root_"]))
            }
        }
    }
}

/// The steps of the background, in one checkout.
pub struct Background<'a, Say, Built> {
    root: &'a Path,
    /// Gets the output of each step, and a line with its time.
    say: Say,
    /// Gets the test programs.
    built: Built,
}

impl<'a, Say: FnMut(&str), Built: FnMut(&[Program])> Background<'a, Say, Built> {
    /// None has run.
    pub fn new(root: &'a Path, say: Say, built: Built) -> Self {
        Self { root, say, built }
    }

    /// Runs them one after the other. Fails with the name of the first step that fails, and with its output.
    pub fn run(mut self, skipped: &mut Skipped) -> Result<(), String> {
        let mut programs = Vec::new();
        self.timed("all programs, clippy and docs", || {
            programs = programs::build(self.root, &LOWEST_PRIORITY, programs::ALL)?;
            Ok(Printed::default())
        })?;
        (self.built)(&programs);
        let root = self.root;
        let steps = STEPS.iter().map(Task::Step);
        let tasks = steps.chain(programs.iter().map(Task::Tests));
        let timed = |task: Task<'_>| {
            let started = Instant::now();
            let printed = task.run(root);
            (task.name(), started.elapsed(), printed)
        };
        // Many wait, or use one CPU.
        for (name, time, printed) in on_each_cpu(tasks, timed)? {
            let Printed { errors, output } =
                printed.map_err(|error| format!("{name} failed: {error}"))?;
            skipped.count(&errors);
            let seconds = time.as_secs_f64();
            (self.say)(&format!("{errors}{output}ci: {name} passed in {seconds:.1} s"));
        }
        let smoke = || fuzz::smoke(root, &target_folder(root)).map(|()| Printed::default());
        self.timed("fuzz smoke run", smoke)
    }

    fn timed(
        &mut self,
        name: &str,
        step: impl FnOnce() -> Result<Printed, String>,
    ) -> Result<(), String> {
        let started = Instant::now();
        let Printed { errors, output } =
            step().map_err(|error| format!("{name} failed: {error}"))?;
        let seconds = started.elapsed().as_secs_f64();
        (self.say)(&format!("{errors}{output}ci: {name} passed in {seconds:.1} s"));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_step_printed_is_said_with_its_time() {
        let mut said = String::new();
        let printed = Printed { errors: "a\n".to_owned(), output: "b\n".to_owned() };
        let mut background =
            Background::new(Path::new("/"), |lines: &str| said.push_str(lines), |_: &[Program]| ());
        background.timed("it", || Ok(printed)).unwrap();
        let error = background.timed("it", || Err("c".to_owned()));
        assert_eq!(error, Err("it failed: c".to_owned()));
        assert!(said.starts_with("a\nb\nci: it passed in "), "{said}");
    }

    #[test]
    fn live_tests_get_the_programs_while_the_steps_run() {
        let (ended, live_ended) = channel();
        let steps = move |_: &mut (dyn FnMut(&str) + Send), built: &mut dyn FnMut(&[Program])| {
            built(&[]);
            live_ended.recv().map_err(|_| "the live tests did not run".to_owned())
        };
        let live = |programs: Receiver<Vec<Program>>| {
            assert_eq!(programs.recv(), Ok(Vec::new()));
            ended.send(()).map_err(|_| "the steps have ended".to_owned())
        };
        assert_eq!(during(steps, live), Ok(()));
    }

    #[test]
    fn live_tests_end_where_nothing_was_built() {
        let failed = Err("it".to_owned());
        let live = |programs: Receiver<Vec<Program>>| {
            assert!(programs.recv().is_err());
            Ok(())
        };
        assert_eq!(during(|_, _| failed.clone(), live), failed);
    }

    #[test]
    fn a_failure_on_either_side_fails_the_run() {
        let fails = || Err("it".to_owned());
        assert_eq!(during(|_, _| fails(), |_| Ok(())), fails());
        assert_eq!(during(|_, _| Ok(()), |_| fails()), fails());
    }
}
