//! Cells and messages in files that packet analysers read.
//!
//! | data | format | fields in tshark |
//! |---|---|---|
//! | whole AAL5 frames | [`Erf`], a pcap file | header fields, length, CRC-32 judged, LLC/SNAP and above |
//! | AAL5 messages | [`SunAtm`], a pcap file that tcpdump reads, too | LLC/SNAP and above |
//! | single cells | [`Erf`] | header fields |
//! | single cells of AAL3/4 | [`Sniffer`] | HEC with the bit in error, SAR fields, CRC-10 judged |
//!
//! Everything is written to a [`Write`](std::io::Write) that the caller brings. Times are
//! nanoseconds since 1970 where the file should show a date, or of any other clock.

mod erf;
mod pcap;
mod sniffer;
mod sunatm;

pub use erf::Erf;
pub use sniffer::{Sniffer, Traffic};
pub use sunatm::SunAtm;

/// Which way a cell or message went, seen from the side that captured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// It arrived.
    #[default]
    Received,
    /// It was sent.
    Sent,
}
