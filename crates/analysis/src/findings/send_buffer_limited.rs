//! `send-buffer-limited`: the writer blocks on a full send buffer while TCP has nothing left to send.
//!
//! What fills the buffer is sent and not acknowledged. Times in which a queue or the reader has the
//! data, in which an acknowledgment is delayed, or in which records were lost are taken off: what remains is the path's
//! own latency, which a larger buffer would have filled.

use super::acks::LateAck;
use super::facts::{FlowFacts, ON_THE_PATH, is_idle};
use super::intervals::{Interval, Intervals};
use super::{Tally, words};
use crate::room::{WRITER_WAKES_NS_MAX, advancing_ns, last_between};
use crate::{Finding, FindingId, send_queue};

/// A copy of 64 KiB takes about 10 us: longer, and the writer slept.
const BLOCKED_NS_MIN: u64 = 50_000;

/// With automatic sizing only a real round trip counts: the buffer may still be growing.
const BLOCKED_NS_MIN_AUTOMATIC: u64 = 1_000_000;

/// A habit, not the start of the transfer.
const COUNT_MIN: usize = 10;
const SHARE_PERCENT_MIN: u64 = 10;

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let is_set = facts.send_buffer.is_set_by_program;
    let blocked_ns_min = if is_set { BLOCKED_NS_MIN } else { BLOCKED_NS_MIN_AUTOMATIC };
    let delayed = |ack: &LateAck| Interval::new(ack.arrived_ns, ack.received_ns);
    let blocked = blocked_while_all_is_sent(facts, blocked_ns_min);
    if blocked.len() < COUNT_MIN {
        return None;
    }
    let lost = blocked
        .intersect(&facts.times_in(&ON_THE_PATH))
        .without(&facts.interface.occupied)
        .without(&Intervals::union_of(facts.late_acks.iter().map(delayed)))
        .without(&facts.lost_records);
    let enough = lost.iter().filter(|one| one.duration_ns() >= blocked_ns_min);
    let lost = Intervals::union_of(enough);
    // Idle in the ledger, but not by choice: the writer had more to say.
    let unacknowledged_ns = lost.without(&busy(facts)).total_ns();
    let active_ns = facts.busy_ns + unacknowledged_ns;
    let is_share =
        u128::from(lost.total_ns()) * 100 >= u128::from(active_ns) * u128::from(SHARE_PERCENT_MIN);
    if lost.len() < COUNT_MIN || !is_share {
        return None;
    }
    Some(finding(facts, &lost, active_ns))
}

fn busy(facts: &FlowFacts<'_>) -> Intervals {
    let busy = facts.view.timeline.iter().filter(|span| !is_idle(span.part));
    Intervals::union_of(busy.map(|span| Interval::new(span.start_ns, span.end_ns)))
}

/// From the segment that emptied the send queue to the next byte taken, within one write call or while
/// the program waited to be told of room.
fn blocked_while_all_is_sent(facts: &FlowFacts<'_>, blocked_ns_min: u64) -> Intervals {
    let mut blocked = Vec::new();
    let mut for_room = Vec::new();
    let mut all_sent_ns: Option<u64> = None;
    for step in send_queue::steps(facts.view.flow()) {
        let at_ns = step.pass.at_ns;
        let since_ns = all_sent_ns.take().filter(|_| step.is_enqueue);
        blocked.extend(since_ns.map(|since_ns| Interval::new(since_ns, at_ns)));
        for_room.extend(
            since_ns
                .zip(facts.room_wait_until(at_ns))
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

fn finding(facts: &FlowFacts<'_>, lost: &Intervals, active_ns: u64) -> Finding {
    let mut tally =
        Tally { count: lost.len() as u64, lost_ns: lost.total_ns(), ..Tally::default() };
    for one in lost.iter() {
        tally.notes.add(one.start_ns, || {
            let blocked = words::time(one.duration_ns());
            format!("all bytes are sent, the write call stays blocked for {blocked}")
        });
    }
    let sender = facts.who(facts.sender());
    let buffer = match facts.send_buffer.granted_bytes {
        Some(bytes) => format!("send buffer of {bytes} bytes"),
        None => "send buffer".to_owned(),
    };
    let summary = format!(
        "The {sender} was blocked {} in write with everything sent ({} of the active time): its \
         {buffer} was full of bytes on their way.",
        words::counted(tally.count, "time"),
        words::percent(tally.lost_ns, active_ns),
    );
    let fix = if facts.send_buffer.is_set_by_program {
        format!(
            "In the {sender}: do not set SO_SNDBUF (the kernel sizes the buffer), or set it higher."
        )
    } else {
        format!("On the {sender}'s host: raise the third value of net.ipv4.tcp_wmem.")
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
        assert_snapshot!(found(&rounds(SET), WIRE), @"send-buffer-limited @client 19x 380 ms: The client was blocked 19 times in write with everything sent (95 % of the active time): its send buffer of 4608 bytes was full of bytes on their way.");
    }

    #[test]
    fn so_is_one_whose_buffer_the_kernel_sized() {
        assert_snapshot!(found(&rounds(""), WIRE), @"send-buffer-limited @client 19x 380 ms: The client was blocked 19 times in write with everything sent (95 % of the active time): its send buffer was full of bytes on their way.");
    }

    #[test]
    fn where_no_return_is_seen_acknowledgments_show_that_the_call_went_on() {
        let nothing = unreturned(SET, |_| String::new());
        assert_snapshot!(found(&nothing, WIRE), @"");
        // Each comes back just before the next round. What acknowledges nothing more makes no room.
        let packets = unreturned(SET, |i| format!("{}990us <5-6 ack=0 |", i * 20 + 19));
        assert_snapshot!(found(&packets, WIRE), @"");
        let acked =
            unreturned(SET, |i| format!("{}990us <5-6 ack={} |", i * 20 + 19, (i + 1) * 1000));
        assert_snapshot!(found(&acked, WIRE), @"send-buffer-limited @client 19x 380 ms: The client was blocked 19 times in write with everything sent (95 % of the active time): its send buffer of 4608 bytes was full of bytes on their way.");
    }

    /// A program that does not block: what finds no room it asks for again when it is told of room, with
    /// more that has come together meanwhile.
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
        assert_snapshot!(found(&format!("{SET}{rounds}"), WIRE), @"send-buffer-limited @client 19x 380 ms: The client was blocked 19 times in write with everything sent (95 % of the active time): its send buffer of 4608 bytes was full of bytes on their way.");
    }

    #[test]
    fn a_writer_that_sleeps_needs_a_while_to_get_its_cpu() {
        let acked = unreturned(SET, |i| format!("{}ms <5-6 ack={} |", i * 20 + 15, (i + 1) * 1000));
        assert_snapshot!(found(&acked, WIRE), @"send-buffer-limited @client 19x 285 ms: The client was blocked 19 times in write with everything sent (71 % of the active time): its send buffer of 4608 bytes was full of bytes on their way.");
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
