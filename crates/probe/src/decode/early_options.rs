//! Options that were read before the event that opens their connection: they have a ring buffer of their
//! own, which may be ahead of that of the events.

use std::collections::VecDeque;

use super::hit::connection_id;
use crate::layout::RawOption;

/// Options that wait for their connection to be announced, at most.
const EARLY_MAX: usize = 1_024;

/// Options of connections that are not announced yet.
#[derive(Default)]
pub(super) struct Early {
    waiting: VecDeque<RawOption>,
    missed: u64,
}

impl Early {
    pub(super) fn push(&mut self, option: RawOption) {
        if self.waiting.len() == EARLY_MAX {
            self.waiting.pop_front();
            self.missed += 1;
        }
        self.waiting.push_back(option);
        debug_assert!(self.waiting.len() <= EARLY_MAX);
    }

    pub(super) fn take(&mut self, connection: u32) -> VecDeque<RawOption> {
        if self.waiting.is_empty() {
            return VecDeque::new();
        }
        let (taken, kept) =
            self.waiting.drain(..).partition(|option| connection_id(option.flow).0 == connection);
        self.waiting = kept;
        taken
    }

    /// Options of connections without announcement so far, or without room.
    pub(super) fn missed(&self) -> u64 {
        self.missed + self.waiting.len() as u64
    }
}
