//! Capture files of an experiment's cases: the frames as a third host on the cable has them.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use sockscope_convert::pcapng::{Frame, write_frames};
use sockscope_experiment::{Case, Error, Experiment, Result};
use sockscope_sim::Capture;

use crate::model;

/// A capture file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The file.
    pub path: PathBuf,
    /// Frames in it.
    pub frames: usize,
    /// Frames that the capturing host missed.
    pub missed: u64,
}

/// Writes a capture file of the first repetition of each case that has a capturing host into `folder`.
///
/// # Errors
///
/// When a run fails, or a file cannot be written.
pub fn write_captures(experiment: &Experiment, folder: &Path) -> Result<Vec<Written>> {
    let cases = experiment.cases()?.into_iter();
    let has_capture = |case: &Case| case.parameters.capture_clock_us.is_some();
    cases
        .filter(has_capture)
        .filter_map(|case| write(experiment, &case, folder).transpose())
        .collect()
}

fn write(experiment: &Experiment, case: &Case, folder: &Path) -> Result<Option<Written>> {
    let captured = model::capture(experiment, case);
    let captured = captured.map_err(|problem| experiment.failed(case, problem))?;
    let Some(captured) = captured else { return Ok(None) };
    let path = folder.join(experiment.bundle_name(case)).with_extension("pcapng");
    let refuse = |error: std::io::Error| Error::Write {
        what: format!("capture {}", path.display()),
        problem: error.to_string(),
    };
    std::fs::create_dir_all(folder).map_err(refuse)?;
    let Capture { frames, missed, .. } = &captured;
    let of_file = frames.iter().map(|frame| Frame {
        at_ns: frame.at_ns,
        headers: &frame.headers,
        len: frame.len,
    });
    let program = concat!("sockscope ", env!("CARGO_PKG_VERSION"));
    let comment = format!("{}, as a third host on the cable captured it", experiment.id);
    let file = BufWriter::new(File::create(&path).map_err(refuse)?);
    write_frames(file, (program, &comment), of_file, *missed).map_err(refuse)?;
    Ok(Some(Written { frames: frames.len(), missed: *missed, path }))
}
