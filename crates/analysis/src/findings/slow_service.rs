//! `slow-service`: the answering program has most of the time of a long request.
//!
//! Its time has two parts: from the read of the last byte of the request to the first byte of the response, and the
//! pauses within the response in which all was read. Time in which it waits for requests of its own is not: that is
//! `upstream-wait`. The work of the program in that time is not recorded: it computes, sleeps, waits for a lock, a
//! disk or a server whose connection is not in the trace. Long pauses are those of a subscription, whose answerer has
//! no news.

use sockscope_record::{Connection, Side};

use super::head_of_line::HeadOfLine;
use super::language;
use super::phrasing::{self, Notes};
use super::served_request::Served;
use crate::ranges::{Range, minus, total, union};
use crate::{ConnectionAnalysis, Finding, FindingId, NestedTime, SeenEnds};

/// Service is at least half of the caller's wait.
const SERVICE_DIVISOR: u64 = 2;

/// Requests that hold up others, as `line` has found, are not counted again.
pub(super) fn find(
    connection: &ConnectionAnalysis,
    served: &[Served<'_>],
    line: &HeadOfLine,
) -> Option<Finding> {
    let asker = connection.requests.asked_by?;
    let all = served.iter().filter(|one| !line.is_holder(one.id));
    let slow: Vec<&Served<'_>> = all.filter(|one| is_slow(one)).collect();
    let worst = slow.iter().max_by_key(|one| one.own_ns())?;
    let (answerer, direction) = (asker.other(), asker.sends());
    let times: Vec<Range> = slow.iter().flat_map(|one| times(one)).collect();
    let times = union(&times, &[]);
    let own_ns = slow.iter().map(|one| one.own_ns()).fold(0, u64::saturating_add);
    let mut notes = Notes::default();
    for one in &slow {
        note(&mut notes, one, answerer);
    }
    Some(Finding {
        id: FindingId::SlowService,
        flow: connection.connection.id.flow(direction),
        side: answerer,
        count: slow.len() as u64,
        connections: 1,
        cost_ns: own_ns.min(total(&times)),
        times,
        summary: summary(&connection.connection, &slow, worst, [asker, answerer]),
        evidence: notes.into_evidence(),
        fix: fix(&connection.connection, &slow, answerer),
    })
}

fn is_slow(one: &Served<'_>) -> bool {
    let is_of_service =
        one.is_answered() && one.request.answered.ns().is_some() && !one.request.is_subscription();
    is_of_service && one.own_ns().saturating_mul(SERVICE_DIVISOR) >= one.waited_ns
}

/// The service without the waits for other servers.
fn times(one: &Served<'_>) -> Vec<Range> {
    minus(&[one.window], &one.nested)
}

fn summary(
    connection: &Connection,
    slow: &[&Served<'_>],
    worst: &Served<'_>,
    [asker, answerer]: [Side; 2],
) -> String {
    let who = phrasing::who(connection, answerer);
    let own = phrasing::time(worst.own_ns());
    let caller = phrasing::program(connection, asker);
    let of = match (worst.request.seen, worst.request.total_ns()) {
        (SeenEnds::Both, Some(total_ns)) => {
            format!(" of the {} that {caller} waited", phrasing::time(total_ns))
        }
        _ => String::new(),
    };
    let bytes = phrasing::counted(worst.request.request_bytes, "byte");
    let what = match worst.request.pause_ns.saturating_mul(SERVICE_DIVISOR) > worst.service_ns {
        true => "most of it in pauses within its response".to_owned(),
        false => format!("from reading the request ({bytes}) to its first byte of response"),
    };
    let without = match worst.service_ns - worst.own_ns() {
        0 => String::new(),
        ns => {
            format!(", without the {} that it waited for servers of its own", phrasing::time(ns))
        }
    };
    match slow.len() {
        1 => format!("The {who} took {own}{of}: {what}{without}."),
        more => {
            let median = phrasing::spread(slow.iter().map(|one| one.own_ns()));
            format!(
                "The {who} took {median} for {more} long requests; of the longest {own}{of}: {what}{without}."
            )
        }
    }
}

fn fix(connection: &Connection, slow: &[&Served<'_>], answerer: Side) -> String {
    let process = connection.processes.iter().find(|process| process.side == answerer);
    let Some(process) = process else {
        return format!("In the {}: find what it does then, on its own host.", answerer.name());
    };
    let watch = language::watch(process);
    // Where it asks servers whose connections were recorded, the wait for them is not in this finding.
    match slow.iter().any(|one| one.time != NestedTime::default()) {
        true => format!("See what {} does then: {watch}.", process.comm),
        false => format!(
            "See what {} does then: {watch}. If it waits for a server of its own, record that connection too.",
            process.comm,
        ),
    }
}

fn note(notes: &mut Notes, one: &Served<'_>, answerer: Side) {
    let request = one.request;
    notes.add(one.window.0, || {
        let bytes = phrasing::counted(request.request_bytes, "byte");
        format!("the {} has read the request of {bytes}", answerer.name())
    });
    let Some(answered_ns) = request.answered.ns() else { return };
    notes.add(answered_ns, || {
        let own = phrasing::time(one.own_ns());
        format!("it begins its response; its own time is {own} in all")
    });
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::findings::testing::{found_across, found_in};
    use crate::testing::{self, call};
    use sockscope_record::{Connection, Process, Side};

    fn found(text: &str) -> String {
        let process = |pid, comm: &str, side| Process::new(pid, comm, side);
        let processes = vec![process(7, "curl", Side::Client), process(8, "python3", Side::Server)];
        found_in(&testing::analyze_of(Connection { processes, ..testing::connection(1) }, text))
    }

    #[test]
    fn one_call_of_two_seconds_is_the_servers() {
        let text = "10us 1-7 +79 | 300us 8 +79 | 2000300us <1-7 +80 | 2000600us <8 +80";
        assert_snapshot!(found(text), @"slow-service @server 1x 2.00 s: The server (python3, pid 8) took 2.00 s of the 2.00 s that curl waited: from reading the request (79 bytes) to its first byte of response.");
    }

    #[test]
    fn pauses_of_a_streamed_response_are_the_servers() {
        let chunk = |n: u64| format!(" | {}ms <1-7 +10 | {}ms <8 +10", 2 + n * 20, 3 + n * 20);
        let text = (0..20).fold("1ms 1-8 +79".to_owned(), |text, n| text + &chunk(n));
        assert_snapshot!(found(&text), @"slow-service @server 1x 362 ms: The server (python3, pid 8) took 362 ms of the 382 ms that curl waited: most of it in pauses within its response.");
    }

    #[test]
    fn several_have_their_range() {
        let text = "1ms 1-8 +79 | 201ms <1-8 +80 | 300ms 1-8 +79 | 800ms <1-8 +80 | 900ms 1-8 +9 | 901ms <1-8 +9";
        assert_snapshot!(found(text), @"slow-service @server 2x 700 ms: The server (python3, pid 8) took 200 ms to 500 ms, median 200 ms for 2 long requests; of the longest 500 ms of the 500 ms that curl waited: from reading the request (79 bytes) to its first byte of response.");
    }

    #[test]
    fn calls_shorter_than_a_user_notices_are_silent() {
        assert_snapshot!(found("1ms 1-8 +79 | 91ms <1-8 +80 | 100ms 1-8 +79 | 190ms <1-8 +80"), @"");
    }

    #[test]
    fn a_request_that_lies_unread_is_not_the_service() {
        assert_snapshot!(found("1ms 1-7 +79 | 901ms 8 +79 | 951ms <1-8 +80"), @"slow-reader @server 1x 900 ms: The server (python3, pid 8) left data unread while it did something else: 900 ms of the 950 ms that callers waited (95 %), for 1 request on connection 1. The worst waited 900 ms of its 950 ms for it, on connection 1.");
    }

    #[test]
    fn an_answer_that_its_caller_reads_late_is_not_the_service() {
        assert_snapshot!(found("1ms 1-8 +79 | 101ms <1-7 +80 | 901ms <8 +80"), @"");
    }

    #[test]
    fn messages_of_a_subscription_are_no_slow_response() {
        let message = |n: u64| format!(" | {}ms <1-8 +10", 2 + n * 3_000);
        let text = (0..5).fold("1ms 1-8 +79".to_owned(), |text, n| text + &message(n));
        assert_snapshot!(found(&text), @"");
    }

    #[test]
    fn a_service_that_asks_others_has_its_own_time_alone() {
        let asked = call([100, 120, 500_000, 500_020], [7, 8]);
        let upstream = call([150, 170, 100_300, 100_320], [8, 9]);
        let both = [("7 > 8", asked.clone()), ("8 > 9", upstream)];
        assert_snapshot!(found_across(&both), @r"
        1 slow-service @server 1x 400 ms: The server (p8, pid 8) took 400 ms of the 500 ms that p7 waited: from reading the request (50 bytes) to its first byte of response, without the 100 ms that it waited for servers of its own.
        2 slow-service @server 1x 100 ms: The server (p9, pid 9) took 100 ms of the 100 ms that p8 waited: from reading the request (50 bytes) to its first byte of response.
        ");
        let upstream = call([150, 170, 300_300, 300_320], [8, 9]);
        let said = found_across(&[("7 > 8", asked), ("8 > 9", upstream)]);
        assert!(!said.contains("1 slow-service"), "{said}");
    }
}
