//! Commands that another program of the same release has: it takes the place of this process.
//!
//! cargo and git start their subcommands in the same way. So `sockscope` links neither the model, nor the libraries
//! of the experiments, nor those of the screen, nor figures.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Error, ErrorKind, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;

/// The program that has the laboratory.
pub const LABORATORY: &str = "sockscope-lab";
/// The others that have commands.
const VIEW: &str = "sockscope-view";
const CONVERTER: &str = "sockscope-convert";
const FLIGHT_RECORDER: &str = "sockscope-watch";

/// Starts the program of the command in the place of this process, with the arguments as they were given.
/// Returns only when that fails.
pub fn hand_over(command: &str, arguments: &[OsString]) -> Failure {
    let name = match command {
        "plot" | "report" | "top" | "view" => VIEW,
        "convert" | "export" => CONVERTER,
        "watch" => FLIGHT_RECORDER,
        _ => LABORATORY,
    };
    let program = program(name);
    let mut start = Command::new(&program);
    start.arg(command).args(arguments);
    if let Some(name) = env::args_os().next() {
        // Its help and its messages name the command that the user gave.
        start.arg0(name);
    }
    let asked = if command == "report" { "report --format html" } else { command };
    failure(asked, name, &program, &start.exec())
}

/// Starts the program that writes a report as a page in the place of this process, with the arguments as they were
/// given.
/// `dir` is the folder of the trace, where no argument names it.
pub fn hand_over_report(dir: Option<&PathBuf>) -> Failure {
    // Behind the name of the program and that of the command.
    let arguments = env::args_os().skip(2).chain(dir.map(OsString::from));
    hand_over("report", &arguments.collect::<Vec<_>>())
}

/// Starts `LABORATORY` in the place of this process, as above, with a command of its own and a text as its standard
/// input. `asked` is what the user asked for.
pub fn hand_over_text(
    asked: &str,
    arguments: impl Iterator<Item = OsString>,
    text: &str,
) -> Failure {
    let program = program(LABORATORY);
    let input = match in_file(text) {
        Ok(input) => input,
        Err(error) => return Failure::new(format!("cannot keep a figure in a file: {error}")),
    };
    failure(
        asked,
        LABORATORY,
        &program,
        &Command::new(&program).args(arguments).stdin(input).exec(),
    )
}

/// A file without a name that begins with the text.
fn in_file(text: &str) -> std::io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// The program in the folder of this one; where it is not there, its name, for which PATH is searched.
pub fn program(name: &str) -> PathBuf {
    let own = env::current_exe().ok();
    let near = own.map(|own| own.with_file_name(name)).filter(|near| near.exists());
    near.unwrap_or_else(|| name.into())
}

fn failure(command: &str, name: &str, program: &Path, error: &Error) -> Failure {
    if error.kind() != ErrorKind::NotFound {
        return Failure::file("cannot start", program, error);
    }
    Failure::new(format!(
        "`{command}` needs the program {name}, in the folder of this program or in PATH: build it with \
         `cargo build --release -p {name}-cli`"
    ))
}
