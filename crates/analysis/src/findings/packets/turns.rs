//! `stop-and-wait`, by packets alone: the data of the two sides alternates.
//!
//! A turn is the data that one side sends between two turns of the other. An exchange is a turn of the client and the
//! server's next one, as the client has it: the way between the client and the place of the capture is added. Its
//! answer acknowledges the whole request; else the server may answer an earlier one. Exchanges of a program that sends
//! ahead are shorter than a round trip.

use sockscope_record::{Direction, Side};

use crate::findings::phrasing::{self, Notes};
use crate::findings::stop_and_wait::{
    BUSY_DIVISOR, EXCHANGE_RTTS_MAX, EXCHANGES_MIN, PATH_RTT_NS_MIN,
};
use crate::packets::{Place, RoundTrips, are_alone, packets};
use crate::{ConnectionView, Distribution, Finding, FindingId};

/// The exchanges at a place.
struct Exchanges {
    rtt_ns: u64,
    /// Start, and time until the answer was there.
    all: Vec<(u64, u64)>,
    /// From the first packet to the last one.
    lasted_ns: u64,
    start_ns: u64,
}

pub(in crate::findings) fn stop_and_wait(view: &ConnectionView<'_>) -> Option<Finding> {
    if !are_alone(view.store) {
        return None;
    }
    let places = Place::all(view.store, Side::Client).into_iter();
    let found = places.filter_map(|place| exchanges(view, place)).next()?;
    let Exchanges { rtt_ns, all, lasted_ns, start_ns } = found;
    let mut times: Vec<u64> = all.iter().map(|(_, total_ns)| *total_ns).collect();
    let total = Distribution::of(&mut times)?;
    let is_back_to_back = total.count as f64 * total.mean >= lasted_ns as f64 / BUSY_DIVISOR;
    let is_latency = rtt_ns.saturating_mul(EXCHANGE_RTTS_MAX) >= total.p50 && rtt_ns <= total.p50;
    if rtt_ns < PATH_RTT_NS_MIN || total.count < EXCHANGES_MIN || !is_back_to_back || !is_latency {
        return None;
    }
    let slowest = all.iter().max_by_key(|(_, total_ns)| *total_ns)?;
    let asker = phrasing::who(&view.store.connection, Side::Client);
    let (rtt, median) = (phrasing::time(rtt_ns), phrasing::time(total.p50));
    let mut notes = Notes::default();
    notes.add(start_ns, || {
        let lasted = phrasing::time(lasted_ns);
        format!("{} exchanges in {lasted}, each begun after the last answer", total.count)
    });
    notes.add(slowest.0, || {
        format!("the slowest exchange begins; it takes {}", phrasing::time(slowest.1))
    });
    Some(Finding {
        id: FindingId::StopAndWait,
        flow: view.flows[0].flow().id,
        side: Side::Client,
        count: total.count,
        connections: 1,
        cost_ns: rtt_ns.saturating_mul(total.count - 1),
        times: vec![(start_ns, start_ns.saturating_add(lasted_ns))],
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

/// `None` where the handshake does not show the round trip.
fn exchanges(view: &ConnectionView<'_>, place: Place) -> Option<Exchanges> {
    let trips = RoundTrips::of(view.store, place);
    let to_client_ns = trips.to(Side::Client)?;
    let rtt_ns = to_client_ns.saturating_add(trips.to(Side::Server)?);
    let (mut start_ns, mut last_ns) = (None, 0);
    let mut all = Vec::new();
    // Start and end of the request; last answer to it, once there is one.
    let (mut request, mut answered_ns) = (None::<(u64, u64)>, None::<u64>);
    let mut take = |request: Option<(u64, u64)>, answered_ns: Option<u64>| {
        if let Some(((asked_ns, _), answered_ns)) = request.zip(answered_ns) {
            all.push((asked_ns, answered_ns.saturating_sub(asked_ns).saturating_add(to_client_ns)));
        }
    };
    for packet in packets(view.store, place) {
        let pass = packet.pass;
        start_ns = start_ns.or(Some(pass.at_ns));
        last_ns = pass.at_ns;
        if !packet.is_new_data() {
            continue;
        }
        match packet.direction {
            Direction::FromClient if answered_ns.is_none() => {
                let asked_ns = request.map_or(pass.at_ns, |(asked_ns, _)| asked_ns);
                request = Some((asked_ns, pass.end()));
            }
            Direction::FromClient => {
                take(request, answered_ns.take());
                request = Some((pass.at_ns, pass.end()));
            }
            Direction::FromServer => {
                let answers = |(_, end): &(u64, u64)| pass.acknowledged() >= *end;
                if answered_ns.is_some() || request.as_ref().is_some_and(answers) {
                    answered_ns = Some(pass.at_ns);
                }
            }
        }
    }
    take(request, answered_ns);
    let start_ns = start_ns?;
    Some(Exchanges { rtt_ns, all, lasted_ns: last_ns.saturating_sub(start_ns), start_ns })
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::found;
    use insta::assert_snapshot;

    /// Calls captured at the client of a path of 10 ms: each is answered `answer_ms` later, and begins `period_ms`
    /// after the one before.
    fn calls(count: u64, answer_ms: u64, period_ms: u64) -> String {
        let open = "0ms 4 syn | 10ms <5 syn ack=0 | 10ms 4 ack=0";
        format!("{open} | {}", exchanges(count, answer_ms, period_ms))
    }

    fn exchanges(count: u64, answer_ms: u64, period_ms: u64) -> String {
        let call = |n: u64| {
            let asked_ms = 20 + n * period_ms;
            let answered_ms = asked_ms + answer_ms;
            format!("{asked_ms}ms 4 +100 | {answered_ms}ms <5 +50 ack={} win=60000", (n + 1) * 100)
        };
        (0..count).map(call).collect::<Vec<_>>().join(" | ")
    }

    const LEDGER: &str = "0ms wire | 600ms end";

    #[test]
    fn calls_that_wait_for_each_answer_on_a_long_path() {
        assert_snapshot!(found(&calls(30, 11, 12), LEDGER), @"stop-and-wait @client 30x 290 ms: The client had one request in flight at a time: the path's round trip of 10.0 ms is at least half of the median exchange of 11.0 ms.");
    }

    #[test]
    fn the_server_of_slow_answers_and_a_client_that_rarely_asks_are_no_such() {
        assert_snapshot!(found(&calls(30, 40, 41), LEDGER), @"");
        assert_snapshot!(found(&calls(30, 11, 60), LEDGER), @"");
        assert_snapshot!(found(&calls(19, 11, 12), LEDGER), @"");
    }

    /// Two calls are always in flight: each answer is that of the call before.
    #[test]
    fn a_client_that_sends_ahead_does_not_wait() {
        assert_snapshot!(found(&calls(30, 5, 6), LEDGER), @"");
    }

    #[test]
    fn calls_on_loopback_are_cpu_work() {
        let open = "0ms 4 syn | 0ms <5 syn ack=0 | 0ms 4 ack=0";
        assert_snapshot!(found(&format!("{open} | {}", exchanges(30, 11, 12)), LEDGER), @"");
    }
}
