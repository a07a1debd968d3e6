//! `nagle-delayed-ack`: a short segment waits for an acknowledgment that the receiver's timer holds
//! back.
//!
//! The cost is the time in which Nagle's algorithm (RFC 896) held the oldest unread byte, in a hold
//! of [`LATE_NS`] or more that ended with a timer's acknowledgment. As the byte is the oldest
//! unread one, the reader has read all before it and waits for it.

use super::acks::{LateAck, released_by};
use super::facts::FlowFacts;
use super::phrasing;
use super::tally::Tally;
use crate::acks::LATE_NS;
use crate::send_hold::RELEASE_NS_MAX;
use crate::{Finding, FindingId, LedgerPart, LedgerSpan};

/// One write held by Nagle's algorithm until a delayed acknowledgment arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stall {
    pub start_ns: u64,
    pub end_ns: u64,
    /// Position of the first byte held.
    pub offset: u64,
    ack: LateAck,
}

/// The stalls of a flow, in order.
pub(super) fn stalls(facts: &FlowFacts<'_>) -> Vec<Stall> {
    let stall = |span: LedgerSpan| {
        let ack = released_by(&facts.late_acks, span.start_ns, span.end_ns, RELEASE_NS_MAX)?;
        let is_awaited = ack.position <= span.offset;
        let LedgerSpan { start_ns, end_ns, offset, .. } = span;
        is_awaited.then_some(Stall { start_ns, end_ns, offset, ack: *ack })
    };
    let holds = facts.whole_holds(LedgerPart::SendNagle);
    holds.filter(|span| span.duration_ns() >= LATE_NS).filter_map(stall).collect()
}

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let stalls = stalls(facts);
    if stalls.is_empty() {
        return None;
    }
    let mut tally = Tally { count: stalls.len() as u64, ..Tally::default() };
    let waited = phrasing::spread(stalls.iter().map(|stall| stall.end_ns - stall.start_ns));
    for stall in &stalls {
        tally.add_cost(stall.start_ns, stall.end_ns);
        note(&mut tally, stall);
    }
    let (sender, receiver) = (facts.who(facts.sender()), facts.who(facts.receiver()));
    let summary = format!(
        "{} of the {sender} waited {waited}: Nagle's algorithm held a short segment until a \
         delayed acknowledgment came from the {receiver}.",
        phrasing::counted(tally.count, "write"),
    );
    let fix = format!(
        "In the {sender}: write each message in one call (writev, sendmsg, MSG_MORE, a buffered \
         stream), or set TCP_NODELAY on the socket."
    );
    Some(tally.into_finding(FindingId::NagleDelayedAck, facts, facts.sender(), summary, fix))
}

fn note(tally: &mut Tally, stall: &Stall) {
    let Stall { start_ns, end_ns, offset, ack } = *stall;
    tally.notes.add(start_ns, || {
        format!("bytes from {offset} on wait in the send queue: held by Nagle's algorithm")
    });
    tally.notes.add(ack.made_ns, || {
        let delay = phrasing::time(ack.delay_ns());
        format!("receiver acknowledges {} without data, {delay} after it arrived", ack.position)
    });
    tally.notes.add(end_ns, || {
        let held = phrasing::time(end_ns - start_ns);
        format!("bytes from {offset} on are sent, after {held}")
    });
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::found;
    use insta::assert_snapshot;

    /// One call: 100 bytes go and are read at once, 300 are held until `ack` leaves at 41 ms.
    fn call(ack: &str) -> String {
        format!(
            "1ms 1-8 +100 | 1ms 1 +300 nagle | {ack}
             41ms 2-8 +300 | 42ms <1-8 +50 ack=400"
        )
    }

    const LEDGER: &str = "0ms app_idle | 1ms send_queue.nagle 100 | 41ms app_idle | 42ms end";

    #[test]
    fn a_second_write_held_until_the_delayed_acknowledgment_is_a_stall() {
        assert_snapshot!(found(&call("41ms <3-6 ack=100"), LEDGER), @r#"
        nagle-delayed-ack @client 1x 40.0 ms: 1 write of the client waited 40.0 ms: Nagle's algorithm held a short segment until a delayed acknowledgment came from the server.
        split-message @client 1x 0 ns: From the client: 1 message went out in several writes and a later part was held, which is what lets nagle-delayed-ack happen.
        "#);
    }

    /// Whether the rule fires. Each trace that must be silent has one next to it that differs from it in one
    /// point and must not be.
    fn is_stall(text: &str, ledger: &str) -> bool {
        found(text, ledger).contains("nagle-delayed-ack @client")
    }

    #[test]
    fn the_same_hold_ended_by_an_answer_is_not() {
        assert!(is_stall(&call("41ms <3-6 ack=100"), LEDGER));
        assert_snapshot!(found(&call("41ms <1-6 +20 ack=100"), LEDGER), @"");
    }

    #[test]
    fn nor_one_ended_by_an_acknowledgment_that_the_path_delayed() {
        // Made at once, received 40 ms later.
        assert_snapshot!(found(&call("1ms <3-4 ack=100 | 41ms <5-6 ack=100"), LEDGER), @"split-message @client 1x 40.0 ms: From the client: 1 message went out in several writes and a later part was held, waiting 40.0 ms for acknowledgments in all.");
        assert!(is_stall(&call("41ms <3-4 ack=100 | 41ms <5-6 ack=100"), LEDGER));
    }

    #[test]
    fn nor_one_whose_acknowledgment_was_made_by_a_read() {
        let read_at = |time: &str| {
            format!(
                "1ms 1-7 +100 | 1ms 1 +300 nagle | {time} 8 +100 | 41ms <3-6 ack=100 | 41ms 2-8 +300"
            )
        };
        let ledger = "1ms receive_queue.app | 41ms app_idle | 42ms end";
        assert_snapshot!(found(&read_at("41ms"), ledger), @"");
        assert!(is_stall(&read_at("1ms"), LEDGER));
    }

    #[test]
    fn a_hold_of_one_round_trip_on_loopback_is_silent() {
        let acknowledged_at = |ack: &str, left: &str| {
            let text =
                format!("1ms 1-8 +100 | 1ms 1 +300 nagle | {ack} <3-6 ack=100 | {left} 2-8 +300");
            (text, format!("1ms send_queue.nagle 100 | {left} app_idle | 90ms end"))
        };
        let (text, ledger) = acknowledged_at("1050us", "1060us");
        assert_snapshot!(found(&text, &ledger), @"");
        let (text, ledger) = acknowledged_at("41050us", "41060us");
        assert!(is_stall(&text, &ledger));
    }

    #[test]
    fn with_nodelay_nothing_is_held_and_the_late_acknowledgment_harms_nobody() {
        let text = "1ms 1-8 +100 | 1ms 1-8 +300 | 41ms <3-6 ack=400";
        assert_snapshot!(found(text, "1ms app_idle | 42ms end"), @"");
        // The same late acknowledgment, with the second write held by it.
        let held = "1ms 1-8 +100 | 1ms 1 +300 nagle | 41ms <3-6 ack=100 | 41ms 2-8 +300";
        assert!(is_stall(held, LEDGER));
    }

    #[test]
    fn a_receiver_on_another_host_is_not_accused() {
        let here = "1ms 1-8 +100 | 1ms 1 +300 nagle | 41ms <3-6 ack=100 | 41ms 2-8 +300";
        let elsewhere = "1ms 1-4 +100 | 1ms 1 +300 nagle | 41ms <5-6 ack=100 | 41ms 2-4 +300";
        let ledger = "1ms send_queue.nagle 100 | 41ms unknown | 42ms end";
        assert!(is_stall(here, ledger));
        assert_snapshot!(found(elsewhere, ledger), @"");
    }
}
