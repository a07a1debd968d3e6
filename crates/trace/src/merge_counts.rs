//! Octets that each end of an engine's flows counted.
//!
//! Engines number octets by counting: sent ones at one end, arrived ones at the other. The two are the
//! same positions only where every packet that one end counted arrived at the other, and was counted
//! there.

use std::collections::HashMap;

use sockscope_record::{Connection, Direction, FlowId, Kind};

use crate::bundle::Bundle;
use crate::error::Error;

/// Octets that one engine counted, by flow.
#[derive(Debug, Default)]
pub(crate) struct Counts(HashMap<FlowId, Octets>);

/// Octets of one flow at one end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Octets {
    sent: u64,
    came: u64,
}

impl Counts {
    /// Reads all records of the bundle.
    pub(crate) fn of(bundle: &Bundle) -> Result<Self, Error> {
        let mut counts = Self::default();
        let mut reader = bundle.records()?;
        while let Some(batch) = reader.next_batch()? {
            for record in batch.iter() {
                counts.add(record.flow, record.kind, record.end());
            }
        }
        Ok(counts)
    }

    fn add(&mut self, flow: FlowId, kind: Kind, end: u64) {
        let octets = self.0.entry(flow).or_default();
        match kind {
            Kind::SendDequeue => octets.sent = octets.sent.max(end),
            Kind::ReceiveEnqueue => octets.came = octets.came.max(end),
            _ => {}
        }
    }

    fn octets(&self, flow: FlowId) -> Octets {
        self.0.get(&flow).copied().unwrap_or_default()
    }
}

/// Whether all octets that each end of a connection sent arrived at the other end; the rows are those of
/// the two bundles.
pub(crate) fn agree(counts: &[Counts; 2], first: &Connection, second: &Connection) -> bool {
    let is_swapped = first.client != second.client;
    [Direction::FromClient, Direction::FromServer].into_iter().all(|direction| {
        let theirs = second.id.flow(direction);
        let theirs = if is_swapped { theirs.reverse() } else { theirs };
        let [here, there] = [counts[0].octets(first.id.flow(direction)), counts[1].octets(theirs)];
        here.sent == there.came && here.came == there.sent
    })
}
