//! Faults: frames lost, doubled, held back and damaged, by chance on a seed.

use super::{FrameId, LinkContext, LinkCounts, Port};
use crate::event::Event;
use crate::random::Random;

/// How often a frame suffers what, in parts per million; each is drawn by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// The frame never arrives.
    pub loss_ppm: u32,
    /// It arrives twice.
    pub duplication_ppm: u32,
    /// It arrives later, so that others overtake it.
    pub reordering_ppm: u32,
    /// Longest delay of a frame that is held back, in nanoseconds.
    pub reordering_ns_max: u64,
    /// One of its bits is turned over.
    pub corruption_ppm: u32,
}

impl Faults {
    /// Nothing goes wrong.
    pub const NONE: Self = Self {
        loss_ppm: 0,
        duplication_ppm: 0,
        reordering_ppm: 0,
        reordering_ns_max: 0,
        corruption_ppm: 0,
    };
}

/// The faults of one link while it runs.
#[derive(Debug)]
pub(crate) struct FaultSource {
    faults: Faults,
    random: Random,
}

fn arrival(Port { host, interface }: Port, frame: FrameId) -> Event {
    Event::Arrival { interface, host, frame }
}

impl FaultSource {
    pub(crate) fn new(faults: Faults, seed: u64, link: u64) -> Self {
        Self { faults, random: Random::new(seed, 0x0f00 + link) }
    }

    /// Lets the frame arrive at `at_ns`, or what becomes of it. The frame is no longer the
    /// caller's.
    pub(crate) fn deliver(
        &mut self,
        at_ns: u64,
        port: Port,
        frame: FrameId,
        counts: &mut LinkCounts,
        context: &mut LinkContext<'_>,
    ) {
        if self.faults == Faults::NONE {
            context.events.schedule(at_ns, arrival(port, frame));
            return;
        }
        if self.random.chance(self.faults.duplication_ppm) {
            counts.duplicated += 1;
            let copy = context.frames.copy(frame);
            self.deliver_once(at_ns, port, copy, counts, context);
        }
        self.deliver_once(at_ns, port, frame, counts, context);
    }

    fn deliver_once(
        &mut self,
        at_ns: u64,
        port: Port,
        frame: FrameId,
        counts: &mut LinkCounts,
        context: &mut LinkContext<'_>,
    ) {
        if self.random.chance(self.faults.loss_ppm) {
            counts.lost += 1;
            context.frames.release(frame);
            return;
        }
        if self.random.chance(self.faults.corruption_ppm) {
            counts.corrupted += 1;
            self.turn_a_bit(&mut context.frames.frame_mut(frame).bytes);
        }
        let mut at_ns = at_ns;
        if self.random.chance(self.faults.reordering_ppm) {
            counts.reordered += 1;
            at_ns += self.random.below(self.faults.reordering_ns_max) + 1;
        }
        context.events.schedule(at_ns, arrival(port, frame));
    }

    /// One bit only: the checksums of IP, TCP and UDP find every such error (RFC 1071).
    fn turn_a_bit(&mut self, bytes: &mut [u8]) {
        let bit = self.random.below(bytes.len() as u64 * 8);
        if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
            *byte ^= 1 << (bit % 8);
        }
    }
}
