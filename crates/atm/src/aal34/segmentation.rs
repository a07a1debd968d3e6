//! One message into cells, each written once: its data is copied from the message straight to the
//! cell, and any cell can be written again by itself when it was lost.

use super::sar::{CELL_DATA_BYTES, Format, SarHeader, SegmentType};
use crate::{CELL_BYTES, Cell, Error, Header, Interface, crc10, hec};

/// Octets of a cell before its data: header, HEC and SAR header.
const DATA_AT: usize = 7;

/// Cells that a message of `bytes` octets fills.
pub const fn cells_for(bytes: usize) -> usize {
    bytes.div_ceil(CELL_DATA_BYTES)
}

/// A message that becomes cells.
#[derive(Debug, Clone, Copy)]
pub struct Segmentation<'a> {
    message: &'a [u8],
    format: Format,
    /// Octets 1 to 5, the same in every cell of the message.
    header: [u8; 5],
    /// SAR header of a COM numbered 0.
    sar_header: u16,
    first_sequence: u8,
}

impl<'a> Segmentation<'a> {
    /// Cells of `message` on the channel of `header`, as seen at a UNI, numbered from 0.
    ///
    /// Fails when the message is empty or too long, or an identifier does not fit. With the
    /// standard format the message is a CPCS frame: a multiple of 4, 8 octets or more. With the
    /// 5-bit sequence number it may be 1 to 1,408 octets, so that no number repeats in it.
    pub fn new(
        message: &'a [u8],
        format: Format,
        header: &Header,
        message_id: u16,
    ) -> Result<Self, Error> {
        let octets = message.len();
        let (is_legal, expected) = match format {
            Format::Standard => (
                octets.is_multiple_of(4) && (8..=super::cpcs::FRAME_BYTES_MAX).contains(&octets),
                "a multiple of 4 from 8 to 65544",
            ),
            Format::FiveBit => ((1..=format.numbered_bytes()).contains(&octets), "1 to 1408"),
        };
        if !is_legal {
            return Err(Error::Length { what: "SAR message", octets, expected });
        }
        let segment_type = SegmentType::Continuation;
        let sar_header = SarHeader { segment_type, sequence: 0, message_id }.encode(format)?;
        let header = header.encode(Interface::Uni)?;
        let [first, second, third, fourth] = header.to_be_bytes();
        let header = [first, second, third, fourth, hec::of_header(header)];
        Ok(Self { message, format, header, sar_header, first_sequence: 0 })
    }

    /// Numbers the cells from `sequence` on (I.363 lets a sender begin anywhere), modulo 16 or 32.
    #[must_use]
    pub fn numbered_from(mut self, sequence: u8) -> Self {
        self.first_sequence = sequence & (self.format.sequence_numbers() - 1) as u8;
        self
    }

    /// The number of cells, at least one.
    pub fn cells(&self) -> usize {
        cells_for(self.message.len())
    }

    /// Writes cell `at`, counted from 0; `false` and nothing written beyond the last.
    pub fn write_cell(&self, at: usize, cell: &mut Cell) -> bool {
        let Some(rest) = self.message.get(at * CELL_DATA_BYTES..) else { return false };
        if rest.is_empty() {
            return false;
        }
        match rest.first_chunk() {
            Some(data) => self.fill(at, data, CELL_DATA_BYTES, cell),
            None => {
                let mut data = [0; CELL_DATA_BYTES];
                data[..rest.len()].copy_from_slice(rest);
                self.fill(at, &data, rest.len(), cell);
            }
        }
        true
    }

    /// Writes all cells to the front of `cells` and returns their number.
    ///
    /// Fails, with nothing written, when `cells` is too short.
    pub fn write(&self, cells: &mut [Cell]) -> Result<usize, Error> {
        let needed = self.cells();
        let room = cells.len();
        let too_few =
            Error::Length { what: "cell buffer", octets: room * CELL_BYTES, expected: "53 a cell" };
        let cells = cells.get_mut(..needed).ok_or(too_few)?;
        for (at, cell) in cells.iter_mut().enumerate() {
            self.write_cell(at, cell);
        }
        Ok(needed)
    }

    /// The cells one after the other.
    pub fn iter(&self) -> impl Iterator<Item = Cell> + use<'a> {
        let this = *self;
        (0..this.cells()).map(move |at| {
            let mut cell = Cell::default();
            this.write_cell(at, &mut cell);
            cell
        })
    }

    #[inline]
    fn fill(&self, at: usize, data: &[u8; CELL_DATA_BYTES], length: usize, cell: &mut Cell) {
        let octets = cell.octets_mut();
        octets[..5].copy_from_slice(&self.header);
        octets[5..DATA_AT].copy_from_slice(&self.sar_header_of(at).to_be_bytes());
        octets[DATA_AT..DATA_AT + CELL_DATA_BYTES].copy_from_slice(data);
        octets[51..].copy_from_slice(&[(length as u8) << 2, 0]);
        crc10::insert(cell.payload_mut());
    }

    fn sar_header_of(&self, at: usize) -> u16 {
        let segment_type = match (at == 0, at + 1 == self.cells()) {
            (true, true) => SegmentType::Single,
            (true, false) => SegmentType::Begin,
            (false, true) => SegmentType::End,
            (false, false) => SegmentType::Continuation,
        };
        // Modulo 16 or 32 by masking, so that an overflow does not reach ST.
        let sequence = (at as u16 + u16::from(self.first_sequence))
            & (self.format.sequence_numbers() as u16 - 1);
        self.sar_header | segment_type.bits() << 14 | (sequence * self.format.sequence_step())
    }
}
