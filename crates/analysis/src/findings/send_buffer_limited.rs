//! `send-buffer-limited`: the writer blocks on a full send buffer while TCP has nothing left to send.
//!
//! Where TCP paces by its own measure of the path (BBR), a full buffer makes that measure: TCP spreads the bytes of
//! the buffer over the round trip, and some of them are always unsent. There almost none may be unsent.
//!
//! The bytes that fill the buffer are sent and not acknowledged. Times in which a queue or the reader has the data, in
//! which an acknowledgment is delayed, or in which records were missed are taken off: the rest is the path's own
//! latency, which a larger buffer would have filled.

use super::acks::LateAck;
use sockscope_record::{Hold, Kind, tcp_flags};

use super::facts::{FlowFacts, ON_THE_PATH, is_idle};
use super::holds::held_by;
use super::intervals::{Interval, Intervals};
use super::phrasing;
use super::tally::Tally;
use crate::send_buffer_wait::{WRITER_WAKES_NS_MAX, advancing_ns, last_between};
use crate::send_hold::{acks_received, is_of_option};
use crate::{Finding, FindingId, LedgerPart, send_queue};

/// A copy of 64 KiB takes about 10 us: longer, and the writer slept.
const BLOCKED_NS_MIN: u64 = 50_000;

/// With automatic sizing only a real round trip counts: the buffer may still be growing.
const BLOCKED_NS_MIN_AUTOMATIC: u64 = 1_000_000;

/// A habit, not the start of the transfer.
const COUNT_MIN: usize = 10;
const SHARE_PERCENT_MIN: u64 = 10;

/// Under pacing the buffer is the limit while one part in this many of the bytes in flight, or two
/// segments, are unsent at most: a buffer that is too large for the path has more than that.
const UNSENT_DIVISOR: u64 = 8;
const UNSENT_SEGMENTS: u64 = 2;

/// `SOL_SOCKET`, `SO_MAX_PACING_RATE` (asm-generic/socket.h).
pub(super) const MAX_PACING_RATE: (u16, u16) = (1, 47);

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let is_set = facts.send_buffer.is_set_by_program;
    let blocked_ns_min = if is_set { BLOCKED_NS_MIN } else { BLOCKED_NS_MIN_AUTOMATIC };
    let delayed = |ack: &LateAck| Interval::new(ack.arrived_ns, ack.received_ns);
    let all_sent = blocked_while_all_is_sent(facts, blocked_ns_min);
    let paced = blocked_while_paced(facts);
    let is_paced = paced.len() > 0;
    let blocked = Intervals::union_of(all_sent.iter().chain(paced.iter()));
    if blocked.len() < COUNT_MIN {
        return None;
    }
    let on_the_path = Intervals::union_of(facts.times_in(&ON_THE_PATH).iter().chain(
        is_paced.then(|| facts.times_in(&[LedgerPart::SendPacing])).iter().flat_map(|it| it.iter()),
    ));
    let waits = blocked
        .intersect(&on_the_path)
        .without(&facts.interface.occupied)
        .without(&Intervals::union_of(facts.late_acks.iter().map(delayed)))
        .without(&facts.doubt.sending);
    let enough = waits.iter().filter(|one| one.duration_ns() >= blocked_ns_min);
    let costs = Intervals::union_of(enough);
    // Idle in the ledger, but not by choice: the writer had more data.
    let unacknowledged_ns = costs.without(&busy(facts)).total_ns();
    let active_ns = facts.busy_ns + unacknowledged_ns;
    let is_share =
        u128::from(costs.total_ns()) * 100 >= u128::from(active_ns) * u128::from(SHARE_PERCENT_MIN);
    if costs.len() < COUNT_MIN || !is_share {
        return None;
    }
    Some(finding(facts, &costs, is_paced, active_ns))
}

fn busy(facts: &FlowFacts<'_>) -> Intervals {
    let busy = facts.view.timeline.iter().filter(|span| !is_idle(span.part));
    Intervals::union_of(busy.map(|span| Interval::new(span.start_ns, span.end_ns)))
}

/// From the segment that emptied the send queue to the next byte taken, within one write call or while
/// the program waited for space.
fn blocked_while_all_is_sent(facts: &FlowFacts<'_>, blocked_ns_min: u64) -> Intervals {
    let mut blocked = Vec::new();
    let mut for_room = Vec::new();
    let mut all_sent_ns: Option<u64> = None;
    for step in send_queue::steps(facts.view.flow()) {
        let at_ns = step.pass.at_ns;
        let since_ns = all_sent_ns.take().filter(|_| step.is_enqueue);
        // Later steps only make it shorter.
        let since_ns = since_ns.filter(|since_ns| at_ns - since_ns >= blocked_ns_min);
        blocked.extend(since_ns.map(|since_ns| Interval::new(since_ns, at_ns)));
        for_room.extend(
            since_ns
                .and_then(|since_ns| Some((since_ns, facts.room_wait_until(at_ns)?)))
                .map(|(since_ns, wait)| Interval::new(wait.start_ns.max(since_ns), wait.end_ns)),
        );
        all_sent_ns = (step.unsent_bytes == 0).then_some(at_ns);
    }
    // A call that was not seen to return may be several that failed at once: then only room that an
    // acknowledgment made proves that there was none before.
    let are_calls_seen = facts.writes.iter().any(|write| write.end_ns.is_some());
    let acks_ns = advancing_ns(facts.view.reverse());
    // Once there is room, it is a CPU that the writer waits for.
    let until_room = |one: Interval| match last_between(&acks_ns, one.start_ns, one.end_ns) {
        Some(made_ns) if are_calls_seen || one.end_ns - made_ns <= WRITER_WAKES_NS_MAX => {
            Some(Interval::new(one.start_ns, made_ns))
        }
        _ => are_calls_seen.then_some(one),
    };
    let blocked = blocked.into_iter().filter_map(until_room);
    let blocked: Vec<_> = blocked.filter(|one| one.duration_ns() >= blocked_ns_min).collect();
    let calls = facts.writes.iter();
    let calls =
        calls.filter_map(|write| Some(Interval::new(write.start_ns, write.busy_until_ns()?)));
    // Call by call: two calls that touch are still two, and the pause between them is no block.
    for_room.retain(|one| one.duration_ns() >= blocked_ns_min);
    for_room.extend(within_one_call(&blocked, &calls.collect::<Vec<_>>()));
    Intervals::union_of(for_room)
}

/// The waits for room of a writer whose bytes TCP paces by its own measure, if almost nothing was
/// unsent at their end. A program's own limit of the rate is its choice.
fn blocked_while_paced(facts: &FlowFacts<'_>) -> Intervals {
    let flow = facts.view.flow();
    let is_limit = |event| is_of_option(event, MAX_PACING_RATE);
    let pacing = held_by(&facts.holds, Hold::Pacing);
    if pacing.len() == 0 || flow.events_of(Kind::SocketOption).any(is_limit) {
        return Intervals::default();
    }
    let is_ack =
        |flags: u8| flags & (tcp_flags::ACK | tcp_flags::SYN | tcp_flags::RST) == tcp_flags::ACK;
    let acks = acks_received(facts.view.reverse()).iter();
    let mut acks = acks.filter(|ack| is_ack(ack.tcp_flags)).peekable();
    let (mut acknowledged, mut unsent_bytes) = (0, 0);
    let mut blocked = Vec::new();
    for step in send_queue::steps(flow) {
        let at_ns = step.pass.at_ns;
        while let Some(ack) = acks.next_if(|ack| ack.at_ns <= at_ns) {
            acknowledged = ack.acknowledged().max(acknowledged);
        }
        let wait = facts.room_wait_until(at_ns).filter(|_| step.is_enqueue);
        let in_flight = step.sent_end.saturating_sub(acknowledged);
        let segments = UNSENT_SEGMENTS * u64::from(facts.segment_bytes_at(at_ns));
        let is_limit = unsent_bytes <= segments.max(in_flight / UNSENT_DIVISOR);
        blocked.extend(wait.filter(|_| is_limit).map(|it| Interval::new(it.start_ns, it.end_ns)));
        unsent_bytes = step.unsent_bytes;
    }
    blocked.retain(|one| pacing.touches(*one));
    Intervals::union_of(blocked)
}

fn within_one_call(blocked: &[Interval], calls: &[Interval]) -> Vec<Interval> {
    let mut calls = calls.iter().peekable();
    let mut inside = Vec::new();
    for one in blocked {
        while calls.next_if(|call| call.end_ns < one.end_ns).is_some() {}
        let is_inside = calls.peek().is_some_and(|call| call.start_ns <= one.start_ns);
        inside.extend(is_inside.then_some(*one));
    }
    inside
}

fn finding(facts: &FlowFacts<'_>, costs: &Intervals, is_paced: bool, active_ns: u64) -> Finding {
    let sent = if is_paced { "next to all bytes are sent" } else { "all bytes are sent" };
    let mut tally = Tally::of_times(costs.len(), costs);
    for one in costs.iter() {
        tally.notes.add(one.start_ns, || {
            let blocked = phrasing::time(one.duration_ns());
            format!("{sent}, the write call stays blocked for {blocked}")
        });
    }
    let sender = facts.who(facts.sender());
    let buffer = match facts.send_buffer.granted_bytes {
        Some(bytes) => format!("send buffer of {bytes} bytes"),
        None => "send buffer".to_owned(),
    };
    let summary = format!(
        "The {sender} was blocked {} in write with {} sent ({} of {} with bytes under way or \
         unacknowledged): its {buffer} was full of bytes on their way.",
        phrasing::counted(tally.count, "time"),
        if is_paced { "everything or nearly everything" } else { "everything" },
        phrasing::percent(tally.cost_ns, active_ns),
        phrasing::time(active_ns),
    );
    let fix = if facts.send_buffer.is_set_by_program {
        format!(
            "In the {sender}: do not set SO_SNDBUF (the kernel sizes the buffer), or set it higher."
        )
    } else {
        format!("On the host of the {sender}: raise the third value of net.ipv4.tcp_wmem.")
    };
    tally.into_finding(FindingId::SendBufferLimited, facts, facts.sender(), summary, fix)
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Fixture, found};
    use insta::assert_snapshot;

    /// Twenty rounds of one write call: 1000 bytes go, the path takes 10 ms, the buffer frees.
    fn rounds(event: &str) -> String {
        format!("{} 400ms write-return len=20000", unreturned(event, |_| String::new()))
    }

    /// The same of a call that was not seen to return, with something more in each round.
    fn unreturned(event: &str, more: impl Fn(u64) -> String) -> String {
        let round = |i: u64| {
            let (at, arrived) = (i * 20, i * 20 + 10);
            format!(
                "{at}ms 1 +1000 | {at}010us 2-4 +1000 | {arrived}ms 5-8 +1000 | {arrived}ms <3-4 ack={} | {}",
                (i + 1) * 1000,
                more(i),
            )
        };
        let rounds: String = (0..20).map(round).collect();
        format!("{event} 0ms write +20000 | {rounds}")
    }

    const WIRE: &str = "0ms wire | 400ms end";
    const SET: &str = "0ms buffers detail=4608 code=1 |";

    #[test]
    fn a_writer_blocked_for_each_round_trip_with_all_sent_is_found() {
        assert_snapshot!(found(&rounds(SET), WIRE), @"send-buffer-limited @client 19x 380 ms: The client was blocked 19 times in write with everything sent (95 % of 400 ms with bytes under way or unacknowledged): its send buffer of 4608 bytes was full of bytes on their way.");
    }

    #[test]
    fn so_is_one_whose_buffer_the_kernel_sized() {
        assert_snapshot!(found(&rounds(""), WIRE), @"send-buffer-limited @client 19x 380 ms: The client was blocked 19 times in write with everything sent (95 % of 400 ms with bytes under way or unacknowledged): its send buffer was full of bytes on their way.");
    }

    #[test]
    fn where_no_return_is_seen_acknowledgments_show_that_the_call_went_on() {
        let nothing = unreturned(SET, |_| String::new());
        assert_snapshot!(found(&nothing, WIRE), @"");
        // Each arrives just before the next round. A segment that acknowledges nothing new makes no room.
        let packets = unreturned(SET, |i| format!("{}990us <5-6 ack=0 |", i * 20 + 19));
        assert_snapshot!(found(&packets, WIRE), @"");
        let acked =
            unreturned(SET, |i| format!("{}990us <5-6 ack={} |", i * 20 + 19, (i + 1) * 1000));
        assert_snapshot!(found(&acked, WIRE), @"send-buffer-limited @client 19x 380 ms: The client was blocked 19 times in write with everything sent (95 % of 400 ms with bytes under way or unacknowledged): its send buffer of 4608 bytes was full of bytes on their way.");
    }

    /// A program that does not block: it writes the rejected bytes again when the kernel reports space, with
    /// more that it has collected meanwhile.
    #[test]
    fn so_is_one_that_waits_to_be_told_of_room() {
        let round = |i: u64| {
            let (at, offset, acked) = (i * 20, i * 1000, (i + 1) * 1000);
            format!(
                "{at}ms write at={offset} len=1500 | {at}ms 1 +1000 | {at}010us 2-4 +1000
                 {at}020us write at={acked} len=500 | {}ms 5-8 +1000 | {}990us <5-6 ack={acked} |",
                at + 10,
                at + 19
            )
        };
        let rounds: String = (0..20).map(round).collect();
        assert_snapshot!(found(&format!("{SET}{rounds}"), WIRE), @"send-buffer-limited @client 19x 380 ms: The client was blocked 19 times in write with everything sent (95 % of 400 ms with bytes under way or unacknowledged): its send buffer of 4608 bytes was full of bytes on their way.");
    }

    #[test]
    fn a_writer_that_sleeps_needs_a_while_to_get_its_cpu() {
        let acked = unreturned(SET, |i| format!("{}ms <5-6 ack={} |", i * 20 + 15, (i + 1) * 1000));
        assert_snapshot!(found(&acked, WIRE), @"send-buffer-limited @client 19x 285 ms: The client was blocked 19 times in write with everything sent (71 % of 400 ms with bytes under way or unacknowledged): its send buffer of 4608 bytes was full of bytes on their way.");
    }

    /// Twenty rounds in which TCP paces: 1000 bytes are written, go in ten parts over 20 ms, and `unsent` of
    /// them stay until the next 1000 find room.
    fn paced(event: &str, unsent: u64) -> String {
        let round = |i: u64| {
            let at = i * 20;
            let sent = |part: u64| {
                let offset = (i * 1000 + part * 100).saturating_sub(unsent);
                let end = (i * 1000 + part * 100 + 100).saturating_sub(unsent);
                let ns = at * 1_000_000 + 1_000 + part * 2_000_000;
                let ack = format!("{}ns <5-6 ack={offset}", ns + 100);
                let segment = (offset < end).then(|| format!("{ns}ns 2-4 {offset}..{end} pacing"));
                segment.into_iter().chain([ack]).collect::<Vec<_>>().join(" | ")
            };
            let parts: Vec<_> = (0..10).map(sent).collect();
            format!("{at}ms 1 +1000 | {} |", parts.join(" | "))
        };
        let rounds: String = (0..20).map(round).collect();
        format!("{event} 0ms send-window detail=65535 extra=100 | 0ms write +20000 | {rounds}")
    }

    #[test]
    fn where_tcp_paces_by_its_own_measure_little_may_be_unsent() {
        assert_snapshot!(found(&paced(SET, 0), WIRE), @"send-buffer-limited @client 19x 342 ms: The client was blocked 19 times in write with everything or nearly everything sent (86 % of 400 ms with bytes under way or unacknowledged): its send buffer of 4608 bytes was full of bytes on their way.");
        assert_snapshot!(found(&paced(SET, 200), WIRE), @"send-buffer-limited @client 19x 342 ms: The client was blocked 19 times in write with everything or nearly everything sent (86 % of 400 ms with bytes under way or unacknowledged): its send buffer of 4608 bytes was full of bytes on their way.");
        assert_snapshot!(found(&paced(SET, 5000), WIRE), @"");
    }

    #[test]
    fn a_rate_that_the_program_set_is_not_the_buffers() {
        let event = format!("{SET} 0ms option extra=65583 detail=50000 |");
        assert_snapshot!(found(&paced(&event, 200), WIRE), @"pacing-limited @client 20x 394 ms: The client bounds its socket to 50000 bytes a second (SO_MAX_PACING_RATE), and its data waited for that 394 ms (98 % of 400 ms with bytes under way).");
    }

    #[test]
    fn while_the_reader_has_the_data_the_buffer_is_not_the_limit() {
        let fixture = Fixture::new(&rounds(SET), "0ms receive_queue.wakeup | 400ms end");
        assert_snapshot!(fixture.found(), @"");
    }

    #[test]
    fn while_the_interface_queue_has_it_the_buffer_is_not_the_limit() {
        assert_snapshot!(found(&rounds(SET), "0ms interface_queue | 400ms end"), @"");
    }

    #[test]
    fn a_program_that_pauses_between_calls_is_not_blocked() {
        let round = |i: u64| {
            let at = i * 20;
            format!(
                "{at}ms write +1000 | {at}ms 1-4 +1000 | {at}ms write-return len=1000 | {}ms 5-8 +1000 |",
                at + 10
            )
        };
        let text: String = (0..20).map(round).collect();
        assert_snapshot!(found(&text, WIRE), @"");
    }

    #[test]
    fn a_buffer_that_still_grows_on_loopback_is_not_a_limit() {
        let round = |i: u64| format!("{}us 1-8 +1000 |", i * 100);
        let rounds: String = (0..20).map(round).collect();
        let text = format!("0ms write +20000 | {rounds} 2ms write-return len=20000");
        assert_snapshot!(found(&text, "0ms wire | 2ms end"), @"");
    }
}
