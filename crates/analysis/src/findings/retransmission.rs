//! `retransmission`: data was sent again.
//!
//! Ranges that turn out not to have been needed cost no time; they are named only when there are many.
//! The time lost runs from one transmission of a range to the next, overlapping times counted once.

use sockscope_record::{Point, Record, RetransmitClass, Side, tcp_flags};

use super::facts::FlowFacts;
use super::intervals::{Interval, Intervals};
use super::resent::{Resent, resent};
use super::{Tally, words};
use crate::drops;
use crate::lost::seen_before;
use crate::{Finding, FindingId};

/// A few needless ones are what reordering and tail probes cost on any path.
const SPURIOUS_MIN: usize = 10;

/// And they matter from one in a hundred segments on.
const SPURIOUS_SHARE_DIVISOR: usize = 100;

/// A few losses that were repaired within this in all (a round trip of a local network) are how TCP
/// works.
const REPAIR_NS_MIN: u64 = 1_000_000;
const REPAIRED_MIN: u64 = 10;

/// `is_queue_limited`: packets dropped by the interface queue are reported there.
pub(super) fn find(facts: &FlowFacts<'_>, is_queue_limited: bool) -> Option<Finding> {
    let mut all = resent(facts.view);
    all.retain(|one| !(is_queue_limited && one.was_dropped_by_interface));
    let (needed, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.was_needed);
    let losses = of_losses(facts, &needed);
    if losses.count >= REPAIRED_MIN || losses.lost_ns >= REPAIR_NS_MIN || needed.iter().any(is_slow)
    {
        return Some(losses);
    }
    let spurious: Vec<_> =
        rest.into_iter().filter(|one| one.class == RetransmitClass::Spurious).collect();
    let segments = facts.view.flow().at(Point::SendDequeue).len();
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
    let mut tally =
        Tally { count: needed.len() as u64, lost_ns: gaps.total_ns(), ..Tally::default() };
    for one in needed {
        note(&mut tally, one);
    }
    note_drops(&mut tally, facts, needed);
    let classes: Vec<_> = RetransmitClass::ALL
        .into_iter()
        .map(|class| (class, needed.iter().filter(|one| one.class == class).count()))
        .filter(|&(_, count)| count > 0)
        .map(|(class, count)| format!("{count} {}", class.name()))
        .collect();
    let sender = facts.who(facts.sender());
    let mut summary = format!(
        "{} of the {sender} had to be sent again ({}).",
        words::counted(tally.count, "range"),
        classes.join(", "),
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

fn of_spurious(facts: &FlowFacts<'_>, spurious: &[Resent]) -> Finding {
    let mut tally = Tally { count: spurious.len() as u64, ..Tally::default() };
    for one in spurious {
        note(&mut tally, one);
    }
    let sender = facts.who(facts.sender());
    let summary = format!(
        "{} of the {sender} were sent again needlessly: the originals arrived.",
        words::counted(tally.count, "range"),
    );
    let fix = format!(
        "On the {sender}'s host: look for reordering or for delay that grows suddenly (a long queue on \
         the path); net.ipv4.tcp_recovery and tcp_reordering set how patient TCP is."
    );
    tally.into_finding(FindingId::Retransmission, facts, facts.sender(), summary, fix)
}

/// Where most of the lost packets were last seen says who can do something.
fn cure(facts: &FlowFacts<'_>, needed: &[Resent]) -> (Side, String) {
    let seen =
        |point| needed.iter().filter(|one| one.last_seen == Some(point)).count() * 2 > needed.len();
    let (sender, receiver) = (facts.who(facts.sender()), facts.who(facts.receiver()));
    let hosts = needed.iter().filter_map(|one| one.acknowledgment_dropped);
    let on_senders = hosts.clone().filter(|&side| side == facts.sender()).count();
    let on_receivers = hosts.count() - on_senders;
    if (on_senders + on_receivers) * 2 > needed.len() {
        let side = if on_senders > on_receivers { facts.sender() } else { facts.receiver() };
        let fix = format!(
            "On the {}'s host: find what drops the acknowledgments from the {receiver} to the {sender}: the \
             reasons are the kernel's own; a filter, or a full queue.",
            facts.who(side),
        );
        return (side, fix);
    }
    if seen(Point::InterfaceEnqueue) {
        let fix = format!(
            "On the {sender}'s host: the packets did not leave the interface queue; see tc -s qdisc show for \
             drops and raise the limit or the rate."
        );
        return (facts.sender(), fix);
    }
    if seen(Point::InputEnqueue) || seen(Point::InputDequeue) {
        let fix = format!(
            "On the {receiver}'s host: the packets arrived and were dropped there; see nstat -az for drops \
             and prunes, and the packet filter."
        );
        return (facts.receiver(), fix);
    }
    let fix = format!(
        "Find where the path from the {sender} loses packets: a full queue, a filter, a bad link; \
         ethtool -S and nstat on both hosts show what they dropped."
    );
    (facts.sender(), fix)
}

fn note(tally: &mut Tally, one: &Resent) {
    tally.notes.add(one.at_ns, || {
        let what = match one.class {
            RetransmitClass::Handshake => "the handshake is sent again".to_owned(),
            class => format!(
                "bytes {}..{} are sent again ({})",
                one.offset,
                one.offset + u64::from(one.len),
                class.name()
            ),
        };
        let were = if one.class == RetransmitClass::Handshake { "it was" } else { "they were" };
        let after = one
            .gap()
            .map(|gap| format!(", {} after {were} last sent", words::time(gap.duration_ns())));
        let seen = one.last_seen.map(|point| format!(", last seen at {}", point.name()));
        format!("{what}{}{}", after.unwrap_or_default(), seen.unwrap_or_default())
    });
}

/// Drops of what had to be sent again, and of acknowledgments whose want let a timer run out.
fn note_drops(tally: &mut Tally, facts: &FlowFacts<'_>, needed: &[Resent]) {
    let view = facts.view;
    let reason = |drop: &Record| drops::reason(view.drop_reasons, drop.detail);
    let ranges = Intervals::union_of(
        needed.iter().map(|one| Interval::new(one.offset, one.offset + u64::from(one.len))),
    );
    let syn_was_lost = needed.iter().any(|one| one.class == RetransmitClass::Handshake);
    for drop in drops::losses(view.flow(), view.drop_reasons) {
        let is_syn = drop.len == 0 && drop.tcp_flags & tcp_flags::SYN != 0;
        if !(is_syn && syn_was_lost || ranges.touches(Interval::new(drop.offset, drop.end()))) {
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
    for drop in drops::losses(view.reverse(), view.drop_reasons) {
        if waits.touches(Interval::new(drop.at_ns, drop.at_ns + 1)) {
            tally.notes.add(drop.at_ns, || {
                format!("the kernel drops a segment with an acknowledgment, {}", reason(drop))
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{evidence, found, repeat};
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
    fn a_lost_syn_is_a_handshake() {
        let text = "0ms 3-4 syn | 100ms retransmit code=5 | 100ms 3-4 syn";
        assert_snapshot!(found(text, "0ms app_idle | 210ms end"), @"retransmission @client 1x 100 ms: 1 range of the client had to be sent again (1 handshake).");
    }

    #[test]
    fn a_syn_told_of_after_its_transmission_counts_from_the_one_before() {
        let text = "0ms 3-4 syn | 1000ms 3-4 syn | 1000006us retransmit code=5";
        let said = evidence(text, "0ms app_idle | 1010ms end");
        assert_snapshot!(said, @"the handshake is sent again, 1.00 s after it was last sent");
    }

    #[test]
    fn a_timeout_for_want_of_an_acknowledgment_that_was_dropped_costs_its_time() {
        // The report that it was received twice comes later, without a range.
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
        // The second copy is thrown away as one that came already, the third by the filter.
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
        // The server's next byte had come by then: the drop is of an older segment.
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
        // It had left before the data came; the acknowledgment of that is on its way for 300 ms.
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
        // The first is lost on the wire, the next one and the one after are refused by a full queue.
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
        // An acknowledgment came back meanwhile: time enough for a fast retransmission.
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
        // Only the sender's host is seen; the report comes with an acknowledgment, without a range.
        let text = "1ms 1-4 +1000 | 202ms retransmit 0..1000 code=1 | 203ms retransmit at=1000 code=4 extra=1";
        assert_snapshot!(found(text, WIRE), @"");
    }

    #[test]
    fn a_few_needless_ones_are_silent() {
        let text = repeat(20, "1ms", |at| format!("{at} 1-7 +10 | {at} 8 +10"));
        let again = repeat(9, "2ms", |at| format!("{at} retransmit 0..10 code=4"));
        assert_snapshot!(found(&format!("{text} | {again}"), WIRE), @"");
    }
}
