//! AAL5 (I.363): messages cut into cells that carry 48 octets each, with one CRC over all of them.
//!
//! ```text
//! payload, 0 to 65,535 octets | PAD 0 to 47 | UU 8 | CPI 8 | Length 16 | CRC 32
//! ```
//!
//! The whole is a multiple of 48; the cell that ends it is marked in its header
//! ([`PayloadType::is_last`](crate::PayloadType::is_last)). There is no sequence number: a lost cell
//! shows in length or CRC.

mod frame;
mod reassembly;
mod segmentation;

pub use frame::{
    FRAME_BYTES_MAX, Frame, PAYLOAD_BYTES_MAX, TRAILER_BYTES, decode, encode, frame_bytes,
};
pub use reassembly::{Counters, Dropped, Limits, Outcome, Reason, Reassembler};
pub use segmentation::Segmentation;
