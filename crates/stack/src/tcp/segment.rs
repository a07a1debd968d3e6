//! Making and sending one segment.

use sockscope_record::{Hold, tcp_flags};

use super::header::{Header, SIZE_OPTION_BYTES, TCP_HEADER_BYTES, size_option};
use super::output::{Candidate, View};
use super::rules::HeaderPlace;
use super::seq::Seq;
use super::timer::Timer;
use super::{Tcb, block};
use crate::checksum::{Checksum, header_bytes};
use crate::ip::{IP_HEADER_BYTES, OutputHeader, PROTOCOL_TCP};
use crate::mbuf::{Chain, MbufId};
use crate::meter::Meter;
use crate::packet::Packet;
use crate::routine::{Routine, Work};
use crate::socket::{Endpoint, SocketError, SocketId};
use crate::stack::Stack;

/// Bytes of an IP and a TCP header without options.
pub(super) const HEADERS_BYTES: usize = IP_HEADER_BYTES + TCP_HEADER_BYTES;

/// A segment that is being made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outgoing {
    pub(super) seq: Seq,
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) flags: u8,
    pub(super) window: u32,
    /// All its data have been sent before, or it is a SYN that was.
    pub(super) is_resent: bool,
    /// As in the [`View`] that let it out.
    is_idle: bool,
    /// The maximum segment size to announce, if any.
    pub(super) option: Option<u16>,
}

impl Stack {
    /// Sends a segment that is due; `false` when it found no room and that counts as a source quench.
    pub(super) fn tcp_send(
        &mut self,
        id: SocketId,
        candidate: &Candidate,
        meter: &mut Meter,
    ) -> Result<bool, SocketError> {
        let outgoing = self.outgoing(id, candidate, meter);
        let Some(chain) = self.segment_chain(id, &outgoing, meter) else {
            return self.without_mbufs(id);
        };
        self.count_segment(id, &outgoing);
        let mark = self.observe_segment(id, &outgoing, meter);
        self.tcb_mut(id).account(&outgoing);
        let socket = &self.sockets[id];
        let (source, destination) = (socket.local.0, socket.foreign.0);
        let ttl = self.personality.tcp.ttl;
        let header = OutputHeader { source, destination, protocol: PROTOCOL_TCP, ttl };
        match self.ip_output(Packet { chain, mark }, &header, Some(id), meter) {
            Ok(()) => {
                self.tcb_mut(id).has_sent(&outgoing);
                Ok(true)
            }
            Err(SocketError::NoBuffers) => self.queue_is_full(id),
            Err(error) => Err(error),
        }
    }

    fn outgoing(&mut self, id: SocketId, candidate: &Candidate, meter: &mut Meter) -> Outgoing {
        let has_syn = candidate.flags & tcp_flags::SYN != 0;
        let option = if has_syn { self.announced_bytes(id, meter) } else { None };
        let socket = &self.sockets[id];
        let tcb = block(socket);
        let view = View::of(socket, false);
        let Candidate { offset, len, mut flags, .. } = *candidate;
        // A FIN that was sent keeps its number when an acknowledgment takes it along again.
        let repeats_fin = flags & tcp_flags::FIN != 0
            && tcb.has_sent_fin
            && tcb.snd.nxt == tcb.snd.max
            && tcb.snd.nxt != tcb.snd.una;
        let seq = if repeats_fin { tcb.snd.nxt - 1 } else { tcb.snd.nxt };
        if len > 0 && offset + len == view.queued {
            flags |= tcp_flags::PSH;
        }
        // Behind a probe of a closed window the rest of a segment is new: then all of it counts so.
        let end = seq + len + u32::from(has_syn);
        let is_resent = (len > 0 || has_syn) && !end.is_after(tcb.snd.max);
        let window = tcb.offered_window(&self.personality.tcp, &view);
        let is_idle = candidate.is_idle;
        Outgoing { seq, offset, len, flags, window, is_resent, is_idle, option }
    }

    /// Header, option and data in a chain, the room for the IP header before them.
    fn segment_chain(
        &mut self,
        id: SocketId,
        outgoing: &Outgoing,
        meter: &mut Meter,
    ) -> Option<Chain> {
        let mut chain = Chain::new();
        let first = self.pool.new_header(meter)?;
        let len = outgoing.len as usize;
        let is_small = outgoing.len <= self.personality.tcp.small_copy_bytes;
        let inside = if is_small { len } else { 0 };
        let place = self.header_place(first, inside);
        self.pool.set_range(first, place, HEADERS_BYTES + inside);
        self.pool.push_back(&mut chain, first);
        if outgoing.option.is_some() && !self.append_option(&mut chain, outgoing, meter) {
            self.pool.free_chain(chain, meter);
            return None;
        }
        let offset = outgoing.offset as usize;
        if len > 0 && is_small {
            self.copy_inside(id, first, offset, meter);
        } else if len > 0 {
            let data = self.sockets[id].snd.copy(offset, len, &mut self.pool, meter);
            let Some(data) = data else {
                self.pool.free_chain(chain, meter);
                return None;
            };
            self.pool.append(&mut chain, data);
        }
        self.write_header(id, outgoing, &chain, first, meter);
        Some(chain)
    }

    fn header_place(&self, first: MbufId, inside: usize) -> usize {
        let room = self.pool.trailing_room(first);
        let last = room.saturating_sub(HEADERS_BYTES + inside);
        match self.personality.tcp.header {
            HeaderPlace::End => last,
            HeaderPlace::At(place) => place.min(last),
        }
    }

    #[cold]
    fn append_option(&mut self, chain: &mut Chain, outgoing: &Outgoing, meter: &mut Meter) -> bool {
        let Some(id) = self.pool.m_get(meter) else { return false };
        self.pool.set_range(id, 0, SIZE_OPTION_BYTES);
        let option = size_option(outgoing.option.unwrap_or(0));
        self.pool.data_mut(id).copy_from_slice(&option);
        self.pool.push_back(chain, id);
        true
    }

    /// Short data go behind the header, into the same mbuf (`m_copydata`).
    #[cold]
    fn copy_inside(&mut self, id: SocketId, first: MbufId, offset: usize, meter: &mut Meter) {
        let mut bytes = [0; 64];
        let data = self.sockets[id].snd.chain();
        let len = self.pool.len(first) - HEADERS_BYTES;
        self.pool.m_copydata(data, offset, &mut bytes[..len], meter);
        self.pool.data_mut(first)[HEADERS_BYTES..].copy_from_slice(&bytes[..len]);
    }

    /// Fills in the header; the checksum covers it, its option and the data.
    fn write_header(
        &mut self,
        id: SocketId,
        outgoing: &Outgoing,
        chain: &Chain,
        first: MbufId,
        meter: &mut Meter,
    ) {
        let socket = &self.sockets[id];
        let (local, foreign) = (socket.local, socket.foreign);
        let has_ack = outgoing.flags & tcp_flags::ACK != 0;
        let header = Header {
            source_port: local.1,
            destination_port: foreign.1,
            seq: outgoing.seq,
            ack: if has_ack { block(socket).rcv.nxt } else { Seq(0) },
            flags: outgoing.flags,
            window: outgoing.window as u16,
            segment_bytes: None,
        };
        let option_bytes = if outgoing.option.is_some() { SIZE_OPTION_BYTES } else { 0 };
        let words = header.words(TCP_HEADER_BYTES + option_bytes);
        self.finish_header(words, chain, first, (local, foreign), meter);
    }

    /// Puts a header into its place, its checksum filled in (RFC 9293 §3.1).
    pub(super) fn finish_header(
        &mut self,
        mut words: [u32; 5],
        chain: &Chain,
        first: MbufId,
        (source, destination): (Endpoint, Endpoint),
        meter: &mut Meter,
    ) {
        let len = chain.len() - IP_HEADER_BYTES;
        meter.call(Routine::TcpCksum, Work { mbufs: chain.mbufs(), ..Work::bytes(len) });
        let (source, destination) = (source.0.octets(), destination.0.octets());
        let mut sum = Checksum::of_pseudo_header(source, destination, PROTOCOL_TCP, len as u16);
        sum.add_header(words);
        sum.add_chain(&self.pool, chain, HEADERS_BYTES);
        words[4] |= u32::from(sum.finish()) << 16;
        let place = &mut self.pool.data_mut(first)[IP_HEADER_BYTES..HEADERS_BYTES];
        place.copy_from_slice(&header_bytes(words));
    }

    fn count_segment(&mut self, id: SocketId, outgoing: &Outgoing) {
        let is_probe = self.tcb(id).is_probe(outgoing);
        let counts = &mut self.tcp.counts;
        const NUMBERED: u8 = tcp_flags::SYN | tcp_flags::FIN | tcp_flags::RST;
        if is_probe {
            counts.probes_sent += 1;
        }
        if outgoing.len == 0 && outgoing.flags & NUMBERED == 0 {
            counts.acks_sent += 1;
        } else {
            counts.sent += 1;
            counts.resent += u64::from(outgoing.is_resent);
        }
    }

    /// The interface queue was full. Older systems count that as sent and let the timer find out;
    /// newer ones send less (RFC 1122 §4.2.3.9 says the same of a source quench).
    #[cold]
    fn queue_is_full(&mut self, id: SocketId) -> Result<bool, SocketError> {
        self.tcp.counts.no_buffers += 1;
        if self.personality.tcp.congestion.full_queue_quenches {
            self.tcp_quench(id);
            return Ok(false);
        }
        Err(SocketError::NoBuffers)
    }

    /// No mbufs for a segment. The sources leave what follows to chance; here a timer makes sure
    /// that it is tried again.
    #[cold]
    fn without_mbufs(&mut self, id: SocketId) -> Result<bool, SocketError> {
        let tcb = self.tcb_mut(id);
        if !tcb.timers.runs(Timer::Retransmit) && !tcb.timers.runs(Timer::Persist) {
            let ticks = tcb.rtt.timeout_ticks();
            tcb.timers.start(Timer::Retransmit, ticks);
        }
        self.queue_is_full(id)
    }

    /// What keeps the byte behind this segment from leaving.
    pub(super) fn hold_behind(&self, id: SocketId, outgoing: &Outgoing) -> Hold {
        let socket = &self.sockets[id];
        let tcb = block(socket);
        let view = View::of(socket, outgoing.is_idle);
        tcb.hold(&self.personality.tcp, &view, outgoing.offset + outgoing.len)
    }
}

impl Tcb {
    fn is_probe(&self, outgoing: &Outgoing) -> bool {
        self.is_forced && outgoing.len == 1 && self.timers.runs(Timer::Persist)
    }

    /// Moves the numbers behind the segment and starts its timer. While persisting only the largest
    /// number moves: the byte of a probe is sent again as if it had never been.
    fn account(&mut self, outgoing: &Outgoing) {
        let has = |flag| u32::from(outgoing.flags & flag != 0);
        let end = outgoing.seq + has(tcp_flags::SYN) + outgoing.len + has(tcp_flags::FIN);
        if self.is_forced && self.timers.runs(Timer::Persist) {
            self.snd.max = self.snd.max.later(end);
            return;
        }
        self.has_sent_fin |= outgoing.flags & tcp_flags::FIN != 0;
        self.snd.nxt = end;
        if end.is_after(self.snd.max) {
            self.snd.max = end;
            self.rtt.sent(outgoing.seq);
        }
        if !self.timers.runs(Timer::Retransmit) && self.snd.nxt != self.snd.una {
            if self.timers.runs(Timer::Persist) {
                self.timers.stop(Timer::Persist);
                self.rtt.reset_shift();
            }
            self.rtt.timer_started();
            let ticks = self.rtt.timeout_ticks();
            self.timers.start(Timer::Retransmit, ticks);
        }
    }

    /// The segment is on its way: the peer will know of the window and has its acknowledgment.
    fn has_sent(&mut self, outgoing: &Outgoing) {
        if outgoing.window > 0 {
            self.rcv.adv = self.rcv.adv.later(self.rcv.nxt + outgoing.window);
        }
        self.must_ack = false;
        self.owes_ack = false;
    }
}
