//! Input of the rules of `findings`: one connection with all that was computed about it.
//!
//! Times are nanoseconds of the trace's clock. A timeline is the ledger spread out over time: its
//! spans are in time order, touch each other, and cover exactly the time that the ledger sums up.

use std::collections::BTreeSet;

use sockscope_record::{ConnectionId, Direction, Point, Protocol};

use crate::openings::Openings;
use crate::{
    BufferGrant, ConnectionStore, DropReasons, ExchangeSummary, FlowAnalysis, FlowStore,
    LedgerPart, NamespaceNames, Requests, Unopened,
};

/// From `start_ns` to `end_ns` the oldest unread byte of a flow was in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerSpan {
    /// When it arrived there; first instant that counts.
    pub start_ns: u64,
    /// When it left; first instant that no longer counts. Later than `start_ns`.
    pub end_ns: u64,
    /// Position of the oldest byte not yet read, or of the next one while idle.
    pub offset: u64,
    /// The place.
    pub part: LedgerPart,
}

impl LedgerSpan {
    /// Duration, nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// Records were missed between two times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossInterval {
    /// Not before this.
    pub start_ns: u64,
    /// Not after this.
    pub end_ns: u64,
    /// Records of this point; `None` for records of no point.
    pub point: Option<Point>,
    /// Number of missed records.
    pub count: u64,
    /// Only records of datagrams are meant: streams miss nothing.
    pub of_datagrams: bool,
    /// Positions of streams behind it are anchored anew: they are certain.
    pub is_anchored: bool,
}

impl LossInterval {
    /// Whether records of a connection of this protocol may be among the missed ones.
    pub fn may_touch(&self, protocol: Protocol) -> bool {
        !self.of_datagrams || protocol == Protocol::Udp
    }
}

/// Connections that other users asked for, and losses that touched these alone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OfOthers {
    /// Their numbers.
    pub connections: BTreeSet<ConnectionId>,
    /// By start.
    pub losses: Vec<LossInterval>,
}

/// Losses in order of their starts.
pub(crate) fn by_start(mut losses: Vec<LossInterval>) -> Vec<LossInterval> {
    losses.sort_by_key(|loss| loss.start_ns);
    losses
}

/// One flow with all that was computed about it.
#[derive(Debug, Clone, Copy)]
pub struct FlowView<'a> {
    /// The whole connection's records.
    pub store: &'a ConnectionStore,
    /// One of its two flows.
    pub direction: Direction,
    /// The flow's ledger over time.
    pub timeline: &'a [LedgerSpan],
    /// Its figures.
    pub analysis: &'a FlowAnalysis,
    /// First record of the flow.
    pub start_ns: u64,
    /// Last record of the connection.
    pub end_ns: u64,
    /// Losses that may have touched the connection, by start.
    pub losses: &'a [LossInterval],
    /// Times between which data of the flow may have passed each point unseen, in the order of [`Point::ALL`].
    pub unknown_ns: &'a [Vec<(u64, u64)>; 8],
    /// Names of the numbers in `Drop` records.
    pub drop_reasons: &'a DropReasons,
    /// Names of network namespaces.
    pub network_namespaces: &'a NamespaceNames,
}

impl<'a> FlowView<'a> {
    /// The flow's own records.
    pub fn flow(&self) -> &'a FlowStore {
        self.store.flow(self.direction)
    }

    /// The records of the flow that carries this flow's acknowledgments: see [`ConnectionStore::reverse`].
    pub fn reverse(&self) -> &'a FlowStore {
        self.store.reverse(self.direction)
    }
}

/// One connection with all that was computed about it.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionView<'a> {
    /// Its records.
    pub store: &'a ConnectionStore,
    /// From the client, then from the server.
    pub flows: [FlowView<'a>; 2],
    /// Socket buffers asked for and granted.
    pub buffers: &'a [BufferGrant],
    /// Requests and responses, when the traffic alternates.
    pub exchanges: Option<&'a ExchangeSummary>,
    /// All requests.
    pub requests: &'a Requests,
    /// Reason why it did not open; `None` when it did, or when that is unknown.
    pub unopened: Option<&'a Unopened>,
    /// The connections of the trace that opened.
    pub(crate) openings: &'a Openings,
}
