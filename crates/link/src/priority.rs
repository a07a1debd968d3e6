//! The priority of the thread that carries packets: above every ordinary thread, and not at their cost.
//!
//! A packet leaves late when its thread waits for a CPU. Among ordinary threads that is several milliseconds on a busy
//! machine, with each nice value; a thread of `SCHED_FIFO` (sched(7)) waits for no ordinary thread. It must sleep now
//! and then, or the threads that are bound to its CPU never run, the kernel's own among them. The kernel then takes the
//! CPU from it for 50 ms of each second, which is worse than short sleeps of its own.

use std::mem::MaybeUninit;

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{Pid, Timespec, gettid, nanosleep};

use crate::clock::now_ns;

/// Of real time, above the recorder's 1: a record waits in a ring, and a packet that waits is late.
const REAL_TIME: libc::c_int = 2;
/// The highest of ordinary threads, where real time is refused.
const NICE: i32 = -20;
/// So long the thread runs without a sleep, and so long it sleeps then: other threads have more than the 5 % of the
/// time that the kernel keeps for them.
const RUN_NS: u64 = 1_000_000;
const PAUSE_NS: i64 = 80_000;
/// A call that took less time did not sleep.
const SLEEP_NS_MIN: u64 = 10_000;

/// The raised priority of the thread that made it. It has its earlier priority again after the drop.
pub struct Priority {
    thread: Pid,
    before: Scheduling,
    slept_ns: u64,
}

/// As sched(7) has it: the policy with its parameter, and the nice value.
#[derive(Clone, Copy)]
struct Scheduling {
    policy: libc::c_int,
    parameter: libc::sched_param,
    nice: i32,
}

impl Priority {
    /// Raises the priority of this thread as far as its rights reach. Without any it is as late as all others, which
    /// the lateness shows.
    pub fn raise() -> Self {
        let thread = gettid();
        let before = scheduling(thread);
        let _ = setpriority_process(Some(thread), NICE);
        set_policy(libc::SCHED_FIFO, libc::sched_param { sched_priority: REAL_TIME });
        Self { thread, before, slept_ns: now_ns() }
    }

    /// The thread was in a call that sleeps, from then on until now.
    pub fn slept(&mut self, from_ns: u64) {
        let now_ns = now_ns();
        if now_ns.saturating_sub(from_ns) >= SLEEP_NS_MIN {
            self.slept_ns = now_ns;
        }
    }

    /// Sleeps for a moment where the thread ran for long; whether it did.
    pub fn yield_now(&mut self) -> bool {
        let is_long = now_ns().saturating_sub(self.slept_ns) >= RUN_NS;
        if is_long {
            // Interrupted or not, others ran.
            let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: PAUSE_NS });
            self.slept_ns = now_ns();
        }
        is_long
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        set_policy(self.before.policy, self.before.parameter);
        let _ = setpriority_process(Some(self.thread), self.before.nice);
    }
}

#[allow(unsafe_code)]
fn scheduling(thread: Pid) -> Scheduling {
    let mut policy = libc::SCHED_OTHER;
    let mut parameter = MaybeUninit::<libc::sched_param>::zeroed();
    // SAFETY: both pointers are those of values of their type, and the thread is the calling one, which lives.
    let parameter = unsafe {
        libc::pthread_getschedparam(libc::pthread_self(), &raw mut policy, parameter.as_mut_ptr());
        // SAFETY: all bits zero are a priority of 0, which stands where the call failed.
        parameter.assume_init()
    };
    Scheduling { policy, parameter, nice: getpriority_process(Some(thread)).unwrap_or(0) }
}

/// Without the right to it the policy stays.
#[allow(unsafe_code)]
fn set_policy(policy: libc::c_int, parameter: libc::sched_param) {
    // SAFETY: the call reads the parameter, and the thread is the calling one, which lives.
    unsafe { libc::pthread_setschedparam(libc::pthread_self(), policy, &raw const parameter) };
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::{Duration, Instant};

    use super::*;

    fn now() -> (libc::c_int, libc::c_int, i32) {
        let Scheduling { policy, parameter, nice } = scheduling(gettid());
        (policy, parameter.sched_priority, nice)
    }

    #[test]
    fn the_thread_has_its_earlier_priority_again() {
        let before = now();
        drop(Priority::raise());
        assert_eq!(now(), before);
    }

    #[test]
    fn root_the_thread_is_above_all_ordinary_ones() {
        let test = "root_the_thread_is_above_all_ordinary_ones";
        let priority = Priority::raise();
        let raised = now();
        drop(priority);
        if raised.0 != libc::SCHED_FIFO {
            let required = std::env::var("SOCKSCOPE_LIVE").is_ok_and(|wish| wish == "1");
            assert!(!required, "real time was refused: {raised:?}");
            let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: real time was refused");
            return;
        }
        assert_eq!(raised, (libc::SCHED_FIFO, REAL_TIME, NICE));
    }

    #[test]
    fn a_thread_that_runs_for_long_sleeps() {
        let mut priority = Priority::raise();
        let run = |long: Duration| {
            let start = Instant::now();
            while start.elapsed() < long {}
        };
        run(Duration::from_nanos(RUN_NS));
        let start = Instant::now();
        assert!(priority.yield_now());
        assert!(start.elapsed() >= Duration::from_nanos(PAUSE_NS.unsigned_abs()));
        // A call that returned at once is no sleep, and one that took its time is.
        run(Duration::from_nanos(RUN_NS));
        priority.slept(now_ns());
        assert!(priority.yield_now());
        run(Duration::from_nanos(RUN_NS));
        let from_ns = now_ns();
        run(Duration::from_nanos(SLEEP_NS_MIN));
        priority.slept(from_ns);
        assert!(priority.slept_ns > from_ns);
    }
}
