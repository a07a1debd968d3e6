//! Packets that hold several datagrams: a program gives them to segmentation in one call (`UDP_SEGMENT`,
//! udp(7)), or the receiver's host joins them (GRO). The datagrams of a packet pass each point one by one,
//! at the packet's time.
//!
//! A socket that takes such packets whole (`UDP_GRO`) has one entry in its queue for all of them, which
//! one read removes. Any other socket's queue has an entry for each datagram.

use sockscope_record::{Kind, Point, Record};

use super::decoder::{Decoder, name_users};
use super::hit::{Head, Hit};
use super::in_transit::Datagram;
use super::udp::{self, Packet};
use super::udp_queue::Waiting;
use crate::layout::constants as raw;

/// Datagrams in one packet, at most (`UDP_MAX_SEGMENTS`); a hit that claims more is taken for one datagram.
const DATAGRAMS_MAX: u32 = 128;

impl Decoder {
    /// One hit of datagrams, but for a read.
    pub(super) fn datagrams(&mut self, head: Head, packet: Packet) {
        let Some(state) = self.connections.of_mut(head.flow / 2) else {
            self.unknown.note(head.kind);
            return;
        };
        if state.is_left_out(head.at_ns) {
            return;
        }
        state.last_ns = head.at_ns;
        let head = if state.is_to_itself { head.folded_to_itself() } else { head };
        let flow = &mut state.flows[head.direction()];
        let is_drop = head.kind == raw::RAW_DROP;
        if is_drop && holds_several(&packet) && !flow.path.datagrams.has_any(packet.each_len) {
            // Out of the queue of a socket that takes such packets whole, where no part is elsewhere.
            let waited = self.sockets.remove(flow.path.datagrams.socket, head.flow, packet.len);
            if let Some(waited) = waited {
                self.hit_of(head, |hit, _| {
                    udp::dropped(hit, &packet, waited, Point::ReceiveEnqueue);
                });
                return;
            }
        }
        let before = self.out.len();
        for len in lengths(&packet) {
            let part = Packet { len, ..packet };
            let part_before = self.out.len();
            let mut hit = Hit {
                head,
                out: &mut self.out,
                threads: &mut self.threads,
                scheduler_offset_ns: self.scheduler_offset_ns,
                enters_at_once: !self.sees_input && head.is_marked(raw::MARK_LOOPBACK),
                lost_until_ns: self.missed.lost_until_ns(state.of_others, head.at_ns),
                is_passed_over: false,
                has_no_position: false,
            };
            if head.kind == raw::RAW_READY && flow.path.datagrams.socket != packet.socket {
                self.udp_buffers.report(&mut hit, packet.socket);
            }
            let skipped = udp::decode(&mut hit, flow, &part);
            if is_drop && hit.out.len() == part_before {
                let waited = self.sockets.remove(flow.path.datagrams.socket, head.flow, len);
                waited.into_iter().for_each(|waited| {
                    udp::dropped(&mut hit, &part, waited, Point::ReceiveEnqueue);
                });
            }
            if let Some(skipped) = skipped {
                self.missed.skipped(&skipped, head.at_ns, state.of_others, &mut self.out);
            }
        }
        if holds_several(&packet) {
            as_one_call(&mut self.out, before);
            as_one_entry(&mut flow.path.datagrams.received, packet.len);
        }
        let unseen = &mut flow.path.datagrams.unseen;
        self.missed.vanished(unseen, state.of_others, &mut self.out);
        let came = flow.path.datagrams.received.drain(..);
        let came = came.map(|datagram| Waiting { flow: head.flow, datagram });
        let push = |waiting| self.sockets.push(packet.socket, head.at_ns, waiting);
        let gone: Vec<_> = came.flat_map(push).collect();
        name_users(state, &self.out[before..], &mut self.changed);
        if head.kind == raw::RAW_RECEIVE {
            self.incoming.taken(state, head.flow);
        }
        self.report_gone(head, packet.buffer, &gone);
    }
}

fn holds_several(packet: &Packet) -> bool {
    let Packet { len, each_len, .. } = *packet;
    each_len > 0 && each_len < len && len.div_ceil(each_len) <= DATAGRAMS_MAX
}

/// Octets of each datagram of a packet: all have the size that the hit names but the last, which may be
/// shorter.
fn lengths(packet: &Packet) -> impl Iterator<Item = u32> + use<> {
    let len = packet.len;
    let size = if holds_several(packet) { packet.each_len } else { len };
    let count = if holds_several(packet) { len.div_ceil(size) } else { 1 };
    (0..count).map(move |number| size.min(len - number * size))
}

/// The datagrams sent in one call were written in one.
fn as_one_call(records: &mut Vec<Record>, from: usize) {
    let parts = records.split_off(from);
    let mut call = None;
    for part in parts {
        match call {
            Some(first) if part.kind == Kind::WriteCall => {
                let first: &mut Record = &mut records[first];
                first.len = first.len.saturating_add(part.len);
            }
            _ => {
                if part.kind == Kind::WriteCall {
                    call = Some(records.len());
                }
                records.push(part);
            }
        }
    }
}

/// The last of these, which arrived with `len` octets in one packet, are one entry of a receive queue.
fn as_one_entry(came: &mut Vec<Datagram>, len: u32) {
    let mut first = came.len();
    let mut sum = 0_u32;
    while sum < len && first > 0 {
        first -= 1;
        sum = came[first].len.saturating_add(sum);
    }
    if sum == len && first < came.len() {
        came.truncate(first + 1);
        came[first].len = len;
    }
}
