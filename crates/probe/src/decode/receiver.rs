//! The receiver's side of a flow: data in the receive queue (point 7) and the copy to the reader
//! (point 8).
//!
//! Positions are bytes of the stream, times nanoseconds of the trace's clock. After missed records the
//! bytes that passed meanwhile have no time: the next record of the same point does not cover them.

use sockscope_record::{FlowId, Kind, PacketDrop, Point, ReaderTimes, Record, marks};

use super::arrivals::{Arrival, Arrivals};
use super::hit::{Hit, Reader};
use super::in_transit::Datagram;
use super::positions::Positions;
use super::unknown_positions::MissedUntil;
use crate::layout::{RawAnchor, RawTcpCopy, RawTcpDrop, RawTcpReady, constants as raw};

/// Data that IP took longer before its announcement is announced for another cause than its arrival.
const ANNOUNCED_WITHIN_NS: u64 = 1_000_000;

/// The remembered state of the socket that receives a flow, and of its reader.
pub(super) struct Receiver {
    flow: FlowId,
    /// Bytes that entered the receive queue.
    ready: Option<u64>,
    /// The first byte that IP took since the connection was joined by its sender's socket, which knows
    /// only the acknowledged bytes; `u64::MAX` before one. `None` once the value of `ready` was recorded.
    taken_since_joined: Option<u64>,
    /// Bytes below which the socket keeps them to itself (`SO_RCVLOWAT`); 0 unknown.
    pub(super) low_mark: u32,
    /// Segments for such a socket that are not known to be in the receive queue.
    arrivals: Arrivals,
    /// The furthest acknowledgment that the receiver made, and its time: proof of having received.
    acknowledged: (u64, u64),
    /// When the last data that a thread waited for arrived; 0 when none did since it last read.
    woken_ns: u64,
    /// Bytes that the reader has had.
    copied: Option<u64>,
    /// The time since which bytes wait for the reader: their arrival, or the last read if that left
    /// them. Means nothing without such bytes.
    waiting_ns: u64,
    /// The time of the last announcement of bytes to the reader, and that of the last read.
    ready_ns: u64,
    copied_ns: u64,
    /// Passages of points 7 and 8 while their hits were missed.
    pass_over: PassOver,
}

/// Points of a flow that bytes may have passed while hits of points 7 and 8 were missed.
#[derive(Clone, Copy, Default)]
struct PassOver {
    ready: bool,
    copied: bool,
}

impl Receiver {
    pub(super) fn new(flow: FlowId) -> Self {
        Self {
            flow,
            ready: None,
            taken_since_joined: None,
            low_mark: 0,
            arrivals: Arrivals::default(),
            acknowledged: (0, 0),
            woken_ns: 0,
            copied: None,
            waiting_ns: 0,
            ready_ns: 0,
            copied_ns: 0,
            pass_over: PassOver::default(),
        }
    }

    /// The stream begins: nothing was received before.
    pub(super) fn begin(&mut self) {
        self.ready = Some(0);
        self.copied = Some(0);
    }

    /// The socket was open before: it has received and its reader has read up to these positions.
    pub(super) fn join(&mut self, ready: u64, copied: Option<u64>) {
        self.ready = Some(ready);
        self.copied = copied;
    }

    /// The sender's socket was open before, and has an acknowledgment of all up to `acknowledged`: these bytes
    /// have reached the peer's receive queue, if this is here, and those sent since may have.
    pub(super) fn join_at(&mut self, acknowledged: u64) {
        self.ready = Some(acknowledged);
        self.copied = Some(acknowledged);
        self.taken_since_joined = Some(u64::MAX);
    }

    /// The receiver of the same stream has acknowledged as much.
    pub(super) fn follow(&mut self, other: &Self) {
        self.acknowledged = other.acknowledged;
    }

    /// All bytes before this position have been received, as announced and acknowledged.
    pub(super) fn received(&self) -> u64 {
        self.ready.unwrap_or(0).max(self.acknowledged.0)
    }

    /// Bytes that entered the receive queue.
    pub(super) fn ready_until(&self) -> Option<u64> {
        self.ready
    }

    /// Bytes that the reader has had.
    pub(super) fn copied_until(&self) -> Option<u64> {
        self.copied
    }

    /// The receiver acknowledges all bytes before this position.
    pub(super) fn acknowledge(&mut self, position: u64, at_ns: u64) {
        if position > self.acknowledged.0 {
            self.acknowledged = (position, at_ns);
        }
    }

    /// IP took a segment (point 6), which TCP gets next.
    pub(super) fn take(&mut self, passed: &Record, out: &mut Vec<Record>) {
        let start = passed.offset;
        if passed.len > 0 {
            self.taken_since_joined = self.taken_since_joined.map(|first| first.min(start));
        }
        self.settle_arrivals(out);
        if let (true, Some(ready)) = (self.low_mark > 1, self.ready) {
            let Record { at_ns, cpu, .. } = *passed;
            self.arrivals.came(start, Arrival { end: passed.end(), at_ns, cpu }, ready);
        }
    }

    /// Data is in the receive queue. Its acknowledgment may have gone out just before.
    pub(super) fn ready(
        &mut self,
        hit: &mut Hit<'_>,
        positions: &mut Positions,
        raw: &RawTcpReady,
    ) {
        let mark = if self.note_woken(hit) { marks::WAITED_FOR } else { 0 };
        let Some(to) = hit.position(positions, raw.rcv_nxt) else { return };
        let ready = self.ready;
        self.receive(arrival(hit, to), mark, hit.out);
        hit.is_passed_over = self.see_ready(hit.head.at_ns) && self.ready > ready;
    }

    /// Data is announced: whether a thread waits for it.
    pub(super) fn note_woken(&mut self, hit: &Hit<'_>) -> bool {
        let is_waited_for = hit.head.is_marked(raw::MARK_WAITED_FOR);
        if is_waited_for && self.woken_ns == 0 {
            self.woken_ns = hit.head.at_ns;
        }
        is_waited_for
    }

    /// The reader has had everything up to the hit's sequence number.
    pub(super) fn copy(&mut self, hit: &mut Hit<'_>, positions: &mut Positions, raw: &RawTcpCopy) {
        let Some(to) = hit.position(positions, raw.copied_seq) else {
            hit.note_reader(Reader::from(raw));
            return;
        };
        // Data that was read without its arrival having been announced: that was not observed.
        self.receive(arrival(hit, to), marks::DERIVED, hit.out);
        let copied = self.copied;
        if self.pass_over_copied(to, hit.head.at_ns) {
            hit.is_passed_over = self.copied > copied;
            hit.note_reader(Reader::from(raw));
            return;
        }
        let from = self.copied.unwrap_or(to);
        self.copied = Some(from.max(to));
        if to > from {
            let len = u32::try_from(to - from).unwrap_or(u32::MAX);
            self.copied(hit, hit.record(Kind::ReceiveDequeue, from, len), Reader::from(raw));
        } else {
            hit.note_reader(Reader::from(raw));
        }
    }

    /// A message of a Unix socket leaves the receive queue unread.
    pub(super) fn unread(
        &mut self,
        hit: &mut Hit<'_>,
        positions: &mut Positions,
        raw: &RawTcpDrop,
    ) {
        let Some(offset) = hit.position(positions, raw.seq) else { return };
        let record = hit.record(Kind::Drop, offset, raw.len);
        let last = Some(Point::ReceiveEnqueue);
        hit.out.push(record.with_packet_drop(PacketDrop { reason: raw.reason.into(), last }));
        self.copied = self.copied.max(Some(record.end()));
    }

    /// The copy to the reader: point 8, and the scheduler's delay of the reader before it.
    fn copied(&mut self, hit: &mut Hit<'_>, copied: Record, reader: Reader) {
        let run_ns = hit.run_ns(reader);
        let waited_ns = hit.waited_ns(reader, self.waiting_ns);
        let (Record { at_ns, offset, .. }, thread) = (copied, reader.thread);
        if self.woken_ns > 0 && run_ns > self.woken_ns {
            let woken =
                Record { at_ns: self.woken_ns, thread, ..hit.record(Kind::Wakeup, offset, 0) };
            let run = Record { at_ns: run_ns, thread, ..hit.record(Kind::Run, offset, 0) };
            hit.out.extend([woken, run]);
        }
        self.woken_ns = 0;
        self.waiting_ns = at_ns;
        let record = Record { thread, ..copied };
        hit.out.push(record.with_reader_times(ReaderTimes::new(run_ns, waited_ns)));
    }

    /// A datagram is copied to the reader.
    pub(super) fn copied_datagram(&mut self, hit: &mut Hit<'_>, read: Datagram, reader: Reader) {
        self.waiting_ns = self.waiting_ns.max(read.at_ns);
        let marks = if read.is_recognized { marks::RECOGNIZED } else { 0 };
        let record = hit.record(Kind::ReceiveDequeue, read.offset, read.len);
        self.copied(hit, Record { marks, ..record }, reader);
    }

    /// A datagram has left the receive queue, read or not: no wake-up is one for it any longer.
    pub(super) fn forget_woken(&mut self) {
        self.woken_ns = 0;
    }

    /// Bytes up to an end are in the receive queue: since their arrival, where hits show that of a whole
    /// segment, else since the time given, with the marks of `marks`.
    fn receive(&mut self, last: Arrival, marks: u8, out: &mut Vec<Record>) {
        while let Some(came) = self.arrivals.take_until(last.end) {
            let is_announced_at_once = last.at_ns.saturating_sub(came.at_ns) <= ANNOUNCED_WITHIN_NS;
            let announced = if came.end == last.end && is_announced_at_once { marks } else { 0 };
            self.enter(came, announced | marks::DERIVED, out);
        }
        self.enter(last, marks, out);
    }

    /// The bytes that the receiver acknowledged are in its receive queue, announced or not.
    pub(super) fn settle_arrivals(&mut self, out: &mut Vec<Record>) {
        while let Some(came) = self.arrivals.take_until(self.acknowledged.0) {
            self.enter(came, marks::DERIVED, out);
        }
    }

    /// Data is in the receive queue (point 7). Its acknowledgment may have gone out just before.
    fn enter(&mut self, Arrival { end, at_ns, cpu }: Arrival, marks: u8, out: &mut Vec<Record>) {
        if self.pass_over_ready(end) {
            return;
        }
        if let Some(first) = self.taken_since_joined.take() {
            // Bytes that IP did not take since then had arrived before, and are taken for read.
            let had = Some(first.min(end));
            (self.ready, self.copied) = (self.ready.max(had), self.copied.max(had));
        }
        let from = self.ready.unwrap_or(end);
        self.ready = Some(from.max(end));
        debug_assert!(self.ready_until() >= Some(end), "positions in the queue only grow");
        if end <= from {
            return;
        }
        let (acknowledged, acknowledged_ns) = self.acknowledged;
        let at_ns = if acknowledged >= end { at_ns.min(acknowledged_ns) } else { at_ns };
        if self.copied.is_none_or(|copied| copied >= from) {
            self.waiting_ns = at_ns;
        }
        out.push(Record {
            at_ns,
            offset: from,
            len: u32::try_from(end - from).unwrap_or(u32::MAX),
            flow: self.flow,
            kind: Kind::ReceiveEnqueue,
            cpu,
            marks,
            ..Record::default()
        });
    }

    /// Hits were missed by these times: bytes since the last hit of points 7 and 8 passed without a record.
    pub(super) fn forget_pending(&mut self, missed_until: &MissedUntil) {
        if missed_until[Point::ReceiveEnqueue.index()] > self.ready_ns {
            self.pass_over.ready = true;
            self.arrivals = Arrivals::default();
        }
        self.pass_over.copied |= missed_until[Point::ReceiveDequeue.index()] > self.copied_ns;
    }

    /// The receiver's socket shows the bytes that are ready and read by now.
    pub(super) fn pass_over_until(
        &mut self,
        anchor: &RawAnchor,
        positions: &Positions,
        at_ns: u64,
    ) {
        if let (true, Some(to)) = (self.pass_over.ready, positions.claimed(anchor.rcv_nxt)) {
            self.pass_over_ready(to);
            self.see_ready(at_ns);
        }
        if let (true, Some(to)) = (self.pass_over.copied, positions.claimed(anchor.copied_seq)) {
            self.pass_over_copied(to, at_ns);
        }
    }

    /// Whether hits were missed that would show since when bytes are in the receive queue; then all up to
    /// `to` are, and nothing more is known.
    fn pass_over_ready(&mut self, to: u64) -> bool {
        if self.pass_over.ready {
            self.ready = self.ready.max(Some(to));
            self.taken_since_joined = None;
        }
        self.pass_over.ready
    }

    /// An announcement, or its equivalent, was recorded: the next one covers the bytes since. Returns whether
    /// others before this one were missed, so that it does not show its own bytes.
    fn see_ready(&mut self, at_ns: u64) -> bool {
        self.ready_ns = at_ns;
        std::mem::take(&mut self.pass_over.ready)
    }

    /// Whether hits of reads were missed; then all bytes up to `to` were read, and nothing
    /// more is known. The next read covers the bytes since.
    fn pass_over_copied(&mut self, to: u64, at_ns: u64) -> bool {
        self.copied_ns = at_ns;
        let is_missed = std::mem::take(&mut self.pass_over.copied);
        if is_missed {
            self.copied = self.copied.max(Some(to));
            (self.woken_ns, self.waiting_ns) = (0, at_ns);
        }
        is_missed
    }
}

/// Bytes up to `end` arrived by this hit.
fn arrival(hit: &Hit<'_>, end: u64) -> Arrival {
    Arrival { end, at_ns: hit.head.at_ns, cpu: hit.head.cpu }
}
