//! The recorder's priority over the programs that it watches.
//!
//! A list holds the records of some tens of milliseconds of heavy traffic. The traffic's own threads use
//! every CPU, so that a recorder of their priority waits for longer than that, and records are missed.
//! It asks for the lowest real-time priority (`SCHED_RR`, 1). Niceness counts only among the threads of one
//! session or control group (sched(7), "The autogroup feature"). The recorded programs often run in another
//! one. Where the kernel refuses real-time priority, the recorder asks for niceness.
//!
//! The machine stays usable. The recorder sleeps between two polls of the lists, and a poll ends with the
//! records that were there when it began. The kernel leaves other threads their share of each CPU
//! (`sched_rt_runtime_us`, or the fair server since Linux 6.12).

use std::io;

use rustix::process::{getpriority_process, setpriority_process};

use crate::rights::Right;

/// The lowest of the real-time priorities: above all threads without one, below all others with one.
const REAL_TIME: libc::c_int = 1;
/// The highest niceness of all (setpriority(2)).
const NICE: i32 = -20;

/// The priority of this thread, raised. Dropping it restores the one before.
///
/// Threads and processes that start meanwhile inherit the priority: see [`Priority::lowered`].
#[derive(Debug)]
pub struct Priority {
    before: Scheduling,
    raised: Option<Raised>,
}

/// Which priority a thread got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Raised {
    RealTime,
    Nice,
}

/// A class of the kernel's scheduling (sched(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// `SCHED_IDLE`: every ordinary thread that wakes gets the CPU of this one at once.
    Idle,
    /// `SCHED_OTHER`.
    Ordinary,
    /// `SCHED_RR`, the lowest real-time priority.
    RealTime,
}

/// A thread of this process, whose class another one may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread(libc::pid_t);

impl Thread {
    /// The calling thread.
    pub fn current() -> Self {
        Self(rustix::thread::gettid().as_raw_nonzero().get())
    }

    /// Gives it a class.
    ///
    /// # Errors
    /// When the kernel refuses it: a higher class needs `CAP_SYS_NICE`.
    pub fn set_class(self, class: Class) -> io::Result<()> {
        let (policy, real_time) = match class {
            Class::Idle => (libc::SCHED_IDLE, 0),
            Class::Ordinary => (libc::SCHED_OTHER, 0),
            Class::RealTime => (libc::SCHED_RR, REAL_TIME),
        };
        set_policy_of(self.0, policy, real_time)
    }
}

/// The kernel's scheduling of this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scheduling {
    policy: libc::c_int,
    real_time: libc::c_int,
    nice: i32,
}

impl Priority {
    /// Raises it as far as the kernel lets this process.
    pub fn raise() -> Self {
        let before = Scheduling::now();
        let raised = if before.is_real_time() || set_policy(libc::SCHED_RR, REAL_TIME).is_ok() {
            Some(Raised::RealTime)
        } else {
            set_nice(NICE).is_ok().then_some(Raised::Nice)
        };
        Self { before, raised }
    }

    /// Whether this thread has priority over ordinary ones.
    pub fn is_raised(&self) -> bool {
        self.raised.is_some()
    }

    /// Whether it has a real-time priority, which counts over the threads of all sessions and control groups.
    pub fn is_real_time(&self) -> bool {
        self.raised == Some(Raised::RealTime)
    }

    /// Does `work` with the earlier priority, which processes and threads that it starts inherit.
    pub fn lowered<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.restore();
        let done = work();
        *self = Self::raise();
        done
    }

    fn restore(&mut self) {
        // Every thread may lower its priority (sched(7)), so that a failure leaves nothing to do.
        let _ = match self.raised.take() {
            Some(Raised::RealTime) => set_policy(self.before.policy, self.before.real_time),
            Some(Raised::Nice) => set_nice(self.before.nice),
            None => Ok(()),
        };
    }

    /// The right by which a recorder gets priority, and whether this process has it.
    pub fn right() -> Right {
        Right {
            name: "CAP_SYS_NICE",
            needed_for: "no missed records on a busy machine: the recorder's priority",
            held: Self::raise().is_raised(),
        }
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        self.restore();
    }
}

impl Scheduling {
    fn now() -> Self {
        let mut parameter = libc::sched_param { sched_priority: 0 };
        // libc, as rustix does not have these calls.
        // SAFETY: plain system calls about this thread; one of them fills a structure of ours.
        let policy = unsafe {
            libc::sched_getparam(0, &raw mut parameter);
            libc::sched_getscheduler(0)
        };
        // Linux reads a process of 0 as this thread. The call does not fail for it.
        let nice = getpriority_process(None).unwrap_or(0);
        Self { policy, real_time: parameter.sched_priority, nice }
    }

    /// Whether the user gave this thread such a priority: it stays as it is.
    fn is_real_time(self) -> bool {
        self.real_time > 0
    }
}

fn set_policy(policy: libc::c_int, real_time: libc::c_int) -> io::Result<()> {
    set_policy_of(0, policy, real_time)
}

/// Of a thread by its number; 0 is this one.
fn set_policy_of(
    thread: libc::pid_t,
    policy: libc::c_int,
    real_time: libc::c_int,
) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: real_time };
    // libc, as rustix does not have this call.
    // SAFETY: a structure that lives through the call.
    let result = unsafe { libc::sched_setscheduler(thread, policy, &raw const parameter) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_nice(nice: i32) -> io::Result<()> {
    // Linux reads a process of 0 as this thread.
    Ok(setpriority_process(None, nice)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a thread of its own, as the priority is a thread's.
    fn on_a_thread(check: impl FnOnce() + Send + 'static) {
        std::thread::spawn(check).join().expect("the check holds");
    }

    #[test]
    fn a_raised_thread_is_above_ordinary_ones_and_goes_back_to_where_it_was() {
        on_a_thread(|| {
            // Lowering it is everybody's right.
            set_nice(7).expect("it is lower");
            let before = Scheduling::now();
            assert_eq!((before.policy, before.real_time, before.nice), (libc::SCHED_OTHER, 0, 7));
            let mut priority = Priority::raise();
            assert_eq!(priority.lowered(Scheduling::now), before);
            let now = Scheduling::now();
            let is_above = now.is_real_time() || now.nice == NICE;
            assert_eq!((priority.is_raised(), now != before), (is_above, is_above), "{now:?}");
            drop(priority);
            assert_eq!(Scheduling::now(), before);
        });
    }

    #[test]
    fn another_thread_lowers_a_class_and_raises_it_again() {
        let (send, thread) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            send.send(Thread::current()).expect("it is received");
            let _ = ended.recv();
            Scheduling::now().policy
        });
        let thread = thread.recv().expect("it runs");
        thread.set_class(Class::Idle).expect("every thread may lower its class");
        let is_raised = thread.set_class(Class::RealTime).is_ok();
        drop(end);
        let policy = other.join().expect("it ends");
        assert_eq!(policy, if is_raised { libc::SCHED_RR } else { libc::SCHED_IDLE });
    }

    #[test]
    fn a_real_time_priority_of_the_user_s_own_stays() {
        on_a_thread(|| {
            // Without the right to such a priority the test has nothing to keep.
            if set_policy(libc::SCHED_FIFO, 3).is_err() {
                return;
            }
            let before = Scheduling::now();
            let priority = Priority::raise();
            assert!(priority.is_raised());
            assert_eq!(Scheduling::now(), before);
            drop(priority);
            assert_eq!(Scheduling::now(), before);
        });
    }
}
