//! `sockscope demo`: a stalled call, seen, explained, fixed, seen again.

use std::ffi::OsString;
use std::fs;
use std::io::{BufWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use sockscope_analysis::Analysis;
use sockscope_program::failure::Failure;
use sockscope_program::pick::PickArgs;
use sockscope_program::temporary;
use sockscope_report::{Compared, Comparison, Format, Options, Report, Text, write_compare};

use crate::args::{self, ColorArg, HowArgs};
use crate::recording::{CommandOutput, Job};
use crate::terminal::Target;
use crate::{bundle, terminal};

/// The message of the demonstration: a header, then a body, in two writes or in one.
const HEADER: usize = 100;
const BODY: usize = 300;
const ANSWER: usize = 100;

macro_rules! recorded {
    ($name:literal) => {
        [
            (
                "records.arrows",
                include_bytes!(concat!("../demo/", $name, ".sockscope/records.arrows")),
            ),
            ("flows.arrows", include_bytes!(concat!("../demo/", $name, ".sockscope/flows.arrows"))),
            ("meta.json", include_bytes!(concat!("../demo/", $name, ".sockscope/meta.json"))),
        ]
    };
}
/// Calls in each of them.
const RECORDED_CALLS: u32 = 50;

/// The two recorded runs that come with the program.
const RECORDED: [(&str, Files); 2] =
    [("two-writes", recorded!("two-writes")), ("one-write", recorded!("one-write"))];

/// Name and content of each file of a bundle.
type Files = [(&'static str, &'static [u8]); 3];

/// `sockscope demo`.
pub fn demo(arguments: &args::Demo) -> Result<(), Failure> {
    if let Some(kind) = &arguments.traffic {
        return traffic(kind == "one-write", arguments.calls);
    }
    let temporary = temporary::folder()?;
    let can_record = sockscope_probe::missing_right().is_none();
    let is_recorded = arguments.recorded || !can_record;
    if is_recorded {
        if !can_record && !arguments.recorded {
            let right = sockscope_probe::missing_right().unwrap_or_else(|| "a right".to_owned());
            stderr!(
                "sockscope: without {right} recording does not work, so nothing is recorded now: these two runs come with the program"
            );
        }
        for (name, files) in RECORDED {
            let dir = temporary.path().join(name);
            fs::create_dir(&dir)?;
            for (file, bytes) in files {
                fs::write(dir.join(file), bytes)?;
            }
        }
    } else {
        for name in ["two-writes", "one-write"] {
            record(name, arguments.calls, &temporary.path().join(name))?;
        }
    }
    tell(
        temporary.path(),
        arguments.color,
        if is_recorded { RECORDED_CALLS } else { arguments.calls },
    )
}

/// Records this program's own client and server.
fn record(kind: &str, calls: u32, dir: &Path) -> Result<(), Failure> {
    let program = std::env::current_exe()?;
    let command: Vec<OsString> = [
        program.into_os_string(),
        "demo".into(),
        "--traffic".into(),
        kind.into(),
        "--calls".into(),
        calls.to_string().into(),
    ]
    .to_vec();
    let job = Job {
        pick: &PickArgs::default(),
        how: HowArgs::default(),
        command: &command,
        run_as: None,
        stdout: CommandOutput::Stdout,
        dir,
        duration: None,
        max_records: None,
        other: None,
    };
    let (status, failure) = job.record()?.ended();
    if let Some(failure) = failure {
        return Err(failure);
    }
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => {
            Err(Failure::new(format!("the demonstration's traffic ended with {status}")))
        }
        None => Err(Failure::new("the demonstration was interrupted")),
    }
}

/// The story: before, why, after.
fn tell(dir: &Path, color: ColorArg, calls: u32) -> Result<(), Failure> {
    let options = Options { full: false, ..terminal::options(Target::Stdout, color) };
    let mut out = BufWriter::new(std::io::stdout().lock());
    writeln!(
        out,
        "A client sends {calls} requests over loopback, each as a header of {HEADER} bytes and a body of {BODY}\n\
         in two writes, and waits for the answer. It is slow. Where do the bytes wait?\n"
    )?;
    let (before, origin) = bundle::analyze(&dir.join("two-writes"))?;
    Text.write(&Report { origin: &origin, analysis: &before, options: &options }, &mut out)?;
    writeln!(
        out,
        "\nNow the same calls with the fix that the finding names: header and body in one write.\n"
    )?;
    let (after, _): (Analysis, _) = bundle::analyze(&dir.join("one-write"))?;
    let runs = [
        Compared { name: "two writes", rounds: &[&before] },
        Compared { name: "one write", rounds: &[&after] },
    ];
    write_compare(&Comparison::of(&runs), &options, &mut out)?;
    writeln!(out, "\nYour own program: sockscope run -- COMMAND")?;
    out.flush().map_err(|error| Failure::output(&error))?;
    Ok(())
}

/// The client and the server that are recorded.
fn traffic(in_one_write: bool, calls: u32) -> Result<(), Failure> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    let serving = std::thread::Builder::new().name("demo-server".to_owned()).spawn(move || {
        let (mut connection, _) = listener.accept()?;
        let mut request = [0; HEADER + BODY];
        for _ in 0..calls {
            connection.read_exact(&mut request)?;
            connection.write_all(&[7; ANSWER])?;
        }
        std::io::Result::Ok(())
    })?;
    let mut connection = TcpStream::connect(address)?;
    let request = [7; HEADER + BODY];
    let mut answer = [0; ANSWER];
    for _ in 0..calls {
        if in_one_write {
            connection.write_all(&request)?;
        } else {
            let (header, body) = request.split_at(HEADER);
            connection.write_all(header)?;
            connection.write_all(body)?;
        }
        connection.read_exact(&mut answer)?;
    }
    drop(connection);
    match serving.join() {
        Ok(result) => Ok(result?),
        Err(_) => Err(Failure::new("the demonstration's server failed")),
    }
}
