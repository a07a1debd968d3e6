//! What happens outside the CPUs, in order of time.
//!
//! Times are nanoseconds of the simulation. Events of the same time happen in the order in which
//! they were scheduled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::link::{FrameId, LinkId, LinkTimer, Port};
use crate::process::ProcessId;

/// Something that happens outside the CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A link asked for it.
    Link(LinkId, LinkTimer),
    /// The last bit of a frame has come in.
    Arrival(Port, FrameId),
    /// The last bit of the frame that the port sends has gone out, or the device gave it up.
    Sent(Port),
    /// The frame that the port sends collided.
    Collided(Port),
    /// The driver may hand the device its next frame.
    DriverReady(Port),
    /// The protocol timers of a host tick.
    Timers(usize),
    /// The clock of a host ticks.
    Clock(usize),
    /// Processes of a host have to take turns.
    Quantum(usize),
    /// A process begins, or has slept long enough.
    Wake(ProcessId),
}

/// Events to come.
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    sequence: u64,
}

#[derive(Debug)]
struct Entry<E> {
    /// The time, and below it the sequence number: one comparison tells which is first.
    key: u128,
    event: E,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), sequence: 0 }
    }
}

impl<E> EventQueue<E> {
    /// `event` happens at `at_ns`.
    pub fn schedule(&mut self, at_ns: u64, event: E) {
        self.sequence += 1;
        let key = u128::from(at_ns) << 64 | u128::from(self.sequence);
        self.heap.push(Reverse(Entry { key, event }));
    }

    /// When the next event happens; `u64::MAX` when there is none.
    #[must_use]
    pub fn next_ns(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse(entry)| entry.at_ns())
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<(u64, E)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at_ns(), entry.event))
    }
}

impl<E> Entry<E> {
    fn at_ns(&self) -> u64 {
        (self.key >> 64) as u64
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_by_the_order_of_scheduling() {
        let mut queue = EventQueue::default();
        for (at_ns, event) in [(20, "d"), (10, "a"), (10, "b"), (15, "c"), (20, "e")] {
            queue.schedule(at_ns, event);
        }
        assert_eq!(queue.next_ns(), 10);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [(10, "a"), (10, "b"), (15, "c"), (20, "d"), (20, "e")]);
        assert_eq!(queue.next_ns(), u64::MAX);
    }
}
