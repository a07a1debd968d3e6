//! Faults: frames lost, doubled, held back and damaged, by chance on a seed.

use super::context::{LinkContext, LinkCounts};
use super::frames::FrameId;
use super::port::Port;
use crate::event::Event;
use crate::random::Random;

/// The rate of each fault per frame, in parts per million; each is drawn by itself.
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
    /// No faults.
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
    /// Nothing can go wrong.
    is_sound: bool,
    duplication: Random,
    frames: Chance,
    copies: Chance,
}

/// Chance for frames, or for the copies of doubled ones: a stream for each fault, drawn from for every
/// frame, so that the rate of one fault does not change the frames of another one.
#[derive(Debug)]
struct Chance {
    loss: Random,
    corruption: Random,
    reordering: Random,
}

/// The fate of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fate {
    is_lost: bool,
    turned_bit: Option<u64>,
    late_ns: Option<u64>,
}

/// Streams of chance of one link.
const STREAMS: u64 = 8;

impl Chance {
    fn new(seed: u64, stream: u64) -> Self {
        let [loss, corruption, reordering] =
            [0, 1, 2].map(|fault| Random::new(seed, stream + fault));
        Self { loss, corruption, reordering }
    }

    fn draw(&mut self, faults: &Faults, octets: usize) -> Fate {
        let Self { loss, corruption, reordering } = self;
        let is_turned = corruption.chance(faults.corruption_ppm);
        let is_late = reordering.chance(faults.reordering_ppm);
        Fate {
            is_lost: loss.chance(faults.loss_ppm),
            turned_bit: is_turned.then(|| corruption.below(octets as u64 * 8)),
            late_ns: is_late.then(|| reordering.below(faults.reordering_ns_max) + 1),
        }
    }
}

impl FaultSource {
    pub(crate) fn new(faults: Faults, seed: u64, link: u64) -> Self {
        let stream = 0x0f_0000 + link * STREAMS;
        Self {
            faults,
            is_sound: faults == Faults::NONE,
            duplication: Random::new(seed, stream),
            frames: Chance::new(seed, stream + 1),
            copies: Chance::new(seed, stream + 4),
        }
    }

    /// The fate of the next frame, and of its copy if it is doubled.
    fn draw(&mut self, octets: usize) -> (Fate, Option<Fate>) {
        let fate = self.frames.draw(&self.faults, octets);
        let copy = self.copies.draw(&self.faults, octets);
        (fate, self.duplication.chance(self.faults.duplication_ppm).then_some(copy))
    }

    /// Delivers the frame at `at_ns`, according to its fate. The frame is no longer the caller's.
    pub(crate) fn deliver(
        &mut self,
        at_ns: u64,
        port: Port,
        frame: FrameId,
        counts: &mut LinkCounts,
        context: &mut LinkContext<'_>,
    ) {
        if self.is_sound {
            context.events.schedule(at_ns, Event::arrival(port, frame));
            return;
        }
        let (fate, copy_fate) = self.draw(context.frames.frame(frame).bytes.len());
        if let Some(fate) = copy_fate {
            counts.duplicated += 1;
            let copy = context.frames.copy(frame);
            fate.befall(at_ns, port, copy, counts, context);
        }
        fate.befall(at_ns, port, frame, counts, context);
    }
}

impl Fate {
    fn befall(
        self,
        at_ns: u64,
        port: Port,
        frame: FrameId,
        counts: &mut LinkCounts,
        context: &mut LinkContext<'_>,
    ) {
        if self.is_lost {
            counts.lost += 1;
            context.frames.release(frame);
            return;
        }
        if let Some(bit) = self.turned_bit {
            counts.corrupted += 1;
            turn(&mut context.frames.frame_mut(frame).bytes, bit);
        }
        counts.reordered += u64::from(self.late_ns.is_some());
        let at_ns = at_ns + self.late_ns.unwrap_or(0);
        context.events.schedule(at_ns, Event::arrival(port, frame));
    }
}

/// One bit only: the checksums of IP, TCP and UDP find every such error (RFC 1071).
fn turn(bytes: &mut [u8], bit: u64) {
    if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
        *byte ^= 1 << (bit % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fates of a thousand frames and their copies.
    fn fates(faults: Faults) -> Vec<(Fate, Option<Fate>)> {
        let mut source = FaultSource::new(faults, 7, 0);
        (0..1000).map(|_| source.draw(100)).collect()
    }

    #[test]
    fn a_fault_strikes_the_same_frames_whatever_others_do() {
        let all = Faults {
            loss_ppm: 200_000,
            duplication_ppm: 200_000,
            reordering_ppm: 200_000,
            reordering_ns_max: 1000,
            corruption_ppm: 200_000,
        };
        let together = fates(all);
        let same = |faults, struck: fn(&(Fate, Option<Fate>)) -> Option<u64>| {
            let of = |fates: &[_]| fates.iter().map(struck).collect::<Vec<_>>();
            let alone = of(&fates(faults));
            let hits = alone.iter().flatten().count();
            assert!((150..250).contains(&hits), "{hits} of a thousand");
            assert_eq!(alone, of(&together), "{faults:?}");
        };
        let none = Faults { reordering_ns_max: 1000, ..Faults::NONE };
        same(Faults { loss_ppm: 200_000, ..none }, |(it, _)| it.is_lost.then_some(0));
        same(Faults { duplication_ppm: 200_000, ..none }, |(_, copy)| copy.map(|_| 0));
        same(Faults { reordering_ppm: 200_000, ..none }, |(it, _)| it.late_ns);
        same(Faults { corruption_ppm: 200_000, ..none }, |(it, _)| it.turned_bit);
    }

    #[test]
    fn two_links_and_a_frame_and_its_copy_have_chance_of_their_own() {
        let faults = Faults { loss_ppm: 200_000, duplication_ppm: 1_000_000, ..Faults::NONE };
        let lost = |link, is_copy| {
            let mut source = FaultSource::new(faults, 7, link);
            let mut draw = || {
                let (fate, copy) = source.draw(100);
                if is_copy { copy.is_some_and(|fate| fate.is_lost) } else { fate.is_lost }
            };
            (0..1000).map(|_| draw()).collect::<Vec<_>>()
        };
        let all = [lost(0, false), lost(0, true), lost(1, false), lost(1, true)];
        for (at, one) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other != one));
        }
    }
}
