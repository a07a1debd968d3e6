//! The handshake: SYNs that begin a connection, and answers to ours.

use sockscope_record::tcp_flags;

use super::input::{Arrival, Stop};
use super::tcb::State;
use super::timers::Timer;
use crate::meter::Meter;
use crate::route::is_broadcast;
use crate::socket::{SocketError, SocketId};
use crate::stack::Stack;

impl Stack {
    /// A segment for a listening socket: a SYN begins a connection, whose socket is new.
    pub(super) fn connection_begins(
        &mut self,
        listener: SocketId,
        arrival: &mut Arrival,
        meter: &mut Meter,
    ) -> Result<SocketId, Stop> {
        if arrival.has(tcp_flags::RST) {
            return Err(Stop::Drop);
        }
        if arrival.has(tcp_flags::ACK) {
            return Err(Stop::Reset);
        }
        if !arrival.has(tcp_flags::SYN) || is_broadcast(arrival.local().0) {
            return Err(Stop::Drop);
        }
        let id = self.sonewconn(listener, meter).ok_or(Stop::Drop)?;
        self.tcp_attach(id);
        self.sockets[id].local = arrival.local();
        if self.in_pcbconnect(id, arrival.foreign(), meter).is_err() {
            self.tcp_close(id, meter);
            return Err(Stop::Drop);
        }
        self.tcp.last = Some(id);
        self.sockets[id].adopt_flow(arrival.flow);
        self.take_syn_options(id, &arrival.header.options, meter);
        let iss = self.tcp.next_iss();
        let handshake_ticks = self.personality.tcp.keep_alive.handshake_ticks;
        let tcb = self.tcb_mut(id);
        tcb.start_sending(iss);
        tcb.timers.start(Timer::Keep, handshake_ticks);
        self.tcp_set_state(id, State::SynReceived, meter);
        self.set_receive_window(id);
        self.take_syn(id, arrival, meter);
        Ok(id)
    }

    /// A segment while our SYN is in flight.
    pub(super) fn answer_to_syn(
        &mut self,
        id: SocketId,
        arrival: &mut Arrival,
        meter: &mut Meter,
    ) -> Result<(), Stop> {
        let has_ack = arrival.has(tcp_flags::ACK);
        let tcb = self.tcb(id);
        let ack = arrival.header.ack;
        if has_ack && (!ack.is_after(tcb.snd.iss) || ack.is_after(tcb.snd.max)) {
            return Err(Stop::Reset);
        }
        if arrival.has(tcp_flags::RST) {
            if has_ack {
                self.tcp_drop(id, SocketError::ConnectionRefused, meter);
            }
            return Err(Stop::Drop);
        }
        if !arrival.has(tcp_flags::SYN) {
            return Err(Stop::Drop);
        }
        self.take_syn_options(id, &arrival.header.options, meter);
        if has_ack {
            self.syn_acknowledged(id, arrival);
        }
        self.take_syn(id, arrival, meter);
        if has_ack {
            self.tcp_established(id, meter);
            self.take_reassembled(id, arrival, meter);
        } else {
            // SYNs that crossed (RFC 9293 §3.5). Ours may be lost: its timer runs on.
            self.tcp_set_state(id, State::SynReceived, meter);
        }
        Ok(())
    }

    /// Our SYN is acknowledged: its number is complete, and its time is a first sample.
    ///
    /// 4.3BSD takes none, but goes on timing: its first sample is the time from the SYN to the
    /// acknowledgment of the first data. A SYN that was sent again leaves the timeout backed off
    /// where Karn's rule holds.
    pub(super) fn syn_acknowledged(&mut self, id: SocketId, arrival: &Arrival) {
        let samples_syn = self.personality.tcp.input.answers_by_output;
        let keep_ticks = self.personality.tcp.keep_alive.idle_ticks;
        let echoed = self.echoed_ticks(id, arrival);
        let tcb = self.tcb_mut(id);
        tcb.snd.is_syn_acked = true;
        tcb.snd.una = tcb.snd.iss + 1;
        tcb.snd.nxt = tcb.snd.nxt.later(tcb.snd.una);
        if tcb.snd.max == tcb.snd.una {
            tcb.timers.stop(Timer::Retransmit);
        }
        tcb.timers.start(Timer::Keep, keep_ticks);
        tcb.repair = None;
        if samples_syn {
            tcb.rtt.acknowledged(arrival.header.ack, echoed);
        }
    }

    /// The peer's SYN: its numbers begin. The segment's data are cut to the window.
    fn take_syn(&mut self, id: SocketId, arrival: &mut Arrival, meter: &mut Meter) {
        let irs = arrival.header.seq;
        self.tcb_mut(id).start_receiving(irs);
        self.tcb_mut(id).must_ack = true;
        arrival.header.seq = irs + 1;
        let window = self.tcb(id).rcv.wnd;
        if arrival.len > window {
            let beyond = arrival.len - window;
            self.cut_end(arrival, beyond, meter);
        }
        let tcb = self.tcb_mut(id);
        tcb.snd.wl1 = irs;
        tcb.snd.wl2 = tcb.snd.una;
    }
}
