//! Rate control by the gap between packets (RFC 1045 §2.5.6).

/// Longer by this after a loss, in 32nds of a packet's time. The RFC gives no size.
const LONGER_BY: u8 = 4;
/// Groups in a row without a loss after which it is one 32nd shorter. The RFC gives no rule. Four times that
/// many pay for one loss, so that a network at its limit loses packets of few groups.
const SOUND_GROUPS: u8 = 8;

/// The gap between the packets of a group, in 32nds of a packet's time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gap {
    of_32: u8,
    least: u8,
    sound: u8,
}

impl Gap {
    /// A gap of `least`, which it never falls below.
    pub(crate) fn new(least: u8) -> Self {
        Self { of_32: least, least, sound: 0 }
    }

    pub(crate) fn of_32(self) -> u8 {
        self.of_32
    }

    /// Packets of a group were dropped.
    pub(crate) fn lost(&mut self) {
        self.of_32 = self.of_32.saturating_add(LONGER_BY);
        self.sound = 0;
    }

    /// A group of several packets arrived, and none of them was sent twice.
    pub(crate) fn passed(&mut self) {
        self.sound += 1;
        if self.sound == SOUND_GROUPS {
            self.sound = 0;
            self.of_32 = self.of_32.saturating_sub(1).max(self.least);
        }
    }
}

/// The time of the next packet of a group.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pace {
    /// No packet leaves before.
    pub(crate) next_ns: u64,
    /// The packet at `next_ns` belongs to the same group as the one before it.
    is_under_way: bool,
}

/// A sender that a timer wakes this late makes up for it: the kernel's timers may be late by 50 µs
/// (`PR_SET_TIMERSLACK`), which is several packet times of a fast link.
const LATE_NS_MAX: u64 = 100_000;

impl Pace {
    /// A packet with data leaves at `now_ns`; `is_last` of its group. The next one leaves `pause_ns` later,
    /// also one of another group, or one that is sent again.
    pub(crate) fn sent(&mut self, now_ns: u64, pause_ns: u64, is_last: bool) {
        let late_ns = if self.is_under_way { now_ns.saturating_sub(self.next_ns) } else { 0 };
        let from_ns = now_ns.saturating_sub(late_ns.min(LATE_NS_MAX));
        self.next_ns = from_ns.saturating_add(pause_ns);
        self.is_under_way = !is_last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_paid_by_many_sound_groups() {
        let mut gap = Gap::new(2);
        let lengths = |gap: &mut Gap, groups| {
            (0..groups).for_each(|_| gap.passed());
            gap.of_32()
        };
        assert_eq!(lengths(&mut gap, 100), 2, "it never falls below the least");
        gap.lost();
        assert_eq!((gap.of_32(), lengths(&mut gap, 7), lengths(&mut gap, 1)), (6, 6, 5));
        (0..100).for_each(|_| gap.lost());
        assert_eq!(gap.of_32(), 255, "eight packet times, the most that the field holds");
    }

    /// When packets of 20 µs leave, by when the sender is woken: a late one makes up for 100 µs, not more.
    #[test]
    fn a_late_sender_makes_up_for_a_little() {
        let mut pace = Pace::default();
        let mut leave = |at_us: &[u64]| {
            let mut left = Vec::new();
            for now_us in at_us {
                if pace.next_ns <= now_us * 1000 {
                    pace.sent(now_us * 1000, 20_000, false);
                    left.push(*now_us);
                }
            }
            left
        };
        assert_eq!(leave(&[1000, 1000, 1010, 1060, 1060, 1060]), [1000, 1060, 1060, 1060]);
        assert_eq!(leave(&[9000; 10]), [9000; 6]);
        pace.sent(20_000_000, 20_000, true);
        pace.sent(40_000_000, 20_000, false);
        assert_eq!(pace.next_ns, 40_020_000, "the first packet of a group is never late");
    }
}
