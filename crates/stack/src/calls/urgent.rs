//! The calls for urgent data: `recv` with `MSG_OOB`, `SIOCATMARK`.

use sockscope_record::{Kind, Point, Record};

use crate::meter::Meter;
use crate::routine::{Routine, Work};
use crate::socket::{Socket, SocketError, SocketId};
use crate::stack::Stack;

impl Socket {
    /// A read takes octets now. Returns how many it may take at once, and how many it has passed that are kept apart.
    pub(super) fn begin_to_take(&mut self) -> (usize, u32) {
        let passed = self.pass_apart();
        (self.urgent.leave_mark(self.rcv.left()), passed)
    }

    /// The reader stands at octets that are kept apart, and goes on behind them.
    pub(super) fn pass_apart(&mut self) -> u32 {
        let mut passed = 0;
        while self.rcv.left() < self.rcv.entered() && self.urgent.pass(self.rcv.left()) {
            self.rcv.pass_apart();
            passed += 1;
        }
        passed
    }
}

impl Stack {
    /// `SIOCATMARK`: whether everything before the urgent octet is read, and nothing behind it.
    pub fn is_at_mark(&self, id: SocketId) -> Result<bool, SocketError> {
        let socket = self.sockets.find(id).ok_or(SocketError::BadSocket)?;
        Ok(socket.urgent.is_at_mark())
    }

    /// `recv` with `MSG_OOB`: the urgent octet. `Invalid` without one, for one that was read and where it stays in
    /// the stream; `WouldBlock` while it has been announced and has not arrived.
    pub fn receive_urgent(&mut self, id: SocketId, meter: &mut Meter) -> Result<u8, SocketError> {
        use Routine::{Copyout, Getf, Getsock, Recvfrom, Recvit, Soreceive, Syscall, TcpUsrreq};
        meter.call_each(
            [Syscall, Recvfrom, Getsock, Getf, Recvit, Soreceive, TcpUsrreq],
            Work::NONE,
        );
        let socket = self.sockets.find_mut(id).ok_or(SocketError::BadSocket)?;
        if socket.options.out_of_band_inline {
            return Err(SocketError::Invalid);
        }
        let octet = socket.urgent.take_octet().map_err(|()| SocketError::Invalid)?;
        let octet = octet.ok_or(SocketError::WouldBlock)?;
        meter.call_each([Routine::Uiomove, Copyout], Work::bytes(1));
        let offset = socket.rcv.left();
        let passed = socket.pass_apart();
        if passed > 0 {
            let record = socket.received_flow().map(|flow| Record {
                flow,
                offset,
                len: passed,
                kind: Kind::ReceiveDequeue,
                ..Record::default()
            });
            meter.probe(Point::ReceiveDequeue, record);
        }
        Ok(octet)
    }
}
