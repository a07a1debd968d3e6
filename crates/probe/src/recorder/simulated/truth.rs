//! The truth about each hit, which the probes do not show.

use std::collections::BTreeMap;

/// The outcome of a hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// Its record is in a list.
    Delivered,
    /// The list was full.
    Refused,
    /// The kernel ran no program, and counted that.
    NotRun,
    /// The kernel ran no program, and counted nothing.
    Skipped,
}

/// One hit of a connection that is recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) at_ns: u64,
    /// When TCP took the segment (points 3 and 4), or got it (point 7); else `at_ns`.
    pub(super) since_ns: u64,
    pub(super) kind: u8,
    pub(super) fate: Fate,
    pub(super) flow: u32,
    /// Of a stream: the bytes that passed by this hit, of any length.
    pub(super) from: u64,
    pub(super) to: u64,
    /// Of a packet of a stream: the position that it acknowledges.
    pub(super) acknowledged: u64,
    /// Whether it acknowledges the FIN too, which has a sequence number and no position.
    pub(super) acknowledges_fin: bool,
    /// The number of the datagram; 0 for a stream.
    pub(super) datagram: u64,
}

/// All that happened.
#[derive(Default)]
pub(super) struct Truth {
    pub(super) hits: Vec<Hit>,
    /// Calls that have a record in a list: thread, time and connection.
    pub(super) calls: Vec<(u32, u64, u32)>,
    /// Anchors in lists.
    pub(super) anchors: u64,
    /// Connections that were opened, by number, with the index of their addresses.
    pub(super) opened: Vec<(u32, u32)>,
    /// Since when connections were left out on the way, by number.
    pub(super) left_out: BTreeMap<u32, u64>,
    /// When the recorder had first read the number of missed hits: earlier misses are not of the recording.
    pub(super) counted_since_ns: u64,
    /// All probes were attached by then; 0 before.
    pub(super) attached_ns: u64,
    /// The recording ended then.
    pub(super) ended_ns: Option<u64>,
}
