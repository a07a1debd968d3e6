//! Refusals: values that no field can hold, and octets that no sender may send.

use thiserror::Error;

/// Why a value cannot be sent, or octets cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Error {
    /// A header field does not fit its bits on this interface.
    #[error("{field} is {value}, at most {max} fits this interface")]
    Field {
        /// The field's name in I.361.
        field: &'static str,
        /// The requested value.
        value: u32,
        /// The largest value that fits.
        max: u32,
    },
    /// The octets have not the length that the format demands.
    #[error("{what} of {octets} octets, expected {expected}")]
    Length {
        /// The data being read or written.
        what: &'static str,
        /// The number of octets.
        octets: usize,
        /// The right length.
        expected: &'static str,
    },
    /// The CRC carried and the CRC found differ.
    #[error("CRC {carried:#010x} carried, {found:#010x} found")]
    Crc {
        /// Its value in the octets.
        carried: u32,
        /// As it follows from them.
        found: u32,
    },
    /// Begin tag and end tag of an AAL3/4 CPCS-PDU differ: two messages have run together.
    #[error("begin tag {begin}, end tag {end}")]
    Tags {
        /// Btag.
        begin: u8,
        /// Etag.
        end: u8,
    },
    /// The length field does not fit the octets around it.
    #[error("length field {field}, with {octets} octets of payload and padding")]
    LengthField {
        /// Its value in the trailer.
        field: u16,
        /// Octets between header and trailer.
        octets: usize,
    },
    /// The sender gave the message up: AAL5 with length 0.
    #[error("message aborted by its sender")]
    Aborted,
}
