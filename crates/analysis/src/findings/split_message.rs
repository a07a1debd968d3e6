//! `split-message`: one message in several writes.
//!
//! A message is what one side writes between two reads of the other direction. Splitting one is
//! reported where it provably cost something: a later part was held by Nagle's algorithm. Time that a
//! delayed acknowledgment took is `nagle-delayed-ack`'s; only holds of a plain round trip count here. Messages
//! scattered over many tiny writes are reported too, without a claim of time.

use sockscope_record::Point;

use super::facts::FlowFacts;
use super::intervals::Interval;
use super::nagle_delayed_ack::stalls;
use super::writes::{Turn, corked_offsets, turns};
use super::{Tally, words};
use crate::{Finding, FindingId, LedgerPart, LedgerSpan};

/// A hold worth a word: far above a round trip on loopback, where nobody would notice it.
const HOLD_NS_MIN: u64 = 1_000_000;

/// A turn of more writes than this is a stream, not a message.
const MESSAGE_WRITES_MAX: usize = 64;

/// Two or three writes (header, body, trailer) may be intended; from four on nobody gathers.
const SCATTERED_WRITES_MIN: usize = 4;

/// What fits into one Ethernet segment would not have needed a second write.
const SCATTERED_BYTES_MAX: u64 = 1448;

/// A habit, not an accident.
const SCATTERED_MESSAGES_MIN: usize = 16;

/// Parts further apart, as a mean, are messages of their own: a program that tells many peers what
/// each of the others said writes to one of them again when it has served the rest.
const SCATTERED_GAP_NS_MAX: u64 = 100_000;

/// Sizes of writes that the evidence lists of one message.
const SIZES_MAX: usize = 8;

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let turns = turns(facts.view, &facts.writes);
    let messages: Vec<_> = turns.into_iter().filter(is_message).collect();
    held(facts, &messages).or_else(|| scattered(facts, &messages))
}

fn is_message(turn: &Turn<'_>) -> bool {
    turn.is_answered && turn.writes.len() <= MESSAGE_WRITES_MAX
}

fn held(facts: &FlowFacts<'_>, messages: &[Turn<'_>]) -> Option<Finding> {
    let stalls = stalls(facts);
    let is_stall = |hold: &LedgerSpan| {
        stalls.binary_search_by_key(&hold.start_ns, |stall| stall.start_ns).is_ok()
    };
    let mut tally = Tally::default();
    let mut stalled = 0;
    let holds = facts.whole_holds(LedgerPart::SendNagle);
    for hold in holds.iter().filter(|hold| hold.duration_ns() >= HOLD_NS_MIN) {
        let Some(message) = split_at(messages, hold.offset) else { continue };
        if was_answered_meanwhile(facts, hold) {
            continue;
        }
        let is_stall = is_stall(hold);
        let held = Interval::new(hold.start_ns, hold.end_ns);
        if !is_stall && facts.lost_records.touches(held) {
            continue; // A delayed acknowledgment may be what was not seen.
        }
        tally.count += 1;
        if is_stall {
            stalled += 1;
        } else {
            tally.lost_ns += hold.duration_ns();
        }
        note(&mut tally, message);
        tally.notes.add(hold.start_ns, || {
            let held = words::time(hold.duration_ns());
            format!("Nagle's algorithm holds the part from {} on for {held}", hold.offset)
        });
    }
    if tally.count == 0 {
        return None;
    }
    let why = match (stalled, tally.lost_ns) {
        (_, 0) => "which is what lets nagle-delayed-ack happen".to_owned(),
        (_, lost_ns) => format!("waiting {} for acknowledgments in all", words::time(lost_ns)),
    };
    let messages = words::counted(tally.count, "message");
    let what = format!("{messages} went out in several writes and a later part was held, {why}.");
    Some(finding(facts, tally, &what))
}

/// The other side answered what it had: the part that was held is a request of its own.
fn was_answered_meanwhile(facts: &FlowFacts<'_>, hold: &LedgerSpan) -> bool {
    let arrivals = facts.view.reverse().at(Point::InputDequeue);
    let after = &arrivals[arrivals.partition_point(|pass| pass.at_ns <= hold.start_ns)..];
    after.iter().take_while(|pass| pass.at_ns <= hold.end_ns).any(|pass| pass.len > 0)
}

/// The message that has `offset` in a write other than its first.
fn split_at<'m, 'w>(messages: &'m [Turn<'w>], offset: u64) -> Option<&'m Turn<'w>> {
    let message = messages.get(messages.partition_point(|message| message.end() <= offset))?;
    let second = message.writes.get(1)?;
    (second.offset <= offset).then_some(message)
}

fn scattered(facts: &FlowFacts<'_>, messages: &[Turn<'_>]) -> Option<Finding> {
    let corked = corked_offsets(facts.view.flow());
    let is_scattered = |message: &&Turn<'_>| {
        let parts =
            message.writes.iter().filter(|write| corked.binary_search(&write.offset).is_err());
        message.bytes() <= SCATTERED_BYTES_MAX
            && parts.count() >= SCATTERED_WRITES_MIN
            && is_in_one_go(message)
    };
    let mut tally = Tally::default();
    for message in messages.iter().filter(is_scattered) {
        tally.count += 1;
        note(&mut tally, message);
    }
    let is_habit = tally.count >= SCATTERED_MESSAGES_MIN as u64;
    if !is_habit || tally.count * 2 < messages.len() as u64 {
        return None;
    }
    let what = format!(
        "{} of {} went out in {SCATTERED_WRITES_MIN} writes or more each, although one segment could \
         have carried it.",
        tally.count,
        words::counted(messages.len() as u64, "message"),
    );
    Some(finding(facts, tally, &what))
}

fn is_in_one_go(message: &Turn<'_>) -> bool {
    let [first, .., last] = message.writes else { return true };
    let gaps = message.writes.len() as u64 - 1;
    last.start_ns.saturating_sub(first.start_ns) <= gaps * SCATTERED_GAP_NS_MAX
}

fn note(tally: &mut Tally, message: &Turn<'_>) {
    let Some(first) = message.writes.first() else { return };
    tally.notes.add(first.start_ns, || {
        let writes = message.writes.iter();
        let mut sizes: Vec<_> = writes.take(SIZES_MAX).map(|write| write.len.to_string()).collect();
        match message.writes.len() - sizes.len() {
            0 => {}
            more => sizes.push(words::counted(more as u64, "further write")),
        }
        format!("one message of {} bytes in writes of {}", message.bytes(), sizes.join(" + "))
    });
}

fn finding(facts: &FlowFacts<'_>, tally: Tally, what: &str) -> Finding {
    let sender = facts.who(facts.sender());
    let summary = format!("From the {sender}: {what}");
    let fix = format!(
        "In the {sender}: gather each message into one write (writev, sendmsg, MSG_MORE on all parts \
         but the last, or a buffered stream flushed once)."
    );
    tally.into_finding(FindingId::SplitMessage, facts, facts.sender(), summary, fix)
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Fixture, found, repeat};
    use insta::assert_snapshot;

    #[test]
    fn a_part_held_for_a_round_trip_costs_that_round_trip() {
        let text =
            "1ms 1-8 +100 | 1ms 1 +300 nagle | 1ms <3-4 ack=100 | 31ms <5-6 ack=100 | 31ms 2-8 +300
                    40ms <1-8 +50";
        let ledger = "1ms send_queue.nagle 100 | 31ms app_idle | 60ms end";
        assert_snapshot!(found(text, ledger), @"split-message @client 1x 30.0 ms: From the client: 1 message went out in several writes and a later part was held, waiting 30.0 ms for acknowledgments in all.");
    }

    #[test]
    fn a_hold_in_which_the_timers_acknowledgment_may_have_been_lost_is_nobodys() {
        let text =
            "1ms 1-8 +100 | 1ms 1 +300 nagle | 41ms loss code=4 from=1ms detail=1 | 41ms 2-8 +300
                    42ms <1-8 +50 ack=400";
        let ledger = "1ms send_queue.nagle 100 | 41ms app_idle | 60ms end";
        assert_snapshot!(found(text, ledger), @"");
    }

    #[test]
    fn requests_sent_ahead_of_any_answer_are_not_parts_of_a_message() {
        let text = "1ms 1-8 +100 | 1ms 1 +300 nagle | 1ms <3-4 ack=100 | 31ms <5-6 ack=100 | 31ms 2-8 +300";
        let ledger = "1ms send_queue.nagle 100 | 31ms app_idle | 60ms end";
        assert_snapshot!(found(text, ledger), @"");
    }

    #[test]
    fn five_writes_a_message_as_a_habit_are_named_without_a_time() {
        assert_snapshot!(found(&scattered("20us"), "0ms app_idle | 21ms end"), @"split-message @client 20x 0 ns: From the client: 20 of 20 messages went out in 4 writes or more each, although one segment could have carried it.");
    }

    #[test]
    fn what_is_written_now_and_then_is_no_single_message() {
        assert_snapshot!(found(&scattered("150us"), "0ms app_idle | 21ms end"), @"");
    }

    /// Twenty turns of five writes so far apart, each answered a millisecond after it began.
    fn scattered(gap: &str) -> String {
        let gap_us: u64 = gap.trim_end_matches("us").parse().unwrap();
        let turn = |n: u64| {
            let start_us = n * 1_000;
            let writes = (0..5).map(|part| format!("{}us 1-8 +9", start_us + part * gap_us));
            let answer = format!("{}us <1-8 +5", start_us + 900);
            writes.chain([answer]).collect::<Vec<_>>().join(" | ")
        };
        (1..=20).map(turn).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn the_evidence_lists_so_many_sizes_and_no_more() {
        let text = (1..=20).map(|n| {
            let writes = (0..12).map(|part| format!("{}us 1-8 +9", n * 1_000 + part));
            writes.chain([format!("{}us <1-8 +5", n * 1_000 + 900)]).collect::<Vec<_>>().join(" | ")
        });
        let text = text.collect::<Vec<_>>().join(" | ");
        let findings = Fixture::new(&text, "0ms app_idle | 21ms end").findings();
        assert_snapshot!(findings[0].evidence[0].text, @"one message of 108 bytes in writes of 9 + 9 + 9 + 9 + 9 + 9 + 9 + 9 + 4 further writes");
    }

    #[test]
    fn two_writes_a_message_with_nodelay_are_silent() {
        let text =
            repeat(200, "1ms", |at| format!("{at} 1-8 +100 | {at} 1-8 +300 | {at} <1-8 +50"));
        assert_snapshot!(found(&text, "0ms app_idle | 201ms end"), @"");
    }

    #[test]
    fn parts_gathered_with_msg_more_are_one_write() {
        let text = repeat(20, "1ms", |at| {
            format!(
                "{at} 1 +9 cork | {at} 1 +9 cork | {at} 1 +9 cork | {at} 1 +9 | {at} 2-8 +36 | {at} <1-8 +5"
            )
        });
        assert_snapshot!(found(&text, "0ms app_idle | 21ms end"), @"");
    }
}
