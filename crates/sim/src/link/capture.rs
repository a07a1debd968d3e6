//! A host that takes no part and captures what the cable carries, as tcpdump on a third machine.
//!
//! It hears every frame that goes out whole. Its interface keeps frames in a buffer until a program
//! takes them; a frame that finds the buffer full is missed and counted. Each frame has the time of
//! the host's own clock, which may tick far apart.

use std::collections::VecDeque;

/// A capturing host on an Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureConfig {
    /// Time between two ticks of its clock, in nanoseconds; at least one.
    pub clock_ns: u64,
    /// Frames that its buffer holds.
    pub buffer_frames: u32,
    /// Time that its program needs for a frame, in nanoseconds.
    pub frame_ns: u64,
}

/// Octets of each frame that are kept: the headers with all options.
const FRAME_BYTES: usize = 128;

/// A frame as it was captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedFrame {
    /// Time of the capturing host's clock, in nanoseconds of the simulation.
    pub at_ns: u64,
    /// Octets of the frame, without its check sequence.
    pub len: u32,
    /// Its first octets.
    pub headers: Vec<u8>,
}

/// What a host has captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    config: CaptureConfig,
    /// When the program will have taken each frame in the buffer.
    taken_ns: VecDeque<u64>,
    /// The frames of the hosts of the simulation, in the order of the cable.
    pub frames: Vec<CapturedFrame>,
    /// Frames that found the buffer full.
    pub missed: u64,
}

impl Capture {
    pub(super) fn new(config: CaptureConfig) -> Self {
        Self { config, taken_ns: VecDeque::new(), frames: Vec::new(), missed: 0 }
    }

    /// The last bit of a frame reaches the host. Frames of others than the hosts of the simulation take room and time, and
    /// the program's filter drops them.
    pub(super) fn hears(&mut self, now_ns: u64, frame: &[u8], is_of_others: bool) {
        let CaptureConfig { clock_ns, buffer_frames, frame_ns } = self.config;
        let is_taken = |taken_ns: &u64| *taken_ns <= now_ns;
        while self.taken_ns.front().is_some_and(is_taken) {
            self.taken_ns.pop_front();
        }
        if self.taken_ns.len() >= buffer_frames as usize {
            self.missed += 1;
            return;
        }
        let begins_ns = self.taken_ns.back().map_or(now_ns, |before_ns| now_ns.max(*before_ns));
        self.taken_ns.push_back(begins_ns + frame_ns);
        if !is_of_others {
            let headers = frame[..frame.len().min(FRAME_BYTES)].to_vec();
            let at_ns = now_ns - now_ns % clock_ns.max(1);
            self.frames.push(CapturedFrame { at_ns, len: frame.len() as u32, headers });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(config: CaptureConfig, times_us: &[u64]) -> (Vec<u64>, u64) {
        let mut capture = Capture::new(config);
        times_us.iter().for_each(|us| capture.hears(us * 1000, &[7; 200], false));
        let times = capture.frames.iter().map(|frame| frame.at_ns / 1000);
        (times.collect(), capture.missed)
    }

    const CONFIG: CaptureConfig =
        CaptureConfig { clock_ns: 10_000_000, buffer_frames: 2, frame_ns: 300_000 };

    #[test]
    fn frames_between_two_ticks_have_one_time() {
        let times = captured(CONFIG, &[0, 9_999, 10_000, 25_000, 29_000]);
        assert_eq!(times, (vec![0, 0, 10_000, 20_000, 20_000], 0));
    }

    #[test]
    fn a_full_buffer_misses_frames_until_the_program_has_taken_one() {
        let config = CaptureConfig { clock_ns: 1000, ..CONFIG };
        // The first is taken at 300, the second, which waits for it, at 600.
        let times = captured(config, &[0, 100, 200, 299, 300, 599, 600]);
        assert_eq!(times, (vec![0, 100, 300, 600], 3));
    }

    #[test]
    fn frames_of_others_take_room_and_are_not_kept() {
        let mut capture = Capture::new(CONFIG);
        capture.hears(0, &[0; 60], true);
        capture.hears(100_000, &[0; 60], true);
        capture.hears(200_000, &[7; 60], false);
        assert_eq!((capture.frames.len(), capture.missed), (0, 1));
        capture.hears(700_000, &[7; 300], false);
        let frame = &capture.frames[0];
        assert_eq!((frame.len, frame.headers.len()), (300, FRAME_BYTES));
    }
}
