//! What happens outside the CPUs, in order of time.
//!
//! Times are nanoseconds of the simulation. Events of the same time happen in the order in which
//! they were scheduled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::link::frames::FrameId;
use crate::link::port::Port;

/// Something that happens outside the CPUs. Hosts, links and processes stand here by their numbers,
/// in eight bytes, which travel in a register: none has its place across those of two others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A station of a link sends what its device has handed over, or looks whether it can now.
    Attempt { link: u16, station: u32 },
    /// The transmission of this number on a link ends.
    TransmissionEnd { link: u16, number: u32 },
    /// The last bit of a frame has come in.
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
    Wake { host: u16, process: u32 },
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

    /// A frame has come in at the port.
    pub(crate) fn arrival(Port { host, interface }: Port, frame: FrameId) -> Self {
        Self::Arrival { interface, host, frame }
    }
}

/// Events that are kept in a sorted list, at least: more than a busy link has under way.
const NEAR_MAX: usize = 16;

/// Events to come.
///
/// Most events are scheduled shortly before they happen. The soonest ones stand in a short list,
/// so that they never pass through the heap, which holds the rest.
#[derive(Debug)]
pub struct EventQueue<E> {
    /// The soonest events, the next one last; empty only when the heap is.
    near: Vec<Entry<E>>,
    /// When the next event happens; `u64::MAX` when there is none.
    next_ns: u64,
    /// Events that come after all of `near`.
    far: BinaryHeap<Reverse<FarEntry<E>>>,
    /// Events that went to the heap at once, and such as had to leave the list for it.
    scheduled: i64,
    moved: i64,
}

#[derive(Debug, Clone, Copy)]
struct Entry<E> {
    at_ns: u64,
    event: E,
}

/// An event in the heap, which does not keep the order of those that happen at the same time.
#[derive(Debug, Clone, Copy)]
struct FarEntry<E> {
    /// Tells the order of such. What leaves the list comes before all that is in the heap.
    number: i64,
    entry: Entry<E>,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        let near = Vec::with_capacity(NEAR_MAX);
        Self { near, next_ns: u64::MAX, far: BinaryHeap::new(), scheduled: 0, moved: 0 }
    }
}

impl<E: Copy> EventQueue<E> {
    /// `event` happens at `at_ns`.
    pub fn schedule(&mut self, at_ns: u64, event: E) {
        // Most events come before all others.
        if at_ns < self.next_ns && self.near.len() < self.near.capacity() {
            self.near.push(Entry { at_ns, event });
            self.next_ns = at_ns;
        } else {
            self.schedule_later(Entry { at_ns, event });
        }
    }

    /// As [`EventQueue::schedule`], of an event that need not be the next one.
    fn schedule_later(&mut self, entry: Entry<E>) {
        let is_full = self.near.len() == self.near.capacity();
        let is_last = self.near.first().is_some_and(|last| last.at_ns <= entry.at_ns);
        if is_last && (is_full || !self.far.is_empty()) {
            self.scheduled += 1;
            self.far.push(Reverse(FarEntry { number: self.scheduled, entry }));
            return;
        }
        if is_full {
            self.move_last();
        }
        self.insert_near(entry);
    }

    /// The last one of the list makes room; it comes before all that went to the heap up to now.
    fn move_last(&mut self) {
        self.moved -= 1;
        let last = self.near.remove(0);
        self.far.push(Reverse(FarEntry { number: self.moved, entry: last }));
    }

    /// Those that come before it move up one by one from the end: they are few.
    fn insert_near(&mut self, entry: Entry<E>) {
        let mut place = self.near.len();
        self.near.push(entry);
        while place > 0 && self.near[place - 1].at_ns <= entry.at_ns {
            self.near.swap(place - 1, place);
            place -= 1;
        }
        self.next_ns = self.near.last().map_or(u64::MAX, |next| next.at_ns);
    }

    /// When the next event happens; `u64::MAX` when there is none.
    #[must_use]
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<(u64, E)> {
        let Entry { at_ns, event } = self.near.pop()?;
        match self.near.last() {
            Some(next) => self.next_ns = next.at_ns,
            None => self.refill(),
        }
        Some((at_ns, event))
    }

    /// The soonest events come over from the heap; half a list, so that there is room for others.
    fn refill(&mut self) {
        let soonest = std::iter::from_fn(|| self.far.pop()).take(NEAR_MAX / 2);
        self.near.extend(soonest.map(|Reverse(far)| far.entry));
        self.near.reverse();
        self.next_ns = self.near.last().map_or(u64::MAX, |next| next.at_ns);
    }
}

impl<E> FarEntry<E> {
    fn key(&self) -> (u64, i64) {
        (self.entry.at_ns, self.number)
    }
}

impl<E> PartialEq for FarEntry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for FarEntry<E> {}

impl<E> PartialOrd for FarEntry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for FarEntry<E> {
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
        /// Against a sorted list: events come and go, many at equal times, some far ahead.
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
