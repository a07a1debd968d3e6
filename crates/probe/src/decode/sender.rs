//! The sender's side of a flow: the send call (point 1), the segment that TCP takes from the send queue
//! (point 2), and the state of the socket that sends.
//!
//! Positions are bytes of the stream, times nanoseconds of the trace's clock. A chunk of a send call is
//! recorded before it is copied; a later record shows how many of its bytes the socket took.

use sockscope_record::{
    FlowId, Hold, Kind, Point, Record, Retransmission, RetransmitClass, SendWindow, marks,
    tcp_flags,
};

use super::hit::{Hit, socket_buffers};
use super::positions::Positions;
use super::unknown_positions::MissedUntil;
use crate::layout::{
    RawCallReturn, RawCongestion, RawRetransmit, RawTcpPacket, RawWrite, constants as raw,
};

/// A move of the send window's edge by less than an eighth of the window is not recorded.
const WINDOW_CHANGE_SHIFT: u32 = 3;

/// The remembered state of the socket that sends a flow, and of the program's send calls.
pub(super) struct Sender {
    flow: FlowId,
    /// Bytes known to have been written.
    written: Option<u64>,
    /// End and thread of the write call that the last chunk belonged to.
    call: Option<(u64, u32)>,
    /// Position of the end of the written bytes, once the closing socket showed it.
    last_written: Option<u64>,
    /// A chunk about to be taken from the writer.
    writing: Option<Writing>,
    /// Options of `note_send_rules()` that the socket is known to have.
    pub(super) send_rules: u32,
    /// First byte without an acknowledgment at the socket.
    unacknowledged: u64,
    congestion: Congestion,
}

/// A chunk of a write call: `[from, to)` was asked for at `at_ns`, a later record shows the bytes taken.
#[derive(Clone, Copy)]
struct Writing {
    at_ns: u64,
    from: u64,
    to: u64,
    thread: u32,
    hold: Hold,
    cpu: u16,
}

/// Sender state as last recorded, so that only changes are.
#[derive(Default)]
struct Congestion {
    cwnd: u32,
    ssthresh: u32,
    ca_state: u8,
    /// Position up to which the peer lets the sender send.
    window_edge: u64,
    mss: u32,
    duplicates: u32,
    /// Send and receive buffer, in bytes.
    buffers: (u32, u32),
}

impl Sender {
    pub(super) fn new(flow: FlowId) -> Self {
        Self {
            flow,
            written: None,
            call: None,
            last_written: None,
            writing: None,
            send_rules: 0,
            unacknowledged: 0,
            congestion: Congestion::default(),
        }
    }

    /// The stream begins: nothing was written before.
    pub(super) fn begin(&mut self) {
        self.written = Some(0);
    }

    /// Positions that the socket gave move on by as many bytes.
    pub(super) fn move_by(&mut self, bytes: u64) {
        self.last_written = self.last_written.map(|last| last.saturating_add(bytes));
    }

    /// The segment size that the socket uses, in bytes.
    pub(super) fn set_mss(&mut self, mss: u16) {
        self.congestion.mss = u32::from(mss);
    }

    /// The socket has an acknowledgment of all bytes before this position.
    pub(super) fn note_acknowledged(&mut self, position: u64) {
        self.unacknowledged = self.unacknowledged.max(position);
    }

    /// The socket was open before, with all bytes before this position acknowledged.
    pub(super) fn join_at(&mut self, acknowledged: u64) {
        self.unacknowledged = acknowledged;
    }

    /// The sender of the same stream has these acknowledgments.
    pub(super) fn follow(&mut self, other: &Self) {
        self.unacknowledged = other.unacknowledged;
    }

    /// Whether the closing socket has shown the end of the written bytes.
    pub(super) fn has_ended(&self) -> bool {
        self.last_written.is_some()
    }

    /// The closing socket shows the end of the written bytes; `None` where no position is known.
    pub(super) fn end_at(&mut self, position: Option<u64>) {
        self.last_written = position;
    }

    /// When the chunk that is being written was asked for.
    pub(super) fn writing_since_ns(&self) -> Option<u64> {
        self.writing.map(|writing| writing.at_ns)
    }

    /// The number of bytes taken from the chunk remains unknown.
    pub(super) fn forget_writing(&mut self) {
        self.writing = None;
    }

    /// A chunk is about to be taken. The one before it ended where this one begins.
    pub(super) fn write(&mut self, hit: &mut Hit<'_>, positions: &mut Positions, raw: &RawWrite) {
        let waited_ns = hit.note_thread(raw.thread, raw.run_delay_ns);
        let Some(from) = hit.position(positions, raw.start_seq) else { return };
        let to = from.saturating_add(u64::from(raw.left_len));
        let call = Some((to, raw.thread));
        let is_same_call = self.call == call;
        self.call = call;
        self.flush_write(from, hit.out);
        if self.written.is_none_or(|written| written < from) {
            // Joined later, or a record was lost: the missing bytes remain missing.
            self.written = Some(from);
        }
        if !is_same_call {
            let call = hit.record(Kind::WriteCall, from, raw.left_len);
            let at_ns = if raw.began_ns > 0 { raw.began_ns.min(call.at_ns) } else { call.at_ns };
            let call = Record { at_ns, thread: raw.thread, ..call };
            hit.out.push(call.with_writer_runnable_ns(waited_ns));
        }
        self.writing = Some(Writing {
            at_ns: hit.head.at_ns,
            from,
            to,
            thread: raw.thread,
            hold: Hold::from_code(raw.hold),
            cpu: hit.head.cpu,
        });
        if hit.head.is_marked(raw::MARK_ROOM) {
            self.flush_write(to, hit.out);
        }
    }

    /// Records that the writer's chunk is in the send queue, as far as `seen` proves.
    pub(super) fn flush_write(&mut self, seen: u64, out: &mut Vec<Record>) {
        let Some(mut writing) = self.writing else { return };
        debug_assert!(writing.from <= writing.to, "a chunk ends behind its begin");
        let to = writing.to.min(seen);
        let from = writing.from.max(self.written.unwrap_or(writing.from));
        if to > from {
            let entered = Record {
                at_ns: writing.at_ns,
                offset: from,
                len: u32::try_from(to - from).unwrap_or(u32::MAX),
                flow: self.flow,
                kind: Kind::SendEnqueue,
                thread: writing.thread,
                cpu: writing.cpu,
                ..Record::default()
            };
            out.push(entered.with_hold(writing.hold));
            self.written = Some(to);
        }
        writing.from = writing.from.max(to);
        self.writing = (writing.from < writing.to).then_some(writing);
    }

    /// At the end: the pending chunk was taken as far as the closing socket showed. Otherwise that is
    /// unknown, and a call that found no room took nothing. Where hits were missed after the chunk's own, the
    /// end that the socket showed is of later calls too.
    pub(super) fn settle_write(&mut self, missed_until: &MissedUntil, out: &mut Vec<Record>) {
        let missed_ns = missed_until[Point::SendEnqueue.index()];
        let is_last = self.writing.is_some_and(|writing| writing.at_ns >= missed_ns);
        if let (Some(last), true) = (self.last_written, is_last) {
            self.flush_write(last, out);
        }
        self.writing = None;
    }

    /// The call took no more than the socket has now; the next one is another call.
    pub(super) fn write_returned(
        &mut self,
        hit: &mut Hit<'_>,
        positions: &mut Positions,
        raw: &RawCallReturn,
    ) {
        let is_writer = self.writing.is_some_and(|writing| writing.thread == raw.thread);
        if let (true, Some(taken)) = (is_writer, positions.of(raw.end_seq)) {
            self.flush_write(taken, hit.out);
            self.writing = None;
        }
        self.call = self.call.filter(|(_, thread)| *thread != raw.thread);
        hit.call_returned(positions, raw, Kind::WriteReturn);
    }

    /// TCP took the segment from the send queue (point 2); the record has the sender's state. Data of a
    /// packet that this host only routes has no send queue here.
    pub(super) fn taken(
        &mut self,
        hit: &mut Hit<'_>,
        packet: &RawTcpPacket,
        passed: &Record,
        is_routed: bool,
    ) {
        debug_assert_eq!(passed.flow, self.flow, "another flow's packet");
        self.flush_write(passed.end(), hit.out);
        let taken_ns = passed.at_ns.saturating_sub(u64::from(packet.since_taken_ns));
        if passed.tcp_flags & tcp_flags::SYN != 0 && packet.has_socket() {
            self.written_with_syn(hit, passed, taken_ns);
        }
        if passed.len > 0 && !is_routed {
            let taken = Record {
                at_ns: taken_ns,
                marks: passed.marks | marks::DERIVED,
                kind: Kind::SendDequeue,
                ..*passed
            };
            hit.out.push(taken.with_hold(Hold::from_code(packet.hold)));
        }
        // The kernel's own socket, which sends resets for others, has no such state.
        if packet.snd_cwnd > 0 && passed.tcp_flags & tcp_flags::RST == 0 {
            self.record_changes(hit, packet);
        }
    }

    /// TCP Fast Open (RFC 7413): the call that connects copies the data of the SYN, past the
    /// hook of point 1, and sends it at once.
    fn written_with_syn(&mut self, hit: &mut Hit<'_>, passed: &Record, taken_ns: u64) {
        let Some(written) = self.written.filter(|written| *written < passed.end()) else { return };
        let len = u32::try_from(passed.end() - written).unwrap_or(u32::MAX);
        let entered = hit.record(Kind::SendEnqueue, written, len);
        hit.out.push(Record { at_ns: taken_ns, marks: marks::DERIVED, ..entered });
        self.written = Some(passed.end());
    }

    /// The congestion window and the send window, where they are not as last recorded.
    fn record_changes(&mut self, hit: &mut Hit<'_>, packet: &RawTcpPacket) {
        let RawTcpPacket { snd_cwnd: cwnd, in_flight, snd_wnd: send_window, srtt_us, .. } = *packet;
        let known = &mut self.congestion;
        if known.cwnd != cwnd {
            known.cwnd = cwnd;
            let state = hit.record(Kind::TcpState, self.unacknowledged, in_flight);
            hit.out.push(state.with_congestion(sockscope_record::Congestion {
                in_flight_packets: in_flight,
                window_packets: cwnd,
                threshold_packets: known.ssthresh,
                smoothed_rtt_us: srtt_us,
                state: known.ca_state,
            }));
        }
        let edge = self.unacknowledged.saturating_add(u64::from(send_window));
        if known.window_edge.abs_diff(edge) > u64::from(send_window >> WINDOW_CHANGE_SHIFT) {
            known.window_edge = edge;
            let window = hit.record(Kind::SendWindow, self.unacknowledged, 0);
            let (bytes, segment_bytes) = (u64::from(send_window), known.mss);
            hit.out.push(window.with_send_window(SendWindow { bytes, segment_bytes }));
        }
    }

    /// TCP decided to send a segment again; one before the first byte is the SYN itself.
    pub(super) fn retransmitted(
        &mut self,
        hit: &mut Hit<'_>,
        positions: &mut Positions,
        raw: &RawRetransmit,
    ) {
        let Some(offset) = positions.of(raw.seq) else { return };
        let is_syn = raw.len == 0 && positions.is_syn(raw.seq);
        let class = RetransmitClass::from_code(raw.class);
        let class = if is_syn { RetransmitClass::Handshake } else { class };
        let again = Retransmission { class, duplicates: 0 };
        let record = hit.record(Kind::Retransmit, offset, raw.len);
        hit.out.push(record.with_retransmission(again));
    }

    /// Slow-start threshold, congestion state, segment size, duplicate reports and buffer sizes.
    pub(super) fn congestion(
        &mut self,
        hit: &mut Hit<'_>,
        positions: &mut Positions,
        raw: &RawCongestion,
    ) {
        let Some(offset) = positions.of(raw.snd_una) else { return };
        let known = &mut self.congestion;
        known.ssthresh = raw.ssthresh;
        known.ca_state = raw.ca_state;
        known.cwnd = 0;
        if known.mss != raw.mss {
            known.mss = raw.mss;
            // The record of the next segment has it, with the window.
            known.window_edge = 0;
        }
        let duplicates = raw.dsack_dups.saturating_sub(known.duplicates);
        if duplicates > 0 {
            known.duplicates = raw.dsack_dups;
            let spurious = Retransmission { class: RetransmitClass::Spurious, duplicates };
            let record = hit.record(Kind::Retransmit, offset, 0);
            hit.out.push(record.with_retransmission(spurious));
        }
        let sizes = (raw.sndbuf, raw.rcvbuf as u32);
        if known.buffers != sizes {
            known.buffers = sizes;
            let record = hit.record(Kind::SocketBuffers, 0, 0);
            hit.out.push(record.with_socket_buffers(socket_buffers(sizes, raw.userlocks)));
        }
    }
}
