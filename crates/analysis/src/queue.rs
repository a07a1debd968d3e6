//! One queue from its two curves: its length over time, and the residence time of each byte.
//!
//! A byte is in the queue from its first passage of the point where bytes enter to its first passage
//! of the point where they leave. The two times may be from the clocks of two CPUs, or one of them
//! may be derived: where a byte seems to leave before it entered, it counts as leaving at the instant
//! at which it entered, so that lengths never fall below 0.

use crate::Passage;
use crate::curve::{Curve, LatestPassage};
use crate::drop_gap::DropGap;
use crate::ranges::{Range, are_in_order, union_of};

/// From `at_ns` on, the queue holds `length_bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueStep {
    /// Its time, in nanoseconds of the trace's clock.
    pub at_ns: u64,
    /// Bytes in the queue after everything that happened at that instant; `None` where missed records
    /// make it unknown.
    pub length_bytes: Option<u64>,
}

/// Neighbouring bytes that entered together and left together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Residence {
    /// Time of their entry, in nanoseconds of the trace's clock.
    pub entered_ns: u64,
    /// Time of their exit; before their entry, if the clocks of the two points disagree.
    pub left_ns: u64,
    /// Position of the first one.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

impl Residence {
    /// From entering to leaving, nanoseconds; 0 where the clocks of the two points disagree.
    pub fn delay_ns(&self) -> u64 {
        self.left_ns.saturating_sub(self.entered_ns)
    }
}

/// Length over time of the queue between two points, whose passes are given in time order.
///
/// Only bytes seen to enter count, each once. One step for each instant at which the length may have
/// changed; no step when no byte entered.
pub fn queue_lengths(entered: &[Passage], left: &[Passage]) -> Vec<QueueStep> {
    let none = Curve::default();
    Queue::new(&Curve::of(entered), &Curve::of(left), &none, 0, QueueLists::default()).steps()
}

/// Residence times of bytes between two points, whose passes are given in time order; by position.
pub fn queue_delays(entered: &[Passage], left: &[Passage]) -> Vec<Residence> {
    residences(&Curve::of(entered), &Curve::of(left), 0)
}

/// As [`queue_delays`], for bytes from position `floor` on.
pub(crate) fn residences(entered: &Curve, left: &Curve, floor: u64) -> Vec<Residence> {
    let mut residences = Vec::with_capacity(entered.seen.len().max(left.seen.len()));
    each_residence(entered, left, floor, |residence| residences.push(residence));
    residences
}

/// Calls `each` with those residences, by position.
pub(crate) fn each_residence(
    entered: &Curve,
    left: &Curve,
    floor: u64,
    mut each: impl FnMut(Residence),
) {
    join(entered, left, floor, |residence, is_seen| {
        if is_seen {
            each(residence);
        }
    });
}

/// Calls `each` with every overlap of an entering and a leaving passage, by position, and whether both times were
/// seen.
pub(crate) fn join(entered: &Curve, left: &Curve, floor: u64, each: impl FnMut(Residence, bool)) {
    if entered.missed.is_empty() && left.missed.is_empty() {
        let [entered, left] = [entered, left].map(|curve| curve.seen.iter());
        let latest = LatestPassage::of_seen;
        join_in_order(entered.map(latest), left.map(latest), floor, each);
    } else {
        join_in_order(entered.latest(), left.latest(), floor, each);
    }
}

fn join_in_order(
    entered: impl Iterator<Item = LatestPassage>,
    mut leaving: impl Iterator<Item = LatestPassage>,
    floor: u64,
    mut each: impl FnMut(Residence, bool),
) {
    let mut next = leaving.next();
    let mut before = 0;
    for enter in entered {
        if next.is_none() {
            break;
        }
        debug_assert!(before <= enter.offset && enter.offset <= enter.end);
        before = enter.offset;
        while let Some(leave) = next {
            let (offset, end) = overlap(&enter, &leave, floor);
            if offset < end {
                let (entered_ns, left_ns) = (enter.at_ns, leave.at_ns);
                let len = end - offset;
                each(Residence { entered_ns, left_ns, offset, len }, enter.seen && leave.seen);
            }
            if leave.end > enter.end {
                break;
            }
            next = leaving.next();
        }
    }
}

fn overlap(a: &LatestPassage, b: &LatestPassage, floor: u64) -> Range {
    (a.offset.max(b.offset).max(floor), a.end.min(b.end))
}

/// Changes of one queue's length, by time.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Time and bytes of all that enters.
    enters: Vec<(u64, u64)>,
    /// Time and bytes of all that leaves, never before it entered.
    leaves: Vec<(u64, u64)>,
    /// Times at which the length is unknown; they neither touch nor overlap.
    unknown: Vec<Range>,
}

/// The lists of a [`Queue`]. Eight stages use the same memory one after the other: to allocate it for each of them took
/// a twentieth of the analysis of many small connections.
#[derive(Debug, Default)]
pub(crate) struct QueueLists {
    enters: Vec<(u64, u64)>,
    leaves: Vec<(u64, u64)>,
}

impl Queue {
    /// Bytes enter by `entered` and leave by `left`, or else by `dropped`; those below `floor` do not
    /// count.
    pub(crate) fn new(
        entered: &Curve,
        left: &Curve,
        dropped: &Curve,
        floor: u64,
        lists: QueueLists,
    ) -> Self {
        let QueueLists { mut enters, mut leaves } = lists;
        enters.clear();
        enters.reserve(entered.seen.len());
        for passage in entered.latest().filter(|passage| passage.end > floor) {
            enters.push((passage.at_ns, passage.end - passage.offset.max(floor)));
        }
        leaves.clear();
        leaves.reserve(left.seen.len());
        let dropped_inside = dropped.without(&left.covered);
        for way_out in [left, &dropped_inside] {
            join(entered, way_out, floor, |residence, _| {
                leaves.push((residence.left_ns.max(residence.entered_ns), residence.len));
            });
        }
        let unknown = union_of(entered.unknown_ns().chain(left.unknown_ns()));
        let mut queue = Self { enters, leaves, unknown };
        queue.sort();
        debug_assert!(are_in_order(&queue.unknown));
        debug_assert!(bytes(&queue.leaves) <= bytes(&queue.enters), "no byte leaves twice");
        queue
    }

    /// Gives the memory of the lists back, for the next queue.
    pub(crate) fn into_lists(self) -> QueueLists {
        QueueLists { enters: self.enters, leaves: self.leaves }
    }

    /// Bytes from `floor` on leave when they are dropped, and enter again at their return.
    pub(crate) fn take_out(&mut self, gaps: &[DropGap], floor: u64) {
        for gap in gaps {
            debug_assert!(gap.offset < gap.end);
            debug_assert!(gap.until_ns.is_none_or(|until_ns| gap.from_ns <= until_ns));
            let bytes = gap.end.saturating_sub(gap.offset.max(floor));
            self.leaves.push((gap.from_ns, bytes));
            self.enters.extend(gap.until_ns.map(|until_ns| (until_ns, bytes)));
        }
        if !gaps.is_empty() {
            self.sort();
        }
    }

    fn sort(&mut self) {
        for changes in [&mut self.enters, &mut self.leaves] {
            if !changes.is_sorted_by_key(|change| change.0) {
                changes.sort_by_key(|change| change.0);
            }
        }
    }

    /// Number of times at which the length becomes unknown.
    pub(crate) fn unknown_intervals(&self) -> u64 {
        self.unknown.len() as u64
    }

    /// The length after each instant at which something entered or left, as if all were known.
    fn changes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (mut enters, mut leaves) = (self.enters.as_slice(), self.leaves.as_slice());
        let mut length = 0u64;
        std::iter::from_fn(move || {
            let next = [enters.first(), leaves.first()];
            let at_ns = next.into_iter().flatten().map(|change| change.0).min()?;
            length += take_until(&mut enters, at_ns);
            // Bytes that leave entered at the same time or before, so that this cannot fall below 0.
            length = length.saturating_sub(take_until(&mut leaves, at_ns));
            Some((at_ns, length))
        })
    }

    /// The length over time.
    pub(crate) fn steps(&self) -> Vec<QueueStep> {
        let mut steps = Vec::with_capacity(self.enters.len() + self.leaves.len());
        self.each_step(|step| steps.push(step));
        steps
    }

    /// Calls `each` with every step in time order; within an unknown interval there is only the one
    /// that opens it, and the one that ends it.
    pub(crate) fn each_step(&self, mut each: impl FnMut(QueueStep)) {
        let mut unknown = self.unknown.iter().copied().peekable();
        // Where the open unknown interval ends.
        let mut unknown_until_ns = None;
        let mut length = 0;
        for (at_ns, after) in self.changes() {
            loop {
                if let Some(until_ns) = unknown_until_ns {
                    if until_ns > at_ns {
                        break;
                    }
                    unknown_until_ns = None;
                    if until_ns < at_ns {
                        each(QueueStep { at_ns: until_ns, length_bytes: Some(length) });
                    }
                }
                match unknown.peek() {
                    Some(&(from_ns, until_ns)) if from_ns <= at_ns => {
                        each(QueueStep { at_ns: from_ns, length_bytes: None });
                        unknown_until_ns = Some(until_ns);
                        unknown.next();
                    }
                    _ => break,
                }
            }
            if unknown_until_ns.is_none() {
                each(QueueStep { at_ns, length_bytes: Some(after) });
            }
            length = after;
        }
        if let Some(until_ns) = unknown_until_ns
            && until_ns < u64::MAX
        {
            each(QueueStep { at_ns: until_ns, length_bytes: Some(length) });
        }
        for (from_ns, _) in unknown {
            each(QueueStep { at_ns: from_ns, length_bytes: None });
        }
    }
}

/// Bytes of all changes.
fn bytes(changes: &[(u64, u64)]) -> u128 {
    changes.iter().map(|change| u128::from(change.1)).sum()
}

/// Takes all changes at or before `at_ns` off the front: their bytes.
fn take_until(changes: &mut &[(u64, u64)], at_ns: u64) -> u64 {
    let mut bytes = 0;
    while let Some((&(time, change), rest)) = changes.split_first()
        && time <= at_ns
    {
        bytes += change;
        *changes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use insta::assert_snapshot;
    use sockscope_record::Point;

    fn lengths(text: &str) -> String {
        let store = testing::store(text);
        let flow = &store.flows[0];
        let steps = queue_lengths(flow.at(Point::SendEnqueue), flow.at(Point::SendDequeue));
        let shown = steps.iter().map(|step| match step.length_bytes {
            Some(length) => format!("{} {length}", step.at_ns),
            None => format!("{} ?", step.at_ns),
        });
        shown.collect::<Vec<_>>().join(" | ")
    }

    fn delays(text: &str) -> String {
        let store = testing::store(text);
        let flow = &store.flows[0];
        let runs = queue_delays(flow.at(Point::SendEnqueue), flow.at(Point::SendDequeue));
        let shown =
            runs.iter().map(|run| format!("{}+{} {}ns", run.offset, run.len, run.delay_ns()));
        shown.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn one_write_taken_as_three_segments_shrinks_in_three_steps() {
        let text = "10 1 +300 | 20 2 +100 | 30 2 +100 | 50 2 +100";
        assert_snapshot!(lengths(text), @"10 300 | 20 200 | 30 100 | 50 0");
        assert_snapshot!(delays(text), @"0+100 10ns | 100+100 20ns | 200+100 40ns");
    }

    #[test]
    fn two_writes_taken_as_one_segment_keep_their_own_delays() {
        let text = "10 1 +100 | 15 1 +50 | 40 2 +150";
        assert_snapshot!(lengths(text), @"10 100 | 15 150 | 40 0");
        assert_snapshot!(delays(text), @"0+100 30ns | 100+50 25ns");
    }

    #[test]
    fn bytes_that_pass_at_one_instant_never_make_a_queue() {
        assert_snapshot!(lengths("10 1-2 +100 | 20 1-2 +100"), @"10 0 | 20 0");
    }

    #[test]
    fn a_retransmission_neither_enters_nor_leaves_again() {
        assert_snapshot!(lengths("10 1 +100 | 20 2 0..100 | 30 1 +50 | 40 2 0..100 retransmitted"),
            @"10 100 | 20 0 | 30 50");
    }

    #[test]
    fn clocks_that_disagree_give_no_time_and_no_negative_length() {
        let text = "10 2 +100 | 12 1 +100 | 20 1 +50 | 30 2 +50";
        assert_snapshot!(lengths(text), @"12 0 | 20 50 | 30 0");
        assert_snapshot!(delays(text), @"0+100 0ns | 100+50 10ns");
    }

    #[test]
    fn bytes_not_seen_to_enter_do_not_count() {
        assert_snapshot!(lengths("10 2 0..100 | 20 1 100..200 | 30 2 100..200"), @"20 100 | 30 0");
    }

    #[test]
    fn bytes_that_overtake_leave_from_their_own_place() {
        let text = "10 1 +100 | 20 1 +100 | 30 2 100..200 | 40 2 0..100";
        assert_snapshot!(lengths(text), @"10 100 | 20 200 | 30 100 | 40 0");
        assert_snapshot!(delays(text), @"0+100 30ns | 100+100 10ns");
    }
}
