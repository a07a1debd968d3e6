//! The sending half: one pass over the message, from memory to the card.

use thiserror::Error;

use super::cases::{CASES, DATA_WORDS, FULL_TRAILER, FillCase};
use super::host::Host;
use super::work::Work;
use crate::aal34::{CELL_DATA_BYTES, Format, SarHeader, SegmentType};
use crate::tca100::BusError;
use crate::tca100::map::{HEADER, PAYLOAD, TRAILER, TRANSMIT_QUEUE};
use crate::{Error, Header, Interface};

/// Octets that two cells hold: up to here the shorter path is taken. With a VMTP header of 68
/// octets these are messages with 0 to 20 octets of data, most of all messages (Whateley).
const TWO_CELLS_BYTES: usize = 2 * CELL_DATA_BYTES;

/// Why a message was not sent, or not wholly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SendError {
    /// It cannot be sent in this format; nothing was written.
    #[error(transparent)]
    Message(#[from] Error),
    /// The bus gave up while it was written.
    #[error(transparent)]
    Bus(#[from] BusError),
}

/// A driver's sending half for one channel, with the headers that its cells share made ready.
///
/// HEC and CRC-10 are left to the card: both pads are 0.
#[derive(Debug, Clone, Copy)]
pub struct Sender {
    format: Format,
    header: u32,
    is_flushing: bool,
}

impl Sender {
    /// Prepares a channel. Fails when its header does not fit a UNI.
    pub fn new(format: Format, header: &Header) -> Result<Self, Error> {
        Ok(Self { format, header: header.encode(Interface::Uni)?, is_flushing: true })
    }

    /// Leaves the write buffer alone. Behind one that reorders, this sends deformed cells.
    #[must_use]
    pub fn without_flushes(self) -> Self {
        Self { is_flushing: false, ..self }
    }

    /// Sends a message, and returns the number of its cells.
    ///
    /// Fails when it is empty, longer than the sequence number can count (704 or 1,408 octets), or
    /// its identifier does not fit; and on a bus error, which leaves a cell half written.
    pub fn send(
        &self,
        host: &mut impl Host,
        message_id: u16,
        message: &[u8],
    ) -> Result<usize, SendError> {
        let octets = message.len();
        let expected = "1 to 704, or 1408 with 5 bits";
        if octets == 0 || octets > self.format.numbered_bytes() {
            return Err(Error::Length { what: "message", octets, expected }.into());
        }
        let segment_type = SegmentType::Continuation;
        let first = SarHeader { segment_type, sequence: 0, message_id }.encode(self.format)?;
        if octets > CELL_DATA_BYTES && octets <= TWO_CELLS_BYTES {
            self.send_two_cells(host, first, message)?;
            return Ok(2);
        }
        self.send_cells(host, first, message)
    }

    /// The path for two cells: no loop, no sequence number to step.
    fn send_two_cells(
        &self,
        host: &mut impl Host,
        first: u16,
        message: &[u8],
    ) -> Result<(), BusError> {
        host.work(Work::TwoCellSetup);
        let (full, rest) = message.split_at(CELL_DATA_BYTES);
        let begin = first | SegmentType::Begin.bits() << 14;
        let end = (first | SegmentType::End.bits() << 14) + self.format.sequence_step();
        self.flush(host)?;
        self.write_full(host, begin, full)?;
        self.write_last(host, end, rest)
    }

    /// The general path: full cells in a loop, then the last one by its case.
    fn send_cells(
        &self,
        host: &mut impl Host,
        first: u16,
        message: &[u8],
    ) -> Result<usize, SendError> {
        host.work(Work::MessageSetup);
        self.flush(host)?;
        let full_cells = (message.len() - 1) / CELL_DATA_BYTES;
        let (full, last) = message.split_at(full_cells * CELL_DATA_BYTES);
        let mut sar_header = first;
        let mut segment_type = SegmentType::Begin;
        for data in full.chunks_exact(CELL_DATA_BYTES) {
            host.work(Work::CellLoop);
            self.write_full(host, sar_header | segment_type.bits() << 14, data)?;
            host.work(Work::SequenceStep);
            sar_header += self.format.sequence_step();
            segment_type = SegmentType::Continuation;
        }
        let segment_type = if full_cells == 0 { SegmentType::Single } else { SegmentType::End };
        self.write_last(host, sar_header | segment_type.bits() << 14, last)?;
        Ok(full_cells + 1)
    }

    /// A cell of 44 octets.
    fn write_full(&self, host: &mut impl Host, sar: u16, data: &[u8]) -> Result<(), BusError> {
        self.write_headers(host, sar)?;
        for word in data.as_chunks().0 {
            write_data(host, u32::from_le_bytes(*word))?;
        }
        self.write_trailer(host, FULL_TRAILER)
    }

    /// The last cell, of 1 to 44 octets.
    fn write_last(&self, host: &mut impl Host, sar: u16, data: &[u8]) -> Result<(), BusError> {
        host.work(Work::FillCase);
        let FillCase { words, octets, filler_words, trailer } = CASES[data.len()];
        debug_assert!(words <= DATA_WORDS);
        self.write_headers(host, sar)?;
        let (whole, rest) = data.as_chunks();
        for word in whole {
            write_data(host, u32::from_le_bytes(*word))?;
        }
        if octets > 0 {
            let mut shared = [0; 4];
            shared[..octets].copy_from_slice(rest);
            host.work(Work::DataLoadPart);
            host.write(Work::DataWrite, TRANSMIT_QUEUE + PAYLOAD, u32::from_le_bytes(shared))?;
        }
        for _ in 0..filler_words {
            host.write(Work::FillerWrite, TRANSMIT_QUEUE + PAYLOAD, 0)?;
        }
        self.write_trailer(host, trailer)
    }

    /// Both header words. The buffer is empty before, as it is after every trailer.
    fn write_headers(&self, host: &mut impl Host, sar: u16) -> Result<(), BusError> {
        host.write(Work::HeaderWrite, TRANSMIT_QUEUE + HEADER, self.header)?;
        self.flush(host)?;
        host.write(Work::SarHeaderWrite, TRANSMIT_QUEUE + PAYLOAD, sar.into())
    }

    fn write_trailer(&self, host: &mut impl Host, trailer: u32) -> Result<(), BusError> {
        self.flush(host)?;
        host.write(Work::TrailerWrite, TRANSMIT_QUEUE + TRAILER, trailer)?;
        self.flush(host)
    }

    fn flush(&self, host: &mut impl Host) -> Result<(), BusError> {
        if self.is_flushing { host.flush() } else { Ok(()) }
    }
}

/// A word of the message, which crosses the bus twice: out of memory and into the card. All twelve
/// payload words go to one address, whose writes no buffer reorders.
fn write_data(host: &mut impl Host, word: u32) -> Result<(), BusError> {
    host.work(Work::DataLoad);
    host.write(Work::DataWrite, TRANSMIT_QUEUE + PAYLOAD, word)
}
