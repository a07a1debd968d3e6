//! TCP: hits to records.

use sockscope_record::{Kind, Record, RetransmitClass, marks, tcp_flags};

use super::arrivals::Arrival;
use super::connection::{ConnectionState, FlowState, Writing};
use super::{Hit, Reader};
use crate::layout::{
    Raw, RawCallReturn, RawCongestion, RawRetransmit, RawTcpCopy, RawTcpDrop, RawTcpPacket,
    RawTcpReady, RawWrite, constants as raw,
};

/// A move of the send window's edge by less than an eighth of the window is not recorded.
const WINDOW_CHANGE_SHIFT: u32 = 3;
/// Bytes of the largest packet that a kernel makes (its GSO_MAX_SIZE is 8 * 65,535), rounded up;
/// a header that claims more is broken.
const PACKET_MAX: u32 = 1 << 20;

pub(super) fn decode(hit: &mut Hit<'_>, state: &mut ConnectionState, raw: Raw<'_>) {
    let direction = hit.head.direction();
    let sender_is_here = state.opened[direction] || state.info.preexisting;
    if let Raw::TcpPacket(packet) = raw
        && is_forwarded(packet)
        && !sender_is_here
    {
        return;
    }
    let [first, second] = &mut state.flows;
    let (flow, reverse) = if direction == 0 { (first, second) } else { (second, first) };
    match raw {
        Raw::Write(raw) => write(hit, flow, raw),
        Raw::TcpPacket(raw) => packet(hit, flow, reverse, raw),
        Raw::TcpReady(raw) => ready(hit, flow, raw),
        Raw::TcpCopy(raw) => copy(hit, flow, raw),
        Raw::Retransmit(raw) => retransmitted(hit, flow, raw),
        Raw::TcpDrop(raw) => dropped(hit, flow, raw),
        Raw::Congestion(raw) => congestion(hit, flow, raw),
        Raw::WriteReturn(raw) => write_returned(hit, flow, raw),
        Raw::ReadReturn(raw) => call_returned(hit, flow, raw, Kind::ReadReturn),
        // Not of TCP, or of both flows.
        Raw::UdpPacket(_)
        | Raw::UdpReady(_)
        | Raw::UdpCopy(_)
        | Raw::UdpDrop(_)
        | Raw::Anchor(_) => {}
    }
    if state.is_to_itself {
        let [own, acknowledging] = &mut state.flows;
        acknowledging.follow(own);
    }
}

/// A chunk is about to be taken. The one before it ended where this one begins.
fn write(hit: &mut Hit<'_>, flow: &mut FlowState, raw: &RawWrite) {
    let Some(from) = flow.position(raw.start_seq) else { return };
    let to = from.saturating_add(u64::from(raw.left_len));
    let call = Some((to, raw.thread));
    let is_same_call = flow.call == call;
    flow.call = call;
    flow.flush_write(from, hit.out);
    if flow.written.is_none_or(|written| written < from) {
        // Joined on the way, or a record was lost: what is missing stays missing.
        flow.written = Some(from);
    }
    if !is_same_call {
        let call = hit.record(Kind::WriteCall, from, raw.left_len);
        hit.out.push(Record { thread: raw.thread, ..call });
    }
    flow.writing = Some(Writing {
        at_ns: hit.head.at_ns,
        from,
        to,
        thread: raw.thread,
        hold: raw.hold,
        cpu: hit.head.cpu,
    });
    if hit.head.is_marked(raw::MARK_ROOM) {
        flow.flush_write(to, hit.out);
    }
}

/// A packet at points 3 to 6, which on its way out also shows that TCP took it (point 2).
fn packet(hit: &mut Hit<'_>, flow: &mut FlowState, reverse: &mut FlowState, packet: &RawTcpPacket) {
    if packet.len > PACKET_MAX {
        return;
    }
    let is_syn = packet.tcp_flags & tcp_flags::SYN != 0;
    if is_syn {
        flow.begin(packet.seq);
    }
    // Only what a socket of this host sends is sure to be true.
    let is_own = is_outgoing(packet.kind) && has_socket(packet);
    let position = |flow: &mut FlowState, sequence| {
        if is_own { flow.position(sequence) } else { flow.claimed(sequence) }
    };
    let start = position(flow, packet.seq).or_else(|| refuses(packet, flow).then_some(0));
    let Some(start) = start else { return };
    let end = start.saturating_add(u64::from(packet.len));
    if packet.tcp_flags & tcp_flags::FIN != 0 && (is_own || flow.end.is_none()) {
        flow.end = Some(end);
    }
    let has_ack = packet.tcp_flags & tcp_flags::ACK != 0;
    let acknowledged = has_ack.then(|| position(reverse, packet.ack)).flatten();
    let shift = if is_syn { 0 } else { flow.window_shift };
    let passed = Record {
        detail: acknowledged.unwrap_or(0),
        extra: packet.window.checked_shl(u32::from(shift)).unwrap_or(u32::MAX),
        tcp_flags: packet.tcp_flags,
        marks: hit.marks(),
        ..hit.record(Kind::InputEnqueue, start, packet.len)
    };
    match packet.kind {
        raw::RAW_INPUT => {
            flow.enter_input(start, end);
            hit.out.push(passed);
        }
        raw::RAW_RECEIVE => {
            if !flow.leave_input(start, end) {
                // Its entry was not observed: it was at the latest now.
                hit.out.push(Record { marks: passed.marks | marks::DERIVED, ..passed });
            }
            hit.out.push(Record { kind: Kind::InputDequeue, ..passed });
            if packet.len > 0 {
                flow.take(start);
            }
            flow.settle_arrivals(hit.out);
            if let (true, Some(ready)) = (flow.low_mark > 1, flow.ready) {
                flow.arrivals.came(start, arrival(hit, end), ready);
            }
        }
        raw::RAW_QUEUED => {
            taken(hit, flow, packet, &passed);
            hit.out.push(Record { kind: Kind::InterfaceEnqueue, ..passed });
            flow.enter_queue(start, end, passed.marks, hit.head.at_ns);
        }
        _ => transmitted(hit, flow, packet, passed),
    }
    if is_outgoing(packet.kind) {
        flow.note_sent(end, is_syn, hit.head.at_ns);
    }
    if let Some(position) = acknowledged {
        if is_outgoing(packet.kind) {
            if position > reverse.acknowledged.0 {
                reverse.acknowledged = (position, hit.head.at_ns);
            }
        } else if packet.kind == raw::RAW_RECEIVE {
            reverse.unacknowledged = reverse.unacknowledged.max(position);
        }
    }
}

/// A bare reset of a flow without a SYN: nobody listens there. Its sequence number means nothing
/// (RFC 9293 §3.5.2).
fn refuses(packet: &RawTcpPacket, flow: &FlowState) -> bool {
    let flags = packet.tcp_flags & (tcp_flags::RST | tcp_flags::FIN);
    flow.positions.is_none() && flags == tcp_flags::RST && packet.len == 0
}

/// The state of a socket of this host stands in the record: that socket sent the packet.
fn has_socket(packet: &RawTcpPacket) -> bool {
    packet.snd_cwnd > 0 || packet.in_flight > 0
}

fn is_outgoing(kind: u8) -> bool {
    kind == raw::RAW_QUEUED || kind == raw::RAW_TRANSMIT
}

/// Data on its way out that no socket of this host sent: the state of one would have come along.
fn is_forwarded(packet: &RawTcpPacket) -> bool {
    let is_data = packet.len > 0 && packet.tcp_flags & tcp_flags::SYN == 0;
    is_data && is_outgoing(packet.kind) && !has_socket(packet)
}

/// The driver has it: point 4, and points 2 and 3 too unless a queueing discipline had it before.
fn transmitted(hit: &mut Hit<'_>, flow: &mut FlowState, packet: &RawTcpPacket, passed: Record) {
    let mut passed = passed;
    if let Some(entered) = flow.leave_queue(passed.offset, passed.end()) {
        // By now the socket has counted it as sent, so that it looks like a repetition.
        let repeated = marks::RETRANSMITTED;
        passed.marks = passed.marks & !repeated | entered & repeated;
    } else if looks_repeated(&passed)
        && flow.entered_unseen(passed.offset, passed.end(), hit.lost_until_ns)
    {
        // The kernel skipped the probe at point 3. What looks like a repetition is the first coming.
        flow.flush_write(passed.end(), hit.out);
        passed.marks &= !marks::RETRANSMITTED;
    } else {
        taken(hit, flow, packet, &passed);
        passed.marks |= marks::NO_QUEUE;
        hit.out.push(Record { kind: Kind::InterfaceEnqueue, ..passed });
    }
    hit.out.push(Record { kind: Kind::InterfaceDequeue, ..passed });
    if hit.enters_at_once {
        flow.enter_input(passed.offset, passed.end());
        let marks = passed.marks & !marks::NO_QUEUE | marks::DERIVED;
        hit.out.push(Record { kind: Kind::InputEnqueue, marks, ..passed });
    }
}

/// Data that its socket had counted as sent before this hit.
fn looks_repeated(passed: &Record) -> bool {
    passed.len > 0 && passed.marks & marks::RETRANSMITTED != 0
}

/// TCP took the segment from the send queue (point 2); the sender's state came along.
fn taken(hit: &mut Hit<'_>, flow: &mut FlowState, packet: &RawTcpPacket, passed: &Record) {
    flow.flush_write(passed.end(), hit.out);
    let taken_ns = passed.at_ns.saturating_sub(u64::from(packet.since_taken_ns));
    if passed.tcp_flags & tcp_flags::SYN != 0 && has_socket(packet) {
        written_with_syn(hit, flow, passed, taken_ns);
    }
    // Without a socket's state it is a router's on this host if it came in here before. Else its own
    // socket was no longer to be seen: a queueing discipline has divided it.
    let is_routed = is_forwarded(packet) && passed.end() <= flow.arrived;
    if passed.len > 0 && !is_routed {
        hit.out.push(Record {
            at_ns: taken_ns,
            detail: 0,
            extra: 0,
            code: packet.hold,
            marks: passed.marks | marks::DERIVED,
            kind: Kind::SendDequeue,
            ..*passed
        });
    }
    let RawTcpPacket { snd_cwnd: cwnd, in_flight, snd_wnd: send_window, srtt_us, .. } = *packet;
    // The kernel's own socket, which sends resets for others, has no such state.
    if cwnd == 0 || passed.tcp_flags & tcp_flags::RST != 0 {
        return;
    }
    let known = &mut flow.congestion;
    if known.cwnd != cwnd {
        known.cwnd = cwnd;
        let state = hit.record(Kind::TcpState, flow.unacknowledged, in_flight);
        hit.out.push(Record {
            detail: u64::from(known.ssthresh) << 32 | u64::from(cwnd),
            extra: srtt_us,
            code: known.ca_state,
            ..state
        });
    }
    let edge = flow.unacknowledged.saturating_add(u64::from(send_window));
    if known.window_edge.abs_diff(edge) > u64::from(send_window >> WINDOW_CHANGE_SHIFT) {
        known.window_edge = edge;
        let window = hit.record(Kind::SendWindow, flow.unacknowledged, 0);
        hit.out.push(Record { detail: u64::from(send_window), extra: known.mss, ..window });
    }
}

/// TCP Fast Open (RFC 7413): what the SYN carries is copied in by the call that connects, past the hook
/// of point 1, and sent at once.
fn written_with_syn(hit: &mut Hit<'_>, flow: &mut FlowState, passed: &Record, taken_ns: u64) {
    let Some(written) = flow.written.filter(|written| *written < passed.end()) else { return };
    let len = u32::try_from(passed.end() - written).unwrap_or(u32::MAX);
    let entered = hit.record(Kind::SendEnqueue, written, len);
    hit.out.push(Record { at_ns: taken_ns, marks: marks::DERIVED, ..entered });
    flow.written = Some(passed.end());
}

/// Data is in the receive queue. Its acknowledgment may have gone out just before.
fn ready(hit: &mut Hit<'_>, flow: &mut FlowState, raw: &RawTcpReady) {
    let waited_for = hit.head.is_marked(raw::MARK_WAITED_FOR);
    if waited_for && flow.woken_ns == 0 {
        flow.woken_ns = hit.head.at_ns;
    }
    let Some(to) = flow.position(raw.rcv_nxt) else { return };
    let mark = if waited_for { marks::WAITED_FOR } else { 0 };
    let ready = flow.ready;
    flow.receive(arrival(hit, to), mark, hit.out);
    hit.is_passed_over = flow.see_ready(hit.head.at_ns) && flow.ready > ready;
}

/// Bytes up to `end` came by this hit.
fn arrival(hit: &Hit<'_>, end: u64) -> Arrival {
    Arrival { end, at_ns: hit.head.at_ns, cpu: hit.head.cpu }
}

/// The reader has had everything up to the hit's sequence number.
fn copy(hit: &mut Hit<'_>, flow: &mut FlowState, raw: &RawTcpCopy) {
    let Some(to) = flow.position(raw.copied_seq) else { return };
    // Data that was read without its arrival having been announced: that was not observed.
    flow.receive(arrival(hit, to), marks::DERIVED, hit.out);
    let copied = flow.copied;
    if flow.pass_over_copied(to, hit.head.at_ns) {
        hit.is_passed_over = flow.copied > copied;
        hit.note_reader(Reader::from(raw));
        return;
    }
    let from = flow.copied.unwrap_or(to);
    flow.copied = Some(from.max(to));
    if to > from {
        let len = u32::try_from(to - from).unwrap_or(u32::MAX);
        hit.copied(flow, from, len, Reader::from(raw));
    }
}

/// TCP decided to send a segment again; one before the first byte is the SYN itself.
fn retransmitted(hit: &mut Hit<'_>, flow: &mut FlowState, raw: &RawRetransmit) {
    let Some(offset) = flow.position(raw.seq) else { return };
    let is_syn = raw.len == 0 && flow.is_syn(raw.seq);
    let code = if is_syn { RetransmitClass::Handshake as u8 } else { raw.class };
    let record = hit.record(Kind::Retransmit, offset, raw.len);
    hit.out.push(Record { code, ..record });
}

fn dropped(hit: &mut Hit<'_>, flow: &mut FlowState, raw: &RawTcpDrop) {
    if let Some(offset) = flow.claimed(raw.seq) {
        let record = hit.record(Kind::Drop, offset, raw.len);
        let tcp_flags = raw.tcp_flags;
        hit.out.push(Record { detail: u64::from(raw.reason), tcp_flags, ..record });
    }
}

/// Slow-start threshold, congestion state, segment size, duplicate reports and buffer sizes.
fn congestion(hit: &mut Hit<'_>, flow: &mut FlowState, raw: &RawCongestion) {
    let Some(offset) = flow.position(raw.snd_una) else { return };
    let known = &mut flow.congestion;
    known.ssthresh = raw.ssthresh;
    known.ca_state = raw.ca_state;
    known.cwnd = 0;
    if known.mss != raw.mss {
        known.mss = raw.mss;
        // The next segment tells it, with the window.
        known.window_edge = 0;
    }
    let duplicates = raw.dsack_dups.saturating_sub(known.duplicates);
    if duplicates > 0 {
        known.duplicates = raw.dsack_dups;
        let code = RetransmitClass::Spurious as u8;
        let spurious = hit.record(Kind::Retransmit, offset, 0);
        hit.out.push(Record { code, extra: duplicates, ..spurious });
    }
    let buffers = raw.rcvbuf << 32 | u64::from(raw.sndbuf);
    if known.buffers != buffers {
        known.buffers = buffers;
        let record = hit.record(Kind::SocketBuffers, 0, 0);
        hit.out.push(Record { detail: buffers, code: raw.userlocks as u8 & 3, ..record });
    }
}

/// The call took no more than the socket has now; the next one is another call.
fn write_returned(hit: &mut Hit<'_>, flow: &mut FlowState, raw: &RawCallReturn) {
    let is_writer = flow.writing.is_some_and(|writing| writing.thread == raw.thread);
    if let (true, Some(taken)) = (is_writer, flow.position(raw.end_seq)) {
        flow.flush_write(taken, hit.out);
        flow.writing = None;
    }
    flow.call = flow.call.filter(|(_, thread)| *thread != raw.thread);
    call_returned(hit, flow, raw, Kind::WriteReturn);
}

fn call_returned(hit: &mut Hit<'_>, flow: &mut FlowState, raw: &RawCallReturn, kind: Kind) {
    let Some(end) = flow.position(raw.end_seq) else { return };
    let offset = end.saturating_sub(u64::from(raw.len));
    let record = hit.record(kind, offset, raw.len);
    hit.out.push(Record { thread: raw.thread, code: raw.error, ..record });
}
