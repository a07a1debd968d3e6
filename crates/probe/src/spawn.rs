//! Starting the traced command inside its control group.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::cgroup::Cgroup;
use crate::error::Error;

/// Starts `command` so that every socket it makes belongs to `group`; its standard output is `stdout`.
///
/// # Errors
/// When the program cannot be found or started.
pub fn spawn(command: &[OsString], group: &Cgroup, stdout: Stdio) -> Result<Child, Error> {
    let [program, arguments @ ..] = command else {
        return Err(Error::Pick("no command given after --".to_owned()));
    };
    let procs = group.procs();
    let joined = OpenOptions::new().write(true).open(&procs);
    let joined =
        joined.map_err(|source| Error::File { what: "cannot open", path: procs, source })?;
    let mut start = Command::new(program);
    start.args(arguments).stdout(stdout);
    // "0" is the process that writes (`cgroup_procs_write()`).
    // SAFETY: between fork and exec the closure calls only write(2), which neither allocates nor takes
    // a lock. The closure owns the descriptor, so that it stays open.
    unsafe { start.pre_exec(move || Ok(rustix::io::write(&joined, b"0").map(drop)?)) };
    start
        .spawn()
        .map_err(|source| Error::Spawn { command: program.to_string_lossy().into_owned(), source })
}
