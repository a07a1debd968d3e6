//! Sockets: the state of the process's side, and the block of its protocol.

mod id;
mod layer;
mod notify;
mod queue;
#[cfg(test)]
mod tests;
mod urgent;

use std::ops::{Index, IndexMut};

use sockscope_record::{FlowId, Protocol};

use crate::route::RouteCache;
use crate::sockbuf::SockBuf;
use crate::tcp::Tcb;

pub use id::{ANY, Endpoint, Options, SetOption, SocketError, SocketId};
pub use layer::Shutdown;
pub use queue::ListenQueue;
pub use urgent::Urgent;

/// The state of a socket (`so_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketState {
    /// `SS_ISCONNECTED`
    pub is_connected: bool,
    /// `SS_ISCONNECTING`
    pub is_connecting: bool,
    /// `SS_ISDISCONNECTING`
    pub is_disconnecting: bool,
    /// `SS_CANTSENDMORE`
    pub cannot_send_more: bool,
    /// `SS_CANTRCVMORE`
    pub cannot_receive_more: bool,
    /// `SS_NOFDREF`: the process has closed it, or has not accepted it yet.
    pub is_unreferenced: bool,
    /// `SS_NBIO`: calls fail rather than wait.
    pub is_nonblocking: bool,
}

/// One socket with its protocol control block (`struct socket` and `struct inpcb`).
#[derive(Debug)]
pub struct Socket {
    /// Transport protocol.
    pub protocol: Protocol,
    /// Own address and port; [`ANY`] until bound.
    pub local: Endpoint,
    /// The peer's; [`ANY`] while not connected.
    pub foreign: Endpoint,
    /// The send buffer.
    pub snd: SockBuf,
    /// The receive buffer.
    pub rcv: SockBuf,
    /// Its state.
    pub state: SocketState,
    /// The next call fails with this (`so_error`).
    pub error: Option<SocketError>,
    /// The options set by the program.
    pub options: Options,
    /// Urgent data received.
    pub urgent: Urgent,
    /// The flow that this socket sends, if it is logged.
    pub log: Option<FlowId>,
    /// TCP's half of the protocol control block.
    pub tcb: Option<Tcb>,
    /// The route last used (`inp_route`).
    pub route: RouteCache,
    /// Connections that wait to be accepted, if it listens.
    pub listen: Option<ListenQueue>,
    /// The listening socket in whose queue it waits (`so_head`).
    pub head: Option<SocketId>,
    /// It has a protocol control block (`so_pcb`).
    pub is_attached: bool,
    /// Datagrams sent and received so far, which number the records.
    pub datagrams: (u64, u64),
}

impl Socket {
    pub(crate) fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            local: ANY,
            foreign: ANY,
            snd: SockBuf::default(),
            rcv: SockBuf::default(),
            state: SocketState::default(),
            error: None,
            options: Options::default(),
            urgent: Urgent::default(),
            log: None,
            tcb: None,
            route: RouteCache::default(),
            listen: None,
            head: None,
            is_attached: false,
            datagrams: (0, 0),
        }
    }

    /// `PR_ATOMIC`: one call is one message.
    pub fn is_atomic(&self) -> bool {
        self.protocol == Protocol::Udp
    }

    /// The flow that this socket receives, if it is logged.
    pub fn received_flow(&self) -> Option<FlowId> {
        self.log.map(FlowId::reverse)
    }
}

/// All sockets of a host by number.
#[derive(Debug, Default)]
pub struct Sockets {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    /// While the slot is free, one that no program has used.
    socket: Socket,
    is_used: bool,
}

impl Sockets {
    /// The socket of this number, if there is one.
    pub fn find(&self, id: SocketId) -> Option<&Socket> {
        let slot = self.slots.get(id.0 as usize)?;
        slot.is_used.then_some(&slot.socket)
    }

    /// As [`Sockets::find`], to change it.
    pub fn find_mut(&mut self, id: SocketId) -> Option<&mut Socket> {
        let slot = self.slots.get_mut(id.0 as usize)?;
        slot.is_used.then_some(&mut slot.socket)
    }

    /// All sockets in order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (SocketId, &Socket)> {
        let numbered = self.slots.iter().zip(0..).filter(|(slot, _)| slot.is_used);
        numbered.map(|(slot, number)| (SocketId(number), &slot.socket))
    }

    /// One more than the largest number in use, for walks that change the sockets meanwhile.
    pub fn end(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(crate) fn insert(&mut self, socket: Socket) -> SocketId {
        let slot = Slot { socket, is_used: true };
        if let Some(number) = self.free.pop() {
            self.slots[number as usize] = slot;
            return SocketId(number);
        }
        self.slots.push(slot);
        SocketId(self.slots.len() as u32 - 1)
    }

    pub(crate) fn remove(&mut self, id: SocketId) -> Option<Socket> {
        let slot = self.slots.get_mut(id.0 as usize).filter(|slot| slot.is_used)?;
        slot.is_used = false;
        self.free.push(id.0);
        Some(std::mem::replace(&mut slot.socket, Socket::new(Protocol::Udp)))
    }
}

/// Panics unless the number is that of a socket that exists: inside the stack it always is.
impl Index<SocketId> for Sockets {
    type Output = Socket;

    fn index(&self, id: SocketId) -> &Socket {
        match self.find(id) {
            Some(socket) => socket,
            None => no_socket(id),
        }
    }
}

impl IndexMut<SocketId> for Sockets {
    fn index_mut(&mut self, id: SocketId) -> &mut Socket {
        match self.find_mut(id) {
            Some(socket) => socket,
            None => no_socket(id),
        }
    }
}

fn no_socket(id: SocketId) -> ! {
    panic!("no socket {}", id.0)
}
