//! Events outside the CPUs, in order of time.
//!
//! Times are nanoseconds of the simulation. Events of the same time happen in the order in which
//! they were scheduled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::link::frames::FrameId;
use crate::link::port::Port;
use crate::scheduler::ProcessIndex;

/// Something that happens outside the CPUs, of hosts, links and processes by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A station of a link sends the frame of its device, or checks whether it can now.
    Attempt { link: u16, station: u16 },
    /// The transmission of this number on a link ends.
    TransmissionEnd { link: u16, number: u32 },
    /// The last bit of a frame has arrived.
    Arrival { interface: u8, host: u16, frame: FrameId },
    /// The last bit of the frame that the port sends has gone out, or the device gave it up.
    Sent { interface: u8, host: u16 },
    /// The frame that the port sends collided.
    Collided { interface: u8, host: u16 },
    /// The protocol timers of a host tick.
    Timers(u16),
    /// The clock of a host ticks.
    Clock(u16),
    /// Processes of a host have to take turns.
    Quantum(u16),
    /// A process of a host begins, or has slept long enough.
    Wake { host: u16, process: ProcessIndex },
}

impl Event {
    /// The frame that the port sends has gone.
    pub(crate) fn sent(Port { host, interface }: Port) -> Self {
        Self::Sent { interface, host }
    }

    /// The frame that the port sends collided.
    pub(crate) fn collided(Port { host, interface }: Port) -> Self {
        Self::Collided { interface, host }
    }

    /// A frame has arrived at the port.
    pub(crate) fn arrival(Port { host, interface }: Port, frame: FrameId) -> Self {
        Self::Arrival { interface, host, frame }
    }
}

/// Future events.
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    /// Events scheduled so far, by which those of the same time are ordered.
    scheduled: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry<E> {
    at_ns: u64,
    number: u64,
    event: E,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), scheduled: 0 }
    }
}

impl<E: Copy> EventQueue<E> {
    /// `event` happens at `at_ns`.
    pub fn schedule(&mut self, at_ns: u64, event: E) {
        self.scheduled += 1;
        self.heap.push(Reverse(Entry { at_ns, number: self.scheduled, event }));
    }

    /// When the next event happens; `u64::MAX` without one.
    pub fn next_ns(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse(next)| next.at_ns)
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<(u64, E)> {
        self.heap.pop().map(|Reverse(Entry { at_ns, event, .. })| (at_ns, event))
    }
}

impl<E> Entry<E> {
    fn key(&self) -> (u64, u64) {
        (self.at_ns, self.number)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
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
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    proptest! {
        /// Against a sorted list: adds and removes events, many at equal times, some far ahead.
        #[test]
        fn any_mix_of_scheduling_and_taking_keeps_the_order(
            steps in prop::collection::vec((0..40_u64, 0..3_u8), 1..400),
        ) {
            let (mut queue, mut sorted) = (EventQueue::default(), Vec::new());
            for (number, (at_ns, kind)) in steps.into_iter().enumerate() {
                if kind == 0 {
                    prop_assert_eq!(queue.pop(), (!sorted.is_empty()).then(|| sorted.remove(0)));
                } else {
                    queue.schedule(at_ns, number);
                    sorted.push((at_ns, number));
                    sorted.sort_unstable();
                }
                let next_ns = sorted.first().map_or(u64::MAX, |(at_ns, _)| *at_ns);
                prop_assert_eq!(queue.next_ns(), next_ns);
            }
        }
    }
}
