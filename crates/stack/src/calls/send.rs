//! `write` and `sendto`: `sosend` under each personality's rules.

#[cfg(test)]
mod tests;

use sockscope_record::Kind;

use super::{Progress, Step, count_getsock, count_sockargs, lock, unlock};
use crate::effect::Channel;
use crate::mbuf::{CLUSTER_BYTES, Chain, MbufId, Pool};
use crate::meter::Meter;
use crate::personality::{SendFill, SendWait, SocketRules};
use crate::routine::{Routine, Work};
use crate::sockbuf::SockBuf;
use crate::socket::{Endpoint, Socket, SocketError, SocketId};
use crate::stack::Stack;

/// The space that urgent data have, in bytes.
const URGENT_SPACE_BYTES: i64 = 1024;

/// One call that sends.
#[derive(Debug)]
pub struct SendCall {
    socket: SocketId,
    len: usize,
    to: Option<Endpoint>,
    /// The data are urgent (`MSG_OOB`).
    is_urgent: bool,
    /// Bytes taken from the process.
    taken: usize,
    /// The chain for the next `PRU_SEND`.
    staged: Chain,
    /// The free space according to `sosend`.
    space: i64,
    /// The destination as `sockargs` keeps it.
    address: Chain,
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
    CheckSpace,
    Copy,
    Send,
    Return,
}

impl SendCall {
    /// `write(socket, buffer, len)`
    pub fn write(socket: SocketId, len: usize) -> Self {
        Self::new(socket, len, None)
    }

    /// `sendto(socket, buffer, len, 0, to)`
    pub fn send_to(socket: SocketId, len: usize, to: Endpoint) -> Self {
        Self::new(socket, len, Some(to))
    }

    /// `send(socket, buffer, len, MSG_OOB)`: data whose last octet is urgent.
    pub fn urgent(socket: SocketId, len: usize) -> Self {
        Self { is_urgent: true, ..Self::new(socket, len, None) }
    }

    fn new(socket: SocketId, len: usize, to: Option<Endpoint>) -> Self {
        Self {
            socket,
            len,
            to,
            is_urgent: false,
            taken: 0,
            staged: Chain::new(),
            space: 0,
            address: Chain::new(),
            has_lock: false,
            has_copied: false,
            next: Next::Enter,
            result: Ok(()),
        }
    }

    /// Whether the last step only copied data from the process, which soft interrupts may interrupt:
    /// it ran at the lowest priority level.
    pub fn has_copied(&self) -> bool {
        self.has_copied
    }

    /// Goes on with the call. `user` is the process's buffer, the same at every step; a shorter one
    /// than the call names is `Invalid`.
    pub fn step(&mut self, stack: &mut Stack, user: &[u8], meter: &mut Meter) -> Step {
        let came = match self.next {
            Next::Enter => self.enter(stack, user, meter),
            Next::CheckSpace => self.check_space(stack, user, meter),
            Next::Copy => self.copy(stack, user, meter),
            Next::Send => self.send(stack, meter),
            Next::Return => self.finish(stack, meter),
        };
        self.has_copied = came == Progress::Copied;
        let result = self.result.map(|()| self.taken as u32);
        came.step(Channel::SendLock(self.socket), Channel::Writable(self.socket), result)
    }

    /// Another process has closed the socket while this one slept.
    fn is_closed(&mut self, stack: &mut Stack, meter: &mut Meter) -> Progress {
        stack.pool.free_chain(self.staged.take(), meter);
        stack.pool.free_chain(self.address.take(), meter);
        self.result = Err(SocketError::BadSocket);
        Progress::Done
    }

    fn enter(&mut self, stack: &mut Stack, user: &[u8], meter: &mut Meter) -> Progress {
        use Routine::{Rwuio, SooRw, Sosend, Syscall, Write};
        if stack.sockets.find(self.socket).is_none() {
            return self.is_closed(stack, meter);
        }
        stack.observe_write(self.socket, Kind::WriteCall, self.len, None, meter);
        let has_address = match self.to {
            None => {
                meter.call_each([Syscall, Write, Rwuio, SooRw, Sosend], Work::NONE);
                true
            }
            Some(_) => self.copy_address(stack, meter),
        };
        let socket = &stack.sockets[self.socket];
        let too_long = is_atomic(&stack.personality.socket, socket)
            && self.len as u64 > u64::from(socket.snd.hiwat());
        if user.len() < self.len {
            self.ends_with(Err(SocketError::Invalid))
        } else if !has_address {
            self.ends_with(Err(SocketError::NoBuffers))
        } else if too_long && stack.personality.socket.wait != SendWait::LowWater {
            self.ends_with(Err(SocketError::MessageSize))
        } else {
            // The next step checks the space, so that interrupts before it count.
            self.goes_on(Next::CheckSpace)
        }
    }

    /// `sendto` as far as `sosend`; `false` when there is no mbuf for the address.
    fn copy_address(&mut self, stack: &mut Stack, meter: &mut Meter) -> bool {
        meter.call(Routine::Syscall, Work::NONE);
        meter.call(Routine::Sendto, Work::NONE);
        count_getsock(meter);
        meter.call(Routine::Sendit, Work::NONE);
        meter.call(Routine::Useracc, Work::NONE);
        count_sockargs(meter);
        let id = stack.pool.m_get(meter);
        if let Some(id) = id {
            stack.pool.push_back(&mut self.address, id);
        }
        meter.call(Routine::Sosend, Work::NONE);
        id.is_some()
    }

    /// The start of each pass: may the process go on, must it wait, or has it failed?
    fn check_space(&mut self, stack: &mut Stack, user: &[u8], meter: &mut Meter) -> Progress {
        let Some(socket) = stack.sockets.find_mut(self.socket) else {
            return self.is_closed(stack, meter);
        };
        if !self.has_lock && !lock(&mut socket.snd) {
            return Progress::LockWait;
        }
        self.has_lock = true;
        if let Some(error) = self.failure(socket) {
            return self.ends_with(Err(error));
        }
        if self.len == 0 && !socket.is_atomic() {
            return self.ends_with(Ok(()));
        }
        self.space = self.space_of(socket, &stack.personality.socket);
        if self.must_wait(socket, &stack.personality.socket) {
            return self.wait(socket, meter);
        }
        self.copy(stack, user, meter)
    }

    fn failure(&self, socket: &mut Socket) -> Option<SocketError> {
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

    /// The space for the call. Urgent data have some of their own, however full the buffer is.
    fn space_of(&self, socket: &Socket, rules: &SocketRules) -> i64 {
        match rules.wait {
            _ if !self.is_urgent => socket.snd.space(),
            SendWait::NoSpace | SendWait::Aligned => URGENT_SPACE_BYTES,
            SendWait::LowWater => socket.snd.space() + URGENT_SPACE_BYTES,
        }
    }

    fn must_wait(&self, socket: &Socket, rules: &SocketRules) -> bool {
        let rest = (self.len - self.taken) as i64;
        let is_atomic = is_atomic(rules, socket);
        let space = self.space;
        let cluster = CLUSTER_BYTES as i64;
        match rules.wait {
            SendWait::NoSpace | SendWait::Aligned if self.is_urgent => false,
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

    fn wait(&mut self, socket: &mut Socket, meter: &mut Meter) -> Progress {
        if socket.is_atomic() && self.len as u64 > u64::from(socket.snd.hiwat()) {
            return self.ends_with(Err(SocketError::MessageSize));
        }
        if socket.state.is_nonblocking {
            let blocked = if self.taken > 0 { Ok(()) } else { Err(SocketError::WouldBlock) };
            return self.ends_with(blocked);
        }
        socket.snd.is_waited_for = true;
        self.release(&mut socket.snd, meter);
        Progress::Blocked
    }

    /// One mbuf is filled from the process: one `uiomove`.
    fn copy(&mut self, stack: &mut Stack, user: &[u8], meter: &mut Meter) -> Progress {
        let Stack { sockets, pool, personality, .. } = stack;
        let rules = &personality.socket;
        let Some((id, is_cluster)) = self.mbuf_for(pool, rules, meter) else {
            self.result = Err(SocketError::NoBuffers);
            return self.copied(Next::Return);
        };
        let clips = rules.fill == SendFill::Clipped;
        let room = if is_cluster { CLUSTER_BYTES } else { pool.trailing_room(id) };
        let room = if clips && !is_cluster { room.min(self.space.max(0) as usize) } else { room };
        let rest = &user[self.taken..self.len];
        let bytes = &rest[..room.min(rest.len())];
        let take = bytes.len();
        // A short datagram leaves 4.3BSD-Reno room for headers before it. A cluster has no trailing
        // room before it has data, as this counts it.
        let is_atomic = rules.sends_each_mbuf && sockets[self.socket].is_atomic();
        let is_at_end = is_atomic && self.staged.is_empty();
        let offset = if is_at_end { pool.trailing_room(id).saturating_sub(take) } else { 0 };
        pool.fill(id, offset, bytes);
        pool.push_back(&mut self.staged, id);
        meter.charge(Routine::Sosend, Work::mbufs(1));
        meter.call_each([Routine::Uiomove, Routine::Copyin], Work::bytes(take));
        self.taken += take;
        self.space = match rules.fill {
            SendFill::Whole if !self.is_urgent => sockets[self.socket].snd.space(),
            SendFill::Clipped if is_cluster => self.space - CLUSTER_BYTES as i64,
            SendFill::Whole | SendFill::Staged | SendFill::Clipped => self.space - take as i64,
        };
        let is_full = self.taken == self.len || self.space <= 0;
        let goes = is_full || rules.sends_each_mbuf && !is_atomic;
        self.copied(if goes { Next::Send } else { Next::Copy })
    }

    /// A fresh mbuf, with a cluster where the rules give one.
    fn mbuf_for(
        &self,
        pool: &mut Pool,
        rules: &SocketRules,
        meter: &mut Meter,
    ) -> Option<(MbufId, bool)> {
        let is_first = self.staged.is_empty();
        let id = if is_first { pool.new_header(meter) } else { pool.get(meter) }?;
        let wants_cluster =
            self.len - self.taken >= rules.cluster_min_bytes && self.space >= CLUSTER_BYTES as i64;
        Some((id, wants_cluster && pool.attach_cluster(id, meter)))
    }

    /// `PRU_SEND` of the staged chain, at `splnet`.
    fn send(&mut self, stack: &mut Stack, meter: &mut Meter) -> Progress {
        if stack.sockets.find(self.socket).is_none() {
            return self.is_closed(stack, meter);
        }
        if let Err(error) =
            stack.pru_send(self.socket, self.staged.take(), self.to, self.is_urgent, meter)
        {
            return self.ends_with(Err(error));
        }
        self.after_send(stack)
    }

    fn after_send(&mut self, stack: &Stack) -> Progress {
        if self.taken == self.len {
            return self.ends_with(Ok(()));
        }
        let same_pass = stack.personality.socket.sends_each_mbuf && self.space > 0;
        self.goes_on(if same_pass { Next::Copy } else { Next::CheckSpace })
    }

    fn finish(&mut self, stack: &mut Stack, meter: &mut Meter) -> Progress {
        let result = self.result;
        stack.pool.free_chain(self.staged.take(), meter);
        let Some(socket) = stack.sockets.find_mut(self.socket) else {
            return self.is_closed(stack, meter);
        };
        self.release(&mut socket.snd, meter);
        let address = self.address.take();
        if !address.is_empty() {
            stack.pool.m_freem(address, meter);
        }
        let taken = if result.is_ok() { self.taken } else { 0 };
        stack.observe_write(self.socket, Kind::WriteReturn, taken, result.err(), meter);
        Progress::Done
    }

    fn release(&mut self, snd: &mut SockBuf, meter: &mut Meter) {
        if self.has_lock {
            self.has_lock = false;
            unlock(snd, Channel::SendLock(self.socket), meter);
        }
    }

    fn goes_on(&mut self, next: Next) -> Progress {
        self.next = next;
        Progress::Continue
    }

    fn copied(&mut self, next: Next) -> Progress {
        self.next = next;
        Progress::Copied
    }

    fn ends_with(&mut self, result: Result<(), SocketError>) -> Progress {
        self.result = result;
        self.goes_on(Next::Return)
    }
}

/// Whether a call on this socket sends all or nothing.
fn is_atomic(rules: &SocketRules, socket: &Socket) -> bool {
    let rule = rules.nonblocking_is_atomic;
    socket.is_atomic() || rule && socket.state.is_nonblocking
}
