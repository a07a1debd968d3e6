//! Notices of protocols to the socket layer: a connection begins, is made, ends; data or space.

use super::{ListenQueue, Socket, SocketId};
use crate::effect::{Channel, Effect};
use crate::meter::Meter;
use crate::routine::{Routine, Work};
use crate::stack::Stack;

impl Stack {
    /// `sonewconn`: a connection begins at a listening socket; `None` when its queue is full.
    ///
    /// The new socket has options and buffers of the listening one and is not attached yet.
    pub(crate) fn sonewconn(&mut self, head: SocketId, meter: &mut Meter) -> Option<SocketId> {
        meter.call(Routine::Sonewconn, Work::NONE);
        let rules = self.personality.socket;
        let listener = &self.sockets[head];
        if !listener.listen.as_ref().is_some_and(ListenQueue::has_room) {
            return None;
        }
        let mut socket = Socket::new(listener.protocol);
        socket.options = listener.options;
        socket.state.is_unreferenced = true;
        socket.state.is_nonblocking = listener.state.is_nonblocking;
        socket.head = Some(head);
        let (send, receive) = (listener.snd.hiwat(), listener.rcv.hiwat());
        let receive = if rules.accepted_takes_send_limit { send } else { receive };
        socket.snd.reserve(send, &rules.buffers);
        socket.rcv.reserve(receive, &rules.buffers);
        socket.snd.set_lowat(listener.snd.lowat());
        let id = self.sockets.insert(socket);
        if let Some(queue) = self.sockets[head].listen.as_mut() {
            queue.begin(id);
        }
        Some(id)
    }

    /// `soisconnecting`
    pub(crate) fn soisconnecting(&mut self, id: SocketId) {
        let state = &mut self.sockets[id].state;
        state.is_connected = false;
        state.is_disconnecting = false;
        state.is_connecting = true;
    }

    /// `soisconnected`: wakes the processes that wait for the connection, or to accept it.
    pub(crate) fn soisconnected(&mut self, id: SocketId, meter: &mut Meter) {
        let socket = &mut self.sockets[id];
        socket.state.is_connecting = false;
        socket.state.is_disconnecting = false;
        socket.state.is_connected = true;
        let head = socket.head;
        let queue = head.and_then(|head| self.sockets.find_mut(head)?.listen.as_mut());
        match (head, queue.map(|queue| queue.complete(id))) {
            (Some(head), Some(true)) => self.sorwakeup(head, meter),
            _ => {
                meter.effect(Effect::Wakeup(Channel::Connection(id)));
                self.sorwakeup(id, meter);
                self.sowwakeup(id, meter);
            }
        }
    }

    /// `soisdisconnecting`: the connection is being closed from here.
    pub(crate) fn soisdisconnecting(&mut self, id: SocketId, meter: &mut Meter) {
        let state = &mut self.sockets[id].state;
        state.is_connecting = false;
        state.is_disconnecting = true;
        self.nothing_more(id, meter);
    }

    /// `soisdisconnected`: the connection is gone.
    pub(crate) fn soisdisconnected(&mut self, id: SocketId, meter: &mut Meter) {
        let state = &mut self.sockets[id].state;
        state.is_connecting = false;
        state.is_connected = false;
        state.is_disconnecting = false;
        self.nothing_more(id, meter);
    }

    fn nothing_more(&mut self, id: SocketId, meter: &mut Meter) {
        let state = &mut self.sockets[id].state;
        state.cannot_receive_more = true;
        state.cannot_send_more = true;
        meter.effect(Effect::Wakeup(Channel::Connection(id)));
        self.sowwakeup(id, meter);
        self.sorwakeup(id, meter);
    }

    /// Reports an error while the connection goes on: processes that wait for it, for data or for space are woken.
    pub(crate) fn socket_told(&mut self, id: SocketId, meter: &mut Meter) {
        meter.effect(Effect::Wakeup(Channel::Connection(id)));
        self.sorwakeup(id, meter);
        self.sowwakeup(id, meter);
    }

    /// `socantsendmore`
    pub(crate) fn socantsendmore(&mut self, id: SocketId, meter: &mut Meter) {
        self.sockets[id].state.cannot_send_more = true;
        self.sowwakeup(id, meter);
    }

    /// `socantrcvmore`
    pub(crate) fn socantrcvmore(&mut self, id: SocketId, meter: &mut Meter) {
        self.sockets[id].state.cannot_receive_more = true;
        self.sorwakeup(id, meter);
    }

    /// `sorwakeup`: wakes processes that wait to read, or to accept.
    pub(crate) fn sorwakeup(&mut self, id: SocketId, meter: &mut Meter) {
        self.sockets[id].sorwakeup(id, meter);
    }

    /// `sowwakeup`: wakes processes that wait for space to write.
    pub(crate) fn sowwakeup(&mut self, id: SocketId, meter: &mut Meter) {
        meter.call(Routine::Sowwakeup, Work::NONE);
        let snd = &mut self.sockets[id].snd;
        if snd.is_waited_for {
            snd.is_waited_for = false;
            meter.effect(Effect::Wakeup(Channel::Writable(id)));
        }
    }
}

impl Socket {
    /// As [`Stack::sorwakeup`], of the socket itself, whose number is `id`.
    pub(crate) fn sorwakeup(&mut self, id: SocketId, meter: &mut Meter) {
        meter.call(Routine::Sorwakeup, Work::NONE);
        if self.rcv.is_waited_for {
            self.rcv.is_waited_for = false;
            meter.effect(Effect::Wakeup(Channel::Readable(id)));
        }
    }
}
