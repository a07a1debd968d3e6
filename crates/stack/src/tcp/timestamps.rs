//! Timestamps (RFC 1323 §3, §4): a time for each acknowledgment, and protection against old duplicates.
//!
//! The clock of timestamps counts slow ticks, as the other times of TCP do: half a second each, within the bounds of
//! RFC 1323 §4.2.2 (1 ms to 1 s).

use sockscope_record::tcp_flags;

use super::input::{Arrival, Stop};
use super::options::{HeaderOptions, Timestamps};
use super::seq::Seq;
use super::tcb::State;
use crate::socket::SocketId;
use crate::stack::Stack;

/// An echo from longer ago is no time of a round trip: no segment is waited for so long.
const ROUND_TRIP_TICKS_MAX: u32 = 1 << 16;

impl Stack {
    /// The timestamps of a segment that leaves; `None` for a connection without them.
    pub(super) fn timestamps(&self, id: SocketId) -> Option<Timestamps> {
        let stamps = &self.tcb(id).stamps;
        stamps.are_agreed.then_some(Timestamps { value: self.tcp.now, echo: stamps.recent })
    }

    /// The timestamps of a SYN: an offer, or the answer to one.
    pub(super) fn syn_timestamps(&self, id: SocketId) -> Option<Timestamps> {
        let offers = self.personality.tcp.options.timestamps;
        let is_first = self.tcb(id).state == State::SynSent;
        let first = Timestamps { value: self.tcp.now, echo: 0 };
        if is_first { offers.then_some(first) } else { self.timestamps(id) }
    }

    /// The peer's SYN has these timestamps, or none: then no later segment has them.
    pub(super) fn timestamps_announced(&mut self, id: SocketId, options: &HeaderOptions) {
        let knows = self.personality.tcp.options.timestamps;
        let now = self.tcp.now;
        let stamps = &mut self.tcb_mut(id).stamps;
        stamps.are_agreed = knows && options.timestamps.is_some();
        if let Some(of_peer) = options.timestamps {
            stamps.take(of_peer.value, now);
        }
    }

    /// Refuses a segment that is older than one that was received, though its numbers fit (RFC 1323 §4.2.1).
    pub(super) fn refuse_old_duplicate(
        &mut self,
        id: SocketId,
        arrival: &Arrival,
    ) -> Result<(), Stop> {
        let stamps = &self.tcb(id).stamps;
        let Some(of_peer) = arrival.header.options.timestamps.filter(|_| stamps.are_agreed) else {
            return Ok(());
        };
        if arrival.has(tcp_flags::RST) || !stamps.is_old(of_peer.value, self.tcp.now) {
            return Ok(());
        }
        self.tcp.counts.old_duplicates += 1;
        Err(Stop::Acknowledge)
    }

    /// The timestamp of a segment that begins at or before the last acknowledgment will be echoed: with delayed
    /// acknowledgments this is the first of those acknowledged, and behind a hole the one before it (RFC 1323 §3.4).
    pub(super) fn take_timestamp(&mut self, id: SocketId, first: Seq, options: &HeaderOptions) {
        let now = self.tcp.now;
        let stamps = &mut self.tcb_mut(id).stamps;
        let Some(of_peer) = options.timestamps.filter(|_| stamps.are_agreed) else { return };
        if !first.is_after(stamps.last_ack) && !stamps.is_old(of_peer.value, now) {
            stamps.take(of_peer.value, now);
        }
    }

    /// The round-trip time that the echo of a segment shows, in ticks from 1 on.
    pub(super) fn echoed_ticks(&self, id: SocketId, arrival: &Arrival) -> Option<u32> {
        let is_agreed = self.tcb(id).stamps.are_agreed;
        let echo = arrival.header.options.timestamps.filter(|_| is_agreed)?.echo;
        let ticks = self.tcp.now.wrapping_sub(echo);
        (ticks < ROUND_TRIP_TICKS_MAX).then(|| ticks + 1)
    }
}
