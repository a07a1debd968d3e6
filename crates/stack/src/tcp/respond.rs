//! Segments without a send buffer: resets, answers to useless segments, keep-alive probes
//! (`tcp_respond`).

use sockscope_record::tcp_flags;

use super::block;
use super::header::Header;
use super::input::Arrival;
use super::options::HeaderOptions;
use super::segment::{HEADERS_BYTES, finish_header};
use super::seq::Seq;
use crate::ip::{OutputHeader, PROTOCOL_TCP};
use crate::mbuf::Chain;
use crate::meter::Meter;
use crate::packet::{Mark, Packet};
use crate::route::is_broadcast;
use crate::routine::{Routine, Work};
use crate::socket::{Endpoint, SocketId};
use crate::stack::Stack;

/// One such segment.
#[derive(Debug, Clone, Copy)]
struct Response {
    local: Endpoint,
    foreign: Endpoint,
    seq: Seq,
    ack: Seq,
    flags: u8,
    /// In bytes.
    window: u32,
    /// The bits that the header leaves out of the window.
    window_shift: u8,
    options: HeaderOptions,
    /// Bytes of no meaning behind the header: none or one.
    garbage_bytes: usize,
}

impl Stack {
    /// Refuses a segment with a reset (RFC 9293 §3.5.2); nothing answers a reset or a broadcast.
    pub(super) fn tcp_reset(&mut self, arrival: &Arrival, meter: &mut Meter) {
        let Arrival { header, len, .. } = arrival;
        let (local, foreign) = (arrival.local(), arrival.foreign());
        if header.has(tcp_flags::RST) || is_broadcast(local.0) {
            return;
        }
        let syn = u32::from(header.has(tcp_flags::SYN));
        let (seq, ack, flags) = if header.has(tcp_flags::ACK) {
            (header.ack, Seq(0), tcp_flags::RST)
        } else {
            (Seq(0), header.seq + *len + syn, tcp_flags::RST | tcp_flags::ACK)
        };
        let response = Response {
            local,
            foreign,
            seq,
            ack,
            flags,
            window: 0,
            window_shift: 0,
            options: HeaderOptions::default(),
            garbage_bytes: 0,
        };
        self.tcp_respond(None, &response, meter);
    }

    /// Informs the peer of an open connection of this end's state, with a bare acknowledgment.
    pub(super) fn tcp_acknowledge(&mut self, id: SocketId, meter: &mut Meter) {
        let tcb = self.tcb(id);
        let response = self.response(id, tcb.snd.nxt, tcb.rcv.nxt, 0);
        let tcb = self.tcb_mut(id);
        tcb.stamps.last_ack = tcb.rcv.nxt;
        self.tcp_respond(Some(id), &response, meter);
    }

    /// A keep-alive probe: numbers that are wrong by one, which the peer must correct (RFC 1122
    /// §4.2.3.6).
    pub(super) fn send_keep_alive(&mut self, id: SocketId, meter: &mut Meter) {
        let garbage_bytes = usize::from(self.personality.tcp.keep_alive.sends_byte);
        let tcb = self.tcb(id);
        let (seq, ack) = (tcb.snd.una - 1, tcb.rcv.nxt - garbage_bytes as u32);
        let response = self.response(id, seq, ack, garbage_bytes);
        self.tcp_respond(Some(id), &response, meter);
    }

    fn response(&self, id: SocketId, seq: Seq, ack: Seq, garbage_bytes: usize) -> Response {
        let socket = &self.sockets[id];
        let rcv = &block(socket).rcv;
        let (window_shift, flags) = (rcv.shift, tcp_flags::ACK);
        let window = socket.rcv.space().clamp(0, i64::from(rcv.window_max())) as u32;
        let window = window >> window_shift << window_shift;
        let (local, foreign) = (socket.local, socket.foreign);
        let (timestamps, sack) = (self.timestamps(id), self.sack_blocks(id, 0));
        let options = HeaderOptions { timestamps, sack, ..HeaderOptions::default() };
        Response { local, foreign, seq, ack, flags, window, window_shift, options, garbage_bytes }
    }

    /// `tcp_respond`. Without an mbuf or room nothing is sent: the peer will ask again.
    fn tcp_respond(&mut self, id: Option<SocketId>, response: &Response, meter: &mut Meter) {
        meter.call(Routine::TcpRespond, Work::NONE);
        let Some(first) = self.pool.new_header(meter) else { return };
        let options = response.options.write();
        let len = HEADERS_BYTES + options.len() + response.garbage_bytes;
        // At the end of the mbuf, so that link headers find room before it.
        let place = self.pool.trailing_room(first).saturating_sub(len);
        self.pool.set_range(first, place, len);
        self.pool.data_mut(first).fill(0);
        self.pool.data_mut(first)[HEADERS_BYTES..][..options.len()]
            .copy_from_slice(options.as_slice());
        let mut chain = Chain::new();
        self.pool.push_back(&mut chain, first);
        let header = Header {
            source_port: response.local.1,
            destination_port: response.foreign.1,
            seq: response.seq,
            ack: response.ack,
            flags: response.flags,
            window: (response.window >> response.window_shift) as u16,
            urgent: 0,
            options: response.options,
        };
        let words = header.words(super::TCP_HEADER_BYTES + options.len());
        let ends = (response.local, response.foreign);
        finish_header(words, &chain, first, ends, &mut self.pool, meter);
        let is_ack = response.flags & tcp_flags::RST == 0;
        self.tcp.counts.acks_sent += u64::from(is_ack);
        self.tcp.counts.sent += u64::from(!is_ack);
        let mark = id.and_then(|id| self.response_mark(id, response));
        let header = OutputHeader {
            source: response.local.0,
            destination: response.foreign.0,
            protocol: PROTOCOL_TCP,
            ttl: self.personality.tcp.ttl,
        };
        let _ = self.ip_output(Packet { chain, mark }, &header, id, meter);
    }

    fn response_mark(&self, id: SocketId, response: &Response) -> Option<Mark> {
        let socket = &self.sockets[id];
        let flow = socket.log?;
        let tcb = block(socket);
        let behind = response.seq.since(tcb.snd.data_start()).max(0) as u64;
        Some(Mark {
            flow,
            offset: (socket.snd.left() + behind).min(socket.snd.entered()),
            number: tcb.rcv.bytes,
            window: response.window,
            tcp_flags: response.flags,
            ..Mark::default()
        })
    }
}
