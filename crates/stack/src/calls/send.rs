//! `write` and `sendto`: `sosend` under each personality's rules.

#[cfg(test)]
mod tests;

use sockscope_record::Kind;

use super::{Step, count_getsock, count_sockargs, lock, unlock};
use crate::mbuf::{CLUSTER_BYTES, Chain, MbufId};
use crate::meter::{Channel, Meter};
use crate::personality::{SendFill, SendWait};
use crate::request::Request;
use crate::routine::{Routine, Work};
use crate::socket::{Endpoint, Socket, SocketError, SocketId};
use crate::stack::Stack;

/// One call that sends.
#[derive(Debug)]
pub struct SendCall {
    socket: SocketId,
    len: usize,
    to: Option<Endpoint>,
    /// Bytes taken from the process.
    taken: usize,
    /// The chain for the next `PRU_SEND`.
    staged: Chain,
    /// What `sosend` still believes to be free.
    space: i64,
    /// The destination as `sockargs` keeps it.
    address: Chain,
    has_lock: bool,
    next: Next,
    /// What the call returns.
    result: Result<(), SocketError>,
}

#[derive(Debug, Clone, Copy)]
enum Next {
    Enter,
    CheckSpace,
    Copy,
    Send,
    Return,
}

impl SendCall {
    /// `write(socket, buffer, len)`
    #[must_use]
    pub fn write(socket: SocketId, len: usize) -> Self {
        Self::new(socket, len, None)
    }

    /// `sendto(socket, buffer, len, 0, to)`
    #[must_use]
    pub fn send_to(socket: SocketId, len: usize, to: Endpoint) -> Self {
        Self::new(socket, len, Some(to))
    }

    fn new(socket: SocketId, len: usize, to: Option<Endpoint>) -> Self {
        Self {
            socket,
            len,
            to,
            taken: 0,
            staged: Chain::new(),
            space: 0,
            address: Chain::new(),
            has_lock: false,
            next: Next::Enter,
            result: Ok(()),
        }
    }

    /// Whether the next step only copies data from the process, which soft interrupts may
    /// interrupt: it runs at the lowest priority level.
    #[must_use]
    pub fn is_copying(&self) -> bool {
        matches!(self.next, Next::Copy)
    }

    /// Goes on with the call. `user` is the process's buffer, the same at every step; a shorter one
    /// than the call names is `Invalid`.
    pub fn step(&mut self, stack: &mut Stack, user: &[u8], meter: &mut Meter) -> Step {
        if stack.sockets.find(self.socket).is_none() {
            // Closed by another process while this one slept.
            stack.pool.free_chain(self.staged.take(), meter);
            stack.pool.free_chain(self.address.take(), meter);
            return Step::Done(Err(SocketError::BadSocket));
        }
        match self.next {
            Next::Enter => self.enter(stack, user, meter),
            Next::CheckSpace => self.check_space(stack, meter),
            Next::Copy => self.copy(stack, user, meter),
            Next::Send => self.send(stack, meter),
            Next::Return => self.finish(stack, meter),
        }
    }

    fn enter(&mut self, stack: &mut Stack, user: &[u8], meter: &mut Meter) -> Step {
        stack.observe_write(self.socket, Kind::WriteCall, self.len, None, meter);
        meter.call(Routine::Syscall, Work::NONE);
        let has_address = match self.to {
            None => {
                for routine in [Routine::Write, Routine::Rwuio, Routine::SooRw] {
                    meter.call(routine, Work::NONE);
                }
                true
            }
            Some(_) => self.copy_address(stack, meter),
        };
        meter.call(Routine::Sosend, Work::NONE);
        let socket = &stack.sockets[self.socket];
        let too_long = is_atomic(stack, socket) && self.len as u64 > u64::from(socket.snd.hiwat());
        if user.len() < self.len {
            self.ends_with(Err(SocketError::Invalid))
        } else if !has_address {
            self.ends_with(Err(SocketError::NoBuffers))
        } else if too_long && stack.personality.socket.wait != SendWait::LowWater {
            self.ends_with(Err(SocketError::MessageSize))
        } else {
            // What interrupts do meanwhile counts: the space is looked at after the way here.
            self.goes_on(Next::CheckSpace)
        }
    }

    /// `sendto` as far as `sosend`; `false` when there is no mbuf for the address.
    fn copy_address(&mut self, stack: &mut Stack, meter: &mut Meter) -> bool {
        meter.call(Routine::Sendto, Work::NONE);
        count_getsock(meter);
        meter.call(Routine::Sendit, Work::NONE);
        meter.call(Routine::Useracc, Work::NONE);
        count_sockargs(meter);
        let id = stack.pool.m_get(meter);
        if let Some(id) = id {
            stack.pool.push_back(&mut self.address, id);
        }
        id.is_some()
    }

    /// The start of each pass: may the process go on, must it wait, or has it failed?
    fn check_space(&mut self, stack: &mut Stack, meter: &mut Meter) -> Step {
        let snd = &mut stack.sockets[self.socket].snd;
        if !self.has_lock && !lock(snd) {
            self.next = Next::CheckSpace;
            return Step::Sleep(Channel::SendLock(self.socket));
        }
        self.has_lock = true;
        if let Some(error) = self.failure(stack) {
            return self.ends_with(Err(error));
        }
        let socket = &stack.sockets[self.socket];
        if self.len == 0 && !socket.is_atomic() {
            return self.ends_with(Ok(()));
        }
        self.space = socket.snd.space();
        if self.must_wait(stack) { self.wait(stack, meter) } else { self.goes_on(Next::Copy) }
    }

    fn failure(&self, stack: &mut Stack) -> Option<SocketError> {
        let socket = &mut stack.sockets[self.socket];
        let is_connected = socket.state.is_connected;
        if socket.state.cannot_send_more {
            Some(SocketError::Pipe)
        } else if let Some(error) = socket.error.take() {
            Some(error)
        } else if is_connected || self.to.is_some() && socket.is_atomic() {
            None
        } else if socket.is_atomic() {
            Some(SocketError::DestinationRequired)
        } else {
            Some(SocketError::NotConnected)
        }
    }

    fn must_wait(&self, stack: &Stack) -> bool {
        let socket = &stack.sockets[self.socket];
        let rest = (self.len - self.taken) as i64;
        let is_atomic = is_atomic(stack, socket);
        let space = self.space;
        let cluster = CLUSTER_BYTES as i64;
        match stack.personality.socket.wait {
            SendWait::NoSpace => space <= 0 || is_atomic && space < rest,
            SendWait::Aligned => {
                let keeps_aligned = rest >= cluster
                    && space < cluster
                    && socket.snd.cc() as usize >= CLUSTER_BYTES
                    && !socket.state.is_nonblocking;
                space <= 0 || is_atomic && space < rest || keeps_aligned
            }
            SendWait::LowWater => {
                space < rest && (is_atomic || space < i64::from(socket.snd.lowat()) || space <= 0)
            }
        }
    }

    fn wait(&mut self, stack: &mut Stack, meter: &mut Meter) -> Step {
        let socket = &mut stack.sockets[self.socket];
        if socket.is_atomic() && self.len as u64 > u64::from(socket.snd.hiwat()) {
            return self.ends_with(Err(SocketError::MessageSize));
        }
        if socket.state.is_nonblocking {
            let blocked = if self.taken > 0 { Ok(()) } else { Err(SocketError::WouldBlock) };
            return self.ends_with(blocked);
        }
        socket.snd.is_waited_for = true;
        self.release(stack, meter);
        self.next = Next::CheckSpace;
        Step::Sleep(Channel::Writable(self.socket))
    }

    /// One mbuf is filled from the process: one `uiomove`.
    fn copy(&mut self, stack: &mut Stack, user: &[u8], meter: &mut Meter) -> Step {
        let Some((id, is_cluster)) = self.mbuf_for(stack, meter) else {
            return self.ends_with(Err(SocketError::NoBuffers));
        };
        let rest = self.len - self.taken;
        let clips = stack.personality.socket.fill == SendFill::Clipped;
        let room = if is_cluster { CLUSTER_BYTES } else { stack.pool.trailing_room(id) };
        let room = if clips && !is_cluster { room.min(self.space.max(0) as usize) } else { room };
        let take = rest.min(room);
        let offset = self.place(stack, id, take);
        stack.pool.set_range(id, offset, take);
        stack.pool.data_mut(id).copy_from_slice(&user[self.taken..self.taken + take]);
        stack.pool.push_back(&mut self.staged, id);
        meter.charge(Routine::Sosend, Work::mbufs(1));
        meter.call(Routine::Uiomove, Work::bytes(take));
        meter.call(Routine::Copyin, Work::bytes(take));
        self.taken += take;
        self.space = match stack.personality.socket.fill {
            SendFill::Whole => stack.sockets[self.socket].snd.space(),
            SendFill::Staged => self.space - take as i64,
            SendFill::Clipped if is_cluster => self.space - CLUSTER_BYTES as i64,
            SendFill::Clipped => self.space - take as i64,
        };
        let one_each =
            stack.personality.socket.sends_each_mbuf && !stack.sockets[self.socket].is_atomic();
        let is_full = self.taken == self.len || self.space <= 0;
        self.goes_on(if is_full || one_each { Next::Send } else { Next::Copy })
    }

    /// A fresh mbuf, with a cluster where the rules give one.
    fn mbuf_for(&self, stack: &mut Stack, meter: &mut Meter) -> Option<(MbufId, bool)> {
        let is_first = self.staged.is_empty();
        let id = if is_first { stack.pool.new_header(meter) } else { stack.pool.get(meter) }?;
        let wants_cluster = self.len - self.taken >= stack.personality.socket.cluster_min_bytes
            && self.space >= CLUSTER_BYTES as i64;
        Some((id, wants_cluster && stack.pool.attach_cluster(id, meter)))
    }

    /// Where the data begin in their mbuf: a short datagram leaves 4.3BSD-Reno room for headers.
    fn place(&self, stack: &Stack, id: MbufId, take: usize) -> usize {
        let at_end = stack.personality.socket.sends_each_mbuf
            && stack.sockets[self.socket].is_atomic()
            && self.staged.is_empty();
        // A cluster has no trailing room before it has data, as this counts it.
        if at_end { stack.pool.trailing_room(id).saturating_sub(take) } else { 0 }
    }

    /// `PRU_SEND` of what is staged, at `splnet`.
    fn send(&mut self, stack: &mut Stack, meter: &mut Meter) -> Step {
        let request = Request::Send(self.staged.take(), self.to);
        if let Err(error) = stack.usrreq(self.socket, request, meter) {
            return self.ends_with(Err(error));
        }
        self.after_send(stack)
    }

    fn after_send(&mut self, stack: &Stack) -> Step {
        if self.taken == self.len {
            return self.ends_with(Ok(()));
        }
        let same_pass = stack.personality.socket.sends_each_mbuf && self.space > 0;
        self.goes_on(if same_pass { Next::Copy } else { Next::CheckSpace })
    }

    fn finish(&mut self, stack: &mut Stack, meter: &mut Meter) -> Step {
        let result = self.result;
        stack.pool.free_chain(self.staged.take(), meter);
        self.release(stack, meter);
        let address = self.address.take();
        if !address.is_empty() {
            stack.pool.m_freem(address, meter);
        }
        let taken = if result.is_ok() { self.taken } else { 0 };
        stack.observe_write(self.socket, Kind::WriteReturn, taken, result.err(), meter);
        Step::Done(result.map(|()| taken as u32))
    }

    #[inline(always)]
    fn release(&mut self, stack: &mut Stack, meter: &mut Meter) {
        if self.has_lock {
            self.has_lock = false;
            let snd = &mut stack.sockets[self.socket].snd;
            unlock(snd, Channel::SendLock(self.socket), meter);
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

/// Whether a call on this socket goes whole or not at all.
fn is_atomic(stack: &Stack, socket: &Socket) -> bool {
    let rule = stack.personality.socket.nonblocking_is_atomic;
    socket.is_atomic() || rule && socket.state.is_nonblocking
}
