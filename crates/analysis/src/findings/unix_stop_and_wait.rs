//! `stop-and-wait` of Unix sockets: there is no path, and no round trip is measured.
//!
//! One request is in flight at a time, and the two waits until a process reads are at least half of the exchange. Over
//! TCP such calls are no finding on loopback, as elsewhere the path may be a longer one. A Unix socket has these waits
//! alone.

use sockscope_record::{Direction, Point};

use super::phrasing::{self, Notes};
use super::reads::READ_WAIT_NS_MIN;
use super::stop_and_wait::{BUSY_DIVISOR, EXCHANGE_RTTS_MAX};
use crate::{ConnectionView, Finding, FindingId, FlowView};

/// Fewer exchanges cost too little in all.
const EXCHANGES_MIN: u64 = 1_000;

/// Longer waits are those of a reader that is away or has no CPU, which other rules report.
const WAITS_NS_MAX: u64 = 2 * READ_WAIT_NS_MIN;

pub(super) fn find(view: &ConnectionView<'_>) -> Option<Finding> {
    let exchanges = view.exchanges?;
    let total = &exchanges.total_ns;
    let [client, server] = &view.flows;
    let (asking, answering) = match exchanges.asked_by.sends() {
        Direction::FromClient => (client, server),
        Direction::FromServer => (server, client),
    };
    let wait_ns = median_wait_ns(asking)?.saturating_add(median_wait_ns(answering)?);
    let open_ns = asking.end_ns.saturating_sub(asking.start_ns) as f64;
    let is_back_to_back = total.count as f64 * total.mean >= open_ns / BUSY_DIVISOR;
    let is_wait = wait_ns.saturating_mul(EXCHANGE_RTTS_MAX) >= total.p50;
    let is_wait = is_wait && wait_ns < WAITS_NS_MAX;
    if total.count < EXCHANGES_MIN || !is_back_to_back || !is_wait {
        return None;
    }
    let wait_ns = wait_ns.min(total.p50);
    let asker = phrasing::who(&view.store.connection, exchanges.asked_by);
    let (waited, median) = (phrasing::time(wait_ns), phrasing::time(total.p50));
    let mut notes = Notes::default();
    notes.add(asking.start_ns, || {
        let lasted = phrasing::time(open_ns as u64);
        format!("{} exchanges in {lasted}, each begun after the last answer", total.count)
    });
    Some(Finding {
        id: FindingId::StopAndWait,
        flow: asking.flow().id,
        side: exchanges.asked_by,
        count: total.count,
        connections: 1,
        cost_ns: wait_ns.saturating_mul(total.count - 1),
        // Between these times; no record shows which parts of the exchanges it is.
        times: vec![(asking.start_ns, asking.end_ns)],
        summary: format!(
            "The {asker} had one request in flight at a time: the waits until both processes read took {waited} of \
             the median exchange of {median}."
        ),
        evidence: notes.into_evidence(),
        fix: format!(
            "In the {asker}: send the next requests before the answer (pipeline), or put several into one \
             message."
        ),
    })
}

/// From the receive queue to the reader.
fn median_wait_ns(flow: &FlowView<'_>) -> Option<u64> {
    let reads = flow.flow().at(Point::ReceiveDequeue);
    let entered = flow.flow().at(Point::ReceiveEnqueue).iter();
    let waits = entered.filter_map(|pass| {
        let read = reads.get(reads.partition_point(|read| read.end() < pass.end()))?;
        read.at_ns.checked_sub(pass.at_ns)
    });
    let mut waits: Vec<u64> = waits.collect();
    let middle = waits.len().checked_sub(1)? / 2;
    Some(*waits.select_nth_unstable(middle).1)
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Exchanges, Fixture};
    use insta::assert_snapshot;

    /// Exchanges of a millisecond, in which each side reads so many microseconds after the other one has written.
    fn found(count: u64, read_us: u64) -> String {
        let exchange = |i: u64| {
            let (asked, answered) = (i * 1_000, i * 1_000 + 500);
            format!(
                "{asked}us 1-7 +10 | {}us 8 +10 | {answered}us <1-7 +6 | {}us <8 +6",
                asked + read_us,
                answered + read_us
            )
        };
        let text: Vec<_> = (0..1_000).map(exchange).collect();
        let exchanges = Exchanges { count, p50_ms: 1, mean_ms: 1 };
        let ledger = "0ms app_idle | 1s end";
        Fixture::new(&text.join(" | "), ledger).exchanges(exchanges).unix().found()
    }

    #[test]
    fn a_thousand_calls_that_are_mostly_waits_for_a_reader() {
        assert_snapshot!(found(1_000, 300), @"stop-and-wait @client 1000x 599 ms: The client had one request in flight at a time: the waits until both processes read took 600 us of the median exchange of 1.00 ms.");
    }

    #[test]
    fn fewer_calls_cost_little() {
        assert_snapshot!(found(999, 300), @"");
    }

    #[test]
    fn calls_that_are_mostly_service_are_not_made_faster() {
        assert_snapshot!(found(1_000, 200), @"");
    }
}
