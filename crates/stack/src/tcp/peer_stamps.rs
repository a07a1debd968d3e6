//! The timestamps of one connection (RFC 1323 §4).

use super::options::TIMESTAMPS_BYTES;
use super::rules::TICKS_PER_SECOND;
use super::seq::Seq;

/// A peer's timestamp is forgotten when it has not changed for 24 days: its clock may have wrapped since
/// (RFC 1323 §4.2.3).
const FORGOTTEN_TICKS: u32 = 24 * 24 * 60 * 60 * TICKS_PER_SECOND;

/// The timestamps of one connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PeerStamps {
    /// Both SYNs had timestamps.
    pub(super) are_agreed: bool,
    /// The peer's timestamp to echo (`TS.Recent`).
    pub(super) recent: u32,
    /// When it was taken, in ticks.
    taken_at: u32,
    /// The last acknowledgment sent (`Last.ACK.sent`).
    pub(super) last_ack: Seq,
}

impl PeerStamps {
    /// Whether a segment with this timestamp is older than one that was received.
    pub(super) fn is_old(&self, value: u32, now: u32) -> bool {
        let is_known = now.wrapping_sub(self.taken_at) <= FORGOTTEN_TICKS;
        is_known && Seq(value).is_before(Seq(self.recent))
    }

    pub(super) fn take(&mut self, value: u32, now: u32) {
        self.recent = value;
        self.taken_at = now;
    }

    /// Bytes of each segment that timestamps use.
    pub(super) fn bytes(&self) -> u32 {
        if self.are_agreed { TIMESTAMPS_BYTES } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_old_across_the_wrap_and_forgotten_after_24_days() {
        let stamps = PeerStamps { are_agreed: true, recent: 3, taken_at: 100, last_ack: Seq(0) };
        let is_old = |value| stamps.is_old(value, 100);
        assert_eq!([2, 3, 4].map(is_old), [true, false, false]);
        assert_eq!([u32::MAX, 1 << 30].map(is_old), [true, false]);
        assert!(stamps.is_old(2, 100 + FORGOTTEN_TICKS));
        assert!(!stamps.is_old(2, 101 + FORGOTTEN_TICKS));
    }
}
