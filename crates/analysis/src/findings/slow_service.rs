//! `slow-service`: the answering program has most of the time of a long request.
//!
//! Its time is that from the read which took the last byte of the request to the first byte of the response, and the
//! pauses within the response in which all was read. What the program does then is not recorded: it computes, sleeps,
//! waits for a lock, a disk or a server of its own. Long pauses are those of a subscription, whose answerer has
//! nothing to say.

use sockscope_record::Side;

use super::language;
use super::phrasing::{self, Notes};
use crate::ranges::{Range, total, union};
use crate::{ConnectionView, Finding, FindingId, Request, RequestEnd, SeenEnds};

/// Service is at least half of what the caller waited.
const SERVICE_DIVISOR: u64 = 2;

/// One long request: the answerer's time, and between which times that was.
struct Slow<'a> {
    request: &'a Request,
    service_ns: u64,
    times: Range,
}

pub(super) fn find(view: &ConnectionView<'_>) -> Option<Finding> {
    let asker = view.requests.asked_by?;
    let slow: Vec<Slow<'_>> = view.requests.list.iter().filter_map(slow).collect();
    let worst = slow.iter().max_by_key(|one| one.service_ns)?;
    let (answerer, direction) = (asker.other(), asker.sends());
    let times = union(&slow.iter().map(|one| one.times).collect::<Vec<_>>(), &[]);
    let service_ns = slow.iter().map(|one| one.service_ns).fold(0, u64::saturating_add);
    let mut notes = Notes::default();
    for one in &slow {
        note(&mut notes, one, answerer);
    }
    Some(Finding {
        id: FindingId::SlowService,
        flow: view.store.connection.id.flow(direction),
        side: answerer,
        count: slow.len() as u64,
        cost_ns: service_ns.min(total(&times)),
        times,
        summary: summary(view, &slow, worst, [asker, answerer]),
        evidence: notes.into_evidence(),
        fix: fix(view, answerer),
    })
}

fn slow(request: &Request) -> Option<Slow<'_>> {
    if request.end != RequestEnd::Answered || request.is_subscription() {
        return None;
    }
    let service_ns = request.service_ns()?;
    let waited_ns = request.total_ns().unwrap_or(service_ns);
    let is_slow =
        waited_ns >= Request::LONG_NS && service_ns.saturating_mul(SERVICE_DIVISOR) >= waited_ns;
    let heard_ns = request.heard.ns().or(request.answered.ns())?;
    let until_ns = match request.pause_ns {
        0 => request.answered.ns()?,
        _ => request.ended_ns,
    };
    is_slow.then_some(Slow { request, service_ns, times: (heard_ns.min(until_ns), until_ns) })
}

fn summary(
    view: &ConnectionView<'_>,
    slow: &[Slow<'_>],
    worst: &Slow<'_>,
    [asker, answerer]: [Side; 2],
) -> String {
    let connection = &view.store.connection;
    let who = phrasing::who(connection, answerer);
    let service = phrasing::time(worst.service_ns);
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
    match slow.len() {
        1 => format!("The {who} took {service}{of}: {what}."),
        more => {
            let median = phrasing::spread(slow.iter().map(|one| one.service_ns));
            format!(
                "The {who} took {median} for {more} long requests; of the longest {service}{of}: {what}."
            )
        }
    }
}

fn fix(view: &ConnectionView<'_>, answerer: Side) -> String {
    let processes = &view.store.connection.processes;
    let process = processes.iter().find(|process| process.side == answerer);
    let Some(process) = process else {
        return format!("In the {}: find what it does then, on its own host.", answerer.name());
    };
    format!(
        "See what {} does then: {}. If it waits for a server of its own, record that connection too.",
        process.comm,
        language::watch(process)
    )
}

fn note(notes: &mut Notes, one: &Slow<'_>, answerer: Side) {
    let Slow { request, service_ns, times } = one;
    notes.add(times.0, || {
        let bytes = phrasing::counted(request.request_bytes, "byte");
        format!("the {} has read the request of {bytes}", answerer.name())
    });
    let Some(answered_ns) = request.answered.ns() else { return };
    notes.add(answered_ns, || {
        let service = phrasing::time(*service_ns);
        format!("it begins its response; its own time is {service} in all")
    });
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::findings::testing::found_in;
    use crate::testing;
    use sockscope_record::{Connection, Process, Side};

    fn found(text: &str) -> String {
        let process = |pid, comm: &str, side| Process { pid, comm: comm.to_owned(), side };
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
        assert_snapshot!(found("1ms 1-7 +79 | 901ms 8 +79 | 951ms <1-8 +80"), @"");
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
}
