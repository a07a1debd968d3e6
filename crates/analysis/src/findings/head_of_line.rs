//! `head-of-line`: requests lie unread while the thread that reads them serves a request of another connection.
//!
//! A thread that serves one request to its end before it reads the next one: in a blocked event loop, a server with a
//! single thread, or a pool whose threads are all busy. Its turns are the services in which it read and answered no
//! other request. The measure is the time of a request in the receive queue during such turns. There is one finding
//! for each thread, for any number of requests.

use std::collections::BTreeMap;

use sockscope_record::{ConnectionId, ProcessKey};

use super::phrasing::{self, Notes};
use crate::ranges::{Range, Sums, intersection, total, union};
use crate::{Analysis, ConnectionAnalysis, Finding, FindingId, Request, RequestId, SeenEnds};

/// The wait behind others is at least half of the caller's wait, or so long that a user notices it alone.
const WAITED_DIVISOR: u64 = 2;

/// Two or more wait at once, on average over the turns: fewer are the effect of a request that is slow.
const WAITING_MIN: u64 = 2;

/// A thread of a process.
type Thread = (ProcessKey, u32);

/// Requests that an event loop reads together are read within this part of the pause that follows, and answered within
/// this part of it after its end.
const TOGETHER_DIVISOR: u64 = 10;

/// Number of these that are named.
const TOGETHER_NAMED_MAX: usize = 4;

/// A request served by a thread that did nothing else then.
#[derive(Debug, Clone)]
struct Turn {
    times: Range,
    id: RequestId,
    /// Requests that the thread read just before, and answered just after: it may have served one of those meanwhile.
    together: Vec<RequestId>,
}

/// A request that lay unread.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    /// From its arrival to the read.
    times: Range,
    id: RequestId,
}

/// Findings of the rule in a trace.
#[derive(Debug, Default)]
pub(super) struct HeadOfLine {
    /// One for each thread.
    pub findings: Vec<Finding>,
    /// Requests that held up others, in order.
    holders: Vec<RequestId>,
    /// When requests of a connection that were held up lay unread, in order and disjoint.
    held: BTreeMap<ConnectionId, Vec<Range>>,
}

impl HeadOfLine {
    /// Whether the finding has the time of this request, as it held up others.
    pub(super) fn is_holder(&self, id: RequestId) -> bool {
        self.holders.binary_search(&id).is_ok()
    }

    /// Whether most of these times of a connection are waits behind others.
    pub(super) fn explains(&self, id: ConnectionId, times: &[Range]) -> bool {
        let held = self.held.get(&id).map_or(&[][..], Vec::as_slice);
        !held.is_empty() && total(&intersection(times, held)).saturating_mul(2) >= total(times)
    }
}

pub(super) fn find(analysis: &Analysis) -> HeadOfLine {
    let mut waiting: BTreeMap<Thread, Vec<Waiting>> = BTreeMap::new();
    for connection in &analysis.connections {
        for unread in &connection.unread_requests {
            let id = RequestId { connection: connection.connection.id, index: unread.index };
            let Some(request) = analysis.request(id) else { continue };
            let (Some(thread), Some(heard_ns)) = (reader(connection, request), request.heard.ns())
            else {
                continue;
            };
            // A request that was sent ahead waits for those before it on its own connection.
            if !request.is_overlapped {
                let times = (unread.arrived_ns, heard_ns);
                waiting.entry(thread).or_default().push(Waiting { times, id });
            }
        }
    }
    let mut found = HeadOfLine::default();
    if waiting.is_empty() {
        return found;
    }
    let mut turns = turns(analysis, &waiting);
    for (thread, waiting) in waiting {
        let turns = turns.remove(&thread).unwrap_or_default();
        found.add(analysis, &alone(turns), &waiting);
    }
    found.holders.sort_unstable();
    for held in found.held.values_mut() {
        *held = union(held, &[]);
    }
    found
}

/// The thread that read a request, and its process.
fn reader(connection: &ConnectionAnalysis, request: &Request) -> Option<Thread> {
    let asker = connection.requests.asked_by?;
    let mut processes = connection.connection.processes.iter();
    let process = processes.find(|process| process.side != asker)?;
    (request.reader_thread != 0).then_some((process.key(), request.reader_thread))
}

/// All that these threads served.
fn turns(
    analysis: &Analysis,
    threads: &BTreeMap<Thread, Vec<Waiting>>,
) -> BTreeMap<Thread, Vec<Turn>> {
    let mut turns: BTreeMap<Thread, Vec<Turn>> = BTreeMap::new();
    for connection in &analysis.connections {
        for (request, index) in connection.requests.list.iter().zip(0u32..) {
            let Some(thread) = reader(connection, request) else { continue };
            let is_its_own = [0, thread.1].contains(&request.answerer_thread);
            if !threads.contains_key(&thread) || request.seen == SeenEnds::Asker || !is_its_own {
                continue;
            }
            // In the pauses of a response the thread is back in its loop.
            let [from_ns, answered_ns] = request.limits();
            let id = RequestId { connection: connection.connection.id, index };
            let turn = Turn { times: (from_ns, answered_ns), id, together: Vec::new() };
            turns.entry(thread).or_default().push(turn);
        }
    }
    turns
}

/// The turns in which the thread read no other request and answered none; in order and disjoint. A request that waits
/// meanwhile in an event loop, as that of a subscription, does not matter.
///
/// An event loop may read several requests and answer them together. If it works for one of them at once, there is a
/// pause between two reads.
fn alone(mut turns: Vec<Turn>) -> Vec<Turn> {
    turns.sort_unstable_by_key(|turn| (turn.times, turn.id));
    let mut answered: Vec<u64> = turns.iter().map(|turn| turn.times.1).collect();
    answered.sort_unstable();
    (0..turns.len()).filter_map(|at| alone_at(&turns, &answered, at)).collect()
}

/// The turn from one read to the next read or answer, if the request read is answered then or soon after.
fn alone_at(turns: &[Turn], answered: &[u64], at: usize) -> Option<Turn> {
    let Turn { times: (from_ns, until_ns), id, .. } = turns[at];
    let answers_by = |ns: u64| answered.partition_point(|answer_ns| *answer_ns <= ns);
    let answer_ns = *answered.get(answers_by(from_ns))?;
    let end_ns = turns.get(at + 1).map_or(answer_ns, |next| next.times.0.min(answer_ns));
    if from_ns >= end_ns {
        return None;
    }
    let near_ns = (end_ns - from_ns) / TOGETHER_DIVISOR;
    let is_answered = |turn: &&Turn| {
        (end_ns..=end_ns.saturating_add(near_ns)).contains(&turn.times.1)
            && answers_by(turn.times.0) == answers_by(from_ns)
    };
    let before = turns[..at].iter().rev();
    let together: Vec<RequestId> = before
        .take_while(|turn| turn.times.0.saturating_add(near_ns) >= from_ns)
        .filter(is_answered)
        .map(|turn| turn.id)
        .collect();
    // An answer that is much later is that of a request for which the thread waits.
    let is_its_own = until_ns == end_ns || is_answered(&&turns[at]);
    is_its_own.then_some(Turn { times: (from_ns, end_ns), id, together })
}

impl HeadOfLine {
    /// Takes the requests of one thread.
    fn add(&mut self, analysis: &Analysis, turns: &[Turn], waiting: &[Waiting]) {
        let served = Sums::new(turns.iter().map(|turn| turn.times).collect());
        let held: Vec<Waiting> = waiting
            .iter()
            .filter(|one| is_held(analysis, one, served.overlap(one.times)))
            .copied()
            .collect();
        let load = Load::of(&held);
        let holders: Vec<(&Turn, u64)> =
            turns.iter().map(|turn| (turn, load.within(turn.times))).collect();
        let holders: Vec<(&Turn, u64)> = holders.into_iter().filter(|(_, ns)| *ns > 0).collect();
        let held_ns = holders.iter().map(|(_, ns)| *ns).fold(0, u64::saturating_add);
        let turns_ns = holders.iter().map(|(turn, _)| turn.times.1 - turn.times.0).sum::<u64>();
        let Some(&(worst, _)) = holders.iter().max_by_key(|(turn, ns)| (*ns, turn.id)) else {
            return;
        };
        if held_ns < turns_ns.saturating_mul(WAITING_MIN) {
            return;
        }
        let turns: Vec<Range> = holders.iter().map(|(turn, _)| turn.times).collect();
        for one in &held {
            self.held.entry(one.id.connection).or_default().push(one.times);
        }
        for (turn, _) in &holders {
            self.holders.extend(turn.together.iter().chain([&turn.id]));
        }
        self.findings.extend(finding(analysis, &turns, &held, worst));
    }
}

/// Whether the caller of a request waited long, and for that wait behind others.
fn is_held(analysis: &Analysis, one: &Waiting, held_ns: u64) -> bool {
    let Some(request) = analysis.request(one.id) else { return false };
    let waited_ns = request.total_ns().unwrap_or(one.times.1 - one.times.0);
    let is_most = held_ns.saturating_mul(WAITED_DIVISOR) >= waited_ns;
    waited_ns >= Request::LONG_NS && (is_most || held_ns >= Request::LONG_NS)
}

/// Number of waiting requests over time.
struct Load {
    /// Begins and ends, each in order.
    begins: Vec<u64>,
    ends: Vec<u64>,
    /// Sums of all before each.
    begins_sum: Vec<u128>,
    ends_sum: Vec<u128>,
}

impl Load {
    fn of(waiting: &[Waiting]) -> Self {
        let sorted = |of: fn(&Waiting) -> u64| {
            let mut times: Vec<u64> = waiting.iter().map(of).collect();
            times.sort_unstable();
            times
        };
        let sums = |times: &[u64]| {
            let sums = times.iter().scan(0u128, |sum, &ns| {
                *sum += u128::from(ns);
                Some(*sum)
            });
            std::iter::once(0).chain(sums).collect::<Vec<_>>()
        };
        let (begins, ends) = (sorted(|one| one.times.0), sorted(|one| one.times.1));
        let (begins_sum, ends_sum) = (sums(&begins), sums(&ends));
        Self { begins, ends, begins_sum, ends_sum }
    }

    /// The time that all together have waited until `at_ns`.
    fn until(&self, at_ns: u64) -> u128 {
        let past = |times: &[u64], sums: &[u128]| {
            let count = times.partition_point(|ns| *ns <= at_ns);
            count as u128 * u128::from(at_ns) - sums[count]
        };
        past(&self.begins, &self.begins_sum) - past(&self.ends, &self.ends_sum)
    }

    /// The time that all together wait within a range.
    fn within(&self, times: Range) -> u64 {
        u64::try_from(self.until(times.1) - self.until(times.0)).unwrap_or(u64::MAX)
    }
}

fn finding(
    analysis: &Analysis,
    turns: &[Range],
    held: &[Waiting],
    worst: &Turn,
) -> Option<Finding> {
    let connection = analysis.connection(worst.id.connection)?;
    let request = analysis.request(worst.id)?;
    let asker = connection.requests.asked_by?;
    let answerer = asker.other();
    let all: Vec<Range> = held.iter().map(|one| one.times).collect();
    let times = intersection(&union(&all, &[]), turns);
    let meanwhile =
        held.iter().filter(|one| one.times.0 < worst.times.1 && one.times.1 > worst.times.0);
    let who = phrasing::who(&connection.connection, answerer);
    let request_of = served_words(analysis, connection, worst)?;
    let served = phrasing::time(worst.times.1 - worst.times.0);
    let behind = Sums::new(turns.to_vec());
    let waited = |one: &Waiting| behind.overlap(one.times);
    let count = phrasing::counted(meanwhile.count() as u64, "request");
    let all = phrasing::counted(held.len() as u64, "request");
    let mut notes = Notes::default();
    note(&mut notes, held, worst, request);
    Some(Finding {
        id: FindingId::HeadOfLine,
        flow: connection.connection.id.flow(asker.sends()),
        side: answerer,
        count: held.len() as u64,
        connections: 1,
        cost_ns: total(&times),
        times,
        summary: format!(
            "The {who} served {request_of}, for {served}, and {count} on \
             other connections lay unread meanwhile. In all, {all} waited behind {} of the same thread: {}.",
            phrasing::counted(turns.len() as u64, "other"),
            phrasing::spread(held.iter().map(waited)),
        ),
        evidence: notes.into_evidence(),
        fix: format!(
            "In {}: divide long work or hand it to a thread or process of its own, or serve with more of \
             them, so that one request does not wait for the others.",
            phrasing::program(&connection.connection, answerer)
        ),
    })
}

/// The request that a turn served, if it is known.
fn served_words(
    analysis: &Analysis,
    connection: &ConnectionAnalysis,
    turn: &Turn,
) -> Option<String> {
    let caller_of = |connection: &ConnectionAnalysis| {
        Some(phrasing::who(&connection.connection, connection.requests.asked_by?))
    };
    let caller = caller_of(connection)?;
    if turn.together.is_empty() {
        let id = connection.connection.id.0;
        return Some(format!("one request of the {caller}, on connection {id}"));
    }
    // By caller, the last one that was read first.
    let mut callers: Vec<(String, Vec<String>)> = Vec::new();
    for id in [turn.id].iter().chain(&turn.together).take(TOGETHER_NAMED_MAX) {
        let caller = caller_of(analysis.connection(id.connection)?)?;
        let number = id.connection.0.to_string();
        match callers.iter_mut().find(|(known, _)| *known == caller) {
            Some((_, connections)) => connections.push(number),
            None => callers.push((caller, vec![number])),
        }
    }
    let words = callers.iter().map(|(caller, connections)| {
        let noun = if connections.len() == 1 { "connection" } else { "connections" };
        format!("{caller} on {noun} {}", connections.join(", "))
    });
    let words: Vec<String> = words.collect();
    let requests = phrasing::counted(turn.together.len() as u64 + 1, "request");
    Some(format!("one of {requests} that it had read together [{}]", words.join("; ")))
}

fn note(notes: &mut Notes, held: &[Waiting], worst: &Turn, request: &Request) {
    let thread = request.reader_thread;
    notes.add(worst.times.0, || {
        let bytes = phrasing::counted(request.request_bytes, "byte");
        format!(
            "thread {thread} reads a request of {bytes} on connection {}",
            worst.id.connection.0
        )
    });
    notes.add(worst.times.1, || format!("thread {thread} answers it"));
    for one in held.iter().filter(|one| one.times.1 > worst.times.0) {
        notes.add(one.times.0, || {
            let waited = phrasing::time(one.times.1 - one.times.0);
            format!(
                "a request arrives on connection {}, and lies unread for {waited}",
                one.id.connection.0
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::findings::testing::found_across;
    use crate::testing::call;

    /// One request of `hold_us`, and `count` others of 1 ms that arrive 10 ms after it; `thread` serves each of them.
    fn held(count: u64, hold_us: u64, thread: impl Fn(u64) -> u32) -> Vec<(&'static str, String)> {
        let holder = ("6 > 8", call([0, 100, 100 + hold_us, 200 + hold_us], [6, 8]));
        let other = |n: u64| {
            let heard = match thread(n) {
                8 => 300 + hold_us + n * 1_000,
                _ => 10_100,
            };
            ("7 > 8", call([10_000, heard, heard + 900, heard + 950], [7, thread(n)]))
        };
        std::iter::once(holder).chain((0..count).map(other)).collect()
    }

    #[test]
    fn the_client_that_was_served_while_fifty_waited_is_named() {
        assert_snapshot!(found_across(&held(50, 400_000, |_| 8)), @"1 head-of-line @server 50x 434 ms: The server (p8, pid 8) served one request of the client (p6, pid 6), on connection 1, for 400 ms, and 50 requests on other connections lay unread meanwhile. In all, 50 requests waited behind 50 others of the same thread: 390 ms to 434 ms, median 412 ms.");
    }

    /// An event loop reads three requests, works for one of them, and then answers all three.
    #[test]
    fn of_requests_that_were_read_together_each_may_have_held_up_the_others() {
        let together = |n: u64, pid| call([n, 100 + n, 400_100 + n, 400_200 + n], [pid, 8]);
        let mut all = held(50, 400_000, |_| 8);
        all[0] = ("6 > 8", together(2, 6));
        all.extend([("7 > 8", together(0, 7)), ("7 > 8", together(1, 7))]);
        assert_snapshot!(found_across(&all), @"1 head-of-line @server 50x 434 ms: The server (p8, pid 8) served one of 3 requests that it had read together [client (p6, pid 6) on connection 1; client (p7, pid 7) on connections 53, 52], for 400 ms, and 50 requests on other connections lay unread meanwhile. In all, 50 requests waited behind 50 others of the same thread: 390 ms to 434 ms, median 412 ms.");
    }

    /// It works for one at once, then reads those that arrived meanwhile, and answers all together.
    #[test]
    fn a_pause_between_two_reads_is_a_turn() {
        let one = |heard: u64, n: u64| {
            let asked = if heard < 400_000 { n } else { 10_000 + n };
            ("7 > 8", call([asked, heard + n, 400_900 + n, 401_000 + n], [7, 8]))
        };
        let late = (0..50).map(|n| one(400_100, n));
        let holder = ("6 > 8", call([2, 102, 400_890, 401_000], [6, 8]));
        let all: Vec<_> = [holder, one(100, 1)].into_iter().chain(late).collect();
        assert_snapshot!(found_across(&all), @"1 head-of-line @server 50x 390 ms: The server (p8, pid 8) served one of 2 requests that it had read together [client (p6, pid 6) on connection 1; client (p7, pid 7) on connection 2], for 400 ms, and 50 requests on other connections lay unread meanwhile. In all, 50 requests waited behind 1 other of the same thread: 390 ms each.");
    }

    #[test]
    fn one_that_waits_for_a_slow_request_is_its_effect() {
        let said = found_across(&held(1, 400_000, |_| 8));
        assert!(!said.contains("head-of-line") && said.contains("slow-service"), "{said}");
    }

    #[test]
    fn threads_of_their_own_hold_up_no_other_request() {
        let said = found_across(&held(50, 400_000, |n| 20 + n as u32));
        assert!(!said.contains("head-of-line") && said.contains("slow-service"), "{said}");
    }

    #[test]
    fn waits_that_no_user_notices_are_silent() {
        assert_snapshot!(found_across(&held(20, 60_000, |_| 8)), @"");
    }

    #[test]
    fn callers_that_fill_a_single_thread_wait_for_each_other() {
        // 20 callers at once, each request takes 20 ms: the last one waits for 380 ms.
        let one = |n: u64| {
            let heard = 100 + n * 20_000;
            ("7 > 8", call([n, heard, heard + 19_900, heard + 19_950], [7, 8]))
        };
        let all: Vec<_> = (0..20).map(one).collect();
        assert_snapshot!(found_across(&all), @"4 head-of-line @server 16x 378 ms: The server (p8, pid 8) served one request of the client (p7, pid 7), on connection 4, for 19.9 ms, and 16 requests on other connections lay unread meanwhile. In all, 16 requests waited behind 19 others of the same thread: 79.6 ms to 378 ms, median 219 ms.");
    }

    #[test]
    fn an_event_loop_that_reads_others_meanwhile_holds_up_none() {
        let mut all = held(50, 400_000, |_| 8);
        // It reads and answers this one while the first is served.
        all.push(("7 > 8", call([9_000, 9_100, 9_200, 9_250], [7, 8])));
        let said = found_across(&all);
        assert!(!said.contains("head-of-line"), "{said}");
    }

    #[test]
    fn a_long_wait_behind_others_counts_also_where_the_service_is_longer() {
        let other = |n: u64| {
            let heard = 240_300 + n * 1_000;
            ("7 > 8", call([10_000, heard, heard + 260_000, heard + 260_100], [7, 8]))
        };
        let holder = ("6 > 8", call([0, 100, 240_100, 240_200], [6, 8]));
        let all: Vec<_> = std::iter::once(holder).chain((0..6).map(other)).collect();
        let said = found_across(&all);
        assert!(said.contains("1 head-of-line @server 6x 230 ms"), "{said}");
    }

    #[test]
    fn a_subscription_that_waits_in_the_same_loop_changes_nothing() {
        let mut all = held(50, 400_000, |_| 8);
        all.push(("5 > 8", call([0, 50, 2_000_000, 2_000_100], [5, 8])));
        let said = found_across(&all);
        assert!(said.contains("1 head-of-line @server 50x 434 ms"), "{said}");
    }

    #[test]
    fn a_reader_that_serves_others_is_no_slow_reader_too() {
        let round = |n: u64, pid: u32, times: [u64; 4]| {
            let text = call(times.map(|us| n * 600_000 + us), [pid, 8]);
            text.replace("8 +50 thread=8", "8 +50 thread=8 runq=1")
        };
        let rounds = |pid, times| {
            let rounds: Vec<_> = (0..3).map(|n| round(n, pid, times)).collect();
            rounds.join(" | ")
        };
        let other = |n: u64| {
            let heard = 400_300 + n * 1_000;
            ("7 > 8", rounds(7, [10_000, heard, heard + 900, heard + 950]))
        };
        let others: Vec<_> = (0..4).map(other).collect();
        let alone = found_across(&others);
        assert!(alone.contains("slow-reader"), "{alone}");
        let holder = ("6 > 8", rounds(6, [0, 100, 400_100, 400_200]));
        let all: Vec<_> = std::iter::once(holder).chain(others).collect();
        let said = found_across(&all);
        assert!(said.contains("1 head-of-line @server 12x"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }

    /// A server with more work than it can do: each request lies unread for 12 ms, and no user notices that one.
    #[test]
    fn a_reader_that_serves_others_for_some_milliseconds_is_no_slow_reader() {
        let round = |n: u64, pid: u32, times: [u64; 4]| {
            let text = call(times.map(|us| n * 30_000 + us), [pid, 8]);
            text.replace("8 +50 thread=8", "8 +50 thread=8 runq=1")
        };
        let rounds = |pid, times| {
            let rounds: Vec<_> = (0..5).map(|n| round(n, pid, times)).collect();
            rounds.join(" | ")
        };
        let other = ("7 > 8", rounds(7, [200, 12_300, 12_400, 12_450]));
        let alone = found_across(std::slice::from_ref(&other));
        assert!(alone.contains("slow-reader"), "{alone}");
        let said = found_across(&[("6 > 8", rounds(6, [0, 100, 12_200, 12_250])), other.clone()]);
        assert!(!said.contains("slow-reader"), "{said}");
        // Many short ones, with pauses of the server between them.
        let short = |at: u64| ("6 > 8", rounds(6, [at, at + 100, at + 200, at + 250]));
        let short = [0, 4_000, 8_000, 12_000].map(short);
        let said = found_across(&short.into_iter().chain([other]).collect::<Vec<_>>());
        assert!(!said.contains("slow-reader"), "{said}");
    }

    #[test]
    fn a_request_that_is_long_in_transit_waits_for_no_thread() {
        let late = |n: u64| {
            let heard = 400_300 + n * 1_000;
            let text = call([10_000, heard, heard + 900, heard + 950], [7, 8]);
            ("7 > 8", text.replacen("10000us 1-7", "10000us 1-4", 1) + " | 400200us 5-7 +50")
        };
        let holder = ("6 > 8", call([0, 100, 400_100, 400_200], [6, 8]));
        let all: Vec<_> = std::iter::once(holder).chain((0..50).map(late)).collect();
        let said = found_across(&all);
        assert!(!said.contains("head-of-line") && said.contains("slow-service"), "{said}");
    }
}
