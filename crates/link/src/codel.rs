//! CoDel: drops at the head of a queue by the time that packets waited in it (RFC 8289).

/// Acceptable standing delay (RFC 8289, section 4.2).
const TARGET_NS: u64 = 5_000_000;
/// A worst-case round trip of the paths that it is for (RFC 8289, section 4.3).
const INTERVAL_NS: u64 = 100_000_000;
/// With no more than this in the queue nothing is dropped (RFC 8289, section 4.4): the MTU.
const MTU: u64 = 1_500;

/// The state of the control law.
#[derive(Debug, Clone, Default)]
pub(crate) struct CoDel {
    /// Time at which the delay will have been above the target for an interval.
    first_above_ns: Option<u64>,
    drop_next_ns: u64,
    /// Drops since dropping began.
    count: u64,
    last_count: u64,
    is_dropping: bool,
}

impl CoDel {
    /// Whether the packet at the head is dropped, which waited for `sojourn_ns`; `waiting_bytes` stay behind it. Asked
    /// again for the next packet at once when it is.
    pub(crate) fn drops(&mut self, now_ns: u64, sojourn_ns: u64, waiting_bytes: u64) -> bool {
        let is_late = self.is_above(now_ns, sojourn_ns, waiting_bytes);
        if self.is_dropping {
            if !is_late {
                self.is_dropping = false;
                return false;
            }
            if now_ns < self.drop_next_ns {
                return false;
            }
            self.count += 1;
            self.drop_next_ns = next_after(self.drop_next_ns, self.count);
            return true;
        }
        if !is_late {
            return false;
        }
        self.is_dropping = true;
        // Soon after the last time, the rate of drops that worked then is where it begins now (section 5.4).
        let delta = self.count - self.last_count;
        let is_soon = now_ns.saturating_sub(self.drop_next_ns) < 16 * INTERVAL_NS;
        self.count = if delta > 1 && is_soon { delta } else { 1 };
        self.drop_next_ns = next_after(now_ns, self.count);
        self.last_count = self.count;
        true
    }

    /// Whether the delay has been above the target for an interval.
    fn is_above(&mut self, now_ns: u64, sojourn_ns: u64, waiting_bytes: u64) -> bool {
        if sojourn_ns < TARGET_NS || waiting_bytes <= MTU {
            self.first_above_ns = None;
            return false;
        }
        let first_above_ns = *self.first_above_ns.get_or_insert(now_ns + INTERVAL_NS);
        now_ns >= first_above_ns
    }
}

/// The interval by the square root of the number of drops.
fn next_after(at_ns: u64, count: u64) -> u64 {
    at_ns + (INTERVAL_NS as f64 / (count as f64).sqrt()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Asks each millisecond from `from_ms` to `to_ms`; when it dropped, in milliseconds.
    fn drops(codel: &mut CoDel, (from_ms, to_ms): (u64, u64), sojourn_ms: u64) -> Vec<u64> {
        (from_ms..to_ms).filter(|ms| codel.drops(ms * MS, sojourn_ms * MS, 30_000)).collect()
    }

    #[test]
    fn drops_begin_after_an_interval_above_the_target_and_become_more_frequent() {
        let mut codel = CoDel::default();
        // 100 ms, and then 100 ms by the square roots of 1, 2, 3 and 4.
        assert_eq!(drops(&mut codel, (0, 450), 20), [100, 200, 271, 329, 379, 424]);
    }

    #[test]
    fn delays_below_the_target_and_a_single_packet_are_left_alone() {
        let mut codel = CoDel::default();
        assert_eq!(drops(&mut codel, (0, 1_000), 4), [0; 0]);
        assert!((0..1_000).all(|ms| !codel.drops(ms * MS, 90 * MS, MTU)));
    }

    #[test]
    fn a_delay_that_falls_ends_the_drops_and_they_begin_where_they_were() {
        let mut codel = CoDel::default();
        assert_eq!(drops(&mut codel, (0, 450), 20).len(), 6);
        assert_eq!(drops(&mut codel, (450, 500), 4), [0; 0]);
        // The count of 5 of the first time, less the 1 that it began with.
        assert_eq!(drops(&mut codel, (500, 700), 20), [600, 645, 686]);
    }
}
