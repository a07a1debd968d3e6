//! `sockscope lab` and `sockscope vmtp`: commands of the program `sockscope-lab`, which takes the place
//! of this process. So do figures of pixels.
//!
//! cargo and git start their subcommands in the same way. This program then links neither the model nor
//! the libraries of the experiments.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Error, ErrorKind, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sockscope_program::failure::Failure;

/// The program that has the commands.
const PROGRAM: &str = "sockscope-lab";

/// Starts `PROGRAM` in the place of this process, with the command and its arguments as they were given.
/// Returns only when that fails.
pub fn hand_over(command: &str, arguments: &[OsString]) -> Failure {
    let program = program();
    let mut laboratory = Command::new(&program);
    laboratory.arg(command).args(arguments);
    if let Some(name) = env::args_os().next() {
        // Its help and its messages name the command that the user gave.
        laboratory.arg0(name);
    }
    failure(command, &program, &laboratory.exec())
}

/// Starts `PROGRAM` in the place of this process, as above, with a command of its own and a text as its standard
/// input. `asked` is what the user asked for.
pub fn hand_over_text(
    asked: &str,
    arguments: impl Iterator<Item = OsString>,
    text: &str,
) -> Failure {
    let program = program();
    let input = match in_file(text) {
        Ok(input) => input,
        Err(error) => return Failure::new(format!("cannot keep a figure in a file: {error}")),
    };
    failure(asked, &program, &Command::new(&program).args(arguments).stdin(input).exec())
}

/// A file without a name that begins with the text.
fn in_file(text: &str) -> std::io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// The program in the folder of this one; where it is not there, its name, for which PATH is searched.
fn program() -> PathBuf {
    let own = env::current_exe().ok();
    let near = own.map(|own| own.with_file_name(PROGRAM)).filter(|near| near.exists());
    near.unwrap_or_else(|| PROGRAM.into())
}

fn failure(command: &str, program: &Path, error: &Error) -> Failure {
    if error.kind() != ErrorKind::NotFound {
        return Failure::file("cannot start", program, error);
    }
    Failure::new(format!(
        "`{command}` needs the program {PROGRAM}, in the folder of this program or in PATH: build it with \
         `cargo build --release -p sockscope-lab-cli`"
    ))
}
