//! Selective acknowledgments (RFC 2018): blocks that are sent, and the repair of holes.
//!
//! RFC 2018 leaves the repair open. This one keeps the bytes in the network at half of the window at the time of the
//! loss, sends lost holes again, and then new data (RFC 6675, in short). It takes the place of fast retransmit and
//! fast recovery in the systems that have them.

use sockscope_record::{RetransmitClass, tcp_flags};

use super::congestion::DUPLICATES_MAX;
use super::input::Arrival;
use super::options::SackBlocks;
use super::output::{Caller, Candidate};
use super::rules::Duplicates;
use super::seq::Seq;
use super::tcb::Repair;
use super::timers::Timer;
use crate::meter::Meter;
use crate::routine::Routine;
use crate::socket::SocketId;
use crate::stack::Stack;

/// Bytes of the option without blocks, with their padding, and of a block.
const OPTION_BYTES: u32 = 4;
const BLOCK_BYTES: u32 = 8;

/// Bytes of all options of a header.
const OPTIONS_BYTES_MAX: u32 = 40;

impl Stack {
    /// The blocks that a segment with `len` data bytes has: as many as the header and a full segment have room for.
    pub(super) fn sack_blocks(&self, id: SocketId, len: u32) -> SackBlocks {
        let tcb = self.tcb(id);
        if !tcb.has_sack || tcb.reassembly.is_empty() {
            return SackBlocks::default();
        }
        let in_header = OPTIONS_BYTES_MAX - tcb.stamps.bytes();
        let in_segment = if len == 0 { in_header } else { tcb.segment_bytes.saturating_sub(len) };
        let room = in_header.min(in_segment).saturating_sub(OPTION_BYTES) / BLOCK_BYTES;
        tcb.reassembly.recent_blocks().take(room as usize).collect()
    }

    /// Takes the blocks of a segment in; whether they say anything new.
    pub(super) fn take_blocks(&mut self, id: SocketId, arrival: &Arrival) -> bool {
        let tcb = self.tcb_mut(id);
        let (una, max) = (tcb.snd.una, tcb.snd.max);
        tcb.has_sack && tcb.scoreboard.take(&arrival.header.options.sack, una, max)
    }

    /// New blocks, and nothing else is acknowledged: a repair begins or goes on.
    pub(super) fn new_blocks(&mut self, id: SocketId, meter: &mut Meter) {
        self.tcp.counts.duplicate_acks += 1;
        let tcb = self.tcb_mut(id);
        if tcb.scoreboard.until().is_some() {
            self.repair_holes(id, meter);
            return;
        }
        tcb.duplicates += 1;
        let lost_before = tcb.scoreboard.lost_before(tcb.segment_bytes);
        let is_lost = lost_before.is_some_and(|before| before.is_after(tcb.snd.una));
        // Behind a timeout slow start repairs: until all is acknowledged no second reaction is due.
        if tcb.repair.is_none() && (is_lost || tcb.duplicates >= DUPLICATES_MAX) {
            self.begin_repair(id, meter);
        }
    }

    fn begin_repair(&mut self, id: SocketId, meter: &mut Meter) {
        self.tcp.counts.fast_retransmits += 1;
        let tcb = self.tcb_mut(id);
        tcb.halve_threshold();
        tcb.timers.stop(Timer::Retransmit);
        tcb.rtt.stop();
        let (una, max) = (tcb.snd.una, tcb.snd.max);
        tcb.repair = Some(Repair { how: RetransmitClass::Fast, until: max });
        tcb.scoreboard.begin(una, max);
        // The first hole leaves at once, whatever is in the network.
        self.resend(id, (una, max), meter);
        self.repair_holes(id, meter);
    }

    /// Sends lost holes again, then new data, as long as less than the window is in the network.
    pub(super) fn repair_holes(&mut self, id: SocketId, meter: &mut Meter) {
        loop {
            let tcb = self.tcb(id);
            let (una, max, segment) = (tcb.snd.una, tcb.snd.max, tcb.segment_bytes);
            if tcb.scoreboard.pipe(una, max, segment) + segment > tcb.snd.ssthresh {
                break;
            }
            let Some(hole) = tcb.scoreboard.next_hole(una, max, segment) else { break };
            if !self.resend(id, hole, meter) {
                break;
            }
        }
        // With the bytes that are not in the network on top, the window lets out the right number of new bytes.
        let tcb = self.tcb_mut(id);
        let (una, max) = (tcb.snd.una, tcb.snd.max);
        let absent = max.since(una) as u32 - tcb.scoreboard.pipe(una, max, tcb.segment_bytes);
        tcb.snd.cwnd = (tcb.snd.ssthresh + absent).min(tcb.snd.window_max);
        let _ = self.tcp_output(id, Caller::Input, meter);
    }

    /// Sends the start of a hole again, a segment at most; whether it left.
    fn resend(&mut self, id: SocketId, (from, to): (Seq, Seq), meter: &mut Meter) -> bool {
        let queued = self.sockets[id].snd.cc();
        let tcb = self.tcb_mut(id);
        let offset = from.since(tcb.snd.una).max(0) as u32;
        // The hole is cut at the next range; a FIN in it has a number and no byte.
        let first_range = tcb.scoreboard.hole_end(from, to);
        let hole = first_range.since(from).max(0) as u32;
        let len = hole.min(tcb.segment_bytes).min(queued.saturating_sub(offset));
        if len == 0 {
            return false;
        }
        let next = tcb.snd.nxt;
        tcb.snd.nxt = from;
        tcb.scoreboard.note_resent(from + len);
        let segment = Candidate { offset, len, usable: len, flags: tcp_flags::ACK };
        let sent = self.tcp_send(id, segment, false, Routine::TcpXoutput, meter);
        let tcb = self.tcb_mut(id);
        tcb.snd.nxt = tcb.snd.nxt.later(next);
        sent.is_ok()
    }

    /// New data are acknowledged during a repair: it ends, or the next hole is at the front. `false` without a repair.
    pub(super) fn repair_advances(&mut self, id: SocketId, meter: &mut Meter) -> bool {
        let tcb = self.tcb_mut(id);
        let Some(until) = tcb.scoreboard.until() else { return false };
        if tcb.snd.una.is_before(until) {
            self.repair_holes(id, meter);
        } else {
            tcb.scoreboard.end();
            tcb.snd.cwnd = tcb.snd.ssthresh;
            tcb.duplicates = 0;
        }
        true
    }

    /// Whether blocks of this connection take the place of its reaction to duplicates.
    pub(super) fn repairs_by_blocks(&self, id: SocketId) -> bool {
        let reacts = self.personality.tcp.congestion.duplicates != Duplicates::Ignored;
        reacts && self.tcb(id).has_sack
    }
}
