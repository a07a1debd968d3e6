//! UDP: raw records to records. A datagram carries no position. The decoder follows it from point to point
//! by its buffer, else by order and length: every queue on the path is first in, first out.

use sockscope_record::{Kind, PacketDrop, Point, Record, marks};

use super::flow_state::FlowState;
use super::hit::{Hit, Reader};
use super::in_transit::{Datagram, Datagrams, INPUT, QUEUED, SOCKET, Seen, WIRE};
use crate::layout::{RawUdpCopy, RawUdpDrop, RawUdpPacket, RawUdpReady, constants as raw};

/// A packet at one point, or dropped: one datagram, or several of one size.
#[derive(Clone, Copy, Default)]
pub(super) struct Packet {
    /// Bytes of payload.
    pub(super) len: u32,
    /// Bytes of each datagram where the packet holds several (the last may be shorter); else 0.
    pub(super) each_len: u32,
    /// As in [`Seen`].
    pub(super) buffer: u32,
    /// Number of the socket whose queue it entered, else 0.
    pub(super) socket: u32,
    /// The thread that ran, where the packet had its sender's socket; else 0.
    pub(super) thread: u32,
    /// The kernel's number of the reason why it dropped the datagram.
    pub(super) drop_reason: u32,
}

impl Packet {
    /// At points 3 to 6.
    pub(super) fn passed(raw: &RawUdpPacket) -> Self {
        let RawUdpPacket { len, each_len, buffer, thread, .. } = *raw;
        Self { len, each_len, buffer, thread, ..Self::default() }
    }

    /// At point 7.
    pub(super) fn ready(raw: &RawUdpReady) -> Self {
        let RawUdpReady { len, each_len, buffer, socket, .. } = *raw;
        Self { len, each_len, buffer, socket, ..Self::default() }
    }

    pub(super) fn dropped(raw: &RawUdpDrop) -> Self {
        let RawUdpDrop { len, each_len, buffer, thread, reason: drop_reason, .. } = *raw;
        Self { len, each_len, buffer, thread, drop_reason, ..Self::default() }
    }

    /// One of its datagrams, `len` being that one's.
    fn seen(&self) -> Seen {
        Seen { buffer: self.buffer, is_part: self.each_len > 0, ..Seen::of(self.len) }
    }
}

/// Points that a datagram passed unseen: the first and the last of them, and since when it can have.
pub(super) struct Skipped {
    pub(super) points: [Point; 2],
    pub(super) since_ns: u64,
}

impl Skipped {
    /// By the numbers of the points, after the last one that saw the datagram.
    fn at(numbers: [usize; 2], datagram: Datagram) -> Self {
        let points = numbers.map(|number| Point::ALL[number - 1]);
        Self { points, since_ns: datagram.at_ns }
    }
}

/// One hit; returns the hits that the kernel skipped before it.
pub(super) fn decode(hit: &mut Hit<'_>, flow: &mut FlowState, packet: &Packet) -> Option<Skipped> {
    flow.path.datagrams.lost_until_ns = hit.lost_until_ns;
    if hit.head.kind == raw::RAW_READY {
        return ready(hit, flow, packet);
    }
    let (seen, at_ns) = (packet.seen(), hit.head.at_ns);
    let known = &mut flow.path.datagrams;
    match hit.head.kind {
        raw::RAW_QUEUED => {
            let datagram = forwarded(known, packet).unwrap_or_else(|| sent(hit, known, packet));
            hit.passed(Kind::InterfaceEnqueue, datagram, seen.buffer, 0);
            known.put(QUEUED, datagram, seen, at_ns);
        }
        raw::RAW_TRANSMIT => {
            let datagram = match known.take(QUEUED, seen) {
                Some(datagram) => datagram,
                // The time of the write and the writer are unknown.
                None if known.may_have_queued(hit.lost_until_ns) => known.announce(seen.len),
                None => {
                    let datagram =
                        forwarded(known, packet).unwrap_or_else(|| sent(hit, known, packet));
                    hit.passed(Kind::InterfaceEnqueue, datagram, seen.buffer, marks::NO_QUEUE);
                    datagram
                }
            };
            hit.passed(Kind::InterfaceDequeue, datagram, seen.buffer, 0);
            if known.socket == 0 {
                // The last hit of a datagram that leaves for another host.
                known.overtake(QUEUED..WIRE, &datagram, at_ns);
            }
            if hit.enters_at_once {
                hit.passed(Kind::InputEnqueue, datagram, seen.buffer, marks::DERIVED);
                known.put(INPUT, datagram, seen, at_ns);
            } else {
                known.put(WIRE, datagram, seen, at_ns);
            }
        }
        raw::RAW_INPUT => {
            let (datagram, skipped) = arrived(known, seen);
            hit.passed(Kind::InputEnqueue, datagram, seen.buffer, 0);
            known.put(INPUT, datagram, seen, at_ns);
            return skipped;
        }
        raw::RAW_RECEIVE => return received(hit, known, seen),
        raw::RAW_DROP => {
            if let Some((datagram, after)) = known.remove(seen) {
                dropped(hit, packet, datagram, after);
            } else if packet.thread > 0 {
                // Its sender's socket has it, and no point saw it: a queueing discipline refused it.
                let refused = sent(hit, known, packet);
                dropped(hit, packet, refused, Point::SendDequeue);
            }
        }
        _ => {}
    }
    None
}

/// The kernel dropped the datagram after this point.
pub(super) fn dropped(hit: &mut Hit<'_>, packet: &Packet, datagram: Datagram, after: Point) {
    let record = hit.record(Kind::Drop, datagram.offset, datagram.len);
    let reason = packet.drop_reason.into();
    hit.out.push(record.with_packet_drop(PacketDrop { reason, last: Some(after) }));
}

/// A read, and the datagram that it took, if that was announced; else one that may have been queued
/// together with another one, with one announcement for both.
pub(super) fn read(
    hit: &mut Hit<'_>,
    flow: &mut FlowState,
    raw: &RawUdpCopy,
    announced: Option<Datagram>,
) {
    let (len, known) = (raw.len, &mut flow.path.datagrams);
    let datagram = announced.or_else(|| {
        // A read may ask for less than the datagram holds, never get more.
        let datagram = known.next(SOCKET, len).or_else(|| known.take(SOCKET, Seen::of(len)))?;
        hit.passed(Kind::ReceiveEnqueue, datagram, 0, marks::DERIVED);
        Some(datagram)
    });
    if let Some(datagram) = datagram {
        flow.receiver.copied_datagram(hit, datagram, Reader::from(raw));
    }
}

/// The datagram has left the receive queue by now; the time is unknown, and whether it was read.
pub(super) fn gone(hit: &mut Hit<'_>, flow: &mut FlowState, datagram: Datagram, buffer: u32) {
    flow.receiver.forget_woken();
    let datagram = Datagram { number: 0, ..datagram };
    hit.passed(Kind::ReceiveDequeue, datagram, buffer, marks::DERIVED);
}

/// The datagram of this length that arrived from the wire. One that is still in the queueing discipline
/// left it unrecorded; one that is in neither is from another host.
fn arrived(known: &mut Datagrams, seen: Seen) -> (Datagram, Option<Skipped>) {
    // One that is queued in this buffer since is another one.
    let is_queued = known.entered_ns(QUEUED, seen) > known.entered_ns(WIRE, seen);
    if !is_queued && let Some(datagram) = known.take(WIRE, seen) {
        return (datagram, None);
    }
    match known.take_same(QUEUED, seen) {
        Some(datagram) => (datagram, Some(Skipped::at([4, 4], datagram))),
        None => (known.announce(seen.len), None),
    }
}

/// IP takes the datagram.
fn received(hit: &mut Hit<'_>, known: &mut Datagrams, seen: Seen) -> Option<Skipped> {
    let at_ns = hit.head.at_ns;
    let mut skipped = None;
    // One that arrived before the hook at point 5 was attached is no other one of its length, and none that
    // had its buffer before.
    let entered_ns = known.entered_ns(INPUT, seen);
    let sent_ns = known.entered_ns(WIRE, seen).max(known.entered_ns(QUEUED, seen));
    let entered = if entered_ns < sent_ns { None } else { known.take(INPUT, seen) };
    let datagram = entered.unwrap_or_else(|| {
        // A bridge hands it to IP again; a hit of IP at this very moment is of the same packet.
        let is_first = known.has(WIRE, seen.len);
        let again = if is_first { None } else { known.take_unless_at(SOCKET, seen, at_ns) };
        let datagram = again.unwrap_or_else(|| {
            let (datagram, unseen) = arrived(known, seen);
            skipped = unseen;
            datagram
        });
        // Its entry was not observed: it was at the latest now.
        hit.passed(Kind::InputEnqueue, datagram, seen.buffer, marks::DERIVED);
        datagram
    });
    hit.passed(Kind::InputDequeue, datagram, seen.buffer, 0);
    known.put(SOCKET, datagram, seen, at_ns);
    skipped
}

/// A datagram is in the receive queue, and with it those before it that no drop took away: one
/// announcement may stand for several.
fn ready(hit: &mut Hit<'_>, flow: &mut FlowState, packet: &Packet) -> Option<Skipped> {
    let (seen, at_ns) = (packet.seen(), hit.head.at_ns);
    let mark = if flow.receiver.note_woken(hit) { marks::WAITED_FOR } else { 0 };
    let known = &mut flow.path.datagrams;
    known.socket = packet.socket;
    for earlier in known.before(SOCKET, seen) {
        hit.passed(Kind::ReceiveEnqueue, earlier, seen.buffer, marks::DERIVED);
        known.received.push(Datagram { at_ns, ..earlier });
    }
    let gaps =
        [(SOCKET, None), (INPUT, Some([6, 6])), (WIRE, Some([5, 6])), (QUEUED, Some([4, 6]))];
    let last_gap = known.last_gap(seen);
    let found = gaps
        .into_iter()
        .filter(|(gap, _)| last_gap.is_none_or(|last| last == *gap))
        .find_map(|(gap, skipped)| known.take_same(gap, seen).map(|datagram| (datagram, skipped)));
    let (datagram, skipped) = found?;
    hit.passed(Kind::ReceiveEnqueue, datagram, seen.buffer, mark);
    known.received.push(Datagram { at_ns, ..datagram });
    known.overtake(QUEUED..SOCKET, &datagram, at_ns);
    skipped.map(|numbers| Skipped::at(numbers, datagram))
}

/// A datagram that this host received and forwards: no socket sends it.
fn forwarded(known: &mut Datagrams, packet: &Packet) -> Option<Datagram> {
    if packet.thread == 0 { known.take(SOCKET, packet.seen()) } else { None }
}

/// A datagram goes from the program to IP within the send call: points 1 and 2 are this moment.
fn sent(hit: &mut Hit<'_>, known: &mut Datagrams, packet: &Packet) -> Datagram {
    let seen = packet.seen();
    if seen.buffer > 0 && !seen.is_part {
        known.reuse(seen.buffer, hit.head.at_ns);
    }
    let datagram = known.announce(packet.len);
    let thread = packet.thread;
    let call = hit.record(Kind::WriteCall, datagram.offset, datagram.len);
    let entered = hit.record(Kind::SendEnqueue, datagram.offset, datagram.len);
    let taken = Record { kind: Kind::SendDequeue, ..entered };
    hit.out.extend([
        Record { thread, ..call },
        Record { thread, marks: marks::DERIVED, ..entered },
        Record { marks: marks::DERIVED, ..taken },
    ]);
    datagram
}

impl Hit<'_> {
    /// A datagram passed a point, in the buffer that the hit shows, or 0.
    fn passed(&mut self, kind: Kind, datagram: Datagram, buffer: u32, marks: u8) {
        let is_recognized = datagram.is_recognized && buffer > 0;
        let recognized = if is_recognized { marks::RECOGNIZED } else { 0 };
        let marks = marks | recognized | self.marks();
        let record = Record { marks, ..self.record(kind, datagram.offset, datagram.len) };
        self.out.push(record.with_datagram_number(datagram.number));
    }
}
