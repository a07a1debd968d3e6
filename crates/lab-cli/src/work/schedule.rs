//! When to send the next message: by a schedule, or at once.

use rustix::thread::{Timespec, clock_nanosleep_absolute};
use rustix::time::ClockId;
use sockscope_link::{Interval, Lateness, now_ns};

const SECOND_NS: u64 = 1_000_000_000;

/// A schedule. Its times do not depend on answers: a late one does not delay the planned times of others, so that
/// waiting before a send counts as latency.
#[derive(Debug)]
pub struct Schedule {
    /// Between two messages; `None`: each at once.
    every: Option<Interval>,
    next_ns: u64,
    /// How much later than planned messages were sent.
    lateness: Lateness,
}

impl Schedule {
    /// Begins now.
    pub fn new(every: Option<Interval>) -> Self {
        Self { every, next_ns: now_ns(), lateness: Lateness::default() }
    }

    /// Waits until the next message is to be sent: its planned time.
    pub fn wait(&mut self) -> u64 {
        let Some(every) = self.every else { return now_ns() };
        let planned_ns = self.next_ns;
        self.next_ns += every.0;
        sleep_until(planned_ns);
        self.lateness.add(now_ns().saturating_sub(planned_ns));
        planned_ns
    }

    /// The time until the next message, nanoseconds; `None` where it is to be sent now.
    pub fn left_ns(&self) -> Option<u64> {
        self.every?;
        self.next_ns.checked_sub(now_ns()).filter(|left_ns| *left_ns > 0)
    }

    /// The interval and the lateness; `None` without a schedule.
    pub fn kept(&self) -> Option<(Interval, &Lateness)> {
        self.every.map(|every| (every, &self.lateness))
    }
}

fn sleep_until(time_ns: u64) {
    let time = Timespec {
        tv_sec: (time_ns / SECOND_NS).cast_signed(),
        tv_nsec: (time_ns % SECOND_NS).cast_signed(),
    };
    while now_ns() < time_ns {
        // A signal interrupts the sleep; the loop goes on with it.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &time);
    }
}

/// Uses the CPU for so long, by this thread's own CPU time.
pub fn compute(time: Interval) {
    if time.0 == 0 {
        return;
    }
    let used_ns = || {
        let used = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
        used.tv_sec.unsigned_abs() * SECOND_NS + used.tv_nsec.unsigned_abs()
    };
    let end_ns = used_ns() + time.0;
    while used_ns() < end_ns {
        std::hint::spin_loop();
    }
}

/// Sleeps for so long.
pub fn pause(time: Interval) {
    if time.0 > 0 {
        std::thread::sleep(std::time::Duration::from_nanos(time.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_message_does_not_move_the_others() {
        let mut schedule = Schedule::new(Some(Interval(2_000_000)));
        let first_ns = schedule.wait();
        std::thread::sleep(std::time::Duration::from_millis(7));
        let planned: Vec<_> = (0..4).map(|_| schedule.wait() - first_ns).collect();
        assert_eq!(planned, [2_000_000, 4_000_000, 6_000_000, 8_000_000]);
        assert!(now_ns() >= first_ns + 8_000_000, "the last one was waited for");
        let (_, lateness) = schedule.kept().unwrap();
        assert_eq!(lateness.packets(), 5);
        assert!(lateness.max_ns() >= 5_000_000, "the second was 5 ms late");
    }

    #[test]
    fn without_a_schedule_each_is_sent_at_once() {
        let mut schedule = Schedule::new(None);
        let before_ns = now_ns();
        assert!((before_ns..=now_ns() + 1_000_000).contains(&schedule.wait()));
        assert!(schedule.kept().is_none());
    }
}
