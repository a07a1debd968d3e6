//! Frames of stations that are not modelled, on the cable of those that are.

use crate::random::Random;

/// Traffic of other stations on an Ethernet, whose frames are for no station of the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OtherTraffic {
    /// Frames a second in the mean; 0 for a cable without other stations.
    pub frames_per_s: u32,
    /// Bytes of each frame.
    pub frame_bytes: u32,
}

impl OtherTraffic {
    /// No other stations.
    pub const NONE: Self = Self { frames_per_s: 0, frame_bytes: 0 };
}

/// Stations that stand for all others: several, so that two of them may wait for the cable at once.
const STATIONS: u16 = 8;

/// The others of one link.
#[derive(Debug)]
pub(super) struct TrafficSource {
    /// The first of their numbers on the link, behind those of the hosts.
    first: u16,
    traffic: OtherTraffic,
    /// A stream of its own, so that it does not change the back-off of a cable without it.
    random: Random,
}

const SECOND_NS: u64 = 1_000_000_000;

impl TrafficSource {
    /// The source of a link, if it has one.
    pub(super) fn new(traffic: OtherTraffic, first: u16, seed: u64, link: u64) -> Option<Self> {
        let random = Random::new(seed, 0x0d_0000 + link);
        (traffic.frames_per_s > 0).then_some(Self { first, traffic, random })
    }

    /// Their numbers.
    pub(super) fn stations(&self) -> std::ops::Range<u16> {
        self.first..self.first + STATIONS
    }

    /// Time from the end of a station's frame until it is to send the next one: by chance up to twice the mean.
    pub(super) fn pause_ns(&mut self) -> u64 {
        let mean_ns = u64::from(STATIONS) * SECOND_NS / u64::from(self.traffic.frames_per_s);
        1 + self.random.below(2 * mean_ns)
    }

    /// The next frame; no host's address begins with zeros.
    pub(super) fn fill(&self, bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.resize(self.traffic.frame_bytes as usize, 0);
    }
}
