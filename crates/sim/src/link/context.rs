//! The context of a link of any kind: its number, its stations, its counts, and the events and
//! frames of the simulation while it works. Times are nanoseconds.

use super::frames::Frames;
use super::port::Port;
use crate::event::{Event, EventQueue};

/// A link's place in the scenario.
pub type LinkId = usize;

/// A station of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Station {
    pub(crate) port: Port,
    /// The bytes that frames for it begin with.
    pub(crate) address: Vec<u8>,
    /// [`Driver::receive_hold_ns`](crate::machine::Driver::receive_hold_ns) of its host.
    pub(crate) hold_ns: u64,
}

/// The counts of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounts {
    /// Frames that went out whole.
    pub frames: u64,
    /// Bytes of these, link headers included.
    pub bytes: u64,
    /// Transmissions that met another one.
    pub collisions: u64,
    /// Frames of stations that are not modelled, which the other counts leave out.
    pub other_frames: u64,
    /// Frames given up after too many collisions.
    pub given_up: u64,
    /// Frames that faults lost, doubled, held back and damaged.
    pub lost: u64,
    /// See [`LinkCounts::lost`].
    pub duplicated: u64,
    /// See [`LinkCounts::lost`].
    pub reordered: u64,
    /// See [`LinkCounts::lost`].
    pub corrupted: u64,
    /// Time that the medium carried whole frames, summed over directions, in nanoseconds.
    pub busy_ns: u64,
}

/// State shared by the links while one of them works.
pub(crate) struct LinkContext<'a> {
    pub(crate) now_ns: u64,
    pub(crate) events: &'a mut EventQueue<Event>,
    pub(crate) frames: &'a mut Frames,
}

/// Nanoseconds that so many bytes take; 0 without a limit.
pub(super) fn serial_ns(bytes: u64, bits_per_s: u64) -> u64 {
    (bytes * 8 * 1_000_000_000).checked_div(bits_per_s).unwrap_or(0)
}
