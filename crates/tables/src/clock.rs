//! The wall clock of a trace.

use sockscope_trace::Meta;

/// Relation of a trace's clock to the time since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WallClock {
    /// Nanoseconds to add; `None` where the trace has no reading of both clocks, as one of the model.
    offset_ns: Option<i64>,
}

impl WallClock {
    /// By the first reading of both clocks. A step of the wall clock during the recording does not show.
    pub fn of(meta: &Meta) -> Self {
        let reading = meta.clock.first().filter(|reading| reading.realtime_ns > 0);
        Self { offset_ns: reading.and_then(|it| i64::try_from(it.offset_ns()).ok()) }
    }

    /// Nanoseconds to add to a time of the trace; `None` where that is unknown.
    pub fn offset_ns(self) -> Option<i64> {
        self.offset_ns
    }

    /// Nanoseconds since 1970 at a time of the trace; `None` where that is unknown or beyond the year 2262.
    pub fn at(self, at_ns: u64) -> Option<i64> {
        i64::try_from(at_ns).ok()?.checked_add(self.offset_ns?)
    }
}

#[cfg(test)]
mod tests {
    use sockscope_trace::ClockSnapshot;

    use super::*;

    fn clock(monotonic_ns: u64, realtime_ns: u64) -> WallClock {
        let clock = vec![ClockSnapshot::new(monotonic_ns, realtime_ns)];
        WallClock::of(&Meta { clock, ..Meta::default() })
    }

    #[test]
    fn a_time_has_the_offset_of_the_first_reading() {
        assert_eq!(clock(100, 1_700).at(150), Some(1_750));
        assert_eq!(clock(1_700, 100).at(150), Some(-1_450));
    }

    #[test]
    fn a_trace_without_a_reading_has_no_wall_clock() {
        assert_eq!(WallClock::of(&Meta::default()).at(150), None);
        assert_eq!(clock(100, 0).at(150), None, "the model reads no wall clock");
        assert_eq!(clock(100, 1_700).at(u64::MAX), None);
    }
}
