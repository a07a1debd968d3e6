//! Starting the traced command inside its control group.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// Requests to end so far, once [`count_interrupts`] was called.
pub fn interrupts() -> usize {
    INTERRUPTS.load(Ordering::Relaxed) + HANG_UPS.load(Ordering::Relaxed)
}

static INTERRUPTS: AtomicUsize = AtomicUsize::new(0);
static HANG_UPS: AtomicUsize = AtomicUsize::new(0);

/// From now on the first SIGINT, SIGTERM or SIGHUP is counted, so that a recording ends in order, and a
/// second SIGINT or SIGTERM ends the process at once. When a terminal goes, SIGHUP comes from the kernel
/// and from the shell: further ones change nothing. Where it is ignored, as below `nohup`, it stays so.
pub fn count_interrupts() {
    extern "C" fn on_interrupt(_signal: libc::c_int) {
        if INTERRUPTS.fetch_add(1, Ordering::Relaxed) > 0 {
            // SAFETY: _exit is async-signal-safe and does not return.
            unsafe { libc::_exit(130) };
        }
    }
    extern "C" fn on_hang_up(_signal: libc::c_int) {
        HANG_UPS.fetch_add(1, Ordering::Relaxed);
    }
    for (signal, handler) in [
        (libc::SIGINT, on_interrupt as extern "C" fn(libc::c_int)),
        (libc::SIGTERM, on_interrupt),
        (libc::SIGHUP, on_hang_up),
    ] {
        // SAFETY: the handlers only touch atomics and may call _exit, both of which are
        // async-signal-safe.
        let before = unsafe { libc::signal(signal, handler as libc::sighandler_t) };
        if signal == libc::SIGHUP && before == libc::SIG_IGN {
            // SAFETY: as above, without a handler.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
    }
    let _ = std::io::stdout().flush();
}
