//! UDP: hits to records. Datagrams carry no position; they are followed from point to point by
//! their order and length, every queue on the way being first in, first out.

use sockscope_record::{Kind, Point, Record, marks};

use super::Hit;
use super::connection::FlowState;
use super::in_transit::{Datagram, Datagrams, INPUT, QUEUED, SOCKET, Seen, WIRE};
use crate::layout::{RawRecord, constants as raw};

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

/// One hit; says what the kernel skipped before it.
pub(super) fn decode(hit: &mut Hit<'_>, flow: &mut FlowState) -> Option<Skipped> {
    if hit.raw.kind == raw::RAW_READY {
        return ready(hit, flow);
    }
    let seen = hit.seen();
    let known = &mut flow.datagrams;
    match hit.raw.kind {
        raw::RAW_QUEUED => {
            let datagram = forwarded(hit, known).unwrap_or_else(|| sent(hit, known));
            hit.passed(Kind::InterfaceEnqueue, datagram, 0);
            known.put(QUEUED, datagram, seen, hit.raw.at_ns);
        }
        raw::RAW_TRANSMIT => {
            let datagram = match known.take(QUEUED, seen) {
                Some(datagram) => datagram,
                // When it was written, and by whom, nobody knows.
                None if known.may_have_queued(hit.lost_until_ns) => known.announce(seen.len),
                None => {
                    let datagram = forwarded(hit, known).unwrap_or_else(|| sent(hit, known));
                    hit.passed(Kind::InterfaceEnqueue, datagram, marks::NO_QUEUE);
                    datagram
                }
            };
            hit.passed(Kind::InterfaceDequeue, datagram, 0);
            if hit.enters_at_once {
                hit.passed(Kind::InputEnqueue, datagram, marks::DERIVED);
                known.put(INPUT, datagram, seen, hit.raw.at_ns);
            } else {
                known.put(WIRE, datagram, seen, hit.raw.at_ns);
            }
        }
        raw::RAW_INPUT => {
            let (datagram, skipped) = arrived(known, seen);
            hit.passed(Kind::InputEnqueue, datagram, 0);
            known.put(INPUT, datagram, seen, hit.raw.at_ns);
            return skipped;
        }
        raw::RAW_RECEIVE => return received(hit, known),
        raw::RAW_DROP => {
            if let Some((datagram, after)) = known.remove(seen) {
                dropped(hit, datagram, after);
            } else if hit.raw.thread > 0 {
                // Its sender's socket has it, and no point saw it: a queueing discipline refused it.
                let refused = sent(hit, known);
                dropped(hit, refused, Point::SendDequeue.number());
            }
        }
        _ => {}
    }
    None
}

/// The kernel threw the datagram away after the point with this number.
pub(super) fn dropped(hit: &mut Hit<'_>, datagram: Datagram, after: u8) {
    let record = hit.record(Kind::Drop, datagram.offset, datagram.len);
    hit.out.push(Record { detail: u64::from(hit.raw.a), code: after, ..record });
}

/// A read, and the datagram that it took, if one that was announced; else that may have been queued
/// together with another one, whose announcement stood for both.
pub(super) fn read(hit: &mut Hit<'_>, flow: &mut FlowState, announced: Option<Datagram>) {
    let (len, known) = (hit.raw.len, &mut flow.datagrams);
    let datagram = announced.or_else(|| {
        // A read may ask for less than the datagram holds, never get more.
        let datagram = known.next(SOCKET, len).or_else(|| known.take(SOCKET, Seen::of(len)))?;
        hit.passed(Kind::ReceiveEnqueue, datagram, marks::DERIVED);
        Some(datagram)
    });
    if let Some(datagram) = datagram {
        flow.waiting_ns = flow.waiting_ns.max(datagram.at_ns);
        hit.copied(flow, datagram.offset, datagram.len);
    }
}

/// The datagram has left the receive queue by now: nobody saw when, nor whether it was read.
pub(super) fn gone(hit: &mut Hit<'_>, flow: &mut FlowState, datagram: Datagram) {
    flow.woken_ns = 0;
    hit.passed(Kind::ReceiveDequeue, Datagram { number: 0, ..datagram }, marks::DERIVED);
}

/// The datagram of this length that came off the wire. One that is still in the queueing discipline
/// left it unseen; one that is in neither came from elsewhere.
fn arrived(known: &mut Datagrams, seen: Seen) -> (Datagram, Option<Skipped>) {
    if let Some(datagram) = known.take(WIRE, seen) {
        return (datagram, None);
    }
    match known.take(QUEUED, seen) {
        Some(datagram) => (datagram, Some(Skipped::at([4, 4], datagram))),
        None => (known.announce(seen.len), None),
    }
}

/// IP takes the datagram.
fn received(hit: &mut Hit<'_>, known: &mut Datagrams) -> Option<Skipped> {
    let seen = hit.seen();
    let mut skipped = None;
    let datagram = known.take(INPUT, seen).unwrap_or_else(|| {
        // A bridge hands it to IP again; what IP took at this very moment is of the same packet.
        let is_first = known.has(WIRE, seen.len);
        let again = if is_first { None } else { known.take_unless_at(SOCKET, seen, hit.raw.at_ns) };
        let datagram = again.unwrap_or_else(|| {
            let (datagram, unseen) = arrived(known, seen);
            skipped = unseen;
            datagram
        });
        // Its entry was not observed: it was at the latest now.
        hit.passed(Kind::InputEnqueue, datagram, marks::DERIVED);
        datagram
    });
    hit.passed(Kind::InputDequeue, datagram, 0);
    known.put(SOCKET, datagram, seen, hit.raw.at_ns);
    skipped
}

/// A datagram is in the receive queue, and with it those before it that no drop took away: one
/// announcement may stand for several.
fn ready(hit: &mut Hit<'_>, flow: &mut FlowState) -> Option<Skipped> {
    let waited_for = hit.raw.marks & raw::MARK_WAITED_FOR != 0;
    if waited_for && flow.woken_ns == 0 {
        flow.woken_ns = hit.raw.at_ns;
    }
    let seen = hit.seen();
    let known = &mut flow.datagrams;
    known.socket = hit.raw.ack;
    let mark = if waited_for { marks::WAITED_FOR } else { 0 };
    for earlier in known.before(SOCKET, seen) {
        hit.passed(Kind::ReceiveEnqueue, earlier, marks::DERIVED);
        known.received.push(Datagram { at_ns: hit.raw.at_ns, ..earlier });
    }
    let gaps =
        [(SOCKET, None), (INPUT, Some([6, 6])), (WIRE, Some([5, 6])), (QUEUED, Some([4, 6]))];
    let found = gaps
        .into_iter()
        .find_map(|(gap, skipped)| known.take(gap, seen).map(|datagram| (datagram, skipped)));
    let (datagram, skipped) = found?;
    hit.passed(Kind::ReceiveEnqueue, datagram, mark);
    known.received.push(Datagram { at_ns: hit.raw.at_ns, ..datagram });
    skipped.map(|numbers| Skipped::at(numbers, datagram))
}

/// A datagram on its way out again that came in before: no socket sends it.
fn forwarded(hit: &Hit<'_>, known: &mut Datagrams) -> Option<Datagram> {
    if hit.raw.thread == 0 { known.take(SOCKET, hit.seen()) } else { None }
}

/// A datagram goes from the program to IP within the send call: points 1 and 2 are this moment.
fn sent(hit: &mut Hit<'_>, known: &mut Datagrams) -> Datagram {
    let datagram = known.announce(hit.raw.len);
    let thread = hit.raw.thread;
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
    /// The datagram of this hit, which may be one of several of a packet.
    fn seen(&self) -> Seen {
        let RawRecord { len, ack, window, seq: each, .. } = *self.raw;
        let buffer = match self.raw.kind {
            raw::RAW_READY => window,
            raw::RAW_COPY => 0,
            _ => ack,
        };
        Seen { buffer, is_part: each > 0, ..Seen::of(len) }
    }

    fn passed(&mut self, kind: Kind, datagram: Datagram, marks: u8) {
        let is_recognized = datagram.is_recognized && self.seen().buffer > 0;
        let recognized = if is_recognized { marks::RECOGNIZED } else { 0 };
        let record = self.record(kind, datagram.offset, datagram.len);
        let marks = marks | recognized | self.marks();
        self.out.push(Record { detail: datagram.number, marks, ..record });
    }
}
