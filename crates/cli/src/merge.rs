//! `sockscope merge`: what two hosts recorded of the same traffic as one bundle.

use std::fs;
use std::path::Path;

use sockscope_program::failure::Failure;
use sockscope_program::output_dir::OutputDir;
use sockscope_program::progress::Progress;
use sockscope_record::counted;
use sockscope_render::number::time;
use sockscope_render::style::Charset;
use sockscope_trace::{Bundle, merge_into};

use crate::args;

/// `sockscope merge`.
pub fn merge(arguments: &args::Merge) -> Result<(), Failure> {
    let args::Merge { first, second, output } = arguments;
    let summary = merge_two(first, second, output)?;
    let dir = output.display();
    stderr!("sockscope: {summary}, in {dir}; see it: sockscope report {dir}");
    Ok(())
}

/// Writes the bundles `first` and `second` as one to `output`; returns a summary.
pub fn merge_two(first: &Path, second: &Path, output: &Path) -> Result<String, Failure> {
    let output_dir = OutputDir::find(output, &[first, second])?;
    if first.exists() && fs::canonicalize(first).ok() == fs::canonicalize(second).ok() {
        return Err(Failure::new(format!(
            "{}: the same bundle twice: give one of each host",
            first.display()
        )));
    }
    let bundles = [Bundle::open(first)?, Bundle::open(second)?];
    let [first, second] = &bundles;
    let engines = bundles.iter().filter(|bundle| bundle.meta().source.is_engine()).count();
    let by = ["both hosts", "the kernel and the engine", "both engines"][engines];
    let mut lock = None;
    let progress = Progress::begin("merging", 0);
    let done = merge_into(first, second, |meta| {
        let (writer, held) = output_dir.create(meta)?;
        lock = Some(held);
        Ok::<_, Failure>(writer)
    })?;
    drop((lock, progress));
    for (bundle, problems) in bundles.iter().zip(&done.problems) {
        for problem in problems {
            stderr!("sockscope: {}: {problem}", bundle.dir().display());
        }
    }
    let hosts = [first, second].map(|bundle| &bundle.meta().host);
    if engines == 0 && hosts[0] == hosts[1] && !hosts[0].is_empty() {
        stderr!(
            "sockscope: both are of host {}: what each of them saw whole is there twice",
            hosts[0]
        );
    }
    if let Some(band) = &done.band {
        let [early, late] = <[u64; 2]>::from(band.widest_ns()).map(|ns| time(ns, Charset::Ascii));
        let (host, base) = (&band.host, &band.base);
        let adds = match band.with_merged() {
            Some(trace) => format!("; the bounds within the trace of {trace} add to this"),
            None => String::new(),
        };
        stderr!(
            "sockscope: a time of {host} may have been up to {early} earlier or {late} later on the clock of {base}{adds}"
        );
    } else if engines == 0 {
        stderr!(
            "sockscope: how the clocks of the two hosts differ is not known: see the notes of the report"
        );
    }
    let through_nat = match done.translated {
        0 => String::new(),
        count => format!(" ({count} through NAT)"),
    };
    Ok(format!(
        "{} of {}, {} of them seen by {by}{through_nat}",
        counted(done.records, "record"),
        counted(done.connections, "connection"),
        done.matched,
    ))
}
