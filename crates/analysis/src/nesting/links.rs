//! Results of nesting: links from a request to the one in which it is nested, and times of requests that have
//! such links.
//!
//! Times are nanoseconds.

use sockscope_record::{ConnectionId, named};

/// One request of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId {
    /// Its connection.
    pub connection: ConnectionId,
    /// Its place among the requests of the connection.
    pub index: u32,
}

/// Evidence by which a request is nested in another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Certainty {
    /// The thread that asks it reads or answers the other one, and no other request that is served then.
    Thread,
    /// The process that asks it serves the other one, and nothing else then.
    Process,
}

named! {
    Certainty {
        Thread => "thread",
        Process => "process",
    }
}

/// A request that is nested in another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLink {
    /// The request in whose service the other one is asked.
    pub parent: RequestId,
    /// The nested one.
    pub child: RequestId,
    /// The evidence for it.
    pub certainty: Certainty,
}

/// Parts of the service time of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NestedTime {
    /// Time in which at least one nested request was open. Of the pauses within the response only the sum is known:
    /// there it is an upper bound.
    pub nested_ns: u64,
    /// Further time in which the process waited for requests whose parent is unknown.
    pub shared_ns: u64,
}

impl NestedTime {
    /// The part of a service time that is certainly the answerer's own.
    pub fn own_ns(self, service_ns: u64) -> u64 {
        service_ns.saturating_sub(self.nested_ns).saturating_sub(self.shared_ns)
    }
}

/// Nested requests of a trace, with their parents.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Nesting {
    /// By parent, then by child.
    links: Vec<RequestLink>,
    /// Places in `links`, by child.
    by_child: Vec<u32>,
    /// Requests whose service is not only the answerer's own time, by request.
    times: Vec<(RequestId, NestedTime)>,
}

impl Nesting {
    pub(super) fn new(
        mut links: Vec<RequestLink>,
        mut times: Vec<(RequestId, NestedTime)>,
    ) -> Self {
        links.sort_unstable_by_key(|link| (link.parent, link.child));
        times.sort_unstable_by_key(|(request, _)| *request);
        // A trace has less than 4 Gi requests: a record has 40 bytes.
        let mut by_child: Vec<u32> = (0..links.len() as u32).collect();
        by_child.sort_unstable_by_key(|&at| links[at as usize].child);
        debug_assert!(
            by_child
                .windows(2)
                .all(|pair| links[pair[0] as usize].child < links[pair[1] as usize].child)
        );
        Self { links, by_child, times }
    }

    /// Whether no request is known to be nested, nor may be.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty() && self.links.is_empty()
    }

    /// All links, by parent, then by child.
    pub fn links(&self) -> &[RequestLink] {
        &self.links
    }

    /// The requests nested in this one, by connection and place.
    pub fn children_of(&self, parent: RequestId) -> &[RequestLink] {
        let first = self.links.partition_point(|link| link.parent < parent);
        let count = self.links[first..].partition_point(|link| link.parent == parent);
        &self.links[first..first + count]
    }

    /// The request in which this one is nested.
    pub fn parent_of(&self, child: RequestId) -> Option<&RequestLink> {
        let child_at = |at: &u32| self.links[*at as usize].child;
        let at = self.by_child.binary_search_by_key(&child, child_at).ok()?;
        Some(&self.links[self.by_child[at] as usize])
    }

    /// Parts of the service time of this request; without known nested requests all parts are 0.
    pub fn time_of(&self, request: RequestId) -> NestedTime {
        let at = self.times.binary_search_by_key(&request, |(request, _)| *request);
        at.map_or(NestedTime::default(), |at| self.times[at].1)
    }
}
