//! `corked`: a short segment waits in a corked send queue although the program has written its last byte.
//!
//! `TCP_CORK` and `MSG_MORE` announce more data. The end of the hold shows in two cases that none
//! followed: TCP's own timer ended it, and an answer was read or the socket closed before the next write;
//! or the program uncorked or closed long after its last write. A hold that the next write ended was used
//! as intended. One that the timer ended before the rest was written, as of a server that keeps to a rate,
//! may have cost no time. Neither counts.

use sockscope_record::{Point, Record, Side};

use super::facts::FlowFacts;
use super::intervals::Interval;
use super::phrasing;
use super::tally::Tally;
use crate::send_hold::{CORK, NODELAY, RELEASE_NS_MAX, acks_received, is_of_option, is_option_on};
use crate::{Finding, FindingId, FlowStore, FlowView, LedgerPart, LedgerSpan, Passage};

/// A program that corks, writes and uncorks takes microseconds, or as long as it is without a CPU.
const IDLE_NS_MIN: u64 = 20_000_000;

/// With nothing in flight TCP sends corked data when its timer for a closed window expires
/// (`tcp_check_probe_timer`): after one retransmission timeout, 200 ms at least (`TCP_RTO_MIN`), less one
/// tick of at most 10 ms.
const TIMER_NS_MIN: u64 = 190_000_000;

/// States in which a socket has closed its direction, as in a record.
const FIN_WAIT1: u8 = 4;
const LAST_ACK: u8 = 9;

/// A habit, not an accident: as little as a verdict asks for.
const SHARE_PERCENT_MIN: u64 = 1;

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let holds = facts.whole_holds(LedgerPart::SendCork);
    let stalls: Vec<_> = holds.filter_map(|hold| Stall::of(facts, &hold)).collect();
    let mut tally = Tally { count: stalls.len() as u64, ..Tally::default() };
    stalls.iter().for_each(|stall| tally.add_cost(stall.since_ns, stall.end_ns));
    if !facts.is_share_of_busy(tally.cost_ns, SHARE_PERCENT_MIN) {
        return None;
    }
    let first_ns = stalls.first()?.start_ns;
    let cork = Cork::of(facts, first_ns);
    if let Some(option) = last_option(facts.view.flow(), first_ns).filter(|_| cork == Cork::Option)
    {
        let who = if option.thread == 0 { "the socket has" } else { "the program sets" };
        tally.notes.add(option.at_ns, || format!("{who} TCP_CORK"));
    }
    stalls.iter().for_each(|stall| note(&mut tally, stall, cork));
    let sender = facts.who(facts.sender());
    let summary = format!(
        "{} of the {sender} waited {}: {} held {} {}.",
        phrasing::counted(tally.count, "short segment"),
        phrasing::spread(stalls.iter().map(Stall::cost_ns)),
        cork.name(),
        if tally.count == 1 { "it" } else { "them" },
        until(&stalls, facts.sender()),
    );
    let fix = format!("In the {sender}: {}.", cork.fix());
    Some(tally.into_finding(FindingId::Corked, facts, facts.sender(), summary, fix))
}

/// A hold without consequence.
#[derive(Debug, Clone, Copy)]
struct Stall {
    /// Start of the wait of its first byte.
    start_ns: u64,
    /// From here on the wait was for nothing.
    since_ns: u64,
    end_ns: u64,
    /// Position of the first byte held.
    offset: u64,
    end: End,
}

/// Cause that ended the hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Timer,
    Program,
}

impl Stall {
    /// `None` where the hold was of use, or the cause of its end is not certain.
    fn of(facts: &FlowFacts<'_>, hold: &LedgerSpan) -> Option<Self> {
        let LedgerSpan { start_ns, end_ns, offset, .. } = *hold;
        let flow = facts.view.flow();
        let left_end = left_end(flow, offset, end_ns)?;
        if facts.doubt.sending_socket.touches(Interval::new(start_ns, end_ns.saturating_add(1))) {
            return None; // What released it may be among them.
        }
        let entries = flow.at(Point::SendEnqueue);
        let before = &entries[..entries.partition_point(|entry| entry.at_ns <= end_ns)];
        let first = before.get(before.partition_point(|entry| entry.end() <= offset))?;
        let last = before.last()?;
        if left_end > last.end() {
            return None; // The last write was not seen: on older kernels `sendfile` passes no point 1.
        }
        let wrote_ns = last.at_ns;
        let just_before_ns = end_ns.saturating_sub(RELEASE_NS_MAX);
        let is_released = wrote_ns > just_before_ns
            || any_between(acks_received(facts.view.reverse()), just_before_ns, end_ns);
        let (end, since_ns) = if is_let_go(flow, just_before_ns, end_ns) {
            (End::Program, start_ns.max(wrote_ns))
        } else if !is_released
            && end_ns - first.at_ns >= TIMER_NS_MIN
            && is_message_over(facts.view, end_ns, entries.get(before.len()))
        {
            (End::Timer, start_ns)
        } else {
            return None;
        };
        let stall = Self { start_ns, since_ns, end_ns, offset, end };
        (stall.cost_ns() >= IDLE_NS_MIN).then_some(stall)
    }

    fn cost_ns(&self) -> u64 {
        self.end_ns - self.since_ns
    }
}

/// End of the segments that left at `at_ns` from the byte at `offset` on; `None` if that did not leave.
fn left_end(flow: &FlowStore, offset: u64, at_ns: u64) -> Option<u64> {
    let left = flow.at(Point::SendDequeue);
    let then = left[left.partition_point(|pass| pass.at_ns < at_ns)..].iter();
    let then = then.take_while(|pass| pass.at_ns == at_ns);
    let mut then = then.skip_while(|pass| !(pass.offset..pass.end()).contains(&offset));
    let first = then.next()?;
    Some(then.map(Passage::end).fold(first.end(), u64::max))
}

fn any_between(passes: &[Passage], start_ns: u64, end_ns: u64) -> bool {
    let later = &passes[passes.partition_point(|pass| pass.at_ns < start_ns)..];
    later.first().is_some_and(|pass| pass.at_ns <= end_ns)
}

/// Whether the program uncorked or closed then, or asked for `TCP_NODELAY`, which sends waiting data as
/// well (tcp(7)). A record of thread 0 is the value when the socket opened or was joined.
fn is_let_go(flow: &FlowStore, start_ns: u64, end_ns: u64) -> bool {
    let later = &flow.events[flow.events.partition_point(|event| event.at_ns < start_ns)..];
    let mut then = later.iter().take_while(|event| event.at_ns <= end_ns);
    then.any(|event| match event.socket_option().map(|option| option.name) {
        Some(CORK) => !is_option_on(event),
        Some(NODELAY) => is_option_on(event) && event.thread != 0,
        _ => is_close(event),
    })
}

/// Whether the program read an answer after `at_ns` and before `next`, the write that follows, or wrote
/// no more and closed.
fn is_message_over(view: &FlowView<'_>, at_ns: u64, next: Option<&Passage>) -> bool {
    let reads = view.reverse().at(Point::ReceiveDequeue);
    let read = reads.get(reads.partition_point(|read| read.at_ns <= at_ns));
    match (read, next) {
        (Some(read), Some(next)) => read.at_ns < next.at_ns,
        (None, Some(_)) => false,
        (read, None) => read.is_some() || view.flow().events.iter().any(is_close),
    }
}

fn is_close(event: &Record) -> bool {
    event.state_change().is_some_and(|change| matches!(change.new, FIN_WAIT1 | LAST_ACK))
}

/// Call by which the program asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cork {
    Option,
    Flag,
    /// An option may be inherited from the listener, or be older than the recording: a recorder of today
    /// records that, but not of a second end that it joined, and earlier ones did not.
    Either,
}

impl Cork {
    fn of(facts: &FlowFacts<'_>, at_ns: u64) -> Self {
        let is_whole = !facts.view.store.connection.preexisting;
        match last_option(facts.view.flow(), at_ns).map(is_option_on) {
            Some(true) => Self::Option,
            Some(false) => Self::Flag,
            None if is_whole && facts.sender() == Side::Client => Self::Flag,
            None => Self::Either,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Option => "TCP_CORK",
            Self::Flag => "MSG_MORE",
            Self::Either => "TCP_CORK or MSG_MORE",
        }
    }

    fn fix(self) -> &'static str {
        match self {
            Self::Option => {
                "set TCP_CORK to 0 right after the last write of each message, and before waiting for \
                 anything else"
            }
            Self::Flag => {
                "leave MSG_MORE (of splice: SPLICE_F_MORE) off the last piece of each message"
            }
            Self::Either => {
                "set TCP_CORK to 0 right after the last write of each message, or leave MSG_MORE off its \
                 last piece"
            }
        }
    }
}

fn until(stalls: &[Stall], sender: Side) -> String {
    let timer = "until TCP's timer ran out";
    let program =
        format!("until the {} uncorked or closed, long after its last write", sender.name());
    let of_timer = stalls.iter().filter(|stall| stall.end == End::Timer).count();
    match stalls.len() - of_timer {
        0 => timer.to_owned(),
        _ if of_timer == 0 => program,
        of_program => format!("{timer} ({of_timer} of them) or {program} ({of_program})"),
    }
}

/// The last record of `TCP_CORK` up to `at_ns`: the program set or cleared it, or, of thread 0, the socket
/// had it when it opened or was joined.
fn last_option(flow: &FlowStore, at_ns: u64) -> Option<&Record> {
    let earlier = flow.events[..flow.events.partition_point(|event| event.at_ns <= at_ns)].iter();
    earlier.rev().find(|event| is_of_option(event, CORK))
}

fn note(tally: &mut Tally, stall: &Stall, cork: Cork) {
    let Stall { start_ns, end_ns, offset, end, .. } = *stall;
    tally.notes.add(start_ns, || {
        format!("bytes from {offset} on wait in the send queue: held by {}", cork.name())
    });
    tally.notes.add(end_ns, || {
        let lasted = phrasing::time(stall.cost_ns());
        match end {
            End::Timer => format!(
                "bytes from {offset} on are sent, after {lasted}; no call was made and nothing came: TCP's \
                 timer ran out"
            ),
            End::Program => format!(
                "bytes from {offset} on are sent, as the program uncorks or closes, {lasted} after its last \
                 write"
            ),
        }
    });
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Fixture, evidence, found};
    use insta::assert_snapshot;

    const SET: &str = "0ms option extra=393219 detail=1 thread=7";
    const INHERITED: &str = "0ms option extra=393219 detail=1";
    const CLEAR: &str = "option extra=393219 detail=0";

    /// 100 bytes are written, then 300, which fill no segment; all leave at 201 ms.
    fn message(before: &str, then: &str) -> String {
        format!(
            "{before} | 1ms 1 +100 cork | 1ms 1 +300 cork | {then} | 201ms 2-8 +400 | 202ms <1-8 +50"
        )
    }

    const LEDGER: &str = "0ms app_idle | 1ms send_queue.cork | 201ms app_idle | 203ms end";

    #[test]
    fn what_a_forgotten_cork_holds_until_the_timer_runs_out_is_a_stall() {
        let text = message(SET, "");
        assert_snapshot!(found(&text, LEDGER), @"corked @client 1x 200 ms: 1 short segment of the client waited 200 ms: TCP_CORK held it until TCP's timer ran out.");
        assert_snapshot!(evidence(&text, LEDGER), @r#"
        the program sets TCP_CORK
        bytes from 0 on wait in the send queue: held by TCP_CORK
        bytes from 0 on are sent, after 200 ms; no call was made and nothing came: TCP's timer ran out
        "#);
    }

    #[test]
    fn a_cork_that_the_socket_has_from_its_listener_is_not_laid_to_a_call_of_the_program() {
        let text = message(INHERITED, "");
        assert_snapshot!(found(&text, LEDGER), @"corked @client 1x 200 ms: 1 short segment of the client waited 200 ms: TCP_CORK held it until TCP's timer ran out.");
        assert_snapshot!(evidence(&text, LEDGER), @r#"
        the socket has TCP_CORK
        bytes from 0 on wait in the send queue: held by TCP_CORK
        bytes from 0 on are sent, after 200 ms; no call was made and nothing came: TCP's timer ran out
        "#);
    }

    #[test]
    fn so_is_the_last_piece_sent_with_msg_more() {
        assert_snapshot!(found(&message("", ""), LEDGER), @"corked @client 1x 200 ms: 1 short segment of the client waited 200 ms: MSG_MORE held it until TCP's timer ran out.");
    }

    #[test]
    fn of_a_connection_joined_on_its_way_the_option_may_be_older() {
        let fixture = Fixture::new(&message("", ""), LEDGER).preexisting();
        assert_snapshot!(fixture.found(), @"corked @client 1x 200 ms: 1 short segment of the client waited 200 ms: TCP_CORK or MSG_MORE held it until TCP's timer ran out.");
    }

    #[test]
    fn a_message_uncorked_long_after_its_last_write_is_one_too() {
        let text = message(SET, &format!("201ms {CLEAR}"));
        assert_snapshot!(found(&text, LEDGER), @"corked @client 1x 200 ms: 1 short segment of the client waited 200 ms: TCP_CORK held it until the client uncorked or closed, long after its last write.");
        assert_snapshot!(evidence(&text, LEDGER), @r#"
        the program sets TCP_CORK
        bytes from 0 on wait in the send queue: held by TCP_CORK
        bytes from 0 on are sent, as the program uncorks or closes, 200 ms after its last write
        "#);
    }

    #[test]
    fn and_so_is_one_that_only_the_close_sends() {
        let text = message(SET, "201ms state-change code=4 extra=1");
        assert_snapshot!(found(&text, LEDGER), @"corked @client 1x 200 ms: 1 short segment of the client waited 200 ms: TCP_CORK held it until the client uncorked or closed, long after its last write.");
    }

    #[test]
    fn a_nodelay_that_the_socket_has_when_it_is_joined_sends_nothing() {
        let nodelay = "201ms option extra=393217 detail=1";
        let by_program = message(SET, &format!("{nodelay} thread=7"));
        assert!(found(&by_program, LEDGER).contains("until the client uncorked or closed"));
        let joined = message(SET, nodelay);
        assert_eq!(found(&joined, LEDGER), found(&message(SET, ""), LEDGER));
    }

    #[test]
    fn where_the_last_write_was_not_seen_it_may_have_been_late() {
        // After 40 ms of disk, `sendfile` gives 800 bytes, which pass no point 1 on older kernels.
        let text =
            format!("{SET} | 1ms 1 +200 cork | 41ms {CLEAR} | 41ms 2-8 +1000 | 42ms <1-8 +50");
        let ledger = "0ms app_idle | 1ms send_queue.cork | 41ms app_idle | 42ms end";
        assert_snapshot!(found(&text, ledger), @"");
        let whole = text.replace("+1000", "+200");
        assert!(found(&whole, ledger).starts_with("corked @client 1x 40.0 ms"));
        let in_two = text.replace("2-8 +1000", "2-8 +200 | 41ms 2-8 +800");
        assert_snapshot!(found(&in_two, ledger), @"");
        let by_timer = message("", "").replace("2-8 +400", "2-8 +1200");
        assert_snapshot!(found(&by_timer, LEDGER), @"");
    }

    #[test]
    fn corked_written_and_uncorked_at_once_is_silent() {
        let text = format!(
            "{SET} | 1ms 1 +100 cork | 1050us 1 +300 cork | 1060us {CLEAR} | 1070us 2-8 +400 | 50ms <1-8 +50"
        );
        let ledger = "0ms app_idle | 1ms send_queue.cork | 1070us app_idle | 50ms end";
        assert_snapshot!(found(&text, ledger), @"");
    }

    #[test]
    fn a_head_that_waits_for_its_body_is_used_as_meant() {
        // However long that takes: until the write, nothing is late that could be sent.
        let text = format!(
            "{SET} | 1ms 1 +100 cork | 101ms 1 +300 cork | 101ms {CLEAR} | 101ms 2-8 +400 | 202ms <1-8 +50"
        );
        let ledger = "0ms app_idle | 1ms send_queue.cork | 101ms app_idle | 202ms end";
        assert_snapshot!(found(&text, ledger), @"");
        let by_flag = "1ms 1 +100 cork | 201ms 1 +300 | 201ms 2-8 +400";
        assert_snapshot!(found(by_flag, LEDGER), @"");
    }

    #[test]
    fn a_part_that_the_timer_sends_ahead_of_the_rest_is_nobodys_loss() {
        // As a server does that keeps to a rate: it corks, and writes the next part a second later.
        let text =
            message(SET, "").replace("202ms <1-8 +50", "1000ms 1 +300 cork | 1001ms <1-8 +50");
        assert_snapshot!(found(&text, LEDGER), @"");
        let closed =
            message(SET, "").replace("202ms <1-8 +50", "1000ms state-change code=4 extra=1");
        assert!(found(&closed, LEDGER).starts_with("corked @client 1x 200 ms"));
    }

    #[test]
    fn what_fills_a_segment_leaves_without_a_stall() {
        // A stream under the cork: each write completes the segment that the ones before began.
        let text = format!("{SET} | 1ms 1 +1000 cork | 101ms 1 +1000 cork | 101ms 2-8 +1448 cork");
        let ledger = "0ms app_idle | 1ms send_queue.cork | 101ms app_idle | 102ms end";
        assert_snapshot!(found(&text, ledger), @"");
    }

    #[test]
    fn an_acknowledgment_that_releases_what_msg_more_held_is_no_timer() {
        assert_snapshot!(found(&message("", "201ms <6 ack=0"), LEDGER), @"");
    }

    #[test]
    fn where_records_were_missed_a_call_may_have_ended_it() {
        let text = message(SET, "201ms loss code=29 from=150ms detail=1");
        assert_snapshot!(found(&text, LEDGER), @"");
    }

    #[test]
    fn once_in_a_long_run_is_an_accident() {
        let ledger = "0ms wire | 1ms send_queue.cork | 201ms wire | 30s end";
        assert_snapshot!(found(&message(SET, ""), ledger), @"");
    }

    #[test]
    fn two_kinds_of_ends_are_told_apart() {
        let text = format!(
            "{} | 210ms 1 +10 cork | 260ms {CLEAR} | 260ms 2-8 +10 | 262ms <1-8 +50",
            message(SET, "")
        );
        let ledger =
            "0ms app_idle | 1ms send_queue.cork | 201ms app_idle | 210ms send_queue.cork 400 |
                      260ms app_idle | 300ms end";
        let fixture = Fixture::new(&text, &ledger.replace('\n', ""));
        assert_snapshot!(fixture.found(), @"corked @client 2x 250 ms: 2 short segments of the client waited 50.0 ms to 200 ms, median 50.0 ms: TCP_CORK held them until TCP's timer ran out (1 of them) or until the client uncorked or closed, long after its last write (1).");
    }
}
