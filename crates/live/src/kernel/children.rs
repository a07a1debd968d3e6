//! Programs that were started for a run: how long they may take, their end, and what they say of an error.

use std::io::Read;
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::error::KernelError;

/// Time that a server has until its socket is there.
pub(super) const START: Duration = Duration::from_secs(5);
/// Time that the programs that ask have, and their servers after them.
pub(super) const RUN: Duration = Duration::from_secs(120);
pub(super) const END: Duration = Duration::from_secs(5);
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(2);

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
