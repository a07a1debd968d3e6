//! Writes the sample bundle of the present format version to the folder given:
//!
//! `cargo run -p sockscope-trace --example sample_bundle -- tests/bundles/v2/calls.sockscope`
//!
//! A released format's sample is made once and kept; see `docs/reference/bundle.md`.

#[path = "../tests/common/sample.rs"]
mod sample;

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(dir) = std::env::args_os().nth(1) else {
        eprintln!("usage: sample_bundle FOLDER");
        return ExitCode::from(2);
    };
    match sample::write(dir.as_ref()) {
        Ok(()) => {
            let (records, connections) = (sample::records().len(), sample::connections().len());
            println!(
                "{records} records of {connections} connections, {} host",
                sample::meta().host
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
