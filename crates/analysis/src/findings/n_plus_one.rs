//! `n-plus-one`: one request is answered by many small ones to the same server, one after the other.
//!
//! As of a page that asks for a list, and then for each of its rows. The cost is the time of these round
//! trips.

use sockscope_record::statistics::percentile;
use sockscope_record::{Connection, Side};

use super::phrasing::{self, Notes};
use super::served_request::{Served, Upstream, open_ns, upstreams};
use crate::ranges::{Range, intersection, total, union};
use crate::{Analysis, ConnectionAnalysis, Finding, FindingId, Request};

/// To set up a connection, log in and ask takes fewer.
const COUNT_MIN: usize = 10;

/// They have at least half of the caller's wait.
const WAITED_DIVISOR: u64 = 2;

/// One in this number may overlap another one.
const OVERLAP_DIVISOR: usize = 10;

/// One in this number may be long, as where the machine stalls. It does not count as one of them.
const LONG_DIVISOR: usize = 10;

/// Limit of a sender's first flight on a new connection: ten segments of 1,460 bytes (RFC 6928 §2). A message of
/// this size takes one round trip, and a larger one carries bulk data.
const SMALL_BYTES_MAX: u64 = 14_600;

/// The sizes of the same question for another row differ by less.
const SIZE_FACTOR_MAX: u64 = 2;

/// One request with the many that it caused.
struct Many<'a> {
    served: &'a Served<'a>,
    upstream: Upstream<'a>,
    /// When they were open.
    times: Vec<Range>,
}

pub(super) fn find<'a>(
    analysis: &'a Analysis,
    connection: &ConnectionAnalysis,
    served: &'a [Served<'a>],
) -> Option<Finding> {
    let asker = connection.requests.asked_by?;
    let many = served.iter().filter_map(|served| {
        let (upstream, times) = many_of(analysis, served)?;
        Some(Many { served, upstream, times })
    });
    let many: Vec<Many<'_>> = many.collect();
    let worst = many.iter().max_by_key(|one| total(&one.times))?;
    let times: Vec<Range> = many.iter().flat_map(|one| one.times.clone()).collect();
    let times = union(&times, &[]);
    let mut notes = Notes::default();
    note(&mut notes, &worst.upstream);
    let (answerer, direction) = (asker.other(), asker.sends());
    let program = phrasing::program(&connection.connection, answerer);
    Some(Finding {
        id: FindingId::NPlusOne,
        flow: connection.connection.id.flow(direction),
        side: answerer,
        count: many.len() as u64,
        connections: 1,
        cost_ns: total(&times),
        times,
        summary: summary(&connection.connection, &many, worst, [asker, answerer]),
        evidence: notes.into_evidence(),
        fix: fix(program, is_without_keep_alive(&worst.upstream)),
    })
}

/// The many small requests that have most of the time of one, with the times at which they were open.
fn many_of<'a>(analysis: &'a Analysis, served: &Served<'a>) -> Option<(Upstream<'a>, Vec<Range>)> {
    let mut upstream = upstreams(analysis, served.id).into_iter().find(is_many)?;
    upstream.requests.retain(|(request, _)| !request.is_long());
    upstream.count = upstream.requests.len();
    let open: Vec<Range> =
        upstream.requests.iter().map(|(one, _)| (one.asked_ns, one.ended_ns)).collect();
    let times = intersection(&union(&open, &[]), &[served.window]);
    let is_most = total(&times).saturating_mul(WAITED_DIVISOR) >= served.waited_ns;
    is_most.then_some((upstream, times))
}

/// Whether a request waits for many small ones.
pub(super) fn explains(analysis: &Analysis, served: &Served<'_>) -> bool {
    many_of(analysis, served).is_some()
}

/// Whether they are many, small, alike, and one after the other.
fn is_many(upstream: &Upstream<'_>) -> bool {
    let requests = &upstream.requests;
    let is_small = |(request, _): &(&Request, _)| {
        request.request_bytes <= SMALL_BYTES_MAX && request.response_bytes <= SMALL_BYTES_MAX
    };
    let long = requests.iter().filter(|(request, _)| request.is_long()).count();
    let overlaps = requests.windows(2).filter(|pair| pair[1].0.asked_ns < pair[0].0.ended_ns);
    let mut sizes: Vec<u64> = requests.iter().map(|(request, _)| request.request_bytes).collect();
    sizes.sort_unstable();
    let [small, large] = [10, 90].map(|percent| percentile(&sizes, percent).unwrap_or(0));
    requests.len() - long >= COUNT_MIN
        && long * LONG_DIVISOR <= requests.len()
        && requests.iter().all(is_small)
        && overlaps.count() * OVERLAP_DIVISOR <= requests.len()
        && large <= small.saturating_mul(SIZE_FACTOR_MAX)
}

fn summary(
    connection: &Connection,
    many: &[Many<'_>],
    worst: &Many<'_>,
    [asker, answerer]: [Side; 2],
) -> String {
    let who = phrasing::who(connection, answerer);
    let caller = phrasing::program(connection, asker);
    let (server, count) = (worst.upstream.words(), worst.upstream.count);
    let requests = || worst.upstream.requests.iter();
    let each = phrasing::spread(requests().filter_map(|(request, _)| request.total_ns()));
    let all = phrasing::time(open_ns(&worst.upstream));
    let waited = phrasing::time(worst.served.waited_ns);
    let apart = match is_without_keep_alive(&worst.upstream) {
        true => ", each time on a new connection",
        false => "",
    };
    let most = format!(
        "To answer one request the {who} asked {count} times, one after the other, {server}{apart}: {each}. \
         That is {all} of the {waited} that {caller} waited."
    );
    match many.len() {
        1 => most,
        more => {
            let all = many.iter().map(|one| one.upstream.count as u64).sum();
            format!("{most} In all, {more} requests caused {}.", phrasing::counted(all, "request"))
        }
    }
}

/// Whether each request opened a connection of its own, which takes a round trip more.
fn is_without_keep_alive(upstream: &Upstream<'_>) -> bool {
    let mut connections: Vec<_> = upstream.requests.iter().map(|(_, id)| id.connection).collect();
    connections.sort_unstable();
    connections.dedup();
    connections.len() == upstream.requests.len()
}

fn fix(program: &str, is_without_keep_alive: bool) -> String {
    let first = match is_without_keep_alive {
        true => "keep one connection open for them; ",
        false => "",
    };
    format!(
        "In {program}: {first}ask for all of it in one request (a join, a list of keys, a batch), send the \
         requests without waiting for each response (a pipeline), or keep what does not change."
    )
}

fn note(notes: &mut Notes, upstream: &Upstream<'_>) {
    for (request, id) in &upstream.requests {
        notes.add(request.asked_ns, || {
            let bytes = phrasing::counted(request.request_bytes, "byte");
            let waited = phrasing::time(request.total_ns().unwrap_or(0));
            format!("it asks on connection {}, {bytes}, and waits {waited}", id.connection.0)
        });
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::findings::testing::found_across;
    use crate::testing::call;

    /// A service that asks a store `count` times, each for 5 ms and 6 ms after the one before.
    fn service(count: u64, query: impl Fn(u64) -> String) -> [(&'static str, String); 2] {
        let end = count * 6_000 + 1_000;
        let queries: Vec<_> = (0..count).map(|n| query(500 + n * 6_000)).collect();
        [("7 > 8", call([100, 120, end, end + 20], [7, 8])), ("8 > 9", queries.join(" | "))]
    }

    fn query(at: u64) -> String {
        call([at, at + 10, at + 4_990, at + 5_000], [8, 9])
    }

    #[test]
    fn sixty_queries_for_one_call_are_the_services() {
        assert_snapshot!(found_across(&service(60, query)), @"1 n-plus-one @server 1x 300 ms: To answer one request the server (p8, pid 8) asked 60 times, one after the other, p9 (pid 9), on connection 2: 5.00 ms each. That is 300 ms of the 361 ms that p7 waited.");
    }

    #[test]
    fn queries_without_keep_alive_open_a_connection_each() {
        let [asked, _] = service(60, query);
        let queries = (0..60).map(|n| ("8 > 9", query(500 + n * 6_000)));
        let all: Vec<_> = std::iter::once(asked).chain(queries).collect();
        let said = found_across(&all);
        let each = "p9 (pid 9), on connection 2, each time on a new connection: 5.00 ms each.";
        assert!(said.contains(each), "{said}");
    }

    /// As behind a stall of the disk, or of the machine.
    #[test]
    fn one_long_query_among_them_is_not_of_the_many_and_does_not_hide_them() {
        let long = |at: u64| at > 500 + 59 * 6_000;
        let query = |at| match long(at) {
            true => call([at, at + 10, at + 150_000, at + 150_010], [8, 9]),
            false => query(at),
        };
        let [(_, _), queries] = service(61, query);
        let asked = ("7 > 8", call([100, 120, 530_000, 530_020], [7, 8]));
        let said = found_across(&[asked, queries]);
        assert!(said.contains("n-plus-one @server 1x 300 ms"), "{said}");
    }

    #[test]
    fn a_few_queries_are_usual() {
        let few = service(9, |at| call([at, at + 10, at + 59_990, at + 60_000], [8, 9]));
        assert!(!found_across(&few).contains("n-plus-one"));
    }

    #[test]
    fn many_that_are_a_small_part_of_the_wait_are_silent() {
        let short = |at| call([at, at + 10, at + 1_000, at + 1_010], [8, 9]);
        let said = found_across(&service(60, short));
        assert!(!said.contains("n-plus-one") && said.contains("slow-service"), "{said}");
    }

    #[test]
    fn a_call_that_is_over_at_once_is_silent() {
        assert_snapshot!(found_across(&service(12, query)), @"");
    }

    #[test]
    fn pieces_of_bulk_data_are_no_questions() {
        let said = found_across(&service(60, |at| query(at).replace("+50", "+60000")));
        assert!(!said.contains("n-plus-one") && said.contains("upstream-wait"), "{said}");
    }

    #[test]
    fn different_questions_are_not_one_for_each_row() {
        let various = |at: u64| query(at).replace("+50", &format!("+{}", 20 + at % 1_000));
        let said = found_across(&service(60, various));
        assert!(said.contains("n-plus-one"), "the sizes are alike: {said}");
        let various = |at: u64| query(at).replace("+50", &format!("+{}", 20 + at / 60 % 1_000));
        let said = found_across(&service(60, various));
        assert!(!said.contains("n-plus-one"), "{said}");
    }
}
