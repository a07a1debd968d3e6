//! Urgent data (RFC 793 §3.1 and §3.9, RFC 1122 §4.2.2.4).
//!
//! Inside, a number is always the one behind the urgent octet. A header's pointer counts from the segment's first
//! number to there, or to the octet itself, by the personality's [`UrgentPointer`].

use sockscope_record::tcp_flags;

use super::input::Arrival;
use super::rules::UrgentPointer;
use super::seq::Seq;
use super::tcb::{State, Tcb};
use super::{block, block_mut};
use crate::effect::{Channel, Effect};
use crate::meter::Meter;
use crate::socket::{Socket, SocketId};
use crate::stack::Stack;

impl UrgentPointer {
    /// The pointer of a segment at `seq` when urgent data end before `up`; `None` without urgent data there. A header
    /// names no more than 65,535: the rest is announced by later segments.
    pub(super) fn of(self, seq: Seq, up: Seq) -> Option<u16> {
        let behind = up.since(seq);
        if behind <= 0 {
            return None;
        }
        let pointer = match self {
            Self::Behind => behind,
            Self::AtOctet => behind - 1,
        };
        Some(u16::try_from(pointer).unwrap_or(u16::MAX))
    }

    /// Octets of the stream from the segment's first number to behind the urgent octet; 0 for none.
    pub(super) fn octets(self, pointer: u16) -> u32 {
        match self {
            Self::Behind => u32::from(pointer),
            Self::AtOctet => u32::from(pointer) + 1,
        }
    }
}

impl Tcb {
    /// Everything in the send buffer, `queued` bytes, is urgent from now on.
    pub(super) fn all_is_urgent(&mut self, queued: u32) {
        self.snd.up = self.snd.data_start() + queued;
    }

    /// Urgent data are not acknowledged: a segment leaves, with data or without, into a closed window as well.
    pub(super) fn has_urgent(&self) -> bool {
        self.snd.up.is_after(self.snd.una)
    }

    /// A segment from `seq` on has left. Behind the urgent data the sources pull their end along, so that it does not
    /// become a number of the future. Should the segment with the urgent octet be lost, it is sent again without its
    /// pointer.
    pub(super) fn pull_urgent_along(&mut self, seq: Seq) {
        if !self.snd.up.is_after(seq) {
            self.snd.up = self.snd.una;
        }
    }
}

impl Arrival {
    /// `before` numbers were cut off the front.
    pub(super) fn cut_urgent(&mut self, before: u32) {
        self.urgent = self.urgent.saturating_sub(before);
        if self.urgent == 0 {
            self.clear(tcp_flags::URG);
        }
    }
}

impl Stack {
    /// Urgent data are announced, and their last octet may be in this segment (RFC 9293 §3.10.7.4, sixth check).
    pub(super) fn take_urgent(&mut self, id: SocketId, arrival: &Arrival, meter: &mut Meter) {
        let storage_max = self.personality.socket.buffers.storage_bytes_max;
        let socket = &mut self.sockets[id];
        let state = block(socket).state;
        let is_open = state >= State::Established && !state.has_fin();
        // A pointer beyond everything that the buffer can hold is nonsense.
        let is_sound = arrival.urgent > 0 && arrival.urgent + socket.rcv.cc() <= storage_max;
        if !(arrival.has(tcp_flags::URG) && is_open && is_sound) {
            block_mut(socket).pull_received_along();
            return;
        }
        let up = arrival.header.seq + arrival.urgent;
        let rcv = &mut block_mut(socket).rcv;
        let behind = up.since(rcv.nxt);
        let is_new = up.is_after(rcv.up);
        if is_new {
            rcv.up = up;
        }
        let is_last = up == rcv.up;
        let position = rcv.bytes.checked_add_signed(i64::from(behind) - 1);
        let Some(position) = position else { return };
        if is_new {
            socket.urgent.announce(position, socket.rcv.left());
            meter.effect(Effect::Wakeup(Channel::Urgent(id)));
        }
        if behind > 0 && arrival.urgent <= arrival.len && !socket.options.out_of_band_inline {
            let at = (arrival.skip + arrival.urgent - 1) as usize;
            let mut octet = [0];
            self.pool.copy_to(&arrival.chain, at, &mut octet);
            socket.urgent.keep_apart(position, octet[0], is_last);
        }
    }
}

impl Tcb {
    /// The end of urgent data received does not fall behind what is expected next.
    pub(super) fn pull_received_along(&mut self) {
        self.rcv.up = self.rcv.up.later(self.rcv.nxt);
    }
}

impl Socket {
    /// The position of the last octet kept apart among `len` octets of the stream that end at `to`.
    pub(super) fn apart_in(&self, to: u64, len: usize) -> Option<u64> {
        self.urgent.apart_between(to - len as u64, to)
    }
}
