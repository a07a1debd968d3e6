//! A recorder that gives way: the programs that it records have the CPU first, for as long as it loses nothing by that.
//!
//! A thread of real-time priority takes the CPU from a server in the middle of an answer, and so does an ordinary one
//! that wakes up. With `SCHED_IDLE` the recorder's threads run in the time that is left. A guard with real-time
//! priority looks at them: where the lists or the rings fill, or a thread was not on for some time, it raises that
//! thread until it has caught up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use sockscope_probe::{Backlog, Class, Priority, Thread, monotonic_ns};

const LOOK_EVERY: Duration = Duration::from_millis(25);
/// Part of a list: a list of the usual size is filled by so much in 10 ms of the heaviest traffic, and in 25 ms by a third.
const FULL: f64 = 0.125;
/// Since its last look at the lists: analyses take the records of 250 ms ago for complete.
const RECORDER_LATE_NS: u64 = 120_000_000;
/// The same of the thread that takes them: its messages wait in memory.
const USER_LATE_NS: u64 = 250_000_000;
/// A thread that was raised stays so for this time: each change is a call to the kernel.
const STAYS_NS: u64 = 200_000_000;

/// When a thread was last on.
#[derive(Debug, Clone, Default)]
pub struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// It is on now.
    pub fn beat(&self) {
        self.0.store(monotonic_ns(), Ordering::Relaxed);
    }

    fn is_late(&self, now_ns: u64, late_ns: u64) -> bool {
        now_ns.saturating_sub(self.0.load(Ordering::Relaxed)) > late_ns
    }
}

/// A thread that gives way.
#[derive(Debug)]
struct Ward {
    thread: Thread,
    raised: Class,
    /// `None` while it is not raised.
    raised_ns: Option<u64>,
}

impl Ward {
    fn new(thread: Thread, raised: Class) -> Self {
        Self { thread, raised, raised_ns: None }
    }

    /// The class to set now. While it is raised, again at each look: it may have changed its class itself.
    fn next(&mut self, now_ns: u64, is_needed: bool) -> Option<Class> {
        if is_needed {
            self.raised_ns = Some(now_ns);
            return Some(self.raised);
        }
        let since_ns = self.raised_ns?;
        if now_ns.saturating_sub(since_ns) < STAYS_NS {
            return None;
        }
        self.raised_ns = None;
        Some(Class::Idle)
    }

    fn look(&mut self, now_ns: u64, is_needed: bool) {
        if let Some(class) = self.next(now_ns, is_needed) {
            // A thread that ended has no class.
            let _ = self.thread.set_class(class);
        }
    }
}

/// The guard of a recorder's thread and of the thread that uses its records. Dropping it ends the guard; the threads
/// keep their classes.
#[derive(Debug)]
pub struct Guard {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Guard {
    /// Lowers the classes of both threads and begins to look at them; `None` where this process may not raise them again.
    pub fn start(
        backlog: Backlog,
        recorder: (Thread, Pulse),
        user: (Thread, Pulse),
    ) -> Option<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (started, is_started) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("guard".to_owned());
        let thread = thread.spawn(move || {
            let priority = Priority::raise();
            let _ = started.send(priority.is_real_time());
            if !priority.is_real_time() {
                return;
            }
            let mut wards =
                [Ward::new(recorder.0, Class::RealTime), Ward::new(user.0, Class::Ordinary)];
            for ward in &wards {
                let _ = ward.thread.set_class(Class::Idle);
            }
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK_EVERY);
                let now_ns = monotonic_ns();
                let is_behind = recorder.1.is_late(now_ns, RECORDER_LATE_NS);
                wards[0].look(now_ns, is_behind || backlog.fullest() >= FULL);
                wards[1].look(now_ns, user.1.is_late(now_ns, USER_LATE_NS));
            }
            for ward in &wards {
                let _ = ward.thread.set_class(ward.raised);
            }
        });
        let thread = thread.ok()?;
        let guard = Self { stop, thread: Some(thread) };
        is_started.recv().is_ok_and(|is_real_time| is_real_time).then_some(guard)
    }
}

impl Drop for Guard {
    /// Both threads have their classes from before: at the end each is needed.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_raised_for_as_long_as_it_is_needed_and_a_moment_more() {
        let mut ward = Ward::new(Thread::current(), Class::RealTime);
        const MS: u64 = 1_000_000;
        //  milliseconds, is it needed, class to set
        let table = [
            (5, false, None),
            (10, true, Some(Class::RealTime)),
            (15, true, Some(Class::RealTime)),
            (20, false, None),
            (210, true, Some(Class::RealTime)),
            (400, false, None),
            (410, false, Some(Class::Idle)),
            (415, false, None),
            (420, true, Some(Class::RealTime)),
        ];
        for (at_ms, is_needed, expected) in table {
            assert_eq!(ward.next(at_ms * MS, is_needed), expected, "at {at_ms} ms");
        }
    }

    #[test]
    fn a_thread_that_is_not_on_is_late() {
        let pulse = Pulse::default();
        pulse.beat();
        let now_ns = monotonic_ns();
        assert!(!pulse.is_late(now_ns, RECORDER_LATE_NS));
        assert!(pulse.is_late(now_ns + 2 * RECORDER_LATE_NS, RECORDER_LATE_NS));
    }
}
