//! Effects outside the step that caused them: packets, wake-ups, observations.

use sockscope_record::Record;

use crate::packet::Packet;
use crate::socket::SocketId;

/// A channel to sleep on and to wake up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Channel {
    /// Data, the end of the stream or an error in the receive buffer; also a connection to accept.
    Readable(SocketId),
    /// Space in the send buffer, or an error.
    Writable(SocketId),
    /// The connection was made or failed.
    Connection(SocketId),
    /// The send buffer is no longer locked by another writer.
    SendLock(SocketId),
    /// The receive buffer is no longer locked by another reader.
    ReceiveLock(SocketId),
    /// Urgent data are announced (`sohasoutofband`).
    Urgent(SocketId),
}

/// Something that happens outside the step that caused it.
#[derive(Debug)]
pub enum Effect {
    /// One observation; its time, CPU and thread are left for the caller to fill in.
    Observed(Record),
    /// A packet for `Stack::interface_enqueue` of this interface.
    Output {
        /// Index of the interface.
        interface: u8,
        /// Link header included.
        packet: Packet,
    },
    /// A packet for `Stack::loopback_input`.
    LoopbackInput {
        /// Index of the loopback interface.
        interface: u8,
        /// The packet, from its IP header on.
        packet: Packet,
    },
    /// The processes that sleep on this run again.
    Wakeup(Channel),
    /// `Stack::ip_input_step` has work.
    SoftInterrupt,
}
