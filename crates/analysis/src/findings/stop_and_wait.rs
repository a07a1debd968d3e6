//! `stop-and-wait`: one message in flight at a time, and the path's latency is most of each exchange.
//!
//! Only latency counts, not the CPU work and the wake-ups of fast calls: the base round trip must be
//! of a real network's size and most of the exchange. The cost is one base round trip for each
//! exchange but the first: the saving of sending ahead.

use sockscope_record::Direction;

use super::facts::base_rtt_ns;
use super::phrasing::{self, Notes};
use crate::{ConnectionView, Finding, FindingId};

/// Fewer exchanges are a handshake, not a way of working.
pub(super) const EXCHANGES_MIN: u64 = 20;

/// Below this a round trip is CPU work and wake-ups (loopback, one rack), not distance.
pub(super) const PATH_RTT_NS_MIN: u64 = 1_000_000;

/// The latency is at least half of the median exchange.
pub(super) const EXCHANGE_RTTS_MAX: u64 = 2;

/// Exchanges fill at least half of the connection's time; else the program had nothing to ask.
pub(super) const BUSY_DIVISOR: f64 = 2.0;

pub(super) fn find(view: &ConnectionView<'_>) -> Option<Finding> {
    let exchanges = view.exchanges?;
    let total = &exchanges.total_ns;
    // A round trip that takes longer than most exchanges was measured when the hosts were slower.
    let rtt_ns = base_rtt_ns(view)?.min(total.p50);
    if rtt_ns < PATH_RTT_NS_MIN {
        return None;
    }
    let direction = [Direction::FromClient, Direction::FromServer]
        .into_iter()
        .find(|direction| direction.sender() == exchanges.asked_by)?;
    let flow = &view.flows[direction as usize];
    let open_ns = flow.end_ns.saturating_sub(flow.start_ns) as f64;
    let is_back_to_back = total.count as f64 * total.mean >= open_ns / BUSY_DIVISOR;
    let is_latency = rtt_ns.saturating_mul(EXCHANGE_RTTS_MAX) >= total.p50;
    if total.count < EXCHANGES_MIN || !is_back_to_back || !is_latency {
        return None;
    }
    let asker = phrasing::who(&view.store.connection, exchanges.asked_by);
    let (rtt, median) = (phrasing::time(rtt_ns), phrasing::time(total.p50));
    let mut notes = Notes::default();
    notes.add(flow.start_ns, || {
        let lasted = phrasing::time(open_ns as u64);
        format!("{} exchanges in {lasted}, each begun after the last answer", total.count)
    });
    notes.add(exchanges.slowest.0, || {
        format!("the slowest exchange begins; it takes {}", phrasing::time(exchanges.slowest.1))
    });
    Some(Finding {
        id: FindingId::StopAndWait,
        flow: flow.flow().id,
        side: exchanges.asked_by,
        count: total.count,
        connections: 1,
        cost_ns: rtt_ns.saturating_mul(total.count - 1),
        // Between these times; no record shows which parts of the exchanges it is.
        times: vec![(flow.start_ns, flow.end_ns)],
        summary: format!(
            "The {asker} had one request in flight at a time: the path's round trip of {rtt} is at \
             least half of the median exchange of {median}."
        ),
        evidence: notes.into_evidence(),
        fix: format!(
            "In the {asker}: send the next requests before the answer (pipeline), put several into one \
             message, or use several connections."
        ),
    })
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Exchanges, Fixture};
    use insta::assert_snapshot;

    /// A handshake of `rtt_ms` and exchanges as given, on a connection that was open for a second.
    fn found(rtt_ms: u64, exchanges: Exchanges) -> String {
        let text = format!("0ms 1-4 syn | {rtt_ms}ms <5-6 syn ack=0 | 1000ms <8 +1");
        Fixture::new(&text, "0ms app_idle | 1s end").exchanges(exchanges).found()
    }

    #[test]
    fn fifty_calls_over_a_path_of_ten_milliseconds() {
        let exchanges = Exchanges { count: 50, p50_ms: 11, mean_ms: 11 };
        assert_snapshot!(found(10, exchanges), @"stop-and-wait @client 50x 490 ms: The client had one request in flight at a time: the path's round trip of 10.0 ms is at least half of the median exchange of 11.0 ms.");
    }

    #[test]
    fn calls_on_loopback_are_cpu_work() {
        let exchanges = Exchanges { count: 50, p50_ms: 11, mean_ms: 11 };
        assert_snapshot!(found(0, exchanges), @"");
    }

    /// A handshake with cold caches, and fast calls after it.
    #[test]
    fn a_path_is_no_longer_than_an_exchange() {
        let exchanges = Exchanges { count: 50, p50_ms: 0, mean_ms: 20 };
        assert_snapshot!(found(10, exchanges), @"");
    }

    #[test]
    fn calls_that_the_server_works_on_are_not_latency() {
        let exchanges = Exchanges { count: 25, p50_ms: 40, mean_ms: 40 };
        assert_snapshot!(found(10, exchanges), @"");
    }

    #[test]
    fn a_program_that_rarely_asks_loses_nothing() {
        let exchanges = Exchanges { count: 25, p50_ms: 11, mean_ms: 11 };
        assert_snapshot!(found(10, exchanges), @"");
    }

    #[test]
    fn a_few_exchanges_are_no_habit() {
        let exchanges = Exchanges { count: 19, p50_ms: 50, mean_ms: 50 };
        assert_snapshot!(found(30, exchanges), @"");
    }
}
