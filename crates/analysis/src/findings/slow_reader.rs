//! `slow-reader`: data lies in the receive queue while the reading program does something else.
//!
//! The measure is the gap between reads, not the length of the queue: a reader that copies without
//! pause keeps a full queue too. Time in which the reader wanted to run and had no CPU is taken off; it
//! is `late-wakeup`'s. A wait for data that a blocked thread was woken for is a wake-up, unless the
//! reader is known to have waited less for its CPU: a runtime may wake one thread, and its task goes on
//! sleeping.

use sockscope_record::{Hold, Point};

use super::caller_delay::{FlowHolds, HeldInterval};
use super::facts::FlowFacts;
use super::holds::held_by;
use super::intervals::{Interval, Intervals};
use super::phrasing;
use super::reads::ReadWait;
use super::tally::Tally;
use crate::{Finding, FindingId, LedgerPart, LedgerSpan, Request};

/// An event loop that is busy with other sockets is back within a few milliseconds; and the window of
/// a usual receive buffer covers that on a local network.
pub(super) const AWAY_NS_MIN: u64 = 10_000_000;

/// While the window is closed a shorter absence costs as much: the sender has to wait for it, and only
/// that time counts. A read itself takes less, also on the slowest machines of the model.
const AWAY_NS_MIN_HELD: u64 = 2_000_000;

/// A reader that does not return before the connection or the trace ends may have waited for a CPU, which no read
/// shows; but not for this long.
const NEVER_BACK_NS_MIN: u64 = 500_000_000;

/// Once is a start-up or a pause; unless the sender was held up meanwhile.
pub(super) const COUNT_MIN: u64 = 3;

pub(super) const SHARE_PERCENT_MIN: u64 = 10;

/// Times in which unread bytes stopped the sender: they closed the window, or filled the buffer of a Unix socket, in
/// which the reader alone makes room.
fn stopped(facts: &FlowFacts<'_>) -> Intervals {
    if !facts.is_unix() {
        return held_by(&facts.holds, Hold::Rwnd);
    }
    let waits = facts.send_buffer_waits.iter();
    Intervals::union_of(waits.map(|wait| Interval::new(wait.start_ns, wait.end_ns)))
}

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let closed = stopped(facts);
    let mut tally = Tally::default();
    let mut was_sender_held = false;
    for wait in &facts.read_waits {
        let Some(away_ns) = away_ns(facts, wait, &closed) else { continue };
        tally.count += 1;
        tally.add_cost(wait.since_ns, wait.since_ns.saturating_add(away_ns));
        was_sender_held |= closed.touches(wait.interval());
        note(&mut tally, wait, away_ns);
    }
    if let Some((span, held)) = never_back(facts, &closed) {
        tally.count += 1;
        held.iter().for_each(|one| tally.add_cost(one.start_ns, one.end_ns));
        was_sender_held = true;
        tally.notes.add(span.start_ns, || {
            format!(
                "data from {} on waits to be read, and is not until the connection or the trace \
                 ended",
                span.offset
            )
        });
    }
    let is_habit = tally.count >= COUNT_MIN || was_sender_held;
    if !is_habit || !facts.is_share_of_busy(tally.cost_ns, SHARE_PERCENT_MIN) {
        return None;
    }
    let receiver = facts.who(facts.receiver());
    let effect = match (was_sender_held, facts.is_unix()) {
        (true, false) => ", which closed the window and stopped the sender",
        (true, true) => ", which stopped the sender",
        (false, _) => "",
    };
    let summary = format!(
        "The {receiver} left data unread {}, {}, while it did something else{effect}.",
        phrasing::counted(tally.count, "time"),
        phrasing::on_average(tally.cost_ns, tally.count),
    );
    let fix = fix(&receiver);
    Some(tally.into_finding(FindingId::SlowReader, facts, facts.receiver(), summary, fix))
}

/// Times in which the reader did something else, for the sum over the callers' waits.
pub(super) fn holds(facts: &FlowFacts<'_>) -> FlowHolds {
    let closed = stopped(facts);
    let holds = facts.read_waits.iter().filter_map(|wait| {
        let away_ns = away_ns(facts, wait, &closed)?;
        // A process that accepts late may have had no CPU, which is in no account of a reader.
        if is_first_read(facts, wait) && away_ns < Request::LONG_NS {
            return None;
        }
        let interval = Interval::new(wait.since_ns, wait.since_ns.saturating_add(away_ns));
        Some(HeldInterval { interval, thread: wait.thread, process: 0 })
    });
    let direction = facts.view.direction;
    FlowHolds { id: FindingId::SlowReader, direction, holds: holds.collect() }
}

pub(super) fn fix(receiver: &str) -> String {
    format!(
        "In the {receiver}: read in a thread of its own or hand the work to one; `strace -r -p PID` \
         shows what it does between two reads."
    )
}

/// The data that lies in the receive queue at the end, and the times at which it held the sender,
/// if these are long enough. A connection that closed waits for no reader any more, even if bytes
/// still pass.
fn never_back(facts: &FlowFacts<'_>, closed: &Intervals) -> Option<(LedgerSpan, Intervals)> {
    let last = facts.view.timeline.last().filter(|span| span.part == LedgerPart::ReceiveApp)?;
    let reads = facts.view.flow().at(Point::ReceiveDequeue);
    if reads.last().is_some_and(|read| read.at_ns > last.start_ns) {
        return None;
    }
    let closed_ns = facts.view.store.connection.closed_ns.unwrap_or(u64::MAX);
    let end_ns = last.end_ns.min(closed_ns).max(last.start_ns);
    let unread = Intervals::union_of([Interval::new(last.start_ns, end_ns)]);
    let held = unread.intersect(closed).without(&facts.doubt.sending);
    (held.total_ns() >= NEVER_BACK_NS_MIN).then_some((*last, held))
}

/// Time in which the reader did something else, if it was long enough and is certain.
fn away_ns(facts: &FlowFacts<'_>, wait: &ReadWait, closed: &Intervals) -> Option<u64> {
    let runnable_ns = wait.runnable_ns?;
    if wait.was_awaited || facts.doubt.is_of_wait(wait) {
        return None;
    }
    let away_ns = wait.duration_ns() - runnable_ns;
    if away_ns >= AWAY_NS_MIN {
        return Some(away_ns);
    }
    if is_first_read(facts, wait) {
        return None;
    }
    // When it wanted the CPU is not known: all of it may have been while the window was closed.
    let held_ns = closed.overlap_ns(wait.interval()).saturating_sub(runnable_ns);
    (held_ns >= AWAY_NS_MIN_HELD).then_some(held_ns)
}

/// A program whose connection was accepted a moment ago does its start-up work once.
fn is_first_read(facts: &FlowFacts<'_>, wait: &ReadWait) -> bool {
    let first = facts.view.flow().at(Point::ReceiveDequeue).first();
    let was_open = facts.view.store.connection.preexisting;
    !was_open && first.is_some_and(|first| first.at_ns == wait.read_ns)
}

fn note(tally: &mut Tally, wait: &ReadWait, away_ns: u64) {
    tally.notes.add(wait.since_ns, || format!("data from {} on waits to be read", wait.offset));
    tally.notes.add(wait.read_ns, || {
        let (waited, away) = (phrasing::time(wait.duration_ns()), phrasing::time(away_ns));
        format!(
            "thread {} reads it after {waited}, {away} of them not waiting for a CPU",
            wait.thread
        )
    });
}

#[cfg(test)]
mod tests {
    use crate::FindingId;
    use crate::findings::testing::{Fixture, found, repeat};
    use insta::assert_snapshot;

    /// The sender fills the receive queue at once, the reader takes 100 bytes every `period`.
    fn reader(period: &str, word: &str) -> String {
        format!("0ms 1-7 +2000 | {}", reads(period, word))
    }

    fn reads(period: &str, word: &str) -> String {
        repeat(20, period, |at| format!("{at} 8 +100 thread=9 {word}"))
    }

    #[test]
    fn a_reader_that_sleeps_50_ms_between_reads_is_slow() {
        let ledger = "0ms receive_queue.app | 1s end";
        assert_snapshot!(found(&reader("50ms", ""), ledger), @"slow-reader @server 20x 1.00 s: The server left data unread 20 times, 50.0 ms on average, while it did something else.");
    }

    #[test]
    fn a_single_long_absence_counts_when_it_stops_the_sender() {
        let text = "0ms 1-7 +1000 | 1us 1 +500 rwnd | 900ms 8 +1000 | 900ms 2-8 +500";
        assert_snapshot!(found(text, "0ms receive_queue.app | 900ms end"), @"slow-reader @server 1x 900 ms: The server left data unread 1 time, 900 ms, while it did something else, which closed the window and stopped the sender.");
        let text = "0ms 1-7 +1000 | 900ms 8 +1000";
        assert_snapshot!(found(text, "0ms receive_queue.app | 900ms end"), @"");
    }

    #[test]
    fn one_that_never_comes_back_is_slow_where_the_sender_waits_for_it() {
        let text = "0ms 1 +1500 | 0ms 2-7 +1000 rwnd | 900ms <6 ack=1000";
        let ledger = "0ms receive_queue.app | 900ms end";
        assert_snapshot!(found(text, ledger), @"slow-reader @server 1x 900 ms: The server left data unread 1 time, 900 ms, while it did something else, which closed the window and stopped the sender.");
        assert_snapshot!(found(&text.replace("900ms", "400ms"), &ledger.replace("900ms", "400ms")), @"");
        assert_snapshot!(found("0ms 1-7 +1000 | 900ms <6 ack=1000", ledger), @"");
    }

    #[test]
    fn a_connection_that_closed_waits_for_no_reader() {
        let text = "0ms 1 +1500 | 0ms 2-7 +1000 rwnd | 900ms <6 ack=1000";
        let closed = |closed_ns| {
            let ledger = "0ms receive_queue.app | 900ms end";
            Fixture::new(text, ledger).closed_at(closed_ns).found()
        };
        assert_snapshot!(closed(400_000_000), @"");
        assert_snapshot!(closed(600_000_000), @"slow-reader @server 1x 600 ms: The server left data unread 1 time, 600 ms, while it did something else, which closed the window and stopped the sender.");
    }

    #[test]
    fn the_reader_of_a_unix_socket_closes_no_window() {
        let ledger = "0ms receive_queue.app | 1s end";
        assert_snapshot!(Fixture::new(&reader("50ms", ""), ledger).unix().found(), @"slow-reader @server 20x 1.00 s: The server left data unread 20 times, 50.0 ms on average, while it did something else.");
    }

    /// A call of 40000 bytes fills the queue, and goes on as the reader takes them.
    fn unix_rounds(period_ms: u64) -> String {
        let round = |i: u64| {
            let (at, read) = (i * period_ms, (i + 1) * period_ms);
            format!("{at}ms 1-7 +2000 | {read}ms 8 +2000 |")
        };
        let rounds: String = (0..20).map(round).collect();
        let text = format!("0ms write +40000 | {rounds} 200ms write-return len=40000");
        Fixture::new(&text, "0ms receive_queue.app | 200ms end").unix().found()
    }

    #[test]
    fn short_absences_stop_the_writer_of_a_unix_socket() {
        assert_snapshot!(unix_rounds(5), @"slow-reader @server 18x 90.0 ms: The server left data unread 18 times, 5.00 ms on average, while it did something else, which stopped the sender.");
        assert_snapshot!(unix_rounds(1), @"");
    }

    #[test]
    fn short_absences_count_while_they_hold_the_sender() {
        let held =
            |period: &str| format!("0ms 1 +5000 rwnd | 0ms 2-7 +2000 rwnd | {}", reads(period, ""));
        let ledger = "0ms receive_queue.app | 100ms end";
        assert_snapshot!(found(&held("5ms"), ledger), @"slow-reader @server 19x 95.0 ms: The server left data unread 19 times, 5.00 ms on average, while it did something else, which closed the window and stopped the sender.");
        assert_snapshot!(found(&held("1ms"), "0ms receive_queue.app | 20ms end"), @"");
        assert_snapshot!(found(&reader("5ms", ""), ledger), @"");
    }

    #[test]
    fn of_a_short_absence_only_what_held_the_sender_counts() {
        let held_until = |at: &str| {
            let text = "0ms 1-8 +10 | 0ms 1 +1000 rwnd | 0ms 2-7 +500 rwnd | AT 2-7 +500 | 3ms 8 +1000 | 4ms <6";
            found(&text.replace("AT", at), "0ms receive_queue.app | 4ms end")
        };
        assert_snapshot!(held_until("1us"), @"");
        assert_snapshot!(held_until("1999us"), @"");
        assert_snapshot!(held_until("2500us"), @"slow-reader @server 1x 2.50 ms: The server left data unread 1 time, 2.50 ms, while it did something else, which closed the window and stopped the sender.");
    }

    #[test]
    fn a_short_absence_before_the_first_read_is_a_start() {
        let text = |read: &str| {
            format!(
                "0ms 1 +1000 rwnd | 0ms 2-7 +500 rwnd | 2500us 2-7 +500 | {read}ms 8 +1000 | 40ms <6"
            )
        };
        let ledger = "0ms receive_queue.app | 4ms end";
        assert_snapshot!(found(&text("3"), ledger), @"");
        assert_snapshot!(Fixture::new(&text("3"), ledger).preexisting().found(), @"slow-reader @server 1x 2.50 ms: The server left data unread 1 time, 2.50 ms, while it did something else, which closed the window and stopped the sender.");
        assert_snapshot!(found(&text("12"), "0ms receive_queue.app | 12ms end"), @"slow-reader @server 1x 12.0 ms: The server left data unread 1 time, 12.0 ms, while it did something else, which closed the window and stopped the sender.");
    }

    #[test]
    fn time_without_a_cpu_may_all_have_been_while_the_window_was_closed() {
        let text = "0ms 1 +1000 rwnd | 0ms 2-7 +500 rwnd | 2500us 2-7 +500
             6ms 8 +1000 thread=9 runq=1ms | 7ms <6";
        assert_snapshot!(found(text, "0ms receive_queue.app | 7ms end"), @"");
    }

    #[test]
    fn a_reader_busy_copying_has_no_gaps() {
        let ledger = "0ms receive_queue.app | 20ms end";
        assert_snapshot!(found(&reader("1ms", ""), ledger), @"");
    }

    #[test]
    fn a_reader_without_a_cpu_is_not_slow() {
        let ledger = "0ms receive_queue.wakeup | 1s end";
        let text = reader("50ms", "runq=45ms");
        assert!(!found(&text, ledger).contains("slow-reader"));
    }

    #[test]
    fn a_thread_that_was_blocked_waiting_is_woken_late_not_slow() {
        let text = repeat(20, "50ms", |at| format!("{at} 1-7 +100 waited | {at} 1-7 +0"));
        let reads = repeat(20, "50ms", |at| format!("{at} 8 +100")).replace("ms 8", "020us 8");
        let ledger = "0ms receive_queue.app | 1s end";
        assert_snapshot!(found(&format!("{text} | {reads}"), ledger), @"");
    }

    #[test]
    fn a_thread_that_was_woken_and_had_its_cpu_otherwise_is_slow() {
        // The poller of a runtime is woken, and the task that reads goes on sleeping.
        let cycle = |start: u64, runnable: &str| {
            let read = start + 40;
            format!("{start}ms 1-7 +100 waited | {read}ms 8 +100 ran={read}ms {runnable}")
        };
        let cycles = |runnable: &str| {
            let texts: Vec<_> = (0..5).map(|n| cycle(50 * n, runnable)).collect();
            texts.join(" | ")
        };
        let ledger = "0ms receive_queue.app | 250ms end";
        assert_snapshot!(found(&cycles("runq=1ms"), ledger), @"slow-reader @server 5x 195 ms: The server left data unread 5 times, 39.0 ms on average, while it did something else.");
        assert!(!found(&cycles("runq=40ms"), ledger).contains("slow-reader"));
        assert!(!found(&cycles(""), ledger).contains("slow-reader"));
    }

    #[test]
    fn gaps_in_which_records_were_missed_prove_nothing() {
        let text = format!("{} | 990ms loss from=0ms detail=9 code=8", reader("50ms", ""));
        assert_snapshot!(found(&text, "0ms unknown | 1s end"), @"");
    }

    #[test]
    fn what_was_missed_of_datagrams_silences_no_stream() {
        let loss = "990ms loss from=0ms detail=9 code=8";
        let ids = |loss: &str| {
            let analysis = crate::testing::analyze(&format!("{} | {loss}", reader("50ms", "")));
            analysis.findings.iter().map(|finding| finding.id).collect::<Vec<_>>()
        };
        assert!(!ids(loss).contains(&FindingId::SlowReader));
        assert!(ids(&format!("{loss} derived")).contains(&FindingId::SlowReader));
    }

    #[test]
    fn a_client_that_is_idle_between_answers_is_not_slow() {
        let text = repeat(20, "50ms", |at| format!("{at} 1-8 +100 | {at} <1-8 +100"));
        assert_snapshot!(found(&text, "0ms app_idle | 1s end"), @"");
    }
}
