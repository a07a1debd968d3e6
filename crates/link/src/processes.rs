//! The processes of a topology: a PID namespace of their own, which the kernel ends as a whole.
//!
//! The first process of the namespace does nothing but wait for the end of this program. The kernel then kills all the
//! others by SIGKILL: those in sessions of their own, those whose parents have ended, and those that ignore signals. A
//! death signal (prctl(2), `PR_SET_PDEATHSIG`) reaches children alone, and a process that searches for descendants
//! races with them.
//!
//! Commands see a /proc of their namespace, so that `ps` and `kill` mean the same processes.

use std::ffi::{CStr, CString};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, setsid, waitpid};
use rustix::thread::{
    ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces, set_name, unshare_unsafe,
};

use crate::error::Error;

/// Time that the kernel has to end all processes.
const END: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Name of the first process, as `ps` shows it.
const NAME: &CStr = c"link-processes";

/// A PID namespace. It ends, with all its processes, by the drop of this or with this program.
pub struct Processes {
    init: Pid,
    init_fd: OwnedFd,
    /// The first process reads from the other end until this one is closed.
    alive: Option<io::PipeWriter>,
}

impl Processes {
    /// Makes the namespace and its first process.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] without `CAP_SYS_ADMIN`, or where /proc cannot be mounted.
    pub fn new() -> Result<Self, Error> {
        // The namespace of children is a property of a thread: this thread keeps its own.
        thread::scope(|scope| scope.spawn(Self::with_init).join().map_err(|_| Error::Thread)?)
    }

    fn with_init() -> Result<Self, Error> {
        let pipe = || io::pipe().map_err(refused("make a pipe"));
        let (alive_here, alive) = pipe()?;
        let (mut said_here, said) = pipe()?;
        let init = first_process(&alive_here, &said)?;
        drop(said);
        let init_fd = pidfd_open(init, PidfdFlags::empty())
            .map_err(|errno| refused("find a process")(errno.into()))?;
        let processes = Self { init, init_fd, alive: Some(alive) };
        let mut errno = [0; 4];
        said_here.read_exact(&mut errno).map_err(refused("start a process"))?;
        match i32::from_ne_bytes(errno) {
            0 => Ok(processes),
            errno => Err(refused("mount /proc")(io::Error::from_raw_os_error(errno))),
        }
    }

    /// Later children of this thread belong to the namespace. The thread cannot start other threads then.
    pub fn adopt_children(&self) -> Result<(), Error> {
        let moved =
            move_into_thread_name_spaces(self.init_fd.as_fd(), ThreadNameSpaceType::PROCESS_ID);
        moved.map_err(|errno| refused("enter a PID namespace")(errno.into()))
    }

    /// The command will see the namespace's /proc. Its folder stays the same.
    #[allow(unsafe_code)]
    pub fn show_proc(&self, command: &mut Command) -> io::Result<()> {
        let init_fd = self.init_fd.try_clone()?;
        let folder = match command.get_current_dir() {
            Some(folder) => std::path::absolute(folder)?,
            None => std::env::current_dir()?,
        };
        let folder = CString::new(folder.as_os_str().as_bytes())?;
        let enter = move || {
            move_into_thread_name_spaces(init_fd.as_fd(), ThreadNameSpaceType::MOUNT)?;
            // The namespace begins in its root.
            rustix::process::chdir(folder.as_c_str()).map_err(io::Error::from)
        };
        // SAFETY: between fork and exec this makes two system calls, and takes no lock and no memory.
        unsafe { command.pre_exec(enter) };
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.alive.take();
        // The namespace ends with the last of its processes that was waited for. A caller that has yet to wait for
        // one of them is not waited for here.
        let until = Instant::now() + END;
        while Instant::now() < until
            && waitpid(Some(self.init), WaitOptions::NOHANG).is_ok_and(|ended| ended.is_none())
        {
            thread::sleep(LOOK_EVERY);
        }
    }
}

fn refused(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |cause| Error::Refused { what, cause }
}

/// Forks the first process of a new namespace. It reports by an errno, or by 0, whether it has a /proc.
#[allow(unsafe_code)]
fn first_process(alive: &io::PipeReader, said: &io::PipeWriter) -> Result<Pid, Error> {
    // SAFETY: the PID namespace of later children of this thread alone is replaced.
    let unshared = unsafe { unshare_unsafe(UnshareFlags::NEWPID) };
    unshared.map_err(|errno| refused("make a PID namespace")(errno.into()))?;
    // SAFETY: the child makes system calls and ends without a return: it takes no lock and no memory, which another
    // thread may have held during the fork.
    match unsafe { libc::fork() } {
        0 => wait_for_end(alive, said),
        pid => Pid::from_raw(pid)
            .filter(|_| pid > 0)
            .ok_or_else(|| refused("start a process")(io::Error::last_os_error())),
    }
}

/// The life of the first process. Its children, whose parents have ended, need no one to wait for them.
#[allow(unsafe_code)]
fn wait_for_end(alive: &io::PipeReader, said: &io::PipeWriter) -> ! {
    // A terminal's signals and those to a process group are not for this process.
    let _ = setsid();
    let _ = set_name(NAME);
    let errno = match mount_proc() {
        Ok(()) => 0,
        Err(errno) => errno.raw_os_error(),
    };
    let (alive, said) = (alive.as_raw_fd(), said.as_raw_fd());
    // SAFETY: each call has values alone, or pointers to values that live. The file descriptors that are closed are
    // this process's copies, and nothing here uses them later.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        let errno = errno.to_ne_bytes();
        libc::write(said, errno.as_ptr().cast(), errno.len());
        libc::dup2(alive, 0);
        libc::syscall(libc::SYS_close_range, 1, libc::c_uint::MAX, 0);
        let mut byte = [0_u8];
        // A signal for which this program has a handler interrupts the call.
        while libc::read(0, byte.as_mut_ptr().cast(), 1) != 0
            && *libc::__errno_location() == libc::EINTR
        {}
        libc::_exit(0)
    }
}

/// Mounts the namespace's /proc where this process and the commands see it, and no other process.
#[allow(unsafe_code)]
fn mount_proc() -> rustix::io::Result<()> {
    let none = std::ptr::null();
    let proc = c"proc".as_ptr();
    let hidden = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    // SAFETY: the mount namespace of this process, which has one thread, is replaced.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    // SAFETY: all strings end with 0 and live for ever; there is no data.
    let done = unsafe {
        let own =
            libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_SLAVE, none.cast());
        match own {
            0 => libc::mount(proc, c"/proc".as_ptr(), proc, hidden, none.cast()),
            failed => failed,
        }
    };
    // SAFETY: the number of this thread's last error.
    let errno = || unsafe { *libc::__errno_location() };
    if done == 0 { Ok(()) } else { Err(rustix::io::Errno::from_raw_os_error(errno())) }
}
