//! AAL3/4 (I.363): messages cut into cells that carry 44 octets each, with a CRC over every cell.
//!
//! The lower part (SAR) numbers and checks cells, [`Segmentation`] and [`Reassembler`] are its two
//! ends; the upper part ([`cpcs`]) frames a message so that two messages run together are noticed.
//! Whateley used SAR alone, with one bit moved from the message identifier to the sequence number:
//! [`Format::FiveBit`].

pub mod cpcs;
mod reassembly;
mod repair;
mod sar;
mod segmentation;
mod slot;

pub use reassembly::{Counters, Limits, Outcome, Policy, Reassembler, TimerEvent};
pub use sar::{
    CELL_DATA_BYTES, Format, LENGTH_ABORT, SarHeader, SarPdu, SegmentType, TRAILER_OF_FULL_CELL,
};
pub use segmentation::{Segmentation, cells_for};
pub use slot::{Dropped, Key, Missing, Reason};

#[cfg(test)]
mod tests;
