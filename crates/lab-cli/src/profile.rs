//! `sockscope lab profile`: which functions of the kernel have the CPU time of a command.

use std::io;
use std::path::Path;
use std::process::Command;

use sockscope_live::profile::{self, Profile, flame_graph, write_folded, write_json, write_text};
use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;
use sockscope_program::output::write_to;
use sockscope_program::signals::StopSignals;
use sockscope_render::number::counted;

use crate::args::LabProfile;
use crate::programs::exit_code;

/// `sockscope lab profile`. Standard output belongs to the command; the profile goes to standard error.
pub fn profile(arguments: &LabProfile) -> Result<Outcome, Failure> {
    let failed = |error: profile::ProfileError| Failure::new(format!("lab profile: {error}"));
    let stop = StopSignals::register()?;
    let (program, rest) = arguments.command.split_first().unwrap_or_else(|| unreachable!("clap"));
    let mut command = Command::new(program);
    command.args(rest);
    let is_stopped = || stop.stop_requested();
    let (found, mut child) =
        profile::profile(&mut command, arguments.frequency, &is_stopped).map_err(failed)?;
    // A signal of the terminal is the command's too.
    let status = child.wait().map_err(|error| Failure::new(format!("lab profile: {error}")))?;
    let mut text = Vec::new();
    write_text(&found, &mut text).map_err(|error| Failure::new(error.to_string()))?;
    String::from_utf8_lossy(&text).lines().for_each(|line| stderr!("{line}"));
    write_files(arguments, &found)?;
    Ok(Outcome::OfCommand(exit_code(status)))
}

fn write_files(arguments: &LabProfile, found: &Profile) -> Result<(), Failure> {
    type Write = fn(&Profile, &mut dyn io::Write) -> io::Result<()>;
    let forms: [(_, Write); 2] = [(&arguments.json, write_json), (&arguments.folded, write_folded)];
    for (path, write) in forms {
        if let Some(path) = path {
            write_to(path, |out| write(found, out))?;
        }
    }
    let Some(path) = &arguments.output else { return Ok(()) };
    let words = arguments.command.iter().map(|word| word.to_string_lossy());
    let title = format!("CPU time of {}", words.collect::<Vec<_>>().join(" "));
    let about = about(found);
    match flame_graph(found, &title, &about) {
        Some(svg) => write_to(path, |out| out.write_all(svg.as_bytes())),
        None => Err(nothing(path)),
    }
}

fn nothing(path: &Path) -> Failure {
    Failure::new(format!(
        "lab profile: no sample to draw in {}: the command had too little CPU time for one",
        path.display()
    ))
}

fn about(found: &Profile) -> String {
    let samples = counted(found.samples(), "sample");
    let seconds = found.elapsed_ns as f64 / 1e9;
    format!(
        "{samples}, {} a second of CPU time, in {seconds:.2} s; width: share of samples in which a function was active; \
         callers below; colours: layers",
        found.frequency_hz
    )
}
