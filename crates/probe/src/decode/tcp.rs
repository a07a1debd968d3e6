//! TCP and Unix sockets: hits to records. Each hit belongs to one side of its flow; a packet belongs to all three.

use sockscope_record::{DevicePlace, Kind, Record, SegmentHeader, marks, tcp_flags};

use super::flow_state::{ConnectionState, FlowState};
use super::hit::{Hit, connection_id, point_of_raw};
use super::hops;
use super::path;
use super::positions::Positions;
use crate::layout::{Raw, RawTcpPacket, constants as raw};

/// Bytes of the largest packet that a kernel makes (its GSO_MAX_SIZE is 8 * 65,535), rounded up;
/// a header that claims more is broken.
const PACKET_MAX: u32 = 1 << 20;

pub(super) fn decode(hit: &mut Hit<'_>, state: &mut ConnectionState, raw: Raw<'_>) {
    debug_assert_eq!(state.info.id, connection_id(hit.head.flow));
    let direction = hit.head.direction();
    let sender_is_here = state.opened[direction] || state.info.preexisting;
    if let Raw::TcpPacket(packet) = raw
        && packet.is_forwarded()
        && !sender_is_here
    {
        return;
    }
    let is_unix = state.info.protocol.is_unix();
    let namespaces = state.namespaces;
    let [first, second] = &mut state.flows;
    let (flow, reverse) = if direction == 0 { (first, second) } else { (second, first) };
    let FlowState { positions, sender, receiver, .. } = flow;
    match raw {
        Raw::Write(raw) => sender.write(hit, positions, raw),
        Raw::TcpPacket(raw) => packet(hit, flow, reverse, raw, namespaces),
        Raw::Hop(raw) => match hops::packet_of_end(raw, namespaces) {
            Some(raw) => packet(hit, flow, reverse, &raw, namespaces),
            None => hops::passed(hit, &mut flow.positions, raw),
        },
        Raw::TcpReady(raw) => receiver.ready(hit, positions, raw),
        Raw::TcpCopy(raw) => receiver.copy(hit, positions, raw),
        Raw::Retransmit(raw) => sender.retransmitted(hit, positions, raw),
        Raw::TcpDrop(raw) if is_unix => receiver.unread(hit, positions, raw),
        Raw::TcpDrop(raw) => path::dropped(hit, positions, raw),
        Raw::Congestion(raw) => sender.congestion(hit, positions, raw),
        Raw::WriteReturn(raw) => sender.write_returned(hit, positions, raw),
        Raw::ReadReturn(raw) => hit.call_returned(positions, raw, Kind::ReadReturn),
        // Not of TCP, or of both flows.
        Raw::UdpPacket(_)
        | Raw::UdpReady(_)
        | Raw::UdpCopy(_)
        | Raw::UdpDrop(_)
        | Raw::Anchor(_) => {}
    }
    // Bytes at the receiver's socket were written, with or without a record of their sending.
    flow.sender.flush_write(flow.receiver.ready_until().unwrap_or(0), hit.out);
    if state.is_to_itself {
        let [own, acknowledging] = &mut state.flows;
        acknowledging.follow(own);
    }
}

/// A packet at points 3 to 6, which at points 3 and 4 also shows that TCP took it (point 2).
fn packet(
    hit: &mut Hit<'_>,
    flow: &mut FlowState,
    reverse: &mut FlowState,
    packet: &RawTcpPacket,
    namespaces: [u32; 2],
) {
    if packet.len > PACKET_MAX {
        return;
    }
    let is_syn = packet.tcp_flags & tcp_flags::SYN != 0;
    if is_syn {
        flow.begin(packet.seq);
    }
    // Only a packet from a socket of this host is sure to be true.
    let is_own = packet.is_outgoing() && packet.has_socket();
    let Some(start) = start_of(flow, packet, is_own) else {
        hit.has_no_position = true;
        return;
    };
    let end = start.saturating_add(u64::from(packet.len));
    if packet.tcp_flags & tcp_flags::FIN != 0 && (is_own || flow.positions.end().is_none()) {
        flow.positions.set_end(Some(end));
    }
    let has_ack = packet.tcp_flags & tcp_flags::ACK != 0;
    let acknowledged =
        has_ack.then(|| position(&mut reverse.positions, packet.ack, is_own)).flatten();
    let is_setup = packet.tcp_flags & (tcp_flags::SYN | tcp_flags::RST) != 0;
    let (own, namespace) = match (packet.is_outgoing(), hit.head.direction()) {
        (true, sender) => (&mut flow.path.sends_by, namespaces[sender]),
        (false, sender) => (&mut flow.path.receives_by, namespaces[1 - sender]),
    };
    if !is_setup && !own.is_passed(packet.device, end, acknowledged.unwrap_or(0)) {
        let device = DevicePlace { namespace, index: packet.device };
        hops::record(hit, point_of_raw(packet.kind), (start, packet.len), device);
        return;
    }
    let shift = if is_syn { 0 } else { flow.path.window_shift };
    let passed = Record {
        tcp_flags: packet.tcp_flags,
        marks: hit.marks(),
        ..hit.record(Kind::InputEnqueue, start, packet.len)
    };
    let window_bytes = packet.window.checked_shl(u32::from(shift)).unwrap_or(u32::MAX);
    let passed = passed.with_segment_header(SegmentHeader { acknowledged, window_bytes });
    if packet.is_outgoing() {
        outgoing(hit, flow, packet, passed);
        flow.path.note_sent(end, is_syn, hit.head.at_ns);
        if let Some(position) = acknowledged {
            reverse.receiver.acknowledge(position, hit.head.at_ns);
            if is_own {
                reverse.sender.flush_write(position, hit.out);
            }
        }
    } else {
        incoming(hit, flow, packet, &passed);
        if let (raw::RAW_RECEIVE, Some(position)) = (packet.kind, acknowledged) {
            reverse.sender.note_acknowledged(position);
        }
    }
}

/// Position of a sequence number in a header, which is remembered where a socket of this host wrote it.
fn position(positions: &mut Positions, sequence: u32, is_own: bool) -> Option<u64> {
    if is_own { positions.of(sequence) } else { positions.claimed(sequence) }
}

/// Position of a packet's first byte. A bare reset of a flow without a SYN is at 0: no socket listens
/// there, and its sequence number means nothing (RFC 9293 §3.5.2).
fn start_of(flow: &mut FlowState, packet: &RawTcpPacket, is_own: bool) -> Option<u64> {
    position(&mut flow.positions, packet.seq, is_own).or_else(|| {
        let flags = packet.tcp_flags & (tcp_flags::RST | tcp_flags::FIN);
        let refuses = flags == tcp_flags::RST && packet.len == 0;
        (refuses && !flow.positions.are_known()).then_some(0)
    })
}

/// The driver has the packet: point 4, and points 2 and 3 too unless a queueing discipline had it
/// before. Or such a discipline takes it: points 2 and 3.
fn outgoing(hit: &mut Hit<'_>, flow: &mut FlowState, packet: &RawTcpPacket, mut passed: Record) {
    let is_routed = flow.path.is_routed(packet, &passed);
    if packet.kind == raw::RAW_QUEUED {
        flow.sender.taken(hit, packet, &passed, is_routed);
        flow.path.enter_queue(hit, &passed);
        return;
    }
    let (start, end) = (passed.offset, passed.end());
    if let Some(entered) = flow.path.leave_queue(start, end) {
        // By now the socket has counted it as sent, so that it looks like a repetition.
        let repeated = marks::RETRANSMITTED;
        passed.marks = passed.marks & !repeated | entered & repeated;
    } else if looks_repeated(&passed) && flow.path.entered_unseen(start, end, hit.lost_until_ns) {
        // The kernel skipped the probe at point 3. The apparent repetition is the first passage.
        flow.sender.flush_write(end, hit.out);
        passed.marks &= !marks::RETRANSMITTED;
    } else {
        flow.sender.taken(hit, packet, &passed, is_routed);
        passed.marks |= marks::NO_QUEUE;
        hit.out.push(Record { kind: Kind::InterfaceEnqueue, ..passed });
    }
    flow.path.transmitted(hit, &passed);
}

/// The packet enters the input queue (point 5), or IP takes it (point 6).
fn incoming(hit: &mut Hit<'_>, flow: &mut FlowState, packet: &RawTcpPacket, passed: &Record) {
    if packet.kind == raw::RAW_INPUT {
        flow.path.enter_input(passed.offset, passed.end());
        hit.out.push(*passed);
    } else {
        flow.path.received(hit, passed);
        flow.receiver.take(passed, hit.out);
    }
}

/// Data that its socket had counted as sent before this hit.
fn looks_repeated(passed: &Record) -> bool {
    passed.len > 0 && passed.marks & marks::RETRANSMITTED != 0
}
