//! The receive queues of all datagram sockets, as many as are remembered.

use std::collections::{BTreeMap, BTreeSet};

use super::in_transit::Datagram;
use super::udp_queue::{SocketQueue, Waiting};

/// Sockets remembered, at most.
const SOCKETS_MAX: usize = 65_536;

/// The receive queues of all datagram sockets, by number; later sockets have greater numbers.
#[derive(Default)]
pub(super) struct Sockets {
    /// With the time of its last hit.
    pub(super) queues: BTreeMap<u32, (u64, SocketQueue)>,
    /// Hits by then may have been missed.
    pub(super) uncertain_until_ns: u64,
    /// Announcements by then may have been missed.
    pub(super) unannounced_until_ns: u64,
    /// Sockets up to this number may be forgotten ones with incompletely known queues.
    forgotten: u32,
    /// Datagrams that were forgotten with their queues.
    pub(super) given_up: Vec<Waiting>,
}

impl Sockets {
    /// The queue of the socket with this number, at a hit.
    pub(super) fn of(&mut self, number: u32, at_ns: u64) -> &mut SocketQueue {
        if self.queues.len() >= SOCKETS_MAX && !self.queues.contains_key(&number) {
            self.make_room();
        }
        let fresh = || (at_ns, SocketQueue::new(number <= self.forgotten));
        let (last_ns, queue) = self.queues.entry(number).or_insert_with(fresh);
        // Misses since its last hit may concern it.
        if *last_ns <= self.unannounced_until_ns {
            queue.mark_announcements_uncertain();
        } else if *last_ns <= self.uncertain_until_ns {
            queue.mark_uncertain();
        }
        *last_ns = at_ns;
        queue
    }

    /// A datagram enters a socket's queue: those that have left it, if that shows now.
    pub(super) fn push(&mut self, number: u32, at_ns: u64, waiting: Waiting) -> Vec<Waiting> {
        let queue = self.of(number, at_ns);
        let given_up = queue.give_up_if_full();
        let gone = queue.push(waiting);
        self.given_up.extend(given_up);
        gone
    }

    /// Forgets queues without datagrams; where that leaves more than half, also those that were
    /// silent for longest, with their datagrams.
    fn make_room(&mut self) {
        self.forget(|_, queue| queue.is_empty());
        let excess = self.queues.len().saturating_sub(SOCKETS_MAX / 2);
        if excess > 0 {
            let mut last: Vec<u64> = self.queues.values().map(|(last_ns, _)| *last_ns).collect();
            let (_, newest_ns, _) = last.select_nth_unstable(excess - 1);
            self.forget(|last_ns, _| last_ns <= *newest_ns);
        }
        debug_assert!(self.queues.len() <= SOCKETS_MAX / 2);
    }

    fn forget(&mut self, is_over: impl Fn(u64, &SocketQueue) -> bool) {
        let Self { queues, forgotten, given_up, .. } = self;
        queues.retain(|number, (last_ns, queue)| {
            let is_over = is_over(*last_ns, queue);
            if is_over {
                let is_known = queue.is_idle();
                *forgotten = if is_known { *forgotten } else { *number.max(forgotten) };
                given_up.extend(queue.give_up());
            }
            !is_over
        });
    }

    /// Of these connections, those that a waiting datagram is of.
    pub(super) fn waiting_of(&self, connections: &BTreeSet<u32>) -> BTreeSet<u32> {
        let queues = self.queues.values().map(|(_, queue)| queue);
        let waiting = queues.flat_map(SocketQueue::flows).map(|flow| flow / 2);
        waiting.filter(|id| connections.contains(id)).collect()
    }

    /// Gives up the queues that hold a datagram of one of these connections.
    pub(super) fn give_up_queues_of(&mut self, connections: &BTreeSet<u32>) -> Vec<Waiting> {
        let mut given_up = Vec::new();
        for (_, queue) in self.queues.values_mut() {
            if queue.flows().any(|flow| connections.contains(&(flow / 2))) {
                given_up.extend(queue.give_up_all());
            }
        }
        given_up
    }

    /// The newest datagram of a flow and length in a socket's queue leaves it.
    pub(super) fn remove(&mut self, number: u32, flow: u32, len: u32) -> Option<Datagram> {
        let (_, queue) = self.queues.get_mut(&number)?;
        queue.remove(flow, len).map(|waiting| waiting.datagram)
    }
}

#[cfg(test)]
mod tests {
    use super::super::udp_queue::Read;
    use super::*;

    /// As many sockets as are remembered, the first one's number being 1.
    fn filled(mut with: impl FnMut(&mut SocketQueue, u64)) -> Sockets {
        let mut sockets = Sockets::default();
        for number in 1..=SOCKETS_MAX as u32 {
            with(sockets.of(number, u64::from(number)), u64::from(number));
        }
        sockets
    }

    fn wait(queue: &mut SocketQueue, at_ns: u64) {
        let datagram = Datagram::at(0, 90, 0, at_ns);
        queue.push(Waiting { flow: 2, datagram });
    }

    /// Whether the decoder knows that a read takes the only datagram of a socket.
    fn is_known(sockets: &mut Sockets, socket: u32) -> bool {
        let queue = sockets.of(socket, u64::from(socket));
        wait(queue, 1);
        let read = Read {
            at_ns: 2,
            len: 90,
            thread: 7,
            left: None,
            is_one_in_transit: true,
            is_transit_doubted: false,
        };
        queue.read(&read).taken.is_some()
    }

    #[test]
    fn empty_sockets_make_room_and_those_that_were_doubted_stay_so() {
        let last = SOCKETS_MAX as u32;
        let mut sockets = filled(|queue, number| {
            if number == 9 {
                queue.mark_uncertain();
            }
        });
        assert!(is_known(&mut sockets, last + 1));
        assert_eq!(sockets.queues.len(), 1);
        assert!(is_known(&mut sockets, 10));
        assert!(!is_known(&mut sockets, 9));
        // Room is made whether queues are uncertain or not.
        let mut sockets = filled(|queue, _| queue.mark_uncertain());
        assert!(is_known(&mut sockets, last + 1));
        assert_eq!((sockets.queues.len(), sockets.given_up.len()), (1, 0));
        assert!(!is_known(&mut sockets, last));
    }

    #[test]
    fn where_datagrams_wait_in_every_socket_the_most_silent_half_is_given_up() {
        let mut sockets = filled(wait);
        assert!(is_known(&mut sockets, SOCKETS_MAX as u32 + 1));
        let half = SOCKETS_MAX / 2;
        assert_eq!((sockets.queues.len(), sockets.given_up.len()), (half + 1, half));
        let given_up = sockets.given_up.iter().map(|one| one.datagram.at_ns);
        assert_eq!(given_up.max(), Some(half as u64));
        assert!(!is_known(&mut sockets, half as u32));
    }
}
