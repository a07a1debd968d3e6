//! `read` and `recvfrom`: `soreceive`.

#[cfg(test)]
mod tests;

use sockscope_record::{FlowId, Kind, Record};

use super::{Step, count_getsock, lock, unlock};
use crate::meter::{Channel, Effect, Meter};
use crate::packet::Mark;
use crate::request::Request;
use crate::routine::{Routine, Work};
use crate::sockbuf::Datagram;
use crate::socket::{Endpoint, SocketError, SocketId};
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
    next: Next,
    /// What the call returns.
    result: Result<(), SocketError>,
}

#[derive(Debug, Clone, Copy)]
enum Next {
    Enter,
    Wait,
    Copy,
    Received,
    Return,
}

impl ReceiveCall {
    /// `read(socket, buffer, len)`
    #[must_use]
    pub fn read(socket: SocketId, len: usize) -> Self {
        Self::new(socket, len, false)
    }

    /// `recvfrom(socket, buffer, len, 0, from)`
    #[must_use]
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
            next: Next::Enter,
            result: Ok(()),
        }
    }

    /// Who sent the datagram; `None` for a stream.
    #[must_use]
    pub fn from(&self) -> Option<Endpoint> {
        self.from
    }

    /// Whether the next step only copies data to the process, which soft interrupts may
    /// interrupt: it runs at the lowest priority level.
    #[must_use]
    pub fn is_copying(&self) -> bool {
        matches!(self.next, Next::Copy)
    }

    /// Goes on with the call. `user` is the process's buffer, the same at every step; a shorter one
    /// than the call names is `Invalid`.
    pub fn step(&mut self, stack: &mut Stack, user: &mut [u8], meter: &mut Meter) -> Step {
        if stack.sockets.find(self.socket).is_none() {
            // Closed by another process while this one slept.
            self.free_datagram(stack, meter);
            return Step::Done(Err(SocketError::BadSocket));
        }
        match self.next {
            Next::Enter => self.enter(user, meter),
            Next::Wait => self.wait(stack, meter),
            Next::Copy => self.copy(stack, user, meter),
            Next::Received => self.received(stack, meter),
            Next::Return => self.finish(stack, meter),
        }
    }

    fn enter(&mut self, user: &[u8], meter: &mut Meter) -> Step {
        meter.call(Routine::Syscall, Work::NONE);
        if self.wants_address {
            meter.call(Routine::Recvfrom, Work::NONE);
            count_getsock(meter);
            meter.call(Routine::Recvit, Work::NONE);
        } else {
            for routine in [Routine::Read, Routine::Rwuio, Routine::SooRw] {
                meter.call(routine, Work::NONE);
            }
        }
        meter.call(Routine::Soreceive, Work::NONE);
        if user.len() < self.len {
            return self.ends_with(Err(SocketError::Invalid));
        }
        // What arrives on the way here counts.
        self.goes_on(Next::Wait)
    }

    /// Waits until there is something to receive, or until there can be nothing more.
    fn wait(&mut self, stack: &mut Stack, meter: &mut Meter) -> Step {
        let socket = &mut stack.sockets[self.socket];
        if !self.has_lock && !lock(&mut socket.rcv) {
            self.next = Next::Wait;
            return Step::Sleep(Channel::ReceiveLock(self.socket));
        }
        self.has_lock = true;
        if socket.rcv.cc() > 0 {
            return self.goes_on(Next::Copy);
        }
        if let Some(error) = socket.error.take() {
            return self.ends_with(Err(error));
        }
        if socket.state.cannot_receive_more {
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
        self.release(stack, meter);
        self.next = Next::Wait;
        Step::Sleep(Channel::Readable(self.socket))
    }

    /// One mbuf is copied to the process: one `uiomove`.
    fn copy(&mut self, stack: &mut Stack, user: &mut [u8], meter: &mut Meter) -> Step {
        if stack.sockets[self.socket].is_atomic() {
            self.copy_datagram(stack, user, meter)
        } else {
            self.copy_stream(stack, user, meter)
        }
    }

    fn copy_stream(&mut self, stack: &mut Stack, user: &mut [u8], meter: &mut Meter) -> Step {
        let socket = &mut stack.sockets[self.socket];
        let Some(first) = socket.rcv.chain().first().filter(|_| self.given < self.len) else {
            // A step of its own: the protocol runs at `splnet`, unlike a copy.
            return self.goes_on(Next::Received);
        };
        let data = stack.pool.data(first);
        let take = data.len().min(self.len - self.given);
        user[self.given..self.given + take].copy_from_slice(&data[..take]);
        count_copy(take, meter);
        if let Some(flow) = socket.received_flow() {
            let record = dequeued(flow, socket.rcv.left(), take);
            meter.effect(Effect::Observed(record));
        }
        socket.rcv.remove_front(take, &mut stack.pool, meter);
        self.given += take;
        // Whether the buffer is empty shows after the copy: data may arrive meanwhile.
        self.goes_on(if self.given == self.len { Next::Received } else { Next::Copy })
    }

    /// What of the datagram does not fit is lost, as ever.
    #[inline(never)]
    fn copy_datagram(&mut self, stack: &mut Stack, user: &mut [u8], meter: &mut Meter) -> Step {
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
        Step::Continue
    }

    fn datagram_ends(&mut self, meter: &mut Meter) -> Step {
        if let Some(mark) = self.mark {
            let record = dequeued(mark.flow, mark.offset, mark.len as usize);
            meter.effect(Effect::Observed(record));
        }
        self.ends_with(Ok(()))
    }

    /// `PRU_RCVD`: the protocol may tell the peer of the space.
    fn received(&mut self, stack: &mut Stack, meter: &mut Meter) -> Step {
        let result = if stack.sockets[self.socket].is_attached {
            stack.usrreq(self.socket, Request::Received, meter)
        } else {
            Ok(())
        };
        self.ends_with(result)
    }

    fn finish(&mut self, stack: &mut Stack, meter: &mut Meter) -> Step {
        self.free_datagram(stack, meter);
        self.release(stack, meter);
        self.observe_return(stack, meter);
        Step::Done(self.result.map(|()| self.given as u32))
    }

    fn observe_return(&self, stack: &Stack, meter: &mut Meter) {
        let socket = &stack.sockets[self.socket];
        let (flow, offset) = match self.mark {
            Some(mark) => (Some(mark.flow), mark.offset),
            None => (socket.received_flow(), socket.rcv.left().saturating_sub(self.given as u64)),
        };
        let Some(flow) = flow else { return };
        meter.effect(Effect::Observed(Record {
            kind: Kind::ReadReturn,
            code: self.result.err().map_or(0, SocketError::errno),
            ..dequeued(flow, offset, self.given)
        }));
    }

    fn free_datagram(&mut self, stack: &mut Stack, meter: &mut Meter) {
        if let Some(datagram) = self.datagram.take() {
            stack.pool.m_freem(datagram.chain, meter);
        }
    }

    fn release(&mut self, stack: &mut Stack, meter: &mut Meter) {
        if self.has_lock {
            self.has_lock = false;
            let rcv = &mut stack.sockets[self.socket].rcv;
            unlock(rcv, Channel::ReceiveLock(self.socket), meter);
        }
    }

    fn goes_on(&mut self, next: Next) -> Step {
        self.next = next;
        Step::Continue
    }

    fn ends_with(&mut self, result: Result<(), SocketError>) -> Step {
        self.result = result;
        self.goes_on(Next::Return)
    }
}

fn count_copy(len: usize, meter: &mut Meter) {
    meter.charge(Routine::Soreceive, Work::mbufs(1));
    meter.call(Routine::Uiomove, Work::bytes(len));
    meter.call(Routine::Copyout, Work::bytes(len));
}

/// Point 8.
fn dequeued(flow: FlowId, offset: u64, len: usize) -> Record {
    Record { flow, offset, len: len as u32, kind: Kind::ReceiveDequeue, ..Record::default() }
}
