//! The device of one interface: its frames and its interrupts.

use std::collections::VecDeque;

use crate::event::Event;
use crate::link::{FrameId, LinkId};
use crate::machine::Machine;
use crate::shared::Shared;

/// Frames that a device which sends back to back takes from the driver.
const RING_FRAMES: usize = 16;

/// The device of one interface.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) link: LinkId,
    /// Its number on the link.
    pub(super) station: u16,
    /// Taken from the queue by a driver that has not handed it over yet.
    pub(super) starting: usize,
    /// With the device, the one being sent first.
    pub(super) ring: VecDeque<FrameId>,
    /// The first of the ring is with the link.
    pub(super) is_sending: bool,
    /// When the last frame had gone.
    pub(super) sent_ns: u64,
    /// Received frames that the CPU has not taken yet.
    pub(super) received: usize,
    /// Frames lost because there were too many of these.
    pub(super) overruns: u64,
    /// See [`frames_max`].
    pub(super) frames_max: usize,
}

/// Why a device interrupts.
#[derive(Debug, Clone, Copy)]
pub(super) enum HardInterrupt {
    Sent(u8),
    Collided,
    Received(u8, FrameId),
    /// The clock's, which is no device of the network's.
    Clock,
}

/// Frames that a device of this machine takes from the driver.
pub(super) fn frames_max(machine: &Machine) -> usize {
    if machine.driver.sends_back_to_back { RING_FRAMES } else { 1 }
}

impl Device {
    pub(super) fn new(link: LinkId, frames_max: usize) -> Self {
        Self {
            link,
            station: 0,
            starting: 0,
            ring: VecDeque::new(),
            is_sending: false,
            sent_ns: 0,
            received: 0,
            overruns: 0,
            frames_max,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.starting == 0 && self.ring.is_empty()
    }

    /// The link gets the first frame of the ring, to send it at `at_ns`.
    pub(super) fn offer(&self, now_ns: u64, at_ns: u64, frame: FrameId, shared: &mut Shared) {
        let Self { link, station, .. } = *self;
        shared.links[link].accept(station, frame);
        if at_ns > now_ns {
            shared.events.schedule(at_ns, Event::Attempt { link: link as u16, station });
        } else {
            shared.with_link(now_ns, link, |link, context| link.attempt(station, context));
        }
    }
}
