//! Which connections are over, and which may be too old; hits of connections that are not known.

use std::collections::VecDeque;

use sockscope_record::LossCounts;

use super::hit::point_of_raw;

/// Connections that are over, and the age limit of the others.
#[derive(Default)]
pub(super) struct Age {
    /// When each one ended, nearly in order of time.
    pub(super) ended: VecDeque<(u64, u32)>,
    /// Those that ended with a datagram in a receive queue.
    pub(super) awaited: Vec<u32>,
    /// A connection without a socket here is over after this long without a hit.
    pub(super) idle_ns: Option<u64>,
    /// Where the next look at ages begins.
    pub(super) next: u32,
    /// Time of the last look.
    pub(super) looked_ns: u64,
}

/// Hits of connections that are not known.
#[derive(Default)]
pub(super) struct Unknown {
    pub(super) total: u64,
    /// Since last asked.
    pub(super) fresh: LossCounts,
}

impl Unknown {
    /// A hit of this kind.
    pub(super) fn note(&mut self, kind: u8) {
        self.total += 1;
        self.fresh.add(point_of_raw(kind), 1);
    }
}
