//! `upstream-wait`: a program answers late because it waits for requests of its own.
//!
//! A consequence: the time is that of another server, or of the path to it, which the sentence names. There stands the
//! finding with the cause, if there is one, and there the time counts. Many small requests are `n-plus-one`, which is
//! the program's own cause.

use sockscope_record::{Connection, Side};

use super::n_plus_one;
use super::phrasing::{self, Notes};
use super::served_request::{Leaf, Served, Upstream, leaf, upstreams};
use crate::ranges::{Range, total, union};
use crate::{Analysis, ConnectionAnalysis, Finding, FindingId};

/// Nested requests are open at least half of the caller's wait.
const NESTED_DIVISOR: u64 = 2;

pub(super) fn find(
    analysis: &Analysis,
    connection: &ConnectionAnalysis,
    served: &[Served<'_>],
) -> Option<Finding> {
    let asker = connection.requests.asked_by?;
    let waits = served.iter().filter(|one| waits(one) && !n_plus_one::explains(analysis, one));
    let waits: Vec<&Served<'_>> = waits.collect();
    let worst = waits.iter().max_by_key(|one| one.time.nested_ns)?;
    let upstreams = upstreams(analysis, worst.id);
    let first = upstreams.first()?;
    let times: Vec<Range> = waits.iter().flat_map(|one| one.nested.iter().copied()).collect();
    let times = union(&times, &[]);
    let nested_ns = waits.iter().map(|one| one.time.nested_ns).fold(0, u64::saturating_add);
    let mut notes = Notes::default();
    note(&mut notes, first);
    let (answerer, direction) = (asker.other(), asker.sends());
    let leaf = leaf(analysis, first)?;
    let program = phrasing::program(&connection.connection, answerer);
    Some(Finding {
        id: FindingId::UpstreamWait,
        flow: connection.connection.id.flow(direction),
        side: answerer,
        count: waits.len() as u64,
        connections: 1,
        cost_ns: nested_ns.min(total(&times)),
        times,
        summary: format!(
            "{} {}",
            summary(&connection.connection, &waits, worst, first, [asker, answerer]),
            cause(first, &leaf),
        ),
        evidence: notes.into_evidence(),
        fix: fix(program, &leaf),
    })
}

fn waits(one: &Served<'_>) -> bool {
    one.time.nested_ns.saturating_mul(NESTED_DIVISOR) >= one.waited_ns
}

/// Whether that is most of the time of another rule's finding between these times.
pub(super) fn explains(served: &[Served<'_>], times: &[Range]) -> bool {
    let waits = served.iter().filter(|one| waits(one));
    let nested: Vec<Range> = waits.flat_map(|one| one.nested.iter().copied()).collect();
    let both = crate::ranges::intersection(times, &union(&nested, &[]));
    total(&both).saturating_mul(NESTED_DIVISOR) >= total(times)
}

fn summary(
    connection: &Connection,
    waits: &[&Served<'_>],
    worst: &Served<'_>,
    first: &Upstream<'_>,
    [asker, answerer]: [Side; 2],
) -> String {
    let who = phrasing::who(connection, answerer);
    let nested = phrasing::time(worst.time.nested_ns);
    let waited = match worst.request.total_ns() {
        Some(total_ns) => {
            let caller = phrasing::program(connection, asker);
            format!("Of the {} that {caller} waited, the", phrasing::time(total_ns))
        }
        None => "The".to_owned(),
    };
    let own = match first.count {
        1 => "a request".to_owned(),
        more => format!("{more} requests"),
    };
    let (server, certainty) = (first.words(), first.certainty_words());
    let longest =
        format!("{waited} {who} waited {nested} for {own} of its own to {server}, {certainty}.");
    match waits.len() {
        1 => longest,
        more => {
            let spread = phrasing::spread(waits.iter().map(|one| one.time.nested_ns));
            format!("{longest} In all, {more} long requests it so waited {spread}.")
        }
    }
}

fn fix(program: &str, leaf: &Leaf) -> String {
    let id = leaf.connection.0;
    let also = if leaf.is_elsewhere { ", and record on the host of that server too" } else { "" };
    format!(
        "Look further on connection {id}{also}; {program} itself can only ask less, earlier, or several at once."
    )
}

fn cause(first: &Upstream<'_>, leaf: &Leaf) -> String {
    let Leaf { connection, server, took, .. } = leaf;
    match (*connection == first.connection.connection.id, first.count) {
        (false, _) => format!("Behind it, {server}, took {took}."),
        (true, 1) => format!("That server took {took}."),
        (true, _) => format!("That server took {took}, one after the other or together."),
    }
}

fn note(notes: &mut Notes, first: &Upstream<'_>) {
    for (request, id) in &first.requests {
        notes.add(request.asked_ns, || {
            let bytes = phrasing::counted(request.request_bytes, "byte");
            format!("it asks on connection {}, {bytes}", id.connection.0)
        });
        notes.add(request.ended_ns, || {
            let waited = phrasing::time(request.total_ns().unwrap_or(0));
            format!("that request ends, {}, after {waited}", request.end.name())
        });
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::findings::testing::found_across;
    use crate::testing::call;

    /// Of a client 7, a proxy 8, a service 9 and a store 10.
    fn chain(store_ms: u64) -> [(&'static str, String); 3] {
        let us = store_ms * 1_000;
        [
            ("7 > 8", call([100, 120, us + 400, us + 420], [7, 8])),
            ("8 > 9", call([150, 170, us + 300, us + 320], [8, 9])),
            ("9 > 10", call([200, 210, us + 210, us + 230], [9, 10])),
        ]
    }

    #[test]
    fn the_store_behind_a_proxy_and_a_service_has_the_time() {
        assert_snapshot!(found_across(&chain(300)), @r"
        1 upstream-wait @server 1x 300 ms: Of the 300 ms that p7 waited, the server (p8, pid 8) waited 300 ms for a request of its own to p9 (pid 9), on connection 2, asked by the same thread. Behind it, p10 (pid 10), on connection 3, took 300 ms of its own.
        2 upstream-wait @server 1x 300 ms: Of the 300 ms that p8 waited, the server (p9, pid 9) waited 300 ms for a request of its own to p10 (pid 10), on connection 3, asked by the same thread. That server took 300 ms of its own.
        3 slow-service @server 1x 300 ms: The server (p10, pid 10) took 300 ms of the 300 ms that p9 waited: from reading the request (50 bytes) to its first byte of response.
        ");
    }

    #[test]
    fn a_proxy_between_two_other_hosts_waits_for_an_address() {
        let asked = "100us 5-7 +50 | 120us 8 +50 thread=8 | 300ms <1-4 +90 thread=8";
        let upstream = "150us 1-4 +50 thread=8 | 299ms <5-7 +90 | 299010us <8 +90 thread=8";
        assert_snapshot!(found_across(&[("? > 8", asked), ("8 > ?", upstream)]), @"1 upstream-wait @server 1x 299 ms: The server (p8, pid 8) waited 299 ms for a request of its own to 127.0.0.1:80, on connection 2, asked by the same thread. That server took 299 ms with the network to it.");
    }

    #[test]
    fn a_chain_that_is_fast_is_silent() {
        assert_snapshot!(found_across(&chain(80)), @"");
    }

    #[test]
    fn a_proxy_whose_own_time_is_most_waits_for_no_upstream() {
        let asked = call([100, 120, 400_000, 400_020], [7, 8]);
        let upstream = call([150, 170, 90_300, 90_320], [8, 9]);
        assert_snapshot!(found_across(&[("7 > 8", asked), ("8 > 9", upstream)]), @"1 slow-service @server 1x 310 ms: The server (p8, pid 8) took 310 ms of the 400 ms that p7 waited: from reading the request (50 bytes) to its first byte of response, without the 90.2 ms that it waited for servers of its own.");
    }

    #[test]
    fn requests_of_an_event_loop_that_cannot_be_told_apart_blame_no_program() {
        let one = call([100, 120, 400_000, 400_020], [7, 8]);
        let other = call([110, 130, 410_000, 410_020], [7, 8]);
        let upstream = call([150, 170, 399_000, 399_100], [8, 9]);
        let all = [("7 > 8", one), ("7 > 8", other), ("8 > 9", upstream)];
        assert_snapshot!(found_across(&all), @"3 slow-service @server 1x 399 ms: The server (p9, pid 9) took 399 ms of the 399 ms that p8 waited: from reading the request (50 bytes) to its first byte of response.");
    }

    #[test]
    fn a_hang_behind_a_proxy_is_that_of_the_last_server() {
        let hangs = |asker: u64, answerer: u64, at: u64| {
            format!(
                "{at}us 1-7 +50 thread={asker} | {}us 8 +50 thread={answerer} | {}us 3-6 fin",
                at + 20,
                2_000_000 - at
            )
        };
        let both = [("7 > 8", hangs(7, 8, 100)), ("8 > 9", hangs(8, 9, 200))];
        assert_snapshot!(found_across(&both), @r"
        1 upstream-wait @server 1x 2.00 s: Of the 2.00 s that p7 waited, the server (p8, pid 8) waited 2.00 s for a request of its own to p9 (pid 9), on connection 2, asked by the same thread. That server took 2.00 s of its own.
        2 unanswered @server 1x 2.00 s: The server (p9, pid 9) read the request (50 bytes) and had not answered when p8 gave up, 2.00 s after it was asked.
        ");
    }
}
