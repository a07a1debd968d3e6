//! `connection-churn`: a program closes a connection and opens the next one to the same server.
//!
//! One finding for a client process and a server's address, for any number of connections. A connection counts where
//! the process had closed one to that address shortly before, which the new request could have used. Connections that
//! are opened while others are open, as those of a pool, do not count. The cost is the time of the handshakes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use sockscope_record::tcp_states::{CLOSE_WAIT, ESTABLISHED};
use sockscope_record::{ConnectionId, Direction, Kind, Point, Process, ProcessKey, Protocol, Side};

use super::handshake::{AGAIN_NS_MIN, syns};
use super::intervals::{Interval, Intervals};
use super::language::{self, Topic};
use super::phrasing::{self, Notes};
use crate::{
    Analysis, ConnectionAnalysis, ConnectionStore, Conversation, Finding, FindingId, LedgerPart,
    Request, RequestEnd,
};

/// Fewer are no way of working.
const AGAIN_MIN: usize = 20;

/// A connection with more requests than this is no short one.
const REQUESTS_MAX: usize = 10;

/// A health check or a poller asks every second or less often, and means to open a connection.
const CLOSED_NS_MAX: u64 = 500_000_000;

/// The handshakes are at least this share of the time that the client waits: below that, keeping connections would
/// not be felt.
const WAITED_PERCENT_MIN: u64 = 5;

/// The handshakes cost at least this share of the time in which bytes were under way in the trace, or of the trace.
const TRACE_PERCENT_MIN: u64 = 1;

/// The connections of a trace whose opening was recorded at their client.
#[derive(Debug, Default)]
pub(crate) struct Churn(Vec<Opening>);

/// A connection that opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opening {
    id: ConnectionId,
    /// From its SYN on, until its client's socket was open.
    handshake: Interval,
    /// The SYN was sent once, and the client sent no data with it.
    is_waited_for: bool,
    /// Time of the first close, and the end that closed; `None` while it is open.
    closed: Option<(u64, Side)>,
}

/// Two connections, the second one opened after the first one was closed.
struct Again<'a> {
    before: &'a Opening,
    opening: &'a Opening,
    closed_ns: u64,
    closed_by: Side,
}

/// The callers' waits on the connections that were opened again.
struct Waits {
    handshakes: Intervals,
    handshakes_ns: Vec<u64>,
    requests_ns: u64,
}

impl Churn {
    /// Takes note of one connection.
    pub(crate) fn add(&mut self, opening: Option<Opening>) {
        self.0.extend(opening);
    }

    /// Adds the findings to the connections with which each of them begins.
    pub(crate) fn find(self, analysis: &mut Analysis) {
        let mut callers: BTreeMap<(ProcessKey, IpAddr, SocketAddr), Vec<&Opening>> =
            BTreeMap::new();
        for opening in &self.0 {
            let Some(one) = of(analysis, opening.id).filter(|one| is_short(one)) else { continue };
            let connection = &one.connection;
            let Some(process) = process(one, Side::Client) else { continue };
            let caller = (process.key(), connection.client.ip(), connection.server);
            callers.entry(caller).or_default().push(opening);
        }
        let callers = callers.into_values().filter(|openings| openings.len() > AGAIN_MIN);
        let found: Vec<_> = callers.filter_map(|openings| find(analysis, &openings)).collect();
        for finding in found {
            let id = finding.flow.connection();
            let Some(index) = index_of(analysis, id) else { continue };
            let findings = &mut analysis.connections[index].findings;
            findings.push(finding);
            findings.sort_unstable_by_key(|finding| {
                (Reverse(finding.cost_ns), finding.flow, finding.id)
            });
        }
    }
}

impl Opening {
    /// `None` where the client's end or its handshake was not seen.
    pub(crate) fn of(store: &ConnectionStore) -> Option<Self> {
        let connection = &store.connection;
        if connection.protocol != Protocol::Tcp
            || connection.preexisting
            || connection.is_to_itself()
        {
            return None;
        }
        let client = store.flow(Direction::FromClient);
        let sent = &client.passages[Point::InterfaceEnqueue.index()..Point::InputEnqueue.index()];
        let asked_ns = sent.iter().filter_map(|passes| syns(passes).next()?.at_ns.into()).min()?;
        let changes = || {
            client
                .events_of(Kind::StateChange)
                .filter_map(|it| Some((it.at_ns, it.state_change()?)))
        };
        let (opened_ns, _) = changes().find(|(_, change)| change.new == ESTABLISHED)?;
        let closed = changes().find(|(_, change)| change.old == ESTABLISHED);
        let closed = closed.map(|(at_ns, change)| match change.new {
            CLOSE_WAIT => (at_ns, Side::Server),
            _ => (at_ns, Side::Client),
        });
        let written = client.at(Point::SendEnqueue).first();
        let is_ahead = written.is_some_and(|pass| pass.at_ns < opened_ns);
        let handshake = Interval::new(asked_ns, opened_ns);
        let is_waited_for = !is_ahead && !is_repeated(store);
        Some(Self { id: connection.id, handshake, is_waited_for, closed })
            .filter(|one| one.handshake.duration_ns() > 0)
    }
}

/// Whether a segment of the handshake was sent again. Other findings have that time.
fn is_repeated(store: &ConnectionStore) -> bool {
    let lists = store.flows.iter().flat_map(|flow| &flow.passages[2..6]);
    let mut spans = lists.filter_map(|passes| {
        let first_ns = syns(passes).next()?.at_ns;
        syns(passes).last().map(|last| last.at_ns - first_ns)
    });
    spans.any(|span_ns| span_ns >= AGAIN_NS_MIN)
}

fn index_of(analysis: &Analysis, id: ConnectionId) -> Option<usize> {
    analysis.connections.binary_search_by_key(&id, |one| one.connection.id).ok()
}

fn of(analysis: &Analysis, id: ConnectionId) -> Option<&ConnectionAnalysis> {
    analysis.connections.get(index_of(analysis, id)?)
}

fn process(one: &ConnectionAnalysis, side: Side) -> Option<&Process> {
    one.connection.processes.iter().find(|process| process.side == side)
}

/// Whether all that was asked was answered, and that was little.
fn is_short(one: &ConnectionAnalysis) -> bool {
    let requests = &one.requests;
    let is_counted = matches!(
        requests.conversation,
        Conversation::Alternating | Conversation::Streamed | Conversation::Pipelined
    );
    is_counted
        && requests.left_out == 0
        && (1..=REQUESTS_MAX).contains(&requests.list.len())
        && requests.list.iter().all(|request| request.end == RequestEnd::Answered)
}

/// The finding for one program and the connections that it opened to one address.
fn find(analysis: &Analysis, openings: &[&Opening]) -> Option<Finding> {
    let again = again(openings);
    let waits = Waits::of(analysis, &again);
    let cost_ns = waits.handshakes.total_ns();
    let handshakes_ns: u64 = waits.handshakes_ns.iter().sum();
    let waited_ns = handshakes_ns.saturating_add(waits.requests_ns);
    let is_felt = is_share(handshakes_ns, waited_ns, WAITED_PERCENT_MIN)
        && is_share(cost_ns, run_ns(analysis), TRACE_PERCENT_MIN);
    if waits.handshakes_ns.len() < AGAIN_MIN || !is_felt {
        return None;
    }
    let first = again.first()?;
    let one = of(analysis, first.opening.id)?;
    let connection = &one.connection;
    let by_server = again.iter().filter(|one| one.closed_by == Side::Server).count();
    let side = if by_server * 2 > again.len() { Side::Server } else { Side::Client };
    let [client, server] = [Side::Client, Side::Server].map(|side| phrasing::who(connection, side));
    let spread = phrasing::spread(waits.handshakes_ns.iter().copied());
    let share = phrasing::percent(handshakes_ns, waited_ns);
    let times = phrasing::counted(again.len() as u64, "time");
    let requests = requests_of(analysis, &again);
    let mut notes = Notes::default();
    again.iter().for_each(|one| note(&mut notes, one));
    Some(Finding {
        id: FindingId::ConnectionChurn,
        flow: connection.id.flow(Direction::FromClient),
        side,
        count: again.len() as u64,
        connections: 1,
        cost_ns,
        times: waits.handshakes.iter().map(|one| (one.start_ns, one.end_ns)).collect(),
        summary: format!(
            "The {client} opened a new connection to {} {times} right after one was closed, for {requests} each. \
             Handshakes took {spread}: {share} of the time that it waited.",
            connection.server,
        ),
        evidence: notes.into_evidence(),
        fix: fix(one, side, [&client, &server], (by_server, again.len())),
    })
}

/// With the number of times that the server closed first, of all.
fn fix(
    one: &ConnectionAnalysis,
    side: Side,
    [client, server]: [&str; 2],
    (by_server, all): (usize, usize),
) -> String {
    let comm = |side| process(one, side).map(|process| process.comm.as_str());
    let reuse = language::advice(comm(Side::Client), Topic::Reuse);
    let often =
        if by_server < all { format!(", {by_server} of {all} times") } else { String::new() };
    match side {
        Side::Client => format!(
            "In the {client}: keep the connection open and send the next request on it ({reuse})."
        ),
        Side::Server => format!(
            "The {server} closes first{often}. If the {client} asks it to (\"Connection: close\", HTTP/1.0), let the client \
             keep the connection: {reuse}. Else let the server keep it: {}.",
            language::advice(comm(Side::Server), Topic::KeepAlive)
        ),
    }
}

/// The connections that were opened when an earlier one had just been closed, in order. Each closed one counts for
/// one that opened.
fn again<'a>(openings: &[&'a Opening]) -> Vec<Again<'a>> {
    let mut by_start = openings.to_vec();
    by_start.sort_unstable_by_key(|one| (one.handshake.start_ns, one.id));
    let mut closed: Vec<_> = openings.iter().filter_map(|one| Some((one.closed?, *one))).collect();
    closed.sort_unstable_by_key(|&((closed_ns, _), one)| (closed_ns, one.id));
    let mut closed = closed.into_iter().peekable();
    let mut free = Vec::new();
    let mut again = Vec::new();
    for opening in by_start {
        let asked_ns = opening.handshake.start_ns;
        while let Some(next) = closed.next_if(|&((closed_ns, _), _)| closed_ns <= asked_ns) {
            free.push(next);
        }
        // The last one that was closed; those before it are older still.
        if let Some(((closed_ns, closed_by), before)) = free.pop()
            && asked_ns - closed_ns <= CLOSED_NS_MAX
        {
            debug_assert_ne!(before.id, opening.id, "a connection is not its own predecessor");
            again.push(Again { before, opening, closed_ns, closed_by });
        }
    }
    again
}

impl Waits {
    fn of(analysis: &Analysis, again: &[Again<'_>]) -> Self {
        let waited = again.iter().map(|one| one.opening).filter(|one| one.is_waited_for);
        let handshakes: Vec<_> = waited.map(|one| one.handshake).collect();
        let connections = again.iter().filter_map(|one| of(analysis, one.opening.id));
        let requests = connections.flat_map(|one| &one.requests.list);
        let requests_ns = requests.filter_map(Request::total_ns).fold(0, u64::saturating_add);
        let handshakes_ns: Vec<u64> = handshakes.iter().map(|one| one.duration_ns()).collect();
        let handshakes = Intervals::union_of(handshakes);
        let sum_ns = handshakes_ns.iter().copied().fold(0, u64::saturating_add);
        debug_assert!(handshakes.total_ns() <= sum_ns, "a union is longer than its parts");
        Self { handshakes, handshakes_ns, requests_ns }
    }
}

/// As `1 request`, or `1 to 5 requests`.
fn requests_of(analysis: &Analysis, again: &[Again<'_>]) -> String {
    let counts = || {
        let connections = again.iter().filter_map(|one| of(analysis, one.opening.id));
        connections.map(|one| one.requests.list.len() as u64)
    };
    let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    let most_counted = phrasing::counted(most, "request");
    if least == most { most_counted } else { format!("{least} to {most_counted}") }
}

fn is_share(part_ns: u64, whole_ns: u64, percent: u64) -> bool {
    part_ns > 0 && u128::from(part_ns) * 100 >= u128::from(whole_ns) * u128::from(percent)
}

/// The time in which bytes were under way, all flows together, and no more than the trace lasted.
fn run_ns(analysis: &Analysis) -> u64 {
    let flows = analysis.connections.iter().flat_map(|one| &one.flows);
    let idle = [LedgerPart::AppIdle, LedgerPart::Handshake, LedgerPart::Unknown];
    let busy_ns = flows.map(|flow| {
        let idle_ns = idle.iter().map(|part| flow.ledger.ns[*part as usize]).sum::<u64>();
        flow.ledger.total_ns().saturating_sub(idle_ns)
    });
    busy_ns.fold(0, u64::saturating_add).min(analysis.duration_ns)
}

fn note(notes: &mut Notes, one: &Again<'_>) {
    let Again { before, opening, closed_ns, closed_by } = one;
    let handshake = opening.handshake;
    notes.add(handshake.start_ns, || {
        let pause = phrasing::time(handshake.start_ns - closed_ns);
        let (id, before, by) = (opening.id.0, before.id.0, closed_by.name());
        format!("a SYN opens connection {id}, {pause} after the {by} closed connection {before}")
    });
    notes.add(handshake.end_ns, || {
        let took = phrasing::time(handshake.duration_ns());
        format!("connection {} is open, {took} after its SYN", opening.id.0)
    });
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use sockscope_record::Connection;

    use super::*;
    use crate::findings::testing::found_in;
    use crate::testing::{self, time_ns};
    use crate::{Analyzer, TraceFacts};

    /// One connection: a handshake of 100 us, a request that is answered 200 us later, and the client closes.
    const SHORT: &str = "0us 3-6 syn | 50us <3-6 syn ack=0 | 100us state-change code=1 extra=2
        100us 3-6 ack=0 | 110us 1-8 +50 | 250us <1-7 +200 | 300us <8 +200
        320us state-change code=4 extra=1";

    /// A trace of connections of the client with these process ids.
    #[derive(Default)]
    struct Trace {
        analyzer: Analyzer,
        connections: u32,
    }

    impl Trace {
        /// A connection whose records begin at that time.
        fn open(&mut self, at: &str, text: &str, pid: u32) -> &mut Self {
            self.connections += 1;
            let id = ConnectionId(self.connections);
            let named = |pid, comm: &str, side| Process::new(pid, comm, side);
            let processes = vec![named(pid, "asks", Side::Client), named(9, "nginx", Side::Server)];
            self.analyzer.connection(Connection { id, processes, ..testing::connection(1) });
            let shifted = testing::records(text).into_iter().map(|mut record| {
                record.at_ns += time_ns(at);
                record.flow = id.flow(record.flow.direction());
                record
            });
            self.analyzer.push(&shifted.collect::<Vec<_>>());
            self
        }

        fn findings(&mut self) -> Vec<(ConnectionId, Finding)> {
            let analysis = std::mem::take(&mut self.analyzer).finish(TraceFacts::default());
            let connections = analysis.connections.into_iter();
            let found = connections.flat_map(|one| {
                let id = one.connection.id;
                one.findings.into_iter().map(move |finding| (id, finding))
            });
            found.filter(|(_, finding)| finding.id == FindingId::ConnectionChurn).collect()
        }

        fn found(&mut self) -> String {
            let analysis = std::mem::take(&mut self.analyzer).finish(TraceFacts::default());
            let found = analysis.connections.iter().map(found_in).filter(|text| !text.is_empty());
            found.collect::<Vec<_>>().join("\n")
        }
    }

    /// Connections of one process, one each period.
    fn sequence(count: u64, period_us: u64, text: &str) -> Trace {
        let mut trace = Trace::default();
        (0..count).for_each(|i| {
            trace.open(&format!("{}us", i * period_us), text, 7);
        });
        trace
    }

    #[test]
    fn a_connection_for_each_request_is_one_finding_for_the_trace() {
        assert_snapshot!(sequence(1000, 400, SHORT).found(), @"connection-churn @client 999x 99.9 ms: The client (asks, pid 7) opened a new connection to 127.0.0.1:80 999 times right after one was closed, for 1 request each. Handshakes took 100 us each: 34 % of the time that it waited.");
    }

    #[test]
    fn the_evidence_is_the_openings_and_the_fix_is_the_clients() {
        let findings = sequence(30, 400, SHORT).findings();
        let [(id, finding)] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!((id.0, finding.evidence.len()), (2, Finding::EVIDENCE_MAX));
        assert_eq!(finding.times[0], (400_000, 500_000));
        assert_snapshot!(format!("{}\n{}\n{}", finding.evidence[0].text, finding.evidence[1].text, finding.fix), @r"
        a SYN opens connection 2, 80.0 us after the client closed connection 1
        connection 2 is open, 100 us after its SYN
        In the client (asks, pid 7): keep the connection open and send the next request on it (a client or pool that lives longer than one request).
        ");
    }

    #[test]
    fn where_the_server_closes_first_it_is_the_servers() {
        let findings = sequence(30, 400, &SHORT.replace("code=4", "code=8")).findings();
        assert_snapshot!(format!("{} {}", findings[0].1.side.name(), findings[0].1.fix), @r#"server The server (nginx, pid 9) closes first. If the client (asks, pid 7) asks it to ("Connection: close", HTTP/1.0), let the client keep the connection: a client or pool that lives longer than one request. Else let the server keep it: keepalive_timeout above 0, and a larger keepalive_requests."#);
    }

    #[test]
    fn where_the_server_closes_most_of_them_first_the_fix_has_the_count() {
        let mut trace = Trace::default();
        (0..31).for_each(|i| {
            let is_client = i % 5 == 4;
            let text = SHORT.replace("code=4", if is_client { "code=4" } else { "code=8" });
            trace.open(&format!("{}us", i * 400), &text, 7);
        });
        let findings = trace.findings();
        let (side, fix) = (findings[0].1.side.name(), &findings[0].1.fix);
        let (first, _) = fix.split_once(". ").unwrap();
        assert_snapshot!(format!("{side}: {first}"), @"server: The server (nginx, pid 9) closes first, 24 of 30 times");
    }

    #[test]
    fn a_few_requests_on_each_are_few_requests() {
        let more = SHORT.replace("320us", "310us 1-8 +50 | 330us <1-8 +200 | 340us");
        assert_snapshot!(sequence(30, 400, &more).found(), @"connection-churn @client 29x 2.90 ms: The client (asks, pid 7) opened a new connection to 127.0.0.1:80 29 times right after one was closed, for 2 requests each. Handshakes took 100 us each: 32 % of the time that it waited.");
    }

    #[test]
    fn one_connection_and_a_few_are_silent() {
        assert_eq!(sequence(1, 400, SHORT).found(), "");
        assert_eq!(sequence(20, 400, SHORT).found(), "");
    }

    #[test]
    fn a_pool_that_is_opened_once_is_silent() {
        assert_eq!(sequence(50, 5, SHORT).found(), "");
    }

    #[test]
    fn connections_that_stay_open_are_silent() {
        assert_eq!(
            sequence(50, 400, &SHORT.replace("320us state-change", "320us wakeup")).found(),
            ""
        );
    }

    #[test]
    fn a_poller_that_asks_each_second_is_silent() {
        assert_eq!(sequence(50, 1_000_000, SHORT).found(), "");
    }

    #[test]
    fn a_process_for_each_connection_cannot_keep_one() {
        let mut trace = Trace::default();
        (0..50).for_each(|i| {
            trace.open(&format!("{}us", i * 400), SHORT, 7 + i);
        });
        assert_eq!(trace.found(), "");
    }

    #[test]
    fn where_the_server_has_nearly_all_of_the_time_handshakes_are_not_felt() {
        let slow =
            SHORT.replace("250us", "2000us").replace("300us", "2050us").replace("320us", "2100us");
        assert_eq!(sequence(50, 2_200, &slow).found(), "");
    }

    #[test]
    fn where_other_traffic_has_the_time_of_the_trace_it_is_silent() {
        let mut trace = sequence(30, 400, SHORT);
        assert_eq!(trace.open("0us", "0us 1-7 +100 | 1s 8 +100", 8).findings().len(), 0);
    }

    #[test]
    fn connections_with_many_requests_are_no_short_ones() {
        let call = |at: u64| format!("{at}us 1-8 +50 | {}us <1-8 +200", at + 10);
        let calls: Vec<_> = (0..11).map(|i| call(110 + i * 15)).collect();
        let many = format!(
            "0us 3-6 syn | 50us <3-6 syn ack=0 | 100us state-change code=1 extra=2 | {} | 320us state-change code=4 extra=1",
            calls.join(" | ")
        );
        assert_eq!(sequence(50, 400, &many).found(), "");
    }

    #[test]
    fn a_request_that_the_syn_carries_does_not_wait_for_the_handshake() {
        let early = SHORT.replace("110us 1-8", "10us 1-8");
        assert_eq!(sequence(50, 400, &early).found(), "");
    }

    #[test]
    fn a_syn_that_is_sent_again_is_another_findings_time() {
        let again = "0us 3 syn | 150ms 3-6 syn | 150050us <3-6 syn ack=0 | 150100us state-change code=1 extra=2
            150110us 1-8 +50 | 150300us <1-8 +200 | 150320us state-change code=4 extra=1";
        let found = sequence(50, 151_000, again).findings();
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn connections_that_missed_records_may_have_touched_do_not_count() {
        let touched = format!("{SHORT} | 320us loss from=105us detail=1 code=8");
        assert_eq!(sequence(50, 400, &touched).findings().len(), 0);
    }
}
