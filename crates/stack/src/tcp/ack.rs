//! The acknowledgment field: it frees data, and shows losses.

use sockscope_record::RetransmitClass;

use super::congestion::DUPLICATES_MAX;
use super::input::{Arrival, Stop};
use super::output::Caller;
use super::rules::Duplicates;
use super::seq::Seq;
use super::tcb::{Repair, State};
use super::timers::Timer;
use crate::meter::Meter;
use crate::socket::SocketId;
use crate::stack::Stack;

impl Stack {
    /// Takes the acknowledgment in (RFC 9293 §3.10.7.4, fifth check).
    pub(super) fn take_acknowledgment(
        &mut self,
        id: SocketId,
        arrival: &mut Arrival,
        meter: &mut Meter,
    ) -> Result<(), Stop> {
        let ack = arrival.header.ack;
        let is_news = self.take_blocks(id, arrival);
        let snd = &self.tcb(id).snd;
        if !ack.is_after(snd.una) {
            if self.repairs_by_blocks(id) {
                if is_news {
                    self.new_blocks(id, meter);
                }
                return Ok(());
            }
            return self.old_acknowledgment(id, arrival, meter);
        }
        if ack.is_after(snd.max) {
            return Err(Stop::Acknowledge);
        }
        let is_fin_acked = self.new_acknowledgment(id, arrival, meter);
        self.our_fin(id, is_fin_acked, meter)
    }

    /// The last segment of the handshake, for the side that did not begin it.
    pub(super) fn complete_handshake(
        &mut self,
        id: SocketId,
        arrival: &mut Arrival,
        meter: &mut Meter,
    ) -> Result<(), Stop> {
        let (ack, snd) = (arrival.header.ack, self.tcb(id).snd);
        if !ack.is_after(snd.iss) || ack.is_after(snd.max) {
            return Err(Stop::Reset);
        }
        let rules = self.personality.tcp;
        self.syn_acknowledged(id, arrival);
        self.tcp_established(id, meter);
        if rules.input.answers_by_output && ack == snd.iss + 1 {
            // An acknowledgment of more than the SYN opens the window once, as data.
            self.tcb_mut(id).grow_window(rules.congestion.growth);
        }
        self.take_reassembled(id, arrival, meter);
        // The window of this segment counts, after any earlier segment.
        self.tcb_mut(id).snd.wl1 = arrival.header.seq - 1;
        Ok(())
    }

    /// Nothing new is acknowledged. Repetitions of the same number show that a segment was lost.
    fn old_acknowledgment(
        &mut self,
        id: SocketId,
        arrival: &Arrival,
        meter: &mut Meter,
    ) -> Result<(), Stop> {
        let rule = self.personality.tcp.congestion.duplicates;
        if rule == Duplicates::Ignored {
            return Ok(());
        }
        let tcb = self.tcb_mut(id);
        let same_window = arrival.window == tcb.snd.wnd;
        if arrival.len > 0 || !same_window {
            tcb.duplicates = 0;
            return Ok(());
        }
        if !tcb.timers.runs(Timer::Retransmit) || arrival.header.ack != tcb.snd.una {
            tcb.duplicates = 0;
            return Ok(());
        }
        self.duplicate_acknowledgment(id, rule, meter)
    }

    fn duplicate_acknowledgment(
        &mut self,
        id: SocketId,
        rule: Duplicates,
        meter: &mut Meter,
    ) -> Result<(), Stop> {
        let tcb = self.tcb_mut(id);
        tcb.duplicates += 1;
        let count = tcb.duplicates;
        self.tcp.counts.duplicate_acks += 1;
        if count == DUPLICATES_MAX {
            self.fast_retransmit(id, rule, meter);
            return Err(Stop::Drop);
        }
        if count > DUPLICATES_MAX && rule == Duplicates::Recover {
            self.tcb_mut(id).inflate_more();
            let _ = self.tcp_output(id, Caller::Input, meter);
            return Err(Stop::Drop);
        }
        Ok(())
    }

    /// Sends the first segment that is missing once more, and nothing else (RFC 5681 §3.2).
    fn fast_retransmit(&mut self, id: SocketId, rule: Duplicates, meter: &mut Meter) {
        self.tcp.counts.fast_retransmits += 1;
        let tcb = self.tcb_mut(id);
        let next = tcb.snd.nxt;
        tcb.shrink();
        tcb.timers.stop(Timer::Retransmit);
        tcb.rtt.stop();
        tcb.repair = Some(Repair { how: RetransmitClass::Fast, until: tcb.snd.max });
        tcb.snd.nxt = tcb.snd.una;
        // The timer, started anew by this, sends the rest again.
        let _ = self.tcp_output(id, Caller::Input, meter);
        let tcb = self.tcb_mut(id);
        tcb.inflate(rule);
        tcb.snd.nxt = tcb.snd.nxt.later(next);
    }

    /// New data are acknowledged; whether our FIN is, too.
    fn new_acknowledgment(
        &mut self,
        id: SocketId,
        arrival: &mut Arrival,
        meter: &mut Meter,
    ) -> bool {
        let rules = self.personality.tcp.congestion;
        let ack = arrival.header.ack;
        let tcb = self.tcb_mut(id);
        let is_repairing = tcb.scoreboard.until().is_some();
        if !is_repairing {
            tcb.deflate(rules.duplicates);
        }
        arrival.needs_output |= ack == tcb.snd.max;
        let acked = ack.since(tcb.snd.una).max(0) as u32;
        let echoed = self.echoed_ticks(id, arrival);
        let data = self.drop_acknowledged(id, ack, echoed, meter);
        let tcb = self.tcb_mut(id);
        if !is_repairing {
            tcb.grow_window(rules.growth);
        }
        // The window ends where it did, until this segment's own window is read.
        tcb.snd.wnd = tcb.snd.wnd.saturating_sub(data);
        arrival.needs_output |= self.repair_advances(id, meter);
        // A number beyond the data can only be the FIN: nothing beyond `max` gets here.
        acked > data
    }

    /// Data up to `ack` leave the send buffer, the timer is set anew, a sleeping writer wakes.
    /// Returns the number of these bytes. `echoed` is the round-trip time that a timestamp shows, in ticks.
    pub(super) fn drop_acknowledged(
        &mut self,
        id: SocketId,
        ack: Seq,
        echoed: Option<u32>,
        meter: &mut Meter,
    ) -> u32 {
        let socket = &mut self.sockets[id];
        let Some(tcb) = socket.tcb.as_mut() else { return 0 };
        tcb.rtt.acknowledged(ack, echoed);
        if ack == tcb.snd.max {
            tcb.timers.stop(Timer::Retransmit);
        } else if !tcb.timers.runs(Timer::Persist) {
            tcb.rtt.timer_restarted();
            tcb.timers.start(Timer::Retransmit, tcb.rtt.timeout_ticks());
        }
        debug_assert!(!ack.is_before(tcb.snd.una), "acknowledged before");
        debug_assert!(!ack.is_after(tcb.snd.max), "acknowledged and never sent");
        let acked = ack.since(tcb.snd.una).max(0) as u32;
        let data = acked.min(socket.snd.cc());
        tcb.snd.una = ack;
        tcb.snd.nxt = tcb.snd.nxt.later(ack);
        tcb.scoreboard.advance(ack);
        if tcb.repair.is_some_and(|repair| !ack.is_before(repair.until)) {
            tcb.repair = None;
        }
        socket.snd.drop_front(data as usize, &mut self.pool, meter);
        if socket.snd.is_waited_for {
            self.sowwakeup(id, meter);
        }
        data
    }

    /// The closing states move on when our FIN is acknowledged.
    fn our_fin(&mut self, id: SocketId, is_acked: bool, meter: &mut Meter) -> Result<(), Stop> {
        match self.tcb(id).state {
            State::FinWait1 if is_acked => {
                // No program will ever read: do not wait for the peer's FIN for ever.
                if self.sockets[id].state.cannot_receive_more {
                    self.soisdisconnected(id, meter);
                    let ticks = self.personality.tcp.keep_alive.fin_wait_ticks;
                    self.tcb_mut(id).timers.start(Timer::Linger, ticks);
                }
                self.tcp_set_state(id, State::FinWait2, meter);
            }
            State::Closing if is_acked => self.enter_time_wait(id, meter),
            State::LastAck if is_acked => {
                self.tcp_close(id, meter);
                return Err(Stop::Drop);
            }
            State::TimeWait => {
                self.restart_time_wait(id);
                return Err(Stop::Acknowledge);
            }
            _ => {}
        }
        Ok(())
    }
}
