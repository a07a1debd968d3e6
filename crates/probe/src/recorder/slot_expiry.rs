//! Expiry of connections that have no packet for long, by slots of the probes' table.
//!
//! A connection without a socket on this host has no event that ends it. The recorder asks the probes to free
//! the slots of such connections, for a part of the table at a time. The same request frees those of connections that
//! the share has no more: also of one that opened while the share fell.

use std::time::Duration;

use super::source::RawSource;
use crate::layout::FLOW_SLOTS;

/// A connection without a known socket here is over after this time without a packet: longer than
/// `connect()` tries (127 s, `tcp_syn_retries`).
const IDLE: Duration = Duration::from_secs(150);
/// The decoder's own limit, where the event of the end was missed.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(180);
/// Slots of one request, and the time between two requests: each slot every 26 s. A request of 2,048 slots
/// took up to 0.1 ms. A kernel without preemption lets no other thread run on that CPU meanwhile.
const SLOTS_AT_ONCE: u32 = 256;
const EVERY: Duration = Duration::from_millis(100);

/// The next slots, and the time of the last request.
pub(super) struct SlotExpiry {
    next: u32,
    polled_ns: u64,
}

impl SlotExpiry {
    pub(super) fn new(now_ns: u64) -> Self {
        Self { next: 0, polled_ns: now_ns }
    }

    /// Ends connections that are too old in the next slots, if it is time to.
    pub(super) fn poll(&mut self, source: &mut impl RawSource) {
        let now_ns = source.now_ns();
        if let Some(from) = self.due(now_ns) {
            source.expire(from, SLOTS_AT_ONCE, IDLE.as_nanos() as u64);
        }
    }

    /// Looks at all slots at once: the share has changed.
    pub(super) fn sweep(&self, source: &mut impl RawSource) {
        for from in (0..FLOW_SLOTS).step_by(SLOTS_AT_ONCE as usize) {
            source.expire(from, SLOTS_AT_ONCE, IDLE.as_nanos() as u64);
        }
    }

    /// The first of the next slots, if it is time to.
    fn due(&mut self, now_ns: u64) -> Option<u32> {
        if now_ns.saturating_sub(self.polled_ns) < EVERY.as_nanos() as u64 {
            return None;
        }
        let from = self.next;
        *self = Self { next: (from + SLOTS_AT_ONCE) % FLOW_SLOTS, polled_ns: now_ns };
        Some(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_its_turn_and_none_before_its_time() {
        let every = EVERY.as_nanos() as u64;
        let mut expiry = SlotExpiry::new(0);
        assert_eq!(expiry.due(every - 1), None);
        let looks = (1..=u64::from(FLOW_SLOTS / SLOTS_AT_ONCE) + 1).map(|look| look * every);
        let first: Vec<u32> = looks.filter_map(|now_ns| expiry.due(now_ns)).collect();
        assert!(first.windows(2).take(255).all(|pair| pair[1] == pair[0] + SLOTS_AT_ONCE));
        assert_eq!(first.last(), Some(&0), "the table begins anew");
    }
}
