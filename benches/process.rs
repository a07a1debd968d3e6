//! What a benchmark took: time on a CPU, memory.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment on the clock that runs only while this thread has a CPU, so that what others do on the
/// machine does not count.
pub struct CpuTime(Duration);

impl CpuTime {
    /// Now.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Self(Duration::new(now.tv_sec as u64, now.tv_nsec as u32))
    }

    /// CPU time of this thread since.
    pub fn elapsed(&self) -> Duration {
        Self::now().0 - self.0
    }
}

/// What `/proc/self/status` says of memory, in KiB: `VmRSS` for what is resident now, `VmHWM` for
/// the most there was; 0 where the system does not tell.
pub fn memory_kib(what: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
