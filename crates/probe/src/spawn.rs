//! Starting the traced command inside its control group.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
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
    let fd = joined.as_raw_fd();
    let mut start = Command::new(program);
    start.args(arguments).stdout(stdout);
    // SAFETY: between fork and exec only write(2) is called, on a descriptor that stays open; it
    // neither allocates nor takes a lock.
    unsafe {
        start.pre_exec(move || {
            if libc::write(fd, c"0".as_ptr().cast(), 1) == 1 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        });
    }
    let child = start
        .spawn()
        .map_err(|source| Error::Spawn { command: program.to_string_lossy().into_owned(), source });
    drop(joined);
    child
}
