//! The path of a flow between its two sockets (points 3 to 6): queueing disciplines, drivers and the
//! input queue.
//!
//! Positions are bytes of the stream, times nanoseconds of the trace's clock. Headers are claims: they
//! place a packet, and change no position from a socket's own numbers.

use std::collections::VecDeque;

use sockscope_record::{Kind, PacketDrop, Record, marks, tcp_flags};

use super::hit::Hit;
use super::hops::{HopNames, OwnDevice};
use super::in_transit::{BETWEEN_MAX, Datagrams};
use super::positions::Positions;
use super::recorded_ranges::RecordedRanges;
use crate::layout::{RawTcpDrop, RawTcpPacket, constants as raw};

/// Segments remembered in the input queue of a flow, at most; older ones were dropped there.
const ENTERED_MAX: usize = 256;

/// The remembered state of a flow's packets between the two sockets.
#[derive(Default)]
pub(super) struct Path {
    /// Shift of the window field in packets that this flow's sender makes (RFC 7323 §2.2).
    pub(super) window_shift: u8,
    /// Segments in a queueing discipline.
    queued: VecDeque<Queued>,
    /// Whether a segment was seen to enter one.
    has_queue: bool,
    /// Furthest byte recorded as sent; `None` until its SYN was.
    sent: Option<u64>,
    /// Hits lost before then change nothing in `sent` and `queued`.
    sure_since_ns: u64,
    /// Furthest byte seen to enter the input queue.
    arrived: u64,
    /// Segments that entered the input queue, and have not been seen to leave it.
    entered: VecDeque<(u64, u64)>,
    pub(super) recorded_ranges: RecordedRanges,
    pub(super) datagrams: Datagrams,
    /// The own devices of the end that sends it, and of the end that receives it.
    pub(super) sends_by: OwnDevice,
    pub(super) receives_by: OwnDevice,
    pub(super) hop_names: HopNames,
}

/// A segment in a queueing discipline, as far as it has not left it in parts.
#[derive(Clone, Copy)]
struct Queued {
    from: u64,
    to: u64,
    marks: u8,
    at_ns: u64,
}

impl RawTcpPacket {
    pub(super) fn is_outgoing(&self) -> bool {
        self.kind == raw::RAW_QUEUED || self.kind == raw::RAW_TRANSMIT
    }

    /// The record has the state of a socket of this host: that socket sent the packet.
    pub(super) fn has_socket(&self) -> bool {
        self.snd_cwnd > 0 || self.in_flight > 0
    }

    /// Outgoing data that no socket of this host sent: the record has no socket's state.
    pub(super) fn is_forwarded(&self) -> bool {
        let is_data = self.len > 0 && self.tcp_flags & tcp_flags::SYN == 0;
        is_data && self.is_outgoing() && !self.has_socket()
    }
}

impl Path {
    /// Whether a packet that goes out is a router's on this host: it has no socket's state, and was
    /// received here before. Else its own socket was no longer visible: a queueing discipline has divided it.
    pub(super) fn is_routed(&self, packet: &RawTcpPacket, passed: &Record) -> bool {
        packet.is_forwarded() && passed.end() <= self.arrived
    }

    /// A segment was seen to enter the input queue.
    pub(super) fn enter_input(&mut self, start: u64, end: u64) {
        self.arrived = self.arrived.max(end);
        if start < end {
            // Each segment with the middle taken by IP has left two parts.
            while self.entered.len() >= ENTERED_MAX {
                self.entered.pop_front();
            }
            self.entered.push_back((start, end));
        }
    }

    /// IP takes a segment. Returns whether the hits of the input queue cover all of it, maybe in several
    /// segments that were joined there, or as a part of one.
    fn leave_input(&mut self, start: u64, end: u64) -> bool {
        debug_assert!(start <= end);
        if start == end {
            return end <= self.arrived;
        }
        if self.entered.front() == Some(&(start, end)) {
            self.entered.pop_front();
            return true;
        }
        let (mut reached, mut rest) = (start, VecDeque::new());
        for &(from, to) in &self.entered {
            if reached < end && (from..to).contains(&reached) {
                let taken = (reached, to.min(end));
                let around = [(from, taken.0), (taken.1, to)];
                rest.extend(around.into_iter().filter(|part| part.0 < part.1));
                reached = taken.1;
            } else {
                rest.push_back((from, to));
            }
        }
        let is_seen = reached == end;
        if is_seen {
            self.entered = rest;
        }
        self.arrived = self.arrived.max(end);
        is_seen
    }

    /// IP takes a segment (point 6), which entered the input queue (point 5) before, seen or not.
    pub(super) fn received(&mut self, hit: &mut Hit<'_>, passed: &Record) {
        if !self.leave_input(passed.offset, passed.end()) {
            // Its entry was not observed: it was at the latest now.
            let marks = passed.marks | marks::DERIVED;
            hit.out.push(Record { kind: Kind::InputEnqueue, marks, ..*passed });
        }
        hit.out.push(Record { kind: Kind::InputDequeue, ..*passed });
    }

    /// A queueing discipline took a segment (point 3).
    pub(super) fn enter_queue(&mut self, hit: &mut Hit<'_>, passed: &Record) {
        hit.out.push(Record { kind: Kind::InterfaceEnqueue, ..*passed });
        self.has_queue = true;
        if self.queued.len() == BETWEEN_MAX {
            self.queued.pop_front();
        }
        let (from, to, marks) = (passed.offset, passed.end(), passed.marks);
        self.queued.push_back(Queued { from, to, marks, at_ns: hit.head.at_ns });
        debug_assert!(self.queued.len() <= BETWEEN_MAX);
    }

    /// The segment left the queueing discipline: the marks that it entered with; `None` when it had
    /// not been in one. Those before it were dropped there.
    pub(super) fn leave_queue(&mut self, start: u64, end: u64) -> Option<u8> {
        let holds = |queued: &Queued| {
            let is_part = queued.from <= start && end <= queued.to;
            is_part && (start < end) == (queued.from < queued.to)
        };
        let index = self.queued.iter().position(holds)?;
        self.queued.drain(..index);
        let first = self.queued.front_mut()?;
        let marks = first.marks;
        if start < end && marks & marks::RETRANSMITTED == 0 {
            // It is behind all that was sent before it, in the stream and in the queue.
            self.sure_since_ns = self.sure_since_ns.max(first.at_ns);
        }
        first.from = end;
        if first.from == first.to {
            self.queued.pop_front();
        }
        Some(marks)
    }

    /// The driver gets a segment (point 4), which on loopback is in the input queue with that.
    pub(super) fn transmitted(&mut self, hit: &mut Hit<'_>, passed: &Record) {
        hit.out.push(Record { kind: Kind::InterfaceDequeue, ..*passed });
        if hit.enters_at_once {
            self.enter_input(passed.offset, passed.end());
            let marks = passed.marks & !marks::NO_QUEUE | marks::DERIVED;
            hit.out.push(Record { kind: Kind::InputEnqueue, marks, ..*passed });
        }
    }

    /// A packet up to `end` was recorded as outgoing. Only a SYN shows that no other was before it.
    pub(super) fn note_sent(&mut self, end: u64, is_syn: bool, at_ns: u64) {
        if let Some(sent) = &mut self.sent {
            *sent = end.max(*sent);
        } else if is_syn {
            self.sent = Some(end);
            self.sure_since_ns = at_ns;
        }
    }

    /// Whether a segment was in a queueing discipline although its entry was not recorded: it leaves
    /// ahead of one that entered later, or no byte as far was ever recorded as sent. Not where its
    /// path has none, or where a lost hit explains that.
    pub(super) fn entered_unseen(&self, start: u64, end: u64, lost_until_ns: u64) -> bool {
        let is_sure = self.has_queue && lost_until_ns < self.sure_since_ns;
        let is_ahead = |queued: &Queued| end <= queued.from && queued.from < queued.to;
        let is_next = self.sent.is_some_and(|sent| sent <= start);
        is_sure && (is_next || self.queued.front().is_some_and(is_ahead))
    }
}

/// The kernel dropped a packet of the flow.
pub(super) fn dropped(hit: &mut Hit<'_>, positions: &Positions, raw: &RawTcpDrop) {
    if let Some(offset) = positions.claimed(raw.seq) {
        let record = hit.record(Kind::Drop, offset, raw.len);
        let record = Record { tcp_flags: raw.tcp_flags, ..record };
        hit.out.push(record.with_packet_drop(PacketDrop { reason: raw.reason.into(), last: None }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_which_ip_took_the_middle_stay_bounded() {
        let mut path = Path::default();
        for number in 0..2 * ENTERED_MAX as u64 {
            let start = number * 100;
            path.enter_input(start, start + 30);
            // The rest of the segment is two parts.
            assert!(path.leave_input(start + 10, start + 20));
        }
        path.enter_input(u64::MAX - 1, u64::MAX);
        assert_eq!(path.entered.len(), ENTERED_MAX);
    }
}
