//! `tcp_output`: whether something may leave now, and what.
//!
//! The decision is made on a [`View`] of the socket, without touching anything else, so that it can
//! be tested as a table. [`segment`](super::segment) makes and sends what was decided.

use sockscope_record::{Hold, tcp_flags};

use super::rules::{Persist, ShortSegments, TcpRules, WindowOffer, WindowUpdate};
use super::timer::Timer;
use super::{State, Tcb, WINDOW_MAX, block};
use crate::meter::Meter;
use crate::routine::{Routine, Work};
use crate::socket::{Socket, SocketError, SocketId};
use crate::stack::Stack;

/// Who calls for output; the authors of the first study counted calls from input apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// A user request.
    Usrreq,
    /// A received segment.
    Input,
    /// A timer.
    Timer,
}

/// What the decision needs to know of the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct View {
    /// Bytes in the send buffer, from the first not acknowledged on.
    pub(super) queued: u32,
    /// Space in the receive buffer; may be negative.
    pub(super) space: i64,
    /// Limit of the receive buffer.
    pub(super) receive_limit: u32,
    /// Bytes in the receive buffer.
    pub(super) received: u32,
    /// `TCP_NODELAY`
    pub(super) no_delay: bool,
    /// Nothing was unacknowledged when output began: judged once, not for each segment.
    pub(super) is_idle: bool,
}

impl View {
    pub(super) fn of(socket: &Socket, is_idle: bool) -> Self {
        Self {
            queued: socket.snd.cc(),
            space: socket.rcv.space(),
            receive_limit: socket.rcv.hiwat(),
            received: socket.rcv.cc(),
            no_delay: socket.options.no_delay,
            is_idle,
        }
    }
}

/// A segment that may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Place of its first byte in the send buffer.
    pub(super) offset: u32,
    /// Its data bytes.
    pub(super) len: u32,
    /// Its flags, the push flag aside.
    pub(super) flags: u8,
    /// There is more to send than one segment holds.
    pub(super) has_more: bool,
    /// As in the [`View`].
    pub(super) is_idle: bool,
}

impl Stack {
    /// `tcp_output`: sends what may be sent, segment by segment.
    ///
    /// Fails as `ip_output` does; a full interface queue is no failure where it counts as a source
    /// quench.
    pub(super) fn tcp_output(
        &mut self,
        id: SocketId,
        caller: Caller,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        let routine =
            if caller == Caller::Input { Routine::TcpXoutput } else { Routine::TcpOutput };
        meter.call(routine, Work::NONE);
        let restarts = self.personality.tcp.congestion.restarts_when_idle;
        let tcb = self.tcb_mut(id);
        let is_idle = tcb.snd.max == tcb.snd.una;
        if is_idle && restarts {
            tcb.restart_when_idle();
        }
        while let Some(candidate) = self.next_segment(id, is_idle) {
            meter.charge(routine, Work::mbufs(1));
            let is_sent = self.tcp_send(id, &candidate, meter)?;
            if !is_sent || !candidate.has_more {
                break;
            }
        }
        self.persist_if_stuck(id);
        Ok(())
    }

    /// Data wait that nothing will move but the peer's window: its opening may get lost, so that it
    /// must be asked for (RFC 9293 §3.8.6.1).
    ///
    /// The sources look only when nothing was sent; behind a bare acknowledgment they could wait
    /// for ever.
    fn persist_if_stuck(&mut self, id: SocketId) {
        let rule = self.personality.tcp.persist;
        let socket = &mut self.sockets[id];
        let queued = socket.snd.cc();
        if let Some(tcb) = socket.tcb.as_mut().filter(|tcb| tcb.is_stuck(rule, queued)) {
            tcb.rtt.reset_shift();
            tcb.start_persist();
        }
    }

    fn next_segment(&mut self, id: SocketId, is_idle: bool) -> Option<Candidate> {
        let rules = &self.personality.tcp;
        let socket = &mut self.sockets[id];
        let view = View::of(socket, is_idle);
        let tcb = socket.tcb.as_mut()?;
        let candidate = tcb.candidate(rules, &view)?;
        tcb.is_due(rules, &view, &candidate).then_some(candidate)
    }
}

impl Tcb {
    /// The segment that is next, whether or not it may leave; `None` when nothing can be next.
    pub(super) fn candidate(&mut self, rules: &TcpRules, view: &View) -> Option<Candidate> {
        let mut flags = self.flags();
        let is_idle = view.is_idle;
        if flags == 0 {
            return None;
        }
        if self.state == State::Closed {
            return Some(Candidate { offset: 0, len: 0, flags, has_more: false, is_idle });
        }
        let window = self.send_window();
        let offset = self.snd.offset();
        let carries_data = self.state.has_syn() && self.state != State::SynReceived;
        let queued = if carries_data { view.queued } else { 0 };
        if offset > queued.min(window) {
            if rules.mute_behind_fin {
                return None;
            }
            // Behind our FIN, or in a window that shrank. If it closed altogether, go back to its
            // edge and let the persist timer wait for it to open; else wait for acknowledgments.
            if window == 0 {
                self.timers.stop(Timer::Retransmit);
                self.snd.nxt = self.snd.una;
            }
        }
        let offset = self.snd.offset();
        let usable = queued.min(window).saturating_sub(offset);
        let len = usable.min(self.segment_bytes);
        let has_more = usable > len && !(rules.resends_one && self.rtt.shift() > 0);
        if offset + len < queued {
            flags &= !tcp_flags::FIN;
        }
        Some(Candidate { offset, len, flags, has_more, is_idle })
    }

    /// The window that may be used. When the persist timer forces something out, a closed window
    /// takes one byte, and one that is open again ends persisting.
    fn send_window(&mut self) -> u32 {
        let window = self.snd.wnd.min(self.snd.cwnd);
        if !self.is_forced {
            return window;
        }
        if window > 0 {
            self.timers.stop(Timer::Persist);
            self.rtt.reset_shift();
        }
        window.max(1)
    }

    /// Flags that every segment carries in this state. The SYN is left out once it has been sent;
    /// it comes back when the timer goes back to it.
    fn flags(&self) -> u8 {
        const ACK: u8 = tcp_flags::ACK;
        let flags = match self.state {
            State::Closed => tcp_flags::RST | ACK,
            State::Listen | State::SynSent => 0,
            State::SynReceived | State::Established => ACK,
            State::CloseWait | State::FinWait2 | State::TimeWait => ACK,
            State::FinWait1 | State::Closing | State::LastAck => tcp_flags::FIN | ACK,
        };
        let starts = !self.snd.is_syn_acked && self.snd.nxt == self.snd.iss;
        if starts && self.state >= State::SynSent { flags | tcp_flags::SYN } else { flags }
    }

    /// Whether the candidate, with data or without, must leave now.
    pub(super) fn is_due(&self, rules: &TcpRules, view: &View, candidate: &Candidate) -> bool {
        let always = tcp_flags::SYN | tcp_flags::RST;
        candidate.flags & always != 0
            || self.must_ack
            || self.fin_is_due(rules, candidate)
            || candidate.len > 0 && self.data_is_due(rules, view, candidate)
            || self.update_is_due(rules, view)
    }

    /// A FIN leaves once, and again when the timer has gone back to what is not acknowledged.
    fn fin_is_due(&self, rules: &TcpRules, candidate: &Candidate) -> bool {
        let has_fin = candidate.flags & tcp_flags::FIN != 0;
        has_fin && (rules.mute_behind_fin || !self.has_sent_fin || self.snd.nxt == self.snd.una)
    }

    /// The sender's silly-window rule (RFC 813, RFC 1122 §4.2.3.4) and Nagle's.
    pub(super) fn data_is_due(&self, rules: &TcpRules, view: &View, candidate: &Candidate) -> bool {
        let Candidate { offset, len, .. } = *candidate;
        let empties = offset + len >= view.queued;
        if len == self.segment_bytes || self.is_forced {
            return true;
        }
        match rules.short_segments {
            ShortSegments::Quarter => empties || 4 * len >= self.snd.wnd,
            ShortSegments::Nagle { escape_bytes } => {
                escape_bytes.is_some_and(|escape| len >= escape)
                    || empties && (view.is_idle || view.no_delay)
                    || len >= self.snd.wnd_max / 2
                    || self.snd.nxt.is_before(self.snd.max)
            }
        }
    }

    /// The receiver's silly-window rule (RFC 813, RFC 1122 §4.2.3.3): whether the right edge of the
    /// window can move far enough to be worth a segment of its own.
    pub(super) fn update_is_due(&self, rules: &TcpRules, view: &View) -> bool {
        if view.space <= 0 {
            return false;
        }
        let known = i64::from(self.rcv.adv.since(self.rcv.nxt));
        let moves = view.space - known;
        let limit = i64::from(view.receive_limit.max(1));
        let two_segments = moves >= 2 * i64::from(self.segment_bytes);
        if moves < 0 && rules.compares_unsigned {
            return true;
        }
        match rules.window_update {
            WindowUpdate::Share { two_when_empty } => {
                100 * moves >= 35 * limit || two_when_empty && view.received == 0 && two_segments
            }
            WindowUpdate::TwoOrHalf => two_segments || 2 * moves >= limit,
        }
    }

    /// The window to offer (RFC 9293 §3.8.6).
    pub(super) fn offered_window(&self, rules: &TcpRules, view: &View) -> u32 {
        let space = view.space.clamp(0, i64::from(WINDOW_MAX)) as u32;
        let is_small = space < view.receive_limit / 4;
        match rules.offer {
            WindowOffer::Shrinks if is_small => 0,
            WindowOffer::Shrinks => space,
            WindowOffer::Kept => {
                let worth = if is_small && space < self.segment_bytes { 0 } else { space };
                let promised = self.rcv.adv.since(self.rcv.nxt).max(0) as u32;
                worth.max(promised).min(WINDOW_MAX)
            }
        }
    }

    fn is_stuck(&self, rule: Persist, queued: u32) -> bool {
        let runs = self.timers.runs(Timer::Retransmit) || self.timers.runs(Timer::Persist);
        let applies = match rule {
            Persist::ZeroWindow => self.snd.wnd == 0,
            Persist::Stuck => true,
        };
        queued > 0 && applies && !runs && self.state.has_syn()
    }

    /// `tcp_setpersist`
    #[cold]
    pub(super) fn start_persist(&mut self) {
        let ticks = self.rtt.persist_ticks();
        self.timers.start(Timer::Persist, ticks);
    }

    /// What keeps the byte at `offset` of the send buffer from leaving while `queued` are there.
    pub(super) fn hold(&self, rules: &TcpRules, view: &View, offset: u32) -> Hold {
        let window = self.snd.wnd.min(self.snd.cwnd);
        let closed = if self.snd.cwnd < self.snd.wnd { Hold::Cwnd } else { Hold::Rwnd };
        let waiting = view.queued.saturating_sub(offset);
        if waiting == 0 {
            return Hold::None;
        }
        let usable = view.queued.min(window).saturating_sub(offset);
        let len = usable.min(self.segment_bytes);
        let is_idle = view.is_idle;
        let next = Candidate { offset, len, flags: 0, has_more: false, is_idle };
        if usable == 0 {
            closed
        } else if self.data_is_due(rules, view, &next) {
            Hold::None
        } else if usable < waiting {
            closed
        } else {
            Hold::Nagle
        }
    }
}

impl Stack {
    /// What will hold `len` bytes that are about to enter the send buffer, if they do not leave at
    /// once.
    pub(super) fn hold_of_write(&self, id: SocketId, len: usize) -> Hold {
        let socket = &self.sockets[id];
        let tcb = block(socket);
        let view = View::of(socket, tcb.snd.max == tcb.snd.una);
        let view = View { queued: view.queued + len as u32, ..view };
        tcb.hold(&self.personality.tcp, &view, tcb.snd.offset())
    }
}
