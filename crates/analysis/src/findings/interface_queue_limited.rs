//! `interface-queue-limited`: packets stand in the queue of the sender's interface.
//!
//! While it fires, the effects of a full interface queue (small-queue holds, a full congestion window, a blocked
//! write, packets that the queue dropped) are not reported again.

use super::facts::FlowFacts;
use super::intervals::Intervals;
use super::phrasing;
use super::resent_segment::Resent;
use super::tally::Tally;
use crate::{Finding, FindingId, Interface, LedgerPart};

/// A queue that delayed fewer packets than this was a burst.
const DELAYED_MIN: usize = 20;

/// The interface is the bottleneck when the oldest unread byte is there, or was dropped there and not yet
/// sent again, most of the time.
const SHARE_PERCENT_MIN: u64 = 50;

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let queue = &facts.interface;
    if queue.delayed.len() < DELAYED_MIN {
        return None;
    }
    let resent = || facts.resent.iter().filter(|one| one.was_dropped_by_interface);
    let needed = resent().filter(|one| one.was_needed);
    let repairs = Intervals::union_of(needed.filter_map(Resent::gap));
    let in_queue = facts.times_in(&[LedgerPart::InterfaceQueue]);
    let dropped_there = repairs.intersect(&facts.times_in(&[LedgerPart::Dropped]));
    let in_queue = union(&in_queue, &dropped_there);
    let in_queue_ns = in_queue.total_ns();
    let is_bottleneck = facts.is_share_of_busy(in_queue_ns, SHARE_PERCENT_MIN);
    if !(is_bottleneck || queue.is_standing) {
        return None;
    }
    // Ahead of a standing queue the interface sends without a pause. The oldest unread byte is then mostly in
    // transit while those behind it wait: the ledger alone would show no cost. Where it has the oldest byte most
    // of the time, the ledger's time counts, so that both agree.
    let costs = match is_bottleneck {
        true => in_queue,
        false => union(&queue.occupied, &repairs).without(&facts.doubt.of_interface()),
    };
    let mut tally = Tally::of_times(queue.delayed.len(), &costs);
    let cost_ns = tally.cost_ns;
    for stay in &queue.delayed {
        tally.notes.add(stay.left_ns, || {
            let stayed = phrasing::time(stay.left_ns - stay.entered_ns);
            format!(
                "bytes {}..{} leave the interface queue after {stayed}",
                stay.offset,
                stay.offset + u64::from(stay.len)
            )
        });
    }
    let stays = queue.delayed.iter().map(|stay| u128::from(stay.left_ns - stay.entered_ns));
    let mean_ns = stays.sum::<u128>() / queue.delayed.len() as u128;
    // In bytes, as offload makes one retransmission of several segments.
    let dropped = match resent().map(|one| u64::from(one.len)).sum::<u64>() {
        0 => String::new(),
        bytes => format!("; {bytes} bytes dropped there and sent again"),
    };
    let share = match in_queue_ns {
        0 => String::new(),
        _ => format!(" ({})", facts.share_of_busy(cost_ns.min(facts.busy_ns))),
    };
    let sender = facts.who(facts.sender());
    let (bytes, ns) = queue.served();
    let rate = phrasing::bit_rate(bytes, ns);
    let rate = rate.map(|rate| format!(", {rate} of this data")).unwrap_or_default();
    let interface = crate::interface::interface(facts.view.flow(), facts.view.network_namespaces);
    let place = match &interface {
        Some(Interface { device, discipline, .. }) => format!("the {discipline} queue of {device}"),
        None => "its interface queue".to_owned(),
    };
    let summary = format!(
        "Packets of the {sender} stood {} on average in {place}{share}{dropped}: the \
         interface's rate is the limit{rate}.",
        phrasing::time(u64::try_from(mean_ns).unwrap_or(u64::MAX)),
    );
    let limit = match &interface {
        Some(interface) => format!(
            "In network namespace {} of the {sender}: raise or remove the rate limit (tc -s qdisc show dev {})",
            interface.shown_namespace(),
            interface.device,
        ),
        None => format!(
            "On the host of the {sender}: raise or remove the interface's rate limit (tc -s qdisc show)"
        ),
    };
    let fix = format!(
        "{limit}, use a faster link, or, where the limit is wanted, a queue that stays short (fq_codel, a lower limit)."
    );
    Some(tally.into_finding(FindingId::InterfaceQueueLimited, facts, facts.sender(), summary, fix))
}

fn union(one: &Intervals, other: &Intervals) -> Intervals {
    Intervals::union_of(one.iter().chain(other.iter()))
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Fixture, found, repeat};
    use insta::assert_snapshot;

    /// All packets enter at once; one leaves every `period` and is read at once.
    fn limited(packets: u64, period: &str) -> String {
        let entering = repeat(packets, "0ms", |at| format!("{at} 2-3 +1000 cwnd"));
        let leaving = repeat(packets, period, |at| format!("{at} 4-8 +1000"));
        format!("0ms tcp-state extra=9000 | 0ms 1 +900000 | {entering} | {leaving}")
    }

    #[test]
    fn a_rate_limit_shows_on_the_interface_queue_and_nowhere_else() {
        let ledger = "0ms interface_queue | 200ms end";
        assert_snapshot!(found(&limited(100, "2ms"), ledger), @"interface-queue-limited @client 100x 200 ms: Packets of the client stood 101 ms on average in its interface queue (100 % of 200 ms with bytes under way): the interface's rate is the limit, 4.00 Mbit/s of this data.");
    }

    /// A namespace of 4026532345, and names as the recorder has them: the octets in `detail`, the low ones first.
    #[test]
    fn the_interface_is_named_where_it_is_known() {
        let name = |code: u8, name: &[u8; 8]| {
            format!("0ms interface code={code} detail={}", u64::from_le_bytes(*name))
        };
        let place = "0ms interface code=2 detail=4026532345 extra=7";
        let known =
            [name(0, b"eth0\0\0\0\0"), name(1, b"tbf\0\0\0\0\0"), place.to_owned()].join(" | ");
        let ledger = "0ms interface_queue | 200ms end";
        let text = format!("{known} | {}", limited(100, "2ms"));
        assert_snapshot!(found(&text, ledger), @"interface-queue-limited @client 100x 200 ms: Packets of the client stood 101 ms on average in the tbf queue of eth0 (100 % of 200 ms with bytes under way): the interface's rate is the limit, 4.00 Mbit/s of this data.");
        let fix = |fixture: Fixture| fixture.findings().remove(0).fix;
        let number = fix(Fixture::new(&text, ledger));
        assert!(number.starts_with("In network namespace 4026532345 of the client: "), "{number}");
        let shop = fix(Fixture::new(&text, ledger).namespace(4_026_532_345, "shop"));
        assert!(shop.starts_with("In network namespace shop of the client: "), "{shop}");
        // Without all of it nothing is named.
        let text = format!("{} | {}", name(0, b"eth0\0\0\0\0"), limited(100, "2ms"));
        assert!(found(&text, ledger).contains("in its interface queue"));
    }

    #[test]
    fn a_standing_queue_is_found_even_without_a_receiver_in_sight() {
        let text = limited(100, "2ms").replace("4-8", "4");
        assert_snapshot!(found(&text, "0ms unknown | 200ms end"), @"interface-queue-limited @client 100x 200 ms: Packets of the client stood 101 ms on average in its interface queue: the interface's rate is the limit, 4.00 Mbit/s of this data.");
    }

    #[test]
    fn a_standing_queue_loses_its_time_while_the_oldest_byte_is_on_the_wire() {
        let ledger = "0ms interface_queue | 2ms wire | 200ms end";
        assert_snapshot!(found(&limited(100, "2ms"), ledger), @"interface-queue-limited @client 100x 200 ms: Packets of the client stood 101 ms on average in its interface queue (100 % of 200 ms with bytes under way): the interface's rate is the limit, 4.00 Mbit/s of this data.");
    }

    /// The queue always has packets, and the oldest unread byte most of the time.
    #[test]
    fn of_a_queue_that_has_the_oldest_byte_the_ledger_and_the_finding_say_the_same() {
        let ledger = "0ms interface_queue | 150ms wire | 200ms end";
        assert_snapshot!(found(&limited(100, "2ms"), ledger), @"interface-queue-limited @client 100x 150 ms: Packets of the client stood 101 ms on average in its interface queue (75 % of 200 ms with bytes under way): the interface's rate is the limit, 4.00 Mbit/s of this data.");
    }

    #[test]
    fn a_burst_that_drains_in_microseconds_is_not_a_queue() {
        let text = limited(100, "5us");
        assert_snapshot!(found(&text, "0ms interface_queue | 500us app_idle | 200ms end"), @"");
    }

    #[test]
    fn a_queue_that_delays_a_little_while_the_time_goes_elsewhere_is_not_the_limit() {
        let ledger = "0ms interface_queue | 60ms wire | 200ms end";
        assert_snapshot!(found(&limited(30, "2ms"), ledger), @"");
    }

    #[test]
    fn packets_that_the_queue_dropped_are_not_reported_again() {
        let text = format!(
            "{} | 150ms retransmit 99000..100000 code=2",
            limited(100, "2ms").replace("200ms 4-8 +1000", "900ms 8 +1")
        );
        let ledger = "0ms interface_queue | 200ms end";
        assert_snapshot!(found(&text, ledger), @"interface-queue-limited @client 99x 200 ms: Packets of the client stood 100 ms on average in its interface queue (100 % of 200 ms with bytes under way); 1000 bytes dropped there and sent again: the interface's rate is the limit, 4.00 Mbit/s of this data.");
    }

    /// A standing queue of 100 packets; then ten times a tail segment that the queue drops, sent again by a
    /// timeout 200 ms later.
    fn tails(rounds: u64) -> String {
        let round = |round: u64| {
            let (at, range) = (300 + round * 210, 100_000 + round * 1000);
            let range = format!("{range}..{}", range + 1000);
            let again = at + 200;
            format!(
                "{at}ms 1-3 {range} | {at}ms drop {range} detail=50 | {again}ms 2-4 {range} retransmitted
                 {again}ms retransmit {range} code=1 | {}ms 5-8 {range}",
                again + 1
            )
        };
        let rounds: Vec<_> = (0..rounds).map(round).collect();
        format!("{} | {}", limited(100, "2ms"), rounds.join(" | "))
    }

    #[test]
    fn what_the_queue_dropped_costs_until_it_is_sent_again() {
        let round =
            |at: u64| format!("{at}ms dropped | {}ms wire | {}ms app_idle", at + 200, at + 201);
        let rounds: Vec<_> = (0..10).map(|i| round(300 + i * 210)).collect();
        let ledger =
            format!("0ms interface_queue | 200ms app_idle | {} | 2500ms end", rounds.join(" | "));
        assert_snapshot!(found(&tails(10), &ledger), @"interface-queue-limited @client 100x 2.20 s: Packets of the client stood 101 ms on average in its interface queue (100 % of 2.21 s with bytes under way); 10000 bytes dropped there and sent again: the interface's rate is the limit, 4.00 Mbit/s of this data.");
    }

    #[test]
    fn a_queue_that_holds_and_drops_the_oldest_byte_for_half_of_the_time_is_the_limit() {
        // 60 ms of 200 in the queue, 80 ms dropped there.
        let text = format!(
            "{} | 100ms 2-3 30000..31000 | 100ms drop 30000..31000 detail=50
             180ms 2-4 30000..31000 retransmitted | 180ms retransmit 30000..31000 code=2",
            limited(30, "2ms")
        );
        let ledger = "0ms interface_queue | 60ms wire | 100ms dropped | 180ms wire | 200ms end";
        assert_snapshot!(found(&text, ledger), @"interface-queue-limited @client 30x 140 ms: Packets of the client stood 31.0 ms on average in its interface queue (70 % of 200 ms with bytes under way); 1000 bytes dropped there and sent again: the interface's rate is the limit, 4.00 Mbit/s of this data.");
    }
}
