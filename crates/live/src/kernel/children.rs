//! Programs that are started for a run: where, how long they may take, their end, and what they say of an error.

use std::io::Read;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sockscope_link::{Hosts, Side};
use sockscope_probe::Cgroup;

use super::error::KernelError;

/// Time that a server has until its socket is there.
pub(super) const START: Duration = Duration::from_secs(5);
/// Time that the programs that ask have, and their servers after them.
pub(super) const RUN: Duration = Duration::from_secs(120);
pub(super) const END: Duration = Duration::from_secs(5);
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Starts the programs of a run at its hosts.
#[derive(Clone, Copy)]
pub(super) struct Starter<'a> {
    pub(super) hosts: &'a Hosts,
    /// The group of a recorded run, which tells its sockets from those of another run with the same addresses.
    pub(super) group: Option<&'a Cgroup>,
}

impl Starter<'_> {
    pub(super) fn start(self, side: Side, command: Command) -> Result<Child, KernelError> {
        Ok(self.hosts.start(side, self.in_group(command)?)?)
    }

    /// The same at the host of a client, from 0 on.
    pub(super) fn start_client(self, at: usize, command: Command) -> Result<Child, KernelError> {
        Ok(self.hosts.start_client(at, self.in_group(command)?)?)
    }

    fn in_group(self, mut command: Command) -> Result<Command, KernelError> {
        let admitted = self.group.map_or(Ok(()), |group| group.admit(&mut command));
        admitted.map_err(|error| problem(error.to_string()))?;
        Ok(command)
    }
}

/// Asks a program to end.
pub(super) fn terminate(child: &Child) -> Result<(), KernelError> {
    kill_process(Pid::from_child(child), Signal::TERM)
        .map_err(|error| problem(format!("a program cannot be ended: {error}")))
}

/// Its case is added later.
pub(super) fn problem(problem: String) -> KernelError {
    KernelError::Program { case: String::new(), problem }
}

/// Whether a program has ended.
pub(super) fn ended(child: &mut Child) -> Result<bool, KernelError> {
    let status = child.try_wait().map_err(|error| problem(error.to_string()))?;
    Ok(status.is_some())
}

/// The last line that a program that ended wrote to standard error.
pub(super) fn errors(child: &mut Child) -> String {
    let mut text = String::new();
    let _ = child.kill();
    if let Some(errors) = &mut child.stderr {
        let _ = errors.read_to_string(&mut text);
    }
    text.lines().last().unwrap_or("it says nothing").to_owned()
}
