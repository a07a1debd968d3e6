//! `sockscope convert`: the text of another tool as a trace bundle. Capture files are for the program
//! `sockscope-convert`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use sockscope_convert::{Capture, netmon, tcpdump};
use sockscope_program::failure::Failure;
use sockscope_program::hand_over::hand_over;
use sockscope_program::output_dir::OutputDir;
use sockscope_program::progress::Progress;
use sockscope_record::{Record, counted};
use sockscope_trace::{Meta, Source};

use crate::args::{self, ToolArg};

/// Bytes that show the kind of a file.
const FIRST_BYTES: u64 = 4;

/// Lines that could not be read and are shown, at most.
const PROBLEMS_SHOWN: usize = 5;

/// `sockscope convert`.
pub fn convert(arguments: &args::Convert) -> Result<(), Failure> {
    let file = arguments.file.display();
    let cannot = |error| Failure::file("cannot read", &arguments.file, &error);
    let is_input = arguments.file == Path::new("-");
    let mut input: Box<dyn Read> = match is_input {
        true => Box::new(std::io::stdin()),
        false => Box::new(File::open(&arguments.file).map_err(cannot)?),
    };
    let mut bytes = Vec::new();
    input.by_ref().take(FIRST_BYTES).read_to_end(&mut bytes).map_err(cannot)?;
    if is_capture_file(&bytes) && is_input {
        return Err(Failure::new(
            "standard input is a capture file: `sockscope-convert convert - -o DIR` reads it",
        ));
    }
    if is_capture_file(&bytes) {
        let own: Vec<_> = std::env::args_os().skip(2).collect();
        return Err(hand_over("convert", &own));
    }
    if !arguments.host.is_empty() {
        return Err(Failure::new(format!(
            "{file}: a text has the direction of its packets: --host is for capture files"
        )));
    }
    let progress = Progress::begin("converting", 0);
    input.read_to_end(&mut bytes).map_err(cannot)?;
    let text = String::from_utf8_lossy(&bytes);
    let capture = match arguments.from {
        ToolArg::Tcpdump => tcpdump::read(&text),
        ToolArg::Netmon => netmon::read(&text),
    };
    drop(progress);
    if capture.connections.is_empty() {
        let what =
            capture.problems.first().map_or_else(String::new, |problem| format!(" ({problem})"));
        return Err(Failure::new(format!(
            "{file}: no packet in it that can be read{what}: is it of the tool that --from names?"
        )));
    }
    for problem in capture.problems.iter().take(PROBLEMS_SHOWN) {
        stderr!("sockscope: {file}: {problem}");
    }
    let lines = capture.problems.len() as u64 + capture.other_lines;
    if lines > 0 {
        stderr!("sockscope: {file}: {} not understood", counted(lines, "line"));
    }
    let meta = meta(&capture, arguments);
    let output = OutputDir::find(&arguments.output, &[])?;
    let (mut writer, _lock) = output.create(meta.clone())?;
    let progress = Progress::begin("writing records", 0);
    for connection in &capture.connections {
        writer.connection(connection)?;
    }
    writer.append(&capture.records)?;
    writer.finish(meta)?;
    drop(progress);
    stderr!(
        "sockscope: {} of {} in {}; see it: sockscope show {2}",
        counted(capture.records.len() as u64, "record"),
        counted(capture.connections.len() as u64, "connection"),
        arguments.output.display()
    );
    Ok(())
}

/// Whether a file begins as pcap (either byte order, microseconds or nanoseconds) or pcapng files do, or as a
/// file of gzip does.
fn is_capture_file(bytes: &[u8]) -> bool {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    if bytes.starts_with(&GZIP) {
        return true;
    }
    const MAGIC: [u32; 3] = [0xa1b2_c3d4, 0xa1b2_3c4d, 0x0a0d_0d0a];
    let first = bytes.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
    first.is_some_and(|first| MAGIC.contains(&first) || MAGIC.contains(&first.swap_bytes()))
}

fn meta(capture: &Capture, arguments: &args::Convert) -> Meta {
    let mut notes = capture.notes.clone();
    let lines = capture.problems.len() as u64 + capture.other_lines;
    if lines > 0 {
        notes.push(format!("{} of the text not understood", counted(lines, "line")));
    }
    Meta {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        source: Source::Pcap,
        command: std::env::args().collect(),
        pick: format!("what is in {}", arguments.file.display()),
        loss: capture.records.iter().filter_map(Record::loss).collect(),
        notes,
        complete: true,
        ..Meta::default()
    }
}
