//! `sockscope convert`: the text of another tool as a trace bundle.

use std::fs;
use std::io::Read;
use std::path::Path;

use sockscope_convert::{Capture, netmon, tcpdump};
use sockscope_record::{Kind, LossCounts};
use sockscope_trace::{BundleWriter, Meta, Source};

use crate::args::{self, ToolArg};
use crate::failure::Failure;

/// Lines that could not be read and are shown, at most.
const PROBLEMS_SHOWN: usize = 5;

/// `sockscope convert`.
pub fn convert(arguments: &args::Convert) -> Result<(), Failure> {
    let text = text(&arguments.file)?;
    let capture = match arguments.from {
        ToolArg::Tcpdump => tcpdump::read(&text),
        ToolArg::Netmon => netmon::read(&text),
    };
    let file = arguments.file.display();
    if capture.connections.is_empty() {
        let what =
            capture.problems.first().map_or_else(String::new, |problem| format!(" ({problem})"));
        return Err(Failure::new(format!(
            "{file}: no packet in it that can be read{what}: is it of the tool that --from names?"
        )));
    }
    for problem in capture.problems.iter().take(PROBLEMS_SHOWN) {
        eprintln!("sockscope: {file}: {problem}");
    }
    let meta = meta(&capture, arguments);
    let mut writer = BundleWriter::create(&arguments.output, meta.clone())?;
    for connection in &capture.connections {
        writer.connection(connection)?;
    }
    writer.append(&capture.records)?;
    writer.finish(meta)?;
    eprintln!(
        "{} records of {} connections in {}; see them: sockscope show {2}",
        capture.records.len(),
        capture.connections.len(),
        arguments.output.display()
    );
    Ok(())
}

fn text(path: &Path) -> Result<String, Failure> {
    let cannot = |error| Failure::file("cannot read", path, &error);
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().read_to_end(&mut bytes).map_err(cannot)?;
    } else {
        bytes = fs::read(path).map_err(cannot)?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn meta(capture: &Capture, arguments: &args::Convert) -> Meta {
    let mut notes = capture.notes.clone();
    if !capture.problems.is_empty() {
        notes.push(format!("{} lines of the text could not be read", capture.problems.len()));
    }
    let mut loss = LossCounts::default();
    for record in capture.records.iter().filter(|record| record.kind == Kind::Loss) {
        loss.add(Kind::from_code(record.code).and_then(Kind::point), record.detail);
    }
    Meta {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        source: Source::Pcap,
        command: std::env::args().collect(),
        pick: format!("what is in {}", arguments.file.display()),
        loss,
        notes,
        complete: true,
        ..Meta::default()
    }
}
