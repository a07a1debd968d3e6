//! Cutting a segment to the window (RFC 9293 §3.10.7.4, first check).

use sockscope_record::tcp_flags;

use super::input::{Arrival, Stop};
use super::rules::InputRules;
use super::tcb::{SEQUENCE_STEP, State};
use crate::meter::Meter;
use crate::routine::{Routine, Work};
use crate::socket::SocketId;
use crate::stack::Stack;

impl Stack {
    /// Cuts off the data before the window and beyond it.
    pub(super) fn trim(
        &mut self,
        id: SocketId,
        arrival: &mut Arrival,
        meter: &mut Meter,
    ) -> Result<(), Stop> {
        let rules = self.personality.tcp.input;
        let is_closed = self.tcb(id).rcv.wnd == 0;
        if is_closed && !rules.answers_by_output {
            return self.trim_to_closed_window(id, arrival, meter);
        }
        self.trim_front(id, &rules, arrival, meter)?;
        self.refuse_for_orphan(id, arrival, meter)?;
        self.trim_end(id, &rules, arrival, meter)
    }

    /// Older systems take nothing into a closed window, but a segment at its edge may still
    /// acknowledge.
    fn trim_to_closed_window(
        &mut self,
        id: SocketId,
        arrival: &mut Arrival,
        meter: &mut Meter,
    ) -> Result<(), Stop> {
        if arrival.header.seq != self.tcb(id).rcv.nxt {
            return Err(Stop::Acknowledge);
        }
        if arrival.len > 0 {
            self.tcp.counts.outside_window += 1;
            let all = arrival.len;
            self.cut_end(arrival, all, meter);
        }
        Ok(())
    }

    fn trim_front(
        &mut self,
        id: SocketId,
        rules: &InputRules,
        arrival: &mut Arrival,
        meter: &mut Meter,
    ) -> Result<(), Stop> {
        let before = self.tcb(id).rcv.nxt.since(arrival.header.seq);
        if before <= 0 {
            return Ok(());
        }
        let mut before = before as u32;
        self.tcp.counts.outside_window += 1;
        if arrival.has(tcp_flags::SYN) {
            arrival.clear(tcp_flags::SYN);
            arrival.header.seq += 1;
            before -= 1;
        }
        let has_fin = arrival.has(tcp_flags::FIN);
        if before > arrival.len || before == arrival.len && !has_fin {
            before = self.only_just_before(id, rules, arrival, before)?;
        }
        meter.call(Routine::MAdj, Work::mbufs(arrival.chain.mbufs()));
        arrival.skip += before;
        arrival.len -= before;
        arrival.header.seq += before;
        arrival.cut_urgent(before);
        Ok(())
    }

    /// A segment without new data is answered and forgotten, with one exception everywhere, the [blind
    /// acknowledgment](Self::is_blind_acknowledgment), and two in the newer systems. A repeated FIN may bring the
    /// acknowledgment of ours, without which two ends whose FINs crossed would answer each other for ever; and a reset
    /// by the answer to a probe of an old peer is meant.
    fn only_just_before(
        &mut self,
        id: SocketId,
        rules: &InputRules,
        arrival: &mut Arrival,
        before: u32,
    ) -> Result<u32, Stop> {
        let repeated_fin = arrival.has(tcp_flags::FIN) && before == arrival.len + 1;
        let reset = arrival.has(tcp_flags::RST) && arrival.len == 0 && before == 1;
        let is_excepted = rules.answers_by_output && (repeated_fin || reset);
        if !is_excepted && !self.is_blind_acknowledgment(id, arrival, before) {
            return Err(Stop::Acknowledge);
        }
        arrival.clear(tcp_flags::FIN);
        arrival.header.seq += before - arrival.len;
        self.tcb_mut(id).must_ack |= rules.answers_empty;
        Ok(arrival.len)
    }

    /// A bare acknowledgment of something new from a peer that does not know that its probe of our
    /// window was taken. The peer still counts from before the probe.
    ///
    /// The sources up to 4.3BSD-Reno drop it, and two ends whose probes crossed then never hear each
    /// other again, however wide their windows are. 4.4BSD reads the acknowledgment of any repeated
    /// segment; only the one that is needed is read here.
    fn is_blind_acknowledgment(&self, id: SocketId, arrival: &Arrival, before: u32) -> bool {
        const OTHERS: u8 = tcp_flags::SYN | tcp_flags::FIN | tcp_flags::RST;
        let (snd, ack) = (&self.tcb(id).snd, arrival.header.ack);
        let is_bare = arrival.len == 0 && arrival.header.flags & OTHERS == 0;
        is_bare
            && before == 1
            && arrival.has(tcp_flags::ACK)
            && ack.is_after(snd.una)
            && !ack.is_after(snd.max)
    }

    /// Data that no program will read: the peer is notified, and the connection is over.
    fn refuse_for_orphan(
        &mut self,
        id: SocketId,
        arrival: &Arrival,
        meter: &mut Meter,
    ) -> Result<(), Stop> {
        let is_orphan = self.sockets[id].state.is_unreferenced;
        let closes = self.tcb(id).state > State::CloseWait;
        if is_orphan && closes && arrival.len > 0 {
            self.tcp_close(id, meter);
            return Err(Stop::Reset);
        }
        Ok(())
    }

    fn trim_end(
        &mut self,
        id: SocketId,
        rules: &InputRules,
        arrival: &mut Arrival,
        meter: &mut Meter,
    ) -> Result<(), Stop> {
        let tcb = self.tcb(id);
        let beyond = arrival.end().since(tcb.rcv.nxt + tcb.rcv.wnd);
        if beyond <= 0 {
            return Ok(());
        }
        self.tcp.counts.outside_window += 1;
        if beyond as u32 >= arrival.len {
            self.nothing_inside(id, rules, arrival, meter)?;
        }
        self.cut_end(arrival, beyond as u32, meter);
        Ok(())
    }

    /// All of the segment is beyond the window. A probe of a closed window still has its
    /// acknowledgment read; a new SYN may replace a connection that is only waiting.
    fn nothing_inside(
        &mut self,
        id: SocketId,
        rules: &InputRules,
        arrival: &Arrival,
        meter: &mut Meter,
    ) -> Result<(), Stop> {
        let tcb = self.tcb(id);
        let is_newer = arrival.header.seq.is_after(tcb.rcv.nxt);
        let opens = arrival.has(tcp_flags::SYN) && tcb.state == State::TimeWait && is_newer;
        if opens && rules.reopens_time_wait {
            // Its numbers must be clear of those of the old connection (RFC 9293 §3.6.1).
            let clear = tcb.snd.max + SEQUENCE_STEP;
            self.tcp.iss = self.tcp.iss.later(clear);
            self.tcp_close(id, meter);
            return Err(Stop::Again);
        }
        let probes = tcb.rcv.wnd == 0 && arrival.header.seq == tcb.rcv.nxt;
        if !(rules.answers_by_output && probes) {
            return Err(Stop::Acknowledge);
        }
        self.tcb_mut(id).must_ack = true;
        Ok(())
    }

    /// Cuts data off the end, and clears the flags PSH and FIN.
    pub(super) fn cut_end(&mut self, arrival: &mut Arrival, bytes: u32, meter: &mut Meter) {
        let bytes = bytes.min(arrival.len);
        self.pool.m_adj(&mut arrival.chain, -(bytes as i32), meter);
        arrival.len -= bytes;
        arrival.clear(tcp_flags::PSH | tcp_flags::FIN);
    }
}
