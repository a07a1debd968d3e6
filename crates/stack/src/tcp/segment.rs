//! Making and sending one segment.

use sockscope_record::tcp_flags;

use super::header::{Header, TCP_HEADER_BYTES};
use super::no_block;
use super::options::{HeaderOptions, OptionBytes};
use super::output::{Candidate, View};
use super::rules::{HeaderPlace, TcpRules};
use super::seq::Seq;
use super::tcb::{Tcb, TcpCounts, WINDOW_MAX};
use super::timers::Timer;
use crate::checksum::{Checksum, header_bytes};
use crate::ip::{IP_HEADER_BYTES, OutputHeader, PROTOCOL_TCP};
use crate::mbuf::{Chain, MbufId, Pool};
use crate::meter::Meter;
use crate::packet::Packet;
use crate::routine::{Routine, Work};
use crate::sockbuf::SockBuf;
use crate::socket::{Endpoint, Socket, SocketError, SocketId};
use crate::stack::Stack;

/// Bytes of an IP and a TCP header without options.
pub(super) const HEADERS_BYTES: usize = IP_HEADER_BYTES + TCP_HEADER_BYTES;

/// A segment that is being made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outgoing {
    pub(super) seq: Seq,
    /// Number behind its data and its SYN.
    end: Seq,
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) flags: u8,
    /// The window offered, in bytes, as the peer will read it.
    pub(super) window: u32,
    /// The bits that the header leaves out of the window.
    window_shift: u8,
    /// The urgent pointer; 0 without the flag.
    urgent: u16,
    /// All its data have been sent before, or it is a SYN that was.
    pub(super) is_resent: bool,
    pub(super) options: HeaderOptions,
}

impl Stack {
    /// Sends segments, this one that is due first, as long as there is more. `is_idle` is as in the
    /// [`View`].
    pub(super) fn tcp_send(
        &mut self,
        id: SocketId,
        first: Candidate,
        is_idle: bool,
        routine: Routine,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        let mut next = Some(first);
        while let Some(candidate) = next {
            meter.charge(routine, Work::mbufs(1));
            let has_more = self.send_one(id, candidate, is_idle, meter)?;
            next = if has_more { self.segment_behind(id, is_idle) } else { None };
        }
        Ok(())
    }

    /// Sends a segment; whether there may be another.
    fn send_one(
        &mut self,
        id: SocketId,
        candidate: Candidate,
        is_idle: bool,
        meter: &mut Meter,
    ) -> Result<bool, SocketError> {
        let has_syn = candidate.flags & tcp_flags::SYN != 0;
        let offered = if has_syn {
            self.syn_options(id, meter)
        } else {
            self.segment_options(id, &candidate)
        };
        let rules = &self.personality.tcp;
        let Socket { tcb: Some(tcb), snd, rcv, options, local, foreign, log, .. } =
            &mut self.sockets[id]
        else {
            no_block()
        };
        let ends = (*local, *foreign);
        let view = View { queued: snd.cc(), rcv, options, is_idle };
        let outgoing = tcb.outgoing(rules, &view, &candidate, offered);
        let has_more = tcb.has_more(rules, &candidate);
        let header = outgoing.header(ends, tcb.rcv.nxt);
        let Some(chain) = outgoing.chain(snd, header, ends, rules, &mut self.pool, meter) else {
            return self.without_mbufs(id);
        };
        let is_probe = tcb.is_persisting();
        self.tcp.counts.add(&outgoing, is_probe);
        let mut packet = Packet { chain, mark: None };
        if let Some(flow) = *log {
            packet.mark = Some(tcb.observe_segment(flow, snd, outgoing, rules, &view, meter));
        }
        tcb.account(&outgoing, is_probe);
        let (source, destination) = (ends.0.0, ends.1.0);
        let header = OutputHeader { source, destination, protocol: PROTOCOL_TCP, ttl: rules.ttl };
        match self.ip_output(packet, &header, Some(id), meter) {
            Ok(()) => {}
            Err(SocketError::NoBuffers) => return self.queue_is_full(id),
            Err(error) => return Err(error),
        }
        let rules = &self.personality.tcp;
        let Socket { tcb: Some(tcb), snd, .. } = &mut self.sockets[id] else { no_block() };
        tcb.has_sent(&outgoing);
        if !has_more {
            tcb.persist_if_stuck(rules.persist, snd.cc());
        }
        Ok(has_more)
    }

    /// The options of a segment without a SYN. A reset has none (RFC 1323 §4.2).
    fn segment_options(&self, id: SocketId, candidate: &Candidate) -> HeaderOptions {
        let is_reset = candidate.flags & tcp_flags::RST != 0;
        if is_reset {
            return HeaderOptions::default();
        }
        let (timestamps, sack) = (self.timestamps(id), self.sack_blocks(id, candidate.len));
        HeaderOptions { timestamps, sack, ..HeaderOptions::default() }
    }

    /// The interface queue was full. Older systems count that as sent and let the timer find out;
    /// newer ones send less (RFC 1122 §4.2.3.9 requires the same after a source quench).
    fn queue_is_full(&mut self, id: SocketId) -> Result<bool, SocketError> {
        self.tcp.counts.no_buffers += 1;
        let rules = self.personality.tcp;
        if rules.congestion.full_queue_quenches {
            self.tcp_quench(id);
            let queued = self.sockets[id].snd.cc();
            self.tcb_mut(id).persist_if_stuck(rules.persist, queued);
            return Ok(false);
        }
        Err(SocketError::NoBuffers)
    }

    /// No mbufs for a segment. The sources leave the next attempt to chance; here a timer ensures
    /// it.
    fn without_mbufs(&mut self, id: SocketId) -> Result<bool, SocketError> {
        let tcb = self.tcb_mut(id);
        if !tcb.timers.runs(Timer::Retransmit) && !tcb.timers.runs(Timer::Persist) {
            let ticks = tcb.rtt.timeout_ticks();
            tcb.timers.start(Timer::Retransmit, ticks);
        }
        self.queue_is_full(id)
    }
}

impl Outgoing {
    /// Header, option and data in a chain, the room for the IP header before them.
    fn chain(
        self,
        snd: &SockBuf,
        header: Header,
        ends: (Endpoint, Endpoint),
        rules: &TcpRules,
        pool: &mut Pool,
        meter: &mut Meter,
    ) -> Option<Chain> {
        let options = self.options.write();
        // A SYN's options have an mbuf of their own; the others, and short data, go behind the header.
        let has_syn = self.flags & tcp_flags::SYN != 0;
        let behind = if has_syn { 0 } else { options.len() };
        let is_small = self.len as usize + behind <= rules.small_copy_bytes as usize;
        let inside = if is_small { self.len } else { 0 };
        let len = HEADERS_BYTES + behind + inside as usize;
        let last = usize::from(pool.geometry().header_bytes).saturating_sub(len);
        let place = match rules.header {
            HeaderPlace::End => last,
            HeaderPlace::At(place) => place.min(last),
        };
        let mut chain = Chain::new();
        let first = pool.new_header_at(place, len, meter)?;
        pool.push_back(&mut chain, first);
        if behind > 0 {
            pool.data_mut(first)[HEADERS_BYTES..HEADERS_BYTES + behind]
                .copy_from_slice(options.as_slice());
        } else if options.len() > 0 && !append_options(&options, &mut chain, pool, meter) {
            pool.free_chain(chain, meter);
            return None;
        }
        let offset = self.offset as usize;
        if inside > 0 {
            copy_inside(snd.chain(), offset, (first, HEADERS_BYTES + behind), pool, meter);
        } else if self.len > 0 {
            let Some(data) = snd.copy(offset, self.len as usize, pool, meter) else {
                pool.free_chain(chain, meter);
                return None;
            };
            pool.append(&mut chain, data);
        }
        assert_eq!(
            chain.len(),
            HEADERS_BYTES + options.len() + self.len as usize,
            "a segment's length"
        );
        let words = header.words(TCP_HEADER_BYTES + options.len());
        finish_header(words, &chain, first, ends, pool, meter);
        Some(chain)
    }

    fn header(self, (local, foreign): (Endpoint, Endpoint), expected: Seq) -> Header {
        let has_ack = self.flags & tcp_flags::ACK != 0;
        Header {
            source_port: local.1,
            destination_port: foreign.1,
            seq: self.seq,
            ack: if has_ack { expected } else { Seq(0) },
            flags: self.flags,
            window: (self.window >> self.window_shift) as u16,
            urgent: self.urgent,
            options: self.options,
        }
    }
}

fn append_options(
    options: &OptionBytes,
    chain: &mut Chain,
    pool: &mut Pool,
    meter: &mut Meter,
) -> bool {
    let Some(id) = pool.m_get(meter) else { return false };
    pool.set_range(id, 0, options.len());
    pool.data_mut(id).copy_from_slice(options.as_slice());
    pool.push_back(chain, id);
    true
}

/// Short data go behind the header, into the same mbuf (`m_copydata`).
fn copy_inside(
    data: &Chain,
    offset: usize,
    (first, place): (MbufId, usize),
    pool: &mut Pool,
    meter: &mut Meter,
) {
    let mut bytes = [0; 64];
    let len = pool.len(first) - place;
    pool.m_copydata(data, offset, &mut bytes[..len], meter);
    pool.data_mut(first)[place..].copy_from_slice(&bytes[..len]);
}

/// Puts a header into its place. The checksum that is filled in covers it, its option and the data
/// (RFC 9293 §3.1).
pub(super) fn finish_header(
    mut words: [u32; 5],
    chain: &Chain,
    first: MbufId,
    (source, destination): (Endpoint, Endpoint),
    pool: &mut Pool,
    meter: &mut Meter,
) {
    let len = chain.len() - IP_HEADER_BYTES;
    meter.call(Routine::TcpCksum, Work { mbufs: chain.mbufs(), ..Work::bytes(len) });
    let (source, destination) = (source.0.octets(), destination.0.octets());
    let mut sum = Checksum::of_pseudo_header(source, destination, PROTOCOL_TCP, len as u16);
    sum.add_header(words);
    if len > TCP_HEADER_BYTES {
        sum.add_chain(pool, chain, HEADERS_BYTES);
    }
    words[4] |= u32::from(sum.finish()) << 16;
    let place = &mut pool.data_mut(first)[IP_HEADER_BYTES..HEADERS_BYTES];
    place.copy_from_slice(&header_bytes(words));
}

impl TcpCounts {
    fn add(&mut self, outgoing: &Outgoing, is_probe: bool) {
        const NUMBERED: u8 = tcp_flags::SYN | tcp_flags::FIN | tcp_flags::RST;
        if is_probe && outgoing.len == 1 {
            self.probes_sent += 1;
        }
        if outgoing.len == 0 && outgoing.flags & NUMBERED == 0 {
            self.acks_sent += 1;
        } else {
            self.sent += 1;
            self.resent += u64::from(outgoing.is_resent);
        }
    }
}

impl Tcb {
    fn outgoing(
        &self,
        rules: &TcpRules,
        view: &View,
        candidate: &Candidate,
        options: HeaderOptions,
    ) -> Outgoing {
        let Candidate { offset, len, mut flags, .. } = *candidate;
        let has_syn = flags & tcp_flags::SYN != 0;
        // A FIN that was sent keeps its number when an acknowledgment takes it along again.
        let repeats_fin = flags & tcp_flags::FIN != 0
            && self.has_sent_fin
            && self.snd.nxt == self.snd.max
            && self.snd.nxt != self.snd.una;
        let seq = if repeats_fin { self.snd.nxt - 1 } else { self.snd.nxt };
        if len > 0 && offset + len == view.queued {
            flags |= tcp_flags::PSH;
        }
        // Behind a probe of a closed window the rest of a segment is new: then all of it counts so.
        let end = seq + len + u32::from(has_syn);
        assert!(
            len == 0 || offset + len <= view.queued,
            "{offset} and {len} of {} bytes",
            view.queued
        );
        let is_resent = (len > 0 || has_syn) && !end.is_after(self.snd.max);
        // The window of a SYN is never shifted (RFC 1323 §2.2).
        let window_shift = if has_syn { 0 } else { self.rcv.shift };
        let window = self.offered_window(rules, view).min(WINDOW_MAX << window_shift);
        let window = window >> window_shift << window_shift;
        let pointer = rules.urgent.pointer.of(seq, self.snd.up);
        if pointer.is_some() {
            flags |= tcp_flags::URG;
        }
        let urgent = pointer.unwrap_or(0);
        Outgoing { seq, end, offset, len, flags, window, window_shift, urgent, is_resent, options }
    }

    /// The persist timer runs and wants something out.
    fn is_persisting(&self) -> bool {
        self.is_forced && self.timers.runs(Timer::Persist)
    }

    /// Moves the numbers behind the segment and starts its timer. While persisting only the largest
    /// number moves: the byte of a probe is sent again as if it had never been.
    fn account(&mut self, outgoing: &Outgoing, is_probe: bool) {
        let has_fin = outgoing.flags & tcp_flags::FIN != 0;
        let end = outgoing.end + u32::from(has_fin);
        self.pull_urgent_along(outgoing.seq);
        if is_probe {
            self.snd.max = self.snd.max.later(end);
            return;
        }
        self.has_sent_fin |= has_fin;
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

    /// The segment is in transit: the peer will know of the window and has its acknowledgment.
    fn has_sent(&mut self, outgoing: &Outgoing) {
        if outgoing.window > 0 {
            self.rcv.adv = self.rcv.adv.later(self.rcv.nxt + outgoing.window);
        }
        self.stamps.last_ack = self.rcv.nxt;
        self.must_ack = false;
        self.owes_ack = false;
    }
}
