//! `read` and `recvfrom`: `soreceive`.

#[cfg(test)]
mod tests;

use sockscope_record::{FlowId, Kind, Point, Record};

use super::{Progress, Step, lock, unlock};
use crate::effect::{Channel, Effect};
use crate::meter::Meter;
use crate::packet::Mark;
use crate::routine::{Routine, Work};
use crate::sockbuf::{Datagram, SockBuf};
use crate::socket::{Endpoint, Socket, SocketError, SocketId};
use crate::stack::Stack;

/// One call that receives.
#[derive(Debug)]
pub struct ReceiveCall {
    socket: SocketId,
    len: usize,
    wants_address: bool,
    /// Bytes given to the process.
    given: usize,
    /// The datagram being copied.
    datagram: Option<Datagram>,
    from: Option<Endpoint>,
    mark: Option<Mark>,
    has_lock: bool,
    /// All that the last step did was to copy.
    has_copied: bool,
    next: Next,
    /// The result of the call.
    result: Result<(), SocketError>,
}

#[derive(Debug, Clone, Copy)]
enum Next {
    Enter,
    Wait,
    Copy,
    /// The read ends at the mark of urgent data.
    Mark,
    Return,
}

impl ReceiveCall {
    /// `read(socket, buffer, len)`
    pub fn read(socket: SocketId, len: usize) -> Self {
        Self::new(socket, len, false)
    }

    /// `recvfrom(socket, buffer, len, 0, from)`
    pub fn receive_from(socket: SocketId, len: usize) -> Self {
        Self::new(socket, len, true)
    }

    fn new(socket: SocketId, len: usize, wants_address: bool) -> Self {
        Self {
            socket,
            len,
            wants_address,
            given: 0,
            datagram: None,
            from: None,
            mark: None,
            has_lock: false,
            has_copied: false,
            next: Next::Enter,
            result: Ok(()),
        }
    }

    /// The sender of the datagram; `None` for a stream.
    pub fn from(&self) -> Option<Endpoint> {
        self.from
    }

    /// Whether the last step only copied data to the process, which soft interrupts may interrupt:
    /// it ran at the lowest priority level.
    pub fn has_copied(&self) -> bool {
        self.has_copied
    }

    /// Goes on with the call. `user` is the process's buffer, the same at every step; a shorter one
    /// than the call names is `Invalid`.
    pub fn step(&mut self, stack: &mut Stack, user: &mut [u8], meter: &mut Meter) -> Step {
        let came = match self.next {
            Next::Enter => self.enter(stack, user, meter),
            Next::Wait => self.wait(stack, user, meter),
            Next::Copy => self.copy(stack, user, meter),
            Next::Mark => self.received(stack, meter),
            Next::Return => self.finish(stack, meter),
        };
        self.has_copied = came == Progress::Copied;
        let result = self.result.map(|()| self.given as u32);
        came.step(Channel::ReceiveLock(self.socket), Channel::Readable(self.socket), result)
    }

    /// Another process has closed the socket while this one slept.
    fn is_closed(&mut self, stack: &mut Stack, meter: &mut Meter) -> Progress {
        self.free_datagram(stack, meter);
        self.result = Err(SocketError::BadSocket);
        Progress::Done
    }

    fn enter(&mut self, stack: &mut Stack, user: &[u8], meter: &mut Meter) -> Progress {
        use Routine::{Read, Rwuio, SooRw, Soreceive, Syscall};
        if stack.sockets.find(self.socket).is_none() {
            return self.is_closed(stack, meter);
        }
        if self.wants_address {
            count_receive_from(meter);
        } else {
            meter.call_each([Syscall, Read, Rwuio, SooRw, Soreceive], Work::NONE);
        }
        if user.len() < self.len {
            return self.ends_with(Err(SocketError::Invalid));
        }
        // Data that arrive before the next step count.
        self.goes_on(Next::Wait)
    }

    /// Waits until there is something to receive, or until there can be nothing more.
    fn wait(&mut self, stack: &mut Stack, user: &mut [u8], meter: &mut Meter) -> Progress {
        let Some(socket) = stack.sockets.find_mut(self.socket) else {
            return self.is_closed(stack, meter);
        };
        if !self.has_lock && !lock(&mut socket.rcv) {
            return Progress::LockWait;
        }
        self.has_lock = true;
        if socket.rcv.cc() > 0 {
            return self.copy(stack, user, meter);
        }
        if let Some(error) = socket.error.take() {
            return self.ends_with(Err(error));
        }
        if socket.state.cannot_receive_more {
            let (offset, passed) = (socket.rcv.left(), socket.pass_apart());
            if passed > 0 {
                let flow = socket.received_flow();
                let record = flow.map(|flow| dequeued(flow, offset, passed as usize));
                meter.probe(Point::ReceiveDequeue, record);
            }
            return self.ends_with(Ok(()));
        }
        if !socket.is_atomic() && !socket.state.is_connected && !socket.state.is_connecting {
            return self.ends_with(Err(SocketError::NotConnected));
        }
        if self.len == 0 {
            return self.ends_with(Ok(()));
        }
        if socket.state.is_nonblocking {
            return self.ends_with(Err(SocketError::WouldBlock));
        }
        socket.rcv.is_waited_for = true;
        self.release(&mut socket.rcv, meter);
        Progress::Blocked
    }

    /// One mbuf is copied to the process: one `uiomove`.
    fn copy(&mut self, stack: &mut Stack, user: &mut [u8], meter: &mut Meter) -> Progress {
        let Stack { sockets, pool, .. } = stack;
        let Some(socket) = sockets.find_mut(self.socket) else {
            return self.is_closed(stack, meter);
        };
        if socket.is_atomic() {
            return self.copy_datagram(stack, user, meter);
        }
        let (Some(first), true) = (socket.rcv.chain().first(), self.given < self.len) else {
            return self.received(stack, meter);
        };
        let offset = socket.rcv.left();
        let (room, passed) = socket.begin_to_take();
        let (data, rest) = (pool.data(first), &mut user[self.given..self.len]);
        let take = data.len().min(rest.len()).min(room);
        rest[..take].copy_from_slice(&data[..take]);
        count_copy(take, meter);
        let flow = socket.received_flow();
        let record = flow.map(|flow| dequeued(flow, offset, passed as usize + take));
        meter.probe(Point::ReceiveDequeue, record);
        socket.rcv.remove_from_first(first, take, pool, meter);
        self.given += take;
        if socket.urgent.comes_to_mark(socket.rcv.left()) {
            return self.copied(Next::Mark);
        }
        // Whether the buffer is empty shows after the copy: data may arrive meanwhile.
        self.copied(Next::Copy)
    }

    /// The rest of a datagram that does not fit is lost, as ever.
    fn copy_datagram(&mut self, stack: &mut Stack, user: &mut [u8], meter: &mut Meter) -> Progress {
        if self.datagram.is_none() {
            let rcv = &mut stack.sockets[self.socket].rcv;
            self.datagram = rcv.take_datagram(&mut stack.pool, meter);
            self.from = self.datagram.as_ref().map(|datagram| datagram.from);
            self.mark = self.datagram.as_ref().and_then(|datagram| datagram.mark);
        }
        let chain = self.datagram.as_mut().map(|datagram| &mut datagram.chain);
        let first = chain.and_then(|chain| stack.pool.pop_front(chain));
        let Some(first) = first else { return self.datagram_ends(meter) };
        let data = stack.pool.data(first);
        let take = data.len().min(self.len - self.given);
        user[self.given..self.given + take].copy_from_slice(&data[..take]);
        stack.pool.free(first, meter);
        count_copy(take, meter);
        self.given += take;
        let is_last = self.datagram.as_ref().is_none_or(|datagram| datagram.chain.is_empty());
        if is_last || self.given == self.len {
            self.free_datagram(stack, meter);
            return self.datagram_ends(meter);
        }
        self.copied(Next::Copy)
    }

    fn datagram_ends(&mut self, meter: &mut Meter) -> Progress {
        let mark = self.mark;
        let record = mark.map(|mark| dequeued(mark.flow, mark.offset, mark.len as usize));
        meter.probe(Point::ReceiveDequeue, record);
        self.copied(Next::Return)
    }

    /// `PRU_RCVD`: the protocol may announce the space to the peer.
    fn received(&mut self, stack: &mut Stack, meter: &mut Meter) -> Progress {
        let result = if stack.sockets[self.socket].is_attached {
            stack.pru_rcvd(self.socket, meter)
        } else {
            Ok(())
        };
        self.ends_with(result)
    }

    fn finish(&mut self, stack: &mut Stack, meter: &mut Meter) -> Progress {
        self.free_datagram(stack, meter);
        let Some(socket) = stack.sockets.find_mut(self.socket) else {
            return self.is_closed(stack, meter);
        };
        self.release(&mut socket.rcv, meter);
        self.observe_return(socket, meter);
        Progress::Done
    }

    fn observe_return(&self, socket: &Socket, meter: &mut Meter) {
        let (flow, offset) = match self.mark {
            Some(mark) => (Some(mark.flow), mark.offset),
            None => (socket.received_flow(), socket.rcv.left().saturating_sub(self.given as u64)),
        };
        let Some(flow) = flow else { return };
        let returned = Record { kind: Kind::ReadReturn, ..dequeued(flow, offset, self.given) };
        let errno = self.result.err().map_or(0, SocketError::errno);
        meter.effect(Effect::Observed(returned.with_errno(errno)));
    }

    fn free_datagram(&mut self, stack: &mut Stack, meter: &mut Meter) {
        if let Some(datagram) = self.datagram.take() {
            stack.pool.m_freem(datagram.chain, meter);
        }
    }

    fn release(&mut self, rcv: &mut SockBuf, meter: &mut Meter) {
        if self.has_lock {
            self.has_lock = false;
            unlock(rcv, Channel::ReceiveLock(self.socket), meter);
        }
    }

    fn copied(&mut self, next: Next) -> Progress {
        self.next = next;
        Progress::Copied
    }

    fn goes_on(&mut self, next: Next) -> Progress {
        self.next = next;
        Progress::Continue
    }

    fn ends_with(&mut self, result: Result<(), SocketError>) -> Progress {
        self.result = result;
        self.goes_on(Next::Return)
    }
}

/// `recvfrom` as far as `soreceive`.
fn count_receive_from(meter: &mut Meter) {
    use Routine::{Getf, Getsock, Recvfrom, Recvit, Soreceive, Syscall};
    meter.call_each([Syscall, Recvfrom, Getsock, Getf, Recvit, Soreceive], Work::NONE);
}

fn count_copy(len: usize, meter: &mut Meter) {
    meter.charge(Routine::Soreceive, Work::mbufs(1));
    meter.call_each([Routine::Uiomove, Routine::Copyout], Work::bytes(len));
}

/// Point 8.
fn dequeued(flow: FlowId, offset: u64, len: usize) -> Record {
    Record { flow, offset, len: len as u32, kind: Kind::ReceiveDequeue, ..Record::default() }
}
