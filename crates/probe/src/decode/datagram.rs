//! UDP: hits to records. Datagrams carry no position; they are followed from point to point by
//! their order and length, every queue on the way being first in, first out.

use sockscope_record::{Kind, Record, marks};

use super::Hit;
use super::connection::{Datagram, Datagrams, FlowState, segment_marks};
use crate::layout::constants as raw;

/// Indices of [`Datagrams::between`].
const QUEUED: usize = 0;
const WIRE: usize = 1;
const INPUT: usize = 2;
const SOCKET: usize = 3;
const RECEIVED: usize = 4;

pub(super) fn decode(hit: &mut Hit<'_>, flow: &mut FlowState) {
    let len = hit.raw.len;
    let known = &mut flow.datagrams;
    match hit.raw.kind {
        raw::RAW_QUEUED => {
            let datagram = sent(hit, known);
            hit.passed(Kind::InterfaceEnqueue, datagram, 0);
            known.put(QUEUED, datagram);
        }
        raw::RAW_TRANSMIT => {
            let datagram = match known.take(QUEUED, len) {
                Some(datagram) => datagram,
                None => {
                    let datagram = sent(hit, known);
                    hit.passed(Kind::InterfaceEnqueue, datagram, marks::NO_QUEUE);
                    datagram
                }
            };
            hit.passed(Kind::InterfaceDequeue, datagram, 0);
            if hit.enters_at_once {
                hit.passed(Kind::InputEnqueue, datagram, marks::DERIVED);
                known.put(INPUT, datagram);
            } else {
                known.put(WIRE, datagram);
            }
        }
        raw::RAW_INPUT => {
            let datagram = known.take(WIRE, len).unwrap_or_else(|| known.announce(len));
            hit.passed(Kind::InputEnqueue, datagram, 0);
            known.put(INPUT, datagram);
        }
        raw::RAW_RECEIVE => {
            let datagram = known.take(INPUT, len).unwrap_or_else(|| {
                // Its entry was not observed: it was at the latest now.
                let datagram = known.take(WIRE, len).unwrap_or_else(|| known.announce(len));
                hit.passed(Kind::InputEnqueue, datagram, marks::DERIVED);
                datagram
            });
            hit.passed(Kind::InputDequeue, datagram, 0);
            known.put(SOCKET, datagram);
        }
        raw::RAW_READY => {
            if let Some(datagram) = known.take(SOCKET, len) {
                let waited_for = hit.raw.marks & raw::MARK_WAITED_FOR != 0;
                hit.passed(
                    Kind::ReceiveEnqueue,
                    datagram,
                    if waited_for { marks::WAITED_FOR } else { 0 },
                );
                known.put(RECEIVED, datagram);
                if waited_for && flow.woken_ns == 0 {
                    flow.woken_ns = hit.raw.at_ns;
                }
            }
        }
        raw::RAW_COPY => {
            // A read may ask for less than the datagram holds.
            let received = known.take(RECEIVED, len).or_else(|| known.next(RECEIVED));
            let datagram = received.or_else(|| {
                // Queued together with another one, whose announcement stood for both.
                let datagram = known.take(SOCKET, len).or_else(|| known.next(SOCKET))?;
                hit.passed(Kind::ReceiveEnqueue, datagram, marks::DERIVED);
                Some(datagram)
            });
            if let Some(datagram) = datagram {
                hit.copied(flow, datagram.offset, datagram.len);
            }
        }
        raw::RAW_DROP => {
            if let Some((datagram, after)) = known.remove(len) {
                let record = hit.record(Kind::Drop, datagram.offset, datagram.len);
                hit.out.push(Record { detail: u64::from(hit.raw.a), code: after, ..record });
            }
        }
        _ => {}
    }
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
    fn passed(&mut self, kind: Kind, datagram: Datagram, marks: u8) {
        let record = self.record(kind, datagram.offset, datagram.len);
        self.out.push(Record {
            detail: datagram.number,
            marks: marks | segment_marks(self.raw.marks),
            ..record
        });
    }
}
