//! `unanswered`: a request arrived, and was not answered when its caller gave up or the trace ended.
//!
//! The last bytes that were written had arrived in the receive queue. Datagrams count only where others of the
//! connection were answered: many need no answer. Nor does a caller count that waits for a short time.

use sockscope_record::{Direction, Point, Protocol, Side};

use super::phrasing::{self, Notes};
use crate::ranges::{total, union};
use crate::{ConnectionView, Finding, FindingId, Request, RequestEnd, SeenEnds};

/// A side that waits less may have wanted no answer, and a trace may end in the middle of a call.
const WAITED_NS_MIN: u64 = 500_000_000;

pub(super) fn find(view: &ConnectionView<'_>) -> Option<Finding> {
    let asker = view.requests.asked_by?;
    let (answerer, direction) = (asker.other(), asker.sends());
    let list = &view.requests.list;
    let is_stream = view.store.connection.protocol.is_stream();
    let has_answers = list.iter().any(|request| request.end == RequestEnd::Answered);
    if !is_stream && !has_answers {
        return None;
    }
    let has_arrived = has_arrived(view, direction);
    let waits = |request: &&Request| {
        let is_open = matches!(
            request.end,
            RequestEnd::Open | RequestEnd::GivenUp | RequestEnd::ResetByAsker
        );
        let is_there = request.heard.ns().is_some() || is_stream && has_arrived;
        // A server may not notice the end of its caller, and answer then.
        let is_late = request.answered.ns().is_none_or(|at_ns| at_ns > request.ended_ns);
        let is_seen = request.seen == SeenEnds::Both && is_late;
        let waited_ns = request.total_ns().unwrap_or(0);
        is_open && is_there && is_seen && waited_ns >= WAITED_NS_MIN
    };
    let waiting: Vec<&Request> = list.iter().filter(waits).collect();
    let longest = waiting.iter().copied().max_by_key(|request| request.total_ns())?;
    let times: Vec<_> =
        waiting.iter().map(|request| (request.asked_ns, request.ended_ns)).collect();
    let times = union(&times, &[]);
    let mut notes = Notes::default();
    waiting.iter().for_each(|request| note(&mut notes, request, [asker, answerer], goes_on(view)));
    Some(Finding {
        id: FindingId::Unanswered,
        flow: view.store.connection.id.flow(direction),
        side: answerer,
        count: waiting.len() as u64,
        connections: 1,
        cost_ns: total(&times),
        times,
        summary: summary(view, longest, [asker, answerer]),
        evidence: notes.into_evidence(),
        fix: fix(view, longest, answerer),
    })
}

/// Whether all that was written is in the receive queue, or was.
fn has_arrived(view: &ConnectionView<'_>, direction: Direction) -> bool {
    let flow = view.store.flow(direction);
    let end = |point| flow.at(point).iter().map(crate::Passage::end).max();
    end(Point::ReceiveEnqueue) >= end(Point::SendEnqueue)
}

/// Whether the records are of a part of a recording, which has not ended.
fn goes_on(view: &ConnectionView<'_>) -> bool {
    view.store.window.is_some()
}

fn summary(view: &ConnectionView<'_>, request: &Request, [asker, answerer]: [Side; 2]) -> String {
    let connection = &view.store.connection;
    let who = phrasing::who(connection, answerer);
    let caller = phrasing::program(connection, asker);
    let bytes = phrasing::counted(request.request_bytes, "byte");
    let waited = phrasing::time(request.total_ns().unwrap_or(0));
    let until = match request.end {
        RequestEnd::Open if goes_on(view) => " yet".to_owned(),
        RequestEnd::Open => " when the trace ended".to_owned(),
        _ => format!(" when {caller} gave up"),
    };
    match request.heard.ns() {
        Some(_) => format!(
            "The {who} read the request ({bytes}) and had not answered{until}, {waited} after it was asked."
        ),
        None => format!(
            "The {who} had not read the request ({bytes}){until}, {waited} after it was asked."
        ),
    }
}

fn fix(view: &ConnectionView<'_>, request: &Request, answerer: Side) -> String {
    let processes = &view.store.connection.processes;
    match (processes.iter().find(|process| process.side == answerer), request.heard.ns()) {
        (Some(process), _) => {
            let (comm, pid) = (&process.comm, process.pid);
            format!("See what {comm} does instead: strace -f -r -p {pid}, perf trace -p {pid}.")
        }
        (None, Some(_)) => {
            format!("In the {}: find what it waits for, on its own host.", answerer.name())
        }
        (None, None) => {
            let (act, command) = match view.store.connection.protocol {
                Protocol::Tcp => ("accept the connection", "ss -ltn"),
                Protocol::Udp => ("read the datagrams", "ss -uanp"),
                Protocol::Unix | Protocol::UnixSeqpacket => ("read there", "ss -xap"),
                Protocol::UnixDatagram => ("read the messages", "ss -xap"),
            };
            format!("No program was seen to {act}: see why ({command}).")
        }
    }
}

fn note(notes: &mut Notes, request: &Request, [asker, answerer]: [Side; 2], goes_on: bool) {
    let bytes = phrasing::counted(request.request_bytes, "byte");
    notes.add(request.asked_ns, || format!("the {} asks, {bytes}", asker.name()));
    if let Some(heard_ns) = request.heard.ns() {
        notes.add(heard_ns, || format!("the {} has read the request", answerer.name()));
    }
    notes.add(request.ended_ns, || match request.end {
        RequestEnd::Open if goes_on => "no answer until then".to_owned(),
        RequestEnd::Open => "the trace ends".to_owned(),
        _ => format!("the {} gives up", asker.name()),
    });
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use sockscope_record::{Connection, ConnectionId, Protocol, UnixName};

    use crate::findings::testing::found_in;
    use crate::testing;

    fn found(text: &str) -> String {
        found_in(&testing::analyze(text))
    }

    #[test]
    fn a_hang_that_the_caller_gives_up_is_the_servers() {
        assert_snapshot!(found("1ms 1-7 +79 | 2ms 8 +79 | 2001ms 3-6 fin"), @"unanswered @server 1x 2.00 s: The server read the request (79 bytes) and had not answered when client gave up, 2.00 s after it was asked.");
    }

    #[test]
    fn an_answer_after_its_caller_gave_up_answers_nothing() {
        assert_snapshot!(found("1ms 1-7 +79 | 2ms 8 +79 | 2001ms 3-6 fin | 3s <1-6 +80"), @"unanswered @server 1x 2.00 s: The server read the request (79 bytes) and had not answered when client gave up, 2.00 s after it was asked.");
    }

    #[test]
    fn a_request_whose_answer_began_before_its_caller_gave_up_was_answered() {
        assert_snapshot!(found("1ms 1-7 +79 | 2ms 8 +79 | 3ms <1-6 +80 | 2001ms 3-6 fin"), @"");
    }

    #[test]
    fn a_request_that_the_server_leaves_unread_is_the_servers() {
        assert_snapshot!(found("1ms 1-7 +79 | 2001ms 3-6 fin"), @"unanswered @server 1x 2.00 s: The server had not read the request (79 bytes) when client gave up, 2.00 s after it was asked.");
    }

    #[test]
    fn a_request_that_is_still_under_way_is_not() {
        assert_snapshot!(found("1ms 1-4 +79 | 2001ms 3-6 fin"), @"");
    }

    #[test]
    fn a_trace_that_ends_in_the_middle_of_a_call_is_silent() {
        assert_snapshot!(found("1ms 1-8 +79 | 2ms <1-8 +80 | 100ms 1-8 +79 | 400ms 3-6 ack=80"), @"");
    }

    #[test]
    fn a_last_word_before_the_close_wants_no_answer() {
        assert_snapshot!(found("1ms 1-8 +79 | 2ms <1-8 +80 | 3ms 1-8 +5 | 4ms 3-6 fin | 3s <3-6 fin"), @"");
    }

    #[test]
    fn datagrams_want_an_answer_where_others_have_one() {
        let udp = || Connection { protocol: Protocol::Udp, ..testing::connection(1) };
        let found = |text| found_in(&testing::analyze_of(udp(), text));
        let answered =
            "1ms 1-8 +30 | 2ms <1-8 +60 | 3ms 1-8 +30 | 5003ms 1-8 +31 | 5004ms <1-8 +60";
        assert_snapshot!(found(answered), @"unanswered @server 1x 5.00 s: The server read the request (30 bytes) and had not answered when client gave up, 5.00 s after it was asked.");
        assert_snapshot!(found("3ms 1-8 +30 | 5003ms 1-8 +31 | 5004ms 1-8 +32"), @"");
    }

    #[test]
    fn a_stream_that_no_program_reads_needs_no_earlier_answer() {
        let unix = |protocol| {
            let ends = ["unix:7", "/run/a.sock"].map(UnixName::new);
            let connection = Connection {
                both_ends_here: true,
                ..Connection::of_unix(ConnectionId(1), protocol, ends, 0)
            };
            let analysis =
                testing::analyze_of(connection, "1ms 1 +30 | 1ms 7 +30 | 2001ms 3-6 fin");
            let fixes: Vec<String> = analysis.findings.iter().map(|one| one.fix.clone()).collect();
            [found_in(&analysis), fixes.join(" ")].join(" ")
        };
        assert_snapshot!(unix(Protocol::Unix), @"unanswered @server 1x 2.00 s: The server had not read the request (30 bytes) when client gave up, 2.00 s after it was asked. No program was seen to read there: see why (ss -xap).");
        assert_snapshot!(unix(Protocol::UnixDatagram), @" ");
    }
}
