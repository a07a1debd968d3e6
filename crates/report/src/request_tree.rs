//! The slowest request that has others nested in it, as a tree: callers, answerers and their shares of the time.
//!
//! Requests to one server that are nested in one request are one branch. Times are nanoseconds, of a branch the sums.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use sockscope_analysis::{Analysis, Certainty, ConnectionAnalysis, Request, RequestId};
use sockscope_record::{ConnectionId, Process};

use crate::Report;

/// Levels below the first request, at most: a chain of programs that is longer was not made by hand.
const DEPTH_MAX: usize = 16;

/// Requests of one server within one request, with all that is nested in them.
pub(crate) struct Branch<'a> {
    /// The connection of the longest request.
    pub connection: &'a ConnectionAnalysis,
    /// Connections of the requests.
    pub connections: BTreeSet<ConnectionId>,
    pub count: u64,
    /// When the first one was asked.
    pub asked_ns: u64,
    /// The waits of the callers; without a record of the caller, the service.
    pub total_ns: u64,
    /// `None` without a record of a request's answering end.
    pub service: Option<ServiceTimes>,
    /// Request and response in network and kernel, until they were read. `None` without a record of one end. With the
    /// service it adds up to the total.
    pub transit_ns: Option<u64>,
    /// The certainty that they are nested; `None` of the first request.
    pub certainty: Option<Certainty>,
    /// The branch with the longest time first.
    pub nested: Vec<Branch<'a>>,
}

/// The shares of a service's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ServiceTimes {
    /// The answerer's own.
    pub own_ns: u64,
    /// At least one nested request was open.
    pub nested_ns: u64,
    /// The answerer waited for one of its requests, but it is unknown for which one.
    pub shared_ns: u64,
}

/// The wait of the caller, or else the service.
fn known_ns(request: &Request) -> Option<u64> {
    request.total_ns().or_else(|| request.service_ns())
}

impl<'a> Branch<'a> {
    /// The slowest request with nested ones; `None` without such a request.
    pub(crate) fn slowest(report: &Report<'a>) -> Option<Self> {
        let analysis = report.analysis;
        let parents = analysis.nesting.links().iter().map(|link| link.parent);
        let first = parents.filter(|id| analysis.nesting.parent_of(*id).is_none());
        let shown: BTreeSet<_> = report.connections().map(|one| one.connection.id).collect();
        let first = first.filter(|id| shown.contains(&id.connection));
        let known = first.filter_map(|id| Some((known_ns(analysis.request(id)?)?, id)));
        let (_, slowest) = known.max_by_key(|&(total_ns, id)| (total_ns, Reverse(id)))?;
        Self::new(analysis, &[(slowest, None)], 0)
    }

    /// `None` where no request is there.
    fn new(
        analysis: &'a Analysis,
        requests: &[(RequestId, Option<Certainty>)],
        depth: usize,
    ) -> Option<Self> {
        let total = |id| known_ns(analysis.request(id)?);
        let (longest, _) = requests.iter().max_by_key(|(id, _)| (total(*id), Reverse(*id)))?;
        let mut branch = Self {
            connection: analysis.connection(longest.connection)?,
            connections: BTreeSet::new(),
            count: 0,
            asked_ns: u64::MAX,
            total_ns: 0,
            service: Some(ServiceTimes::default()),
            transit_ns: Some(0),
            certainty: None,
            nested: Vec::new(),
        };
        let mut servers: BTreeMap<SocketAddr, Vec<(RequestId, Option<Certainty>)>> =
            BTreeMap::new();
        for &(id, certainty) in requests {
            branch.add(analysis, id);
            branch.certainty = branch.certainty.max(certainty);
            for link in analysis.nesting.children_of(id) {
                let Some(server) = analysis.connection(link.child.connection) else { continue };
                let of_server = servers.entry(server.connection.server).or_default();
                of_server.push((link.child, Some(link.certainty)));
            }
        }
        if depth < DEPTH_MAX {
            let nested = servers.values();
            branch.nested =
                nested.filter_map(|requests| Self::new(analysis, requests, depth + 1)).collect();
            branch.nested.sort_by_key(|nested| (Reverse(nested.total_ns), nested.asked_ns));
        }
        Some(branch)
    }

    fn add(&mut self, analysis: &Analysis, id: RequestId) {
        let Some(request) = analysis.request(id) else { return };
        self.connections.insert(id.connection);
        self.count += 1;
        self.asked_ns = self.asked_ns.min(request.asked_ns);
        self.total_ns = self.total_ns.saturating_add(known_ns(request).unwrap_or(0));
        let time = analysis.nesting.time_of(id);
        self.service =
            self.service.zip(request.service_ns()).map(|(sum, service_ns)| ServiceTimes {
                own_ns: sum.own_ns.saturating_add(time.own_ns(service_ns)),
                nested_ns: sum.nested_ns.saturating_add(time.nested_ns),
                shared_ns: sum.shared_ns.saturating_add(time.shared_ns),
            });
        let transit_ns = request.parts().map(|parts| parts.request_ns + parts.response_ns);
        self.transit_ns =
            self.transit_ns.zip(transit_ns).map(|(sum, transit_ns)| sum.saturating_add(transit_ns));
    }

    /// The process that answers, if one was seen.
    pub(crate) fn answerer(&self) -> Option<&'a Process> {
        let asker = self.connection.requests.asked_by?;
        self.connection.connection.processes.iter().find(|process| process.side != asker)
    }

    /// The process that asks, if one was seen.
    pub(crate) fn asker(&self) -> Option<&'a Process> {
        let asker = self.connection.requests.asked_by?;
        self.connection.connection.processes.iter().find(|process| process.side == asker)
    }
}

#[cfg(test)]
mod tests {
    use sockscope_analysis::SeenEnds;

    use super::*;
    use crate::Options;
    use crate::fixture::{nested_calls, origin, slow_calls};

    #[test]
    fn the_parts_of_each_branch_are_its_total() {
        let (origin, options, analysis) = (origin(), Options::default(), nested_calls());
        let report = Report { origin: &origin, analysis: &analysis, options: &options };
        let mut branches = vec![Branch::slowest(&report).expect("curl waits for nginx")];
        let mut levels = Vec::new();
        while let Some(branch) = branches.pop() {
            let service = branch.service.expect("both ends were seen");
            let ServiceTimes { own_ns, nested_ns, shared_ns } = service;
            let transit_ns = branch.transit_ns.expect("both ends were seen");
            assert_eq!(own_ns + nested_ns + shared_ns + transit_ns, branch.total_ns);
            levels.push((branch.count, own_ns / 1_000_000, nested_ns / 1_000_000));
            branches.extend(branch.nested);
        }
        assert_eq!(levels, [(1, 2, 296), (1, 24, 270), (3, 264, 0)]);
    }

    #[test]
    fn of_a_proxy_between_other_hosts_its_own_time_is_known() {
        let (origin, options, mut analysis) = (origin(), Options::default(), nested_calls());
        analysis.connections[0].requests.list[0].seen = SeenEnds::Answerer;
        analysis.connections[1].requests.list[0].seen = SeenEnds::Asker;
        let report = Report { origin: &origin, analysis: &analysis, options: &options };
        let branch = Branch::slowest(&report).expect("nginx waits for python3");
        assert_eq!(branch.total_ns, 298_000_000, "as long as its service");
        assert_eq!(
            (branch.service.map(|it| it.own_ns), branch.transit_ns),
            (Some(2_000_000), None)
        );
        let upstream = &branch.nested[0];
        assert_eq!((upstream.total_ns, upstream.service), (296_000_000, None));
    }

    #[test]
    fn requests_without_nested_ones_have_no_tree() {
        let (origin, options, analysis) = (origin(), Options::default(), slow_calls());
        let report = Report { origin: &origin, analysis: &analysis, options: &options };
        assert!(Branch::slowest(&report).is_none());
    }
}
