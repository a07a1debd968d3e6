//! `delayed-ack-wait`: the sender waits for a delayed acknowledgment, other than by Nagle's algorithm.
//!
//! There are three cases: a window of less than two segments is full; the unacknowledged bytes fill the
//! send buffer and the write call blocks; or `MSG_MORE` holds the end of a call longer than a segment
//! until the next acknowledgment. All that was sent has arrived and the receiver's timer alone makes the
//! acknowledgment.

use sockscope_record::{Hold, Kind, Point};

use super::acks::{LateAck, released_by};
use super::facts::FlowFacts;
use super::intervals::Interval;
use super::phrasing;
use super::tally::Tally;
use super::writes::Write;
use crate::acks::LATE_NS;
use crate::send_buffer_wait::WRITER_WAKES_NS_MAX;
use crate::send_hold::{
    NODELAY, RELEASE_NS_MAX, acks_received, is_of_option, is_option_on, is_plain_ack,
};
use crate::{Finding, FindingId, LedgerPart, LedgerSpan, Passage, send_queue};

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    if facts.late_acks.is_empty() {
        return None;
    }
    let mut waits = window_waits(facts);
    waits.extend(blocked_writes(facts));
    waits.extend(rest_waits(facts));
    waits.sort_by_key(|wait| wait.ack.made_ns);
    waits.dedup_by_key(|wait| wait.ack.made_ns);
    if waits.is_empty() {
        return None;
    }
    let mut tally = Tally { count: waits.len() as u64, ..Tally::default() };
    for wait in &waits {
        tally.add_cost(wait.since_ns, wait.ack.made_ns);
        note(&mut tally, wait);
    }
    let (sender, receiver) = (facts.who(facts.sender()), facts.who(facts.receiver()));
    let waited = phrasing::on_average(tally.cost_ns, tally.count);
    let summary = format!(
        "The {sender} waited {waited} for {} of the {receiver}, with {}.",
        phrasing::counted(tally.count, "delayed acknowledgment"),
        waits[0].what.words(),
    );
    let side = waits[0].what.side(facts);
    let fix = waits[0].what.fix(&facts.who(side));
    Some(tally.into_finding(FindingId::DelayedAckWait, facts, side, summary, fix))
}

/// The window that was full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    CongestionWindow,
    ReceiveWindow,
    SendBuffer,
    /// Nothing: a short rest is kept back.
    Nothing,
}

impl Full {
    fn words(self) -> &'static str {
        match self {
            Self::CongestionWindow => "the congestion window full",
            Self::ReceiveWindow => "the receive window full",
            Self::SendBuffer => "the send buffer full",
            Self::Nothing => "the end of a call kept back, as MSG_MORE asks",
        }
    }

    fn side(self, facts: &FlowFacts<'_>) -> sockscope_record::Side {
        match self {
            Self::ReceiveWindow => facts.receiver(),
            Self::CongestionWindow | Self::SendBuffer | Self::Nothing => facts.sender(),
        }
    }

    fn fix(self, who: &str) -> String {
        match self {
            Self::CongestionWindow => format!(
                "On the host of the {who}: let the window grow beyond two segments (look for losses, or a route \
                 with a small initcwnd); or write less than a window at a time."
            ),
            Self::ReceiveWindow => {
                format!("In the {who}: do not set SO_RCVBUF, or make it hold several segments.")
            }
            Self::SendBuffer => {
                format!("In the {who}: do not set SO_SNDBUF, or make it hold several segments.")
            }
            Self::Nothing => format!(
                "In the {who}: leave MSG_MORE off the last piece of each message, or write each message in \
                 one call."
            ),
        }
    }
}

/// One wait that a timer's acknowledgment ended.
#[derive(Debug, Clone, Copy)]
struct Wait {
    since_ns: u64,
    ack: LateAck,
    what: Full,
}

impl Wait {
    /// From when both the sender waited and the data had arrived; `None` when that is too short.
    fn new(held_ns: u64, ack: LateAck, what: Full) -> Option<Self> {
        let since_ns = ack.arrived_ns.max(held_ns);
        let waited_ns = ack.made_ns.saturating_sub(since_ns);
        (waited_ns >= LATE_NS).then_some(Self { since_ns, ack, what })
    }
}

/// A window held the oldest unread byte, so that the reader had read everything and waited too.
fn window_waits(facts: &FlowFacts<'_>) -> Vec<Wait> {
    let wait = |hold: &super::holds::HoldSpan| {
        let (what, part) = match hold.hold {
            Hold::Cwnd => (Full::CongestionWindow, LedgerPart::SendCwnd),
            Hold::Rwnd => (Full::ReceiveWindow, LedgerPart::SendRwnd),
            _ => return None,
        };
        let ack = released_by(&facts.late_acks, hold.start_ns, hold.end_ns, RELEASE_NS_MAX)?;
        // Just before: at that very instant the acknowledgment may already have released the byte.
        let is_in_ledger = facts.part_at(ack.made_ns.saturating_sub(1)) == Some(part);
        Wait::new(hold.start_ns, *ack, what).filter(|_| is_in_ledger)
    };
    facts.holds.iter().filter_map(wait).collect()
}

/// The end of a call, shorter than a segment, was the oldest unread byte and left right after the
/// acknowledgment of all before it. The program wrote no byte meanwhile, and no record has the reason.
/// An option that was set elsewhere has no record, so that it may also be Nagle's rule where that fits.
fn rest_waits(facts: &FlowFacts<'_>) -> Vec<Wait> {
    let flow = facts.view.flow();
    let entries = flow.at(Point::SendEnqueue);
    let events = flow.events_of(Kind::SocketOption);
    let nodelays: Vec<_> = events.filter(|event| is_of_option(event, NODELAY)).collect();
    let wait = |hold: LedgerSpan| {
        let LedgerSpan { start_ns, end_ns, offset, .. } = hold;
        let ack = released_by(&facts.late_acks, start_ns, end_ns, RELEASE_NS_MAX)?;
        let left = flow.at(Point::SendDequeue);
        let rest = left.get(left.partition_point(|pass| pass.at_ns < end_ns))?;
        let is_rest = rest.offset == offset
            && rest.len < facts.segment_bytes_at(start_ns)
            && ack.position == offset;
        let since = entries.partition_point(|entry| entry.at_ns <= start_ns);
        let writes_more = entries.get(since).is_some_and(|entry| entry.at_ns <= end_ns);
        let is_call_end = entries[..since]
            .last()
            .is_some_and(|entry| entry.offset < offset && entry.end() == rest.end());
        let may_be_unseen = facts.doubt.sending_socket.touches(Interval::new(start_ns, end_ns));
        if !is_rest || !is_call_end || writes_more || may_be_unseen {
            return None;
        }
        let sends_at_once = nodelays.partition_point(|option| option.at_ns <= start_ns);
        let sends_at_once = nodelays[..sends_at_once].last().is_some_and(|last| is_option_on(last));
        if !sends_at_once && is_short_in_flight(facts, &hold) {
            return None;
        }
        Wait::new(start_ns, *ack, Full::Nothing)
    };
    facts.whole_holds(LedgerPart::SendOther).filter_map(wait).collect()
}

/// Whether a short segment is in flight while `rest` waits: Nagle's rule holds it then, as those senders
/// ask for that know Minshall's variant.
fn is_short_in_flight(facts: &FlowFacts<'_>, rest: &LedgerSpan) -> bool {
    let acks = acks_received(facts.view.reverse());
    let acks = &acks[..acks.partition_point(|ack| ack.at_ns <= rest.start_ns)];
    let acknowledged = acks.iter().rfind(|ack| is_plain_ack(ack)).map_or(0, Passage::acknowledged);
    let taken = facts.view.flow().at(Point::SendDequeue);
    let taken = &taken[..taken.partition_point(|pass| pass.at_ns < rest.end_ns)];
    send_queue::has_short(taken, acknowledged, facts.segment_bytes_at(rest.start_ns))
}

/// Within one write call, or while the program waited for space, nothing entered or left the
/// send queue until the acknowledgment arrived, and nothing in it was unsent.
fn blocked_writes(facts: &FlowFacts<'_>) -> Vec<Wait> {
    let mut waits = Vec::new();
    let mut writes = facts.writes.iter().peekable();
    let mut all_sent_ns = None;
    for step in send_queue::steps(facts.view.flow()) {
        let at_ns = step.pass.at_ns;
        let sent_ns: Option<u64> = all_sent_ns.take();
        if step.is_enqueue
            && let Some(sent_ns) = sent_ns
            && let Some(ack) = released_by(&facts.late_acks, sent_ns, at_ns, WRITER_WAKES_NS_MAX)
        {
            let is_over = |write: &&Write| write.busy_until_ns().is_none_or(|until| until < at_ns);
            while writes.next_if(is_over).is_some() {}
            let spans =
                |write: &&Write| write.start_ns <= sent_ns && write.busy_until_ns() >= Some(at_ns);
            let is_one_call = writes.peek().copied().filter(spans).is_some();
            let for_room = facts.room_wait_until(at_ns).map(|wait| wait.start_ns.max(sent_ns));
            let blocked_ns = if is_one_call { Some(sent_ns) } else { for_room };
            waits.extend(blocked_ns.and_then(|ns| Wait::new(ns, *ack, Full::SendBuffer)));
        }
        all_sent_ns = (step.unsent_bytes == 0).then_some(at_ns);
    }
    waits
}

fn note(tally: &mut Tally, wait: &Wait) {
    let Wait { since_ns, ack, what } = *wait;
    tally.notes.add(since_ns, || {
        format!("everything sent, up to {}, has arrived, with {}", ack.position, what.words())
    });
    tally.notes.add(ack.made_ns, || {
        let delay = phrasing::time(ack.delay_ns());
        format!("receiver acknowledges {} without data, {delay} after it arrived", ack.position)
    });
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::found;
    use insta::assert_snapshot;

    #[test]
    fn a_full_congestion_window_of_one_segment_waits_for_the_timer() {
        let text = "1ms 1 +2000 | 1ms 2-8 +1000 cwnd | 41ms <3-6 ack=1000 | 41ms 2-8 +1000";
        let ledger = "1ms send_queue.cwnd 1000 | 41ms app_idle | 50ms end";
        assert_snapshot!(found(text, ledger), @"delayed-ack-wait @client 1x 40.0 ms: The client waited 40.0 ms for 1 delayed acknowledgment of the server, with the congestion window full.");
    }

    #[test]
    fn a_write_blocked_on_the_send_buffer_waits_for_the_timer() {
        let text = "1ms write +2000 | 1ms 1-8 +1000 | 41ms <3-6 ack=1000
                    41ms 1-8 +1000 | 41ms write-return len=2000";
        assert_snapshot!(found(text, "0ms app_idle | 50ms end"), @"delayed-ack-wait @client 1x 40.0 ms: The client waited 40.0 ms for 1 delayed acknowledgment of the server, with the send buffer full.");
    }

    #[test]
    fn a_call_that_was_not_seen_to_return_goes_on_until_its_last_byte_is_taken() {
        let text = "1ms write +2000 | 1ms 1-8 +1000 | 41ms <3-6 ack=1000 | 41ms 1-8 +1000";
        assert_snapshot!(found(text, "0ms app_idle | 50ms end"), @"delayed-ack-wait @client 1x 40.0 ms: The client waited 40.0 ms for 1 delayed acknowledgment of the server, with the send buffer full.");
        let woken_late = text.replace("41ms 1-8", "49ms 1-8");
        assert!(found(&woken_late, "0ms app_idle | 50ms end").contains("1x 40.0 ms"));
        let two = "1ms write +1000 | 1ms 1-8 +1000 | 41ms <3-6 ack=1000 | 41ms write +1000 | 41ms 1-8 +1000";
        assert_snapshot!(found(two, "0ms app_idle | 50ms end"), @"");
    }

    #[test]
    fn so_does_a_program_that_is_told_of_room_and_asks_again() {
        let text =
            "1ms write +1000 | 1ms 1-8 +1000 | 2ms write at=1000 len=1000 | 41ms <3-6 ack=1000
                    42ms write at=1000 len=3000 | 42ms 1-8 +3000";
        assert_snapshot!(found(text, "0ms app_idle | 50ms end"), @"delayed-ack-wait @client 1x 39.0 ms: The client waited 39.0 ms for 1 delayed acknowledgment of the server, with the send buffer full.");
    }

    #[test]
    fn a_program_that_pauses_between_two_writes_waits_for_nothing() {
        let text =
            "1ms write +1000 | 1ms 1-8 +1000 | 1ms write-return len=1000 | 41ms <3-6 ack=1000
                    41ms write +1000 | 41ms 1-8 +1000 | 41ms write-return len=1000";
        assert_snapshot!(found(text, "0ms app_idle | 50ms end"), @"");
    }

    #[test]
    fn what_msg_more_keeps_of_a_long_call_waits_for_the_timer() {
        let text = "0ms send-window extra=524 | 1ms 1 +2000 | 1ms 2-8 +1448 | 41ms <3-6 ack=1448 | 41ms 2-8 +552";
        let ledger = "1ms send_queue.other 1448 | 41ms app_idle | 50ms end";
        assert_snapshot!(found(text, ledger), @"delayed-ack-wait @client 1x 40.0 ms: The client waited 40.0 ms for 1 delayed acknowledgment of the server, with the end of a call kept back, as MSG_MORE asks.");
        // Released by the next write, or by a prompt answer; nothing that a segment could have taken.
        let by_write = text.replace("| 41ms 2-8 +552", "| 41ms 1 +100 | 41ms 2-8 +652");
        assert_snapshot!(found(&by_write, ledger), @"");
        assert_snapshot!(found(&text.replace("41ms <3-6", "41ms <3-6 +9"), ledger), @"");
        assert_snapshot!(found(&text.replace("+1448", "+1448 aggregated"), ledger), @"");
    }

    #[test]
    fn a_whole_segment_is_no_rest_once_they_are_made_smaller() {
        let text = |at: &str| {
            format!(
            "0us send-window extra=1448 | 0us 1 +1448 | 0us 2-8 +1448 | {at} send-window extra=1208 | 1ms 1 +2416
             1ms 2-8 +1208 | 41ms <3-6 ack=2656 | 41ms 2-8 +1208"
        )
        };
        let ledger = "1ms send_queue.other 2656 | 41ms app_idle | 50ms end";
        let nodelay = |at| format!("0us option extra=393217 detail=1 | {}", text(at));
        assert_snapshot!(found(&nodelay("500us"), ledger), @"");
        assert!(found(&nodelay("45ms"), ledger).contains("as MSG_MORE asks"));
    }

    #[test]
    fn what_may_wait_by_nagles_rule_is_not_told_as_msg_mores() {
        // A window of 1000 bytes cuts a segment short, and then opens.
        let text = "0us send-window extra=1460 | 1us 1 +1300 | 1us 2-8 +1000 rwnd
                    9us <6 ack=900 win=4096 | 41ms <3-6 ack=1000 | 41ms 2-8 +300";
        let ledger =
            "1us send_queue.rwnd 1000 | 9us send_queue.other 1000 | 41ms app_idle | 50ms end";
        assert_snapshot!(found(text, ledger), @"");
        let nodelay = |value| format!("0us option extra=393217 detail={value} | {text}");
        assert!(found(&nodelay(1), ledger).contains("as MSG_MORE asks"));
        assert_snapshot!(found(&nodelay(0), ledger), @"");
        // A short segment that was acknowledged before holds nothing.
        let acknowledged =
            "0us send-window extra=1460 | 0us 1 +50 | 0us 2-8 +50 | 1us <3-6 ack=50 | 1us 1 +1560
                            1us 2-8 +1460 | 41ms <3-6 ack=1510 | 41ms 2-8 +100";
        let ledger = "1us send_queue.other 1510 | 41ms app_idle | 50ms end";
        assert!(found(acknowledged, ledger).contains("as MSG_MORE asks"));
    }

    #[test]
    fn a_prompt_acknowledgment_is_not_a_delayed_one() {
        let text = "1ms 1 +2000 | 1ms 2-8 +1000 cwnd | 6ms <3-6 ack=1000 | 6ms 2-8 +1000";
        let ledger = "1ms send_queue.cwnd 1000 | 6ms app_idle | 50ms end";
        assert_snapshot!(found(text, ledger), @"");
    }

    #[test]
    fn while_the_reader_has_unread_data_it_is_not_the_acknowledgment_that_matters() {
        let text = "1ms 1 +2000 | 1ms 2-7 +1000 rwnd | 41ms <3-6 ack=1000 | 41ms 2-7 +1000";
        let ledger = "1ms receive_queue.app | 50ms end";
        assert_snapshot!(found(text, ledger), @"");
    }
}
