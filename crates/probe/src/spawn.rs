//! Starting the traced command inside its control group.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::cgroup::Cgroup;
use crate::error::Error;

/// The user as whom a command runs, instead of the recorder's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunAs {
    /// Number of the user.
    pub user: u32,
    /// Number of the user's first group.
    pub group: u32,
    /// Numbers of all groups of the user.
    pub groups: Vec<u32>,
    /// Variables of the environment that differ, as `HOME`.
    pub environment: Vec<(&'static str, OsString)>,
}

/// Starts `command` so that every socket it makes belongs to `group`; its standard output is `stdout`. With
/// `run_as` it has the rights of that user alone.
///
/// # Errors
/// When the program cannot be found or started, or this process may not become that user.
pub fn spawn(
    command: &[OsString],
    group: &Cgroup,
    stdout: Stdio,
    run_as: Option<&RunAs>,
) -> Result<Child, Error> {
    let [program, arguments @ ..] = command else {
        return Err(Error::Pick("no command given after --".to_owned()));
    };
    let mut start = Command::new(program);
    start.args(arguments).stdout(stdout);
    start.envs(run_as.iter().flat_map(|user| &user.environment).map(|(name, value)| (name, value)));
    group.admit(&mut start)?;
    if let Some(identity) = run_as.map(Identity::of) {
        // SAFETY: between fork and exec the closure makes only system calls (setgroups(2), setresgid(2),
        // setresuid(2)), and none of them allocates or takes a lock. The closure owns the list of groups.
        unsafe { start.pre_exec(move || identity.take()) };
    }
    start
        .spawn()
        .map_err(|source| Error::Spawn { command: program.to_string_lossy().into_owned(), source })
}

/// A user in the form of the system calls, made before the fork.
struct Identity {
    user: Uid,
    group: Gid,
    groups: Vec<Gid>,
}

impl Identity {
    fn of(run_as: &RunAs) -> Self {
        let groups = run_as.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        Self { user: Uid::from_raw(run_as.user), group: Gid::from_raw(run_as.group), groups }
    }

    /// Gives the calling process this user's identity. It must have one thread, as after a fork: the system calls
    /// change the thread. The user is last, since its change removes the right to the other changes.
    fn take(&self) -> io::Result<()> {
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(self.group, self.group, self.group)?;
        set_thread_res_uid(self.user, self.user, self.user)?;
        Ok(())
    }
}
