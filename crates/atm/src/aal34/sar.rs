//! The SAR-PDU: the 48 octets of one AAL3/4 cell (I.363 §4).
//!
//! ```text
//! octets 0-1     ST 2 | SN 4 | MID 10     with one bit moved: ST 2 | SN 5 | MID 9
//! octets 2-45    44 octets of data, zeros after the first LI
//! octets 46-47   LI 6 | CRC 10
//! ```

use crate::{Error, PAYLOAD_BYTES, crc10};

/// Octets of data in one cell.
pub const CELL_DATA_BYTES: usize = 44;

/// LI of an end of message that gives the message up (I.363 §4.2.3).
pub const LENGTH_ABORT: u8 = 63;

/// The trailer of a full cell, its CRC left to be filled in.
pub const TRAILER_OF_FULL_CELL: u16 = (CELL_DATA_BYTES as u16) << crc10::BITS;

/// Octets before the data.
const HEADER_BYTES: usize = 2;

/// The split of fourteen bits into the cell number and the message identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// I.363: 4 bits of sequence number, 10 of message identifier.
    #[default]
    Standard,
    /// Whateley, Figure 3: 5 and 9 bits, so that a packet of 1,092 octets is one message.
    FiveBit,
}

impl Format {
    /// Cells until the sequence number repeats: 16 or 32.
    pub const fn sequence_numbers(self) -> u32 {
        match self {
            Self::Standard => 16,
            Self::FiveBit => 32,
        }
    }

    /// Values that the message identifier can take: 1,024 or 512.
    pub const fn message_ids(self) -> u32 {
        1 << self.message_id_bits()
    }

    /// Octets of a message without a repeated cell number: 704 or 1,408.
    pub const fn numbered_bytes(self) -> usize {
        self.sequence_numbers() as usize * CELL_DATA_BYTES
    }

    /// The window that a sliding window protocol can have over message identifiers: half of them.
    pub const fn window(self) -> u32 {
        self.message_ids() / 2
    }

    /// The increment of a SAR header from one cell to the next: 0x400 or 0x200.
    pub const fn sequence_step(self) -> u16 {
        1 << self.message_id_bits()
    }

    /// The number that follows `sequence`.
    pub const fn next(self, sequence: u8) -> u8 {
        (sequence + 1) & (self.sequence_numbers() - 1) as u8
    }

    const fn message_id_bits(self) -> u32 {
        match self {
            Self::Standard => 10,
            Self::FiveBit => 9,
        }
    }
}

/// The place of a cell in its message (ST).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentType {
    /// COM, 00: neither first nor last.
    Continuation,
    /// EOM, 01: the last of several.
    End,
    /// BOM, 10: the first of several.
    Begin,
    /// SSM, 11: the only one.
    Single,
}

impl SegmentType {
    /// From the low two bits of `bits`.
    pub const fn from_bits(bits: u16) -> Self {
        match bits & 0b11 {
            0b00 => Self::Continuation,
            0b01 => Self::End,
            0b10 => Self::Begin,
            _ => Self::Single,
        }
    }

    /// In the low two bits.
    pub const fn bits(self) -> u16 {
        self as u16
    }

    /// Whether a message begins here.
    pub const fn is_first(self) -> bool {
        matches!(self, Self::Begin | Self::Single)
    }

    /// Whether a message ends here.
    pub const fn is_last(self) -> bool {
        matches!(self, Self::End | Self::Single)
    }
}

/// The first two octets of a SAR-PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SarHeader {
    /// Position in the message.
    pub segment_type: SegmentType,
    /// SN: counts the cells of one message, from any start, modulo 16 or 32.
    pub sequence: u8,
    /// MID: which of several interleaved messages of a channel.
    pub message_id: u16,
}

impl SarHeader {
    /// As the two octets, first octet high.
    ///
    /// Fails when a value does not fit its bits in `format`.
    pub fn encode(&self, format: Format) -> Result<u16, Error> {
        let sequence_max = format.sequence_numbers() as u16 - 1;
        let sequence = within("SN", self.sequence.into(), sequence_max)?;
        let message_id = within("MID", self.message_id, format.message_ids() as u16 - 1)?;
        Ok(self.segment_type.bits() << 14 | sequence << format.message_id_bits() | message_id)
    }

    /// Reads the two octets. Every value is some header.
    pub fn decode(word: u16, format: Format) -> Self {
        let sequence = word >> format.message_id_bits() & (format.sequence_numbers() as u16 - 1);
        Self {
            segment_type: SegmentType::from_bits(word >> 14),
            sequence: sequence as u8,
            message_id: word & (format.message_ids() as u16 - 1),
        }
    }
}

fn within(field: &'static str, value: u16, max: u16) -> Result<u16, Error> {
    if value <= max {
        return Ok(value);
    }
    Err(Error::Field { field, value: value.into(), max: max.into() })
}

/// A SAR-PDU where it lies. Reading a field checks nothing; see [`SarPdu::is_length_legal`].
#[derive(Debug, Clone, Copy)]
pub struct SarPdu<'a> {
    octets: &'a [u8; PAYLOAD_BYTES],
}

impl<'a> SarPdu<'a> {
    /// The payload of a cell.
    pub fn new(octets: &'a [u8; PAYLOAD_BYTES]) -> Self {
        Self { octets }
    }

    /// ST, SN and MID.
    pub fn header(&self, format: Format) -> SarHeader {
        SarHeader::decode(u16::from_be_bytes([self.octets[0], self.octets[1]]), format)
    }

    /// LI: octets of data, or [`LENGTH_ABORT`].
    pub fn length(&self) -> u8 {
        self.octets[PAYLOAD_BYTES - 2] >> 2
    }

    /// All 44 octets of data, filler included.
    pub fn data(&self) -> &'a [u8; CELL_DATA_BYTES] {
        self.octets[HEADER_BYTES..].first_chunk().expect("44 octets and a trailer follow")
    }

    /// Whether LI is allowed in a cell of this type.
    ///
    /// I.363 §4.2.3: 44 in BOM and COM, multiples of 4 from 4 on in EOM and from 8 on in SSM. With
    /// the 5-bit sequence number there is no CPCS that pads to 4, so that 1 to 44 may end a message.
    pub fn is_length_legal(&self, segment_type: SegmentType, format: Format) -> bool {
        let length = self.length();
        let (least, step) = match (segment_type, format) {
            (SegmentType::Begin | SegmentType::Continuation, _) => return length == 44,
            (_, Format::FiveBit) => (1, 1),
            (SegmentType::End, Format::Standard) => (4, 4),
            (SegmentType::Single, Format::Standard) => (8, 4),
        };
        (least..=44).contains(&length) && length.is_multiple_of(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_bit_moved_doubles_the_message_and_halves_the_window() {
        let sizes =
            |format: Format| (format.sequence_numbers(), format.numbered_bytes(), format.window());
        assert_eq!(sizes(Format::Standard), (16, 704, 512));
        assert_eq!(sizes(Format::FiveBit), (32, 1408, 256));
    }

    #[test]
    fn adding_0x200_numbers_the_25_cells_of_a_packet_and_changes_nothing_else() {
        let first =
            SarHeader { segment_type: SegmentType::Continuation, sequence: 0, message_id: 0x1ff };
        let mut word = first.encode(Format::FiveBit).expect("in range");
        assert_eq!(Format::FiveBit.sequence_step(), 0x200);
        for sequence in 0..25 {
            let expected = SarHeader { sequence, ..first };
            assert_eq!(SarHeader::decode(word, Format::FiveBit), expected);
            word += Format::FiveBit.sequence_step();
        }
    }

    #[test]
    fn a_message_id_that_lost_its_bit_is_refused() {
        let header = SarHeader { segment_type: SegmentType::Single, sequence: 0, message_id: 512 };
        assert_eq!(header.encode(Format::Standard), Ok(0xc200));
        let refused = Error::Field { field: "MID", value: 512, max: 511 };
        assert_eq!(header.encode(Format::FiveBit), Err(refused));
    }

    #[test]
    fn lengths_follow_the_rules_of_their_segment_type() {
        let legal = |segment_type, format| {
            let is_legal = |length: &u8| {
                let mut octets = [0; 48];
                octets[46] = length << 2;
                SarPdu::new(&octets).is_length_legal(segment_type, format)
            };
            (0..64).filter(is_legal).collect::<Vec<u8>>()
        };
        let from = |least| (least..=44).step_by(4).collect::<Vec<u8>>();
        assert_eq!(legal(SegmentType::Begin, Format::Standard), [44]);
        assert_eq!(legal(SegmentType::Continuation, Format::FiveBit), [44]);
        assert_eq!(legal(SegmentType::End, Format::Standard), from(4));
        assert_eq!(legal(SegmentType::Single, Format::Standard), from(8));
        assert_eq!(legal(SegmentType::End, Format::FiveBit), (1..=44).collect::<Vec<u8>>());
    }

    proptest! {
        #[test]
        fn every_header_is_read_and_written_back(word in any::<u16>()) {
            for format in [Format::Standard, Format::FiveBit] {
                prop_assert_eq!(SarHeader::decode(word, format).encode(format), Ok(word));
            }
        }
    }
}
