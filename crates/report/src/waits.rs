//! The waits of callers, all connections together, and the shares of that time.
//!
//! The requests of all connections count, answered or not. Of each the answerer has its service, and the time in which
//! the request lay unread while its reader did something else. The caller has its own pauses within a request, and
//! the time in which the response lay unread. The rest is network and kernel, by place of the ledger. These parts add
//! up to the sum of all waits. Where a program waits for requests of its own, the time is that of these requests, and
//! counts there alone. The time in which any caller waited is the union of all waits.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use sockscope_analysis::{
    ConnectionAnalysis, Distribution, ExchangeSummary, LedgerPart, NestedTime, Nesting, Request,
    RequestEnd, RequestId, SeenEnds,
};
use sockscope_record::{Process, Protocol, Side};
use sockscope_render::number::{apportion, percent, rounded};

use crate::Report;
use crate::order::{is_all_unix, place_name};

/// Answering programs that are named at most.
const ANSWERERS_MAX: usize = 3;

/// Parts of the sum of all waits, in nanoseconds. They add up to it.
pub(crate) struct WaitParts {
    pub(crate) answerers_ns: u64,
    /// Network and kernel.
    pub(crate) way_ns: u64,
    pub(crate) callers_ns: u64,
    /// Of connections that did not open.
    pub(crate) opening_ns: u64,
    /// One end was not seen.
    pub(crate) unknown_ns: u64,
}

/// All requests of a report.
pub(crate) struct Waits<'a> {
    /// Time in which at least one caller waited.
    pub(crate) union_ns: u64,
    /// The sum over all requests.
    pub(crate) sum_ns: u64,
    /// The longest one.
    pub(crate) longest: Option<(&'a ConnectionAnalysis, &'a Request)>,
    median_ns: u64,
    duration_ns: u64,
    /// Parts of `sum_ns`; the rest is unknown, without a record of one end.
    answerer_ns: u64,
    caller_ns: u64,
    /// Of connections that did not open.
    opening_ns: u64,
    /// Network and kernel: all, and by place as far as that is known.
    way_ns: u64,
    places: [u64; LedgerPart::ALL.len()],
    /// By the name of the program; without one where no process was seen.
    answerers: BTreeMap<Option<&'a str>, Answerer<'a>>,
    /// Servers wait for other servers.
    is_chain: bool,
    is_all_unix: bool,
}

/// The answering processes of one name.
struct Answerer<'a> {
    ns: u64,
    name: Option<&'a str>,
    /// The process of the connection on which it has most, and its time there; `None` where none accepted it.
    process: Option<&'a Process>,
    most_ns: u64,
    side: Side,
    has_several_processes: bool,
}

impl Answerer<'_> {
    /// As the short line has it.
    fn name(&self, of: Others) -> String {
        match (of, self.name) {
            (Others::None, None) => "the server".to_owned(),
            (Others::Apart, None) => "a server of unknown name".to_owned(),
            (Others::Included, None) => "servers".to_owned(),
            (Others::Included, Some(name)) => format!("servers ({name})"),
            (_, Some(name)) => name.to_owned(),
        }
    }

    /// As the sentence has it.
    fn words(&self, of: Others) -> String {
        let side = self.side.name();
        let pid = self.process.filter(|_| !self.has_several_processes).map(|process| process.pid);
        match (of, self.name, pid) {
            (Others::None, None, _) => format!("to the {side}"),
            (Others::Apart, None, _) => format!("to a {side} of unknown name"),
            (Others::Included, None, _) => "to the servers".to_owned(),
            (Others::Included, Some(name), Some(pid)) => {
                format!("to the servers, most of it to {name} (pid {pid})")
            }
            (Others::Included, Some(name), None) => {
                format!("to the servers, most of it to {name}")
            }
            (_, Some(name), Some(pid)) => format!("to the {side} ({name}, pid {pid})"),
            (_, Some(name), None) => format!("to the {side} ({name})"),
        }
    }
}

/// The answerers next to the one that is named.
#[derive(Clone, Copy)]
enum Others {
    /// There are no others.
    None,
    /// They have names and shares of their own.
    Apart,
    /// Their time is in the same share, which is mostly that of the one that is named.
    Included,
}

impl<'a> Waits<'a> {
    /// A call to a fast server on a fast network.
    const USUAL_NS_MAX: u64 = 1_000_000;

    pub(crate) fn of(report: &Report<'a>) -> Self {
        let mut waits = Self {
            union_ns: 0,
            sum_ns: 0,
            longest: None,
            median_ns: 0,
            duration_ns: report.analysis.duration_ns,
            answerer_ns: 0,
            caller_ns: 0,
            opening_ns: 0,
            way_ns: 0,
            places: [0; LedgerPart::ALL.len()],
            answerers: BTreeMap::new(),
            is_chain: !report.analysis.nesting.is_empty(),
            is_all_unix: is_all_unix(report),
        };
        let listeners = listeners(report);
        let mut times: Vec<(u64, u64)> = Vec::new();
        for connection in report.connections() {
            waits.add(connection, (&report.analysis.nesting, &listeners), &mut times);
        }
        times.sort_unstable();
        let mut done_ns = 0;
        for &(asked_ns, ended_ns) in &times {
            waits.union_ns += ended_ns.saturating_sub(asked_ns.max(done_ns));
            done_ns = done_ns.max(ended_ns);
        }
        let mut totals: Vec<u64> =
            times.iter().map(|(from_ns, until_ns)| until_ns - from_ns).collect();
        if !totals.is_empty() {
            let middle = totals.len() / 2;
            waits.median_ns = *totals.select_nth_unstable(middle).1;
        }
        waits
    }

    fn add(
        &mut self,
        connection: &'a ConnectionAnalysis,
        (nesting, listeners): (&'a Nesting, &Listeners<'a>),
        times: &mut Vec<(u64, u64)>,
    ) {
        let (mut service_ns, mut way_ns) = (0u64, 0u64);
        for (request, time) in nested_times(connection, nesting) {
            let Some(total_ns) = request.total_ns() else { continue };
            times.push((request.asked_ns, request.ended_ns));
            self.sum_ns = self.sum_ns.saturating_add(time.own_ns(total_ns));
            if self.longest.is_none_or(|(_, longest)| longest.total_ns() < Some(total_ns)) {
                self.longest = Some((connection, request));
            }
            if is_attempt(request) {
                self.opening_ns = self.opening_ns.saturating_add(total_ns);
            } else if is_unaccepted(connection, request) {
                service_ns = service_ns.saturating_add(total_ns);
            } else if let Some(parts) = request.parts() {
                service_ns = service_ns.saturating_add(time.own_ns(parts.service_ns));
                way_ns = way_ns.saturating_add(parts.request_ns).saturating_add(parts.response_ns);
            }
        }
        let places = connection.exchanges.as_ref().map(places).unwrap_or_default();
        let [unread_ns, response_ns] = connection.unread_ns;
        let caller_ns = places.caller_ns.saturating_add(response_ns).min(way_ns);
        let unread_ns = places.answerer_ns.saturating_add(unread_ns).min(way_ns - caller_ns);
        let answerer_ns = service_ns.saturating_add(unread_ns);
        self.caller_ns = self.caller_ns.saturating_add(caller_ns);
        self.answerer_ns = self.answerer_ns.saturating_add(answerer_ns);
        self.way_ns = self.way_ns.saturating_add(way_ns - caller_ns - unread_ns);
        for (sum, ns) in self.places.iter_mut().zip(places.way) {
            *sum = sum.saturating_add(ns);
        }
        self.add_answerer(connection, answerer_ns, listeners);
    }

    /// A connection that no process accepted yet waits for the one that accepts others of its address.
    fn add_answerer(
        &mut self,
        connection: &'a ConnectionAnalysis,
        ns: u64,
        listeners: &Listeners<'a>,
    ) {
        if ns == 0 {
            return;
        }
        let process = answerer(connection);
        let side = connection.requests.asked_by.map_or(Side::Server, Side::other);
        let listener = || *listeners.get(&address(connection)).filter(|_| side == Side::Server)?;
        let name = process.map(|process| process.comm.as_str()).or_else(listener);
        let new = Answerer { ns: 0, name, process, most_ns: 0, side, has_several_processes: false };
        let one = self.answerers.entry(name).or_insert(new);
        let pid = |process: Option<&Process>| process.map(|process| process.pid);
        one.has_several_processes |= pid(one.process) != pid(process);
        one.ns = one.ns.saturating_add(ns);
        if one.most_ns < ns {
            (one.process, one.most_ns, one.side) = (process, ns, side);
        }
    }

    /// Whether callers waited little. No request was a long one then. And a usual one was fast, or all together are no
    /// longer than a long one, or fill less than 1 % of the trace.
    ///
    /// A share of the time alone means nothing: a program that asks in a loop waits all of its time, with any speed
    /// of the answers.
    pub(crate) fn is_little(&self) -> bool {
        let is_long = self.longest.is_some_and(|(_, request)| request.is_long());
        let is_rare = self.union_ns.saturating_mul(100) < self.duration_ns;
        let is_short = self.union_ns < Request::LONG_NS;
        !is_long && (is_rare || is_short || self.median_ns <= Self::USUAL_NS_MAX)
    }

    /// Whether callers waited long, and the answering programs had so much of the time in which any caller waited.
    pub(crate) fn is_answerers_time(&self, ns: u64) -> bool {
        let share_ns = |whole_ns: u64| match self.sum_ns {
            0 => 0,
            sum_ns => u128::from(whole_ns) * u128::from(self.answerer_ns) / u128::from(sum_ns),
        };
        !self.is_little() && share_ns(self.union_ns) >= u128::from(ns)
    }

    /// The shares of the time, in one sentence, and in another the outcome of the longest request.
    pub(crate) fn words(&self, time: impl Fn(u64) -> String) -> String {
        let shares = self.shares(
            Answerer::words,
            [
                "to other programs",
                &self.way_words(),
                "to the callers",
                "to connections that did not open",
                "to what was not recorded: one end was not seen",
            ],
        );
        let waited = time(self.union_ns);
        let sum = time(self.sum_ns);
        let all = match self.sum_ns > self.union_ns && sum != waited {
            true => format!("callers waited {waited}; the {sum} of all requests together"),
            false => format!("the {waited} that callers waited"),
        };
        let longest = self.longest_words(time);
        format!("no known cause; {all} went {shares}.{longest}")
    }

    /// The waits of callers and the shares of that time, in as few words as possible.
    pub(crate) fn short_words(&self, time: impl Fn(u64) -> String) -> String {
        let most = self.largest_place().map(|place| format!(" ({place})")).unwrap_or_default();
        let shares = self.shares(
            Answerer::name,
            [
                "other programs",
                &format!("{}{most}", self.way()),
                "the callers",
                "connections that did not open",
                "not recorded",
            ],
        );
        let (waited, sum) = (time(self.union_ns), time(self.sum_ns));
        let all = match self.sum_ns > self.union_ns && sum != waited {
            true => format!(" ({sum} of all requests)"),
            false => String::new(),
        };
        format!("{waited}{all}: {shares}")
    }

    /// The shares of the time.
    pub(crate) fn parts(&self) -> WaitParts {
        let known_ns = self.answerer_ns + self.caller_ns + self.way_ns + self.opening_ns;
        debug_assert!(known_ns <= self.sum_ns, "{known_ns} ns are known of {} ns", self.sum_ns);
        WaitParts {
            answerers_ns: self.answerer_ns,
            way_ns: self.way_ns,
            callers_ns: self.caller_ns,
            opening_ns: self.opening_ns,
            unknown_ns: self.sum_ns.saturating_sub(known_ns),
        }
    }

    /// As `99.8 % X, 0.2 % Y`, the largest first: the answerers with most, then `names` of the other ones, the way, the
    /// callers, connections that did not open, and the unknown.
    fn shares(&self, name: fn(&Answerer<'a>, Others) -> String, names: [&str; 5]) -> String {
        let WaitParts { answerers_ns, way_ns, callers_ns, opening_ns, unknown_ns } = self.parts();
        let answerers = self.by_time();
        let mut said: Vec<(u64, String)> = match answerers[..] {
            [] => Vec::new(),
            [one] => vec![(answerers_ns, name(one, Others::None))],
            // A request to one of them waits for others: the end of the chain has most of the time.
            [one, ..] if self.is_chain && one.ns > answerers_ns / 2 => {
                vec![(answerers_ns, name(one, Others::Included))]
            }
            _ => {
                let named = answerers.into_iter().take(ANSWERERS_MAX);
                named.map(|one| (one.ns, name(one, Others::Apart))).collect()
            }
        };
        let named_ns: u64 = said.iter().map(|(ns, _)| ns).sum();
        let others_ns = answerers_ns.saturating_sub(named_ns);
        let rest = [others_ns, way_ns, callers_ns, opening_ns, unknown_ns];
        said.extend(rest.into_iter().zip(names.map(str::to_owned)));
        let parts: Vec<u64> = said.iter().map(|(ns, _)| *ns).collect();
        let mut said: Vec<_> = said.into_iter().zip(apportion(&parts, 1000)).collect();
        said.retain(|(_, tenths)| *tenths > 0);
        said.sort_by_key(|((ns, _), _)| Reverse(*ns));
        let said = said.iter().map(|((_, name), tenths)| format!("{} {name}", percent(*tenths)));
        said.collect::<Vec<_>>().join(", ")
    }

    /// The next step, by the largest share.
    pub(crate) fn next(&self) -> String {
        let most_ns = self.answerer_ns.max(self.caller_ns).max(self.way_ns).max(self.opening_ns);
        if self.parts().unknown_ns >= most_ns {
            return "record on the host of the other end too, and merge the two traces.".to_owned();
        }
        if most_ns == self.opening_ns {
            return "see why the connections do not open: ss -ltn on the server's host, and its packet filter."
                .to_owned();
        }
        if most_ns == self.way_ns {
            return "see the ledger of the connection below: its largest places have the time."
                .to_owned();
        }
        if most_ns == self.caller_ns {
            return "see what the callers do between their reads: strace -f -r -p PID.".to_owned();
        }
        match self.answerer() {
            Some(process) => format!(
                "see what {} does from request to response: strace -f -r -p {}, perf trace -p {}.",
                process.comm, process.pid, process.pid
            ),
            None => {
                let listeners = if self.is_all_unix { "x" } else { "tn" };
                format!("see what the program does that listens there: ss -l{listeners}p names it.")
            }
        }
    }

    /// The answerers, the one with most time first.
    fn by_time(&self) -> Vec<&Answerer<'a>> {
        let mut answerers: Vec<_> = self.answerers.values().collect();
        answerers.sort_by_key(|one| Reverse(one.ns));
        answerers
    }

    fn answerer(&self) -> Option<&'a Process> {
        self.by_time().first()?.process
    }

    fn way_words(&self) -> String {
        match self.largest_place() {
            Some(place) => format!("to {}, most of it in {place}", self.way()),
            None => format!("to {}", self.way()),
        }
    }

    /// Bytes of a Unix socket pass no network.
    fn way(&self) -> &'static str {
        if self.is_all_unix { "the kernel" } else { "network and kernel" }
    }

    /// The place of the ledger that has most of the way.
    fn largest_place(&self) -> Option<&'static str> {
        let places = LedgerPart::ALL.into_iter().zip(self.places);
        let most = places.max_by_key(|&(part, ns)| (ns, Reverse(part))).filter(|(_, ns)| *ns > 0);
        let is_udp = self.longest.is_some_and(|(one, _)| one.connection.protocol == Protocol::Udp);
        most.map(|(part, _)| place_name(part.name(), is_udp))
    }

    fn longest_words(&self, time: impl Fn(u64) -> String) -> String {
        let Some((connection, request)) = self.longest else { return String::new() };
        let what = match request.end {
            RequestEnd::Answered => return String::new(),
            RequestEnd::Open => "was still open",
            RequestEnd::GivenUp | RequestEnd::ResetByAsker => "was given up without an answer",
            RequestEnd::ResetByAnswerer => "was reset by the other side",
            RequestEnd::Refused => "was refused",
            RequestEnd::Closed => "ended when the other side closed without an answer",
        };
        let (total, id) = (time(request.total_ns().unwrap_or(0)), connection.connection.id.0);
        // Many datagrams want no answer, and nothing shows which.
        let is_udp = connection.connection.protocol == Protocol::Udp;
        let is_answered = |one: &Request| one.end == RequestEnd::Answered;
        let is_mute = is_udp && !connection.requests.list.iter().any(is_answered);
        let doubt = if is_mute { " Nothing is wrong if its datagrams want no answer." } else { "" };
        format!(" The longest request, {total} on connection {id}, {what}.{doubt}")
    }
}

/// The program at the answering end.
fn answerer(connection: &ConnectionAnalysis) -> Option<&Process> {
    let asker = connection.requests.asked_by?;
    connection.connection.processes.iter().find(|process| process.side != asker)
}

/// The program that accepts connections of an address; `None` where programs of several names do.
type Listeners<'a> = BTreeMap<(Protocol, SocketAddr), Option<&'a str>>;

fn listeners<'a>(report: &Report<'a>) -> Listeners<'a> {
    let mut listeners = Listeners::new();
    for connection in report.connections() {
        let mut processes = connection.connection.processes.iter();
        let Some(process) = processes.find(|process| process.side == Side::Server) else {
            continue;
        };
        let name = process.comm.as_str();
        let listener = listeners.entry(address(connection)).or_insert(Some(name));
        *listener = listener.filter(|one| *one == name);
    }
    listeners
}

fn address(connection: &ConnectionAnalysis) -> (Protocol, SocketAddr) {
    (connection.connection.protocol, connection.connection.server)
}

/// Whether the wait was for a connection, which did not open: nothing was asked.
fn is_attempt(request: &Request) -> bool {
    request.seen == SeenEnds::Asker
        && request.request_bytes == 0
        && request.end != RequestEnd::Answered
}

/// Whether the request waits for a program to accept its connection: it lies at the answerer then.
fn is_unaccepted(connection: &ConnectionAnalysis, request: &Request) -> bool {
    let Some(asker) = connection.requests.asked_by else { return false };
    let processes = &connection.connection.processes;
    request.seen == SeenEnds::Both
        && request.heard.ns().is_none()
        && request.answered.ns().is_none()
        && !processes.iter().any(|process| process.side != asker)
}

/// The requests of a connection, each with the part of its service that nested requests have.
fn nested_times<'a>(
    connection: &'a ConnectionAnalysis,
    nesting: &'a Nesting,
) -> impl Iterator<Item = (&'a Request, NestedTime)> {
    let own = connection.connection.id;
    connection.requests.list.iter().zip(0u32..).map(move |(request, index)| {
        (request, nesting.time_of(RequestId { connection: own, index }))
    })
}

/// The waits of callers for requests that were answered, and the answering programs' own share of that time; of
/// connections whose sides alternate.
pub(crate) fn answered_ns(report: &Report<'_>) -> Option<(u64, u64)> {
    let sum = |of: fn(&ExchangeSummary) -> &Distribution| {
        let summaries = report.connections().filter_map(|it| it.exchanges.as_ref()).map(of);
        rounded(summaries.map(|times| times.mean * times.count as f64).sum::<f64>())
    };
    let waited_ns = sum(|exchanges| &exchanges.total_ns)?;
    let service_ns = sum(|exchanges| &exchanges.service_ns)?;
    // A nested request has its own time, and so its parent has that no more.
    let mut nested_ns = 0u64;
    for connection in report.connections().filter(|it| it.exchanges.is_some()) {
        for (request, time) in nested_times(connection, &report.analysis.nesting) {
            if request.end == RequestEnd::Answered && !request.is_overlapped {
                nested_ns = nested_ns.saturating_add(time.nested_ns).saturating_add(time.shared_ns);
            }
        }
    }
    Some((waited_ns.saturating_sub(nested_ns), service_ns.saturating_sub(nested_ns)))
}

/// Nanoseconds of the requests and responses of one connection, by place.
#[derive(Default)]
struct Places {
    answerer_ns: u64,
    caller_ns: u64,
    way: [u64; LedgerPart::ALL.len()],
}

fn places(exchanges: &ExchangeSummary) -> Places {
    let mut places = Places::default();
    let count = exchanges.total_ns.count;
    for (index, part) in LedgerPart::ALL.into_iter().enumerate() {
        let [asked_ns, answered_ns] = [&exchanges.request_ns, &exchanges.response_ns]
            .map(|ledger| ledger.ns[index].saturating_mul(count));
        let (answerer_ns, caller_ns) = match part {
            LedgerPart::AppIdle | LedgerPart::SendWriter => (answered_ns, asked_ns),
            LedgerPart::ReceiveApp => (asked_ns, answered_ns),
            _ => {
                places.way[index] = asked_ns.saturating_add(answered_ns);
                (0, 0)
            }
        };
        places.answerer_ns = places.answerer_ns.saturating_add(answerer_ns);
        places.caller_ns = places.caller_ns.saturating_add(caller_ns);
    }
    places
}
