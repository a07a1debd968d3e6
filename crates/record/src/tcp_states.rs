//! States of a TCP socket in [`StateChange`](crate::StateChange), by Linux's numbers (include/net/tcp_states.h).

/// The connection is open.
pub const ESTABLISHED: u8 = 1;
/// The program closed it, and the FIN is not acknowledged.
pub const FIN_WAIT1: u8 = 4;
/// The socket is closed.
pub const CLOSE: u8 = 7;
/// The peer closed it, and the program has not.
pub const CLOSE_WAIT: u8 = 8;
/// The program closed it after the peer, and the FIN is not acknowledged.
pub const LAST_ACK: u8 = 9;
/// Both ends closed it at once, and the FIN is not acknowledged.
pub const CLOSING: u8 = 11;
