//! Moves packets between two devices through two wires, and measures how late it is.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::clock::now_ns;
use crate::error::Error;
use crate::group::HEAD_BYTES;
use crate::hosts::{Ends, Side};
use crate::lateness::Lateness;
use crate::priority::Priority;
use crate::tun::Tun;
use crate::wire::{Counts, Packet, Wire};

/// The largest IP packet.
const PACKET_BYTES_MAX: usize = 65_535;
/// Packets taken from one device before the other is looked at.
const BATCH: usize = 64;
/// A sleep ends late by some 60 µs where the CPU of a virtual machine was idle: the rest of the time to a packet is
/// spent asking the clock. It is short, so that the thread sleeps between the packets of a fast line, too.
const SPIN_NS: u64 = 80_000;
/// Without a packet the loop looks so often whether it is to end.
const LOOK_NS: u64 = 50_000_000;

/// The counts and times of one direction.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Its packets by their end.
    pub counts: Counts,
    /// Packets that were still inside.
    pub inside: u64,
    /// Packets that the receiving device refused.
    pub refused: u64,
    /// The lateness of its packets.
    pub lateness: Lateness,
}

/// One direction at work.
struct Direction {
    wire: Wire,
    lateness: Lateness,
    refused: u64,
}

/// Carries packets until `is_over`: `wires` are those to the server and to the client.
///
/// # Errors
///
/// [`Error::Refused`] when a device cannot be read.
pub fn carry(ends: &Ends, wires: [Wire; 2], is_over: &AtomicBool) -> Result<[Ended; 2], Error> {
    let mut priority = Priority::raise();
    let [to_server, to_client] =
        wires.map(|wire| Direction { wire, lateness: Lateness::default(), refused: 0 });
    let mut directions = [to_server, to_client];
    let mut buffer = vec![0; HEAD_BYTES + PACKET_BYTES_MAX];
    let [client, server] = [Side::Client, Side::Server].map(|side| &ends[side as usize]);
    while !is_over.load(Ordering::Relaxed) {
        let mut took = 0;
        for (direction, (from, to)) in
            directions.iter_mut().zip([(client, server), (server, client)])
        {
            took += direction.take(from, &mut buffer)?;
            direction.give(to);
        }
        let has_slept = priority.yield_now();
        if took == 0 && !has_slept {
            wait(&directions, ends, &mut priority)?;
        }
    }
    Ok(directions.map(|direction| Ended {
        counts: direction.wire.counts(),
        inside: direction.wire.inside(),
        refused: direction.refused,
        lateness: direction.lateness,
    }))
}

impl Direction {
    /// Takes packets that are there, a batch at most; how many.
    fn take(&mut self, from: &Tun, buffer: &mut [u8]) -> Result<usize, Error> {
        for taken in 0..BATCH {
            match from.recv(buffer) {
                Ok(0) => return Ok(taken),
                Ok(bytes) => self.wire.enter(now_ns(), Packet::from(&buffer[..bytes])),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(taken),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(Error::Refused { what: "read the TUN device", cause }),
            }
        }
        Ok(BATCH)
    }

    /// Gives the packets that have arrived by now.
    fn give(&mut self, to: &Tun) {
        while let Some((due_ns, packet)) = self.wire.leave(now_ns()) {
            self.lateness.add(now_ns().saturating_sub(due_ns));
            let sent = loop {
                match to.send(&packet) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => break other,
                }
            };
            self.refused += u64::from(sent.is_err());
        }
    }
}

/// Sleeps until a packet is there, or shortly before one is due.
fn wait(directions: &[Direction; 2], ends: &Ends, priority: &mut Priority) -> Result<(), Error> {
    let due = directions.iter().filter_map(|direction| direction.wire.next_ns()).min();
    let start_ns = now_ns();
    let left_ns = due.map_or(LOOK_NS, |due_ns| due_ns.saturating_sub(start_ns));
    let Some(sleep_ns) = left_ns.checked_sub(SPIN_NS) else { return Ok(()) };
    let timeout = Timespec { tv_sec: 0, tv_nsec: sleep_ns.min(LOOK_NS).cast_signed() };
    let mut fds = ends.each_ref().map(|end| PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN));
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(errno) => {
            return Err(Error::Refused { what: "wait for packets", cause: errno.into() });
        }
    }
    priority.slept(start_ns);
    Ok(())
}
