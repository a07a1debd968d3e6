//! Points 1 and 2 of one flow as one sequence: the bytes that each record leaves in the send queue.

use sockscope_record::{Kind, Point, marks};

use crate::{FlowStore, Passage};

/// Segment size assumed where none was reported: Ethernet's 1500 less IP and TCP headers with timestamps.
const SEGMENT_BYTES_USUAL: u32 = 1448;

/// One record at point 1 or 2, with the unsent bytes that it leaves in the send queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendQueueStep<'a> {
    pub pass: &'a Passage,
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

/// Sizes of the segments of one flow. TCP's reports of it may be late and too small at first; the recorded
/// sizes count until TCP reports a smaller one, as when the path's MTU shrinks (RFC 8201).
pub(crate) struct SegmentSizes {
    stretches: Vec<Stretch>,
}

/// From one smaller size to the next.
#[derive(Default)]
struct Stretch {
    start_ns: u64,
    told_bytes: u32,
    seen_bytes: u32,
}

impl Stretch {
    fn largest_bytes(&self) -> u32 {
        let told_bytes = if self.told_bytes == 0 { SEGMENT_BYTES_USUAL } else { self.told_bytes };
        told_bytes.max(self.seen_bytes)
    }
}

impl SegmentSizes {
    pub(crate) fn of(flow: &FlowStore) -> Self {
        let mut stretches = vec![Stretch::default()];
        let mut told_bytes = 0;
        for event in flow.events_of(Kind::SendWindow) {
            let window = event.send_window().filter(|window| window.segment_bytes > 0);
            let Some(window) = window else { continue };
            if window.segment_bytes < told_bytes {
                stretches.push(Stretch { start_ns: event.at_ns, ..Stretch::default() });
            }
            told_bytes = window.segment_bytes;
            let last = stretches.last_mut().expect("there is one from the beginning on");
            last.told_bytes = last.told_bytes.max(told_bytes);
        }
        let mut sizes = Self { stretches };
        debug_assert!(sizes.stretches.is_sorted_by_key(|stretch| stretch.start_ns));
        // A record that TCP took by itself is one segment.
        let taken = flow.at(Point::SendDequeue).iter();
        for pass in taken.filter(|pass| pass.marks & marks::AGGREGATED == 0) {
            let index = sizes.index_at(pass.at_ns);
            let seen_bytes = &mut sizes.stretches[index].seen_bytes;
            *seen_bytes = pass.len.max(*seen_bytes);
        }
        sizes
    }

    /// The largest that was seen around `at_ns`; 0 without one.
    pub(crate) fn seen_at(&self, at_ns: u64) -> u32 {
        self.stretches[self.index_at(at_ns)].seen_bytes
    }

    /// The largest around `at_ns`, reported or seen.
    pub(crate) fn largest_at(&self, at_ns: u64) -> u32 {
        self.stretches[self.index_at(at_ns)].largest_bytes()
    }

    /// The largest of all.
    pub(crate) fn largest(&self) -> u32 {
        self.stretches.iter().map(Stretch::largest_bytes).max().unwrap_or(SEGMENT_BYTES_USUAL)
    }

    fn index_at(&self, at_ns: u64) -> usize {
        // The first begins at 0.
        debug_assert!(self.stretches.first().is_some_and(|first| first.start_ns == 0));
        match self.stretches.len() {
            1 => 0,
            _ => self.stretches.partition_point(|stretch| stretch.start_ns <= at_ns) - 1,
        }
    }
}

/// Whether one of `taken` is short that ends behind `acknowledged`, so that it is still in flight. Of
/// several segments in one record only the last can be.
pub(crate) fn has_short(taken: &[Passage], acknowledged: u64, segment_bytes: u32) -> bool {
    let mut in_flight = taken.iter().rev().take_while(|pass| pass.end() > acknowledged);
    in_flight.any(|pass| !pass.len.is_multiple_of(segment_bytes))
}
