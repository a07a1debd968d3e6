//! `sockscope replay --on live`.

use std::fs;
use std::path::{Path, PathBuf};

use sockscope_lab::pattern_change::PatternChange;
use sockscope_lab::pattern_file::PatternFile;
use sockscope_link::Interval;
use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;
use sockscope_program::signals::StopSignals;
use sockscope_program::temporary;
use sockscope_record::Protocol;

use super::args::{Replay, ReplayChange, ReplayFormat};
use super::figures::Figures;
use super::result::{Replayed, Runs};
use super::runner::Runner;
use super::{document, page};
use crate::pattern;

/// The changes, by their place: the calls or the path.
#[derive(Default)]
struct Changes {
    calls: Vec<PatternChange>,
    delay: Option<Interval>,
    /// In words.
    named: Vec<String>,
}

/// Records the calls unchanged and changed, in turns.
pub fn replay(arguments: &Replay) -> Result<Outcome, Failure> {
    let changes = Changes::of(&arguments.set)?;
    if let Some(right) = sockscope_probe::missing_right() {
        return Err(Failure::new(format!(
            "replay --on live records its runs and needs {right}: run it as root, or use --on model"
        )));
    }
    let (file, original) = pattern::read(&arguments.dir, arguments.connection)?;
    changes.check(&file)?;
    let signals = StopSignals::register()?;
    let (folder, _temporary) = match &arguments.output {
        Some(folder) => (folder.clone(), None),
        None => {
            let temporary = temporary::folder()?;
            (temporary.path().to_owned(), Some(temporary))
        }
    };
    fs::create_dir_all(&folder).map_err(|error| Failure::file("cannot create", &folder, &error))?;
    let kept = write_pattern(&folder, "pattern", &file)?;
    let changed = changes.apply(&file);
    let steps = || file.pattern.sides.iter().flat_map(|side| &side.sequences).flatten();
    let mut replayed = Replayed {
        changes: changes.named.join(", "),
        path: match changes.delay {
            None => "over loopback".to_owned(),
            Some(delay) => format!("unchanged over loopback, changed over a wire of {delay}"),
        },
        original: Figures::of(&original),
        unchanged: Runs::default(),
        changed: Runs::default(),
        as_recorded: None,
        after_wait: (steps().filter(|step| step.after_wait).count() as u64, steps().count() as u64),
        file: file.clone(),
    };
    let runner = Runner::new()?;
    let rounds =
        if changes.named.is_empty() { arguments.rounds.div_ceil(2) } else { arguments.rounds };
    let changed_file = match changes.named.is_empty() {
        true => None,
        false => Some(write_pattern(&folder, "changed", &changed)?),
    };
    for round in 0..rounds as usize {
        if signals.stop_requested() {
            return Err(Failure::new(format!("interrupted after run {round}")));
        }
        let of_change = changed_file.as_ref().filter(|_| is_changed(round));
        let kind = if of_change.is_some() { "changed" } else { "unchanged" };
        let dir = folder.join(format!("{}-{kind}.sockscope", round + 1));
        stderr!("sockscope: run {} of {rounds}, {kind}", round + 1);
        match of_change {
            Some(path) => replayed.changed.push(runner.run(path, &dir, changes.delay)?),
            None => replayed.unchanged.push(runner.run(&kept, &dir, None)?),
        }
    }
    if !changes.named.is_empty() && has_warm_times(&changed) {
        let mut slow = changed;
        slow.pattern.sides.iter_mut().for_each(|side| side.warm_think_ns = None);
        let path = write_pattern(&folder, "think-as-recorded", &slow)?;
        stderr!("sockscope: a last run, changed, with every think time as it was recorded");
        let run = runner.run(&path, &folder.join("think-as-recorded.sockscope"), changes.delay)?;
        replayed.as_recorded = Some(Figures::of(&run));
    }
    match arguments.format {
        ReplayFormat::Text => page::write(&replayed)?,
        ReplayFormat::Json => document::write(&replayed)?,
    }
    Ok(Outcome::Done)
}

/// Unchanged, changed, changed, unchanged: a steady change of the machine is the same for both.
fn is_changed(round: usize) -> bool {
    matches!(round % 4, 1 | 2)
}

/// Whether some step thinks for less without a wait before it.
fn has_warm_times(file: &PatternFile) -> bool {
    file.pattern.sides.iter().any(|side| {
        let mut steps = side.sequences.iter().flatten();
        steps.any(|step| step.warm_think_ns(side.warm_think_ns) != step.think_ns)
    })
}

fn write_pattern(folder: &Path, name: &str, file: &PatternFile) -> Result<PathBuf, Failure> {
    let path = folder.join(format!("{name}.toml"));
    fs::write(&path, file.to_toml())
        .map_err(|error| Failure::file("cannot write", &path, &error))?;
    Ok(path)
}

impl Changes {
    fn of(set: &[ReplayChange]) -> Result<Self, Failure> {
        let mut changes = Self::default();
        for change in set {
            changes.named.push(change.to_string());
            match change {
                ReplayChange::Calls(change) => changes.calls.push(*change),
                ReplayChange::Delay(delay) => changes.delay = Some(*delay),
                ReplayChange::Personality(_)
                | ReplayChange::Machine(_)
                | ReplayChange::Rate(_)
                | ReplayChange::Model(_) => {
                    return Err(Failure::new(format!(
                        "replay --set {change} is a change of the model: add --on model"
                    )));
                }
            }
        }
        Ok(changes)
    }

    /// Refuses changes that this connection cannot have.
    fn check(&self, file: &PatternFile) -> Result<(), Failure> {
        let is_of_streams = |change: &&PatternChange| {
            matches!(change, PatternChange::NoDelay | PatternChange::ReadBytes(_))
        };
        let wrong = self.calls.iter().find(is_of_streams);
        match wrong.filter(|_| file.pattern.protocol == Protocol::Udp) {
            Some(change) => Err(Failure::new(format!(
                "replay --set {change}: {} is no stream, and has no such change",
                file.connection
            ))),
            None => Ok(()),
        }
    }

    fn apply(&self, file: &PatternFile) -> PatternFile {
        let mut changed = file.clone();
        self.calls.iter().for_each(|change| change.apply(&mut changed.pattern));
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_the_model_need_the_model() {
        let set = |texts: &[&str]| -> Vec<ReplayChange> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let changes = Changes::of(&set(&["one-write", "delay=10ms", "buffers=4096"])).unwrap();
        assert_eq!(changes.named, ["one-write", "delay=10ms", "buffers=4096"]);
        assert_eq!((changes.calls.len(), changes.delay), (2, Some(Interval(10_000_000))));
        let error = Changes::of(&set(&["personality=4.3bsd"])).err().unwrap().to_string();
        assert_eq!(
            error,
            "replay --set personality=4.3bsd is a change of the model: add --on model"
        );
    }
}
