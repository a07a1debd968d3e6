//! `delayed-ack-wait` and `split-message`, by packets alone.
//!
//! Nothing is in flight but data whose acknowledgment the receiver delays. The sender's next data leaves right after
//! it. It fitted into the receive window before. Nagle's algorithm kept it back, or a full congestion window or send
//! buffer: no packet shows the reason. Where both segments are short, and the receiver answers after the second one
//! alone, they are likely parts of one message.

use sockscope_record::{Side, counted};

use crate::findings::facts::FlowFacts;
use crate::findings::phrasing;
use crate::findings::tally::Tally;
use crate::packets::{Packet, Place, RoundTrips, packets};
use crate::send_hold::RELEASE_NS_MAX;
use crate::{Finding, FindingId};

/// Linux's timer of delayed acknowledgments runs for 40 ms at least, in ticks of up to 10 ms that may round down.
const DELAY_NS_MIN: u64 = 35_000_000;

/// RFC 1122 §4.2.3.2: the delay is less than 0.5 s.
const DELAY_NS_MAX: u64 = 500_000_000;

/// Fewer may be chance: a program may send again just when an acknowledgment arrives.
const COUNT_MIN: usize = 3;

/// A program that sends by its own clock sends at any time after such an acknowledgment: at least half of them are
/// followed at once.
const FOLLOWED_DIVISOR: usize = 2;

/// A segment below this size is not a full one: IPv6 carries 1280 octets on every path (RFC 8200 §5).
const SHORT_BYTES: u32 = 1208;

/// One wait of the sender.
#[derive(Debug, Clone, Copy)]
struct Wait {
    /// The acknowledgment passes the place of the capture.
    acknowledged_ns: u64,
    /// Time for which the receiver delayed it.
    delay_ns: u64,
    /// Positions before the first segment, between the two, and after the second.
    positions: [u64; 3],
    is_split: bool,
}

pub(super) fn find(facts: &FlowFacts<'_>) -> Vec<Finding> {
    let receiver = facts.receiver();
    // The delay is exact at the receiver's host.
    let places = Place::all(facts.view.store, receiver).into_iter();
    let mut found = places.map(|place| waits(facts, place));
    let waits = found
        .find(|(waits, late)| waits.len() >= COUNT_MIN && waits.len() * FOLLOWED_DIVISOR >= *late);
    let Some((waits, _)) = waits else { return Vec::new() };
    let split: Vec<_> = waits.iter().copied().filter(|wait| wait.is_split).collect();
    let mut findings = vec![delayed(facts, &waits)];
    findings.extend((split.len() >= COUNT_MIN).then(|| parts(facts, &split)));
    findings
}

/// The waits at a place, and the number of delayed acknowledgments with or without one.
fn waits(facts: &FlowFacts<'_>, place: Place) -> (Vec<Wait>, usize) {
    let store = facts.view.store;
    let trips = RoundTrips::of(store, place);
    let to = |side: Side| trips.to(side);
    let (Some(to_receiver_ns), Some(to_sender_ns)) = (to(facts.receiver()), to(facts.sender()))
    else {
        return (Vec::new(), 0);
    };
    let released_ns_max = to_sender_ns + to_sender_ns / 2 + RELEASE_NS_MAX;
    let is_senders = |packet: &Packet<'_>| packet.direction == facts.view.direction;
    let mut all = packets(store, place);
    let mut next = || all.next();
    let (mut waits, mut late, mut end, mut edge) = (Vec::new(), 0, 0, 0);
    let mut five = [next(), next(), next(), next(), next()];
    while let [Some(first), Some(ack), second, then, answer] = five {
        five = [five[1], second, then, answer, next()];
        if is_senders(&first) {
            end = first.pass.end().max(end);
        } else {
            edge = first.pass.window_edge().max(edge);
        }
        let is_all_acknowledged = is_senders(&first)
            && first.is_new_data()
            && !is_senders(&ack)
            && ack.is_bare_ack()
            && ack.pass.acknowledged() == end;
        let between_ns = ack.pass.at_ns.saturating_sub(first.pass.at_ns);
        let delay_ns = between_ns.saturating_sub(to_receiver_ns);
        // On a long path the network may have delayed the acknowledgment.
        let is_delayed = (DELAY_NS_MIN..DELAY_NS_MAX).contains(&delay_ns);
        if !is_all_acknowledged || !is_delayed || delay_ns < to_receiver_ns {
            continue;
        }
        late += 1;
        let Some(second) = second.filter(|second| is_senders(second) && second.is_new_data())
        else {
            continue;
        };
        let after_ns = second.pass.at_ns.saturating_sub(ack.pass.at_ns);
        let fitted = second.pass.end() <= edge;
        if second.pass.offset != end || after_ns > released_ns_max || !fitted {
            continue;
        }
        let is_short = |packet: &Packet<'_>| packet.pass.len < SHORT_BYTES;
        // The answer may follow its acknowledgment.
        let then = then.filter(|it| !is_senders(it) && it.is_bare_ack()).map_or(then, |_| answer);
        let is_answered = then.is_some_and(|it| !is_senders(&it) && it.pass.len > 0);
        waits.push(Wait {
            acknowledged_ns: ack.pass.at_ns,
            delay_ns,
            positions: [first.pass.offset, end, second.pass.end()],
            is_split: is_short(&first) && is_short(&second) && is_answered,
        });
    }
    (waits, late)
}

fn delayed(facts: &FlowFacts<'_>, waits: &[Wait]) -> Finding {
    let mut tally = Tally { count: waits.len() as u64, ..Tally::default() };
    for wait in waits {
        let Wait { acknowledged_ns, delay_ns, positions, .. } = *wait;
        tally.add_cost(acknowledged_ns.saturating_sub(delay_ns), acknowledged_ns);
        tally.notes.add(acknowledged_ns, || {
            format!(
                "receiver acknowledges {} without data, {} after it arrived; bytes from there on leave at once",
                positions[1],
                phrasing::time(delay_ns)
            )
        });
    }
    let (sender, receiver) = (facts.who(facts.sender()), facts.who(facts.receiver()));
    let summary = format!(
        "The {sender} waited {} for {} of the {receiver}: its next data left right after each. Nagle's \
         algorithm held it, or a full congestion window or send buffer; no packet shows the reason.",
        phrasing::on_average(tally.cost_ns, tally.count),
        counted(tally.count, "delayed acknowledgment"),
    );
    let fix = format!(
        "In the {sender}: write each message in one call, or set TCP_NODELAY; do not set SO_SNDBUF. \
         `sockscope record` on the host of the {sender} shows the reason."
    );
    tally.into_finding(FindingId::DelayedAckWait, facts, facts.sender(), summary, fix)
}

fn parts(facts: &FlowFacts<'_>, waits: &[Wait]) -> Finding {
    let mut tally = Tally { count: waits.len() as u64, ..Tally::default() };
    for wait in waits {
        let [start, middle, end] = wait.positions;
        tally.notes.add(wait.acknowledged_ns, || {
            format!(
                "bytes {start}..{middle} and {middle}..{end} in two segments, answered after the second"
            )
        });
    }
    let sender = facts.who(facts.sender());
    let summary = format!(
        "A hint: {} of the {sender} went out in two short segments, the second one after a delayed \
         acknowledgment. The program may write each message in several calls, and no packet shows them.",
        counted(tally.count, "message"),
    );
    let fix = format!(
        "In the {sender}: gather each message into one write (writev, sendmsg, MSG_MORE on all parts but the \
         last, or a buffered stream flushed once)."
    );
    tally.into_finding(FindingId::SplitMessage, facts, facts.sender(), summary, fix)
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::found;
    use insta::assert_snapshot;

    /// Twenty calls on a path of 2 ms, captured at the client: a request in two parts, the second one `after_us`
    /// after the acknowledgment of the first, which the server makes `delay_ms` after its arrival.
    fn calls(delay_ms: u64, after_us: u64) -> String {
        let call = |n: u64| {
            let at_us = 100_000 * (n + 1);
            let acknowledged_us = at_us + 2_000 + delay_ms * 1_000;
            let second_us = acknowledged_us + after_us;
            let answered_us = second_us + 2_100;
            let (half, whole) = (n * 20 + 10, n * 20 + 20);
            format!(
                "{at_us}us 4 +10 | {acknowledged_us}us <5 ack={half} win=60000 | {second_us}us 4 +10
                 {answered_us}us <5 +50 ack={whole} win=60000"
            )
        };
        let calls: Vec<_> = (0..20).map(call).collect();
        let open = "0us 4 syn | 2000us <5 syn ack=0 win=60000 | 2010us 4 ack=0";
        format!("{open} | {}", calls.join(" | "))
    }

    const LEDGER: &str = "0ms wire | 2100ms end";

    #[test]
    fn data_that_leaves_right_after_each_delayed_acknowledgment_waited_for_it() {
        assert_snapshot!(found(&calls(40, 20), LEDGER), @r"
        delayed-ack-wait @client 20x 800 ms: The client waited 40.0 ms on average for 20 delayed acknowledgments of the server: its next data left right after each. Nagle's algorithm held it, or a full congestion window or send buffer; no packet shows the reason.
        split-message @client 20x 0 ns: A hint: 20 messages of the client went out in two short segments, the second one after a delayed acknowledgment. The program may write each message in several calls, and no packet shows them.
        ");
    }

    #[test]
    fn segments_without_an_answer_are_no_parts_of_a_message() {
        let unanswered = found(&calls(40, 20).replace("<5 +50 ack=", "<5 ack="), LEDGER);
        assert!(unanswered.contains("delayed-ack-wait"), "{unanswered}");
        assert!(!unanswered.contains("split-message"), "{unanswered}");
    }

    #[test]
    fn an_answer_may_follow_its_acknowledgment() {
        let text = calls(40, 20).replace('\n', " | ");
        let twice = |entry: &str| match entry.contains("+50") {
            true => format!("{} | {entry}", entry.replace("+50 ", "")),
            false => entry.to_owned(),
        };
        let acknowledged: Vec<_> = text.split(" | ").map(twice).collect();
        assert_eq!(found(&acknowledged.join(" | "), LEDGER), found(&text, LEDGER));
    }

    #[test]
    fn data_that_leaves_later_did_not_wait() {
        assert_snapshot!(found(&calls(40, 5_000), LEDGER), @"");
    }

    #[test]
    fn a_prompt_acknowledgment_is_not_a_delayed_one() {
        assert_snapshot!(found(&calls(3, 20), LEDGER), @"");
    }

    #[test]
    fn data_that_did_not_fit_into_the_window_waited_for_the_reader() {
        let text = calls(40, 20).replace("win=60000", "win=10");
        assert_snapshot!(found(&text, LEDGER), @"");
    }

    /// A clock of 100 ms is no multiple of the delay: one acknowledgment of eight is followed by chance.
    #[test]
    fn a_program_that_sends_by_its_own_clock_did_not_wait() {
        let call = |n: u64| {
            let at_us = 100_000 * (n + 1);
            let acknowledged_us = at_us + 42_000;
            let second_us = acknowledged_us + if n.is_multiple_of(8) { 20 } else { 9_000 };
            let (half, whole) = (n * 20 + 10, n * 20 + 20);
            format!(
                "{at_us}us 4 +10 | {acknowledged_us}us <5 ack={half} win=60000 | {second_us}us 4 +10
                 {}us <5 ack={whole} win=60000", second_us + 2_000
            )
        };
        let calls: Vec<_> = (0..40).map(call).collect();
        let open = "0us 4 syn | 2000us <5 syn ack=0 win=60000 | 2010us 4 ack=0";
        assert_snapshot!(found(&format!("{open} | {}", calls.join(" | ")), LEDGER), @"");
    }

    #[test]
    fn the_place_of_the_capture_changes_nothing() {
        let at_client = calls(40, 20);
        let on_wire =
            at_client.replace("<5", "<4").replace(" | ", " derived | ").replace('\n', " derived\n");
        let on_wire = format!("{on_wire} derived");
        assert_eq!(found(&on_wire, LEDGER), found(&at_client, LEDGER));
    }
}
