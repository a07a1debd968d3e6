//! A process that only computes.

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
