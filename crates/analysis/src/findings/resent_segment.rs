//! One segment that was retransmitted, and the outcome of its first transmission.

use sockscope_record::{Point, RetransmitClass, Side};

use super::intervals::Interval;

/// TCP reports a retransmission within this time after it; no timer is that short.
pub(super) const TOLD_NS_MAX: u64 = 10_000_000;

/// Content of a retransmitted segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Data,
    /// A SYN or SYN-ACK. `answer`: the last point at which the other side's answer to the one before was
    /// seen.
    Syn {
        answer: Option<Point>,
    },
    /// The end of the stream, without data.
    Fin,
}

/// One segment, or several with one range of bytes, that was sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Resent {
    pub at_ns: u64,
    pub offset: u64,
    pub len: u32,
    pub content: Content,
    /// As the kernel classed it, or `Spurious` where the records show that the original had arrived.
    pub class: RetransmitClass,
    /// When it was last sent before; `None` when that was not seen.
    pub before_ns: Option<u64>,
    /// Last point at which it was seen before.
    pub last_seen: Option<Point>,
    /// The data had to be retransmitted, by the records.
    pub was_needed: bool,
    /// It entered the sender's interface queue and never left it.
    pub was_dropped_by_interface: bool,
    /// It had arrived, and the receiver's acknowledgment was dropped on this side's host, so that
    /// the sender's timer ran out.
    pub acknowledgment_dropped: Option<Side>,
}

impl Resent {
    /// From the transmission before to this one.
    pub(super) fn gap(&self) -> Option<Interval> {
        Some(Interval::new(self.before_ns?, self.at_ns))
    }
}
