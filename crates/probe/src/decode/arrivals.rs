//! When data arrived for a socket that does not announce every piece of it (`SO_RCVLOWAT`).
//!
//! A segment that IP hands to TCP only claims its place in the stream: TCP has yet to look at its
//! checksum and window, and to find room for it. So it is remembered until an acknowledgment, an
//! announcement or a read shows that TCP took those bytes. Of bytes that arrived more than once only the
//! last time counts: TCP may have refused the others. Positions are bytes, times nanoseconds of the
//! trace's clock.

use std::collections::VecDeque;

/// Segments remembered of a flow, at most: later ones are in the queue when that shows.
const ARRIVALS_MAX: usize = 4_096;

/// Bytes up to `end` arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) end: u64,
    pub(super) at_ns: u64,
    pub(super) cpu: u16,
}

/// Segments that arrived in order and may not be in the receive queue yet, each end beyond the one before it.
#[derive(Default)]
pub(super) struct Arrivals(VecDeque<Arrival>);

impl Arrivals {
    /// A segment claims to begin at `start`; bytes up to `ready` are in the receive queue.
    pub(super) fn came(&mut self, start: u64, arrival: Arrival, ready: u64) {
        if arrival.end <= start.max(ready) {
            return;
        }
        while self.0.back().is_some_and(|last| last.end > start) {
            self.0.pop_back();
        }
        let top = self.0.back().map_or(ready, |last| last.end);
        if start <= top && self.0.len() < ARRIVALS_MAX {
            debug_assert!(top < arrival.end, "each end is beyond the one before it");
            self.0.push_back(arrival);
        }
    }

    /// The next one, if all its bytes are before `to`.
    pub(super) fn take_until(&mut self, to: u64) -> Option<Arrival> {
        self.0.front().filter(|first| first.end <= to)?;
        self.0.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The remembered segments from (begin, end, time of arrival), 100 bytes being ready.
    fn remembered(segments: &[(u64, u64, u64)]) -> Vec<(u64, u64)> {
        let mut arrivals = Arrivals::default();
        for &(start, end, at_ns) in segments {
            arrivals.came(start, Arrival { end, at_ns, cpu: 0 }, 100);
        }
        std::iter::from_fn(|| arrivals.take_until(u64::MAX))
            .map(|arrival| (arrival.end, arrival.at_ns))
            .collect()
    }

    #[test]
    fn what_follows_in_order_is_remembered() {
        assert_eq!(remembered(&[(100, 200, 1), (200, 300, 2)]), [(200, 1), (300, 2)]);
        assert_eq!(remembered(&[(50, 200, 1), (300, 400, 2)]), [(200, 1)]);
    }

    #[test]
    fn what_says_nothing_new_changes_nothing() {
        assert_eq!(remembered(&[(100, 200, 1), (0, 100, 2), (199, 199, 3)]), [(200, 1)]);
    }

    #[test]
    fn of_bytes_that_came_twice_the_last_time_counts() {
        assert_eq!(remembered(&[(100, 200, 1), (200, 300, 2), (100, 200, 3)]), [(200, 3)]);
        assert_eq!(
            remembered(&[(100, 900, 1), (100, 200, 2), (200, 300, 3)]),
            [(200, 2), (300, 3)]
        );
    }

    #[test]
    fn only_so_many_are_remembered() {
        let segments: Vec<_> =
            (100..100 + 2 * ARRIVALS_MAX as u64).map(|n| (n, n + 1, n)).collect();
        assert_eq!(remembered(&segments).len(), ARRIVALS_MAX);
    }

    #[test]
    fn a_part_is_no_whole() {
        let mut arrivals = Arrivals::default();
        let whole = Arrival { end: 200, at_ns: 1, cpu: 0 };
        arrivals.came(100, whole, 100);
        assert_eq!(arrivals.take_until(199), None);
        assert_eq!(arrivals.take_until(200), Some(whole));
    }
}
