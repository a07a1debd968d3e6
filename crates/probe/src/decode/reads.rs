//! Reads of datagrams: which socket's queue each one is of, and what it tells of the datagrams there.

use std::collections::{BTreeMap, BTreeSet};

use sockscope_record::{Kind, Point, Record, marks};

use super::connection::ConnectionState;
use super::connections::Connections;
use super::in_transit::Datagram;
use super::sockets::{Read, SocketQueue, Waiting};
use super::{Decoder, Head, Hit, datagram, name_users};
use crate::layout::RawUdpCopy;

/// From IP to the receive queue a datagram takes at most this long, with interrupts in between.
pub(super) const DELIVERY_NS_MAX: u64 = 100_000_000;

/// Sockets remembered, at most.
const SOCKETS_MAX: usize = 65_536;

/// The receive queues of all datagram sockets, by number; later sockets have greater numbers.
#[derive(Default)]
pub(super) struct Sockets {
    /// With the time of its last hit.
    queues: BTreeMap<u32, (u64, SocketQueue)>,
    /// Hits by then may have been missed.
    doubted_until_ns: u64,
    /// Sockets up to this number may be ones that were forgotten, and of which not all was known.
    forgotten: u32,
    /// Datagrams that were forgotten with their queues.
    given_up: Vec<Waiting>,
}

impl Sockets {
    /// The queue of the socket with this number, of which a hit is.
    pub(super) fn of(&mut self, number: u32, at_ns: u64) -> &mut SocketQueue {
        if self.queues.len() >= SOCKETS_MAX && !self.queues.contains_key(&number) {
            self.make_room();
        }
        let fresh = || (at_ns, SocketQueue::new(number <= self.forgotten));
        let (last_ns, queue) = self.queues.entry(number).or_insert_with(fresh);
        // What was missed since its last hit may be of it.
        if *last_ns <= self.doubted_until_ns {
            queue.doubt();
        }
        *last_ns = at_ns;
        queue
    }

    /// A datagram comes into a socket's queue: those that have left it, if that shows now.
    pub(super) fn push(&mut self, number: u32, at_ns: u64, waiting: Waiting) -> Vec<Waiting> {
        let queue = self.of(number, at_ns);
        let given_up = queue.give_up_if_full();
        let gone = queue.push(waiting);
        self.given_up.extend(given_up);
        gone
    }

    /// Forgets queues in which nothing waits; where that leaves more than half, also those that were
    /// silent for longest, and what waits there.
    fn make_room(&mut self) {
        self.forget(|_, queue| queue.is_empty());
        let excess = self.queues.len().saturating_sub(SOCKETS_MAX / 2);
        if excess > 0 {
            let mut last: Vec<u64> = self.queues.values().map(|(last_ns, _)| *last_ns).collect();
            let (_, newest_ns, _) = last.select_nth_unstable(excess - 1);
            self.forget(|last_ns, _| last_ns <= *newest_ns);
        }
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
    fn give_up_queues_of(&mut self, connections: &BTreeSet<u32>) -> Vec<Waiting> {
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

impl Decoder {
    /// Reads or announcements of datagrams before `until_ns` may have been missed: from there on
    /// nothing is known of the queues of sockets but what later hits tell.
    pub(crate) fn doubt_reads(&mut self, until_ns: u64) {
        self.sockets.doubted_until_ns = until_ns;
        self.sockets.queues.values_mut().for_each(|(_, queue)| queue.doubt());
    }

    /// Datagrams found since the last call of which it is not known when they were read.
    pub(crate) fn take_unplaced(&mut self) -> u64 {
        std::mem::take(&mut self.unplaced)
    }

    /// One read from a datagram socket.
    pub(super) fn read(&mut self, head: Head, raw: &RawUdpCopy) {
        let in_transit = self.incoming.in_transit(&self.connections, raw);
        let queue = self.sockets.of(raw.socket, head.at_ns);
        let told = queue.read(&Read::of(raw, in_transit.is_some()));
        let is_nobodys = told.taken.is_none() && queue.has_strangers();
        self.tell_gone(head, 0, &told.gone);
        if told.is_unplaced || is_nobodys {
            self.threads.waited_ns(raw.thread, head.at_ns, raw.run_delay_ns, head.at_ns);
            return;
        }
        let flow = told.taken.map_or(in_transit.unwrap_or(head.flow), |waiting| waiting.flow);
        let announced = told.taken.map(|waiting| waiting.datagram);
        let head = Head { flow, ..head };
        self.hit_of(head, |hit, state| {
            datagram::read(hit, &mut state.flows[head.direction()], raw, announced);
        });
    }

    /// These datagrams, oldest first, have left a queue by the time of a hit, which shows a buffer or 0.
    pub(super) fn tell_gone(&mut self, head: Head, buffer: u32, gone: &[Waiting]) {
        let given_up = std::mem::take(&mut self.sockets.given_up);
        self.leave_unplaced(&given_up, head.at_ns);
        self.leave_unplaced(gone, head.at_ns);
        for &Waiting { flow, datagram } in gone {
            let head = Head { flow, ..head };
            self.hit_of(head, |hit, state| {
                datagram::gone(hit, &mut state.flows[head.direction()], datagram, buffer);
            });
        }
    }

    /// At the end: what is in queues of which not all is known may have been read, or not.
    pub(super) fn end_reads(&mut self, until_ns: u64) {
        let mut queues = std::mem::take(&mut self.sockets.queues);
        for (last_ns, queue) in queues.values_mut() {
            if *last_ns <= self.sockets.doubted_until_ns {
                queue.doubt();
            }
            self.leave_unplaced(&queue.unsure(), until_ns);
        }
    }

    /// These connections are forgotten: which of their datagrams are read will not be known.
    pub(super) fn give_up_reads_of(&mut self, connections: &BTreeSet<u32>, at_ns: u64) {
        let given_up = self.sockets.give_up_queues_of(connections);
        self.leave_unplaced(&given_up, at_ns);
    }

    /// These datagrams have been read by now, or not: nobody saw it.
    fn leave_unplaced(&mut self, waiting: &[Waiting], at_ns: u64) {
        let Some(since_ns) = waiting.iter().map(|one| one.datagram.at_ns).min() else { return };
        self.unplaced += waiting.len() as u64;
        self.out.push(Record {
            at_ns,
            offset: since_ns,
            detail: waiting.len() as u64,
            kind: Kind::Loss,
            code: Point::ReceiveDequeue.number(),
            // Of datagrams alone: of a stream's reads nothing is missing.
            marks: marks::DERIVED,
            ..Record::default()
        });
    }

    /// Decodes a hit of a flow, and notes who it shows.
    pub(super) fn hit_of(
        &mut self,
        head: Head,
        decode: impl FnOnce(&mut Hit<'_>, &mut ConnectionState),
    ) {
        let Some(state) = self.connections.of_mut(head.flow / 2) else {
            self.note_unknown(head.kind);
            return;
        };
        state.last_ns = state.last_ns.max(head.at_ns);
        let before = self.out.len();
        let mut hit = Hit {
            head,
            out: &mut self.out,
            threads: &mut self.threads,
            scheduler_offset_ns: self.scheduler_offset_ns,
            enters_at_once: false,
            lost_until_ns: self.watch.lost_until_ns(state.of_others),
            is_passed_over: false,
        };
        decode(&mut hit, state);
        name_users(state, &self.out[before..], &mut self.changed);
    }
}

/// Flows of which IP took a datagram that may not be in a receive queue yet, by the port that it is for.
#[derive(Default)]
pub(super) struct Incoming(BTreeSet<(u16, u32)>);

impl Incoming {
    /// IP took a datagram of a flow.
    pub(super) fn taken(&mut self, state: &ConnectionState, flow: u32) {
        self.0.insert((state.receiving_port(flow), flow));
    }

    /// Flows that may have a datagram there.
    #[cfg(test)]
    pub(super) fn flows(&self) -> usize {
        self.0.len()
    }

    /// A connection is forgotten.
    pub(super) fn forget(&mut self, state: &ConnectionState) {
        for flow in &state.flows {
            self.0.remove(&(state.receiving_port(flow.id.0), flow.id.0));
        }
    }

    /// The flow of a logged datagram that may have come into the receive queue that a read is of without
    /// its announcement having been seen by then: the one that the read names where several have one.
    fn in_transit(&mut self, connections: &Connections, read: &RawUdpCopy) -> Option<u32> {
        let first = self.next_in_transit(connections, read, 0)?;
        match self.next_in_transit(connections, read, first.saturating_add(1)) {
            Some(_) => Some(read.flow),
            None => Some(first),
        }
    }

    /// The first such flow from a number on. Flows that have none are not looked at again before IP takes
    /// their next one.
    fn next_in_transit(
        &mut self,
        connections: &Connections,
        read: &RawUdpCopy,
        from: u32,
    ) -> Option<u32> {
        let state = |flow: u32| connections.get(flow / 2);
        let port = state(read.flow)?.receiving_port(read.flow);
        let since_ns = read.at_ns.saturating_sub(DELIVERY_NS_MAX);
        while let Some(&next) = self.0.range((port, from)..=(port, u32::MAX)).next() {
            let (_, flow) = next;
            let datagrams = state(flow).map(|state| &state.flows[(flow & 1) as usize].datagrams);
            if datagrams.is_some_and(|datagrams| datagrams.is_one_in_transit(since_ns)) {
                return Some(flow);
            }
            self.0.remove(&next);
        }
        None
    }
}

#[cfg(test)]
mod tests {
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

    /// Whether the only datagram of a socket is the one that a read of it took, by what is known.
    fn is_told(sockets: &mut Sockets, socket: u32) -> bool {
        let queue = sockets.of(socket, u64::from(socket));
        wait(queue, 1);
        let read = Read { at_ns: 2, len: 90, thread: 7, left: None, is_one_in_transit: true };
        queue.read(&read).taken.is_some()
    }

    #[test]
    fn empty_sockets_make_room_and_those_that_were_doubted_stay_so() {
        let last = SOCKETS_MAX as u32;
        let mut sockets = filled(|queue, number| {
            if number == 9 {
                queue.doubt();
            }
        });
        assert!(is_told(&mut sockets, last + 1));
        assert_eq!(sockets.queues.len(), 1);
        assert!(is_told(&mut sockets, 10));
        assert!(!is_told(&mut sockets, 9));
        // Whatever is doubted, room is made.
        let mut sockets = filled(|queue, _| queue.doubt());
        assert!(is_told(&mut sockets, last + 1));
        assert_eq!((sockets.queues.len(), sockets.given_up.len()), (1, 0));
        assert!(!is_told(&mut sockets, last));
    }

    #[test]
    fn where_datagrams_wait_in_every_socket_the_most_silent_half_is_given_up() {
        let mut sockets = filled(wait);
        assert!(is_told(&mut sockets, SOCKETS_MAX as u32 + 1));
        let half = SOCKETS_MAX / 2;
        assert_eq!((sockets.queues.len(), sockets.given_up.len()), (half + 1, half));
        let given_up = sockets.given_up.iter().map(|one| one.datagram.at_ns);
        assert_eq!(given_up.max(), Some(half as u64));
        assert!(!is_told(&mut sockets, half as u32));
    }
}
