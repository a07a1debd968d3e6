//! The two beats: `tcp_fasttimo` every 200 ms, `tcp_slowtimo` every 500 ms.

use sockscope_record::{Protocol, RetransmitClass};

use super::block;
use super::output::Caller;
use super::rules::TICKS_PER_SECOND;
use super::tcb::{Repair, SEQUENCE_STEP, State};
use super::timers::{TIMERS, Timer};
use crate::meter::Meter;
use crate::routine::{Routine, Work};
use crate::socket::{SocketError, SocketId};
use crate::stack::Stack;

impl Stack {
    /// `tcp_fasttimo`: acknowledgments that are owed leave now.
    pub(crate) fn tcp_fasttimo(&mut self, meter: &mut Meter) {
        meter.call(Routine::TcpFasttimo, Work::NONE);
        for at in (0..self.pcbs.of(Protocol::Tcp).sockets.len()).rev() {
            let Some(&id) = self.pcbs.of(Protocol::Tcp).sockets.get(at) else { continue };
            let Some(tcb) = self.sockets[id].tcb.as_mut().filter(|tcb| tcb.owes_ack) else {
                continue;
            };
            tcb.owes_ack = false;
            tcb.must_ack = true;
            // The peer will ask again for an acknowledgment that cannot be sent now.
            let _ = self.tcp_output(id, Caller::Timer, meter);
        }
    }

    /// `tcp_slowtimo`: the timers of every connection count down.
    pub(crate) fn tcp_slowtimo(&mut self, meter: &mut Meter) {
        meter.call(Routine::TcpSlowtimo, Work::NONE);
        for at in (0..self.pcbs.of(Protocol::Tcp).sockets.len()).rev() {
            if let Some(&id) = self.pcbs.of(Protocol::Tcp).sockets.get(at) {
                self.tick(id, meter);
            }
        }
        self.tcp.iss += SEQUENCE_STEP / TICKS_PER_SECOND;
        self.tcp.now = self.tcp.now.wrapping_add(1);
    }

    fn tick(&mut self, id: SocketId, meter: &mut Meter) {
        for timer in TIMERS {
            let Some(tcb) = self.sockets[id].tcb.as_mut() else { return };
            if !tcb.timers.tick(timer) {
                continue;
            }
            // It runs out as a user request of the protocol's own (`PRU_SLOWTIMO`).
            meter.call(Routine::TcpUsrreq, Work::NONE);
            meter.call(Routine::TcpTimers, Work::NONE);
            self.run_out(id, timer, meter);
            if !self.is_alive(id) {
                return;
            }
        }
        let tcb = self.tcb_mut(id);
        tcb.idle_ticks = tcb.idle_ticks.saturating_add(1);
        tcb.rtt.tick();
    }

    /// `tcp_timers`
    fn run_out(&mut self, id: SocketId, timer: Timer, meter: &mut Meter) {
        match timer {
            Timer::Retransmit => self.retransmit(id, meter),
            Timer::Persist => self.probe_window(id, meter),
            Timer::Keep => self.keep_alive(id, meter),
            Timer::Linger => self.linger(id, meter),
        }
    }

    /// No acknowledgment of the sent data: back to their first byte.
    fn retransmit(&mut self, id: SocketId, meter: &mut Meter) {
        self.tcp.counts.timeouts += 1;
        let rules = self.personality.tcp;
        let tcb = self.tcb_mut(id);
        if !tcb.rtt.timed_out() {
            self.tcp.counts.given_up += 1;
            self.tcp_drop(id, SocketError::TimedOut, meter);
            return;
        }
        let ticks = tcb.rtt.timeout_ticks();
        tcb.timers.start(Timer::Retransmit, ticks);
        tcb.repair = Some(Repair { how: RetransmitClass::Timeout, until: tcb.snd.max });
        tcb.snd.nxt = tcb.snd.una;
        tcb.scoreboard.clear();
        if rules.congestion.timeout_shrinks {
            tcb.shrink();
        }
        if rules.congestion.timeout_forgets_duplicates {
            tcb.duplicates = 0;
        }
        // Data that cannot be sent now are tried again when the timer runs out next.
        let _ = self.tcp_output(id, Caller::Timer, meter);
    }

    fn probe_window(&mut self, id: SocketId, meter: &mut Meter) {
        let tcb = self.tcb_mut(id);
        tcb.start_persist();
        tcb.is_forced = true;
        let _ = self.tcp_output(id, Caller::Timer, meter);
        self.tcb_mut(id).is_forced = false;
    }

    fn keep_alive(&mut self, id: SocketId, meter: &mut Meter) {
        let rules = self.personality.tcp.keep_alive;
        let socket = &self.sockets[id];
        let tcb = block(socket);
        if tcb.state < State::Established {
            self.tcp.counts.given_up += 1;
            self.tcp_drop(id, SocketError::TimedOut, meter);
            return;
        }
        let asks = socket.options.keep_alive && tcb.state <= State::CloseWait;
        if asks && tcb.idle_ticks >= rules.idle_ticks_max {
            self.tcp.counts.given_up += 1;
            self.tcp_drop(id, SocketError::TimedOut, meter);
            return;
        }
        if asks {
            self.send_keep_alive(id, meter);
        }
        let ticks = if asks { rules.interval_ticks } else { rules.idle_ticks };
        self.tcb_mut(id).timers.start(Timer::Keep, ticks);
    }

    /// Late segments can no longer arrive, or the peer's FIN did not: the block goes. While a peer
    /// that has not closed still sends, the block waits for its FIN.
    fn linger(&mut self, id: SocketId, meter: &mut Meter) {
        let rules = self.personality.tcp.keep_alive;
        let tcb = self.tcb_mut(id);
        if tcb.state != State::TimeWait && tcb.idle_ticks <= rules.fin_wait_ticks {
            tcb.timers.start(Timer::Linger, rules.interval_ticks);
        } else {
            self.tcp_close(id, meter);
        }
    }
}
