//! What the routes answer from.

use std::sync::RwLock;

use sockscope_view::page::Trace;
use tokio::sync::watch;

use super::laboratory::Laboratory;

/// The traces, and what belongs to this session.
pub struct Shared {
    pub traces: Vec<RwLock<Trace>>,
    /// Number of the last refresh of a recording.
    pub refreshed: watch::Sender<u64>,
    pub laboratory: Laboratory,
}
