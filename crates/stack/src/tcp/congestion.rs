//! The congestion window: slow start, congestion avoidance, and the reaction to losses.
//!
//! Windows are bytes. Versions without a congestion window have it at the largest possible value.

use super::rules::{CongestionRules, Duplicates, Quench, WindowGrowth};
use super::tcb::Tcb;
use crate::socket::SocketId;
use crate::stack::Stack;

/// Duplicate acknowledgments that count as a loss (`tcprexmtthresh`, RFC 5681 §3.2).
pub(super) const DUPLICATES_MAX: u32 = 3;

impl Tcb {
    /// New data were acknowledged.
    pub(super) fn grow_window(&mut self, growth: WindowGrowth) {
        let (cwnd, segment) = (self.snd.cwnd, self.segment_bytes);
        let by = match growth {
            WindowGrowth::None => return,
            WindowGrowth::Tenth => cwnd / 10,
            WindowGrowth::SlowStart { .. } if cwnd <= self.snd.ssthresh => segment,
            WindowGrowth::SlowStart { extra_eighth: false } => (segment * segment / cwnd).max(1),
            WindowGrowth::SlowStart { extra_eighth: true } => {
                segment * segment / cwnd + segment / 8
            }
        };
        self.snd.cwnd = (cwnd + by).min(self.snd.window_max);
    }

    /// Half of the allowed window at the time of a loss, in whole segments, at least two. RFC 5681
    /// §3.1 (4) uses the data in flight.
    pub(super) fn halve_threshold(&mut self) {
        let allowed = self.snd.wnd.min(self.snd.cwnd);
        let segments = (allowed / 2 / self.segment_bytes).max(2);
        self.snd.ssthresh = segments * self.segment_bytes;
    }

    /// A timeout, or the third duplicate: the window lets one segment out.
    pub(super) fn shrink(&mut self) {
        self.halve_threshold();
        self.snd.cwnd = self.segment_bytes;
    }

    /// The segment is out again. With fast recovery each duplicate means that a segment has left
    /// the network.
    pub(super) fn inflate(&mut self, rule: Duplicates) {
        if rule == Duplicates::Recover {
            let arrived = DUPLICATES_MAX * self.segment_bytes;
            self.snd.cwnd = (self.snd.ssthresh + arrived).min(self.snd.window_max);
        }
    }

    /// One more duplicate in recovery.
    pub(super) fn inflate_more(&mut self) {
        self.snd.cwnd = (self.snd.cwnd + self.segment_bytes).min(self.snd.window_max);
    }

    /// New data were acknowledged: recovery is over. With exactly three duplicates the window stays
    /// inflated, as it did in 4.3BSD-Reno.
    pub(super) fn deflate(&mut self, rule: Duplicates) {
        let inflated = self.duplicates > DUPLICATES_MAX && self.snd.cwnd > self.snd.ssthresh;
        if rule == Duplicates::Recover && inflated {
            self.snd.cwnd = self.snd.ssthresh;
        }
        self.duplicates = 0;
    }

    /// Nothing arrived for a whole timeout: the window's estimate of the network is out of date.
    pub(super) fn restart_when_idle(&mut self) {
        if self.idle_ticks >= self.rtt.timeout_ticks() {
            self.snd.cwnd = self.segment_bytes;
        }
    }

    fn quench(&mut self, rules: &CongestionRules) {
        let outstanding = self.snd.nxt.since(self.snd.una).max(0) as u32;
        self.snd.cwnd = match rules.quench {
            Quench::Ignored => self.snd.cwnd,
            Quench::Shrinks => {
                (outstanding * 8 / 10).max(self.segment_bytes).min(self.snd.window_max)
            }
            Quench::Segment => self.segment_bytes,
        };
    }
}

impl Stack {
    /// `tcp_quench`: a gateway, or our own interface queue, asks for less. Does nothing to a socket
    /// without a connection.
    pub fn tcp_quench(&mut self, id: SocketId) {
        let rules = self.personality.tcp.congestion;
        if let Some(tcb) = self.sockets.find_mut(id).and_then(|socket| socket.tcb.as_mut()) {
            tcb.quench(&rules);
        }
    }
}
