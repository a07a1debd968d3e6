//! A request as its answerer served it: the service time, and the part of it that was a wait for
//! requests of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sockscope_record::{ConnectionId, Side};

use super::phrasing;
use crate::ranges::{Range, intersection, union};
use crate::{
    Analysis, Certainty, ConnectionAnalysis, NestedTime, Request, RequestEnd, RequestId, SeenEnds,
};

/// One request of a connection, with the requests nested in it.
pub(super) struct Served<'a> {
    pub id: RequestId,
    pub request: &'a Request,
    pub service_ns: u64,
    /// Wait of its caller; where the caller was not seen, the service.
    pub waited_ns: u64,
    pub time: NestedTime,
    /// Between which times the service was.
    pub window: Range,
    /// When nested requests were open within it, in order and disjoint.
    pub nested: Vec<Range>,
}

impl<'a> Served<'a> {
    /// Each request for which its caller waited so long that a user notices, where the service is known.
    pub(super) fn long(
        analysis: &'a Analysis,
        connection: &'a ConnectionAnalysis,
    ) -> impl Iterator<Item = Self> + 'a {
        let own = connection.connection.id;
        let list = connection.requests.list.iter().zip(0u32..);
        let long = list.filter(|(request, _)| {
            let waited_ns = request.total_ns().or(request.service_ns());
            waited_ns.is_some_and(|ns| ns >= Request::LONG_NS)
        });
        long.filter_map(move |(request, index)| {
            Self::of(analysis, RequestId { connection: own, index }, request)
        })
    }

    fn of(analysis: &'a Analysis, id: RequestId, request: &'a Request) -> Option<Self> {
        let service_ns = request.service_ns()?;
        let heard_ns = request.heard.ns().or(request.answered.ns())?;
        let until_ns = match request.pause_ns {
            0 => request.answered.ns().unwrap_or(request.ended_ns),
            _ => request.ended_ns,
        };
        let window = (heard_ns.min(until_ns), until_ns);
        let children = analysis.nesting.children_of(id).iter();
        let open = children.filter_map(|link| analysis.request(link.child));
        let open: Vec<Range> = open.map(|child| (child.asked_ns, child.ended_ns)).collect();
        Some(Self {
            id,
            request,
            service_ns,
            waited_ns: request.total_ns().unwrap_or(service_ns),
            time: analysis.nesting.time_of(id),
            window,
            nested: intersection(&union(&open, &[]), &[window]),
        })
    }

    /// Time that is certainly the answerer's own.
    pub(super) fn own_ns(&self) -> u64 {
        self.time.own_ns(self.service_ns)
    }

    pub(super) fn is_answered(&self) -> bool {
        self.request.end == RequestEnd::Answered
    }
}

/// The requests to one server that are nested in a request.
pub(super) struct Upstream<'a> {
    /// The connection of the longest one.
    pub connection: &'a ConnectionAnalysis,
    pub longest: RequestId,
    pub count: usize,
    /// All of them, by the time asked.
    pub requests: Vec<(&'a Request, RequestId)>,
    pub certainty: Certainty,
}

impl Upstream<'_> {
    /// As `python3 (pid 9), on connection 2`.
    pub(super) fn words(&self) -> String {
        server_words(self.connection)
    }

    /// As `asked by the same thread`.
    pub(super) fn certainty_words(&self) -> &'static str {
        match self.certainty {
            Certainty::Thread => "asked by the same thread",
            Certainty::Process => "asked by the same process",
        }
    }
}

/// As `python3 (pid 9), on connection 2`; where no process was seen there, with its address.
pub(super) fn server_words(connection: &ConnectionAnalysis) -> String {
    let id = connection.connection.id.0;
    let side = connection.requests.asked_by.map(|side| side.other());
    let processes = &connection.connection.processes;
    match processes.iter().find(|process| Some(process.side) == side) {
        Some(process) => format!("{} (pid {}), on connection {id}", process.comm, process.pid),
        None => format!("{}, on connection {id}", connection.connection.end(Side::Server)),
    }
}

/// The servers that a request waited for, the one with most time first.
pub(super) fn upstreams<'a>(analysis: &'a Analysis, id: RequestId) -> Vec<Upstream<'a>> {
    let mut servers: BTreeMap<SocketAddr, Upstream<'a>> = BTreeMap::new();
    for link in analysis.nesting.children_of(id) {
        let connection = analysis.connection(link.child.connection);
        let (Some(connection), Some(request)) = (connection, analysis.request(link.child)) else {
            continue;
        };
        let upstream = servers.entry(connection.connection.server).or_insert(Upstream {
            connection,
            longest: link.child,
            count: 0,
            requests: Vec::new(),
            certainty: Certainty::Thread,
        });
        let longest = analysis.request(upstream.longest).and_then(Request::total_ns);
        if request.total_ns() > longest {
            (upstream.connection, upstream.longest) = (connection, link.child);
        }
        upstream.count += 1;
        upstream.certainty = upstream.certainty.max(link.certainty);
        upstream.requests.push((request, link.child));
    }
    let mut upstreams: Vec<_> = servers.into_values().collect();
    for upstream in &mut upstreams {
        upstream.requests.sort_unstable_by_key(|(request, id)| (request.asked_ns, *id));
    }
    upstreams.sort_by_key(|upstream| std::cmp::Reverse(open_ns(upstream)));
    upstreams
}

/// Time in which at least one of the requests was open.
pub(super) fn open_ns(upstream: &Upstream<'_>) -> u64 {
    let open = upstream.requests.iter().map(|(request, _)| (request.asked_ns, request.ended_ns));
    crate::ranges::total(&union(&open.collect::<Vec<_>>(), &[]))
}

/// Leaf of a chain of nested requests, followed down while a single request has most of the time.
pub(super) struct Leaf {
    pub connection: ConnectionId,
    /// As `stores (pid 12), on connection 3`.
    pub server: String,
    /// As `300 ms of its own`.
    pub took: String,
    /// Its own end of the connection was not recorded.
    pub is_elsewhere: bool,
}

/// Follows the longest request to the one that waits for no other.
pub(super) fn leaf<'a>(analysis: &'a Analysis, first: &Upstream<'a>) -> Option<Leaf> {
    let mut next = Some((first.connection, first.longest, first.count, open_ns(first)));
    let (mut connection, mut id, mut count, mut all_ns) = next?;
    // Each step is to a request that is asked later, and so the steps end.
    while let Some(found) = next {
        (connection, id, count, all_ns) = found;
        let total_ns = analysis.request(id)?.total_ns()?;
        let is_waiting = analysis.nesting.time_of(id).nested_ns.saturating_mul(2) >= total_ns;
        let further = || upstreams(analysis, id).into_iter().next();
        next = (count == 1 && is_waiting).then(further).flatten().map(|upstream| {
            (upstream.connection, upstream.longest, upstream.count, open_ns(&upstream))
        });
    }
    let took = match count {
        1 => single_words(analysis, id)?,
        more => format!("{} for {more} requests", phrasing::time(all_ns)),
    };
    Some(Leaf {
        connection: connection.connection.id,
        server: server_words(connection),
        took,
        is_elsewhere: analysis.request(id)?.seen == SeenEnds::Asker,
    })
}

/// As `300 ms of its own`: the larger of the answerer's own time and the rest.
fn single_words(analysis: &Analysis, id: RequestId) -> Option<String> {
    let request = analysis.request(id)?;
    let Some(parts) = request.parts() else {
        return Some(format!("{} with the network to it", phrasing::time(request.total_ns()?)));
    };
    let own_ns = analysis.nesting.time_of(id).own_ns(parts.service_ns);
    let way_ns = parts.request_ns + parts.response_ns;
    Some(match own_ns >= way_ns {
        true => format!("{} of its own", phrasing::time(own_ns)),
        false => {
            let connection = analysis.connection(id.connection)?;
            let way = match connection.connection.protocol.is_unix() {
                true => "the kernel",
                false => "network and kernel",
            };
            format!("{} in {way}", phrasing::time(way_ns))
        }
    })
}
