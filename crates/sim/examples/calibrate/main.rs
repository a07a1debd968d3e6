//! Fits or derives the costs in `machines/` from the numbers printed in the papers.
//!
//! `cargo run --release -p sockscope-sim --example calibrate -- [MACHINE] [--write]`
//!
//! For the VAX-11/750 only the columns 1, 112, 1024 and 1025 of Tables 1 and 2 are used; runs of
//! the model give the work. The SPARCstations follow from the VAX by one factor. Without `--write`
//! the example only compares, and fails if a file differs from its output.

mod file;
mod fit;
mod report;
mod rows;
mod sparc;
mod tables;
mod vax;

#[path = "../../tests/common/buffers.rs"]
mod buffers;
#[path = "../../tests/common/datagrams.rs"]
mod datagrams;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let write = words.iter().any(|word| word == "--write");
    let wants = |name: &str| {
        let named = words.iter().find(|word| !word.starts_with('-'));
        named.is_none_or(|word| name.starts_with(word.as_str()))
    };
    let mut is_same = true;
    if wants("vax-11-750") {
        is_same &= vax::calibrate(write);
    }
    if wants("sparcstation") {
        is_same &= sparc::calibrate(write);
    }
    if is_same {
        return ExitCode::SUCCESS;
    }
    eprintln!("machines/ differs from the fit: run again with --write");
    ExitCode::FAILURE
}
