//! `tcp_output`: the decision on the next segment.
//!
//! The decision is made on a [`View`] of the socket, without touching anything else, so that it can
//! be tested as a table. [`segment`](super::segment) makes and sends the segment.

use sockscope_record::{Hold, tcp_flags};

use super::rules::{Persist, ShortSegments, TcpRules, WindowOffer, WindowUpdate};
use super::tcb::{State, Tcb};
use super::timers::Timer;
use super::{block, no_block};
use crate::meter::Meter;
use crate::routine::{Routine, Work};
use crate::sockbuf::SockBuf;
use crate::socket::{Options, Socket, SocketError, SocketId};
use crate::stack::Stack;

/// The caller of output; the authors of the first study counted calls from input apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// A user request.
    Usrreq,
    /// A received segment.
    Input,
    /// A timer.
    Timer,
}

/// The part of the socket that the decision needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    /// Bytes in the send buffer, from the first not acknowledged on.
    pub(super) queued: u32,
    /// The receive buffer.
    pub(super) rcv: &'a SockBuf,
    /// The options set by the program.
    pub(super) options: &'a Options,
    /// Nothing was unacknowledged when output began: judged once, not for each segment.
    pub(super) is_idle: bool,
}

/// A segment that may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Place of its first byte in the send buffer.
    pub(super) offset: u32,
    /// Its data bytes.
    pub(super) len: u32,
    /// Bytes from its first one on that the window lets out: it holds not all of them.
    pub(super) usable: u32,
    /// Its flags, the push flag aside.
    pub(super) flags: u8,
}

impl Stack {
    /// `tcp_output`: sends the segments allowed now.
    ///
    /// Fails as `ip_output` does; a full interface queue is no failure where it counts as a source
    /// quench.
    pub(super) fn tcp_output(
        &mut self,
        id: SocketId,
        caller: Caller,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        let routine = match caller {
            Caller::Input => Routine::TcpXoutput,
            Caller::Usrreq | Caller::Timer => Routine::TcpOutput,
        };
        meter.call(routine, Work::NONE);
        let result = self.send_segments(id, routine, meter);
        self.check_block(id);
        result
    }

    fn send_segments(
        &mut self,
        id: SocketId,
        routine: Routine,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        let rules = &self.personality.tcp;
        let Socket { tcb: Some(tcb), snd, rcv, options, .. } = &mut self.sockets[id] else {
            no_block()
        };
        let is_idle = tcb.begin_output(rules);
        let view = View { queued: snd.cc(), rcv, options, is_idle };
        match tcb.next_segment(rules, &view) {
            Some(first) => self.tcp_send(id, first, is_idle, routine, meter),
            None => Ok(()),
        }
    }

    /// The segment that must leave now, behind others.
    pub(super) fn segment_behind(&mut self, id: SocketId, is_idle: bool) -> Option<Candidate> {
        let rules = &self.personality.tcp;
        let Socket { tcb: Some(tcb), snd, rcv, options, .. } = &mut self.sockets[id] else {
            no_block()
        };
        let view = View { queued: snd.cc(), rcv, options, is_idle };
        tcb.next_segment(rules, &view)
    }
}

impl Tcb {
    fn is_idle(&self) -> bool {
        self.snd.max == self.snd.una
    }

    /// Whether nothing is unacknowledged; a window that is then out of date shrinks.
    fn begin_output(&mut self, rules: &TcpRules) -> bool {
        let is_idle = self.is_idle();
        if is_idle && rules.congestion.restarts_when_idle {
            self.restart_when_idle();
        }
        is_idle
    }

    /// The segment that must leave now; without one it may be time to persist.
    fn next_segment(&mut self, rules: &TcpRules, view: &View) -> Option<Candidate> {
        if !self.is_forced && self.snd.nxt.is_before(self.snd.max) {
            // Behind a timeout all is sent again but the data that the peer has announced since.
            self.snd.nxt = self.scoreboard.skip(self.snd.nxt);
        }
        if let Some(candidate) = self.candidate(rules, view)
            && self.is_due(rules, view, &candidate)
        {
            return Some(candidate);
        }
        self.persist_if_stuck(rules.persist, view.queued);
        None
    }

    /// Data wait that nothing will move but the peer's window: its opening may get lost, so that it
    /// must be asked for (RFC 9293 §3.8.6.1).
    ///
    /// The sources look only when nothing was sent; behind a bare acknowledgment they could wait
    /// for ever.
    pub(super) fn persist_if_stuck(&mut self, rule: Persist, queued: u32) {
        if queued > 0 && !self.timers.runs(Timer::Retransmit) && self.is_stuck(rule) {
            self.rtt.reset_shift();
            self.start_persist();
        }
    }

    /// The segment that is next, whether or not it may leave; `None` when nothing can be next.
    pub(super) fn candidate(&mut self, rules: &TcpRules, view: &View) -> Option<Candidate> {
        let mut flags = tcp_flags::ACK;
        let mut start = self.snd.una;
        let mut queued = view.queued;
        if self.state != State::Established || !self.snd.is_syn_acked {
            flags = self.flags();
            if flags == 0 {
                return None;
            }
            if self.state == State::Closed {
                return Some(Candidate { offset: 0, len: 0, usable: 0, flags });
            }
            if self.state <= State::SynReceived {
                queued = 0;
            }
            start = self.snd.data_start();
        }
        let window = self.send_window();
        // Never negative: `nxt` is kept at `una` or behind it.
        let mut offset = self.snd.nxt.since(start).max(0) as u32;
        if offset > queued.min(window) {
            if rules.mute_behind_fin {
                return None;
            }
            // Behind our FIN, or in a window that shrank. If it closed altogether, go back to its
            // edge and let the persist timer wait for it to open; else wait for acknowledgments.
            if window == 0 {
                self.timers.stop(Timer::Retransmit);
                self.snd.nxt = self.snd.una;
                offset = 0;
            }
        }
        let usable = queued.min(window).saturating_sub(offset);
        let len = usable.min(self.segment_bytes);
        if flags & tcp_flags::FIN != 0 {
            flags = fin_if_last(flags, offset + len, queued);
        }
        Some(Candidate { offset, len, usable, flags })
    }

    /// Whether there is more to send now than this segment holds.
    pub(super) fn has_more(&self, rules: &TcpRules, candidate: &Candidate) -> bool {
        candidate.usable > candidate.len && !(rules.resends_one && self.rtt.shift() > 0)
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
    /// it is sent again when the timer goes back to it.
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
            || self.has_urgent()
            || self.fin_is_due(rules, candidate)
            || candidate.len > 0 && self.data_is_due(rules, view, candidate)
            || self.update_is_due(rules, view)
    }

    /// A FIN leaves once, and again when the timer has gone back to unacknowledged data.
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
                    || empties && (view.is_idle || view.options.no_delay)
                    || len >= self.snd.wnd_max / 2
                    || self.snd.nxt.is_before(self.snd.max)
            }
        }
    }

    /// The receiver's silly-window rule (RFC 813, RFC 1122 §4.2.3.3): whether the right edge of the
    /// window can move far enough to be worth a segment of its own.
    pub(super) fn update_is_due(&self, rules: &TcpRules, view: &View) -> bool {
        let mut space = view.rcv.space();
        if space <= 0 {
            return false;
        }
        if rules.options.window_scaling {
            // Space that no header can name is no move; the systems of the time do count it.
            space = space.min(i64::from(self.rcv.window_max()));
        }
        let known = i64::from(self.rcv.adv.since(self.rcv.nxt));
        let moves = space - known;
        if moves <= 0 {
            return moves < 0 && rules.compares_unsigned;
        }
        let limit = i64::from(view.rcv.hiwat());
        let two_segments = moves >= 2 * i64::from(self.segment_bytes);
        match rules.window_update {
            WindowUpdate::Share { two_when_empty } => {
                100 * moves >= 35 * limit || two_when_empty && view.rcv.cc() == 0 && two_segments
            }
            WindowUpdate::TwoOrHalf => two_segments || 2 * moves >= limit,
        }
    }

    /// The window to offer (RFC 9293 §3.8.6).
    pub(super) fn offered_window(&self, rules: &TcpRules, view: &View) -> u32 {
        let window_max = self.rcv.window_max();
        let space = view.rcv.space().clamp(0, i64::from(window_max)) as u32;
        let is_small = space < view.rcv.hiwat() / 4;
        match rules.offer {
            WindowOffer::Shrinks if is_small => 0,
            WindowOffer::Shrinks => space,
            WindowOffer::Kept => {
                let promised = self.rcv.adv.since(self.rcv.nxt).max(0) as u32;
                if space <= promised {
                    return promised.min(window_max);
                }
                if is_small && space < self.segment_bytes { promised } else { space }
            }
        }
    }

    fn is_stuck(&self, rule: Persist) -> bool {
        let applies = match rule {
            Persist::ZeroWindow => self.snd.wnd == 0,
            Persist::Stuck => true,
        };
        applies && !self.timers.runs(Timer::Persist) && self.state.has_syn()
    }

    /// `tcp_setpersist`
    pub(super) fn start_persist(&mut self) {
        let ticks = self.rtt.persist_ticks();
        self.timers.start(Timer::Persist, ticks);
    }

    /// The reason why the byte at `offset` of the send buffer waits while `queued` are there.
    pub(super) fn hold(&self, rules: &TcpRules, view: &View, offset: u32) -> Hold {
        if view.queued <= offset {
            return Hold::None;
        }
        let waiting = view.queued - offset;
        let window = self.snd.wnd.min(self.snd.cwnd);
        let closed = if self.snd.cwnd < self.snd.wnd { Hold::Cwnd } else { Hold::Rwnd };
        let usable = view.queued.min(window).saturating_sub(offset);
        let len = usable.min(self.segment_bytes);
        let next = Candidate { offset, len, usable, flags: 0 };
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

/// The flags of a segment up to `end`, without FIN unless it empties the queue.
fn fin_if_last(flags: u8, end: u32, queued: u32) -> u8 {
    if end < queued { flags & !tcp_flags::FIN } else { flags }
}

impl Socket {
    /// The hold on `len` bytes that are about to enter the send buffer, if they do not leave at
    /// once.
    pub(super) fn hold_of_write(&self, rules: &TcpRules, len: u32) -> Hold {
        let tcb = block(self);
        let view = View {
            queued: self.snd.cc() + len,
            rcv: &self.rcv,
            options: &self.options,
            is_idle: tcb.is_idle(),
        };
        tcb.hold(rules, &view, tcb.snd.offset())
    }
}
