//! Points 1 and 2 of one flow as one sequence: what each record leaves in the send queue.

use sockscope_record::{Point, marks};

use crate::{FlowStore, Pass};

/// One record at point 1 or 2, with what it leaves in the send queue unsent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendQueueStep<'a> {
    pub pass: &'a Pass,
    pub is_enqueue: bool,
    /// Position after the last byte sent.
    pub sent_end: u64,
    pub unsent_bytes: u64,
}

/// Both points in time order; at equal times bytes enter before they leave.
pub(crate) fn steps(flow: &FlowStore) -> impl Iterator<Item = SendQueueStep<'_>> {
    let mut entering = flow.at(Point::SendEnqueue).iter().peekable();
    let mut leaving = flow.at(Point::SendDequeue).iter().peekable();
    let (mut entered, mut sent_end) = (0, 0);
    std::iter::from_fn(move || {
        let is_enqueue = match (entering.peek(), leaving.peek()) {
            (Some(entry), Some(exit)) => entry.at_ns <= exit.at_ns,
            (entry, _) => entry.is_some(),
        };
        let pass = if is_enqueue { entering.next() } else { leaving.next() }?;
        let end = if is_enqueue { &mut entered } else { &mut sent_end };
        *end = pass.end().max(*end);
        let unsent_bytes = entered.saturating_sub(sent_end);
        Some(SendQueueStep { pass, is_enqueue, sent_end, unsent_bytes })
    })
}

/// The largest segment that TCP took by itself; 0 where it took none so.
pub(crate) fn segment_bytes_seen(flow: &FlowStore) -> u32 {
    let taken = flow.at(Point::SendDequeue).iter();
    let single = taken.filter(|pass| pass.marks & marks::AGGREGATED == 0);
    single.map(|pass| pass.len).max().unwrap_or(0)
}

/// Whether one of `taken`, of which what ends at `acknowledged` or before is no longer in flight, is short.
/// Of several segments in one record only the last can be.
pub(crate) fn has_short(taken: &[Pass], acknowledged: u64, segment_bytes: u32) -> bool {
    let mut in_flight = taken.iter().rev().take_while(|pass| pass.end() > acknowledged);
    in_flight.any(|pass| !pass.len.is_multiple_of(segment_bytes))
}
