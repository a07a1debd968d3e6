//! A bundle as a segment of a fleet's spool.

use std::path::Path;

use sockscope_fleet::{Error, Part, Segment, write_segment};
use sockscope_program::failure::Failure;
use sockscope_program::progress::Progress;
use sockscope_program::stderr;
use sockscope_record::counted;
use sockscope_trace::{Bundle, Checker, is_bundle};

/// Writes the bundle as the one segment of its recording into the folder `output`.
pub fn export(dir: &Path, output: &Path) -> Result<(), Failure> {
    if is_bundle(output) {
        let line = "a trace bundle: choose another folder for the spool";
        return Err(Failure::new(format!("{}: {line}", output.display())));
    }
    let written = write(dir, output)?;
    let spool = output.display();
    match written {
        None => stderr!("sockscope: {spool} has this trace already"),
        Some(segment) => stderr!(
            "sockscope: {} of host {} in {} of {spool}; see the fleet: python -m sockscope.fleet {spool}",
            counted(segment.records, "record"),
            segment.host,
            counted(segment.files.len() as u64, "file"),
        ),
    }
    Ok(())
}

/// As [`export()`], and writes nothing to standard error but what is not whole.
pub fn write(dir: &Path, output: &Path) -> Result<Option<Segment>, Failure> {
    let bundle = Bundle::open(dir)?;
    let meta = bundle.meta();
    let progress = Progress::begin("reading records", bundle.record_rows());
    let mut all = Vec::new();
    let mut records = bundle.records()?;
    let mut checker = Checker::new(&bundle);
    while let Some(batch) = records.next_batch()? {
        checker.add(batch);
        all.extend_from_slice(batch);
        progress.add(batch.len() as u64);
    }
    drop(progress);
    for problem in checker.problems(&bundle, &records) {
        stderr!("sockscope: {}: {problem}", dir.display());
    }
    let first_ns = all.iter().map(|record| record.at_ns).min();
    let last_ns = all.iter().map(|record| record.at_ns).max();
    let began = meta.clock.first();
    let from_ns = began.map(|it| it.monotonic_ns).into_iter().chain(first_ns).min();
    let until_ns = meta.ended_ns.into_iter().chain(last_ns).max();
    // No other recording of the host began at that instant.
    let run = format!("{:016x}", began.map_or(0, |it| it.realtime_ns));
    let part = Part {
        meta,
        run: &run,
        sequence: 0,
        is_last: true,
        times_ns: (from_ns.unwrap_or(0), until_ns.unwrap_or(0)),
        connections: bundle.connections(),
    };
    write_segment(output, &part, all).map_err(|error| match error {
        Error::Trace(error) => error.into(),
        other => Failure::new(format!("{}: {other}", dir.display())),
    })
}
