//! Trace bundles of an experiment's cases: what each of the eight points saw, as a live recording
//! would hold it.

use std::path::{Path, PathBuf};

use sockscope_sim::BundleSink;
use sockscope_trace::{Meta, Source};

use crate::error::{Error, Result};
use crate::experiment::{Case, Experiment, Keep, word};
use crate::model;

/// Writes the bundle of the first repetition of each case into `folder`, if the experiment records
/// traces at all; gives their paths with their cases, in order.
///
/// # Errors
///
/// When a run fails, or a bundle cannot be written.
pub fn write_bundles(experiment: &Experiment, folder: &Path) -> Result<Vec<(Case, PathBuf)>> {
    if !experiment.keeps(Keep::Trace) {
        return Ok(Vec::new());
    }
    let cases = experiment.cases()?.into_iter();
    cases
        .map(|case| {
            let path = write_bundle(experiment, &case, folder)?;
            Ok((case, path))
        })
        .collect()
}

fn write_bundle(experiment: &Experiment, case: &Case, folder: &Path) -> Result<PathBuf> {
    let path = folder.join(bundle_name(experiment, case));
    let refuse = |error: sockscope_trace::Error| Error::Write {
        what: format!("trace bundle {}", path.display()),
        problem: error.to_string(),
    };
    let meta = meta(experiment, case);
    let sink = BundleSink::create(&path, &meta).map_err(refuse)?;
    let (connections, sink) = model::record(experiment, case, sink)?;
    sink.finish(&connections, meta).map_err(refuse)?;
    Ok(path)
}

/// `lh-4-total_bytes-5118.sockscope`; the swept parameters name the case.
fn bundle_name(experiment: &Experiment, case: &Case) -> String {
    let swept = &case.named[case.named.len() - case.swept..];
    let parts = swept.iter().map(|(name, value)| format!("-{name}-{}", word(value)));
    format!("{}{}.sockscope", experiment.id, parts.collect::<String>())
}

/// What the bundle says of itself. Nothing of the machine that ran the model stands in it, so that
/// the same experiment gives the same bytes everywhere.
fn meta(experiment: &Experiment, case: &Case) -> Meta {
    let parameters = &case.parameters;
    Meta {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        source: Source::Model,
        host: parameters.machine.clone(),
        kernel: parameters.personality.clone(),
        command: vec!["lab".to_owned(), "run".to_owned(), experiment.id.clone()],
        pick: case.words(),
        notes: experiment.notes.clone(),
        ..Meta::default()
    }
}
