//! One message into cells: the payload is read once for its CRC and once for its cells.

use super::frame::{Frame, TRAILER_BYTES, frame_bytes};
use crate::crc32::{Crc32, crc32};
use crate::{CELL_BYTES, Cell, Error, HEADER_BYTES, Header, Interface, PAYLOAD_BYTES, hec};

/// A message that becomes cells.
#[derive(Debug, Clone, Copy)]
pub struct Segmentation<'a> {
    payload: &'a [u8],
    trailer: [u8; TRAILER_BYTES],
    /// Octets 1 to 5 of every cell but the last.
    header: [u8; HEADER_BYTES],
    header_of_last: [u8; HEADER_BYTES],
}

impl<'a> Segmentation<'a> {
    /// Cells of `frame` on the channel of `header`, as seen at a UNI; the payload type of the header
    /// is not used but for its congestion bit, as the last bit marks the end.
    ///
    /// Fails when the payload is too long, or the VPI does not fit.
    pub fn new(frame: &Frame<'a>, header: &Header) -> Result<Self, Error> {
        let begin = frame.trailer()?;
        let crc = crc_of(frame.payload, begin);
        let mut trailer = [0; TRAILER_BYTES];
        trailer[..4].copy_from_slice(&begin);
        trailer[4..].copy_from_slice(&crc.to_be_bytes());
        let word = header.encode(Interface::Uni)? & !LAST;
        let payload = frame.payload;
        Ok(Self { payload, trailer, header: sealed(word), header_of_last: sealed(word | LAST) })
    }

    /// The number of cells, at least one.
    pub fn cells(&self) -> usize {
        frame_bytes(self.payload.len()) / PAYLOAD_BYTES
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
        let (full, rest) = self.payload.as_chunks();
        let (of_full, of_rest) = cells.split_at_mut(full.len());
        for (cell, data) in of_full.iter_mut().zip(full) {
            *cell.header_mut() = self.header;
            *cell.payload_mut() = *data;
        }
        self.write_end(rest, of_rest);
        Ok(needed)
    }

    /// All cells.
    pub fn to_cells(&self) -> Vec<Cell> {
        let mut cells = vec![Cell::default(); self.cells()];
        // As many as are needed.
        let written = self.write(&mut cells);
        debug_assert_eq!(written, Ok(cells.len()));
        cells
    }

    /// Writes the one or two cells that hold less than 48 octets of payload; `cells` is exactly these.
    fn write_end(&self, rest: &[u8], cells: &mut [Cell]) {
        let mut data = [0; 2 * PAYLOAD_BYTES];
        data[..rest.len()].copy_from_slice(rest);
        let octets = cells.len() * PAYLOAD_BYTES;
        data[octets - TRAILER_BYTES..octets].copy_from_slice(&self.trailer);
        for (cell, data) in cells.iter_mut().zip(data.as_chunks().0) {
            *cell.header_mut() = self.header;
            *cell.payload_mut() = *data;
        }
        if let Some(last) = cells.last_mut() {
            *last.header_mut() = self.header_of_last;
        }
    }
}

/// Frames up to here are put together to have their CRC taken, as a short one in several parts costs
/// more than the copy: a packet of 1,500 octets with its LLC/SNAP header fits.
const SHORT_FRAME_BYTES: usize = 1_536;

/// The CRC of payload, padding and the first four octets of the trailer.
fn crc_of(payload: &[u8], trailer: [u8; 4]) -> u32 {
    let octets = frame_bytes(payload.len());
    let padding = octets - payload.len() - TRAILER_BYTES;
    if octets <= SHORT_FRAME_BYTES {
        let mut frame = [0; SHORT_FRAME_BYTES];
        frame[..payload.len()].copy_from_slice(payload);
        frame[octets - TRAILER_BYTES..octets - 4].copy_from_slice(&trailer);
        return crc32(&frame[..octets - 4]);
    }
    let mut crc = Crc32::new();
    crc.append(payload);
    crc.append(&[0; PAYLOAD_BYTES][..padding]);
    crc.append(&trailer);
    crc.value()
}

/// The payload type bit that marks the last cell, in the header word.
const LAST: u32 = 0b0010;

fn sealed(word: u32) -> [u8; HEADER_BYTES] {
    let [first, second, third, fourth] = word.to_be_bytes();
    [first, second, third, fourth, hec::of_header(word)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aal5::encode;

    /// Across the length from which the CRC is taken in parts, too.
    #[test]
    fn cells_hold_the_frame_at_every_length() {
        let payload: Vec<u8> = (0..1_600).map(|at| (at * 7) as u8).collect();
        for length in (0..200).chain(1_500..1_600) {
            let content = Frame { user_to_user: 1, ..Frame::of_payload(&payload[..length]) };
            let mut frame = Vec::new();
            encode(&content, &mut frame).expect("short enough");
            let segmentation = Segmentation::new(&content, &Header::default()).expect("legal");
            let cells = segmentation.to_cells();
            let octets: Vec<u8> = cells.iter().flat_map(|cell| *cell.payload()).collect();
            assert_eq!(octets, frame, "{length}");
        }
    }

    #[test]
    fn a_buffer_that_is_too_short_stays_as_it_is() {
        let content = Frame::of_payload(&[7; 41]);
        let segmentation = Segmentation::new(&content, &Header::default()).expect("legal");
        let mut cells = [Cell::default(); 3];
        assert!(segmentation.write(&mut cells[..1]).is_err());
        assert_eq!(cells[0], Cell::default());
        assert_eq!(segmentation.write(&mut cells), Ok(2));
        assert_eq!(cells[2], Cell::default());
    }
}
