//! The segments of the recording that are on the disk.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A part of the recording, in a folder of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Counts up; names its folder.
    pub number: u64,
    /// Time of its beginning.
    pub from_ns: u64,
    /// Time of its end, at which the next one begins.
    pub until_ns: u64,
    /// Of its files.
    pub bytes: u64,
}

/// Sealed segments, the oldest first.
///
/// A segment is surplus when all of it is older than the time to keep, or when the disk has no room for it. Those that a
/// bundle is made of stay until that is done, unless the disk has no room.
#[derive(Debug)]
pub struct Ring {
    keep_ns: u64,
    bytes_max: u64,
    sealed: VecDeque<Segment>,
    /// By number, how many need it.
    held: BTreeMap<u64, u32>,
}

impl Ring {
    /// Keeps so much time, in at most so many bytes.
    pub fn new(keep: Duration, bytes_max: u64) -> Self {
        Self {
            keep_ns: u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX),
            bytes_max,
            sealed: VecDeque::new(),
            held: BTreeMap::new(),
        }
    }

    /// The time to keep.
    pub fn keep_ns(&self) -> u64 {
        self.keep_ns
    }

    /// Takes the next segment.
    pub fn push(&mut self, segment: Segment) {
        self.sealed.push_back(segment);
    }

    /// Of all sealed segments.
    pub fn bytes(&self) -> u64 {
        self.sealed.iter().map(|segment| segment.bytes).sum()
    }

    /// The time since which the ring has the recording; `None` without a segment.
    pub fn since_ns(&self) -> Option<u64> {
        self.sealed.front().map(|segment| segment.from_ns)
    }

    /// Segments to remove now, which the ring forgets. `open_bytes` are those of the segment that is being written.
    pub fn surplus(&mut self, now_ns: u64, open_bytes: u64) -> Vec<Segment> {
        let oldest_ns = now_ns.saturating_sub(self.keep_ns);
        let mut removed = Vec::new();
        let mut bytes = self.bytes().saturating_add(open_bytes);
        while let Some(first) = self.sealed.front().copied() {
            let has_no_room = bytes > self.bytes_max;
            let is_old = first.until_ns <= oldest_ns && !self.held.contains_key(&first.number);
            if !has_no_room && !is_old {
                break;
            }
            bytes -= first.bytes.min(bytes);
            removed.extend(self.sealed.pop_front());
        }
        removed
    }

    /// The oldest segment, where the disk is full; the ring forgets it.
    pub fn oldest(&mut self) -> Option<Segment> {
        self.sealed.pop_front()
    }

    /// Segments with any time between the two, which stay until they are released.
    pub fn hold(&mut self, from_ns: u64, until_ns: u64) -> Vec<Segment> {
        let is_of = |segment: &&Segment| segment.until_ns > from_ns && segment.from_ns < until_ns;
        let held: Vec<Segment> = self.sealed.iter().filter(is_of).copied().collect();
        held.iter().for_each(|segment| self.hold_one(segment.number));
        held
    }

    /// These are needed no more.
    pub fn release(&mut self, segments: &[Segment]) {
        segments.iter().for_each(|segment| self.release_one(segment.number));
    }

    /// This segment stays until it is released.
    pub fn hold_one(&mut self, number: u64) {
        *self.held.entry(number).or_default() += 1;
    }

    /// One who held this segment needs it no more.
    pub fn release_one(&mut self, number: u64) {
        let Some(count) = self.held.get_mut(&number) else { return };
        *count -= 1;
        if *count == 0 {
            self.held.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::SECOND;

    fn segment(number: u64, from: u64, until: u64, bytes: u64) -> Segment {
        Segment { number, from_ns: from * SECOND, until_ns: until * SECOND, bytes }
    }

    fn numbers(segments: &[Segment]) -> Vec<u64> {
        segments.iter().map(|segment| segment.number).collect()
    }

    fn ring(keep_s: u64, bytes_max: u64, bytes: u64) -> Ring {
        let mut ring = Ring::new(Duration::from_secs(keep_s), bytes_max);
        (0..6).for_each(|n| ring.push(segment(n, 10 * n, 10 * (n + 1), bytes)));
        ring
    }

    #[test]
    fn segments_that_are_old_as_a_whole_are_surplus() {
        let mut ring = ring(30, 1_000, 1);
        // At 65 s those of before 35 s: the one from 30 to 40 s has some of the time.
        assert_eq!(numbers(&ring.surplus(65 * SECOND, 0)), [0, 1, 2]);
        assert_eq!(ring.since_ns(), Some(30 * SECOND));
    }

    #[test]
    fn the_oldest_make_room_with_the_open_one_counted() {
        let mut ring = ring(600, 500, 100);
        assert_eq!(numbers(&ring.surplus(60 * SECOND, 0)), [0]);
        assert_eq!(numbers(&ring.surplus(60 * SECOND, 150)), [1, 2]);
    }

    #[test]
    fn held_segments_outlive_their_time_but_not_the_disk() {
        let mut ring = ring(20, 1_000, 100);
        let held = ring.hold(15 * SECOND, 35 * SECOND);
        assert_eq!(numbers(&held), [1, 2, 3]);
        assert_eq!(numbers(&ring.surplus(60 * SECOND, 0)), [0]);
        assert_eq!(numbers(&ring.surplus(60 * SECOND, 600)), [1]);
        ring.release(&held);
        assert_eq!(numbers(&ring.surplus(60 * SECOND, 0)), [2, 3]);
    }

    proptest! {
        /// Whatever comes, sealed and open segments fit, unless the open one alone does not.
        #[test]
        fn the_ring_is_never_larger_than_its_bound(
            sizes in proptest::collection::vec(0u64..200, 1..50),
            keep_s in 1u64..100, bytes_max in 1u64..500, hold_every in 1u64..10,
        ) {
            let mut ring = Ring::new(Duration::from_secs(keep_s), bytes_max);
            for (number, bytes) in (0u64..).zip(sizes) {
                if number % hold_every == 0 {
                    ring.hold(0, u64::MAX);
                }
                ring.push(segment(number, number, number + 1, bytes));
                let before = ring.bytes();
                let removed = ring.surplus((number + 1) * SECOND, bytes);
                let gone: u64 = removed.iter().map(|one| one.bytes).sum();
                prop_assert_eq!(ring.bytes() + gone, before);
                prop_assert!(ring.bytes() == 0 || ring.bytes() + bytes <= bytes_max);
            }
        }
    }
}
