//! `late-wakeup`, `slow-reader`, `slow-accept` and `congestion-limited` by their cost to callers, over all connections
//! of a process.
//!
//! One finding for a cause, a process and its side: the server's for requests that wait at it, the client's for
//! responses. The measure is the callers' wait, which is the sum of the requests of that process. One long absence
//! counts as much as many short ones.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use sockscope_record::{Connection, ConnectionId, ProcessKey, Side};

use super::caller_delay::{Delay, Delays};
use super::head_of_line::HeadOfLine;
use super::intervals::{Interval, Intervals};
use super::phrasing::{self, Notes};
use super::{congestion_limited, late_wakeup, slow_accept, slow_reader};
use crate::ranges::{Range, intersection, total, union};
use crate::{Analysis, ConnectionAnalysis, Finding, FindingId, Request, RequestId, SeenEnds};

/// Callers waited at least so long for the cause, overlapping times counted once: a user notices that.
const COST_NS_MIN: u64 = Request::LONG_NS;

/// A long request that waited half of its time for the cause is sufficient by itself.
const LONG_DIVISOR: u64 = 2;

/// A CPU that is short makes both ways late, each by half of the limit of the rule.
const WAY_DIVISOR: u64 = 2;

/// The process that has to change, or its host where no process was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Party {
    Process(ProcessKey),
    Host(IpAddr),
    /// A process that accepts connections; another process uses some of them.
    Acceptor(ProcessKey),
}

/// A cause, and the party that has to change.
type Key = (FindingId, Side, Party);

impl Party {
    fn of(connection: &Connection, side: Side) -> Self {
        let process = connection.processes.iter().find(|process| process.side == side);
        process.map_or_else(|| Self::Host(host(connection, side)), |one| Self::Process(one.key()))
    }

    /// The party that has to change for a delay of the connection.
    fn of_delay(connection: &Connection, delay: &Delay) -> Self {
        match Self::of(connection, delay.side()) {
            Self::Process(key) if [0, key.1].contains(&delay.process) => Self::Process(key),
            other if delay.process == 0 => other,
            Self::Process((host, _)) => Self::Acceptor((host, delay.process)),
            _ => Self::Acceptor((0, delay.process)),
        }
    }
}

fn host(connection: &Connection, side: Side) -> IpAddr {
    match side {
        Side::Client => connection.client.ip(),
        Side::Server => connection.server.ip(),
    }
}

/// A delay with its request.
#[derive(Debug, Clone, Copy)]
struct Waited {
    delay: Delay,
    id: RequestId,
}

/// The findings, with the connection of each, and the findings of one connection that are part of them.
#[derive(Debug, Default)]
pub(super) struct CallersWaits {
    pub findings: Vec<Finding>,
    /// Of each.
    groups: BTreeSet<Key>,
    /// When data of a connection lay unread and its reader served others, in order and disjoint.
    served_others: BTreeMap<ConnectionId, Vec<Range>>,
}

impl CallersWaits {
    /// Whether a finding of a connection is part of one of these.
    pub(super) fn contains(&self, connection: &ConnectionAnalysis, finding: &Finding) -> bool {
        let group = (finding.id, finding.side, Party::of(&connection.connection, finding.side));
        !connection.requests.list.is_empty() && self.groups.contains(&group)
    }

    /// Whether a reader served others in most of these times, in which data of a connection lay unread.
    pub(super) fn explains(&self, id: ConnectionId, times: &[Range]) -> bool {
        let served = self.served_others.get(&id).map_or(&[][..], Vec::as_slice);
        !served.is_empty() && total(&intersection(times, served)).saturating_mul(2) >= total(times)
    }
}

/// `line`: requests that lie unread behind others have their own finding.
pub(super) fn find(analysis: &Analysis, delays: &Delays, line: &HeadOfLine) -> CallersWaits {
    let mut groups: BTreeMap<Key, Vec<Waited>> = BTreeMap::new();
    let mut both_ways: BTreeMap<Key, u64> = BTreeMap::new();
    let explained = Explained::of(analysis, delays, line);
    let mut found = CallersWaits::default();
    for (id, delays) in &delays.0 {
        let Some(one) = analysis.connection(*id) else { continue };
        for delay in delays {
            let side = delay.side();
            let party = Party::of_delay(&one.connection, delay);
            let other = side.other();
            let parties = [(side, party), (other, Party::of(&one.connection, other))];
            if explained.has(delay, party, &one.connection) {
                if delay.id == FindingId::SlowReader {
                    let Interval { start_ns, end_ns } = delay.interval;
                    found.served_others.entry(*id).or_default().push((start_ns, end_ns));
                }
                continue;
            }
            let id = RequestId { connection: *id, index: delay.index };
            let waited = Waited { delay: *delay, id };
            groups.entry((delay.id, side, party)).or_default().push(waited);
            for (side, party) in parties {
                let sum = both_ways.entry((delay.id, side, party)).or_default();
                *sum = sum.saturating_add(delay.interval.duration_ns());
            }
        }
    }
    for times in found.served_others.values_mut() {
        *times = union(times, &[]);
    }
    let mut all_ns = None;
    for (key, waited) in groups {
        let (id, side, party) = key;
        let both_ways_ns = both_ways.get(&key).copied().unwrap_or(0);
        let sums = all_ns.get_or_insert_with(|| waits(analysis));
        let all_ns = match party {
            Party::Acceptor(_) => waits_at(analysis, &waited),
            _ => sums.get(&(side, party)).copied().unwrap_or(0),
        };
        let group = Group { analysis, line, id, side, party, waited, both_ways_ns, all_ns };
        if let Some(finding) = group.finding() {
            found.findings.push(finding);
            found.groups.insert(key);
        }
    }
    found
}

/// The time that callers waited for all requests of each process, by its side.
fn waits(analysis: &Analysis) -> BTreeMap<(Side, Party), u64> {
    let mut waits: BTreeMap<(Side, Party), u64> = BTreeMap::new();
    for one in analysis.connections.iter().filter(|one| !one.requests.list.is_empty()) {
        let totals = one.requests.list.iter().filter_map(Request::total_ns);
        let total_ns = totals.fold(0, u64::saturating_add);
        for side in [Side::Client, Side::Server] {
            let sum = waits.entry((side, Party::of(&one.connection, side))).or_default();
            *sum = sum.saturating_add(total_ns);
        }
    }
    waits
}

/// The same at the servers of these delays.
fn waits_at(analysis: &Analysis, waited: &[Waited]) -> u64 {
    let connections = waited.iter().filter_map(|one| analysis.connection(one.id.connection));
    let servers: BTreeSet<SocketAddr> = connections.map(|one| one.connection.server).collect();
    let at_servers =
        analysis.connections.iter().filter(|one| servers.contains(&one.connection.server));
    let requests = at_servers.flat_map(|one| &one.requests.list);
    requests.filter_map(Request::total_ns).fold(0, u64::saturating_add)
}

/// Times for which another finding or another request has the reason.
struct Explained<'a> {
    line: &'a HeadOfLine,
    /// When threads that read late served other requests, by their process.
    served: BTreeMap<(ProcessKey, u32), Intervals>,
    /// The same with the short pauses between two requests.
    busy: BTreeMap<(ProcessKey, u32), Intervals>,
    /// When servers left connections in a full accept queue.
    full: BTreeMap<SocketAddr, Intervals>,
}

impl<'a> Explained<'a> {
    fn of(analysis: &Analysis, delays: &Delays, line: &'a HeadOfLine) -> Self {
        let of_reader = |delay: &&Delay| delay.thread != 0;
        let all = delays.0.iter().flat_map(|(_, delays)| delays).filter(of_reader);
        let threads: BTreeSet<u32> = all.map(|delay| delay.thread).collect();
        let mut served: BTreeMap<(ProcessKey, u32), Vec<Interval>> = BTreeMap::new();
        let mut full: BTreeMap<SocketAddr, Vec<Interval>> = BTreeMap::new();
        for one in &analysis.connections {
            let queue = one.findings.iter().filter(|it| it.id == FindingId::AcceptQueueFull);
            for &(start_ns, end_ns) in queue.flat_map(|finding| &finding.times) {
                let times = full.entry(one.connection.server).or_default();
                times.push(Interval::new(start_ns, end_ns));
            }
            let Some(asker) = one.requests.asked_by.filter(|_| !threads.is_empty()) else {
                continue;
            };
            let Party::Process(process) = Party::of(&one.connection, asker.other()) else {
                continue;
            };
            for request in &one.requests.list {
                let thread = request.reader_thread;
                let is_its_own = [0, thread].contains(&request.answerer_thread);
                if threads.contains(&thread) && is_its_own && request.seen != SeenEnds::Asker {
                    let [heard_ns, answered_ns] = request.limits();
                    let service = Interval::new(heard_ns, answered_ns);
                    served.entry((process, thread)).or_default().push(service);
                }
            }
        }
        let served = unions(served);
        let busy = served.iter().map(|(thread, times)| {
            let closed = times.with_gaps_below(slow_reader::AWAY_NS_MIN);
            (*thread, closed)
        });
        Self { line, busy: busy.collect(), served, full: unions(full) }
    }

    /// Whether most of a delay is no lack of a CPU and no absence.
    fn has(&self, delay: &Delay, party: Party, connection: &Connection) -> bool {
        if delay.id == FindingId::CongestionLimited {
            return false;
        }
        let Interval { start_ns, end_ns } = delay.interval;
        let is_most = |times: Option<&Intervals>| {
            let ns = times.map_or(0, |times| times.overlap_ns(delay.interval));
            ns.saturating_mul(2) >= delay.interval.duration_ns()
        };
        // A thread that wants a CPU has that wait between two requests.
        let is_reader = delay.id == FindingId::SlowReader;
        let served = if is_reader { &self.busy } else { &self.served };
        let served = match party {
            Party::Process(process) => served.get(&(process, delay.thread)),
            Party::Host(_) | Party::Acceptor(_) => None,
        };
        let is_absence = is_reader || delay.id == FindingId::SlowAccept;
        is_most(served)
            || self.line.explains(connection.id, &[(start_ns, end_ns)])
            || (is_absence && is_most(self.full.get(&connection.server)))
    }
}

fn unions<K: Ord>(times: BTreeMap<K, Vec<Interval>>) -> BTreeMap<K, Intervals> {
    times.into_iter().map(|(key, times)| (key, Intervals::union_of(times))).collect()
}

/// The cost of one cause for the callers of one process.
struct Group<'a> {
    analysis: &'a Analysis,
    line: &'a HeadOfLine,
    id: FindingId,
    side: Side,
    party: Party,
    waited: Vec<Waited>,
    /// The same cause on these connections, the other side's part included.
    both_ways_ns: u64,
    /// The whole wait of these callers.
    all_ns: u64,
}

/// A request that waited for the cause.
#[derive(Debug, Clone, Copy)]
struct Worst {
    id: RequestId,
    waited_ns: u64,
    total_ns: u64,
}

impl Group<'_> {
    fn finding(&self) -> Option<Finding> {
        let requests = self.requests();
        let worst = requests.iter().max_by_key(|one| (one.waited_ns, Reverse(one.id)))?;
        let waited_ns = requests.iter().map(|one| one.waited_ns).fold(0, u64::saturating_add);
        debug_assert!(waited_ns <= self.all_ns, "the cause's part is more than all waits");
        let connections: BTreeSet<ConnectionId> =
            requests.iter().map(|one| one.id.connection).collect();
        let own = self.own_findings();
        // On a single connection the finding of its flow is the same.
        let only = connections.iter().next().filter(|_| connections.len() == 1);
        if only.is_some_and(|only| own.iter().any(|(id, _)| id == only)) {
            return None;
        }
        let waits = self.waited.iter().map(|one| one.delay.interval);
        let parts = own.iter().flat_map(|(_, finding)| &finding.times);
        let parts = parts.map(|&(start_ns, end_ns)| Interval::new(start_ns, end_ns));
        let cost = Intervals::union_of(waits.clone().chain(parts));
        let is_felt = Intervals::union_of(waits).total_ns() >= COST_NS_MIN;
        let is_share = is_felt && self.is_share(waited_ns);
        if !is_share && !requests.iter().any(|one| self.is_long(one)) {
            return None;
        }
        let connection = self.analysis.connection(worst.id.connection)?;
        // A caller that is away once or twice chose to.
        let is_caller = connection.requests.asked_by == Some(self.side);
        let is_absence = self.id == FindingId::SlowReader;
        if is_caller && is_absence && (requests.len() as u64) < slow_reader::COUNT_MIN {
            return None;
        }
        let worst_delay = self.waited.iter().filter(|one| one.id == worst.id);
        let direction = worst_delay.map(|one| one.delay.direction).next()?;
        let who = match self.party {
            Party::Acceptor((_, pid)) => format!("{} (pid {pid}, which accepts)", self.side.name()),
            _ => phrasing::who(&connection.connection, self.side),
        };
        let of = phrasing::counted(requests.len() as u64, "request");
        let on = match connections.len() {
            1 => format!("connection {}", worst.id.connection.0),
            more => phrasing::counted(more as u64, "connection"),
        };
        let what = match self.id {
            FindingId::LateWakeup => format!("The {who} was ready to read but had no CPU"),
            FindingId::SlowReader => {
                format!("The {who} left data unread while it did something else")
            }
            FindingId::SlowAccept => format!("The {who} was late to accept connections"),
            _ => format!("The congestion window held data of the {who}"),
        };
        let summary = format!(
            "{what}: {} of the {} that callers waited ({}), for {of} on {on}. The worst waited {} of its {} for it, \
             on connection {}.",
            phrasing::time(waited_ns),
            phrasing::time(self.all_ns),
            phrasing::percent(waited_ns, self.all_ns),
            phrasing::time(worst.waited_ns),
            phrasing::time(worst.total_ns),
            worst.id.connection.0,
        );
        Some(Finding {
            id: self.id,
            flow: connection.connection.id.flow(direction),
            side: self.side,
            count: requests.len() as u64,
            connections: connections.len() as u64,
            cost_ns: cost.total_ns(),
            times: cost.iter().map(|one| (one.start_ns, one.end_ns)).collect(),
            summary,
            evidence: self.notes().into_evidence(),
            fix: self.fix(&who, &connection.connection, &connections),
        })
    }

    /// The requests that waited for the cause, each with all that it waited.
    fn requests(&self) -> Vec<Worst> {
        let mut sums: BTreeMap<RequestId, u64> = BTreeMap::new();
        for one in &self.waited {
            *sums.entry(one.id).or_default() += one.delay.interval.duration_ns();
        }
        let requests = sums.into_iter().filter_map(|(id, waited_ns)| {
            let total_ns = self.analysis.request(id)?.total_ns()?;
            debug_assert!(waited_ns <= total_ns, "parts of a request are longer than it");
            Some(Worst { id, waited_ns, total_ns })
        });
        requests.collect()
    }

    /// The findings of single connections that are part of this one.
    fn own_findings(&self) -> Vec<(ConnectionId, &Finding)> {
        let is_own = |one: &&ConnectionAnalysis| {
            !one.requests.list.is_empty() && Party::of(&one.connection, self.side) == self.party
        };
        let connections = self.analysis.connections.iter().filter(is_own);
        let own = connections.flat_map(|one| {
            let id = one.connection.id;
            let is_part = move |finding: &&Finding| {
                let is_same = finding.id == self.id && finding.side == self.side;
                let is_absence = self.id == FindingId::SlowReader;
                is_same && !(is_absence && self.line.explains(id, &finding.times))
            };
            one.findings.iter().filter(is_part).map(|finding| (one.connection.id, finding))
        });
        own.collect()
    }

    /// Whether it is the share of the callers' waits that the rule asks for.
    fn is_share(&self, waited_ns: u64) -> bool {
        let is = |ns, percent| is_share(ns, self.all_ns, percent);
        match self.id {
            FindingId::LateWakeup => {
                let percent = late_wakeup::SHARE_PERCENT_MIN;
                is(self.both_ways_ns, percent) && is(waited_ns, percent / WAY_DIVISOR)
            }
            FindingId::SlowReader => is(waited_ns, slow_reader::SHARE_PERCENT_MIN),
            FindingId::SlowAccept => is(waited_ns, slow_accept::SHARE_PERCENT_MIN),
            _ => is(waited_ns, congestion_limited::SHARE_PERCENT_MIN),
        }
    }

    /// Whether a user noticed this request, and the cause has most of it.
    fn is_long(&self, one: &Worst) -> bool {
        one.total_ns >= Request::LONG_NS
            && one.waited_ns.saturating_mul(LONG_DIVISOR) >= one.total_ns
    }

    fn notes(&self) -> Notes {
        let mut longest: Vec<&Waited> = self.waited.iter().collect();
        longest.sort_unstable_by_key(|one| (Reverse(one.delay.interval.duration_ns()), one.id));
        let mut notes = Notes::default();
        for one in longest.into_iter().take(Finding::EVIDENCE_MAX / 2) {
            let Delay { interval, direction, thread, .. } = one.delay;
            let id = one.id.connection.0;
            let sender = direction.sender().name();
            notes.add(interval.start_ns, || match self.id {
                FindingId::CongestionLimited => {
                    format!(
                        "data of the {sender} waits for the congestion window on connection {id}"
                    )
                }
                FindingId::SlowAccept => {
                    format!("the caller waits on connection {id}, which is open and not accepted")
                }
                _ => format!("data of the {sender} waits to be read on connection {id}"),
            });
            notes.add(interval.end_ns, || {
                let waited = phrasing::time(interval.duration_ns());
                match self.id {
                    FindingId::LateWakeup => {
                        format!("thread {thread} was runnable without a CPU for {waited}")
                    }
                    FindingId::SlowReader => {
                        format!("thread {thread} did something else for {waited}")
                    }
                    FindingId::SlowAccept => {
                        format!("thread {thread} has accepted it: the caller waited {waited}")
                    }
                    _ => format!("the window held it for {waited}"),
                }
            });
        }
        notes
    }

    fn fix(&self, who: &str, worst: &Connection, connections: &BTreeSet<ConnectionId>) -> String {
        let is_sent_again = |id: &ConnectionId| {
            let one = self.analysis.connection(*id);
            one.is_some_and(|one| one.flows.iter().any(|flow| flow.retransmitted_bytes > 0))
        };
        match self.id {
            FindingId::LateWakeup => late_wakeup::fix(who),
            FindingId::SlowReader => slow_reader::fix(who),
            FindingId::SlowAccept => {
                let process = worst.processes.iter().find(|process| process.side == self.side);
                slow_accept::fix(who, process.map(|process| process.comm.as_str()))
            }
            _ => congestion_limited::fix(who, connections.iter().any(is_sent_again)),
        }
    }
}

fn is_share(part_ns: u64, whole_ns: u64, percent: u64) -> bool {
    part_ns > 0 && u128::from(part_ns) * 100 >= u128::from(whole_ns) * u128::from(percent)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::findings::testing::found_across;

    /// Two calls on a connection of their own, from this time on in milliseconds. The second request waits
    /// `waited_us` for its reader, `runq_us` of them runnable without a CPU.
    fn call(at_ms: u64, waited_us: u64, runq_us: u64) -> String {
        let at = at_ms * 1_000;
        let [asked, arrived] = [at + 20, at + 50];
        let heard = arrived + waited_us;
        let [answered, ended] = [heard + 400, heard + 500];
        let mark = if runq_us > 0 { "waited" } else { "" };
        format!(
            "{at}us 1-8 +50 thread=8 | {at}us <1-8 +90 thread=6 |
             {asked}us 1-6 +50 thread=6 | {arrived}us 7 +50 {mark} thread=8 |
             {heard}us 8 +50 thread=8 runq={runq_us}us |
             {answered}us <1-7 +90 thread=8 | {ended}us <8 +90 thread=6"
        )
    }

    fn calls(count: u64, one: impl Fn(u64) -> String) -> Vec<(&'static str, String)> {
        (0..count).map(|n| ("6 > 8", one(n))).collect()
    }

    #[test]
    fn short_connections_add_up_to_a_late_wake_up() {
        let said = found_across(&calls(50, |n| call(n * 20, 4_000, 4_000)));
        assert_snapshot!(said, @"1 late-wakeup @server 50x 200 ms: The server (p8, pid 8) was ready to read but had no CPU: 200 ms of the 226 ms that callers waited (88 %), for 50 requests on 50 connections. The worst waited 4.00 ms of its 4.53 ms for it, on connection 1.");
    }

    #[test]
    fn short_absences_of_many_connections_are_one_slow_reader() {
        let said = found_across(&calls(50, |n| call(n * 40, 15_000, 0)));
        assert_snapshot!(said, @"1 slow-reader @server 50x 750 ms: The server (p8, pid 8) left data unread while it did something else: 750 ms of the 776 ms that callers waited (97 %), for 50 requests on 50 connections. The worst waited 15.0 ms of its 15.5 ms for it, on connection 1.");
    }

    #[test]
    fn one_long_absence_counts_as_much() {
        let one = |n| call(n * 40, if n == 30 { 900_000 } else { 10 }, 0);
        let said = found_across(&calls(50, one));
        assert_snapshot!(said, @"31 slow-reader @server 1x 900 ms: The server (p8, pid 8) left data unread while it did something else: 900 ms of the 927 ms that callers waited (97 %), for 1 request on connection 31. The worst waited 900 ms of its 901 ms for it, on connection 31.");
    }

    #[test]
    fn responses_that_wait_for_the_caller_are_the_callers() {
        let one = |n: u64| {
            let at = n * 40_000;
            format!(
                "{at}us 1-8 +50 thread=8 | {at}us <1-8 +90 thread=6 |
                 {at}us 1-8 +50 thread=8 | {}us <1-7 +90 | {}us <8 +90 thread=6",
                at + 100,
                at + 20_100
            )
        };
        assert_snapshot!(found_across(&calls(50, one)), @"1 slow-reader @client 50x 1.00 s: The client (p6, pid 6) left data unread while it did something else: 1.00 s of the 1.00 s that callers waited (100 %), for 50 requests on 50 connections. The worst waited 20.0 ms of its 20.1 ms for it, on connection 1.");
        assert_snapshot!(found_across(&calls(2, one)), @"");
    }

    #[test]
    fn a_caller_that_is_away_once_chose_to() {
        let text = "0ms 1-8 +50 | 1ms <1-7 +90 | 900ms <8 +90 thread=6";
        assert_snapshot!(found_across(&[("6 > 8", text)]), @"");
    }

    #[test]
    fn a_thread_that_serves_another_request_is_not_away() {
        // Each one takes 20 ms, and the next one lies unread for 15 of them.
        let one = |n: u64| {
            let heard = n * 20_000 + 15_000;
            format!(
                "{}us 1-7 +50 | {heard}us 8 +50 thread=8 | {}us <1-8 +90 thread=8",
                heard - 15_000,
                heard + 19_900
            )
        };
        assert_snapshot!(found_across(&calls(50, one)), @"");
    }

    #[test]
    fn a_thread_that_was_woken_for_many_is_late_for_the_first_alone() {
        // It is woken for all at once, serves the first one for 400 ms asleep, and then the others.
        let one = |n: u64| {
            let heard = if n == 0 { 1_000 } else { 401_000 + n * 1_000 };
            let [answered, ran] = [if n == 0 { 401_000 } else { heard + 100 }, heard - 10];
            format!(
                "0us 1-6 +50 | 10us 7 +50 waited thread=8 | {heard}us 8 +50 thread=8 ran={ran}us |
                 {answered}us <1-7 +90 thread=8 | {}us <8 +90 thread=6",
                answered + 10
            )
        };
        let said = found_across(&calls(20, one));
        assert!(said.contains("head-of-line") && !said.contains("late-wakeup"), "{said}");
        // Two are no line, but the one still waits for the other.
        let said = found_across(&calls(2, one));
        assert!(said.contains("slow-service") && !said.contains("late-wakeup"), "{said}");
    }

    #[test]
    fn ordinary_wake_ups_are_silent_on_however_many_connections() {
        assert_snapshot!(found_across(&calls(400, |n| call(n, 900, 900))), @"");
    }

    #[test]
    fn waits_that_are_a_small_part_of_what_callers_waited_are_silent() {
        let one = |n: u64| if n < 50 { call(n * 20, 4_000, 4_000) } else { slow(n) };
        let said = found_across(&calls(90, one));
        assert!(!said.contains("late-wakeup"), "{said}");
    }

    /// A request that is served for 80 ms.
    fn slow(n: u64) -> String {
        let at = n * 20;
        format!("{at}ms 1-8 +50 thread=8 | {}ms <1-8 +90 thread=8", at + 80)
    }

    #[test]
    fn both_ways_together_are_the_share_of_a_late_wake_up() {
        // Of each 30 ms both wait 4 for a CPU, which are 13 %, or the server alone.
        let one = |n: u64, is_both: bool| {
            let at = n * 40_000;
            let [arrived, heard, answered] = [100, 4_100, 26_000].map(|us| at + us);
            let (ended, runq) = if is_both { (at + 30_000, 4_000) } else { (at + 26_001, 1) };
            format!(
                "{at}us 1-6 +50 | {arrived}us 7 +50 waited thread=8 | {heard}us 8 +50 thread=8 runq=4ms |
                 {answered}us <1-7 +90 waited thread=6 | {ended}us <8 +90 thread=6 runq={runq}us"
            )
        };
        assert_snapshot!(found_across(&calls(50, |n| one(n, true))), @"
        1 late-wakeup @server 50x 200 ms: The server (p8, pid 8) was ready to read but had no CPU: 200 ms of the 1.50 s that callers waited (13 %), for 50 requests on 50 connections. The worst waited 4.00 ms of its 30.0 ms for it, on connection 1.
        1 late-wakeup @client 50x 200 ms: The client (p6, pid 6) was ready to read but had no CPU: 200 ms of the 1.50 s that callers waited (13 %), for 50 requests on 50 connections. The worst waited 4.00 ms of its 30.0 ms for it, on connection 1.
        ");
        assert_snapshot!(found_across(&calls(50, |n| one(n, false))), @"");
    }

    #[test]
    fn first_reads_are_late_where_the_connection_was_accepted_late() {
        let one = |n: u64, waited_ms: u64| {
            let at = n * 40;
            let [heard, ended] = [at + waited_ms, at + waited_ms + 1];
            format!("{at}ms 1-7 +50 | {heard}ms 8 +50 thread=8 | {ended}ms <1-8 +90 thread=8")
        };
        assert_snapshot!(found_across(&calls(50, |n| one(n, 20))), @"");
        assert_snapshot!(found_across(&calls(50, |n| one(n, if n == 3 { 500 } else { 0 }))), @"4 slow-reader @server 1x 500 ms: The server (p8, pid 8) left data unread while it did something else: 500 ms of the 550 ms that callers waited (91 %), for 1 request on connection 4. The worst waited 500 ms of its 501 ms for it, on connection 4.");
    }

    #[test]
    fn waits_that_no_user_notices_are_silent() {
        assert_snapshot!(found_across(&calls(20, |n| call(n * 20, 4_000, 4_000))), @"");
    }

    /// On a connection of its own, a response of 2,000 bytes that the congestion window divides, over a path of 20 ms.
    fn windowed(at: u64, rtt_us: u64) -> String {
        let [mid, heard, later, end] = [10, 10, 30, 40].map(|ms| at + ms);
        format!(
            "{at}ms <tcp-state len=1 detail=1 extra={rtt_us} | {at}ms 1-4 +50 | {mid}ms 5-8 +50 |
             {heard}ms <1 +2000 | {heard}ms <2-4 +1000 cwnd | {}ms <5-8 +1000 | {later}ms <2-4 +1000 | {end}ms <5-8 +1000",
            at + 20
        )
    }

    #[test]
    fn windows_of_many_short_transfers_are_one_limit() {
        assert_snapshot!(found_across(&calls(20, |n| windowed(n * 50, 20_000))), @"1 congestion-limited @server 20x 400 ms: The congestion window held data of the server (p8, pid 8): 400 ms of the 800 ms that callers waited (50 %), for 20 requests on 20 connections. The worst waited 20.0 ms of its 40.0 ms for it, on connection 1.");
        assert_snapshot!(found_across(&calls(20, |n| windowed(n * 50, 60))), @"");
    }

    #[test]
    fn findings_of_single_connections_are_part_of_it() {
        let many = |start: u64| {
            let calls = (0..20).map(|n| call(start + n * 20, 4_000, 4_000));
            calls.collect::<Vec<_>>().join(" | ")
        };
        let both = [("6 > 8", many(0)), ("6 > 8", many(10))];
        assert_snapshot!(found_across(&both), @"1 late-wakeup @server 40x 160 ms: The server (p8, pid 8) was ready to read but had no CPU: 160 ms of the 181 ms that callers waited (88 %), for 40 requests on 2 connections. The worst waited 4.00 ms of its 4.53 ms for it, on connection 1.");
        let alone = [("6 > 8", many(0)), ("7 > 9", many(10))];
        assert_snapshot!(found_across(&alone), @"
        1 late-wakeup @server 20x 80.0 ms: The server (p8, pid 8) was ready to read 20 times but had no CPU for 4.00 ms on average (99 % of 80.6 ms with bytes under way).
        2 late-wakeup @server 20x 80.0 ms: The server (p9, pid 9) was ready to read 20 times but had no CPU for 4.00 ms on average (99 % of 80.6 ms with bytes under way).
        ");
    }

    #[test]
    fn what_it_proves_is_the_longest_waits() {
        let analysis = crate::testing::analyze_all(&calls(50, |n| {
            call(n * 20, 4_000 + n * 10, 4_000 + n * 10)
        }));
        let all = analysis.connections.iter().flat_map(|one| &one.findings);
        let evidence = all.flat_map(|one| &one.evidence).map(|one| one.text.clone());
        assert_snapshot!(evidence.collect::<Vec<_>>().join("\n"), @"
        data of the client waits to be read on connection 47
        thread 8 was runnable without a CPU for 4.46 ms
        data of the client waits to be read on connection 48
        thread 8 was runnable without a CPU for 4.47 ms
        data of the client waits to be read on connection 49
        thread 8 was runnable without a CPU for 4.48 ms
        data of the client waits to be read on connection 50
        thread 8 was runnable without a CPU for 4.49 ms
        ");
    }
}
