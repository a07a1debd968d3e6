//! A stand-in for a remote peer: the application's channels end at it as at any local process.
//!
//! It receives at the remote peer's address, packs each message into a packet and hands it to the
//! [`RemoteLink`]; it unpacks arriving packets into slots of the channel to the application. When
//! the link is lost it ends, as a local peer would end for the application. Memory: one packet each
//! way, and the slots.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{PacketFormat, RemoteLink};
use crate::error::{Error, system};
use crate::{Receiver, Sender, Wait};

/// Messages of one direction that are moved before the other has its turn.
const BATCH: usize = 64;

/// Stands between channels of this machine and a link to another.
pub struct Proxy<L, F> {
    from_local: Receiver,
    to_local: Sender,
    link: L,
    format: F,
    outgoing: Packet,
    incoming: Packet,
    counts: ProxyCounts,
}

/// A packet that waits for room.
struct Packet {
    bytes: Vec<u8>,
    /// Its length; `None` when no packet waits.
    waiting: Option<usize>,
}

/// The counts of a proxy up to now, in messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProxyCounts {
    /// Sent over the link.
    pub sent: u64,
    /// Delivered to the application.
    pub delivered: u64,
    /// Not sent: longer than a packet of the link can be.
    pub too_long: u64,
    /// Arrived and discarded: damaged, of another format, or longer than a slot.
    pub discarded: u64,
    /// Arrived when the application's end was not there, or left meanwhile.
    pub undeliverable: u64,
}

impl<L: RemoteLink, F: PacketFormat> Proxy<L, F> {
    /// A proxy that sends messages of `from_local` over `link`, and those of `link` to `to_local`.
    pub fn new(from_local: Receiver, to_local: Sender, link: L, format: F) -> Self {
        let bytes = vec![0; link.packet_bytes_max()];
        Self {
            from_local,
            to_local,
            link,
            format,
            outgoing: Packet { bytes: bytes.clone(), waiting: None },
            incoming: Packet { bytes, waiting: None },
            counts: ProxyCounts::default(),
        }
    }

    /// The counts up to now.
    pub fn counts(&self) -> ProxyCounts {
        self.counts
    }

    /// Moves waiting messages, both ways; sleeps before when none wait, at most for `timeout`.
    /// To be called again and again.
    ///
    /// # Errors
    /// `System` when the link is lost.
    pub fn run(&mut self, timeout: Duration) -> Result<(), Error> {
        let wanted = self.link.attend().map_err(lost_link)?;
        let moved = self.move_out()? | self.move_in()?;
        if !moved {
            self.sleep(wanted.map_or(timeout, |wanted| wanted.min(timeout)), wanted.is_some())?;
        }
        Ok(())
    }

    /// Slots to packets. True when anything moved.
    fn move_out(&mut self) -> Result<bool, Error> {
        let mut moved = false;
        for _ in 0..BATCH {
            if self.outgoing.waiting.is_none() && !self.pack()? {
                break;
            }
            if !self.send_waiting()? {
                break;
            }
            moved = true;
        }
        Ok(moved)
    }

    /// Packs the next message, copied from its slot to its place. False when no message is left.
    fn pack(&mut self) -> Result<bool, Error> {
        let message = match self.from_local.receive(Wait::NOT) {
            Ok(message) => message,
            Err(Error::WouldBlock) => return Ok(false),
            // Local peers connect and leave; a hostile one was detached.
            Err(Error::PeerGone { .. } | Error::Misbehaved { .. }) => return Ok(true),
            Err(error) => return Err(error),
        };
        let header = self.format.header_bytes();
        let len = header + message.len() + self.format.trailer_bytes();
        let Some(packet) = self.outgoing.bytes.get_mut(..len) else {
            self.counts.too_long += 1;
            return Ok(true);
        };
        message.copy_to(&mut packet[header..header + message.len()]);
        drop(message);
        self.format.seal(packet);
        self.outgoing.waiting = Some(len);
        Ok(true)
    }

    /// False when the link has no room now.
    fn send_waiting(&mut self) -> Result<bool, Error> {
        let Some(len) = self.outgoing.waiting else { return Ok(true) };
        if !self.link.send(&self.outgoing.bytes[..len]).map_err(lost_link)? {
            return Ok(false);
        }
        self.outgoing.waiting = None;
        self.counts.sent += 1;
        Ok(true)
    }

    /// Packets to slots. True when anything moved.
    fn move_in(&mut self) -> Result<bool, Error> {
        let mut moved = false;
        for _ in 0..BATCH {
            if self.incoming.waiting.is_none() {
                self.incoming.waiting =
                    self.link.receive(&mut self.incoming.bytes).map_err(lost_link)?;
            }
            if self.incoming.waiting.is_none() || !self.deliver_waiting()? {
                break;
            }
            moved = true;
        }
        Ok(moved)
    }

    /// False when the application has no slot free: the packet waits, and those behind it too.
    fn deliver_waiting(&mut self) -> Result<bool, Error> {
        let Some(len) = self.incoming.waiting else { return Ok(true) };
        let packet = &self.incoming.bytes[..len.min(self.incoming.bytes.len())];
        // A new application may have replaced the old one, which must not get its messages.
        self.to_local.attend();
        let payload = self.format.open(packet).ok().and_then(|range| packet.get(range));
        match payload.map(|payload| self.to_local.send(payload, Wait::NOT)) {
            Some(Ok(_)) => self.counts.delivered += 1,
            Some(Err(Error::WouldBlock)) => return Ok(false),
            // The old peer is gone. The next attempt calls the current one.
            Some(Err(Error::PeerGone { .. } | Error::Misbehaved { .. })) => return Ok(true),
            None | Some(Err(Error::TooLong { .. })) => self.counts.discarded += 1,
            Some(Err(Error::System { call, source })) => {
                return Err(Error::System { call, source });
            }
            Some(Err(_)) => self.counts.undeliverable += 1,
        }
        self.incoming.waiting = None;
        Ok(true)
    }

    /// Sleeps until the side has something that a direction waits for; a link that attends to itself
    /// waits for packets all the time.
    fn sleep(&mut self, timeout: Duration, attends: bool) -> Result<(), Error> {
        let (blocked_in, blocked_out) =
            (self.incoming.waiting.is_some(), self.outgoing.waiting.is_some());
        if !blocked_out && !self.from_local.arm()? {
            return Ok(());
        }
        if blocked_in && !self.to_local.arm()? {
            return Ok(());
        }
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, attends || !blocked_in);
        // Such a link has room when it has heard of its counterpart, not when its socket has.
        flags.set(PollFlags::OUT, !attends && blocked_out);
        let (from_local, to_local) = (self.from_local.descriptor()?, self.to_local.descriptor()?);
        let link = self.link.descriptor();
        let mut polled = [
            PollFd::new(&link, flags),
            // More to send is no reason to wake while the link has no room.
            PollFd::new(&from_local, if blocked_out { PollFlags::empty() } else { PollFlags::IN }),
            PollFd::new(&to_local, PollFlags::IN),
        ];
        let count = if blocked_in { 3 } else { 2 };
        let timeout = Timespec::try_from(timeout).ok();
        match poll(&mut polled[..count], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(system("poll")(errno)),
        }
    }
}

fn lost_link(source: std::io::Error) -> Error {
    Error::System { call: "link to the remote peer", source }
}
