//! The CPUs of the two processes.

use std::fmt;
use std::io;

use clap::ValueEnum;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// Where the two processes run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Cpus {
    /// Both on one CPU
    One,
    /// Each on one of its own
    Two,
}

impl Cpus {
    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::One => Self::Two,
            Self::Two => Self::One,
        }
    }

    /// Binds this process and the other one to CPUs of those that this one may use.
    pub fn bind(self, other: u32) -> io::Result<()> {
        let allowed = allowed()?;
        let [first, second] = match (self, allowed.as_slice()) {
            (_, []) => return Ok(()),
            (Self::Two, [first, second, ..]) => [*first, *second],
            (_, [first, ..]) => [*first, *first],
        };
        let other = Pid::from_raw(other.cast_signed());
        for (process, cpu) in [(None, first), (other, second)] {
            let mut set = CpuSet::new();
            set.set(cpu);
            sched_setaffinity(process, &set)?;
        }
        Ok(())
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "one",
            Self::Two => "two",
        })
    }
}

/// The CPUs that this process may use.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}
