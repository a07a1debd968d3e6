//! Packets that stood in the sender's interface queue: points 3 and 4 matched packet by packet.

use sockscope_record::{Point, marks};

use super::intervals::{Interval, Intervals};
use crate::{FlowView, Passage};

/// Packets that stay this long wait for a rate, not for the driver: one full-sized GSO packet of
/// 64 KiB takes half of it at 1 Gbit/s.
pub(super) const DELAYED_NS_MIN: u64 = 1_000_000;

/// CoDel's target and interval (RFC 8289 §4.2, §4.3): a queue whose delay stays above the first for the
/// second is a standing one.
const STANDING_DELAY_NS: u64 = 5_000_000;
const STANDING_INTERVAL_NS: u64 = 100_000_000;

/// Depth in the queue of a search for the packet that leaves: far above any queue length in packets
/// (`txqueuelen` is 1000).
const QUEUE_PACKETS_MAX: usize = 4096;

/// One packet that was delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Delayed {
    pub entered_ns: u64,
    pub left_ns: u64,
    pub offset: u64,
    pub len: u32,
}

/// One flow's packets in the interface queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct InterfaceQueue {
    /// Packets that stayed [`DELAYED_NS_MIN`] or longer, by departure.
    pub delayed: Vec<Delayed>,
    /// The times in which at least one of them was there.
    pub occupied: Intervals,
    /// Delays were CoDel's standing queue at least once.
    pub is_standing: bool,
}

impl InterfaceQueue {
    /// Bytes that left the queue while it was never empty, and the time that took. Of two successive packets the
    /// second counts if it entered before the first left.
    pub(super) fn served(&self) -> (u64, u64) {
        let pairs = self.delayed.windows(2).filter(|pair| pair[1].entered_ns <= pair[0].left_ns);
        pairs.fold((0u64, 0u64), |(bytes, ns), pair| {
            let took_ns = pair[1].left_ns.saturating_sub(pair[0].left_ns);
            (bytes.saturating_add(pair[1].len.into()), ns.saturating_add(took_ns))
        })
    }

    pub(super) fn of(view: &FlowView<'_>) -> Self {
        let entering: Vec<_> = data_passes(view, Point::InterfaceEnqueue).collect();
        let mut first = 0;
        let mut delayed = Vec::new();
        let mut standing = StandingRun::default();
        for leaving in data_passes(view, Point::InterfaceDequeue) {
            let Some(index) = matching(&entering[first..], leaving) else { continue };
            first += index;
            let stay = Delayed {
                entered_ns: entering[first].at_ns,
                left_ns: leaving.at_ns,
                offset: leaving.offset,
                len: leaving.len,
            };
            standing.take(stay);
            if stay.left_ns - stay.entered_ns >= DELAYED_NS_MIN {
                delayed.push(stay);
            }
        }
        let stays = delayed.iter().map(|stay| Interval::new(stay.entered_ns, stay.left_ns));
        let occupied = Intervals::union_of(stays);
        Self { delayed, occupied, is_standing: standing.was_long }
    }
}

fn data_passes<'a>(view: &FlowView<'a>, point: Point) -> impl Iterator<Item = &'a Passage> {
    let passes = view.flow().at(point).iter();
    passes.filter(|pass| pass.len > 0 && pass.marks & marks::NO_QUEUE == 0)
}

/// Index of the packet that `leaving` is, or is a part of (a queue may cut a large packet up). The queue is
/// first in, first out: packets before it were dropped. So were bytes of a new packet that leave as a
/// retransmission: they stood there since they entered as such.
fn matching(queue: &[&Passage], leaving: &Passage) -> Option<usize> {
    let here = queue.iter().take(QUEUE_PACKETS_MAX).take_while(|pass| pass.at_ns <= leaving.at_ns);
    let mut candidates = here
        .enumerate()
        .filter(|(_, pass)| pass.offset <= leaving.offset && leaving.offset < pass.end());
    let (first, pass) = candidates.next()?;
    let is_alike = |pass: &Passage| (pass.marks ^ leaving.marks) & marks::RETRANSMITTED == 0;
    if is_alike(pass) {
        return Some(first);
    }
    // One of them may be marked wrongly, after a loss.
    Some(candidates.find(|(_, pass)| is_alike(pass)).map_or(first, |(index, _)| index))
}

/// Time for which every packet has stayed above CoDel's target.
#[derive(Debug, Default)]
struct StandingRun {
    since_ns: Option<u64>,
    was_long: bool,
}

impl StandingRun {
    fn take(&mut self, stay: Delayed) {
        if stay.left_ns - stay.entered_ns < STANDING_DELAY_NS {
            self.since_ns = None;
            return;
        }
        let since_ns = *self.since_ns.get_or_insert(stay.left_ns);
        self.was_long |= stay.left_ns - since_ns >= STANDING_INTERVAL_NS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::testing::Fixture;

    fn queue(text: &str) -> InterfaceQueue {
        Fixture::new(text, "").with_flow(InterfaceQueue::of)
    }

    #[test]
    fn a_packet_cut_up_by_the_queue_is_delayed_piece_by_piece() {
        let queue = queue("1ms 3 +300 | 1ms 4 +100 | 3ms 4 +100 | 5ms 4 +100");
        let stays: Vec<_> = queue.delayed.iter().map(|stay| (stay.offset, stay.left_ns)).collect();
        assert_eq!(stays, [(100, 3_000_000), (200, 5_000_000)]);
        assert_eq!(queue.occupied.total_ns(), 4_000_000);
    }

    #[test]
    fn a_dropped_packet_does_not_shift_the_ones_behind_it() {
        let queue = queue("1ms 3 +100 | 2ms 3 +100 | 3ms 3 +100 | 3ms 4 0..100 | 5ms 4 200..300");
        let stays: Vec<_> =
            queue.delayed.iter().map(|stay| (stay.offset, stay.entered_ns)).collect();
        assert_eq!(stays, [(0, 1_000_000), (200, 3_000_000)]);
    }

    /// A queueing discipline that cuts a packet up may take the first pieces and drop the rest.
    #[test]
    fn what_was_dropped_and_sent_again_stood_there_since_it_was_sent_again() {
        let queue = queue(
            "1ms 3 +300 | 3ms 4 +100 | 50ms 3 100..200 retransmitted | 50ms 3 300..400
             62ms 4 100..200 retransmitted | 64ms 4 300..400",
        );
        let stays: Vec<_> =
            queue.delayed.iter().map(|stay| (stay.offset, stay.entered_ns)).collect();
        assert_eq!(stays, [(0, 1_000_000), (100, 50_000_000), (300, 50_000_000)]);
        assert_eq!(queue.occupied.total_ns(), 16_000_000);
    }

    #[test]
    fn a_burst_that_drains_does_not_stand() {
        let text =
            (0..30).map(|i| format!("0ms 3 +100 | {}ms 4 +100 |", i * 2)).collect::<String>();
        assert!(!queue(&text).is_standing);
    }

    #[test]
    fn a_device_without_queue_delays_nothing() {
        assert!(queue("1ms 3 +100 no-queue | 9ms 4 +100 no-queue").delayed.is_empty());
    }
}
