//! The result of putting two bundles together.

use crate::error::Problem;

/// What a merge did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// Connections seen by both hosts, now one each.
    pub matched: u64,
    /// Connections in all.
    pub connections: u64,
    /// Records in all.
    pub records: u64,
    /// What was added to the times of the first and of the second bundle, in nanoseconds; one of
    /// them is 0.
    pub shift_ns: [u64; 2],
    /// How far the real-time clocks moved against the monotonic ones within the recordings, both
    /// together, in nanoseconds: a lower bound of the error between the two hosts' times.
    pub clock_moved_ns: u64,
    /// What is wrong with the first and with the second bundle; the notes of the result say it too.
    pub problems: [Vec<Problem>; 2],
}
