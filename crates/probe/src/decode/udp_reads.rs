//! Reads of datagrams: the queue of each read, and its evidence about the datagrams there.

use std::collections::BTreeSet;

use sockscope_record::{Loss, Point, Record, marks};

use super::decoder::{Decoder, name_users};
use super::flow_state::ConnectionState;
use super::hit::{Head, Hit};
use super::udp;
use super::udp_queue::{Read, Waiting};
use crate::layout::RawUdpCopy;

impl Decoder {
    /// Reads or announcements of datagrams before `until_ns` may have been missed: from there on
    /// the queues of sockets are known only by later hits.
    pub(crate) fn mark_reads_uncertain(&mut self, until_ns: u64) {
        self.sockets.uncertain_until_ns = until_ns;
        self.sockets.queues.values_mut().for_each(|(_, queue)| queue.mark_uncertain());
    }

    /// The same of announcements too: there may be recorded datagrams in the queues that no hit showed.
    pub(crate) fn mark_announcements_uncertain(&mut self, until_ns: u64) {
        self.mark_reads_uncertain(until_ns);
        self.sockets.unannounced_until_ns = until_ns;
        let queues = self.sockets.queues.values_mut();
        queues.for_each(|(_, queue)| queue.mark_announcements_uncertain());
    }

    /// Datagrams with an unknown time of reading, found since the last call.
    pub(crate) fn take_unplaced_reads(&mut self) -> u64 {
        std::mem::take(&mut self.unplaced_reads)
    }

    /// One read from a datagram socket.
    pub(super) fn read(&mut self, head: Head, raw: &RawUdpCopy) {
        let lost_until_ns = self.missed.lost_until_ns(true, head.at_ns);
        let in_transit = self.incoming.in_transit(&self.connections, raw, lost_until_ns);
        let queue = self.sockets.of(raw.socket, head.at_ns);
        let outcome = queue.read(&Read::of(raw, in_transit));
        let is_unlogged = outcome.taken.is_none() && queue.has_unlogged();
        self.report_gone(head, 0, &outcome.gone);
        if outcome.is_unplaced || is_unlogged {
            self.threads.waited_ns(raw.thread, head.at_ns, raw.run_delay_ns, head.at_ns);
            return;
        }
        let flow = in_transit.map_or(head.flow, |one| one.flow);
        let flow = outcome.taken.map_or(flow, |waiting| waiting.flow);
        let announced = outcome.taken.map(|waiting| waiting.datagram);
        let head = Head { flow, ..head };
        self.hit_of(head, |hit, state| {
            udp::read(hit, &mut state.flows[head.direction()], raw, announced);
        });
    }

    /// These datagrams, oldest first, have left a queue by the time of a hit, which shows a buffer or 0.
    pub(super) fn report_gone(&mut self, head: Head, buffer: u32, gone: &[Waiting]) {
        let given_up = std::mem::take(&mut self.sockets.given_up);
        self.leave_unplaced(&given_up, head.at_ns);
        self.leave_unplaced(gone, head.at_ns);
        for &Waiting { flow, datagram } in gone {
            let head = Head { flow, ..head };
            self.hit_of(head, |hit, state| {
                udp::gone(hit, &mut state.flows[head.direction()], datagram, buffer);
            });
        }
    }

    /// At the end: datagrams in incompletely known queues may have been read, or not.
    pub(super) fn end_reads(&mut self, until_ns: u64) {
        let mut queues = std::mem::take(&mut self.sockets.queues);
        for (last_ns, queue) in queues.values_mut() {
            if *last_ns <= self.sockets.uncertain_until_ns {
                queue.mark_uncertain();
            }
            self.leave_unplaced(&queue.uncertain(), until_ns);
        }
    }

    /// These connections are forgotten: the reads of their datagrams remain unknown.
    pub(super) fn give_up_reads_of(&mut self, connections: &BTreeSet<u32>, at_ns: u64) {
        let given_up = self.sockets.give_up_queues_of(connections);
        self.leave_unplaced(&given_up, at_ns);
    }

    /// These datagrams have been read by now, or not: no read of them was recorded. Of a connection that was left out
    /// none would have been.
    fn leave_unplaced(&mut self, waiting: &[Waiting], at_ns: u64) {
        let is_left_out =
            |flow: u32| self.state(flow / 2).is_some_and(|state| state.left_out_ns.is_some());
        let waiting = waiting.iter().filter(|one| !is_left_out(one.flow));
        let times: Vec<u64> = waiting.map(|one| one.datagram.at_ns).collect();
        let Some(since_ns) = times.iter().copied().min() else { return };
        self.unplaced_reads += times.len() as u64;
        let loss = Loss::new(Some(Point::ReceiveDequeue), times.len() as u64, since_ns);
        // Of datagrams alone: of a stream's reads nothing is missing.
        let record = Record { at_ns, marks: marks::DERIVED, ..Record::default() };
        self.out.push(record.with_loss(loss));
    }

    /// Decodes a hit of a flow, and notes the processes that it shows.
    pub(super) fn hit_of(
        &mut self,
        head: Head,
        decode: impl FnOnce(&mut Hit<'_>, &mut ConnectionState),
    ) {
        let Some(state) = self.connections.of_mut(head.flow / 2) else {
            self.unknown.note(head.kind);
            return;
        };
        if state.is_left_out(head.at_ns) {
            return;
        }
        state.last_ns = state.last_ns.max(head.at_ns);
        let before = self.out.len();
        let mut hit = Hit {
            head,
            out: &mut self.out,
            threads: &mut self.threads,
            scheduler_offset_ns: self.scheduler_offset_ns,
            enters_at_once: false,
            lost_until_ns: self.missed.lost_until_ns(state.of_others, head.at_ns),
            is_passed_over: false,
            has_no_position: false,
        };
        decode(&mut hit, state);
        name_users(state, &self.out[before..], &mut self.changed);
    }
}
