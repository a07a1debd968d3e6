//! The time that processes waited for a CPU, by the scheduler: `schedstat` of each thread (proc(5)).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::answer::Answer;

/// A report may not name the wait for a CPU where the scheduler's account has less than this share of the time.
const SHARE_MIN: f64 = 0.02;

/// The waits of all threads of some processes.
pub struct RunDelay {
    waited_ms: f64,
    duration_ms: f64,
}

impl RunDelay {
    /// Watches processes until `last` ends; it may then be a zombie.
    pub fn until_ended(pids: &[u32], last: u32) -> Self {
        let since = Instant::now();
        let mut delays = BTreeMap::new();
        let first = all(pids);
        while is_running(last) {
            delays.extend(all(pids));
            thread::sleep(Duration::from_millis(20));
        }
        let waited_ns: u64 = delays
            .iter()
            .map(|(thread, ns)| ns.saturating_sub(first.get(thread).copied().unwrap_or(0)))
            .sum();
        Self {
            waited_ms: waited_ns as f64 / 1e6,
            duration_ms: since.elapsed().as_secs_f64() * 1000.0,
        }
    }

    /// The verdict is `late-wakeup` of one of the programs and costs no more than the scheduler's account has, or it
    /// names no cause and says who had the time.
    pub fn check(&self, answer: &Answer, programs: &[&str]) {
        let verdict = answer.part("verdict");
        let account = format!("{:.0} ms of {:.0} ms", self.waited_ms, self.duration_ms);
        if verdict.contains("late-wakeup") {
            let share = self.waited_ms / self.duration_ms;
            assert!(share >= SHARE_MIN, "nobody waited for a CPU: {account}\n{answer}");
            let why = answer.part("why");
            assert!(programs.iter().any(|name| why.contains(name)), "{answer}");
            let cost_ms = answer.ms_after("late-wakeup costs most: ");
            assert!(
                cost_ms <= self.waited_ms * 1.2,
                "threads waited {account} for a CPU:\n{answer}"
            );
        } else {
            assert!(verdict.contains("no known cause"), "{account} for a CPU:\n{answer}");
            assert!(programs.iter().any(|name| verdict.contains(name)), "{answer}");
        }
    }
}

/// Nanoseconds that each thread waited for a CPU since it began.
fn all(pids: &[u32]) -> BTreeMap<String, u64> {
    let threads = |pid: &u32| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        tasks.filter_map(|task| {
            let path = task.path();
            let stat = fs::read_to_string(path.join("schedstat")).ok()?;
            let waited_ns = stat.split_whitespace().nth(1)?.parse().ok()?;
            Some((path.display().to_string(), waited_ns))
        })
    };
    pids.iter().flat_map(threads).collect()
}

/// Neither gone nor a zombie.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| !rest.starts_with(" Z")))
}
