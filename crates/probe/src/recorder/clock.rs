//! The records' clock, and its offset from the scheduler's clock.

use std::collections::VecDeque;

use rustix::time::{ClockId, clock_gettime};

/// Readings of the scheduler's clock; the best one counts.
const READINGS: usize = 64;

/// `CLOCK_MONOTONIC`, the clock of the records.
pub fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// The time of a clock. A thread's own CPU time is one, too.
pub(crate) fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The offset between the two clocks, from readings that are each too large by the time since the
/// reading thread got its CPU.
#[derive(Default)]
pub(super) struct Calibration {
    readings: VecDeque<i64>,
}

impl Calibration {
    /// The best offset in nanoseconds after one more reading: the least of the last ones. Clocks drift, so
    /// that older ones do not count.
    pub(super) fn add(&mut self, reading_ns: i64) -> i64 {
        if self.readings.len() == READINGS {
            self.readings.pop_front();
        }
        self.readings.push_back(reading_ns);
        self.readings.iter().copied().min().unwrap_or(reading_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_the_last_readings_is_the_offset() {
        let mut calibration = Calibration::default();
        assert_eq!([7, 5, 9].map(|reading_ns| calibration.add(reading_ns)), [7, 5, 5]);
        let later: Vec<i64> = (0..READINGS).map(|_| calibration.add(8)).collect();
        assert_eq!(later.first(), Some(&5));
        assert_eq!(later.last(), Some(&8), "an old reading does not count for ever");
    }

    #[test]
    fn the_clock_of_the_records_does_not_run_backwards() {
        let before_ns = monotonic_ns();
        assert!(before_ns > 0 && monotonic_ns() >= before_ns);
    }
}
