//! An engine's observations of its own queues: points 1, 2, 7 and 8, and the ends of transactions.
//!
//! An engine that observes keeps a [`Seen`] for each passage until its user takes it; another engine
//! keeps nothing. Point 1 is the time when the message of a packet was handed down or asked for
//! again. Point 2 is when the packet was made, point 7 when it arrived, point 8 when its message was
//! whole and handed up. A packet that adds to no message passes 7 and 8 at once. Times are those
//! given to the engine. [`crate::driver::Trace`] makes records of them.

use std::collections::{BTreeMap, VecDeque};

use crate::wire::Entity;

/// Passages that wait to be taken, at most; those that did not fit are counted.
const SEEN_MAX: usize = 1 << 20;

/// One passage or event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen<A> {
    /// When, in nanoseconds of the engine's clock.
    pub at_ns: u64,
    /// The other end.
    pub peer: A,
    /// The event.
    pub sight: Sight,
}

/// An observed event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// Points 1 and 2: a packet leaves.
    Sent {
        /// Octets of it.
        octets: u32,
        /// When it entered point 1.
        since_ns: u64,
    },
    /// Point 7: a packet arrived.
    Came {
        /// Its number, from 1 on, among all that this engine took.
        packet: u64,
        /// Octets of it.
        octets: u32,
    },
    /// Point 8: a packet's data was handed up, or turned out to be unneeded.
    Taken {
        /// Its number.
        packet: u64,
    },
    /// Blocks are sent again.
    BlocksAgain(u32),
    /// A transaction ended, at its client.
    Ended {
        /// Its number.
        transaction: u32,
        /// When it began.
        began_ns: u64,
        /// Octets of the Request's segment.
        octets: u32,
        /// Whether a Response arrived.
        is_answered: bool,
    },
}

/// Observations not taken yet.
#[derive(Debug)]
pub struct Log<A> {
    seen: Option<VecDeque<Seen<A>>>,
    /// The latest time given.
    now_ns: u64,
    packets: u64,
    /// The packet in process.
    current: Option<(A, u64)>,
    /// Packets of messages that are not whole, by the other entity.
    waiting: BTreeMap<Entity, Vec<(A, u64)>>,
    waiting_packets: usize,
    lost: u64,
}

impl<A> Default for Log<A> {
    fn default() -> Self {
        Self {
            seen: None,
            now_ns: 0,
            packets: 0,
            current: None,
            waiting: BTreeMap::new(),
            waiting_packets: 0,
            lost: 0,
        }
    }
}

impl<A: Copy> Log<A> {
    /// Keeps observations from now on.
    pub fn begin(&mut self) {
        self.seen.get_or_insert_default();
    }

    /// The next observation, nearly in order of time.
    pub fn poll(&mut self) -> Option<Seen<A>> {
        self.seen.as_mut()?.pop_front()
    }

    /// Passages that did not fit.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    pub(crate) fn tell(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// A packet was received; [`Log::looked_at`] ends its processing.
    pub(crate) fn came(&mut self, now_ns: u64, from: A, octets: usize) {
        self.now_ns = now_ns;
        if self.seen.is_some() {
            self.packets += 1;
            let packet = self.packets;
            self.current = Some((from, packet));
            self.push(from, Sight::Came { packet, octets: octets as u32 });
        }
    }

    /// The packet waits for the rest of its message, which `entity` sends. With too many that wait it is
    /// taken at once.
    pub(crate) fn hold(&mut self, entity: Entity) {
        if self.waiting_packets < SEEN_MAX
            && let Some(current) = self.current.take()
        {
            self.waiting.entry(entity).or_default().push(current);
            self.waiting_packets += 1;
        }
    }

    /// The message that `entity` sends is whole, or given up.
    pub(crate) fn release(&mut self, entity: Entity) {
        if self.seen.is_some() {
            let packets = self.waiting.remove(&entity).unwrap_or_default();
            assert!(packets.len() <= self.waiting_packets, "more packets wait than are counted");
            self.waiting_packets -= packets.len();
            packets.into_iter().for_each(|(from, packet)| self.push(from, Sight::Taken { packet }));
        }
    }

    /// No message is waited for any more.
    pub(crate) fn release_all(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_packets = 0;
        let packets = waiting.into_values().flatten();
        packets.for_each(|(from, packet)| self.push(from, Sight::Taken { packet }));
    }

    /// The packet that arrived was dealt with.
    pub(crate) fn looked_at(&mut self) {
        if let Some((from, packet)) = self.current.take() {
            self.push(from, Sight::Taken { packet });
        }
    }

    /// A packet leaves; `since_ns` is when it was queued, by default now.
    pub(crate) fn sent(&mut self, now_ns: u64, to: A, octets: usize, since_ns: Option<u64>) {
        if self.seen.is_some() {
            let since_ns = since_ns.unwrap_or(self.now_ns).min(now_ns);
            self.now_ns = now_ns;
            self.push(to, Sight::Sent { octets: octets as u32, since_ns });
        }
    }

    pub(crate) fn push(&mut self, peer: A, sight: Sight) {
        let Some(seen) = &mut self.seen else { return };
        if seen.len() < SEEN_MAX {
            seen.push_back(Seen { at_ns: self.now_ns, peer, sight });
        } else {
            self.lost += 1;
        }
    }
}
