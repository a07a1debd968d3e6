//! The link of a proxy to its counterpart on another machine.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// A transport of packets to one counterpart. It may lose, repeat and mix them: for stronger
/// guarantees an application picks [parts](super) of its own, end to end.
pub trait RemoteLink {
    /// Longest packet that can be sent.
    fn packet_bytes_max(&self) -> usize;

    /// Sends a packet without waiting. False when the transport has no room now.
    ///
    /// # Errors
    /// When the counterpart cannot be reached any more; the proxy ends then, and the application sees
    /// that its peer is gone.
    fn send(&mut self, packet: &[u8]) -> io::Result<bool>;

    /// The next packet that arrived, copied to `packet`, without waiting; its length.
    ///
    /// # Errors
    /// As [`RemoteLink::send`].
    fn receive(&mut self, packet: &mut [u8]) -> io::Result<Option<usize>>;

    /// A descriptor that becomes readable when a packet arrives.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Carries out due work, and returns the time until the next call, for a transport that repeats
    /// packets by timers. The proxy calls this before any other method. A link that returns a time takes
    /// all arrivals off its descriptor, also while the application takes nothing.
    ///
    /// # Errors
    /// As [`RemoteLink::send`].
    fn attend(&mut self) -> io::Result<Option<Duration>> {
        Ok(None)
    }
}

/// Packets as UDP datagrams (RFC 768).
#[derive(Debug)]
pub struct DatagramLink {
    socket: UdpSocket,
}

/// Largest payload of UDP over IPv4: 65,535 less the headers of both (RFC 768, RFC 791 §3.1).
const DATAGRAM_BYTES_MAX: usize = 65_507;

impl DatagramLink {
    /// A link over `socket`, which is connected to the counterpart's.
    ///
    /// # Errors
    /// When the socket is not connected, or cannot be set not to wait.
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        socket.peer_addr()?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket })
    }
}

impl RemoteLink for DatagramLink {
    fn packet_bytes_max(&self) -> usize {
        DATAGRAM_BYTES_MAX
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<bool> {
        passing(self.socket.send(packet)).map(|sent| sent.is_some())
    }

    fn receive(&mut self, packet: &mut [u8]) -> io::Result<Option<usize>> {
        passing(self.socket.recv(packet))
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The result of a call on a link's socket; `None` for a temporary state: nothing to do now, or a
/// counterpart that does not listen at the moment (a refused datagram is reported with a later call).
///
/// # Errors
/// All other errors.
pub fn passing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionRefused => {
                Ok(None)
            }
            _ => Err(error),
        },
    }
}
