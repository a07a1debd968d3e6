//! The transmitter of a wire: without limit, at a rate, or at the times of a trace.

use crate::opportunities::Opportunities;
use crate::quantity::Bandwidth;
use crate::settings::Settings;

/// Bytes that one opportunity sends: an Ethernet MTU, as in the traces of Mahimahi (Netravali et al., USENIX ATC 2015).
const OPPORTUNITY_BYTES: u64 = 1_500;

/// The transmitter of a wire: it sends packets one after the other.
#[derive(Debug, Clone)]
pub(crate) enum Line {
    /// Every packet at once.
    Unlimited,
    /// At a rate; it is busy until then.
    Rate { rate: Bandwidth, busy_until_ns: u64 },
    /// By a trace that begins with the first packet.
    Trace { times: Opportunities, zero_ns: Option<u64>, number: u64, left: u64, busy_until_ns: u64 },
}

impl Line {
    pub(crate) fn of(settings: &Settings) -> Self {
        match (settings.rate, &settings.trace) {
            (Some(rate), _) => Self::Rate { rate, busy_until_ns: 0 },
            (None, Some(times)) => Self::Trace {
                times: times.clone(),
                zero_ns: None,
                number: 0,
                left: OPPORTUNITY_BYTES,
                busy_until_ns: 0,
            },
            (None, None) => Self::Unlimited,
        }
    }

    /// From when on it can take the next packet.
    pub(crate) fn free_ns(&self) -> u64 {
        match self {
            Self::Unlimited => 0,
            Self::Rate { busy_until_ns, .. } | Self::Trace { busy_until_ns, .. } => *busy_until_ns,
        }
    }

    /// Sends a packet from `start_ns` on, which is not before it is free; when its last bit was sent.
    pub(crate) fn send(&mut self, start_ns: u64, bytes: u64) -> u64 {
        debug_assert!(start_ns >= self.free_ns());
        match self {
            Self::Unlimited => start_ns,
            Self::Rate { rate, busy_until_ns } => {
                let ns = (u128::from(bytes) * 8 * 1_000_000_000).div_ceil(u128::from(rate.0));
                *busy_until_ns = start_ns.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX));
                *busy_until_ns
            }
            Self::Trace { times, zero_ns, number, left, busy_until_ns } => {
                let zero_ns = *zero_ns.get_or_insert(start_ns);
                let first = times.first_at(start_ns - zero_ns);
                if first > *number {
                    // Opportunities pass unused while nothing waits.
                    (*number, *left) = (first, OPPORTUNITY_BYTES);
                }
                let mut needed = bytes;
                while needed > *left {
                    needed -= *left;
                    (*number, *left) = (*number + 1, OPPORTUNITY_BYTES);
                }
                *left -= needed;
                *busy_until_ns = zero_ns.saturating_add(times.time_ns(*number)).max(start_ns);
                *busy_until_ns
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn of(trace: &str) -> Line {
        let trace = Some(trace.parse().unwrap());
        Line::of(&Settings { trace, ..Settings::default() })
    }

    fn ends_ms(line: &mut Line, packets: &[(u64, u64)]) -> Vec<u64> {
        let ends = packets.iter().map(|(start_ms, bytes)| {
            let start_ns = line.free_ns().max(start_ms * MS);
            line.send(start_ns, *bytes) / MS
        });
        ends.collect()
    }

    #[test]
    fn a_rate_gives_each_packet_its_time() {
        let rate = Some(Bandwidth(12_000_000));
        let mut line = Line::of(&Settings { rate, ..Settings::default() });
        assert_eq!(ends_ms(&mut line, &[(0, 1_500), (0, 1_500), (10, 3_000)]), [1, 2, 12]);
    }

    #[test]
    fn a_trace_gives_each_opportunity_1500_bytes() {
        // A packet of 3,000 bytes takes two; two of 700 share one.
        let packets = [(0, 1_500), (0, 3_000), (0, 700), (0, 700), (0, 1_500)];
        assert_eq!(ends_ms(&mut of("5\n10\n10\n20\n40"), &packets), [5, 10, 20, 20, 40]);
    }

    #[test]
    fn a_trace_repeats_and_unused_opportunities_pass() {
        let packets = [(0, 1_500), (25, 1_500), (25, 1_500), (99, 1_500), (1_000, 1_500)];
        assert_eq!(ends_ms(&mut of("10\n20"), &packets), [10, 30, 40, 100, 1_000]);
        assert_eq!(ends_ms(&mut of("0\n10"), &[(0, 1_500), (0, 1_500), (0, 1_500)]), [0, 10, 10]);
    }

    proptest! {
        #[test]
        fn a_trace_keeps_order_and_sends_no_more_than_it_can(
            steps in prop::collection::vec(0u64..30, 1..20),
            packets in prop::collection::vec((0u64..500, 1u64..5_000), 1..60),
        ) {
            let mut at = 0;
            let times: Vec<u64> = steps.iter().map(|step| { at += step; at }).collect();
            prop_assume!(at > 0);
            let text = times.iter().map(u64::to_string).collect::<Vec<_>>().join("\n");
            let mut line = of(&text);
            let mut starts: Vec<(u64, u64)> = packets;
            starts.sort_unstable();
            let zero_ms = starts[0].0;
            let ends = ends_ms(&mut line, &starts);
            prop_assert!(ends.is_sorted());
            for (end, (start, _)) in ends.iter().zip(&starts) {
                prop_assert!(end >= start);
            }
            // Opportunities up to an instant, in rounds of the trace.
            let sent = |until_ms: u64| -> u64 {
                ends.iter().zip(&starts).filter(|(end, _)| **end <= until_ms).map(|(_, it)| it.1).sum()
            };
            for end in &ends {
                let within = end - zero_ms;
                let rounds = (0..=within / at).flat_map(|round| times.iter().map(move |time| round * at + time));
                let chances = rounds.filter(|time| *time <= within).count() as u64;
                prop_assert!(sent(*end) <= chances * OPPORTUNITY_BYTES);
            }
        }
    }
}
