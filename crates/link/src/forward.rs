//! Moves packets between two devices through two wires, and measures its lateness.

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
    let mut directions = wires.map(Direction::new);
    let mut buffer = vec![0; HEAD_BYTES + PACKET_BYTES_MAX];
    let [client, server] = [Side::Client, Side::Server].map(|side| &ends[side as usize]);
    while !is_over.load(Ordering::Relaxed) {
        let mut took = 0;
        for (direction, (from, to)) in
            directions.iter_mut().zip([(client, server), (server, client)])
        {
            took += direction.take(from, &mut buffer)?;
            direction.give(to, now_ns());
        }
        let has_slept = priority.yield_now();
        if took == 0 && !has_slept {
            let due = directions.iter().filter_map(|direction| direction.wire.next_ns());
            wait(due.min().unwrap_or(u64::MAX), &[client, server], &mut priority)?;
        }
    }
    Ok(directions.map(Direction::ended))
}

/// A host without a kernel of its own: a stack in this program.
pub trait Station {
    /// A packet arrives. Its time is not before that of an earlier packet, and may be before that of the last
    /// [`Station::advance`].
    fn arrive(&mut self, at_ns: u64, packet: &[u8]);

    /// Everything happens that happens until then.
    fn advance(&mut self, now_ns: u64);

    /// The next packet that the host has sent, with its time.
    fn departed(&mut self) -> Option<(u64, Packet)>;

    /// Time of the next event without a packet: the time at which to call [`Station::advance`].
    fn next_ns(&self) -> u64;
}

/// Carries packets between a device and a station until `is_over`: `wires` are those to the station and to the device.
///
/// # Errors
///
/// [`Error::Refused`] when the device cannot be read.
pub fn carry_to_station(
    device: &Tun,
    station: &mut dyn Station,
    wires: [Wire; 2],
    is_over: &AtomicBool,
) -> Result<[Ended; 2], Error> {
    let mut priority = Priority::raise();
    let [mut to_station, mut to_device] = wires.map(Direction::new);
    let mut buffer = vec![0; HEAD_BYTES + PACKET_BYTES_MAX];
    while !is_over.load(Ordering::Relaxed) {
        let took = to_station.take(device, &mut buffer)?;
        // One time for all: a packet must not enter a wire before the time of the wire's last query.
        let now_ns = now_ns();
        while let Some((due_ns, packet)) = to_station.wire.leave(now_ns) {
            to_station.lateness.add(now_ns - due_ns);
            station.arrive(due_ns, &packet);
        }
        station.advance(now_ns);
        while let Some((at_ns, packet)) = station.departed() {
            to_device.wire.enter(at_ns, packet);
        }
        to_device.give(device, now_ns);
        let has_slept = priority.yield_now();
        if took == 0 && !has_slept {
            let of_wires = [&to_station, &to_device].map(|direction| direction.wire.next_ns());
            let due_ns = of_wires.into_iter().flatten().min().unwrap_or(u64::MAX);
            wait(due_ns.min(station.next_ns()), &[device], &mut priority)?;
        }
    }
    Ok([to_station, to_device].map(Direction::ended))
}

impl Direction {
    fn new(wire: Wire) -> Self {
        Self { wire, lateness: Lateness::default(), refused: 0 }
    }

    fn ended(self) -> Ended {
        Ended {
            counts: self.wire.counts(),
            inside: self.wire.inside(),
            refused: self.refused,
            lateness: self.lateness,
        }
    }

    /// Takes waiting packets, a batch at most, and returns their number.
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

    /// Gives the packets that have arrived by then.
    fn give(&mut self, to: &Tun, until_ns: u64) {
        while let Some((due_ns, packet)) = self.wire.leave(until_ns) {
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

/// Sleeps until a packet is there, or until shortly before `due_ns`.
fn wait(due_ns: u64, devices: &[&Tun], priority: &mut Priority) -> Result<(), Error> {
    let start_ns = now_ns();
    let left_ns = due_ns.saturating_sub(start_ns).min(LOOK_NS);
    let Some(sleep_ns) = left_ns.checked_sub(SPIN_NS) else { return Ok(()) };
    let timeout = Timespec { tv_sec: 0, tv_nsec: sleep_ns.cast_signed() };
    let mut fds: Vec<PollFd<'_>> = devices
        .iter()
        .map(|device| PollFd::from_borrowed_fd(device.as_fd(), PollFlags::IN))
        .collect();
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(errno) => {
            return Err(Error::Refused { what: "wait for packets", cause: errno.into() });
        }
    }
    priority.slept(start_ns);
    Ok(())
}
