//! `sockscope replay --on model`: the calls in the executable model.

use std::io::Write;
use std::path::Path;

use sockscope_analysis::Analysis;
use sockscope_lab::pattern_file::PatternFile;
use sockscope_lab::replay::{Conditions, analyze, write_bundle};
use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;
use sockscope_report::{Compared, Comparison, Options, write_compare, write_compare_json};

use super::args::{Replay, ReplayChange, ReplayFormat};
use crate::pattern::{Recorded, read};

/// Without the option.
const SEED: u64 = 1;

/// A run of the calls.
struct Run {
    name: String,
    file: PatternFile,
    conditions: Conditions,
    /// Its settings, as on the command line.
    settings: Vec<String>,
}

/// Makes the calls in the model: unchanged, and with the change where there is one. Without a change the
/// other run of the comparison is the recording.
pub fn replay(arguments: &Replay) -> Result<Outcome, Failure> {
    if arguments.warm.is_some() {
        return Err(Failure::new(
            "replay --warm: a wait does not change the think times of the model: leave it out",
        ));
    }
    if arguments.rounds.is_some() {
        return Err(Failure::new(
            "replay --rounds: runs in the model with one seed are equal: leave it out, or give --seed another number",
        ));
    }
    let seed = arguments.seed.unwrap_or(SEED);
    let Recorded { file, analysis: recorded, .. } =
        read(&arguments.dir, arguments.connection.as_ref())?;
    let all: Vec<String> = arguments.set.iter().map(ToString::to_string).collect();
    let of_model = arguments.set.iter().filter(|change| change.is_of_model());
    let of_model: Vec<String> = of_model.map(ToString::to_string).collect();
    let is_changed = of_model.len() < all.len();
    let unchanged = run("unchanged", &file, of_model, seed)?;
    let changed = is_changed.then(|| run("changed", &file, all, seed)).transpose()?;
    let last = changed.as_ref().unwrap_or(&unchanged);
    for sentence in last.conditions.without_effect(&last.file).map_err(Failure::new)? {
        stderr!("sockscope: {sentence}");
    }
    if let Some(folder) = &arguments.output {
        keep(folder, &file, [Some(&unchanged), changed.as_ref()])?;
    }
    match changed {
        Some(changed) => {
            let analyses = [unchanged.analyze()?, changed.analyze()?];
            show(arguments.format, [(&unchanged.name, &analyses[0]), (&changed.name, &analyses[1])])
        }
        None => {
            let model = unchanged.analyze()?;
            show(arguments.format, [("recorded", &recorded), ("model", &model)])
        }
    }
}

fn run(name: &str, file: &PatternFile, settings: Vec<String>, seed: u64) -> Result<Run, Failure> {
    let (conditions, changes) = Conditions::parse(&settings, seed).map_err(Failure::new)?;
    let mut file = file.clone();
    changes.iter().for_each(|change| change.apply(&mut file.pattern));
    Ok(Run { name: name.to_owned(), file, conditions, settings })
}

impl Run {
    fn analyze(&self) -> Result<Analysis, Failure> {
        let failed = |problem| Failure::new(format!("replay, {}: {problem}", self.name));
        analyze(&self.file, &self.conditions).map_err(failed)
    }

    /// The command line of its bundle, which says nothing of folders.
    fn command(&self) -> Vec<String> {
        let words = ["sockscope", "replay", "DIR", "--on", "model"].map(str::to_owned);
        let sets = self.settings.iter().flat_map(|set| ["--set".to_owned(), set.clone()]);
        let seed = ["--seed".to_owned(), self.conditions.seed().to_string()];
        words.into_iter().chain(sets).chain(seed).collect()
    }
}

/// Writes the pattern of the recording, and a bundle for each run.
fn keep(folder: &Path, file: &PatternFile, runs: [Option<&Run>; 2]) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| Failure::file("cannot write", folder, &error);
    std::fs::create_dir_all(folder).map_err(cannot)?;
    std::fs::write(folder.join("pattern.toml"), file.to_toml()).map_err(cannot)?;
    for run in runs.into_iter().flatten() {
        let path = folder.join(format!("{}.sockscope", run.name));
        write_bundle(&run.file, &run.conditions, run.command(), &path).map_err(Failure::new)?;
        stderr!("sockscope: {}", path.display());
    }
    Ok(())
}

fn show(format: ReplayFormat, runs: [(&str, &Analysis); 2]) -> Result<Outcome, Failure> {
    let rounds = runs.map(|(_, analysis)| [analysis]);
    let names = runs.map(|(name, _)| name);
    let compared = [0, 1].map(|at| Compared { name: names[at], rounds: &rounds[at] });
    let comparison = Comparison::of(&compared);
    let mut out = std::io::stdout().lock();
    match format {
        ReplayFormat::Text => write_compare(&comparison, &Options::default(), &mut out)?,
        ReplayFormat::Json => write_compare_json(&comparison, &mut out)?,
    }
    out.flush().map_err(|error| Failure::output(&error))?;
    Ok(Outcome::Done)
}

impl ReplayChange {
    /// Whether it sets up the model, for the unchanged run too.
    fn is_of_model(&self) -> bool {
        matches!(self, Self::Personality(_) | Self::Machine(_) | Self::Model(_))
    }
}
