//! Records of what happens inside a step, made only for sockets that are logged.

use sockscope_record::{Hold, Kind, Point, Record, marks};

use crate::meter::{Effect, Meter};
use crate::packet::Mark;
use crate::socket::{SocketError, SocketId};
use crate::stack::Stack;

impl Stack {
    /// Point 1: `len` bytes are about to enter the send buffer. `hold` says what will keep them.
    pub(crate) fn observe_send_enqueue(
        &self,
        socket: SocketId,
        len: usize,
        hold: Hold,
        meter: &mut Meter,
    ) {
        let socket = &self.sockets[socket];
        let Some(flow) = socket.log else { return };
        meter.effect(Effect::Observed(Record {
            offset: socket.snd.entered(),
            len: len as u32,
            flow,
            kind: Kind::SendEnqueue,
            code: hold as u8,
            ..Record::default()
        }));
    }

    /// Point 7: `len` bytes are about to enter the receive buffer.
    pub(crate) fn observe_receive_enqueue(&self, socket: SocketId, len: usize, meter: &mut Meter) {
        let socket = &self.sockets[socket];
        let Some(flow) = socket.received_flow() else { return };
        let waited_for = if socket.rcv.is_waited_for { marks::WAITED_FOR } else { 0 };
        meter.effect(Effect::Observed(Record {
            offset: socket.rcv.entered(),
            len: len as u32,
            flow,
            kind: Kind::ReceiveEnqueue,
            marks: waited_for,
            ..Record::default()
        }));
    }

    /// Point 7 of a datagram, which its own mark describes.
    pub(crate) fn observe_datagram(
        &self,
        mark: Option<Mark>,
        is_waited_for: bool,
        meter: &mut Meter,
    ) {
        let Some(mark) = mark else { return };
        let record = mark.record(Point::ReceiveEnqueue);
        let waited_for = if is_waited_for { marks::WAITED_FOR } else { 0 };
        meter.effect(Effect::Observed(Record {
            detail: 0,
            extra: 0,
            marks: record.marks | waited_for,
            ..record
        }));
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
        let Some(flow) = socket.log else { return };
        meter.effect(Effect::Observed(Record {
            offset: socket.snd.entered(),
            len: len as u32,
            flow,
            kind,
            code: failure.map_or(0, SocketError::errno),
            ..Record::default()
        }));
    }
}
