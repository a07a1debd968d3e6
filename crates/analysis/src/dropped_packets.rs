//! The last point that a packet had passed when the kernel dropped it.

use std::iter::Peekable;
use std::slice::Iter;

use sockscope_record::{Direction, Point, Record};

use crate::drops;
use crate::ranges::RangeSet;
use crate::transmission::{own_point, told_point};
use crate::{ConnectionStore, DropReasons, FlowStore, Passage};

/// A packet that the kernel dropped, and with it a segment or datagram that had not arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DroppedPacket<'a> {
    /// The record of the drop.
    pub drop: &'a Record,
    /// The last point that it passed; `None` where the recorded pass may be an earlier
    /// transmission's.
    pub after: Option<Point>,
}

/// All of one direction, in time order, with `reasons` for the numbers in their records.
pub fn dropped_packets<'a>(
    store: &'a ConnectionStore,
    direction: Direction,
    reasons: &DropReasons,
) -> Vec<DroppedPacket<'a>> {
    let (flow, reverse) = (store.flow(direction), store.reverse(direction));
    let mut queued = Queued::new(flow);
    let drops = drops::of_segments(flow, reasons);
    drops
        .map(|drop| {
            let own = || own_point(flow, reverse, drop, queued.may_include(drop));
            DroppedPacket { drop, after: told_point(drop).or_else(own) }
        })
        .collect()
}

/// Bytes that had reached the interface queue up to a time that only moves forward.
struct Queued<'a> {
    coming: Peekable<Iter<'a, Passage>>,
    bytes: RangeSet,
}

impl<'a> Queued<'a> {
    fn new(flow: &'a FlowStore) -> Self {
        let coming = flow.at(Point::InterfaceEnqueue).iter().peekable();
        Self { coming, bytes: RangeSet::default() }
    }

    /// False where no search can find the dropped segment there.
    fn may_include(&mut self, drop: &Record) -> bool {
        while let Some(pass) = self.coming.next_if(|pass| pass.at_ns <= drop.at_ns) {
            self.bytes.insert(pass.offset, pass.end(), |_, _| ());
        }
        drop.len == 0 || self.bytes.contains(drop.offset, drop.offset.saturating_add(1))
    }
}
