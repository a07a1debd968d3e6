//! Commands that the release runs and files that they leave; an error is one line that names both.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The files in `folder` whose names end in `.` and `extension`, in order of their names.
pub fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error| at(folder, &error);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension() == Some(OsStr::new(extension)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Runs a command to its end, its output on the terminal.
pub fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| not_started(command.get_program(), &error))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed", words(command))) }
}

/// A command's program and arguments, for messages.
pub fn words(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// The last line of what a program wrote: where it failed, why.
pub fn last_line(written: &[u8]) -> String {
    let written = String::from_utf8_lossy(written);
    written.trim_end().lines().next_back().unwrap_or("it did not say why").to_owned()
}

/// What a command prints.
pub fn output(command: &mut Command) -> Result<String, String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| not_started(command.get_program(), &error))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(text) } else { Err(format!("`{}` failed", words(command))) }
}

pub fn not_started(program: &OsStr, error: &std::io::Error) -> String {
    format!("cannot start {}: {error}", program.display())
}

pub fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_without_the_environment() {
        let refused = succeed(Command::new("false").arg("now").env("CARGO_X", "a\u{1f}b"));
        assert_eq!(refused, Err("`false now` failed".to_owned()));
        assert_eq!(last_line(b"a\nwhy \n\n"), "why");
        assert_eq!(last_line(b"\n"), "it did not say why");
    }
}
