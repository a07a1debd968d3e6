//! Hits of datagrams other than reads, and packets that hold several of them: what a program gives to
//! segmentation in one call (`UDP_SEGMENT`, udp(7)), and what was put together on the way in. The
//! datagrams of a packet pass each point one by one, at the packet's time.
//!
//! A socket that takes such packets whole (`UDP_GRO`) has one entry in its queue for all of them, which
//! one read empties; into any other socket's queue they come one by one.

use sockscope_record::{Kind, Record};

use super::in_transit::Datagram;
use super::sockets::Waiting;
use super::{Decoder, Hit, datagram, folded_to_itself, name_users};
use crate::layout::{RawRecord, constants as raw};

/// Datagrams in one packet, at most (`UDP_MAX_SEGMENTS`); a hit that claims more is taken for one datagram.
const DATAGRAMS_MAX: u32 = 128;

impl Decoder {
    /// One hit of datagrams, but for a read.
    pub(super) fn datagrams(&mut self, cpu: u16, raw: &RawRecord) {
        let Some(state) = self.connections.of_mut(raw.flow / 2) else {
            self.note_unknown(raw);
            return;
        };
        state.last_ns = raw.at_ns;
        let raw = if state.is_to_itself { folded_to_itself(raw) } else { *raw };
        let flow = &mut state.flows[(raw.flow & 1) as usize];
        if raw.kind == raw::RAW_DROP && holds_several(&raw) && !flow.datagrams.has_any(raw.seq) {
            // Out of the queue of a socket that takes such packets whole, where no part is elsewhere.
            if let Some(waited) = self.sockets.remove(flow.datagrams.socket, &raw) {
                self.hit_of(cpu, &raw, |hit, _| datagram::dropped(hit, waited, 7));
                return;
            }
        }
        let before = self.out.len();
        for len in lengths(&raw) {
            let part = RawRecord { len, ..raw };
            let part_before = self.out.len();
            let mut hit = Hit {
                raw: &part,
                cpu,
                out: &mut self.out,
                threads: &mut self.threads,
                scheduler_offset_ns: self.scheduler_offset_ns,
                enters_at_once: !self.sees_input && raw.marks & raw::MARK_LOOPBACK != 0,
                lost_until_ns: self.watch.lost_until_ns(state.of_others),
                is_passed_over: false,
            };
            if raw.kind == raw::RAW_READY && flow.datagrams.socket != raw.ack {
                self.described.tell(&mut hit);
            }
            let skipped = datagram::decode(&mut hit, flow);
            if raw.kind == raw::RAW_DROP && hit.out.len() == part_before {
                let waited = self.sockets.remove(flow.datagrams.socket, &part);
                waited.into_iter().for_each(|waited| datagram::dropped(&mut hit, waited, 7));
            }
            if let Some(skipped) = skipped {
                self.watch.skipped(&skipped, raw.at_ns, state.of_others, &mut self.out);
            }
        }
        if holds_several(&raw) {
            as_one_call(&mut self.out, before);
            as_one_entry(&mut flow.datagrams.received, raw.len);
        }
        let came = flow.datagrams.received.drain(..);
        let came = came.map(|datagram| Waiting { flow: raw.flow, datagram });
        let gone: Vec<_> = came.flat_map(|waiting| self.sockets.push(&raw, waiting)).collect();
        name_users(state, &self.out[before..], &mut self.changed);
        if raw.kind == raw::RAW_RECEIVE {
            self.incoming.taken(state, raw.flow);
        }
        self.tell_gone(cpu, &raw, &gone);
    }
}

fn holds_several(raw: &RawRecord) -> bool {
    raw.seq > 0 && raw.seq < raw.len && raw.len.div_ceil(raw.seq) <= DATAGRAMS_MAX
}

/// Octets of each datagram of a packet: all have the size that the hit names but the last, which may be
/// shorter.
fn lengths(raw: &RawRecord) -> impl Iterator<Item = u32> + use<> {
    let len = raw.len;
    let size = if holds_several(raw) { raw.seq } else { len };
    let count = if holds_several(raw) { len.div_ceil(size) } else { 1 };
    (0..count).map(move |number| size.min(len - number * size))
}

/// What was sent in one call was written in one.
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

/// The last of these, which came with `len` octets in one packet, are one entry of a receive queue.
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
