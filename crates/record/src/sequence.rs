//! 32-bit sequence numbers to 64-bit stream positions.

/// Turns the sequence numbers of one flow into positions in its stream (RFC 9293 §3.4).
///
/// Sequence numbers wrap every 4 GiB. Each number is taken to lie within 2 GiB of the furthest
/// position seen so far. TCP's largest window (1 GiB, RFC 7323 §2.3) guarantees that as long as no
/// record is missed. After a miss, [`Unwrapper::anchor`] finds the stream again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unwrapper {
    first_byte: u32,
    furthest: u64,
}

impl Unwrapper {
    /// `first_byte` is the sequence number of position 0: one more than the SYN's.
    pub fn new(first_byte: u32) -> Self {
        Self { first_byte, furthest: 0 }
    }

    /// `sequence` is the number of position `offset`, for a flow that is joined on the way.
    pub fn joined_at(sequence: u32, offset: u64) -> Self {
        Self { first_byte: sequence.wrapping_sub(offset as u32), furthest: offset }
    }

    /// The position of `sequence`; a number before position 0 (the SYN's own, a keep-alive probe)
    /// gives 0.
    pub fn position(&mut self, sequence: u32) -> u64 {
        let distance = self.distance(sequence);
        let position = self.furthest.saturating_add_signed(i64::from(distance));
        self.furthest = self.furthest.max(position);
        position
    }

    /// As [`Unwrapper::position`], without remembering it: for numbers from untrusted headers.
    pub fn peek(&self, sequence: u32) -> u64 {
        self.furthest.saturating_add_signed(i64::from(self.distance(sequence)))
    }

    /// The position of `sequence` nearest to `about`, a position that is known to within 2 GiB.
    pub fn nearest(&self, sequence: u32, about: u64) -> u64 {
        let expected = self.first_byte.wrapping_add(about as u32);
        let distance = sequence.wrapping_sub(expected) as i32;
        about.saturating_add_signed(i64::from(distance))
    }

    /// Follows the stream from `sequence` on, which lies near position `about`: records in between may
    /// have been missed. A socket's own count of octets is near enough, whether or not it counts SYN
    /// and FIN.
    pub fn anchor(&mut self, sequence: u32, about: u64) {
        self.furthest = self.nearest(sequence, about);
    }

    fn distance(&self, sequence: u32) -> i32 {
        let expected = self.first_byte.wrapping_add(self.furthest as u32);
        sequence.wrapping_sub(expected) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_syn_itself_is_position_zero() {
        let mut flow = Unwrapper::new(1001);
        assert_eq!([1000, 1001, 1002].map(|seq| flow.position(seq)), [0, 0, 1]);
    }

    #[test]
    fn numbers_wrap_after_4_gib_and_positions_do_not() {
        let mut flow = Unwrapper::new(u32::MAX - 1);
        assert_eq!([u32::MAX, 0, 1].map(|seq| flow.position(seq)), [1, 2, 3]);
    }

    #[test]
    fn a_retransmission_keeps_its_old_position() {
        let mut flow = Unwrapper::new(1);
        assert_eq!(flow.position(500_001), 500_000);
        assert_eq!(flow.position(100_001), 100_000);
        assert_eq!(flow.position(500_002), 500_001);
    }

    #[test]
    fn a_gap_of_more_than_2_gib_needs_an_anchor() {
        let truth = 3 << 30;
        let mut flow = Unwrapper::new(1);
        assert_eq!(flow.position(1 + truth as u32), 0);
        flow.anchor(1 + truth as u32, truth);
        assert_eq!(flow.position(1 + truth as u32), truth);
    }

    /// Events of a stream between two records that are kept.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Seen(u32),
        /// Octets that pass while records are missed, and the error of the counter in octets.
        Missed(u64, i64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let missed = (0u64..1 << 40, -2i64..=2).prop_map(|(gap, off)| Step::Missed(gap, off));
        let step = prop_oneof![4 => (0u32..1 << 30).prop_map(Step::Seen), 1 => missed];
        prop::collection::vec(step, 1..200)
    }

    proptest! {
        #[test]
        fn any_walk_with_gaps_and_anchors_ends_at_the_true_position(first in any::<u32>(), steps in steps()) {
            let mut flow = Unwrapper::new(first);
            let mut truth = 0u64;
            for step in steps {
                match step {
                    Step::Seen(bytes) => truth += u64::from(bytes),
                    Step::Missed(gap, off) => {
                        truth += gap;
                        flow.anchor(first.wrapping_add(truth as u32), truth.saturating_add_signed(off));
                    }
                }
                prop_assert_eq!(flow.position(first.wrapping_add(truth as u32)), truth);
            }
        }

        #[test]
        fn any_walk_in_steps_below_2_gib_is_followed(first in any::<u32>(), steps in prop::collection::vec(0u32..1 << 30, 1..200)) {
            let mut flow = Unwrapper::new(first);
            let mut truth = 0u64;
            for step in steps {
                truth += u64::from(step);
                prop_assert_eq!(flow.position(first.wrapping_add(truth as u32)), truth);
            }
        }
    }
}
