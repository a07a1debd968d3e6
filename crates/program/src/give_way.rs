//! A recorder that gives way: the programs that it records have the CPU first, for as long as it loses nothing by that.
//!
//! A thread of real-time priority takes the CPU from a server in the middle of an answer, and so does an ordinary one
//! that wakes up. With `SCHED_IDLE` the recorder's threads run in the time that is left. A guard with real-time
//! priority raises them: where the lists or the rings fill, or a thread was not on for some time, until it has caught
//! up.
//!
//! The guard takes the CPU from a server as well. A look every 25 ms is one of a hundred requests where there are 4,000 a
//! second, and makes their p99 1.7 times as long. So the guard waits for an alarm, which the recorder puts off each time
//! it has looked at the lists. The alarm rings where the recorder is late, or finds a reason.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use sockscope_probe::{Backlog, Class, Priority, Thread, monotonic_ns};

/// After the recorder looked. It looks again within 40 ms where it gets the CPU, and the heaviest traffic fills a list of
/// the usual size in 80 ms.
const LOOK_AFTER: Duration = Duration::from_millis(55);
/// While the recorder is late, and while a thread is raised.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// Part of a list: a list of the usual size is filled by so much in 10 ms of the heaviest traffic.
const FULL: f64 = 0.125;
/// Since its last look at the lists: analyses take the records of 250 ms ago for complete.
const RECORDER_LATE_NS: u64 = 120_000_000;
/// The same of the thread that takes them: its messages wait in memory.
const USER_LATE_NS: u64 = 250_000_000;
/// A thread that was raised stays so for this time: each change is a call to the kernel.
const STAYS_NS: u64 = 200_000_000;

/// When a thread was last on.
#[derive(Debug, Default)]
struct Pulse(AtomicU64);

impl Pulse {
    fn beat(&self, now_ns: u64) {
        self.0.store(now_ns, Ordering::Relaxed);
    }

    fn is_late(&self, now_ns: u64, late_ns: u64) -> bool {
        now_ns.saturating_sub(self.0.load(Ordering::Relaxed)) > late_ns
    }
}

/// A timer of the kernel's that wakes the guard, unless it is put off in time.
#[derive(Debug)]
struct Alarm {
    timer: OwnedFd,
    /// The guard is to end: each setting of the timer makes it ring.
    is_over: AtomicBool,
}

impl Alarm {
    fn new() -> rustix::io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        Ok(Self { timer, is_over: AtomicBool::new(false) })
    }

    /// It rings after this part of a second and not before; after 0, at once.
    fn put_off(&self, by: Duration) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ns = if self.is_over.load(Ordering::Relaxed) { 0 } else { by.subsec_nanos() };
        // 0 would turn it off.
        let it_value = Timespec { tv_sec: 0, tv_nsec: ns.max(1).into() };
        let once = Itimerspec { it_interval: zero, it_value };
        // Fails only for a time out of its range.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
    }

    /// Waits until it rings.
    fn wait(&self) {
        // A signal may end the read early: the guard then looks once more than it needs to.
        let _ = rustix::io::read(&self.timer, &mut [0; 8]);
    }
}

/// The last times at which the threads were on, and the alarm of their guard.
#[derive(Debug, Default)]
pub struct Pulses {
    /// Of the recorder.
    looked: Pulse,
    /// Of the thread that uses its records.
    took: Pulse,
    /// Set with the guard.
    alarm: OnceLock<Arc<Alarm>>,
}

impl Pulses {
    /// The recorder looked at the lists.
    pub fn looked(&self, backlog: &Backlog) {
        let now_ns = monotonic_ns();
        self.looked.beat(now_ns);
        if let Some(alarm) = self.alarm.get() {
            alarm.put_off(self.rest(now_ns, backlog.fullest()));
        }
    }

    /// The time until the guard is to look.
    fn rest(&self, now_ns: u64, fullest: f64) -> Duration {
        let is_needed = self.took.is_late(now_ns, USER_LATE_NS) || fullest >= FULL;
        if is_needed { Duration::ZERO } else { LOOK_AFTER }
    }

    /// The other thread takes the records that there are.
    pub fn took(&self) {
        self.took.beat(monotonic_ns());
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
    alarm: Arc<Alarm>,
    thread: Option<JoinHandle<()>>,
}

impl Guard {
    /// Lowers the classes of both threads and begins to look at them; `None` where this process may not raise them again.
    pub fn start(
        backlog: Backlog,
        recorder: Thread,
        user: Thread,
        pulses: Arc<Pulses>,
    ) -> Option<Self> {
        let alarm = Arc::new(Alarm::new().ok()?);
        // A recorder has one guard.
        pulses.alarm.set(Arc::clone(&alarm)).ok()?;
        let rings = Arc::clone(&alarm);
        let (started, is_started) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("guard".to_owned());
        let thread = thread.spawn(move || {
            let priority = Priority::raise();
            let _ = started.send(priority.is_real_time());
            if !priority.is_real_time() {
                return;
            }
            let mut wards =
                [Ward::new(recorder, Class::RealTime), Ward::new(user, Class::Ordinary)];
            for ward in &wards {
                let _ = ward.thread.set_class(Class::Idle);
            }
            loop {
                match wards.iter().any(|ward| ward.raised_ns.is_some()) {
                    true => std::thread::sleep(LOOK_EVERY),
                    false => rings.wait(),
                }
                if rings.is_over.load(Ordering::Relaxed) {
                    break;
                }
                // Until the recorder puts it off.
                rings.put_off(LOOK_EVERY);
                let now_ns = monotonic_ns();
                let is_behind = pulses.looked.is_late(now_ns, RECORDER_LATE_NS);
                wards[0].look(now_ns, is_behind || backlog.fullest() >= FULL);
                wards[1].look(now_ns, pulses.took.is_late(now_ns, USER_LATE_NS));
            }
            for ward in &wards {
                let _ = ward.thread.set_class(ward.raised);
            }
        });
        let thread = thread.ok()?;
        alarm.put_off(LOOK_AFTER);
        let guard = Self { alarm, thread: Some(thread) };
        is_started.recv().is_ok_and(|is_real_time| is_real_time).then_some(guard)
    }
}

impl Drop for Guard {
    /// Both threads have their classes from before: at the end each is needed.
    fn drop(&mut self) {
        self.alarm.is_over.store(true, Ordering::Relaxed);
        self.alarm.put_off(Duration::ZERO);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

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
        let now_ns = monotonic_ns();
        pulse.beat(now_ns);
        assert!(!pulse.is_late(now_ns, RECORDER_LATE_NS));
        assert!(pulse.is_late(now_ns + 2 * RECORDER_LATE_NS, RECORDER_LATE_NS));
    }

    #[test]
    fn the_guard_rests_while_the_lists_are_nearly_empty_and_both_threads_are_on() {
        let pulses = Pulses::default();
        let now_ns = monotonic_ns();
        pulses.took.beat(now_ns);
        let late_ns = now_ns + 2 * USER_LATE_NS;
        // now, part of the fullest list, time until the next look
        for (at_ns, fullest, expected) in [
            (now_ns, 0.01, LOOK_AFTER),
            (now_ns, 0.5, Duration::ZERO),
            (late_ns, 0.01, Duration::ZERO),
        ] {
            assert_eq!(pulses.rest(at_ns, fullest), expected, "{fullest} full at {at_ns}");
        }
    }

    /// Whether it rings within a time that is much longer than that of any alarm.
    fn rings(alarm: &Alarm) -> bool {
        let mut wait = [PollFd::new(&alarm.timer, PollFlags::IN)];
        poll(&mut wait, Some(&Timespec { tv_sec: 10, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn an_alarm_rings_and_is_not_put_off_once_the_guard_is_to_end() {
        let alarm = Alarm::new().unwrap();
        alarm.put_off(Duration::ZERO);
        assert!(rings(&alarm));
        alarm.wait();
        alarm.is_over.store(true, Ordering::Relaxed);
        alarm.put_off(LOOK_AFTER);
        let left = rustix::time::timerfd_gettime(&alarm.timer).unwrap().it_value;
        assert!(left.tv_nsec <= 1, "{left:?}");
        assert!(rings(&alarm));
    }
}
