//! `retransmission`: data was sent again.
//!
//! Ranges that turn out not to have been needed cost no time; they are named only when there are many.
//! The cost runs from one transmission of a range to the next, overlapping times counted once.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use sockscope_record::{Point, Record, RetransmitClass, Side, tcp_flags};

use super::drop_reason;
use super::facts::FlowFacts;
use super::intervals::{Interval, Intervals};
use super::phrasing;
use super::resent_segment::{Content, Resent};
use super::tally::Tally;
use crate::drops;
use crate::traffic::segments_point;
use crate::transmission::seen_before;
use crate::{Finding, FindingId, packets};

/// A few needless ones are the cost of reordering and tail probes on any path.
const SPURIOUS_MIN: usize = 10;

/// And they matter from one in a hundred segments on.
const SPURIOUS_SHARE_DIVISOR: usize = 100;

/// A few dropped packets that were repaired within this time in all (a round trip of a local
/// network) are the normal work of TCP.
const REPAIR_NS_MIN: u64 = 1_000_000;
const REPAIRED_MIN: u64 = 10;

/// `is_queue_limited`: packets dropped by the interface queue are reported there. `opening`: times for which a
/// finding explains why the connection did not open.
pub(super) fn find(
    facts: &FlowFacts<'_>,
    is_queue_limited: bool,
    opening: &Intervals,
) -> Option<Finding> {
    let mut all = facts.resent.clone();
    all.retain(|one| !one.gap().is_some_and(|gap| opening.touches(gap)));
    all.retain(|one| !(is_queue_limited && one.was_dropped_by_interface));
    let (needed, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.was_needed);
    let losses = of_losses(facts, &needed);
    if losses.count >= REPAIRED_MIN || losses.cost_ns >= REPAIR_NS_MIN || needed.iter().any(is_slow)
    {
        return Some(losses);
    }
    let spurious: Vec<_> =
        rest.into_iter().filter(|one| one.class == RetransmitClass::Spurious).collect();
    let flow = facts.view.flow();
    let segments = segments_point(flow).map_or(0, |point| flow.at(point).len());
    let is_many = spurious.len() >= SPURIOUS_MIN
        && spurious.len() * SPURIOUS_SHARE_DIVISOR >= segments
        && !is_queue_limited;
    is_many.then(|| of_spurious(facts, &spurious))
}

/// Repaired by a timer, which never takes less than many round trips.
fn is_slow(one: &Resent) -> bool {
    matches!(one.class, RetransmitClass::Timeout | RetransmitClass::Handshake)
}

fn of_losses(facts: &FlowFacts<'_>, needed: &[Resent]) -> Finding {
    let gaps = Intervals::union_of(needed.iter().filter_map(Resent::gap));
    let mut tally = Tally::of_times(needed.len(), &gaps);
    for one in needed {
        note(&mut tally, one);
    }
    note_drops(&mut tally, facts, needed);
    let sender = facts.who(facts.sender());
    let mut summary = format!(
        "{} of the {sender} had to be sent again ({}).",
        counted(needed),
        by_class(needed).join(", "),
    );
    let arrived = needed.iter().filter(|one| one.acknowledgment_dropped.is_some()).count() as u64;
    if arrived > 0 {
        let receiver = facts.who(facts.receiver());
        summary +=
            &format!(" {arrived} had arrived: acknowledgments of the {receiver} were dropped.");
    }
    let (side, fix) = cure(facts, needed);
    tally.into_finding(FindingId::Retransmission, facts, side, summary, fix)
}

/// As `3 ranges`; a SYN or a FIN has no range of bytes.
fn counted(all: &[Resent]) -> String {
    let is_data = all.iter().all(|one| one.content == Content::Data);
    phrasing::counted(all.len() as u64, if is_data { "range" } else { "segment" })
}

/// As `2 timeout`, `1 FIN`.
fn by_class(all: &[Resent]) -> Vec<String> {
    let name = |one: &Resent| match one.content {
        Content::Fin => "FIN",
        _ => one.class.name(),
    };
    let names = RetransmitClass::ALL.into_iter().map(RetransmitClass::name).chain(["FIN"]);
    let counts = names.map(|wanted| (wanted, all.iter().filter(|one| name(one) == wanted).count()));
    counts.filter(|&(_, count)| count > 0).map(|(name, count)| format!("{count} {name}")).collect()
}

fn of_spurious(facts: &FlowFacts<'_>, spurious: &[Resent]) -> Finding {
    let mut tally = Tally { count: spurious.len() as u64, ..Tally::default() };
    for one in spurious {
        note(&mut tally, one);
    }
    let sender = facts.who(facts.sender());
    let summary = format!(
        "{} of the {sender} were sent again needlessly: the originals arrived.",
        counted(spurious),
    );
    let fix = format!(
        "On the host of the {sender}: look for reordering or for delay that grows suddenly (a long queue on \
         the path); net.ipv4.tcp_recovery and tcp_reordering set how patient TCP is."
    );
    tally.into_finding(FindingId::Retransmission, facts, facts.sender(), summary, fix)
}

/// The last point of most dropped packets shows the side that can act.
fn cure(facts: &FlowFacts<'_>, needed: &[Resent]) -> (Side, String) {
    let seen =
        |point| needed.iter().filter(|one| one.last_seen == Some(point)).count() * 2 > needed.len();
    let syns = needed.iter().filter(|one| matches!(one.content, Content::Syn { .. }));
    if let Some(last) = syns.clone().next_back()
        && syns.count() * 2 > needed.len()
    {
        return handshake_cure(facts, last);
    }
    let (sender, receiver) = (facts.who(facts.sender()), facts.who(facts.receiver()));
    let hosts = needed.iter().filter_map(|one| one.acknowledgment_dropped);
    let on_senders = hosts.clone().filter(|&side| side == facts.sender()).count();
    let on_receivers = hosts.count() - on_senders;
    if (on_senders + on_receivers) * 2 > needed.len() {
        let side = if on_senders > on_receivers { facts.sender() } else { facts.receiver() };
        let fix = format!(
            "On the host of the {}: find what drops the acknowledgments from the {receiver} to the {sender}: the \
             reasons are the kernel's own; a filter, or a full queue.",
            facts.who(side),
        );
        return (side, fix);
    }
    if seen(Point::InterfaceEnqueue) {
        return queue_cure(facts);
    }
    if packets::are_alone(facts.view.store) {
        return path_cure(facts, facts.sender());
    }
    if seen(Point::InputEnqueue) || seen(Point::InputDequeue) {
        let fix = match most_frequent_reason(facts) {
            Some(reason) => format!(
                "On the host of the {receiver}, {} dropped packets that had arrived (reason {reason}): {}.",
                drop_reason::dropped_by(&reason),
                drop_reason::fix(&reason),
            ),
            None => format!(
                "On the host of the {receiver}: the packets arrived and were dropped there; see nstat -az for \
                 drops and prunes, and the packet filter."
            ),
        };
        return (facts.receiver(), fix);
    }
    path_cure(facts, facts.sender())
}

/// The kernel's name for why it dropped most segments of the flow; `None` where the trace has no name.
fn most_frequent_reason(facts: &FlowFacts<'_>) -> Option<String> {
    let reasons = facts.view.drop_reasons;
    let data = drops::of_segments(facts.view.flow(), reasons).filter(|drop| drop.len > 0);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in data.filter_map(|drop| drops::name_of(drop, reasons)) {
        *counts.entry(name).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|&(name, count)| (count, Reverse(name)))?;
    (most.0 != "NOT_SPECIFIED").then(|| most.0.to_owned())
}

/// The point at which the handshake stopped shows the side that can act.
fn handshake_cure(facts: &FlowFacts<'_>, syn: &Resent) -> (Side, String) {
    let Content::Syn { answer } = syn.content else { return path_cure(facts, facts.sender()) };
    let is_at_host = |point: Option<Point>| point.is_some_and(|it| it >= Point::InputEnqueue);
    let is_client = facts.sender() == Side::Client;
    // With no answer seen it is the last one's own way that counts.
    let (stopped, side) = match answer {
        Some(_) => (answer, facts.sender()),
        None => (syn.last_seen, facts.receiver()),
    };
    if !is_at_host(stopped) {
        let is_queued = answer.is_none() && syn.last_seen == Some(Point::InterfaceEnqueue);
        let queue_is_seen = !facts.view.flow().at(Point::InterfaceDequeue).is_empty();
        return match (answer, is_queued && queue_is_seen) {
            (Some(_), _) => path_cure(facts, facts.receiver()),
            (None, true) => queue_cure(facts),
            (None, false) => path_cure(facts, facts.sender()),
        };
    }
    let who = facts.who(side);
    let filter = "a packet filter (nft list ruleset)";
    let backlog = match is_filtered(facts) {
        true => "",
        false => {
            " and for a full backlog of the listening socket (ss -ltn; nstat -az TcpExtListenOverflows)"
        }
    };
    let fix = match (is_client, answer.is_some()) {
        (true, false) => format!(
            "On the host of the {who}: the SYN arrived there and was not answered. Look for \
             {filter}{backlog}."
        ),
        (true, true) => format!(
            "On the host of the {who}: the SYN-ACK arrived there and was not accepted. Look for {filter}."
        ),
        (false, false) => format!(
            "On the host of the {who}: the SYN-ACK arrived there and was not acknowledged. Look for {filter}."
        ),
        (false, true) => format!(
            "On the host of the {who}: the acknowledgment of the SYN-ACK arrived there and did not open the \
             connection. Look for {filter}{backlog}."
        ),
    };
    (side, fix)
}

/// A filter dropped a SYN of the flow.
fn is_filtered(facts: &FlowFacts<'_>) -> bool {
    let is_syn = |drop: &&Record| drop.tcp_flags & tcp_flags::SYN != 0;
    let mut drops = drops::of_segments(facts.view.flow(), facts.view.drop_reasons).filter(is_syn);
    drops.any(|drop| drops::reason(facts.view.drop_reasons, drop).ends_with("NETFILTER_DROP"))
}

fn queue_cure(facts: &FlowFacts<'_>) -> (Side, String) {
    let sender = facts.who(facts.sender());
    let fix = format!(
        "On the host of the {sender}: the packets did not leave the interface queue; see tc -s qdisc show for \
         drops and raise the limit or the rate."
    );
    (facts.sender(), fix)
}

/// Packets of `from` are dropped on the path.
fn path_cure(facts: &FlowFacts<'_>, from: Side) -> (Side, String) {
    let fix = format!(
        "Find where the path from the {} loses packets: a full queue, a filter, a bad link; \
         ethtool -S and nstat on both hosts show what they dropped.",
        facts.who(from)
    );
    (facts.sender(), fix)
}

fn note(tally: &mut Tally, one: &Resent) {
    tally.notes.add(one.at_ns, || {
        let what = match (one.content, one.class) {
            (Content::Syn { .. }, _) => "the handshake is sent again".to_owned(),
            (Content::Fin, RetransmitClass::Unknown) => "the FIN is sent again".to_owned(),
            (Content::Fin, class) => format!("the FIN is sent again ({})", class.name()),
            (Content::Data, class) => format!(
                "bytes {}..{} are sent again ({})",
                one.offset,
                one.offset + u64::from(one.len),
                class.name()
            ),
        };
        let were = if one.content == Content::Data { "they were" } else { "it was" };
        let after = one
            .gap()
            .map(|gap| format!(", {} after {were} last sent", phrasing::time(gap.duration_ns())));
        let seen = one.last_seen.map(|point| format!(", last seen at {}", point.name()));
        format!("{what}{}{}", after.unwrap_or_default(), seen.unwrap_or_default())
    });
}

/// Drops of segments that had to be retransmitted, and of acknowledgments whose absence let a timer expire.
fn note_drops(tally: &mut Tally, facts: &FlowFacts<'_>, needed: &[Resent]) {
    let view = facts.view;
    let reason = |drop: &Record| drops::reason(view.drop_reasons, drop);
    let ranges = Intervals::union_of(
        needed.iter().map(|one| Interval::new(one.offset, one.offset + u64::from(one.len))),
    );
    let syn_was_dropped = needed.iter().any(|one| matches!(one.content, Content::Syn { .. }));
    for drop in drops::of_segments(view.flow(), view.drop_reasons) {
        let is_syn = drop.len == 0 && drop.tcp_flags & tcp_flags::SYN != 0;
        if !(is_syn && syn_was_dropped || ranges.touches(Interval::new(drop.offset, drop.end()))) {
            continue;
        }
        tally.notes.add(drop.at_ns, || {
            let what = if is_syn {
                "the SYN".to_owned()
            } else {
                format!("bytes from {} on", drop.offset)
            };
            let place = seen_before(view.flow(), view.reverse(), drop)
                .map_or("an unknown point", Point::name);
            format!("the kernel drops {what} after {place}, {}", reason(drop))
        });
    }
    let waited = needed.iter().filter(|one| one.acknowledgment_dropped.is_some());
    let waits = Intervals::union_of(waited.filter_map(Resent::gap));
    for drop in drops::of_segments(view.reverse(), view.drop_reasons) {
        if waits.touches(Interval::new(drop.at_ns, drop.at_ns + 1)) {
            tally.notes.add(drop.at_ns, || {
                format!("the kernel drops a segment with an acknowledgment, {}", reason(drop))
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Fixture, evidence, found, repeat};
    use insta::assert_snapshot;

    const WIRE: &str = "1ms wire | 205ms app_idle | 210ms end";

    #[test]
    fn a_timeout_costs_the_time_since_the_first_transmission() {
        let text = "1ms 1-4 +1000 | 202ms retransmit 0..1000 code=1 | 202ms 2 0..1000 retransmitted
                    202ms 3-4 0..1000 retransmitted | 203ms 5-8 +1000";
        assert_snapshot!(found(text, WIRE), @"retransmission @client 1x 201 ms: 1 range of the client had to be sent again (1 timeout).");
    }

    #[test]
    fn a_second_timeout_counts_from_the_first() {
        let text =
            "1ms 1-4 +1000 | 101ms retransmit 0..1000 code=1 | 201ms retransmit 0..1000 code=1
                    203ms 5-8 +1000";
        assert_snapshot!(found(text, WIRE), @"retransmission @client 2x 200 ms: 2 ranges of the client had to be sent again (2 timeout).");
    }

    #[test]
    fn a_packet_dropped_by_the_receiving_host_is_the_receivers() {
        let text = "1ms 1-6 +1000 | 1ms drop 0..1000 code=6 detail=77 | 3ms 1-8 1000..2000
                    4ms retransmit 0..1000 code=2 | 5ms 7-8 0..1000";
        assert_snapshot!(found(text, WIRE), @"retransmission @server 1x 3.00 ms: 1 range of the client had to be sent again (1 fast).");
    }

    #[test]
    fn the_fix_follows_the_kernels_reason_for_the_drop() {
        let text = "1ms 1-6 +1000 | 1ms drop 0..1000 code=6 detail=77 | 3ms 1-8 1000..2000
                    4ms retransmit 0..1000 code=2 | 5ms 7-8 0..1000";
        let fixture = Fixture::new(text, WIRE);
        assert_snapshot!(fixture.findings()[0].fix, @"On the host of the server, the packet filter dropped packets that had arrived (reason NETFILTER_DROP): let the packet filter accept these packets (nft list ruleset, iptables-save).");
        assert_snapshot!(fixture.nameless_drops().findings()[0].fix, @"On the host of the server: the packets arrived and were dropped there; see nstat -az for drops and prunes, and the packet filter.");
    }

    #[test]
    fn a_dropped_syn_is_a_handshake() {
        let text = "0ms 3-4 syn | 100ms retransmit code=5 | 100ms 3-4 syn";
        assert_snapshot!(found(text, "0ms app_idle | 210ms end"), @"retransmission @client 1x 100 ms: 1 segment of the client had to be sent again (1 handshake).");
    }

    #[test]
    fn a_syn_told_of_after_its_transmission_counts_from_the_one_before() {
        let text = "0ms 3-4 syn | 1000ms 3-4 syn | 1000006us retransmit code=5";
        let said = evidence(text, "0ms app_idle | 1010ms end");
        assert_snapshot!(said, @"the handshake is sent again, 1.00 s after it was last sent, last seen at InterfaceDequeue");
    }

    #[test]
    fn a_timeout_for_want_of_an_acknowledgment_that_was_dropped_costs_its_time() {
        // The report that it was received twice is later, without a range.
        let text = "1ms 1-7 +1000 | 1ms <drop detail=77 | 202ms retransmit 0..1000 code=1
                    203ms retransmit at=1000 code=4 extra=1";
        assert_snapshot!(found(text, WIRE), @"retransmission @server 1x 201 ms: 1 range of the client had to be sent again (1 timeout). 1 had arrived: acknowledgments of the server were dropped.");
    }

    #[test]
    fn a_drop_is_named_with_the_point_that_its_segment_passed_last() {
        let text = "1ms 1-6 +1000 | 1001us drop 0..1000 detail=77 | 1002us drop at=1000 detail=2
                    202ms retransmit 0..1000 code=1 | 202ms 3-4 0..1000 retransmitted
                    202001us drop 0..1000 detail=77 | 400ms retransmit 0..1000 code=1 | 401ms 5-8 +1000";
        assert_snapshot!(evidence(text, WIRE), @r"
        the kernel drops bytes from 0 on after InputDequeue, reason NETFILTER_DROP
        bytes 0..1000 are sent again (timeout), 201 ms after they were last sent, last seen at InputDequeue
        the kernel drops bytes from 0 on after InterfaceDequeue, reason NETFILTER_DROP
        bytes 0..1000 are sent again (timeout), 198 ms after they were last sent, last seen at InputDequeue
        ");
    }

    #[test]
    fn what_had_come_before_is_no_drop_in_the_evidence_either() {
        // The second copy is thrown away as one that arrived before, the third by the filter.
        let text = "1ms 1-6 +1000 | 1001us drop 0..1000 detail=77 | 202ms retransmit 0..1000 code=1
                    202ms 3-7 0..1000 retransmitted | 203ms 3-6 0..1000 retransmitted
                    203001us drop 0..1000 detail=5 | 204001us drop 0..1000 detail=77";
        assert_snapshot!(evidence(text, WIRE), @r"
        the kernel drops bytes from 0 on after InputDequeue, reason NETFILTER_DROP
        bytes 0..1000 are sent again (timeout), 201 ms after they were last sent, last seen at InputDequeue
        ");
    }

    #[test]
    fn an_old_acknowledgment_that_is_dropped_excuses_no_timeout() {
        // The server's next byte had arrived by then: the drop is of an older segment.
        let text = "500us <3-7 +500 ack=0 | 1ms 1-7 +1000 | 2ms <drop at=499 ack=0 detail=77
                    202ms retransmit 0..1000 code=1 | 203ms 3-7 0..1000 retransmitted";
        assert_snapshot!(found(text, WIRE), @"");
    }

    #[test]
    fn an_acknowledgment_dropped_by_the_senders_host_is_the_senders_and_shows_that_the_data_came() {
        // Only the sender's host is seen.
        let text =
            "1ms 1-4 +1000 | 2ms <5-6 ack=1000 | 2001us <drop detail=77 | 202ms retransmit 0..1000 code=1
                    203ms retransmit at=1000 code=4 extra=1";
        assert_snapshot!(found(text, WIRE), @"retransmission @client 1x 201 ms: 1 range of the client had to be sent again (1 timeout). 1 had arrived: acknowledgments of the server were dropped.");
    }

    #[test]
    fn a_dropped_segment_that_acknowledges_nothing_new_excuses_no_timeout() {
        // It had left before the data arrived; the acknowledgment of that is in transit for 300 ms.
        let text =
            "1ms <1-4 +500 ack=0 | 1ms 1-7 +1000 | 2ms <3-4 at=500 ack=1000 | 5ms <drop 0..500
                    202ms retransmit 0..1000 code=1 | 302ms <5-6 at=500 ack=1000";
        assert_snapshot!(found(text, WIRE), @"");
        let bare = "500us <3-4 ack=0 | 1ms 1-7 +1000 | 2ms <drop detail=77 | 3ms <3-4 ack=0 | 4ms <3-4 ack=1000 | 5ms <drop detail=77
                    202ms retransmit 0..1000 code=1";
        assert_snapshot!(found(bare, WIRE), @"retransmission @server 1x 201 ms: 1 range of the client had to be sent again (1 timeout). 1 had arrived: acknowledgments of the server were dropped.");
    }

    #[test]
    fn an_acknowledgment_that_came_through_excuses_no_timeout() {
        let text = "1ms 1-7 +1000 | 1ms <3-6 ack=1000 | 1001us <drop detail=77 | 9ms <3-6 ack=1000
                    202ms retransmit 0..1000 code=1";
        assert_snapshot!(found(text, WIRE), @"");
    }

    #[test]
    fn a_drop_does_not_take_the_point_of_an_earlier_transmission() {
        // The first is dropped on the wire, the next one and the one after are refused by a full queue.
        let text = "1ms 3-4 +1000 | 202ms drop 0..1000 detail=50 | 402ms drop 0..1000 detail=50
                    803ms 3-8 0..1000 retransmitted | 803ms retransmit 0..1000 code=1";
        assert_snapshot!(evidence(text, "1ms wire | 805ms app_idle | 810ms end"), @r"
        the kernel drops bytes from 0 on after an unknown point, reason 50
        the kernel drops bytes from 0 on after an unknown point, reason 50
        bytes 0..1000 are sent again (timeout), last seen at InterfaceDequeue
        ");
        // Dropped at once; the next one is refused within a round trip.
        let text = "1ms 3-6 +1000 | 1001us drop 0..1000 detail=77 | 1200us drop 0..1000 detail=50
                    202ms 3-8 0..1000 retransmitted | 202ms retransmit 0..1000 code=1";
        assert_snapshot!(evidence(text, WIRE), @r"
        the kernel drops bytes from 0 on after InputDequeue, reason NETFILTER_DROP
        the kernel drops bytes from 0 on after an unknown point, reason 50
        bytes 0..1000 are sent again (timeout), last seen at InputDequeue
        ");
        // An acknowledgment returned meanwhile: time enough for a fast retransmission.
        let text = "1ms 3-4 +1000 | 1100us <5-6 | 1200us drop 0..1000 detail=50
                    202ms 3-8 0..1000 retransmitted | 202ms retransmit 0..1000 code=1";
        assert_snapshot!(evidence(text, WIRE), @r"
        the kernel drops bytes from 0 on after an unknown point, reason 50
        bytes 0..1000 are sent again (timeout), last seen at InterfaceDequeue
        ");
    }

    #[test]
    fn a_queue_may_drop_what_it_has_held_for_long() {
        let text = "1ms 3 +1000 | 101ms drop 0..1000 detail=50
                    202ms 3-8 0..1000 retransmitted | 202ms retransmit 0..1000 code=1";
        assert_snapshot!(evidence(text, WIRE), @r"
        the kernel drops bytes from 0 on after InterfaceEnqueue, reason 50
        bytes 0..1000 are sent again (timeout), last seen at InterfaceEnqueue
        ");
    }

    #[test]
    fn a_tail_probe_whose_original_had_arrived_is_silent() {
        let text = "1ms 1-7 +1000 | 5ms retransmit 0..1000 code=3 | 6ms 8 +1000";
        assert_snapshot!(found(text, WIRE), @"");
    }

    #[test]
    fn a_tail_probe_towards_another_host_proves_no_loss() {
        let text = "1ms 1-4 +1000 | 5ms retransmit 0..1000 code=3";
        assert_snapshot!(found(text, WIRE), @"");
    }

    #[test]
    fn many_needless_ones_are_named_without_a_time() {
        let text = repeat(20, "1ms", |at| format!("{at} 1-7 +10 | {at} 8 +10"));
        let again = repeat(12, "2ms", |at| format!("{at} retransmit 0..10 code=4"));
        assert_snapshot!(found(&format!("{text} | {again}"), WIRE), @"retransmission @client 12x 0 ns: 12 ranges of the client were sent again needlessly: the originals arrived.");
    }

    #[test]
    fn a_repetition_that_comes_before_tcp_tells_of_it_is_no_original() {
        // Between namespaces a segment can be at the receiver when the sender's call to transmit it returns.
        let once = |ms: u64, at: u64| {
            let range = format!("{at}..{}", at + 1000);
            format!(
                "{ms}ms 1-6 {range} | {ms}005us drop {range} detail=77 | {ms}100us 2-4 {range} retransmitted
                 {ms}101us 5-7 {range} | {ms}102us retransmit {range} code=2"
            )
        };
        let text: Vec<_> = (0..10).map(|i| once(1 + i, i * 1000)).collect();
        let said = found(&text.join(" | "), WIRE);
        assert_snapshot!(said, @"retransmission @server 10x 1.02 ms: 10 ranges of the client had to be sent again (10 fast).");
    }

    #[test]
    fn one_loss_repaired_within_a_fraction_of_a_millisecond_is_silent() {
        let text = "1ms 1-6 +1000 | 1010us 1-8 1000..2000 | 1200us retransmit 0..1000 code=2 | 1210us 7-8 0..1000";
        assert_snapshot!(found(text, WIRE), @"");
    }

    #[test]
    fn a_timeout_that_the_peer_reports_as_duplicate_was_not_needed() {
        // Only the sender's host is recorded; the report arrives with an acknowledgment, without a range.
        let text = "1ms 1-4 +1000 | 202ms retransmit 0..1000 code=1 | 203ms retransmit at=1000 code=4 extra=1";
        assert_snapshot!(found(text, WIRE), @"");
    }

    #[test]
    fn a_few_needless_ones_are_silent() {
        let text = repeat(20, "1ms", |at| format!("{at} 1-7 +10 | {at} 8 +10"));
        let again = repeat(9, "2ms", |at| format!("{at} retransmit 0..10 code=4"));
        assert_snapshot!(found(&format!("{text} | {again}"), WIRE), @"");
    }

    /// Ten ranges of 45 segments each; the first `dropped` of them are dropped and all are sent again.
    fn ranges_of_45_segments(dropped: u64, path: &str) -> String {
        let range = |i: u64| format!("{}..{}", i * 65_160, (i + 1) * 65_160);
        let once = |i: u64| {
            let (range, ms) = (range(i), 1 + i * 10);
            let drop = format!("{ms}010us drop {range} detail=77 |");
            let drop = if i < dropped { drop } else { String::new() };
            format!(
                "{ms}ms {path} {range} aggregated | {drop} {}ms retransmit {range} code=2",
                ms + 3
            )
        };
        let size = "0ms send-window detail=999999 extra=1448 |".to_owned();
        size + &(0..10).map(once).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn a_range_whose_drop_is_recorded_is_never_needless() {
        let dropped = ranges_of_45_segments(10, "1-6");
        let text = format!("{dropped} | 95ms retransmit at=1000 code=4 extra=45");
        assert_snapshot!(found(&text, WIRE), @"retransmission @server 10x 30.0 ms: 10 ranges of the client had to be sent again (10 fast).");
        // The kernel dropped nine, and the peer reports the segments of the tenth.
        let text = format!(
            "{} | 95ms retransmit at=1000 code=4 extra=45",
            ranges_of_45_segments(9, "1-6")
        );
        assert_snapshot!(found(&text, WIRE), @"retransmission @server 9x 27.0 ms: 9 ranges of the client had to be sent again (9 fast).");
    }

    #[test]
    fn a_report_of_duplicates_counts_segments_and_not_ranges() {
        let sent = ranges_of_45_segments(0, "1-4");
        let report = |segments: u32| {
            found(&format!("{sent} | 95ms retransmit at=1000 code=4 extra={segments}"), WIRE)
        };
        assert_snapshot!(report(44), @"retransmission @client 10x 30.0 ms: 10 ranges of the client had to be sent again (10 fast).");
        assert_snapshot!(report(45), @"retransmission @client 9x 27.0 ms: 9 ranges of the client had to be sent again (9 fast).");
        assert_snapshot!(report(450), @"retransmission @client 10x 0 ns: 10 ranges of the client were sent again needlessly: the originals arrived.");
    }

    /// The first of three segments is dropped; all three are sent again.
    const BEHIND_A_HOLE: &str = "1ms 1-6 +3000 | 1010us drop 0..1000 detail=77
        4ms retransmit 0..1000 code=2 | 4ms retransmit 1000..2000 code=2
        4ms retransmit 2000..3000 code=2 | 5ms 7-8 +3000";

    #[test]
    fn what_waits_behind_a_hole_has_arrived() {
        assert_snapshot!(found(BEHIND_A_HOLE, WIRE), @"retransmission @server 1x 3.00 ms: 1 range of the client had to be sent again (1 fast).");
        let in_part = BEHIND_A_HOLE.replace("1ms 1-6 +3000", "1ms 1-4 +3000 | 1ms 5-6 0..2500");
        assert_snapshot!(found(&in_part, WIRE), @"retransmission @server 2x 3.00 ms: 2 ranges of the client had to be sent again (2 fast).");
        let missed = format!("{BEHIND_A_HOLE} | 6ms loss code=27 from=3ms detail=1");
        assert_snapshot!(found(&missed, WIRE), @"retransmission @server 3x 3.00 ms: 3 ranges of the client had to be sent again (3 fast).");
    }

    #[test]
    fn what_is_dropped_once_and_sent_again_twice_was_needed_once() {
        let text = "1ms 1-6 +1000 | 1010us drop 0..1000 detail=77 | 9ms retransmit 0..1000 code=2
                    20ms retransmit 0..1000 code=2 | 29ms retransmit at=1000 code=4 extra=1";
        assert_snapshot!(found(text, WIRE), @"retransmission @server 1x 8.00 ms: 1 range of the client had to be sent again (1 fast).");
    }

    #[test]
    fn a_fin_of_a_side_without_data_is_no_handshake() {
        // As an earlier version recorded it: position 0, class handshake.
        let text = "0ms 3-6 syn | 1ms <3-6 syn ack=0 | 2ms 3-6 ack=0 | 3s <1-8 +1000
                    5s 3-4 fin ack=1000 | 5200ms 3-6 fin ack=1000 | 5200004us retransmit code=5";
        assert_snapshot!(found(text, "0ms app_idle | 6s end"), @"retransmission @client 1x 200 ms: 1 segment of the client had to be sent again (1 FIN).");
        assert_snapshot!(evidence(text, "0ms app_idle | 6s end"), @"the FIN is sent again, 200 ms after it was last sent, last seen at InterfaceDequeue");
        let now = text.replace("code=5", "code=1");
        assert_snapshot!(found(&now, "0ms app_idle | 6s end"), @"retransmission @client 1x 200 ms: 1 segment of the client had to be sent again (1 FIN).");
    }

    #[test]
    fn a_probe_by_a_fin_is_needed_where_the_one_before_did_not_arrive() {
        let probe = |first: &str| {
            format!(
                "1ms 3-8 +1000 ack=0 | 20ms {first} fin ack=0 | 60ms 3-6 fin ack=0
                 60004us retransmit at=1000 code=3"
            )
        };
        assert_snapshot!(found(&probe("3-4"), WIRE), @"retransmission @client 1x 40.0 ms: 1 segment of the client had to be sent again (1 FIN).");
        assert_snapshot!(found(&probe("3-6"), WIRE), @"");
    }

    /// Side and fix of the one finding.
    fn cure(text: &str) -> String {
        let findings = Fixture::new(text, "0ms app_idle | 4s end").findings();
        let [one] = &findings[..] else { panic!("not one finding, but {}", findings.len()) };
        format!("@{}: {}", one.side.name(), one.fix)
    }

    #[test]
    fn a_syn_that_arrived_and_was_not_answered_is_the_servers() {
        // A missed record may be its answer, so that syn-dropped is silent.
        let text =
            "0ms 3-6 syn | 5us drop syn detail=77 | 1000ms 3-6 syn | 1000005us drop syn detail=77
                    1000006us retransmit code=5 | 1100ms loss code=6 from=0ms detail=1";
        assert_snapshot!(cure(text), @"@server: On the host of the server: the SYN arrived there and was not answered. Look for a packet filter (nft list ruleset).");
        assert_snapshot!(evidence(text, "0ms app_idle | 2s end"), @r"
        the kernel drops the SYN after InputDequeue, reason NETFILTER_DROP
        the kernel drops the SYN after InputDequeue, reason NETFILTER_DROP
        the handshake is sent again, 1.00 s after it was last sent, last seen at InputDequeue
        ");
        assert_snapshot!(cure("0ms 3-6 syn | 1000ms 3-6 syn | 1000006us retransmit code=5"), @"@server: On the host of the server: the SYN arrived there and was not answered. Look for a packet filter (nft list ruleset) and for a full backlog of the listening socket (ss -ltn; nstat -az TcpExtListenOverflows).");
    }

    #[test]
    fn a_syn_that_did_not_arrive_is_the_paths() {
        assert_snapshot!(cure("0ms 3-4 syn | 1000ms 3-4 syn | 1000006us retransmit code=5"), @"@client: Find where the path from the client loses packets: a full queue, a filter, a bad link; ethtool -S and nstat on both hosts show what they dropped.");
        assert_snapshot!(cure("0ms 3 syn | 1000ms 3-4 syn | 1000006us retransmit code=5"), @"@client: On the host of the client: the packets did not leave the interface queue; see tc -s qdisc show for drops and raise the limit or the rate.");
    }

    #[test]
    fn a_syn_that_was_answered_is_sent_again_for_want_of_the_answer() {
        let cure_of = |far: &str| {
            cure(&format!(
                "0ms 3-6 syn | 1ms <{far} syn ack=0 | 1000ms 3-6 syn | 1000006us retransmit code=5"
            ))
        };
        assert_snapshot!(cure_of("3-4"), @"@client: Find where the path from the server loses packets: a full queue, a filter, a bad link; ethtool -S and nstat on both hosts show what they dropped.");
        assert_snapshot!(cure_of("3-6"), @"@client: On the host of the client: the SYN-ACK arrived there and was not accepted. Look for a packet filter (nft list ruleset).");
    }

    #[test]
    fn a_syn_ack_that_was_acknowledged_in_vain_is_the_servers() {
        let cure_of = |far: &str| {
            cure(&format!(
                "0ms 3-6 syn | 1ms <3-6 syn ack=0 {far} | 1000ms <3-6 syn ack=0 | 1000006us <retransmit code=5"
            ))
        };
        assert_snapshot!(cure_of("| 2ms 3-6 ack=0"), @"@server: On the host of the server: the acknowledgment of the SYN-ACK arrived there and did not open the connection. Look for a packet filter (nft list ruleset) and for a full backlog of the listening socket (ss -ltn; nstat -az TcpExtListenOverflows).");
        assert_snapshot!(cure_of("| 2ms 3-4 ack=0"), @"@server: Find where the path from the client loses packets: a full queue, a filter, a bad link; ethtool -S and nstat on both hosts show what they dropped.");
        assert_snapshot!(cure_of(""), @"@client: On the host of the client: the SYN-ACK arrived there and was not acknowledged. Look for a packet filter (nft list ruleset).");
    }
}
