//! Processes next to those that communicate: one that only computes, and the reader of the probes.

use crate::program::{Action, Program, ProgramContext};

/// Works without end, as a search for prime numbers does. Spawn it as a daemon.
///
/// Notes `computed_ns` with each slice of CPU time that it has had.
#[derive(Debug)]
pub struct PrimeLoad {
    slice_ns: u64,
    has_begun: bool,
}

impl PrimeLoad {
    /// It counts its work in slices of so many nanoseconds of CPU time, at least one.
    pub fn new(slice_ns: u64) -> Self {
        Self { slice_ns: slice_ns.max(1), has_begun: false }
    }
}

impl Program for PrimeLoad {
    fn name(&self) -> &str {
        "primes"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        if std::mem::replace(&mut self.has_begun, true) {
            context.note("computed_ns", self.slice_ns);
        }
        Action::Compute(self.slice_ns)
    }
}

/// Reads the records of its kernel's probes into a file, again after each pause. Spawn it as a daemon.
///
/// The call that writes the file is left out.
#[derive(Debug)]
pub struct ProbeReader {
    pause_ns: u64,
    is_to_sleep: bool,
}

impl ProbeReader {
    /// It sleeps for so many nanoseconds between two readings, up to the next clock tick.
    pub fn new(pause_ns: u64) -> Self {
        Self { pause_ns, is_to_sleep: true }
    }
}

impl Program for ProbeReader {
    fn name(&self) -> &str {
        "probe-reader"
    }

    fn next(&mut self, _: &mut ProgramContext<'_>) -> Action {
        self.is_to_sleep = !self.is_to_sleep;
        if self.is_to_sleep { Action::Sleep(self.pause_ns) } else { Action::ReadProbes }
    }
}
