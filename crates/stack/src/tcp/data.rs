//! Window, data and FIN of a segment that belongs where it is.

use sockscope_record::tcp_flags;

use super::block_mut;
use super::input::Arrival;
use super::reassembly::Piece;
use super::rules::Persist;
use super::tcb::State;
use super::timers::Timer;
use crate::mbuf::{Chain, Pool};
use crate::meter::Meter;
use crate::routine::{Routine, Work};
use crate::sockbuf::BufferRules;
use crate::socket::{Socket, SocketId};
use crate::stack::Stack;

impl Stack {
    /// The peer's window, if this segment is newer than the one that brought it last
    /// (RFC 9293 §3.10.7.4, fifth check).
    pub(super) fn take_window(&mut self, id: SocketId, arrival: &mut Arrival) {
        let persist = self.personality.tcp.persist;
        let header = &arrival.header;
        let window = arrival.window;
        let tcb = self.tcb_mut(id);
        let ack = if header.has(tcp_flags::ACK) { header.ack } else { tcb.snd.una };
        let (wl1, wl2) = (tcb.snd.wl1, tcb.snd.wl2);
        let is_newer = wl1.is_before(header.seq)
            || wl1 == header.seq && (wl2.is_before(ack) || wl2 == ack && window > tcb.snd.wnd);
        if !is_newer {
            return;
        }
        tcb.snd.wnd = window;
        tcb.snd.wl1 = header.seq;
        tcb.snd.wl2 = ack;
        tcb.snd.wnd_max = tcb.snd.wnd_max.max(window);
        if persist == Persist::ZeroWindow && window > 0 {
            tcb.timers.stop(Timer::Persist);
        }
        arrival.needs_output = true;
    }

    /// Data, in order or not; a FIN that is not in order waits with them.
    pub(super) fn take_data(&mut self, id: SocketId, arrival: &mut Arrival, meter: &mut Meter) {
        if arrival.len == 0 && !arrival.has(tcp_flags::FIN) {
            return;
        }
        let always_reassembles = self.personality.tcp.input.always_reassembles;
        let tcb = self.tcb_mut(id);
        let is_next = arrival.header.seq == tcb.rcv.nxt && tcb.reassembly.is_empty();
        if !is_next || tcb.state != State::Established || always_reassembles {
            self.take_other_data(id, is_next, arrival, meter);
        } else if arrival.len > 0 {
            self.append_in_order(id, arrival, meter);
        } else {
            tcb.owes_ack = true;
        }
    }

    /// Data that wait for others, or arrive at the end of a connection.
    fn take_other_data(
        &mut self,
        id: SocketId,
        is_next: bool,
        arrival: &mut Arrival,
        meter: &mut Meter,
    ) {
        let has_fin = arrival.has(tcp_flags::FIN);
        arrival.clear(tcp_flags::FIN);
        if self.tcb(id).state.has_fin() {
            return;
        }
        if !is_next {
            self.tcp.counts.out_of_order += 1;
        }
        let acks_out_of_order = self.personality.tcp.input.acks_out_of_order;
        let tcb = self.tcb_mut(id);
        if acks_out_of_order {
            tcb.must_ack = true;
        } else {
            tcb.owes_ack = true;
        }
        let seq = arrival.header.seq;
        let chain = self.take_chain(arrival, meter);
        let piece = Piece { seq, chain, has_fin };
        let Stack { sockets, pool, .. } = self;
        if let Some(tcb) = sockets[id].tcb.as_mut() {
            tcb.reassembly.insert(piece, pool, meter);
        }
        self.take_reassembled(id, arrival, meter);
    }

    /// The next data go straight to the reader.
    pub(super) fn append_in_order(
        &mut self,
        id: SocketId,
        arrival: &mut Arrival,
        meter: &mut Meter,
    ) {
        let len = arrival.len;
        let chain = self.take_chain(arrival, meter);
        let Stack { sockets, pool, personality, .. } = self;
        let socket = &mut sockets[id];
        let tcb = block_mut(socket);
        assert_eq!(arrival.header.seq, tcb.rcv.nxt, "data in order begin at rcv_nxt");
        assert_eq!(chain.len(), len as usize, "data have the segment's length");
        tcb.rcv.nxt += len;
        tcb.owes_ack = true;
        socket.deliver(chain, &personality.socket.buffers, pool, meter);
        socket.sorwakeup(id, meter);
    }

    /// `tcp_reass`: data next in order go to the reader. A FIN that leaves the queue is kept in the
    /// arrival's flags. Before the handshake is complete everything waits.
    pub(super) fn take_reassembled(
        &mut self,
        id: SocketId,
        arrival: &mut Arrival,
        meter: &mut Meter,
    ) {
        meter.call(Routine::TcpReass, Work::NONE);
        if self.tcb(id).state < State::Established {
            return;
        }
        let mut has_data = false;
        let Stack { sockets, pool, personality, .. } = self;
        let socket = &mut sockets[id];
        loop {
            let tcb = block_mut(socket);
            let Some(piece) = tcb.reassembly.take(tcb.rcv.nxt) else { break };
            tcb.rcv.nxt += piece.chain.len() as u32;
            has_data |= !piece.chain.is_empty();
            socket.deliver(piece.chain, &personality.socket.buffers, pool, meter);
            if piece.has_fin {
                arrival.header.flags |= tcp_flags::FIN;
                break;
            }
        }
        if has_data {
            socket.sorwakeup(id, meter);
        }
    }

    /// The data alone. The mbuf that held the headers stays in front without any, as the sources
    /// have it: `sbappend` frees it.
    fn take_chain(&mut self, arrival: &mut Arrival, meter: &mut Meter) -> Chain {
        let mut chain = arrival.chain.take();
        let skip = std::mem::take(&mut arrival.skip) as usize;
        let Some(first) = chain.first() else { return chain };
        let (len, is_plain) = (self.pool.len(first), self.pool.is_plain(first));
        if len > skip || len == skip && is_plain {
            self.pool.trim_first(&mut chain, first, skip);
            return chain;
        }
        if is_plain {
            self.pool.pop_front(&mut chain);
            self.pool.drop_front(&mut chain, skip - len, meter);
            self.pool.set_range(first, 0, 0);
            self.pool.push_front(&mut chain, first);
        } else {
            self.pool.drop_front(&mut chain, skip, meter);
        }
        chain
    }

    /// The peer has nothing more to send.
    pub(super) fn take_fin(&mut self, id: SocketId, meter: &mut Meter) {
        if !self.tcb(id).state.has_fin() {
            let tcb = self.tcb_mut(id);
            tcb.must_ack = true;
            tcb.rcv.nxt += 1;
            self.socantrcvmore(id, meter);
        }
        match self.tcb(id).state {
            State::SynReceived | State::Established => {
                self.tcp_set_state(id, State::CloseWait, meter);
            }
            State::FinWait1 => self.tcp_set_state(id, State::Closing, meter),
            State::FinWait2 => self.enter_time_wait(id, meter),
            State::TimeWait => self.restart_time_wait(id),
            _ => {}
        }
    }
}

impl Socket {
    /// Data in order enter the receive buffer (point 7), unless no program will read them.
    fn deliver(&mut self, chain: Chain, rules: &BufferRules, pool: &mut Pool, meter: &mut Meter) {
        let len = chain.len();
        block_mut(self).rcv.bytes += len as u64;
        if self.state.cannot_receive_more {
            pool.m_freem(chain, meter);
            return;
        }
        self.observe_receive_enqueue(len, meter);
        let mut chain = chain;
        let mut apart = 0;
        let mut end = block_mut(self).rcv.bytes;
        let mut before = len;
        while let Some(position) = self.apart_in(end, before) {
            before -= (end - position) as usize;
            end = position;
            if pool.cut_byte(&mut chain, before, meter) {
                apart += 1;
            } else {
                self.urgent.leave_in(position);
            }
        }
        self.rcv.append(chain, rules, pool, meter);
        (0..apart).for_each(|_| self.rcv.enter_apart());
    }
}
