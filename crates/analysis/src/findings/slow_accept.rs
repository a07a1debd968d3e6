//! `slow-accept`: a connection is open, and the program that listens does not accept it for long.
//!
//! The handshake needs no program: the kernel completes it, and keeps the connection in the accept queue until
//! `accept()`. A caller may send its request by then, and waits. The trace has the time of `accept()` where the
//! program asks for the peer's address, as most do. From there on the data that lies unread is `slow-reader`'s.
//!
//! The rule looks at one connection. `callers_wait` adds up the waits of callers, over all connections of a process.

use sockscope_record::{Direction, Record, tcp_states};

use super::accepts::accepted;
use super::caller_delay::{FlowHolds, HeldInterval};
use super::facts::FlowFacts;
use super::intervals::Interval;
use super::language;
use crate::{FindingId, FlowStore, Request};

/// A program that waited for its CPU accepts late as well, and no record separates the two. It does not wait for a
/// CPU for so long that a user notices.
const ACCEPT_NS_MIN: u64 = Request::LONG_NS;

/// A late accept needs no habit: the share of the callers' waits that it has must be worth a change.
pub(super) const SHARE_PERCENT_MIN: u64 = 10;

/// From when the connection was open until a program accepted it.
pub(super) fn holds(facts: &FlowFacts<'_>) -> FlowHolds {
    let direction = facts.view.direction;
    let is_request = direction == Direction::FromClient;
    let hold = is_request.then(|| held(facts.view.flow(), facts.view.reverse())).flatten();
    let is_certain = |hold: &HeldInterval| !facts.doubt.of_reads().touches(hold.interval);
    let holds = hold.filter(is_certain).into_iter().collect();
    FlowHolds { id: FindingId::SlowAccept, direction, holds }
}

/// `received`, `sent`: by the accepting end.
fn held(received: &FlowStore, sent: &FlowStore) -> Option<HeldInterval> {
    let accepted = accepted(received, sent)?;
    let is_open = |event: &&Record| {
        event.state_change().is_some_and(|change| change.new == tcp_states::ESTABLISHED)
    };
    let opened = sent.events.iter().find(is_open)?;
    let waited_ns = accepted.at_ns.checked_sub(opened.at_ns)?;
    (waited_ns >= ACCEPT_NS_MIN).then(|| HeldInterval {
        interval: Interval::new(opened.at_ns, accepted.at_ns),
        thread: accepted.thread,
        process: accepted.acceptor().unwrap_or(0),
    })
}

pub(super) fn fix(server: &str, comm: Option<&str>) -> String {
    let way = language::advice(comm, language::Topic::Accept);
    format!(
        "In the {server}: accept sooner ({way}). A larger backlog does not help; `strace -r -p PID` shows what the \
         program does between two calls of accept()."
    )
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::findings::testing::found_across;

    /// A connection that is open at `at_ms`, is accepted at `accepted_ms`, and has its request answered at once.
    fn call(at_ms: u64, accepted_ms: u64) -> String {
        served(at_ms, accepted_ms, accepted_ms + 1, accepted_ms + 2)
    }

    fn served(at_ms: u64, accepted_ms: u64, read_ms: u64, answered_ms: u64) -> String {
        let [accepted, read, answered] = [accepted_ms, read_ms, answered_ms].map(|ms| at_ms + ms);
        format!(
            "{at_ms}ms <state-change code=1 extra=3 | {at_ms}ms 1-7 +50 | {accepted}ms <accept thread=8 extra=8 |
             {read}ms 8 +50 thread=8 | {answered}ms <1-8 +90 thread=8"
        )
    }

    fn found(calls: &[String]) -> String {
        let calls: Vec<_> = calls.iter().map(|call| ("6 > 8", call)).collect();
        found_across(&calls)
    }

    #[test]
    fn a_connection_that_is_accepted_late_is_found() {
        assert_snapshot!(found(&[call(0, 500)]), @"1 slow-accept @server 1x 500 ms: The server (p8, pid 8) was late to accept connections: 500 ms of the 502 ms that callers waited (100 %), for 1 request on connection 1. The worst waited 500 ms of its 502 ms for it, on connection 1.");
    }

    #[test]
    fn connections_that_are_accepted_late_are_one_finding() {
        assert_snapshot!(found(&[call(0, 500), call(10, 520), call(20, 540)]), @"3 slow-accept @server 3x 560 ms: The server (p8, pid 8) was late to accept connections: 1.56 s of the 1.57 s that callers waited (100 %), for 3 requests on 3 connections. The worst waited 540 ms of its 542 ms for it, on connection 3.");
    }

    #[test]
    fn a_slow_answer_to_a_connection_that_was_accepted_at_once_is_silent() {
        let said = found(&[served(0, 0, 0, 500)]);
        assert!(said.contains("slow-service") && !said.contains("slow-accept"), "{said}");
    }

    #[test]
    fn data_that_lies_unread_after_the_accept_is_the_readers() {
        let said = found(&[served(0, 0, 500, 501)]);
        assert!(said.contains("slow-reader") && !said.contains("slow-accept"), "{said}");
        let said = found(&[served(0, 500, 1000, 1001)]);
        let ids: Vec<_> = said.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
        assert_eq!(ids, ["slow-reader", "slow-accept"], "{said}");
    }

    #[test]
    fn a_connection_that_was_opened_ahead_waits_for_nothing() {
        let text = "0ms <state-change code=1 extra=3 | 500ms <accept thread=8 extra=8 |
                    600ms 1-8 +50 thread=8 | 602ms <1-8 +90 thread=8";
        assert_snapshot!(found(&[text.to_owned()]), @"");
        // Of one that asks a little before it is accepted, only that little counts.
        let text = text.replace("600ms 1-8", "490ms 1-7 +50 | 501ms 8").replace("602ms", "503ms");
        assert_snapshot!(found(&[text]), @"");
    }

    #[test]
    fn a_short_wait_may_be_one_for_a_cpu() {
        let calls: Vec<_> = (0..50).map(|n| call(n * 200, 90)).collect();
        assert_snapshot!(found(&calls), @"");
    }

    #[test]
    fn an_address_that_is_asked_for_after_the_first_read_shows_no_accept() {
        let said = found(&[served(0, 500, 1, 502)]);
        assert!(!said.contains("slow-accept"), "{said}");
    }

    #[test]
    fn a_trace_without_accepts_is_read_as_before() {
        let text = call(0, 500).replace("<accept", "<wakeup");
        let said = found(&[text]);
        assert!(said.contains("slow-reader") && !said.contains("slow-accept"), "{said}");
    }

    #[test]
    fn the_process_that_accepts_is_named_where_another_one_serves() {
        let text = call(0, 500).replace("extra=8", "extra=5");
        assert_snapshot!(found(&[text]), @"1 slow-accept @server 1x 500 ms: The server (pid 5, which accepts) was late to accept connections: 500 ms of the 502 ms that callers waited (100 %), for 1 request on connection 1. The worst waited 500 ms of its 502 ms for it, on connection 1.");
    }

    #[test]
    fn a_program_that_serves_another_request_is_not_away() {
        let said = found(&[served(0, 0, 0, 500), call(10, 491)]);
        assert!(said.contains("slow-service") && !said.contains("slow-accept"), "{said}");
    }

    #[test]
    fn what_it_proves_is_the_wait_for_the_accept() {
        let analysis = crate::testing::analyze_all(&[("6 > 8", call(0, 500))]);
        let found = &analysis.connections[0].findings[0];
        let evidence: Vec<_> = found.evidence.iter().map(|one| one.text.as_str()).collect();
        assert_snapshot!(evidence.join("\n"), @"
        the caller waits on connection 1, which is open and not accepted
        thread 8 has accepted it: the caller waited 500 ms
        ");
        let fix = &found.fix;
        assert!(fix.starts_with("In the server (p8, pid 8): accept sooner ("), "{fix}");
    }
}
