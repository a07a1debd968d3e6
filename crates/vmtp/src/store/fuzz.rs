//! The formats of the journal, which only a store reads. For fuzzing.

use super::dedup_state::{DedupState, Entry};
use super::journal;

/// A journal that begins with `known` records, and all payloads one after another.
pub fn journal(known: u64, payloads: &[Vec<u8>]) -> Vec<u8> {
    journal::compose(known, payloads)
}

/// The payloads of whole records; `None` when the part that is made in one step is not whole.
pub fn payloads(journal: &[u8]) -> Option<Vec<Vec<u8>>> {
    journal::parse(journal).ok()
}

/// The payload as a store would write it again; `None` when no store writes such.
pub fn again(payload: &[u8]) -> Option<Vec<u8>> {
    Entry::decode(payload).map(|entry| entry.encode())
}

/// The state of a store after these payloads, as payloads.
pub fn known(payloads: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut dedup = DedupState::default();
    for entry in payloads.iter().filter_map(|payload| Entry::decode(payload)) {
        // The answer to a client is not checked here.
        let _ = dedup.apply(&entry);
    }
    dedup.known()
}
