//! `sockscope lab` and `sockscope vmtp`: commands of the program `sockscope-lab`, which takes the place
//! of this process.
//!
//! cargo and git start their subcommands in the same way. This program then links neither the model nor
//! the libraries of the experiments.

use std::env;
use std::ffi::OsString;
use std::io::{Error, ErrorKind};
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
