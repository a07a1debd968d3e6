//! Names of a socket and its ends, its options, and the errors of its calls.

use std::net::Ipv4Addr;

use sockscope_record::FlowId;

/// One socket of one host. The number of a socket that is gone may be given to a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId(pub u32);

/// An address and a port.
pub type Endpoint = (Ipv4Addr, u16);

/// No address and no port.
pub const ANY: Endpoint = (Ipv4Addr::UNSPECIFIED, 0);

/// Why a call on a socket failed; the names are those of `errno`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SocketError {
    /// `EBADF`
    #[error("no such socket")]
    BadSocket,
    /// `EWOULDBLOCK`
    #[error("the call would have to wait, and the socket does not block")]
    WouldBlock,
    /// `EPIPE`
    #[error("the sending direction is closed")]
    Pipe,
    /// `EINVAL`
    #[error("not possible in this state, or a value out of range")]
    Invalid,
    /// `EDESTADDRREQ`
    #[error("no destination address")]
    DestinationRequired,
    /// `EMSGSIZE`
    #[error("the message is longer than the socket may send at once")]
    MessageSize,
    /// `EOPNOTSUPP`
    #[error("the protocol does not offer this")]
    NotSupported,
    /// `EADDRINUSE`
    #[error("the address is in use")]
    AddressInUse,
    /// `EADDRNOTAVAIL`
    #[error("no interface has this address")]
    AddressNotAvailable,
    /// `ENETUNREACH`
    #[error("no route to the network")]
    NetworkUnreachable,
    /// `ECONNABORTED`
    #[error("the connection was given up here")]
    ConnectionAborted,
    /// `ECONNRESET`
    #[error("the peer reset the connection")]
    ConnectionReset,
    /// `ENOBUFS`
    #[error("no mbufs left, or the interface queue is full")]
    NoBuffers,
    /// `EISCONN`
    #[error("already connected")]
    IsConnected,
    /// `ENOTCONN`
    #[error("not connected")]
    NotConnected,
    /// `ETIMEDOUT`
    #[error("the peer did not answer in time")]
    TimedOut,
    /// `ECONNREFUSED`
    #[error("the peer refused the connection, or nobody listens at the port")]
    ConnectionRefused,
    /// `EHOSTUNREACH`
    #[error("no route to the host")]
    HostUnreachable,
    /// `EALREADY`
    #[error("a connection is being made already")]
    Already,
    /// `EINPROGRESS`
    #[error("the connection is being made")]
    InProgress,
}

impl SocketError {
    /// The number in records and traces: Linux's, in all personalities.
    pub fn errno(self) -> u8 {
        match self {
            Self::BadSocket => 9,
            Self::WouldBlock => 11,
            Self::Invalid => 22,
            Self::Pipe => 32,
            Self::DestinationRequired => 89,
            Self::MessageSize => 90,
            Self::NotSupported => 95,
            Self::AddressInUse => 98,
            Self::AddressNotAvailable => 99,
            Self::NetworkUnreachable => 101,
            Self::ConnectionAborted => 103,
            Self::ConnectionReset => 104,
            Self::NoBuffers => 105,
            Self::IsConnected => 106,
            Self::NotConnected => 107,
            Self::TimedOut => 110,
            Self::ConnectionRefused => 111,
            Self::HostUnreachable => 113,
            Self::Already => 114,
            Self::InProgress => 115,
        }
    }
}

/// The options of a socket that a program may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// `TCP_NODELAY`: short segments do not wait for acknowledgments.
    pub no_delay: bool,
    /// `SO_KEEPALIVE`
    pub keep_alive: bool,
    /// `SO_REUSEADDR`
    pub reuse_address: bool,
    /// `SO_BROADCAST`
    pub broadcast: bool,
    /// `SO_OOBINLINE`: the urgent octet stays in the stream.
    pub out_of_band_inline: bool,
}

/// One change that a program asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetOption {
    /// `TCP_NODELAY`
    NoDelay(bool),
    /// `SO_KEEPALIVE`
    KeepAlive(bool),
    /// `SO_REUSEADDR`
    ReuseAddress(bool),
    /// `SO_BROADCAST`
    Broadcast(bool),
    /// `SO_OOBINLINE`, since 4.3BSD.
    OutOfBandInline(bool),
    /// `FIONBIO`
    NonBlocking(bool),
    /// `SO_SNDBUF`, in bytes.
    SendBuffer(u32),
    /// `SO_RCVBUF`, in bytes.
    ReceiveBuffer(u32),
    /// `SO_SNDLOWAT`, in bytes.
    SendLowat(u32),
    /// `SO_LOG`: data sent by this socket are logged as this flow, received data as the reverse.
    Log(FlowId),
}
