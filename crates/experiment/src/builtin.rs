//! The files of `experiments/`, built into the program so that it needs none next to it.

use super::Experiment;
use crate::error::{Error, Result};

/// The path and the text of each `experiments/NAME.toml`.
macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$((
            concat!("experiments/", $name, ".toml"),
            include_str!(concat!("../../../experiments/", $name, ".toml")),
        )),*]
    };
}

const FILES: &[(&str, &str)] = files![
    "bb-1", "bb-2", "bb-3", "bb-4", "gw-1", "lh-1", "lh-2", "lh-3", "lh-4", "lh-5", "lh-6", "lh-7",
    "lh-8", "pc-1", "pc-1b", "pc-2", "pc-3", "pc-4", "pc-5", "pc-6", "pc-6b", "pc-7a", "pc-7b",
    "pc-8", "pc-8b", "pc-8c", "si-1a", "si-1b", "si-1c", "si-2a", "si-2b", "si-3a", "si-3b",
    "si-4a", "si-4b", "si-4c", "si-5a", "si-5b", "si-5c", "si-6a"
];

/// All experiments of the project, by id.
///
/// # Errors
///
/// When a file has no sense; a test keeps the built-in ones free of that.
pub fn builtin() -> Result<Vec<Experiment>> {
    FILES.iter().map(|(file, text)| parse(file, text)).collect()
}

/// The experiment with this id.
///
/// # Errors
///
/// When it does not exist.
pub fn builtin_by_id(id: &str) -> Result<Experiment> {
    let path = format!("experiments/{id}.toml");
    match FILES.iter().find(|(file, _)| *file == path) {
        Some((file, text)) => parse(file, text),
        None => Err(Error::NoSuchExperiment { wanted: id.to_owned() }),
    }
}

/// A built-in one, which is run by its id.
fn parse(file: &str, text: &str) -> Result<Experiment> {
    Ok(Experiment { own_file: None, ..Experiment::parse(file, text)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::Claims;
    use std::path::Path;

    #[test]
    fn every_file_of_the_folder_is_builtin_and_makes_sense() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let files = std::fs::read_dir(root).unwrap();
        let mut names: Vec<_> = files
            .map(|file| format!("experiments/{}", file.unwrap().file_name().display()))
            .filter(|name| name.ends_with(".toml"))
            .collect();
        names.sort();
        assert_eq!(FILES.iter().map(|(file, _)| *file).collect::<Vec<_>>(), names);
        for (experiment, file) in builtin().unwrap().iter().zip(names) {
            assert_eq!(experiment.file(), file);
            assert!(!experiment.cases().unwrap().is_empty());
        }
    }

    #[test]
    fn experiments_feed_claims_that_exist() {
        let claims = Claims::builtin().unwrap();
        for experiment in builtin().unwrap() {
            for id in &experiment.feeds {
                let claim = claims.claim(id).unwrap_or_else(|| panic!("{}: {id}", experiment.id));
                assert_eq!(claim.paper(), experiment.paper, "{}", experiment.id);
            }
        }
    }
}
