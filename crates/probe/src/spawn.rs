//! Starting the traced command inside its control group.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use crate::cgroup::Cgroup;
use crate::error::Error;

/// Starts `command` so that every socket it makes belongs to `group`.
///
/// # Errors
/// When the program cannot be found or started.
pub fn spawn(command: &[OsString], group: &Cgroup) -> Result<Child, Error> {
    let [program, arguments @ ..] = command else {
        return Err(Error::Pick("no command given after --".to_owned()));
    };
    let procs = group.procs();
    let joined = OpenOptions::new().write(true).open(&procs);
    let joined =
        joined.map_err(|source| Error::File { what: "cannot open", path: procs, source })?;
    let fd = joined.as_raw_fd();
    let mut start = Command::new(program);
    start.args(arguments);
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

/// Interrupts seen so far, once [`count_interrupts`] was called.
pub fn interrupts() -> usize {
    INTERRUPTS.load(std::sync::atomic::Ordering::Relaxed)
}

static INTERRUPTS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// From now on the first SIGINT or SIGTERM is counted, so that a recording ends in order, and a
/// second one ends the process at once.
pub fn count_interrupts() {
    extern "C" fn on_interrupt(_signal: libc::c_int) {
        if INTERRUPTS.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0 {
            // SAFETY: _exit is async-signal-safe and does not return.
            unsafe { libc::_exit(130) };
        }
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let handler = on_interrupt as extern "C" fn(libc::c_int);
        // SAFETY: the handler only touches an atomic and may call _exit, both of which are
        // async-signal-safe.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
    let _ = std::io::stdout().flush();
}
