//! The sending end of each level.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use sockscope_channel::library::{InOrder, Ordering, Protector, RemoteLink, passing};
use sockscope_remote::VmtpLink;

use super::repeater::Repeater;

/// Only one sender sends to a receiver.
const STREAM: u64 = 1;

/// The sending end of a level.
pub(super) enum Transmission {
    Plain(UdpSocket),
    Sequenced(UdpSocket, InOrder),
    Corrected(UdpSocket, Box<Protector>),
    Reliable(Box<Repeater>, InOrder),
    OneOfMany(Box<Repeater>),
    /// With a message that the link did not take.
    Vmtp(Box<VmtpLink>, Option<Vec<u8>>),
}

impl Transmission {
    pub(super) fn sequenced(socket: UdpSocket) -> Self {
        Self::Sequenced(socket, InOrder::new(STREAM, 1, 1))
    }

    pub(super) fn reliable(socket: UdpSocket, to: SocketAddr, window: u64) -> Self {
        let repeater = Repeater::new(socket, &[to], window);
        Self::Reliable(Box::new(repeater), InOrder::new(STREAM, 1, 1))
    }

    /// Whether the level takes a message now.
    pub(super) fn has_room(&self) -> bool {
        match self {
            Self::Reliable(repeater, _) | Self::OneOfMany(repeater) => repeater.has_room(),
            Self::Vmtp(_, waiting) => waiting.is_none(),
            _ => true,
        }
    }

    pub(super) fn send(&mut self, now_ns: u64, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => passing(socket.send(message)).map(drop),
            Self::Sequenced(socket, order) => {
                passing(socket.send(&stamped(order, message))).map(drop)
            }
            Self::Corrected(socket, protector) => {
                sending(socket, |packet| protector.send(message, packet))
            }
            Self::Reliable(repeater, order) => repeater.send(now_ns, &stamped(order, message)),
            Self::OneOfMany(repeater) => repeater.send(now_ns, message),
            Self::Vmtp(link, waiting) => {
                if !link.send(message)? {
                    *waiting = Some(message.to_vec());
                }
                Ok(())
            }
        }
    }

    /// No more messages follow.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Corrected(socket, protector) => {
                sending(socket, |packet| protector.finish(packet))
            }
            _ => Ok(()),
        }
    }

    /// Takes answers and repeats messages; the time at which to call this again without an answer.
    pub(super) fn attend(&mut self, now_ns: u64) -> io::Result<Option<u64>> {
        match self {
            Self::Reliable(repeater, _) | Self::OneOfMany(repeater) => repeater.attend(now_ns),
            Self::Vmtp(link, waiting) => {
                let until = link.attend()?;
                if let Some(message) = waiting.take()
                    && !link.send(&message)?
                {
                    *waiting = Some(message);
                }
                Ok(until.map(|until| now_ns + until.as_nanos() as u64))
            }
            _ => Ok(None),
        }
    }

    /// Whether all messages are answered, as far as this end knows.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::Reliable(repeater, _) | Self::OneOfMany(repeater) => repeater.is_done(),
            Self::Vmtp(_, waiting) => waiting.is_none(),
            _ => true,
        }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Plain(socket) | Self::Sequenced(socket, _) | Self::Corrected(socket, _) => {
                socket.as_fd()
            }
            Self::Reliable(repeater, _) | Self::OneOfMany(repeater) => repeater.socket().as_fd(),
            Self::Vmtp(link, _) => link.descriptor(),
        }
    }
}

fn stamped(order: &mut InOrder, message: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; order.header_bytes()];
    order.stamp(&mut packet);
    packet.extend_from_slice(message);
    packet
}

/// Sends the packets that a part makes.
fn sending(
    socket: &UdpSocket,
    make: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<(), sockscope_channel::Error>,
) -> io::Result<()> {
    let mut sent = Ok(());
    let mut send = |packet: &[u8]| {
        if let Err(error) = passing(socket.send(packet)) {
            sent = Err(error);
        }
    };
    make(&mut send).map_err(io::Error::other)?;
    sent
}
