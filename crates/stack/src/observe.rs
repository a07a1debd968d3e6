//! Records of events inside a step, made only for sockets that are logged.

use sockscope_record::{Hold, Kind, PacketDrop, Point, Record, marks};

use crate::drop_reason::DropReason;
use crate::effect::Effect;
use crate::meter::Meter;
use crate::packet::{Mark, Packet};
use crate::socket::{Socket, SocketError, SocketId};
use crate::stack::Stack;

/// A packet was dropped after it had passed `last`; its mark names its flow.
pub(crate) fn observe_drop(mark: Option<Mark>, reason: DropReason, last: Point, meter: &mut Meter) {
    let Some(mark) = mark else { return };
    let drop = PacketDrop { reason: reason as u64, last: Some(last) };
    meter.effect(Effect::Observed(mark.record(last).with_packet_drop(drop)));
}

impl Socket {
    /// Point 1: `len` bytes are about to enter the send buffer; `hold` is why they wait.
    pub(crate) fn observe_send_enqueue(
        &self,
        len: usize,
        hold: impl FnOnce() -> Hold,
        meter: &mut Meter,
    ) {
        let entered = |flow| Record {
            offset: self.snd.entered(),
            len: len as u32,
            flow,
            kind: Kind::SendEnqueue,
            ..Record::default()
        };
        meter.probe(Point::SendEnqueue, self.log.map(|flow| entered(flow).with_hold(hold())));
    }

    /// Point 7: `len` bytes are about to enter the receive buffer.
    pub(crate) fn observe_receive_enqueue(&self, len: usize, meter: &mut Meter) {
        let waited_for = if self.rcv.is_waited_for { marks::WAITED_FOR } else { 0 };
        let record = self.received_flow().map(|flow| Record {
            offset: self.rcv.entered(),
            len: len as u32,
            flow,
            kind: Kind::ReceiveEnqueue,
            marks: waited_for,
            ..Record::default()
        });
        meter.probe(Point::ReceiveEnqueue, record);
    }
}

impl Stack {
    /// `m_freem` of a packet that is dropped after it has passed `last`.
    pub(crate) fn drop_packet(
        &mut self,
        packet: Packet,
        reason: DropReason,
        last: Point,
        meter: &mut Meter,
    ) {
        observe_drop(self.seen(packet.mark), reason, last, meter);
        self.pool.m_freem(packet.chain, meter);
    }

    /// The mark of a packet for records of this host: a gateway makes none.
    pub fn seen(&self, mark: Option<Mark>) -> Option<Mark> {
        mark.filter(|_| !self.config.forwards)
    }

    /// Point 7 of a datagram, which its own mark describes.
    pub(crate) fn observe_datagram(
        &self,
        mark: Option<Mark>,
        is_waited_for: bool,
        meter: &mut Meter,
    ) {
        let waited_for = if is_waited_for { marks::WAITED_FOR } else { 0 };
        let record = mark.map(|mark| {
            let record = mark.record(Point::ReceiveEnqueue);
            Record { marks: record.marks | waited_for, ..record }
        });
        meter.probe(Point::ReceiveEnqueue, record);
    }

    /// A write call starts or ends.
    pub(crate) fn observe_write(
        &self,
        socket: SocketId,
        kind: Kind,
        len: usize,
        failure: Option<SocketError>,
        meter: &mut Meter,
    ) {
        let socket = &self.sockets[socket];
        // A call that returns names the bytes that it took.
        let taken = if kind == Kind::WriteReturn { len as u64 } else { 0 };
        let errno = failure.map_or(0, SocketError::errno);
        let call = socket.log.map(|flow| {
            let call = Record {
                offset: socket.snd.entered().saturating_sub(taken),
                len: len as u32,
                flow,
                kind,
                ..Record::default()
            };
            call.with_errno(errno)
        });
        match call {
            // The study counts data as queued from the call on: its first probe is there (§4.2.1).
            call if kind == Kind::WriteCall => meter.probe(Point::SendEnqueue, call),
            Some(call) => meter.effect(Effect::Observed(call)),
            None => {}
        }
    }
}
