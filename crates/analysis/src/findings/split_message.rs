//! `split-message`: one message in several writes.
//!
//! A message is the bytes that one thread of one side writes between two reads of the other direction, without
//! a pause. Bytes that the other side answers in parts are several messages. Splitting one is reported where
//! it provably cost something: a later part was held by Nagle's algorithm. Time that a delayed acknowledgment
//! took is `nagle-delayed-ack`'s; only holds of a plain round trip count here. Messages scattered over many
//! tiny writes are reported too, without a claim of time.

use sockscope_record::{Point, marks};

use super::facts::FlowFacts;
use super::intervals::Interval;
use super::nagle_delayed_ack::stalls;
use super::phrasing;
use super::tally::Tally;
use super::writes::{Turn, Write, corked_offsets, turns};
use crate::{Finding, FindingId, LedgerPart, LedgerSpan, Passage};

/// A hold worth a word: far above a round trip on loopback, where it has no effect.
const HOLD_NS_MIN: u64 = 1_000_000;

/// A turn of more writes than this is a stream, not a message.
const MESSAGE_WRITES_MAX: usize = 64;

/// Two or three writes (header, body, trailer) may be intended; four and more are not intended.
const SCATTERED_WRITES_MIN: usize = 4;

/// Data that fits into one Ethernet segment would not have needed a second write.
const SCATTERED_BYTES_MAX: u64 = 1448;

/// A habit, not an accident.
const SCATTERED_MESSAGES_MIN: usize = 16;

/// Parts further apart, as a mean, are messages of their own: a program that forwards the messages
/// of each peer to many others writes to one of them again when it has served the rest.
const SCATTERED_GAP_NS_MAX: u64 = 100_000;

/// Parts further apart than this are messages of their own: gathering them would keep back the first.
/// Between two parts of one message a program does a copy and a system call, on the slowest machines of
/// the model a few milliseconds.
const PAUSE_NS_MIN: u64 = 5_000_000;

/// Sizes of writes that the evidence lists of one message.
const SIZES_MAX: usize = 8;

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let turns = turns(facts.view, &facts.writes);
    let messages: Vec<_> = turns.iter().filter(|turn| is_short(turn)).flat_map(messages).collect();
    let held = if facts.is_unix() { None } else { held(facts, &messages) };
    held.or_else(|| scattered(facts, &messages))
}

fn is_short(turn: &Turn<'_>) -> bool {
    turn.is_answered && turn.writes.len() <= MESSAGE_WRITES_MAX
}

/// The messages of one turn: all of it except for pauses, and none where several threads wrote, each with
/// its own messages.
fn messages<'w>(turn: &Turn<'w>) -> impl Iterator<Item = Turn<'w>> {
    let is_one_writers = turn.writes.windows(2).all(|pair| pair[0].thread == pair[1].thread);
    let writes = if is_one_writers { turn.writes } else { &[] };
    let is_answered = turn.is_answered;
    let messages = writes.chunk_by(|a, b| !is_pause(a, b));
    messages.map(move |writes| Turn { writes, is_answered })
}

fn is_pause(a: &Write, b: &Write) -> bool {
    let done_ns = a.busy_until_ns().unwrap_or(a.start_ns);
    b.start_ns.saturating_sub(done_ns) >= PAUSE_NS_MIN
}

/// The other side answered when it had read some parts and not the last one, which is a message of its
/// own then. Not known where that side is not seen.
fn is_answered_in_part(facts: &FlowFacts<'_>, message: &Turn<'_>) -> bool {
    let reads = facts.view.flow().at(Point::ReceiveDequeue);
    let read_ns = |offset: u64| {
        let read = reads.get(reads.partition_point(|read| read.end() <= offset))?;
        Some(read.at_ns)
    };
    let last = message.writes.last().and_then(|write| read_ns(write.offset));
    let Some((first_ns, last_ns)) = read_ns(message.offset()).zip(last) else { return false };
    answers(facts, first_ns, last_ns) > 0
}

/// Number of writes of the other side between these times.
fn answers(facts: &FlowFacts<'_>, from_ns: u64, until_ns: u64) -> usize {
    let answers = facts.view.reverse().at(Point::SendEnqueue);
    let before = |at_ns: u64| answers.partition_point(|answer| answer.at_ns < at_ns);
    before(until_ns).saturating_sub(before(from_ns))
}

fn held(facts: &FlowFacts<'_>, messages: &[Turn<'_>]) -> Option<Finding> {
    let stalls = stalls(facts);
    let is_stall = |hold: &LedgerSpan| {
        stalls.binary_search_by_key(&hold.start_ns, |stall| stall.start_ns).is_ok()
    };
    let mut tally = Tally::default();
    let (mut stalled, mut counted) = (0, None);
    let holds = facts.whole_holds(LedgerPart::SendNagle);
    for hold in holds.filter(|hold| hold.duration_ns() >= HOLD_NS_MIN) {
        let Some(message) = split_at(messages, hold.offset) else { continue };
        if was_answered_meanwhile(facts, &hold) || is_answered_in_part(facts, message) {
            continue;
        }
        let is_stall = is_stall(&hold);
        let held = Interval::new(hold.start_ns, hold.end_ns);
        if !is_stall && facts.doubt.sending.touches(held) {
            continue; // The missed record may be a delayed acknowledgment.
        }
        // Several parts of one may have been held.
        tally.count += u64::from(counted.replace(message.offset()) != Some(message.offset()));
        if is_stall {
            stalled += 1;
        } else {
            tally.add_cost(hold.start_ns, hold.end_ns);
        }
        note(&mut tally, message);
        tally.notes.add(hold.start_ns, || {
            let held = phrasing::time(hold.duration_ns());
            format!("Nagle's algorithm holds the part from {} on for {held}", hold.offset)
        });
    }
    if tally.count == 0 {
        return None;
    }
    let why = match (stalled, tally.cost_ns) {
        (_, 0) => "which is what lets nagle-delayed-ack happen".to_owned(),
        (_, cost_ns) => format!("waiting {} for acknowledgments in all", phrasing::time(cost_ns)),
    };
    let messages = phrasing::counted(tally.count, "message");
    let what = format!("{messages} went out in several writes and a later part was held, {why}.");
    Some(finding(facts, tally, &what))
}

/// The other side answered the part that it had: the part that was held is a request of its own.
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
    let mut seen = Seen::default();
    for (index, message) in messages.iter().enumerate().filter(|(_, message)| is_scattered(message))
    {
        let next = messages.get(index + 1).and_then(|next| next.writes.first());
        let until_ns = next.map_or(u64::MAX, |next| next.start_ns);
        let from_ns = message.writes.first().map_or(0, |write| write.start_ns);
        // An answer to each: calls of a program that does not wait for one before the next.
        let are_calls = answers(facts, from_ns, until_ns) >= message.writes.len();
        if are_calls || is_answered_in_part(facts, message) {
            continue;
        }
        tally.count += 1;
        seen.add(facts, message);
        note(&mut tally, message);
    }
    let is_habit = tally.count >= SCATTERED_MESSAGES_MIN as u64;
    if !is_habit || tally.count * 2 < messages.len() as u64 {
        return None;
    }
    let carrier = if facts.is_unix() { "write" } else { "segment" };
    let what = format!(
        "{} of {} went out in {SCATTERED_WRITES_MIN} writes or more each, although one {carrier} could \
         have carried it{}.",
        tally.count,
        phrasing::counted(messages.len() as u64, "message"),
        seen.words(tally.count),
    );
    Some(finding(facts, tally, &what))
}

/// The parts of messages on the path: one packet and one wake-up for each message would be enough.
#[derive(Default)]
struct Seen {
    packets: u64,
    wakeups: u64,
}

impl Seen {
    fn add(&mut self, facts: &FlowFacts<'_>, message: &Turn<'_>) {
        let flow = facts.view.flow();
        let within = |passes: &'_ [Passage]| {
            let from = passes.partition_point(|pass| pass.end() <= message.offset());
            let of_message = passes[from..].iter().take_while(|pass| pass.offset < message.end());
            let new = of_message.filter(|pass| pass.marks & marks::RETRANSMITTED == 0);
            new.map(|pass| pass.marks & marks::WAITED_FOR != 0).collect::<Vec<bool>>()
        };
        if !facts.is_unix() {
            self.packets += within(flow.at(Point::SendDequeue)).len() as u64;
        }
        let arrivals = within(flow.at(Point::ReceiveEnqueue));
        self.wakeups += arrivals.into_iter().filter(|was_awaited| *was_awaited).count() as u64;
    }

    /// As `, and they took 80 packets and woke the reader 60 times`; nothing where that was no more than one each.
    fn words(&self, messages: u64) -> String {
        let more = |count: u64| count > messages;
        let packets = phrasing::counted(self.packets, "packet");
        match (more(self.packets), more(self.wakeups)) {
            (true, true) => {
                let times = phrasing::counted(self.wakeups, "time");
                format!("; they took {packets}, and their reader was woken {times}")
            }
            (true, false) => format!("; they took {packets}"),
            // A Unix socket has no packets.
            (false, true) if self.packets == 0 => {
                let times = phrasing::counted(self.wakeups, "time");
                format!("; their reader was woken {times}")
            }
            (false, _) => String::new(),
        }
    }
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
            more => sizes.push(phrasing::counted(more as u64, "further write")),
        }
        format!("one message of {} bytes in writes of {}", message.bytes(), sizes.join(" + "))
    });
}

fn finding(facts: &FlowFacts<'_>, tally: Tally, what: &str) -> Finding {
    let sender = facts.who(facts.sender());
    let summary = format!("From the {sender}: {what}");
    let more = if facts.is_unix() { "" } else { "MSG_MORE on all parts but the last, " };
    let fix = format!(
        "In the {sender}: gather each message into one write (writev, sendmsg, {more}or a buffered \
         stream flushed once)."
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
    fn a_hold_in_which_the_timers_acknowledgment_may_have_been_missed_is_nobodys() {
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
        assert_snapshot!(found(&scattered("20us"), "0ms app_idle | 21ms end"), @"split-message @client 20x 0 ns: From the client: 20 of 20 messages went out in 4 writes or more each, although one segment could have carried it; they took 100 packets.");
    }

    #[test]
    fn parts_that_wake_the_reader_one_by_one_cost_wake_ups() {
        let turn = |n: u64| {
            let at = |us: u64| n * 1_000 + us;
            let writes = (0..5).map(|part| {
                let marks = if part % 2 == 0 { " waited" } else { "" };
                let (at, arrives) = (at(part * 20), at(part * 20 + 5));
                format!("{at}us 1-6 +9 | {arrives}us 7 +9{marks} | {arrives}us 8 +9")
            });
            let answer = format!("{}us <1-8 +5", at(900));
            writes.chain([answer]).collect::<Vec<_>>().join(" | ")
        };
        let text: Vec<_> = (1..=20).map(turn).collect();
        assert_snapshot!(found(&text.join(" | "), "0ms app_idle | 21ms end"), @"split-message @client 20x 0 ns: From the client: 20 of 20 messages went out in 4 writes or more each, although one segment could have carried it; they took 100 packets, and their reader was woken 60 times.");
    }

    #[test]
    fn parts_in_a_unix_socket_are_calls_and_wake_ups() {
        let ledger = "0ms app_idle | 21ms end";
        assert_snapshot!(Fixture::new(&scattered("20us"), ledger).unix().found(), @"split-message @client 20x 0 ns: From the client: 20 of 20 messages went out in 4 writes or more each, although one write could have carried it.");
        let woken = scattered("20us").replace("1-8 +9", "1-8 +9 waited");
        assert_snapshot!(Fixture::new(&woken, ledger).unix().found(), @"split-message @client 20x 0 ns: From the client: 20 of 20 messages went out in 4 writes or more each, although one write could have carried it; their reader was woken 100 times.");
    }

    /// As Nagle's algorithm, or autocorking, has it.
    #[test]
    fn parts_that_travel_in_one_packet_cost_calls_alone() {
        let text = scattered("20us").replace("1-8 +9", "1 +9");
        let sent = (1..=20)
            .map(|n| format!("{}us 2-8 +45", n * 1_000 + 200))
            .collect::<Vec<_>>()
            .join(" | ");
        assert_snapshot!(found(&format!("{text} | {sent}"), "0ms app_idle | 21ms end"), @"split-message @client 20x 0 ns: From the client: 20 of 20 messages went out in 4 writes or more each, although one segment could have carried it.");
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

    /// Twenty turns of five writes by these threads, answered by `answers` writes of the server.
    fn calls(thread: impl Fn(u64) -> u64, answers: u64) -> String {
        let turn = |n: u64| {
            let at = n * 1_000;
            let write = |part: u64| {
                let at = at + part * 20;
                format!("{at}us 1-7 +9 thread={}", thread(part))
            };
            let answer = |i: u64| format!("{}us <1-7 +5", at + 500 + i);
            let writes = (0..5).map(write).chain([format!("{}us 8 +45", at + 400)]);
            let sent: Vec<_> = (0..answers).map(answer).collect();
            let read = format!("{}us <8 +{}", at + 900, answers * 5);
            writes.chain(sent).chain([read]).collect::<Vec<_>>().join(" | ")
        };
        (1..=20).map(turn).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn calls_of_several_threads_are_no_parts_of_a_message() {
        assert_snapshot!(found(&calls(|_| 7, 1), "0ms app_idle | 21ms end"), @"split-message @client 20x 0 ns: From the client: 20 of 20 messages went out in 4 writes or more each, although one segment could have carried it; they took 100 packets.");
        assert_snapshot!(found(&calls(|part| part, 1), "0ms app_idle | 21ms end"), @"");
    }

    #[test]
    fn calls_that_are_answered_one_by_one_are_no_parts_of_a_message() {
        assert_snapshot!(found(&calls(|_| 7, 4), "0ms app_idle | 21ms end"), @"split-message @client 20x 0 ns: From the client: 20 of 20 messages went out in 4 writes or more each, although one segment could have carried it; they took 100 packets.");
        assert_snapshot!(found(&calls(|_| 7, 5), "0ms app_idle | 21ms end"), @"");
    }

    #[test]
    fn what_is_answered_before_the_last_part_is_read_is_no_single_message() {
        let turn = |n: u64| {
            let at = n * 1_000;
            format!(
                "{at}us 1-7 +9 | {at}us 8 +9 | {at}us <1-7 +5 | {at}us 1-7 +9 | {at}us 1-7 +9 | {at}us 1-7 +9
                 {}us 8 +27 | {}us <1-7 +5 | {}us <8 +10",
                at + 500,
                at + 600,
                at + 900
            )
        };
        let text: Vec<_> = (1..=20).map(turn).collect();
        assert_snapshot!(found(&text.join(" | "), "0ms app_idle | 21ms end"), @"");
    }

    /// A stream of chunks, each held by Nagle's algorithm until the one before is acknowledged.
    fn chunks(pause_ms: u64) -> String {
        let chunk = |n: u64| {
            let (at, sent) = (1 + n * pause_ms * 2, 1 + n * pause_ms * 2 + pause_ms);
            format!(
                "{at}ms 1-8 +19 | {at}ms <3-6 ack={} | {sent}ms 1 +19 nagle | {}ms 2-8 +19 |",
                n * 38,
                sent + 3
            )
        };
        (0..10).map(chunk).collect::<String>() + "900ms <1-8 +50"
    }

    #[test]
    fn deliberate_chunks_of_a_stream_are_no_single_message() {
        let held = "24ms send_queue.nagle 19 | 27ms app_idle | 900ms end";
        assert_snapshot!(found(&chunks(20), held), @"");
        let held = "5ms send_queue.nagle 19 | 8ms app_idle | 900ms end";
        assert_snapshot!(found(&chunks(4), held), @"split-message @client 1x 3.00 ms: From the client: 1 message went out in several writes and a later part was held, waiting 3.00 ms for acknowledgments in all.");
    }

    #[test]
    fn a_message_with_two_parts_held_is_one_message() {
        let text =
            "1ms 1-8 +100 | 1ms 1 +300 nagle | 1ms <3-4 ack=100 | 31ms <5-6 ack=100 | 31ms 2-8 +300
                    31ms 1 +200 nagle | 61ms <5-6 ack=400 | 61ms 2-8 +200 | 70ms <1-8 +50";
        let ledger =
            "1ms send_queue.nagle 100 | 31ms send_queue.nagle 400 | 61ms app_idle | 70ms end";
        assert_snapshot!(found(&text.replace("31ms 1 +200", "2ms 1 +200"), ledger), @"split-message @client 1x 60.0 ms: From the client: 1 message went out in several writes and a later part was held, waiting 60.0 ms for acknowledgments in all.");
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
