//! The laboratory's figures: experiments run by the program `sockscope-lab`, one at a time, kept for this session.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Deserialize;
use serde_json::{Value, json};
use sockscope_experiment::builtin;
use sockscope_program::failure::Failure;
use sockscope_program::hand_over::{LABORATORY, program};
use sockscope_program::temporary;
use sockscope_view::page::Refused;
use tempfile::TempDir;

/// Bytes of its messages that are shown at most.
const MESSAGE_MAX: usize = 400;
/// Bytes of a text of results that are shown at most.
const TEXT_MAX: usize = 1 << 16;

/// Where an experiment runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// On the model of the stacks of then.
    Model,
    /// On the model and on this kernel, one figure of both.
    Both,
}

/// Which run.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct LabAsked {
    /// Where.
    pub on: On,
}

/// The runs of this session.
pub struct Laboratory {
    folder: TempDir,
    jobs: Mutex<HashMap<(String, On), Job>>,
}

struct Job {
    folder: PathBuf,
    started: Instant,
    state: State,
}

enum State {
    Running(Child),
    Done,
    Failed(String),
}

impl Laboratory {
    pub fn new() -> Result<Self, Failure> {
        Ok(Self { folder: temporary::folder()?, jobs: Mutex::default() })
    }

    /// The experiments, and where each has a run.
    pub fn list(&self) -> Result<Value, Refused> {
        let all = builtin().map_err(|error| Refused::Absent(error.to_string()))?;
        let mut jobs = self.jobs();
        jobs.values_mut().for_each(Job::look);
        let view = all.iter().map(|one| {
            let has = |on| jobs.get(&(one.id.clone(), on)).is_some_and(Job::is_done);
            json!({
                "id": one.id, "title": one.title, "paper": one.paper, "source": one.source,
                "question": one.question, "has_model": has(On::Model), "has_both": has(On::Both),
            })
        });
        Ok(json!({ "experiments": view.collect::<Vec<_>>() }))
    }

    /// Starts a run where the session has no such run, and says how it is.
    pub fn start(&self, id: &str, asked: LabAsked) -> Result<Value, Refused> {
        check(id)?;
        let mut jobs = self.jobs();
        jobs.values_mut().for_each(Job::look);
        let key = (id.to_owned(), asked.on);
        if jobs.get(&key).is_none_or(|job| matches!(job.state, State::Failed(_))) {
            if let Some(((other, _), _)) = jobs.iter().find(|(_, job)| job.is_running()) {
                return Err(Refused::Wrong(format!("{other} still runs: wait for its end")));
            }
            let name = format!("{id}-{:?}", asked.on).to_lowercase();
            let job = Job::start(id, asked.on, self.folder.path().join(name));
            jobs.insert(key.clone(), job);
        }
        Ok(jobs.get(&key).map_or(Value::Null, Job::view))
    }

    /// How a run is.
    pub fn state(&self, id: &str, asked: LabAsked) -> Result<Value, Refused> {
        check(id)?;
        let mut jobs = self.jobs();
        let Some(job) = jobs.get_mut(&(id.to_owned(), asked.on)) else {
            return Ok(json!({ "state": "none", "figures": [] }));
        };
        job.look();
        Ok(job.view())
    }

    /// A figure of a run.
    pub fn figure(&self, id: &str, asked: LabAsked, figure: &str) -> Result<Vec<u8>, Refused> {
        let jobs = self.jobs();
        let job = jobs.get(&(id.to_owned(), asked.on));
        let found = job.and_then(|job| {
            let found = figures(&job.folder).into_iter().find(|path| file_name(path) == figure);
            fs::read(found?).ok()
        });
        found.ok_or_else(|| Refused::Absent(format!("there is no figure {figure} of {id}")))
    }

    /// Ends what runs, and removes all results: threads of the server may keep this until the process ends.
    pub fn end(&self) {
        for job in self.jobs().values_mut() {
            if let State::Running(child) = &mut job.state {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        // What stays, the next start removes.
        let _ = fs::remove_dir_all(self.folder.path());
    }

    fn jobs(&self) -> MutexGuard<'_, HashMap<(String, On), Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Only experiments of the program are run: a name of a file would be one of the user's files.
fn check(id: &str) -> Result<(), Refused> {
    let all = builtin().map_err(|error| Refused::Absent(error.to_string()))?;
    match all.iter().any(|one| one.id == id) {
        true => Ok(()),
        false => Err(Refused::Absent(format!("there is no experiment {id}"))),
    }
}

impl Job {
    fn start(id: &str, on: On, folder: PathBuf) -> Self {
        let state = begin(id, on, &folder).map_or_else(State::Failed, State::Running);
        Self { folder, started: Instant::now(), state }
    }

    fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Notes its end.
    fn look(&mut self) {
        let State::Running(child) = &mut self.state else { return };
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) if status.success() => self.state = State::Done,
            Ok(Some(status)) => {
                let said = last_line(&self.folder);
                let line =
                    if said.is_empty() { format!("{LABORATORY} ended: {status}") } else { said };
                self.state = State::Failed(line);
            }
            Err(error) => {
                self.state = State::Failed(format!("cannot wait for {LABORATORY}: {error}"));
            }
        }
    }

    fn view(&self) -> Value {
        let seconds = self.started.elapsed().as_secs();
        match &self.state {
            State::Running(_) => json!({
                "state": "running", "seconds": seconds, "line": last_line(&self.folder), "figures": [],
            }),
            State::Failed(line) => json!({ "state": "failed", "line": line, "figures": [] }),
            State::Done => {
                let names: Vec<_> =
                    figures(&self.folder).iter().map(|path| file_name(path)).collect();
                json!({ "state": "done", "figures": names, "text": text(&self.folder) })
            }
        }
    }
}

fn begin(id: &str, on: On, folder: &Path) -> Result<Child, String> {
    fs::create_dir_all(folder).map_err(|error| format!("cannot create a folder: {error}"))?;
    let messages = File::create(messages(folder)).map_err(|error| error.to_string())?;
    let mut command = Command::new(program(LABORATORY));
    match on {
        On::Model => command.args(["lab", "run", id]),
        On::Both => command.args(["lab", "compare", id]),
    };
    let results = File::create(results(folder)).map_err(|error| error.to_string())?;
    command.arg("-o").arg(folder).stdin(Stdio::null()).stdout(results).stderr(messages);
    command.spawn().map_err(|error| {
        format!("cannot start {LABORATORY} ({error}): `cargo build --release -p sockscope-lab-cli` builds it")
    })
}

fn messages(folder: &Path) -> PathBuf {
    folder.with_extension("messages")
}

fn results(folder: &Path) -> PathBuf {
    folder.with_extension("text")
}

/// The results as text.
fn text(folder: &Path) -> String {
    let bytes = fs::read(results(folder)).unwrap_or_default();
    String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_MAX)]).into_owned()
}

/// The last line that the program said.
fn last_line(folder: &Path) -> String {
    let text = fs::read(messages(folder)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let line = text.split(['\n', '\r']).rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim().trim_start_matches("sockscope: ").chars().take(MESSAGE_MAX).collect()
}

/// The figures in a folder, by name.
fn figures(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut figures: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "svg")).collect();
    figures.sort();
    figures
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_experiments_of_the_program_are_run() {
        let laboratory = Laboratory::new().unwrap();
        for id in ["../x", "/etc/passwd", "no-such"] {
            let refused = laboratory.start(id, LabAsked { on: On::Model }).unwrap_err();
            assert_eq!(refused, Refused::Absent(format!("there is no experiment {id}")));
        }
    }

    #[test]
    fn a_figure_is_found_by_its_name_alone() {
        let laboratory = Laboratory::new().unwrap();
        let folder = laboratory.folder.path().join("x");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("one.svg"), "<svg/>").unwrap();
        fs::write(laboratory.folder.path().join("other.svg"), "<svg/>").unwrap();
        let job = Job { folder, started: Instant::now(), state: State::Done };
        laboratory.jobs().insert(("x".to_owned(), On::Model), job);
        let figure = |name| laboratory.figure("x", LabAsked { on: On::Model }, name);
        assert_eq!(figure("one.svg").unwrap(), b"<svg/>");
        assert!(figure("../other.svg").is_err() && figure("").is_err());
    }
}
