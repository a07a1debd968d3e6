//! The calls that need no data: `socket`, `bind`, `listen`, `setsockopt`, `shutdown`, `close`.

use sockscope_record::{BufferSize, Protocol, Record, SocketBuffers};

use super::{Endpoint, ListenQueue, SetOption, Socket, SocketError, SocketId};
use crate::effect::Effect;
use crate::meter::Meter;
use crate::request::Request;
use crate::routine::{Routine, Work};
use crate::stack::Stack;

/// Which directions `shutdown` closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Nothing more will be received.
    Receive,
    /// Nothing more will be sent.
    Send,
    /// Both.
    Both,
}

impl Stack {
    /// `socket`: a new one with the buffers of the personality.
    pub fn socket(
        &mut self,
        protocol: Protocol,
        meter: &mut Meter,
    ) -> Result<SocketId, SocketError> {
        meter.call(Routine::Syscall, Work::NONE);
        meter.call(Routine::Socreate, Work::NONE);
        // The model has the Internet's protocols alone.
        if protocol.is_unix() {
            return Err(SocketError::NotSupported);
        }
        let id = self.sockets.insert(Socket::new(protocol));
        match self.usrreq(id, Request::Attach, meter) {
            Ok(()) => Ok(id),
            Err(error) => {
                self.sockets[id].state.is_unreferenced = true;
                self.sofree(id, meter);
                Err(error)
            }
        }
    }

    /// `soreserve` with the sizes of the personality, unless the socket has its sizes already.
    pub(crate) fn soreserve(&mut self, id: SocketId) {
        let rules = self.personality.socket;
        let socket = &mut self.sockets[id];
        if socket.snd.hiwat() > 0 {
            return;
        }
        let (send, receive) = match socket.protocol {
            Protocol::Udp => rules.udp_bytes,
            _ => rules.tcp_bytes,
        };
        socket.snd.reserve(send, &rules.buffers);
        socket.rcv.reserve(receive, &rules.buffers);
        socket.snd.set_lowat(rules.buffers.send_lowat);
    }

    /// `bind`: takes a local address; port 0 asks for any free one.
    pub fn bind(
        &mut self,
        id: SocketId,
        local: Endpoint,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        meter.call(Routine::Syscall, Work::NONE);
        meter.call(Routine::Sobind, Work::NONE);
        self.attached(id)?;
        self.in_pcbbind(id, local, meter)
    }

    /// `listen`: from now on connections may arrive, `backlog` of them before they are accepted.
    pub fn listen(
        &mut self,
        id: SocketId,
        backlog: u32,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        meter.call(Routine::Syscall, Work::NONE);
        meter.call(Routine::Solisten, Work::NONE);
        self.attached(id)?;
        if self.sockets[id].protocol != Protocol::Tcp {
            return Err(SocketError::NotSupported);
        }
        self.usrreq(id, Request::Listen, meter)?;
        self.sockets[id].listen.get_or_insert_with(|| ListenQueue::new(backlog));
        Ok(())
    }

    /// `setsockopt` and `FIONBIO`. Buffer sizes fail with `NotSupported` where there is no such
    /// option, with `NoBuffers` beyond the largest.
    pub fn set_option(
        &mut self,
        id: SocketId,
        option: SetOption,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        meter.call(Routine::Syscall, Work::NONE);
        let rules = self.personality.socket.buffers;
        let urgent = self.personality.tcp.urgent;
        let socket = self.sockets.find_mut(id).ok_or(SocketError::BadSocket)?;
        match option {
            SetOption::NoDelay(on) => socket.options.no_delay = on,
            SetOption::KeepAlive(on) => socket.options.keep_alive = on,
            SetOption::ReuseAddress(on) => socket.options.reuse_address = on,
            SetOption::Broadcast(on) => socket.options.broadcast = on,
            SetOption::OutOfBandInline(_) if !urgent.can_stay_inline => {
                return Err(SocketError::NotSupported);
            }
            SetOption::OutOfBandInline(on) => socket.options.out_of_band_inline = on,
            SetOption::NonBlocking(on) => socket.state.is_nonblocking = on,
            SetOption::SendLowat(bytes) => socket.snd.set_lowat(bytes),
            SetOption::Log(flow) => socket.log = Some(flow),
            SetOption::SendBuffer(bytes) | SetOption::ReceiveBuffer(bytes) => {
                let limit = rules.hiwat_max.ok_or(SocketError::NotSupported)?;
                if bytes == 0 || bytes > limit {
                    return Err(SocketError::NoBuffers);
                }
                let is_send = matches!(option, SetOption::SendBuffer(_));
                let buffer = if is_send { &mut socket.snd } else { &mut socket.rcv };
                buffer.reserve(bytes, &rules);
                self.observe_buffers(id, [is_send, !is_send], meter);
            }
        }
        Ok(())
    }

    /// Sets both buffer limits for any personality: a kernel built with other defaults.
    pub fn reserve(&mut self, id: SocketId, send: u32, receive: u32) -> Result<(), SocketError> {
        let rules = self.personality.socket.buffers;
        let socket = self.sockets.find_mut(id).ok_or(SocketError::BadSocket)?;
        socket.snd.reserve(send, &rules);
        socket.rcv.reserve(receive, &rules);
        socket.snd.set_lowat(rules.send_lowat);
        Ok(())
    }

    /// The socket's buffers as a record; `set_by_program` shows for the send and the receive buffer whether the
    /// program sets it now.
    pub(crate) fn observe_buffers(
        &self,
        id: SocketId,
        set_by_program: [bool; 2],
        meter: &mut Meter,
    ) {
        let socket = &self.sockets[id];
        let Some(flow) = socket.log else { return };
        let [send, receive] = set_by_program;
        let buffers = SocketBuffers {
            send: BufferSize { bytes: socket.snd.hiwat(), is_set_by_program: send },
            receive: BufferSize { bytes: socket.rcv.hiwat(), is_set_by_program: receive },
        };
        let sized = Record { flow, ..Record::default() };
        meter.effect(Effect::Observed(sized.with_socket_buffers(buffers)));
    }

    /// `shutdown`
    pub fn shutdown(
        &mut self,
        id: SocketId,
        how: Shutdown,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        meter.call(Routine::Syscall, Work::NONE);
        meter.call(Routine::Soshutdown, Work::NONE);
        self.attached(id)?;
        if how != Shutdown::Send {
            self.socantrcvmore(id, meter);
            let socket = &mut self.sockets[id];
            socket.rcv.flush(&mut self.pool, meter);
        }
        if how != Shutdown::Receive {
            self.usrreq(id, Request::Shutdown, meter)?;
        }
        Ok(())
    }

    /// `close`, which does not linger: the rest of the data is sent behind the process's back.
    pub fn close(&mut self, id: SocketId, meter: &mut Meter) -> Result<(), SocketError> {
        meter.call(Routine::Syscall, Work::NONE);
        meter.call(Routine::Soclose, Work::NONE);
        let socket = self.sockets.find_mut(id).ok_or(SocketError::BadSocket)?;
        if socket.state.is_unreferenced {
            return Err(SocketError::BadSocket);
        }
        for waiting in socket.listen.take().iter().flat_map(ListenQueue::all) {
            self.sockets[waiting].head = None;
            self.usrreq(waiting, Request::Abort, meter)?;
        }
        let mut result = Ok(());
        let socket = &self.sockets[id];
        if socket.is_attached && socket.state.is_connected && !socket.state.is_disconnecting {
            result = self.usrreq(id, Request::Disconnect, meter);
        }
        // The process holds the socket until here, so that it cannot have gone meanwhile.
        if self.sockets[id].is_attached {
            result = result.and(self.usrreq(id, Request::Detach, meter));
        }
        self.sockets[id].state.is_unreferenced = true;
        self.sofree(id, meter);
        result
    }

    /// `sofree`: frees the socket once neither protocol nor process hold it.
    pub(crate) fn sofree(&mut self, id: SocketId, meter: &mut Meter) {
        let Some(socket) = self.sockets.find(id) else { return };
        if socket.is_attached || !socket.state.is_unreferenced {
            return;
        }
        if let Some(head) = socket.head
            && let Some(queue) = self.sockets.find_mut(head).and_then(|head| head.listen.as_mut())
        {
            queue.remove(id);
        }
        if let Some(mut socket) = self.sockets.remove(id) {
            socket.snd.flush(&mut self.pool, meter);
            socket.rcv.flush(&mut self.pool, meter);
        }
    }

    /// The socket, if it exists and has a control block.
    pub(crate) fn attached(&self, id: SocketId) -> Result<&Socket, SocketError> {
        let socket = self.sockets.find(id).ok_or(SocketError::BadSocket)?;
        if socket.is_attached { Ok(socket) } else { Err(SocketError::Invalid) }
    }
}
