//! Processes of a workload: this program again, each with a command that users do not see.

use std::process::{Child, Command, Output, Stdio};

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use sockscope_program::failure::Failure;

/// This program, to run `lab work` with these words.
pub fn command(words: &[String]) -> Result<Command, Failure> {
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let mut command = Command::new(program);
    command.args(["lab", "work"]).args(words).stderr(Stdio::piped());
    Ok(command)
}

/// Starts the command.
pub fn start(command: &mut Command) -> Result<Child, Failure> {
    command.spawn().map_err(|error| failed(&error))
}

/// What the process printed to standard output or to standard error, when it has ended.
pub fn result(child: Child, printed: fn(&Output) -> &[u8]) -> Result<Value, Failure> {
    let output = child.wait_with_output().map_err(|error| failed(&error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim_end();
        return Err(failed(&format_args!("it ended with {}: {said}", output.status)));
    }
    serde_json::from_slice(printed(&output)).map_err(|error| failed(&error))
}

fn failed(why: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("lab work: a process of the workload: {why}"))
}

/// CPU time of this process, in nanoseconds.
pub fn cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec.unsigned_abs() * 1_000_000_000 + used.tv_nsec.unsigned_abs()
}

/// How long this thread ran, and how long it was ready and waited for a CPU; `None` where the kernel does not count this.
pub fn scheduled_ns() -> [Option<u64>; 2] {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
    [0, 1].map(|_| numbers.next().flatten())
}
