//! `connect` and `accept`.

use super::{Step, count_getsock, count_sockargs};
use crate::effect::Channel;
use crate::meter::Meter;
use crate::request::Request;
use crate::routine::{Routine, Work};
use crate::socket::{Endpoint, SocketError, SocketId};
use crate::stack::Stack;

/// One `connect`.
#[derive(Debug)]
pub struct ConnectCall {
    socket: SocketId,
    to: Endpoint,
    has_begun: bool,
}

impl ConnectCall {
    /// `connect(socket, to)`; for a datagram socket it only sets the peer.
    pub fn new(socket: SocketId, to: Endpoint) -> Self {
        Self { socket, to, has_begun: false }
    }

    /// Goes on with the call; it is done with 0, or with the error that ended the connection.
    pub fn step(&mut self, stack: &mut Stack, meter: &mut Meter) -> Step {
        if !self.has_begun {
            self.has_begun = true;
            if let Err(error) = self.begin(stack, meter) {
                return Step::Done(Err(error));
            }
        }
        let Some(socket) = stack.sockets.find_mut(self.socket) else {
            return Step::Done(Err(SocketError::BadSocket));
        };
        if !socket.state.is_connecting {
            return Step::Done(socket.error.take().map_or(Ok(0), Err));
        }
        // An ICMP message ends the call, and the handshake goes on.
        if let Some(error) = socket.error.take() {
            socket.state.is_connecting = false;
            return Step::Done(Err(error));
        }
        if socket.state.is_nonblocking {
            return Step::Done(Err(SocketError::InProgress));
        }
        Step::Sleep(Channel::Connection(self.socket))
    }

    fn begin(&self, stack: &mut Stack, meter: &mut Meter) -> Result<(), SocketError> {
        meter.call(Routine::Syscall, Work::NONE);
        count_getsock(meter);
        count_sockargs(meter);
        let address = stack.pool.m_get(meter).ok_or(SocketError::NoBuffers)?;
        meter.call(Routine::Soconnect, Work::NONE);
        let result = self.request(stack, meter);
        // The address as `sockargs` kept it is freed as soon as the protocol has it.
        stack.pool.m_free(address, meter);
        result
    }

    fn request(&self, stack: &mut Stack, meter: &mut Meter) -> Result<(), SocketError> {
        let socket = stack.attached(self.socket)?;
        if socket.state.is_connecting {
            return Err(SocketError::Already);
        }
        if socket.state.is_connected && !socket.is_atomic() {
            return Err(SocketError::IsConnected);
        }
        if socket.state.is_connected {
            stack.usrreq(self.socket, Request::Disconnect, meter)?;
        }
        stack.usrreq(self.socket, Request::Connect(self.to), meter)
    }
}

/// One `accept`.
#[derive(Debug)]
pub struct AcceptCall {
    listener: SocketId,
    has_begun: bool,
}

impl AcceptCall {
    /// `accept(listener)`
    pub fn new(listener: SocketId) -> Self {
        Self { listener, has_begun: false }
    }

    /// Goes on with the call; it is done with the number of the new socket.
    pub fn step(&mut self, stack: &mut Stack, meter: &mut Meter) -> Step {
        if !self.has_begun {
            self.has_begun = true;
            meter.call(Routine::Syscall, Work::NONE);
            count_getsock(meter);
        }
        let Some(socket) = stack.sockets.find_mut(self.listener) else {
            return Step::Done(Err(SocketError::BadSocket));
        };
        let Some(queue) = socket.listen.as_mut() else {
            return Step::Done(Err(SocketError::Invalid));
        };
        if let Some(accepted) = queue.accept() {
            return Step::Done(accept(stack, accepted, meter));
        }
        if socket.state.cannot_receive_more {
            return Step::Done(Err(SocketError::ConnectionAborted));
        }
        if let Some(error) = socket.error.take() {
            return Step::Done(Err(error));
        }
        if socket.state.is_nonblocking {
            return Step::Done(Err(SocketError::WouldBlock));
        }
        socket.rcv.is_waited_for = true;
        Step::Sleep(Channel::Readable(self.listener))
    }
}

/// `soaccept`: the connection now belongs to the process.
fn accept(stack: &mut Stack, accepted: SocketId, meter: &mut Meter) -> Result<u32, SocketError> {
    meter.call(Routine::Soaccept, Work::NONE);
    let socket = &mut stack.sockets[accepted];
    socket.head = None;
    socket.state.is_unreferenced = false;
    stack.usrreq(accepted, Request::Accept, meter)?;
    Ok(accepted.0)
}
