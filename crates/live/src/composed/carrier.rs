//! The ways of a packet from a path's one end to its other.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::str::FromStr;
use std::time::Duration;

/// The largest datagram (RFC 768, RFC 791 §3.1).
const DATAGRAM_BYTES_MAX: usize = 65_507;
/// Longest packet in memory and over TCP, for which this program sets the limit.
const PACKET_BYTES_MAX: usize = (4 << 20) + 64;
/// UDP has no flow control: the sender waits for the receiver after so many octets.
const CREDIT_BYTES: usize = 64 << 10;
/// A short datagram takes more of the receive buffer than its octets.
const CREDIT_BYTES_LEAST: usize = 1_024;
/// An error at one end must not leave the other one waiting.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Before each packet of a byte stream.
const LENGTH_BYTES: usize = 4;

/// Between the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// The packet stays where it is.
    Memory,
    /// A connection over loopback.
    Tcp,
    /// Datagrams over loopback.
    Udp,
}

impl Carrier {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Tcp, Self::Udp];

    /// The word in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    /// Octets of the longest packet: the network's limit, which goes up.
    pub fn packet_bytes_max(self) -> usize {
        if self == Self::Udp { DATAGRAM_BYTES_MAX } else { PACKET_BYTES_MAX }
    }

    /// Two connected sockets; `None` in memory.
    ///
    /// # Errors
    ///
    /// When the kernel refuses a socket.
    pub(super) fn connect(self) -> io::Result<Option<[Wire; 2]>> {
        match self {
            Self::Memory => Ok(None),
            Self::Tcp => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
                let sender = TcpStream::connect(listener.local_addr()?)?;
                let receiver = listener.accept()?.0;
                sender.set_nodelay(true)?;
                for stream in [&sender, &receiver] {
                    stream.set_read_timeout(Some(WAIT_MAX))?;
                    stream.set_write_timeout(Some(WAIT_MAX))?;
                }
                Ok(Some([sender, receiver].map(Wire::Stream)))
            }
            Self::Udp => {
                let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
                let (sender, receiver) = (bind()?, bind()?);
                sender.connect(receiver.local_addr()?)?;
                receiver.connect(sender.local_addr()?)?;
                for socket in [&sender, &receiver] {
                    socket.set_read_timeout(Some(WAIT_MAX))?;
                }
                Ok(Some([sender, receiver].map(|socket| Wire::Datagrams { socket, passed: 0 })))
            }
        }
    }
}

impl FromStr for Carrier {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|carrier| carrier.name() == name);
        found.ok_or_else(|| format!("no carrier `{name}`: expected memory, tcp or udp"))
    }
}

/// One end of a socket pair.
pub(super) enum Wire {
    Stream(TcpStream),
    /// With the octets since the last wait.
    Datagrams {
        socket: UdpSocket,
        passed: usize,
    },
}

impl Wire {
    pub(super) fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        match self {
            Self::Stream(stream) => {
                // At most `PACKET_BYTES_MAX`.
                stream.write_all(&(packet.len() as u32).to_le_bytes())?;
                stream.write_all(packet)
            }
            Self::Datagrams { socket, passed } => {
                let bytes = packet.len().max(CREDIT_BYTES_LEAST);
                if *passed > 0 && *passed + bytes > CREDIT_BYTES {
                    socket.recv(&mut [0])?;
                    *passed = 0;
                }
                *passed += bytes;
                socket.send(packet).map(drop)
            }
        }
    }

    /// Takes the next packet; its length. All packets of a connection have the same length.
    pub(super) fn receive(&mut self, packet: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Stream(stream) => {
                let mut length = [0; LENGTH_BYTES];
                stream.read_exact(&mut length)?;
                let length = u32::from_le_bytes(length) as usize;
                let place = packet.get_mut(..length).ok_or(io::ErrorKind::InvalidData)?;
                stream.read_exact(place)?;
                Ok(length)
            }
            Self::Datagrams { socket, passed } => {
                let length = socket.recv(packet)?;
                let bytes = length.max(CREDIT_BYTES_LEAST);
                *passed += bytes;
                // The sender waits before the next one.
                if *passed + bytes > CREDIT_BYTES {
                    socket.send(&[0])?;
                    *passed = 0;
                }
                Ok(length)
            }
        }
    }
}
