//! The output of a command: to a file that the user names, or to standard output.

use std::io::{BufWriter, Write};
use std::path::Path;

use crate::failure::Failure;
use crate::output_dir;

/// A file, or standard output for `-`. A bundle's own files are refused.
pub fn output(path: &Path) -> Result<Box<dyn Write>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(BufWriter::new(std::io::stdout().lock())));
    }
    Ok(Box::new(BufWriter::new(output_dir::create_output(path)?)))
}

/// Writes all of it to a file, or to standard output for `-`.
pub fn write_to(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let mut out = output(path)?;
    let written = write(&mut *out).and_then(|()| out.flush());
    let is_file = path != Path::new("-");
    written.map_err(|error| match is_file {
        true => Failure::file("cannot write", path, &error),
        false => Failure::output(&error),
    })
}
