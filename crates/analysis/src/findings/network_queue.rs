//! `network-queue`: a queue stands in the network, outside of the queues of both hosts.
//!
//! The transit time of a packet from the driver of one host (point 4) to the input of the other (point 5) has two
//! parts: the path's, which is the least recorded, and the excess. The excess is a queue where it lasts long and rose
//! packet by packet, as the packets wait for each other. A path that changes, or stops for a while, delays a packet at
//! once: that excess is not the queue's until the transit time falls again.
//!
//! While it fires, the full windows and buffers of both hosts are its effect and not reported again.

use std::cell::LazyCell;

use sockscope_record::{Point, Stage, marks};

use super::facts::FlowFacts;
use super::intervals::{Interval, Intervals};
use super::phrasing;
use super::tally::Tally;
use crate::hops;
use crate::ranges::{self, Range};
use crate::{Device, Finding, FindingId, FlowStore, FlowView, Passage, Residence, queue_delays};

/// CoDel's target and interval (RFC 8289 §4.2, §4.3): a queue whose delay stays above the first for the
/// second is a standing one.
const STANDING_DELAY_NS: u64 = 5_000_000;
const STANDING_INTERVAL_NS: u64 = 100_000_000;

/// A queue that delayed fewer packets than this was a burst.
const DELAYED_MIN: usize = 20;

/// One packet adds at most this part of the delay that a queue reaches. A larger step is a jump of the path.
const STEP_DIVISOR: u64 = 2;

/// Less than a fifth of the busy time would gain little.
const SHARE_PERCENT_MIN: u64 = 20;

/// Transit of one packet.
#[derive(Debug, Clone, Copy)]
struct Transit {
    left_ns: u64,
    arrived_ns: u64,
    /// Above the least of all packets.
    excess_ns: u64,
    /// The increase over the packet before, or 0.
    step_ns: u64,
    /// The part of the excess that rose packet by packet.
    queued_ns: u64,
    offset: u64,
}

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    if !facts.view.store.connection.both_ends_here || !is_wire_slow(facts) {
        return None;
    }
    let (base_ns, mut transits) = transits(facts.view.flow())?;
    for run in transits.chunk_by_mut(|a, b| is_long(a.excess_ns) && is_long(b.excess_ns)) {
        take_off_jumps(run);
    }
    let standing: Vec<&[Transit]> = transits
        .chunk_by(|a, b| is_long(a.queued_ns) && is_long(b.queued_ns))
        .filter(|run| is_standing(run))
        .collect();
    let queued = || standing.iter().copied().flatten();
    let waits = queued().map(|one| Interval::new(one.arrived_ns - one.queued_ns, one.arrived_ns));
    let costs = Intervals::union_of(waits).without(&facts.doubt.of_network());
    let delayed: Vec<u64> = queued().map(|one| one.queued_ns).collect();
    if !facts.is_share_of_busy(costs.total_ns(), SHARE_PERCENT_MIN) {
        return None;
    }
    let mut tally = Tally::of_times(delayed.len(), &costs);
    let cost_ns = tally.cost_ns;
    for one in queued() {
        tally.notes.add(one.arrived_ns, || {
            let took = phrasing::time(one.arrived_ns - one.left_ns);
            format!("bytes from {} on arrive {took} after they left", one.offset)
        });
    }
    let (sender, receiver) = (facts.who(facts.sender()), facts.receiver().name());
    let hop = hop_with_queue(facts.view, &standing);
    let place = match &hop {
        Some(device) => format!("in the queue of {}", device.placed()),
        None => "between the two hosts".to_owned(),
    };
    let summary = format!(
        "Packets of the {sender} waited {} {place}, above the {} that the path takes ({}).",
        phrasing::spread(delayed),
        phrasing::time(base_ns),
        facts.share_of_busy(cost_ns.min(facts.busy_ns)),
    );
    let slowest = match &hop {
        Some(device) => format!(
            "At {}: raise or remove the rate limit, or give the queue a short limit or fq_codel (tc -s qdisc show dev {}).",
            device.placed(),
            device.shown(),
        ),
        None => format!(
            "Between the {sender}'s host and the {receiver}'s: find the slowest link, and give its queue a short limit \
             or fq_codel (tc -s qdisc show on each router)."
        ),
    };
    let fix = format!(
        "{slowest} On the sender's host net.ipv4.tcp_congestion_control=bbr fills queues less."
    );
    Some(tally.into_finding(FindingId::NetworkQueue, facts, facts.sender(), summary, fix))
}

/// The device between the two ends in whose queue the packets waited for most of that time, where it was recorded.
fn hop_with_queue(view: &FlowView<'_>, standing: &[&[Transit]]) -> Option<Device> {
    let queued = || standing.iter().copied().flatten();
    let total_ns: u128 = queued().map(|one| u128::from(one.queued_ns)).sum();
    let time_in = |queue: &[Residence]| -> u128 {
        let times = queued().filter_map(|one| {
            let after = queue.partition_point(|stay| stay.offset + stay.len <= one.offset);
            let stay = queue.get(after).filter(|stay| stay.offset <= one.offset)?;
            Some(u128::from(stay.delay_ns().min(one.queued_ns)))
        });
        times.sum()
    };
    let paths = hops::paths(view.flow(), view.network_namespaces).into_iter();
    let most = paths.map(|hop| (time_in(&hop.queue), hop)).max_by_key(|(time, _)| *time);
    most.filter(|(time, _)| time * 2 > total_ns).map(|(_, hop)| hop.device)
}

/// Whether some packets took longer than others: if not, as on loopback, the rule ends here.
fn is_wire_slow(facts: &FlowFacts<'_>) -> bool {
    let wire = facts.view.analysis.stages.iter().find(|stage| stage.stage == Stage::Wire);
    let delays = wire.and_then(|wire| wire.delay_ns);
    delays.is_none_or(|delays| delays.max - delays.min >= STANDING_DELAY_NS)
}

fn is_long(delay_ns: u64) -> bool {
    delay_ns >= STANDING_DELAY_NS
}

/// The queue's part of the transit times of a run. A jump is the path's as long as no packet since then took less, and
/// its queue is as long as before: a stall drains away, another path stays.
fn take_off_jumps(run: &mut [Transit]) {
    let most_ns = run.iter().map(|one| one.excess_ns).max().unwrap_or(0);
    let (mut least_ns, mut queued_before_ns, mut path_ns) = (0, 0, 0);
    for one in run {
        least_ns = one.excess_ns.min(least_ns);
        if one.step_ns > most_ns / STEP_DIVISOR {
            queued_before_ns = (one.excess_ns - one.step_ns).saturating_sub(path_ns);
            least_ns = one.excess_ns;
        }
        path_ns = least_ns.saturating_sub(queued_before_ns);
        one.queued_ns = one.excess_ns - path_ns;
    }
}

/// Whether packets waited for each other for long.
fn is_standing(run: &[Transit]) -> bool {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return false };
    is_long(first.queued_ns)
        && run.len() >= DELAYED_MIN
        && last.arrived_ns - first.arrived_ns >= STANDING_INTERVAL_NS
}

/// The least transit time, and the transits in order of arrival. Retransmitted bytes are left out: the transmission
/// that arrived is not known.
fn transits(flow: &FlowStore) -> Option<(u64, Vec<Transit>)> {
    let data = |point| flow.at(point).iter().filter(|pass: &&Passage| pass.len > 0);
    let again = data(Point::InterfaceDequeue).filter(|pass| is_again(pass));
    let again: Vec<Range> = again.map(|pass| (pass.offset, pass.end())).collect();
    let again = LazyCell::new(|| ranges::union(&again, &[]));
    let left: Vec<Passage> =
        data(Point::InterfaceDequeue).filter(|pass| !is_again(pass)).copied().collect();
    let mut stays = queue_delays(&left, flow.at(Point::InputEnqueue));
    stays.retain(|stay| stay.left_ns >= stay.entered_ns && !touches(&again, stay));
    stays.sort_by_key(|stay| (stay.left_ns, stay.offset));
    let base_ns = stays.iter().map(Residence::delay_ns).min()?;
    let mut before_ns = 0;
    let transits = stays.iter().map(|stay| {
        let excess_ns = stay.delay_ns() - base_ns;
        let step_ns = excess_ns.saturating_sub(std::mem::replace(&mut before_ns, excess_ns));
        let (left_ns, arrived_ns) = (stay.entered_ns, stay.left_ns);
        Transit { left_ns, arrived_ns, excess_ns, step_ns, queued_ns: 0, offset: stay.offset }
    });
    Some((base_ns, transits.collect()))
}

fn is_again(pass: &Passage) -> bool {
    pass.marks & marks::RETRANSMITTED != 0
}

fn touches(ranges: &[Range], stay: &Residence) -> bool {
    let after = ranges.partition_point(|&(_, end)| end <= stay.offset);
    ranges.get(after).is_some_and(|&(start, _)| start < stay.offset.saturating_add(stay.len))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use sockscope_record::Connection;

    use crate::findings::testing::{Fixture, evidence, found};
    use crate::testing::{connection, records};
    use crate::{Analyzer, FindingId, HostClocks, TraceFacts};

    /// Packets that leave together, and arrive `period_us` apart after 10 ms.
    fn through(packets: u64, period_us: u64) -> String {
        let left = (0..packets).map(|i| format!("{i}us 1-4 +1000"));
        let arrived = (0..packets).map(|i| format!("{}us 5-8 +1000", 10_000 + i * period_us));
        left.chain(arrived).collect::<Vec<_>>().join(" | ")
    }

    const WIRE: &str = "0ms wire | 400ms end";

    #[test]
    fn packets_that_wait_for_each_other_stand_in_a_queue() {
        assert_snapshot!(found(&through(100, 2_000), WIRE), @"network-queue @client 97x 198 ms: Packets of the client waited 6.00 ms to 198 ms, median 102 ms between the two hosts, above the 10.0 ms that the path takes (49 % of 400 ms with bytes under way).");
        assert_snapshot!(evidence(&through(100, 2_000), WIRE).lines().next().unwrap(), @"bytes from 3000 on arrive 16.0 ms after they left");
    }

    /// The same with a router: a packet enters its queue at once, and leaves it as it arrives.
    fn through_router(leaves: impl Fn(u64) -> u64) -> String {
        let queued = (0..100).map(|i| {
            let (start, end, left) = (i * 1000, (i + 1) * 1000, leaves(i));
            format!(
                "{}us hop code=3 extra=3 detail=9 {start}..{end} | {left}us hop code=4 extra=3 detail=9 {start}..{end}",
                100 + i
            )
        });
        let path = through(100, 2_000);
        std::iter::once(path).chain(queued).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn the_hop_that_holds_the_queue_is_named() {
        let text = through_router(|i| 9_990 + i * 2_000);
        assert_snapshot!(found(&text, WIRE), @"network-queue @client 97x 198 ms: Packets of the client waited 6.00 ms to 198 ms, median 102 ms in the queue of device 3 of network namespace 9, above the 10.0 ms that the path takes (49 % of 400 ms with bytes under way).");
        let named = Fixture::new(&text, WIRE).namespace(9, "shop").found();
        assert!(named.contains("in the queue of device 3 of network namespace shop,"), "{named}");
        let elsewhere = found(&through_router(|i| 200 + i), WIRE);
        assert!(elsewhere.contains("between the two hosts"), "{elsewhere}");
    }

    /// The finding on packets between two hosts whose clocks are known to this error.
    fn between_hosts(clocks: HostClocks) -> String {
        let ends = connection(1);
        let mut analyzer = Analyzer::new();
        analyzer.connection(Connection { elsewhere: Some([ends.client, ends.server]), ..ends });
        analyzer.push(&records(&through(100, 2_000)));
        let analysis = analyzer.finish(TraceFacts { clocks, ..TraceFacts::default() });
        let mut findings = analysis.connections[0].findings.iter();
        let queue = findings.find(|finding| finding.id == FindingId::NetworkQueue);
        queue.expect("packets wait for each other").summary.clone()
    }

    #[test]
    fn an_error_of_the_clocks_above_the_median_is_stated() {
        let known_to = |ms: u64| HostClocks::Bounded(vec![vec![[0, ms * 1_000_000, 1_000_000]]]);
        let [one_clock, good, bad, unknown] =
            [HostClocks::One, known_to(100), known_to(120), HostClocks::Unknown].map(between_hosts);
        // The median time between the hosts is 109 ms.
        assert_eq!(good, one_clock);
        assert_snapshot!(bad.strip_prefix(&one_clock).unwrap(), @" The clocks of the two hosts are known to ±120 ms, which is more than the median time between them.");
        assert_snapshot!(unknown.strip_prefix(&one_clock).unwrap(), @" The clocks of the two hosts differ by an unknown time.");
    }

    #[test]
    fn a_burst_that_drains_is_silent() {
        assert_eq!(found(&through(100, 40), WIRE), "");
        assert_eq!(found(&through(15, 20_000), WIRE), "");
    }

    #[test]
    fn a_queue_of_the_interface_is_not_the_networks() {
        let text = through(100, 2_000).replace("5-8", "4-8").replace("1-4", "1-3");
        assert!(!found(&text, "0ms interface_queue | 400ms end").contains("network-queue"));
    }

    /// Packets 2 ms apart; those from the fiftieth on take longer.
    fn changed(before_ms: u64, after_ms: u64) -> String {
        let took = |i: u64| if i < 50 { before_ms } else { after_ms };
        let left = (0..200).map(|i| format!("{}ms 1-4 +1000", i * 2));
        let arrived = (0..200).map(|i| format!("{}ms 5-8 +1000", i * 2 + took(i)));
        left.chain(arrived).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn a_path_that_changes_is_silent() {
        assert_eq!(found(&changed(10, 40), WIRE), "");
        assert_eq!(found(&changed(40, 10), WIRE), "");
    }

    #[test]
    fn a_path_that_stops_for_a_while_is_silent() {
        // Packets sent meanwhile arrive at once, then.
        let left = (0..200).map(|i| format!("{}ms 1-4 +1000", i * 2));
        let arrived = (0..200).map(|i: u64| {
            let due = i * 2 + 10;
            format!("{}ms 5-8 +1000", if (100..250).contains(&due) { 250 } else { due })
        });
        let text = left.chain(arrived).collect::<Vec<_>>().join(" | ");
        assert_eq!(found(&text, WIRE), "");
    }

    #[test]
    fn a_queue_on_a_path_that_stops_for_a_while_is_one() {
        // It rises by 1 ms a packet to 20 ms, and is drained to 10 ms before the path stops for 40 ms; then it rises
        // again, from the rest of the stop.
        let took = |i: u64| match i {
            0..20 => i,
            20..30 => 39 - i,
            30..60 => 50 - (i - 30),
            _ => 20 + (i % 4),
        };
        let left = (0..200).map(|i| format!("{}ms 1-4 +1000", i * 2));
        let arrived = (0..200).map(|i| format!("{}ms 5-8 +1000", i * 2 + 5 + took(i)));
        let text = left.chain(arrived).collect::<Vec<_>>().join(" | ");
        assert_snapshot!(found(&text, WIRE), @"network-queue @client 195x 379 ms: Packets of the client waited 5.00 ms to 19.0 ms, median 11.0 ms between the two hosts, above the 5.00 ms that the path takes (95 % of 400 ms with bytes under way).");
    }

    #[test]
    fn where_the_time_is_spent_elsewhere_it_is_silent() {
        assert_eq!(found(&through(100, 2_000), "0ms receive_queue.app | 2s end"), "");
    }

    #[test]
    fn the_time_in_which_a_packet_may_have_been_missed_is_not_counted() {
        let text = through(100, 2_000).replace("110000us 5-8 +1000", "110000us 6-8 +1000");
        let hole = text.replace("112000us 5-8 +1000", "112000us 5-8 51000..52000");
        let missed = format!("{hole} | 220ms loss from=0ms detail=1 code=5");
        let cost = |text: &str| found(text, WIRE).split(':').next().unwrap_or_default().to_owned();
        assert_snapshot!(format!("{}, {}", cost(&hole), cost(&missed)), @"network-queue @client 96x 198 ms, network-queue @client 96x 98.0 ms");
    }
}
