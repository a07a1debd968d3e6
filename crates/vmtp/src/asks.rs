//! The exchanges by which a round trip may be measured: a packet that asks for an acknowledgment (APG), and
//! the notice that answers it (RFC 1045 §4.8, §5.8). A Response measures the server's work too.

use std::collections::VecDeque;

use crate::wire::Header;

/// Questions that are remembered; more are under way only where most are lost.
const ASKS_MAX: usize = 32;

/// Questions without an answer.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    of: VecDeque<Ask>,
}

#[derive(Debug, Clone, Copy)]
struct Ask {
    transaction: u32,
    /// The number of its sending, as the notice repeats it.
    sending: u8,
    /// `None` where two packets have the same numbers: a notice cannot tell them apart.
    at_ns: Option<u64>,
    has_data: bool,
}

impl Asks {
    /// A new transaction begins.
    pub(crate) fn clear(&mut self) {
        self.of.clear();
    }

    /// A packet leaves.
    pub(crate) fn sent(&mut self, now_ns: u64, header: &Header, sending: u8) {
        if !header.control.acknowledge {
            return;
        }
        let (transaction, has_data) = (header.transaction, header.delivery != 0);
        match self.of.iter_mut().find(|ask| ask.is(transaction, sending)) {
            Some(again) => again.at_ns = None,
            None => {
                if self.of.len() == ASKS_MAX {
                    self.of.pop_front();
                }
                self.of.push_back(Ask { transaction, sending, at_ns: Some(now_ns), has_data });
            }
        }
    }

    /// A notice arrives; gives the round trip if it answers one question at once. `is_retry` reports missing
    /// data: of a group, it may be late, because its receiver waited for the rest.
    pub(crate) fn answered(
        &mut self,
        now_ns: u64,
        transaction: u32,
        sending: u8,
        is_retry: bool,
    ) -> Option<u64> {
        let at = self.of.iter().position(|ask| ask.is(transaction, sending))?;
        let ask = self.of.remove(at)?;
        let is_late = is_retry && ask.has_data;
        ask.at_ns.filter(|_| !is_late).map(|at_ns| now_ns.saturating_sub(at_ns))
    }
}

impl Ask {
    fn is(&self, transaction: u32, sending: u8) -> bool {
        self.transaction == transaction && self.sending == sending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtt::RoundTrip;
    use crate::wire::{Control, Entity};
    use proptest::prelude::*;

    fn packet(transaction: u32, acknowledge: bool, delivery: u32) -> Header {
        let control = Control { acknowledge, ..Control::default() };
        Header { control, delivery, ..Header::request(Entity(1), Entity(2), transaction) }
    }

    #[test]
    fn a_notice_measures_the_one_question_that_it_answers() {
        let mut asks = Asks::default();
        asks.sent(100, &packet(1, false, 3), 0);
        asks.sent(200, &packet(1, true, 0), 1);
        asks.sent(300, &packet(1, true, 0), 2);
        assert_eq!(asks.answered(350, 1, 0, false), None, "it did not ask");
        assert_eq!(asks.answered(350, 1, 2, true), Some(50), "the second question");
        assert_eq!(asks.answered(360, 1, 2, true), None, "a notice that was doubled");
        assert_eq!(asks.answered(390, 1, 1, false), Some(190), "the first one, which was slow");
        asks.sent(400, &packet(2, true, 3), 3);
        assert_eq!(asks.answered(500, 2, 3, true), None, "its receiver waited for data");
        asks.sent(600, &packet(2, true, 0), 4);
        asks.sent(700, &packet(2, true, 0), 4);
        assert_eq!(asks.answered(710, 2, 4, false), None, "of which of both?");
    }

    proptest! {
        /// Round trips of `least` to `most`, in any order of answers: TC2 stays within their bounds.
        #[test]
        fn the_limit_stays_within_the_bounds_of_the_round_trips(
            least in 0u64..1_000_000,
            width in 0u64..10_000_000,
            exchanges in prop::collection::vec((any::<u64>(), any::<bool>(), 0u64..1_000), 1..60),
        ) {
            let most = least + width;
            let (mut asks, mut trip, mut now_ns) = (Asks::default(), RoundTrip::default(), 0);
            let mut notices = Vec::new();
            for (number, (at, is_lost, pause_ns)) in (0u32..).zip(exchanges) {
                now_ns += pause_ns;
                asks.sent(now_ns, &packet(number / 8, true, 0), (number % 8) as u8);
                if !is_lost {
                    notices.push((now_ns + least + at % (width + 1), number));
                }
            }
            notices.sort_unstable();
            let mut measured = 0;
            for (at_ns, number) in &notices {
                // A Response in between has a time without a bound, and is not measured.
                if let Some(ns) = asks.answered(*at_ns, number / 8, (number % 8) as u8, true) {
                    prop_assert!((least..=most).contains(&ns));
                    trip.sample(ns);
                    measured += 1;
                }
            }
            let limit_ns = trip.limit_ns(0, u64::MAX);
            if measured == 0 {
                prop_assert_eq!(limit_ns, u64::MAX);
            } else {
                // Divisions round down, by less than 8 ns in all.
                let spread = width.max(most / 2) + 8;
                prop_assert!(limit_ns + 8 >= least, "{} < {}", limit_ns, least);
                prop_assert!(limit_ns <= most + 4 * spread + 8, "{} > {}", limit_ns, most);
            }
        }
    }
}
