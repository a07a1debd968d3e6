//! The receiving end of each level.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};

use sockscope_channel::library::{
    Arrival, Corrector, InOrder, Ordering, RemoteLink, Taker, passing,
};
use sockscope_remote::VmtpLink;

const STREAMS_MAX: usize = 1;
/// The largest datagram.
const PACKET_BYTES_MAX: usize = 65_536;

/// The receiving end of a level.
pub(super) struct Reception {
    service: Service,
    packet: Vec<u8>,
}

/// The part of the library, with its socket.
pub(super) enum Service {
    Plain(UdpSocket),
    Sequenced(UdpSocket, InOrder),
    Corrected(UdpSocket, Box<Corrector>),
    Reliable(UdpSocket, Taker, InOrder),
    OneOfMany(UdpSocket, Taker),
    Vmtp(Box<VmtpLink>),
}

impl Service {
    pub(super) fn sequenced(socket: UdpSocket, window: u64) -> Self {
        Self::Sequenced(socket, ordered(window))
    }

    pub(super) fn reliable(socket: UdpSocket, window: u64) -> Self {
        Self::Reliable(socket, Taker::default(), ordered(window))
    }
}

fn ordered(window: u64) -> InOrder {
    InOrder::new(0, window, STREAMS_MAX)
}

impl Reception {
    pub(super) fn new(service: Service) -> Self {
        Self { service, packet: vec![0; PACKET_BYTES_MAX] }
    }

    /// Delivers all messages that are there; whether any packet was.
    pub(super) fn receive(&mut self, deliver: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
        if let Service::Vmtp(link) = &mut self.service {
            return receive_vmtp(link, &mut self.packet, deliver);
        }
        let mut has_received = false;
        while let Some(bytes) = self.take_in(deliver)? {
            has_received |= bytes > 0;
        }
        Ok(has_received)
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.service {
            Service::Plain(socket)
            | Service::Sequenced(socket, _)
            | Service::Corrected(socket, _)
            | Service::Reliable(socket, ..)
            | Service::OneOfMany(socket, _) => socket.as_fd(),
            Service::Vmtp(link) => link.descriptor(),
        }
    }

    /// One packet; `None` when there is no more.
    fn take_in(&mut self, deliver: &mut dyn FnMut(&[u8])) -> io::Result<Option<usize>> {
        let Self { service, packet } = self;
        let mut next = |socket: &UdpSocket| passing(socket.recv_from(packet));
        let (Service::Plain(socket)
        | Service::Sequenced(socket, _)
        | Service::Corrected(socket, _)
        | Service::Reliable(socket, ..)
        | Service::OneOfMany(socket, _)) = &*service
        else {
            return Ok(None);
        };
        let Some((bytes, from)) = next(socket)? else { return Ok(None) };
        let packet = &packet[..bytes];
        let answer = |socket: &UdpSocket, answer: &[u8]| {
            // An answer that is not sent is asked for again, by a repeated message.
            let _ = socket.send_to(answer, from);
        };
        match service {
            Service::Plain(_) | Service::Vmtp(_) => deliver(packet),
            Service::Sequenced(_, order) => in_order(order, packet, deliver),
            Service::Corrected(_, corrector) => {
                corrector.arrive(packet, &mut |_, message| deliver(message));
            }
            Service::Reliable(socket, taker, order) => {
                if let Some(taken) = taker.arrive(packet, &mut |octets| answer(socket, octets)) {
                    in_order(order, taken.message, deliver);
                }
            }
            Service::OneOfMany(socket, taker) => {
                if let Some(taken) = taker.arrive(packet, &mut |octets| answer(socket, octets)) {
                    deliver(taken.message);
                }
            }
        }
        Ok(Some(bytes))
    }
}

fn receive_vmtp(
    link: &mut VmtpLink,
    packet: &mut [u8],
    deliver: &mut dyn FnMut(&[u8]),
) -> io::Result<bool> {
    link.attend()?;
    let mut has_received = false;
    while let Some(bytes) = link.receive(packet)? {
        deliver(&packet[..bytes]);
        has_received = true;
    }
    Ok(has_received)
}

fn in_order(order: &mut InOrder, packet: &[u8], deliver: &mut dyn FnMut(&[u8])) {
    let Some((header, message)) = packet.split_at_checked(order.header_bytes()) else { return };
    if order.arrive(header, &mut || message.to_vec()) == Arrival::Now {
        deliver(message);
    }
    while let Some(kept) = order.release() {
        deliver(&kept);
    }
}
