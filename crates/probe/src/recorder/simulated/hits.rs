//! Raw records as the probes write them, one function for each kind.

use crate::layout::{
    RawAnchor, RawRecord, RawRetransmit, RawTcpCopy, RawTcpDrop, RawTcpPacket, RawTcpReady,
    RawUdpCopy, RawUdpDrop, RawUdpPacket, RawUdpReady, RawWrite, constants as raw,
};

/// The fields of every kind.
#[derive(Clone, Copy)]
pub(super) struct Common {
    pub(super) at_ns: u64,
    pub(super) flow: u32,
    pub(super) marks: u8,
}

/// The header of a segment.
#[derive(Clone, Copy, Default)]
pub(super) struct Header {
    pub(super) seq: u32,
    pub(super) len: u32,
    pub(super) ack: u32,
    pub(super) flags: u8,
}

/// The sending socket at this segment; one without a socket has 0 everywhere.
#[derive(Clone, Copy, Default)]
pub(super) struct Sender {
    /// Nanoseconds since TCP took the segment.
    pub(super) taken_ns: u32,
    pub(super) cwnd: u32,
    pub(super) in_flight: u32,
    pub(super) window: u32,
}

/// The counters of a socket.
#[derive(Clone, Copy)]
pub(super) struct Counters {
    pub(super) snd_una: u32,
    pub(super) bytes_acked: u64,
    pub(super) rcv_nxt: u32,
    pub(super) bytes_received: u64,
    pub(super) copied_seq: u32,
}

/// A datagram as a hit shows it.
#[derive(Clone, Copy)]
pub(super) struct Datagram {
    pub(super) len: u32,
    pub(super) buffer: u32,
    pub(super) thread: u32,
}

/// The record with the fields of every kind.
fn of(kind: u8, common: Common, mut record: RawRecord) -> RawRecord {
    let Common { at_ns, flow, marks } = common;
    record.any.kind = kind;
    record.any.at_ns = at_ns;
    record.any.flow = flow;
    record.any.marks = marks;
    record
}

pub(super) fn write(common: Common, seq: u32, left: u32, thread: u32) -> RawRecord {
    let write = RawWrite { start_seq: seq, left_len: left, thread, ..RawWrite::default() };
    of(raw::RAW_WRITE, common, RawRecord { write })
}

/// Time that a thread was runnable without a CPU by then, in all its life: at times it does not wait.
pub(super) fn run_delay_ns(thread: u32, at_ns: u64) -> u64 {
    u64::from(thread) + at_ns / 50_000 * 1_000
}

/// Of `RAW_QUEUED`, `RAW_TRANSMIT`, `RAW_INPUT` and `RAW_RECEIVE`.
pub(super) fn packet(kind: u8, common: Common, header: Header, sender: Sender) -> RawRecord {
    let Header { seq, len, ack, flags } = header;
    let tcp_packet = RawTcpPacket {
        seq,
        len,
        ack,
        window: 1_000,
        tcp_flags: flags,
        since_taken_ns: sender.taken_ns,
        snd_cwnd: sender.cwnd,
        in_flight: sender.in_flight,
        snd_wnd: sender.window,
        ..RawTcpPacket::default()
    };
    of(kind, common, RawRecord { tcp_packet })
}

pub(super) fn ready(common: Common, rcv_nxt: u32) -> RawRecord {
    let tcp_ready = RawTcpReady { rcv_nxt, ..RawTcpReady::default() };
    of(raw::RAW_READY, common, RawRecord { tcp_ready })
}

pub(super) fn copy(common: Common, copied_seq: u32, thread: u32) -> RawRecord {
    let tcp_copy = RawTcpCopy { copied_seq, thread, ..RawTcpCopy::default() };
    of(raw::RAW_COPY, common, RawRecord { tcp_copy })
}

pub(super) fn retransmit(common: Common, seq: u32, len: u32) -> RawRecord {
    let retransmit = RawRetransmit { seq, len, class: 1, ..RawRetransmit::default() };
    of(raw::RAW_RETRANSMIT, common, RawRecord { retransmit })
}

pub(super) fn drop(common: Common, header: Header) -> RawRecord {
    let Header { seq, len, flags, .. } = header;
    let tcp_drop = RawTcpDrop { seq, len, tcp_flags: flags, reason: 2, ..RawTcpDrop::default() };
    of(raw::RAW_DROP, common, RawRecord { tcp_drop })
}

pub(super) fn anchor(common: Common, counters: Counters) -> RawRecord {
    let Counters { snd_una, bytes_acked, rcv_nxt, bytes_received, copied_seq } = counters;
    let anchor = RawAnchor {
        snd_una,
        rcv_nxt,
        copied_seq,
        bytes_acked,
        bytes_received,
        ..RawAnchor::default()
    };
    of(raw::RAW_ANCHOR, common, RawRecord { anchor })
}

/// Of the same kinds as [`packet`], and `RAW_DROP`.
pub(super) fn datagram(kind: u8, common: Common, datagram: Datagram) -> RawRecord {
    let Datagram { len, buffer, thread } = datagram;
    let record = if kind == raw::RAW_DROP {
        RawRecord { udp_drop: RawUdpDrop { len, buffer, thread, ..RawUdpDrop::default() } }
    } else {
        RawRecord { udp_packet: RawUdpPacket { len, buffer, thread, ..RawUdpPacket::default() } }
    };
    of(kind, common, record)
}

pub(super) fn datagram_ready(common: Common, datagram: Datagram, socket: u32) -> RawRecord {
    let Datagram { len, buffer, .. } = datagram;
    let udp_ready = RawUdpReady { len, socket, buffer, ..RawUdpReady::default() };
    of(raw::RAW_READY, common, RawRecord { udp_ready })
}

/// `left` datagrams stay in the queue.
pub(super) fn datagram_copy(
    common: Common,
    datagram: Datagram,
    socket: u32,
    left: u32,
) -> RawRecord {
    let Datagram { len, thread, .. } = datagram;
    let left_plus_one = left + 1;
    let udp_copy = RawUdpCopy { len, socket, left_plus_one, thread, ..RawUdpCopy::default() };
    of(raw::RAW_COPY, common, RawRecord { udp_copy })
}
