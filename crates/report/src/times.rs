//! When something happened: seconds after the trace's first record, and the wall clock where that is asked for.

use sockscope_render::number::since;
use sockscope_render::wall_clock;

/// The wall clock at one time of the trace's clock. Both run at the same rate, as far as a report shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallClock {
    /// A time on the trace's clock, nanoseconds.
    pub trace_ns: u64,
    /// The same time in nanoseconds since 1970-01-01 00:00:00 UTC.
    pub realtime_ns: u64,
}

impl WallClock {
    /// The wall clock at another time of the trace's clock; 1970 for earlier times.
    pub fn at(self, trace_ns: u64) -> u64 {
        let after = i128::from(trace_ns) - i128::from(self.trace_ns);
        u64::try_from(i128::from(self.realtime_ns) + after).unwrap_or_default()
    }
}

/// The form of times in a report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    start_ns: u64,
    wall_clock: Option<WallClock>,
}

impl Times {
    pub(crate) fn new(start_ns: u64, wall_clock: Option<WallClock>) -> Self {
        Self { start_ns, wall_clock }
    }

    /// As `+1.203412 s`, or `+1.203412 s 08:45:13.203412`.
    pub(crate) fn at(self, at_ns: u64) -> String {
        let since = since(self.start_ns, at_ns);
        match self.wall_clock {
            None => since,
            Some(clock) => format!("{since} {}", wall_clock::time(clock.at(at_ns))),
        }
    }
}

const NS_PER_US: u64 = 1_000;
const US_PER_S: u64 = 1_000_000;

impl Times {
    /// The options of a command that select the time between two times, as `--from 1.203412 --to 1.203413`.
    pub(crate) fn window(self, from_ns: u64, to_ns: u64) -> String {
        let seconds = |us: u64| format!("{}.{:06}", us / US_PER_S, us % US_PER_S);
        let from_us = from_ns.saturating_sub(self.start_ns) / NS_PER_US;
        let to_us = to_ns.saturating_sub(self.start_ns).div_ceil(NS_PER_US);
        format!("--from {} --to {}", seconds(from_us), seconds(to_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_stands_behind_the_time_where_it_is_asked_for() {
        let second = 1_000_000_000;
        // 2026-11-23 08:45:12 UTC.
        let clock = WallClock { trace_ns: 5 * second, realtime_ns: 1_795_423_512 * second };
        let times = |wall_clock| Times::new(6 * second, wall_clock);
        let at_ns = 7 * second + 203_412_900;
        assert_eq!(times(None).at(at_ns), "+1.203412 s");
        assert_eq!(times(Some(clock)).at(at_ns), "+1.203412 s 08:45:14.203412");
        let at_ns = at_ns + 1;
        assert_eq!(times(None).window(at_ns, at_ns), "--from 1.203412 --to 1.203413");
        assert_eq!(clock.at(4 * second), 1_795_423_511 * second);
        assert_eq!(WallClock { trace_ns: u64::MAX, realtime_ns: 0 }.at(0), 0);
    }
}
