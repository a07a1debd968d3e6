//! The result of putting two bundles together.

use crate::clock_band::ClockBand;
use crate::error::Problem;

/// Result of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// Connections seen by both hosts, now one each.
    pub matched: u64,
    /// Of these, those that each host has with other addresses.
    pub translated: u64,
    /// Connections in all.
    pub connections: u64,
    /// Records in all.
    pub records: u64,
    /// Nanoseconds by which the real-time clocks move the times of the first and of the second bundle; one of them is 0.
    pub shift_ns: [u64; 2],
    /// The band that segments between the hosts give, by which the times were moved instead; `None` without one.
    pub band: Option<ClockBand>,
    /// Drift of the real-time clocks against the monotonic ones within the recordings, both
    /// together, in nanoseconds: a lower bound of the error between the two hosts' times.
    pub clock_moved_ns: u64,
    /// Problems of the first and of the second bundle; the notes of the result have them too.
    pub problems: [Vec<Problem>; 2],
}
