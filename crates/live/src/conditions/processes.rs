//! CPU time of processes, from `/proc/PID/stat`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde::Serialize;

/// Nanoseconds of a tick in `/proc`: USER_HZ is 100 on every architecture that Linux runs on today (proc(5)).
const TICK_NS: u64 = 10_000_000;
/// The parent of the kernel's own threads, which work for whoever uses the kernel.
const KTHREADD: u32 = 2;

/// A process that had much of a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Busy {
    /// Its number.
    pub pid: u32,
    /// Its name, as the kernel has it.
    pub comm: String,
    /// CPU time in nanoseconds, to 10 ms.
    pub cpu_ns: u64,
}

/// One line of `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stat {
    pid: u32,
    comm: String,
    parent: u32,
    /// Of all its threads, also ended ones.
    cpu_ns: u64,
    /// Since boot: tells a process from a later one of its number.
    started_ticks: u64,
}

/// All processes at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Processes {
    by_pid: BTreeMap<u32, Stat>,
}

impl Processes {
    pub(super) fn now() -> Self {
        let folders = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        let pids = folders.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        // One that ends meanwhile has no file.
        let stats = pids.filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).ok());
        Self::of(stats.filter_map(|text| Stat::parse(&text)))
    }

    fn of(stats: impl Iterator<Item = Stat>) -> Self {
        Self { by_pid: stats.map(|stat| (stat.pid, stat)).collect() }
    }

    /// What processes other than `own` and those that it started had of the CPUs since `before`, the busiest first.
    /// The kernel's threads are not among them.
    pub(super) fn others_since(&self, before: &Self, own: u32) -> Vec<Busy> {
        let family = self.family(own);
        let others = self.by_pid.values().filter(|stat| !family.contains(&stat.pid));
        let others = others.filter(|stat| stat.parent != KTHREADD && stat.pid != KTHREADD);
        let mut busy: Vec<Busy> = others
            .filter_map(|stat| {
                let is_it = |old: &&Stat| old.started_ticks == stat.started_ticks;
                let old_ns = before.by_pid.get(&stat.pid).filter(is_it).map_or(0, |old| old.cpu_ns);
                let cpu_ns = stat.cpu_ns.saturating_sub(old_ns);
                (cpu_ns > 0).then(|| Busy { pid: stat.pid, comm: stat.comm.clone(), cpu_ns })
            })
            .collect();
        busy.sort_by_key(|one| (std::cmp::Reverse(one.cpu_ns), one.pid));
        busy
    }

    /// A process and all that descend from it.
    fn family(&self, first: u32) -> BTreeSet<u32> {
        let mut family = BTreeSet::from([first]);
        loop {
            let is_new =
                |stat: &&Stat| family.contains(&stat.parent) && !family.contains(&stat.pid);
            let children: Vec<u32> =
                self.by_pid.values().filter(is_new).map(|stat| stat.pid).collect();
            if children.is_empty() {
                return family;
            }
            family.extend(children);
        }
    }
}

impl Stat {
    /// The name stands in parentheses, and may have any character but 0 in it (proc(5)).
    fn parse(text: &str) -> Option<Self> {
        let (pid, rest) = text.split_once(" (")?;
        let (comm, rest) = rest.rsplit_once(") ")?;
        // From `state` on, the third field.
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            pid: pid.parse().ok()?,
            comm: comm.to_owned(),
            parent: u32::try_from(field(4)?).ok()?,
            cpu_ns: (field(14)? + field(15)?) * TICK_NS,
            started_ticks: field(22)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: u32, comm: &str, parent: u32, ticks: [u64; 2], started: u64) -> Stat {
        let [user, system] = ticks;
        let text = format!(
            "{pid} ({comm}) S {parent} 1 1 0 -1 4194560 0 0 0 0 {user} {system} 0 0 20 0 1 0 {started} 0"
        );
        Stat::parse(&text).expect("it is as the kernel writes it")
    }

    #[test]
    fn a_name_may_look_like_the_end_of_a_name() {
        let odd = stat(7, "a) R 9 (b", 1, [3, 4], 5);
        assert_eq!((odd.comm.as_str(), odd.parent, odd.cpu_ns), ("a) R 9 (b", 1, 70_000_000));
    }

    #[test]
    fn family_and_kernel_threads_are_no_others_and_the_busiest_is_first() {
        let at = |ticks: u64| {
            Processes::of(
                [
                    stat(2, "kthreadd", 0, [0, 0], 0),
                    stat(3, "ksoftirqd/0", 2, [0, ticks], 0),
                    stat(10, "sockscope-lab", 1, [ticks, 0], 1),
                    stat(11, "iperf3", 10, [ticks, 0], 1),
                    stat(12, "iperf3", 11, [ticks, 0], 1),
                    stat(20, "cc1", 1, [ticks / 2, 0], 1),
                    stat(21, "sha1sum", 1, [ticks, 5], 1),
                    stat(22, "idle", 1, [7, 0], 1),
                ]
                .into_iter(),
            )
        };
        let busy = at(110).others_since(&at(100), 10);
        let words: Vec<_> =
            busy.iter().map(|one| (one.pid, one.comm.as_str(), one.cpu_ns / TICK_NS)).collect();
        assert_eq!(words, [(21, "sha1sum", 10), (20, "cc1", 5)]);
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let before = Processes::of([stat(20, "old", 1, [100, 0], 1)].into_iter());
        let after = Processes::of([stat(20, "new", 1, [30, 0], 9)].into_iter());
        assert_eq!(after.others_since(&before, 10)[0].cpu_ns, 30 * TICK_NS);
    }

    #[test]
    fn this_process_is_seen() {
        let own = std::process::id();
        assert!(Processes::now().by_pid.contains_key(&own));
    }
}
