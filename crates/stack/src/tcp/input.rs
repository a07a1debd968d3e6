//! `tcp_input`: from a packet to the changes of a connection.
//!
//! A segment passes these steps in order, and each may be its last: checksum and header, the search
//! for its connection, the handshake ([`syn`](super::syn)) or the cut to the window
//! ([`trim`](super::trim)), reset, acknowledgment ([`ack`](super::ack)), window, data and FIN
//! ([`data`](super::data)), and at last output.

use std::net::Ipv4Addr;

use sockscope_record::{FlowId, Point, Protocol, tcp_flags};

use super::header::{Header, TCP_HEADER_BYTES};
use super::options::HeaderOptions;
use super::output::Caller;
use super::segment::HEADERS_BYTES;
use super::tcb::State;
use super::timers::Timer;
use super::{block, block_mut};
use crate::checksum::{Checksum, header_words};
use crate::drop_reason::DropReason;
use crate::ip::{IP_HEADER_BYTES, InputHeader, PROTOCOL_TCP};
use crate::mbuf::Chain;
use crate::meter::Meter;
use crate::packet::Packet;
use crate::routine::{Routine, Work};
use crate::socket::{Endpoint, SocketError, SocketId};
use crate::stack::Stack;

/// A segment in transit through the steps.
#[derive(Debug)]
pub(super) struct Arrival {
    /// Its source and destination.
    pub(super) addresses: [Ipv4Addr; 2],
    pub(super) header: Header,
    /// The packet, headers included, until its data are taken.
    pub(super) chain: Chain,
    /// Bytes at the front of the chain that are no longer wanted.
    pub(super) skip: u32,
    /// Data bytes still wanted.
    pub(super) len: u32,
    /// The window that it offers, in bytes.
    pub(super) window: u32,
    /// Octets from its first number to behind its urgent data; 0 without any.
    pub(super) urgent: u32,
    /// The flow that the sender logs it as, if it does.
    pub(super) flow: Option<FlowId>,
    /// Output has something to do.
    pub(super) needs_output: bool,
}

impl Arrival {
    pub(super) fn has(&self, flag: u8) -> bool {
        self.header.has(flag)
    }

    pub(super) fn clear(&mut self, flags: u8) {
        self.header.flags &= !flags;
    }

    /// The peer's address and port.
    pub(super) fn foreign(&self) -> Endpoint {
        (self.addresses[0], self.header.source_port)
    }

    /// The address and port that it is for.
    pub(super) fn local(&self) -> Endpoint {
        (self.addresses[1], self.header.destination_port)
    }

    /// Number behind the last data byte.
    pub(super) fn end(&self) -> super::Seq {
        self.header.seq + self.len
    }
}

/// Why the processing of a segment ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// It is done with.
    Drop,
    /// The peer is to learn the state of this end (`dropafterack`).
    Acknowledge,
    /// The peer is to learn that there is no such connection (`dropwithreset`).
    Reset,
    /// The connection that it was for is gone; it may open a new one.
    Again,
}

impl Stack {
    /// Takes a packet that still has its IP header.
    pub(crate) fn tcp_input(&mut self, packet: &mut Packet, ip: InputHeader, meter: &mut Meter) {
        meter.call(Routine::TcpInput, Work::NONE);
        self.tcp.counts.received += 1;
        let Some(mut arrival) = self.read_segment(packet, ip, meter) else { return };
        let found = loop {
            let found = self.connection_of(&arrival, meter);
            match self.dispatch(found, &mut arrival, meter) {
                Ok(()) => break found,
                Err(Stop::Again) => {}
                Err(stop) => {
                    self.refuse(stop, found, &arrival, meter);
                    break found;
                }
            }
        };
        if !arrival.chain.is_empty() {
            self.pool.m_freem(arrival.chain, meter);
        }
        if let Some(id) = found {
            self.check_block(id);
        }
    }

    fn refuse(
        &mut self,
        stop: Stop,
        found: Option<SocketId>,
        arrival: &Arrival,
        meter: &mut Meter,
    ) {
        match (stop, found) {
            (Stop::Reset, _) => self.tcp_reset(arrival, meter),
            (Stop::Acknowledge, Some(id)) => self.answer(id, arrival, meter),
            _ => {}
        }
    }

    /// Checks the packet and reads its header; `None`, the packet freed, when it is no segment.
    fn read_segment(
        &mut self,
        packet: &mut Packet,
        ip: InputHeader,
        meter: &mut Meter,
    ) -> Option<Arrival> {
        if !self.pull_up(&mut packet.chain, HEADERS_BYTES, meter) {
            self.tcp.counts.bad_headers += 1;
            return None;
        }
        let Some(words) = header_words(self.behind_ip(&packet.chain)) else {
            return self.malformed(packet, meter);
        };
        if !self.is_sum_valid(words, &packet.chain, ip, meter) {
            self.tcp.counts.bad_checksums += 1;
            self.drop_packet(packet.take(), DropReason::BadChecksum, Point::InputDequeue, meter);
            return None;
        }
        let header_bytes = Header::bytes(&words);
        let (skip, header) = if header_bytes == TCP_HEADER_BYTES {
            (HEADERS_BYTES, Header::of(&words, HeaderOptions::default()))
        } else {
            let header = self.read_options(packet, ip, header_bytes, meter)?;
            (IP_HEADER_BYTES + header_bytes, header)
        };
        let chain = packet.chain.take();
        let len = (chain.len() - skip) as u32;
        let flow = packet.mark.map(|mark| mark.flow);
        let (addresses, skip) = ([ip.source, ip.destination], skip as u32);
        // Of a connection that scales windows it is shifted later.
        let window = u32::from(header.window);
        let has_urgent = header.has(tcp_flags::URG) && !header.has(tcp_flags::SYN);
        let pointer = self.personality.tcp.urgent.pointer;
        let urgent = if has_urgent { pointer.octets(header.urgent) } else { 0 };
        let needs_output = false;
        Some(Arrival { addresses, header, chain, skip, len, window, urgent, flow, needs_output })
    }

    /// Reads a header with options; `None`, the packet freed, when it claims an impossible length.
    fn read_options(
        &mut self,
        packet: &mut Packet,
        ip: InputHeader,
        header_bytes: usize,
        meter: &mut Meter,
    ) -> Option<Header> {
        let is_sound = (TCP_HEADER_BYTES..=usize::from(ip.payload_bytes)).contains(&header_bytes);
        let header = if !is_sound {
            None
        } else if self.pull_up(&mut packet.chain, IP_HEADER_BYTES + header_bytes, meter) {
            Header::read(self.behind_ip(&packet.chain))
        } else {
            return None;
        };
        if header.is_some() { header } else { self.malformed(packet, meter) }
    }

    fn malformed<T>(&mut self, packet: &mut Packet, meter: &mut Meter) -> Option<T> {
        self.tcp.counts.bad_headers += 1;
        self.drop_packet(packet.take(), DropReason::Malformed, Point::InputDequeue, meter);
        None
    }

    /// The bytes behind the IP header in its mbuf.
    fn behind_ip(&self, chain: &Chain) -> &[u8] {
        let bytes = chain.first().map_or(&[][..], |first| self.pool.data(first));
        bytes.get(IP_HEADER_BYTES..).unwrap_or_default()
    }

    fn is_sum_valid(
        &self,
        header: [u32; 5],
        chain: &Chain,
        ip: InputHeader,
        meter: &mut Meter,
    ) -> bool {
        let len = chain.len() - IP_HEADER_BYTES;
        let (source, destination) = (ip.source.octets(), ip.destination.octets());
        let mut sum = Checksum::of_pseudo_header(source, destination, PROTOCOL_TCP, len as u16);
        sum.add_header(header);
        meter.call(Routine::TcpCksum, Work { mbufs: chain.mbufs(), ..Work::bytes(len) });
        sum.add_chain(&self.pool, chain, HEADERS_BYTES);
        sum.is_valid()
    }

    /// Lets the segment do its work at the connection found.
    fn dispatch(
        &mut self,
        found: Option<SocketId>,
        arrival: &mut Arrival,
        meter: &mut Meter,
    ) -> Result<(), Stop> {
        let tcb = found.and_then(|id| self.sockets.find(id)?.tcb.as_ref());
        let (Some(id), Some(tcb)) = (found, tcb) else {
            self.tcp.counts.no_connection += 1;
            return Err(Stop::Reset);
        };
        if tcb.state <= State::SynSent {
            return self.connection_opens(id, arrival, meter);
        }
        if !arrival.has(tcp_flags::SYN) {
            arrival.window = u32::from(arrival.header.window) << tcb.snd.shift;
        }
        self.note_peer_alive(id, arrival);
        self.refuse_old_duplicate(id, arrival)?;
        if self.personality.tcp.input.predicts && self.is_predicted(id, arrival) {
            self.take_predicted(id, arrival, meter);
            return Ok(());
        }
        self.set_receive_window(id);
        let first = arrival.header.seq;
        self.trim(id, arrival, meter)?;
        self.take_timestamp(id, first, &arrival.header.options);
        self.obey_reset(id, arrival, meter)?;
        if !self.tcb(id).snd.is_syn_acked {
            self.complete_handshake(id, arrival, meter)?;
        }
        self.take_acknowledgment(id, arrival, meter)?;
        self.finish_segment(id, arrival, meter);
        Ok(())
    }

    /// A segment for a socket that waits for its connection's first one, or has none.
    fn connection_opens(
        &mut self,
        id: SocketId,
        arrival: &mut Arrival,
        meter: &mut Meter,
    ) -> Result<(), Stop> {
        let id = match self.tcb(id).state {
            State::Listen => self.connection_begins(id, arrival, meter)?,
            State::SynSent => {
                self.note_peer_alive(id, arrival);
                self.set_receive_window(id);
                self.answer_to_syn(id, arrival, meter)?;
                id
            }
            _ => return Err(Stop::Drop),
        };
        self.finish_segment(id, arrival, meter);
        Ok(())
    }

    fn connection_of(&mut self, arrival: &Arrival, meter: &mut Meter) -> Option<SocketId> {
        let (foreign, local) = (arrival.foreign(), arrival.local());
        if self.personality.tcp.input.predicts
            && let Some(id) = self.tcp.last
        {
            let socket = &self.sockets[id];
            if socket.foreign == foreign && socket.local == local {
                return Some(id);
            }
        }
        let found = self.in_pcblookup(Protocol::Tcp, foreign, local, true, meter)?;
        self.tcp.last = Some(found);
        Some(found)
    }

    /// Any segment proves the peer alive: restarts the keep-alive timer.
    fn note_peer_alive(&mut self, id: SocketId, arrival: &Arrival) {
        let idle_ticks = self.personality.tcp.keep_alive.idle_ticks;
        let socket = &mut self.sockets[id];
        socket.adopt_flow(arrival.flow);
        let tcb = block_mut(socket);
        tcb.idle_ticks = 0;
        tcb.timers.start(Timer::Keep, idle_ticks);
    }

    /// The steps from the window on, which all segments share.
    fn finish_segment(&mut self, id: SocketId, arrival: &mut Arrival, meter: &mut Meter) {
        self.take_window(id, arrival);
        self.take_urgent(id, arrival, meter);
        self.take_data(id, arrival, meter);
        if arrival.has(tcp_flags::FIN) {
            self.take_fin(id, meter);
        }
        let always = self.personality.tcp.input.always_outputs;
        if always || arrival.needs_output || self.tcb(id).must_ack {
            // No caller waits for the outcome here: the timers send the rest later.
            let _ = self.tcp_output(id, Caller::Input, meter);
        }
    }

    /// The window that this segment is held against.
    pub(super) fn set_receive_window(&mut self, id: SocketId) {
        let shrinks = self.personality.tcp.offer == super::WindowOffer::Shrinks;
        let space = self.sockets[id].rcv.space();
        let tcb = self.tcb_mut(id);
        let space = space.clamp(0, i64::from(tcb.rcv.window_max())) as u32;
        let promised = tcb.rcv.adv.since(tcb.rcv.nxt).max(0) as u32;
        tcb.rcv.wnd = if shrinks { space } else { space.max(promised) };
    }

    /// A reset, or a SYN where there can be none: the connection is over.
    fn obey_reset(
        &mut self,
        id: SocketId,
        arrival: &Arrival,
        meter: &mut Meter,
    ) -> Result<(), Stop> {
        if arrival.has(tcp_flags::RST) {
            match self.tcb(id).state {
                State::SynReceived => {
                    self.end_by_reset(id, SocketError::ConnectionRefused, meter);
                }
                State::Closing | State::LastAck | State::TimeWait => self.tcp_close(id, meter),
                _ => self.end_by_reset(id, SocketError::ConnectionReset, meter),
            }
            return Err(Stop::Drop);
        }
        if arrival.has(tcp_flags::SYN) {
            // Both the connection's end and the segment are reported by a reset.
            self.tcp_drop(id, SocketError::ConnectionReset, meter);
            return Err(Stop::Reset);
        }
        if arrival.has(tcp_flags::ACK) { Ok(()) } else { Err(Stop::Drop) }
    }

    /// The connection fails. The older systems notify even the peer that has reset it.
    fn end_by_reset(&mut self, id: SocketId, error: SocketError, meter: &mut Meter) {
        if self.personality.tcp.input.echoes_reset {
            self.tcp_drop(id, error, meter);
        } else {
            self.tcp_fail(id, error, meter);
        }
    }

    /// `dropafterack`: the answer to a segment that was of no use.
    fn answer(&mut self, id: SocketId, arrival: &Arrival, meter: &mut Meter) {
        let rules = self.personality.tcp.input;
        let numbered = tcp_flags::SYN | tcp_flags::FIN;
        let is_empty = arrival.len == 0 && arrival.header.flags & numbered == 0;
        let is_answered = rules.answers_empty || !is_empty;
        if arrival.has(tcp_flags::RST) || !is_answered || !self.is_alive(id) {
            return;
        }
        if rules.answers_by_output {
            self.tcb_mut(id).must_ack = true;
            let _ = self.tcp_output(id, Caller::Input, meter);
        } else {
            self.tcp_acknowledge(id, meter);
        }
    }

    /// Header prediction: whether the segment is the next one of an undisturbed transfer.
    fn is_predicted(&self, id: SocketId, arrival: &Arrival) -> bool {
        const ODD: u8 = tcp_flags::SYN | tcp_flags::FIN | tcp_flags::RST | tcp_flags::URG;
        let socket = &self.sockets[id];
        let tcb = block(socket);
        let Arrival { header, len, window, .. } = arrival;
        let usual = tcb.state == State::Established
            && header.flags & (ODD | tcp_flags::ACK) == tcp_flags::ACK
            && header.seq == tcb.rcv.nxt
            && *window > 0
            && *window == tcb.snd.wnd
            && tcb.snd.nxt == tcb.snd.max
            && tcb.scoreboard.is_quiet()
            && header.options.sack.is_empty();
        if !usual {
            return false;
        }
        if *len == 0 {
            let is_new = header.ack.is_after(tcb.snd.una) && !header.ack.is_after(tcb.snd.max);
            return is_new && tcb.snd.cwnd >= tcb.snd.wnd;
        }
        header.ack == tcb.snd.una
            && tcb.reassembly.is_empty()
            && i64::from(*len) <= socket.rcv.space()
    }

    /// An acknowledgment of data and nothing else, or the next data and nothing else. The latter
    /// calls no output: reading or the fast timer acknowledge it.
    fn take_predicted(&mut self, id: SocketId, arrival: &mut Arrival, meter: &mut Meter) {
        self.take_timestamp(id, arrival.header.seq, &arrival.header.options);
        self.tcb_mut(id).pull_received_along();
        if arrival.len > 0 {
            self.append_in_order(id, arrival, meter);
            return;
        }
        let echoed = self.echoed_ticks(id, arrival);
        self.drop_acknowledged(id, arrival.header.ack, echoed, meter);
        if self.sockets[id].snd.cc() > 0 {
            let _ = self.tcp_output(id, Caller::Input, meter);
        }
    }
}
