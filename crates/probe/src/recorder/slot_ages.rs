//! Connections that end by their age: which slots of the probes' table are looked at next.
//!
//! A connection without a socket on this host has no event that ends it. The probes give its slot back when
//! it had no packet for long; the recorder asks them to, for a part of the table at a time.

use std::time::Duration;

use super::source::RawSource;
use crate::layout::FLOW_SLOTS;

/// A connection of which no socket here is known is over after this time without a packet: longer than
/// `connect()` tries (127 s, `tcp_syn_retries`).
const IDLE: Duration = Duration::from_secs(150);
/// The decoder's own limit, where the event of the end was missed.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(180);
/// Slots whose age is looked at together, and how often.
const SLOTS_AT_ONCE: u32 = 2_048;
const EVERY: Duration = Duration::from_millis(100);

/// The next slots to look at, and the time of the last look.
pub(super) struct SlotAges {
    next: u32,
    looked_ns: u64,
}

impl SlotAges {
    pub(super) fn new(now_ns: u64) -> Self {
        Self { next: 0, looked_ns: now_ns }
    }

    /// Ends connections that are too old, some slots at a time.
    pub(super) fn look(&mut self, source: &mut impl RawSource) {
        let now_ns = source.now_ns();
        if let Some(from) = self.due(now_ns) {
            source.expire(from, SLOTS_AT_ONCE, IDLE.as_nanos() as u64);
        }
    }

    /// The first of the slots to look at, if it is time to.
    fn due(&mut self, now_ns: u64) -> Option<u32> {
        if now_ns.saturating_sub(self.looked_ns) < EVERY.as_nanos() as u64 {
            return None;
        }
        let from = self.next;
        *self = Self { next: (from + SLOTS_AT_ONCE) % FLOW_SLOTS, looked_ns: now_ns };
        Some(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_its_turn_and_none_before_its_time() {
        let every = EVERY.as_nanos() as u64;
        let mut ages = SlotAges::new(0);
        assert_eq!(ages.due(every - 1), None);
        let looks = (1..=u64::from(FLOW_SLOTS / SLOTS_AT_ONCE) + 1).map(|look| look * every);
        let first: Vec<u32> = looks.filter_map(|now_ns| ages.due(now_ns)).collect();
        assert!(first.windows(2).take(31).all(|pair| pair[1] == pair[0] + SLOTS_AT_ONCE));
        assert_eq!(first.last(), Some(&0), "the table begins anew");
    }
}
