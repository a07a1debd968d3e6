//! TCP: hits to records.

use sockscope_record::{Kind, Record, RetransmitClass, marks, tcp_flags};

use super::Hit;
use super::arrivals::Arrival;
use super::connection::{ConnectionState, FlowState, Writing};
use crate::layout::{RawRecord, constants as raw};

/// A move of the send window's edge by less than an eighth of the window is not recorded.
const WINDOW_CHANGE_SHIFT: u32 = 3;
/// Bytes of the largest packet that a kernel makes (its GSO_MAX_SIZE is 8 * 65,535), rounded up;
/// a header that claims more is broken.
const PACKET_MAX: u32 = 1 << 20;

pub(super) fn decode(hit: &mut Hit<'_>, state: &mut ConnectionState, direction: usize) {
    let sender_is_here = state.opened[direction] || state.info.preexisting;
    if is_forwarded(hit.raw) && !sender_is_here {
        return;
    }
    let [first, second] = &mut state.flows;
    let (flow, reverse) = if direction == 0 { (first, second) } else { (second, first) };
    match hit.raw.kind {
        raw::RAW_WRITE => write(hit, flow),
        raw::RAW_QUEUED | raw::RAW_TRANSMIT | raw::RAW_INPUT | raw::RAW_RECEIVE => {
            packet(hit, flow, reverse);
        }
        raw::RAW_READY => ready(hit, flow),
        raw::RAW_COPY => copy(hit, flow),
        raw::RAW_RETRANSMIT => retransmitted(hit, flow),
        raw::RAW_DROP => dropped(hit, flow),
        raw::RAW_CONGESTION => congestion(hit, flow),
        raw::RAW_WRITE_RETURN => write_returned(hit, flow),
        raw::RAW_READ_RETURN => call_returned(hit, flow, Kind::ReadReturn),
        _ => {}
    }
    if state.is_to_itself {
        let [own, acknowledging] = &mut state.flows;
        acknowledging.follow(own);
    }
}

/// A chunk is about to be taken. The one before it ended where this one begins.
fn write(hit: &mut Hit<'_>, flow: &mut FlowState) {
    let Some(from) = flow.position(hit.raw.seq) else { return };
    let to = from.saturating_add(u64::from(hit.raw.len));
    let call = Some((to, hit.raw.thread));
    let is_same_call = flow.call == call;
    flow.call = call;
    flow.flush_write(from, hit.out);
    if flow.written.is_none_or(|written| written < from) {
        // Joined on the way, or a record was lost: what is missing stays missing.
        flow.written = Some(from);
    }
    if !is_same_call {
        let call = hit.record(Kind::WriteCall, from, hit.raw.len);
        hit.out.push(Record { thread: hit.raw.thread, ..call });
    }
    flow.writing = Some(Writing {
        at_ns: hit.raw.at_ns,
        from,
        to,
        thread: hit.raw.thread,
        hold: hit.raw.code,
        cpu: hit.cpu,
    });
    if hit.raw.marks & raw::MARK_ROOM != 0 {
        flow.flush_write(to, hit.out);
    }
}

/// A packet at points 3 to 6, which on its way out also shows that TCP took it (point 2).
fn packet(hit: &mut Hit<'_>, flow: &mut FlowState, reverse: &mut FlowState) {
    if hit.raw.len > PACKET_MAX {
        return;
    }
    let is_syn = hit.raw.tcp_flags & tcp_flags::SYN != 0;
    if is_syn {
        flow.begin(hit.raw.seq);
    }
    // Only what a socket of this host sends is sure to be true.
    let is_own = is_outgoing(hit.raw.kind) && hit.raw.b != 0;
    let position = |flow: &mut FlowState, sequence| {
        if is_own { flow.position(sequence) } else { flow.claimed(sequence) }
    };
    let start = position(flow, hit.raw.seq).or_else(|| refuses(hit.raw, flow).then_some(0));
    let Some(start) = start else { return };
    let end = start.saturating_add(u64::from(hit.raw.len));
    if hit.raw.tcp_flags & tcp_flags::FIN != 0 && (is_own || flow.end.is_none()) {
        flow.end = Some(end);
    }
    let has_ack = hit.raw.tcp_flags & tcp_flags::ACK != 0;
    let acknowledged = has_ack.then(|| position(reverse, hit.raw.ack)).flatten();
    let shift = if is_syn { 0 } else { flow.window_shift };
    let passed = Record {
        detail: acknowledged.unwrap_or(0),
        extra: hit.raw.window.checked_shl(u32::from(shift)).unwrap_or(u32::MAX),
        tcp_flags: hit.raw.tcp_flags,
        marks: hit.marks(),
        ..hit.record(Kind::InputEnqueue, start, hit.raw.len)
    };
    match hit.raw.kind {
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
            if hit.raw.len > 0 {
                flow.take(start);
            }
            flow.settle_arrivals(hit.out);
            if let (true, Some(ready)) = (flow.low_mark > 1, flow.ready) {
                flow.arrivals.came(start, arrival(hit, end), ready);
            }
        }
        raw::RAW_QUEUED => {
            taken(hit, flow, &passed);
            hit.out.push(Record { kind: Kind::InterfaceEnqueue, ..passed });
            flow.enter_queue(start, end, passed.marks, hit.raw.at_ns);
        }
        _ => transmitted(hit, flow, passed),
    }
    if is_outgoing(hit.raw.kind) {
        flow.note_sent(end, is_syn, hit.raw.at_ns);
    }
    if let Some(position) = acknowledged {
        if is_outgoing(hit.raw.kind) {
            if position > reverse.acknowledged.0 {
                reverse.acknowledged = (position, hit.raw.at_ns);
            }
        } else if hit.raw.kind == raw::RAW_RECEIVE {
            reverse.unacknowledged = reverse.unacknowledged.max(position);
        }
    }
}

/// A bare reset of a flow without a SYN: nobody listens there. Its sequence number means nothing
/// (RFC 9293 §3.5.2).
fn refuses(raw: &RawRecord, flow: &FlowState) -> bool {
    let flags = raw.tcp_flags & (tcp_flags::RST | tcp_flags::FIN);
    flow.positions.is_none() && flags == tcp_flags::RST && raw.len == 0
}

fn is_outgoing(kind: u8) -> bool {
    kind == raw::RAW_QUEUED || kind == raw::RAW_TRANSMIT
}

/// Data on its way out that no socket of this host sent: the state of one would have come along.
fn is_forwarded(raw: &RawRecord) -> bool {
    is_outgoing(raw.kind) && raw.b == 0 && raw.len > 0 && raw.tcp_flags & tcp_flags::SYN == 0
}

/// The driver has it: point 4, and points 2 and 3 too unless a queueing discipline had it before.
fn transmitted(hit: &mut Hit<'_>, flow: &mut FlowState, passed: Record) {
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
        taken(hit, flow, &passed);
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
fn taken(hit: &mut Hit<'_>, flow: &mut FlowState, passed: &Record) {
    flow.flush_write(passed.end(), hit.out);
    let taken_ns = passed.at_ns.saturating_sub(u64::from(hit.raw.a));
    if passed.tcp_flags & tcp_flags::SYN != 0 && hit.raw.b != 0 {
        written_with_syn(hit, flow, passed, taken_ns);
    }
    // Without a socket's state it is a router's on this host if it came in here before. Else its own
    // socket was no longer to be seen: a queueing discipline has divided it.
    let is_routed = is_forwarded(hit.raw) && passed.end() <= flow.arrived;
    if passed.len > 0 && !is_routed {
        hit.out.push(Record {
            at_ns: taken_ns,
            detail: 0,
            extra: 0,
            code: hit.raw.code,
            marks: passed.marks | marks::DERIVED,
            kind: Kind::SendDequeue,
            ..*passed
        });
    }
    let (cwnd, in_flight) = (hit.raw.b as u32, (hit.raw.b >> 32) as u32);
    let (send_window, srtt_us) = (hit.raw.c as u32, (hit.raw.c >> 32) as u32);
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
fn ready(hit: &mut Hit<'_>, flow: &mut FlowState) {
    let waited_for = hit.raw.marks & raw::MARK_WAITED_FOR != 0;
    if waited_for && flow.woken_ns == 0 {
        flow.woken_ns = hit.raw.at_ns;
    }
    let Some(to) = flow.position(hit.raw.seq) else { return };
    let mark = if waited_for { marks::WAITED_FOR } else { 0 };
    let ready = flow.ready;
    flow.receive(arrival(hit, to), mark, hit.out);
    hit.is_passed_over = flow.see_ready(hit.raw.at_ns) && flow.ready > ready;
}

/// Bytes up to `end` came by this hit.
fn arrival(hit: &Hit<'_>, end: u64) -> Arrival {
    Arrival { end, at_ns: hit.raw.at_ns, cpu: hit.cpu }
}

/// The reader has had everything up to the hit's sequence number.
fn copy(hit: &mut Hit<'_>, flow: &mut FlowState) {
    let Some(to) = flow.position(hit.raw.seq) else { return };
    // Data that was read without its arrival having been announced: that was not observed.
    flow.receive(arrival(hit, to), marks::DERIVED, hit.out);
    let copied = flow.copied;
    if flow.pass_over_copied(to, hit.raw.at_ns) {
        hit.is_passed_over = flow.copied > copied;
        hit.note_reader();
        return;
    }
    let from = flow.copied.unwrap_or(to);
    flow.copied = Some(from.max(to));
    if to > from {
        let len = u32::try_from(to - from).unwrap_or(u32::MAX);
        hit.copied(flow, from, len);
    }
}

/// TCP decided to send a segment again; one before the first byte is the SYN itself.
fn retransmitted(hit: &mut Hit<'_>, flow: &mut FlowState) {
    let Some(offset) = flow.position(hit.raw.seq) else { return };
    let is_syn = hit.raw.len == 0 && flow.is_syn(hit.raw.seq);
    let code = if is_syn { RetransmitClass::Handshake as u8 } else { hit.raw.code };
    let record = hit.record(Kind::Retransmit, offset, hit.raw.len);
    hit.out.push(Record { code, ..record });
}

fn dropped(hit: &mut Hit<'_>, flow: &mut FlowState) {
    if let Some(offset) = flow.claimed(hit.raw.seq) {
        let record = hit.record(Kind::Drop, offset, hit.raw.len);
        let tcp_flags = hit.raw.tcp_flags;
        hit.out.push(Record { detail: u64::from(hit.raw.a), tcp_flags, ..record });
    }
}

/// Slow-start threshold, congestion state, segment size, duplicate reports and buffer sizes.
fn congestion(hit: &mut Hit<'_>, flow: &mut FlowState) {
    let Some(offset) = flow.position(hit.raw.seq) else { return };
    let known = &mut flow.congestion;
    known.ssthresh = hit.raw.len;
    known.ca_state = hit.raw.code;
    known.cwnd = 0;
    if known.mss != hit.raw.ack {
        known.mss = hit.raw.ack;
        // The next segment tells it, with the window.
        known.window_edge = 0;
    }
    let duplicates = hit.raw.window.saturating_sub(known.duplicates);
    if duplicates > 0 {
        known.duplicates = hit.raw.window;
        let code = RetransmitClass::Spurious as u8;
        let spurious = hit.record(Kind::Retransmit, offset, 0);
        hit.out.push(Record { code, extra: duplicates, ..spurious });
    }
    let buffers = hit.raw.b << 32 | u64::from(hit.raw.a);
    if known.buffers != buffers {
        known.buffers = buffers;
        let record = hit.record(Kind::SocketBuffers, 0, 0);
        hit.out.push(Record { detail: buffers, code: hit.raw.c as u8 & 3, ..record });
    }
}

/// The call took no more than the socket has now; the next one is another call.
fn write_returned(hit: &mut Hit<'_>, flow: &mut FlowState) {
    let is_writer = flow.writing.is_some_and(|writing| writing.thread == hit.raw.thread);
    if let (true, Some(taken)) = (is_writer, flow.position(hit.raw.seq)) {
        flow.flush_write(taken, hit.out);
        flow.writing = None;
    }
    flow.call = flow.call.filter(|(_, thread)| *thread != hit.raw.thread);
    call_returned(hit, flow, Kind::WriteReturn);
}

fn call_returned(hit: &mut Hit<'_>, flow: &mut FlowState, kind: Kind) {
    let Some(end) = flow.position(hit.raw.seq) else { return };
    let offset = end.saturating_sub(u64::from(hit.raw.len));
    let record = hit.record(kind, offset, hit.raw.len);
    hit.out.push(Record { thread: hit.raw.thread, code: hit.raw.code, ..record });
}
