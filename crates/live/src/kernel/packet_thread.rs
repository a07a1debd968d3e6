//! The thread of the kernel that carries packets of a CPU when there are too many for the process that was interrupted.

use std::fs;

/// ksoftirqd of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PacketThread {
    pub(super) pid: u32,
}

impl PacketThread {
    /// `None` in a PID namespace that does not have the kernel's threads.
    pub(super) fn of_cpu(cpu: usize) -> Option<Self> {
        let name = format!("ksoftirqd/{cpu}");
        let is_it = |pid: &u32| {
            let own = fs::read_to_string(format!("/proc/{pid}/comm"));
            own.is_ok_and(|own| own.trim_end() == name)
        };
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.into_iter().find(is_it).map(|pid| Self { pid })
    }

    /// Its CPU time since the kernel began, nanoseconds; `None` where the kernel does not count it.
    pub(super) fn cpu_ns(self) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.pid)).ok()?;
        first_number(&text)
    }
}

/// schedstat has the time on a CPU, the time in which it was ready and waited for one, and its turns
/// (Documentation/scheduler/sched-stats.rst).
fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_is_the_time_on_a_cpu() {
        assert_eq!(first_number("44944027098 618109383265 840691\n"), Some(44_944_027_098));
        assert_eq!(first_number(""), None);
    }

    #[test]
    fn a_cpu_that_is_not_there_has_no_thread() {
        assert_eq!(PacketThread::of_cpu(1 << 20), None);
    }
}
