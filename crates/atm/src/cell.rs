//! One cell: 53 octets, in the order in which they are sent.

use std::fmt;

use crate::{CELL_BYTES, Error, HEADER_BYTES, Header, Interface, PAYLOAD_BYTES, hec};

/// A cell as it travels. Its HEC may be wrong: [`hec::Receiver`] judges it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Cell {
    octets: [u8; CELL_BYTES],
}

impl Cell {
    /// The cell that the physical layer sends without other cells (I.432 §4.4).
    pub const IDLE: Self = {
        let mut octets = [0x6a; CELL_BYTES];
        let header = [0, 0, 0, 1, 0x52];
        let mut at = 0;
        while at < HEADER_BYTES {
            octets[at] = header[at];
            at += 1;
        }
        Self { octets }
    };

    /// A cell of these octets.
    pub const fn from_octets(octets: [u8; CELL_BYTES]) -> Self {
        Self { octets }
    }

    /// A cell with this header word, the HEC that belongs to it, and this payload.
    pub fn with_header_word(header: u32, payload: &[u8; PAYLOAD_BYTES]) -> Self {
        let mut cell = Self { octets: [0; CELL_BYTES] };
        cell.octets[..4].copy_from_slice(&header.to_be_bytes());
        cell.octets[4] = hec::of_header(header);
        cell.octets[HEADER_BYTES..].copy_from_slice(payload);
        cell
    }

    /// A cell with this header and payload. Fails when the header does not fit the interface.
    pub fn new(
        header: &Header,
        interface: Interface,
        payload: &[u8; PAYLOAD_BYTES],
    ) -> Result<Self, Error> {
        Ok(Self::with_header_word(header.encode(interface)?, payload))
    }

    /// The octets in the order in which they are sent.
    pub fn octets(&self) -> &[u8; CELL_BYTES] {
        &self.octets
    }

    /// The octets, to change.
    #[must_use]
    pub fn octets_mut(&mut self) -> &mut [u8; CELL_BYTES] {
        &mut self.octets
    }

    /// Octets 1 to 5: header and HEC, to check and to correct.
    #[must_use]
    pub fn header_mut(&mut self) -> &mut [u8; HEADER_BYTES] {
        self.octets.first_chunk_mut().expect("a cell is longer than its header")
    }

    /// Octets 1 to 5.
    pub fn header_octets(&self) -> &[u8; HEADER_BYTES] {
        self.octets.first_chunk().expect("a cell is longer than its header")
    }

    /// The word that octets 1 to 4 make.
    pub fn header_word(&self) -> u32 {
        let [first, second, third, fourth, _] = *self.header_octets();
        u32::from_be_bytes([first, second, third, fourth])
    }

    /// The header, read as at `interface`.
    pub fn header(&self, interface: Interface) -> Header {
        Header::decode(self.header_word(), interface)
    }

    /// Octets 6 to 53.
    pub fn payload(&self) -> &[u8; PAYLOAD_BYTES] {
        self.octets.last_chunk().expect("a cell is longer than its payload")
    }

    /// Octets 6 to 53, to change.
    #[must_use]
    pub fn payload_mut(&mut self) -> &mut [u8; PAYLOAD_BYTES] {
        self.octets.last_chunk_mut().expect("a cell is longer than its payload")
    }
}

impl Default for Cell {
    /// An unassigned cell (I.361 §2.2.3) with a payload of zeros.
    fn default() -> Self {
        Self::with_header_word(0, &[0; PAYLOAD_BYTES])
    }
}

impl TryFrom<&[u8]> for Cell {
    type Error = Error;

    /// Fails when there are not exactly 53 octets.
    fn try_from(octets: &[u8]) -> Result<Self, Error> {
        let length = Error::Length { what: "cell", octets: octets.len(), expected: "53" };
        octets.try_into().map(Self::from_octets).map_err(|_| length)
    }
}

impl fmt::Debug for Cell {
    /// Header, HEC and payload in hexadecimal, as vectors are printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x} {:02x} ", self.header_word(), self.octets[4])?;
        self.payload().iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Channel;

    #[test]
    fn a_cell_is_header_hec_and_payload() {
        let header = Header::of_channel(Channel::of_path_0(32));
        let cell = Cell::new(&header, Interface::Uni, &[0xab; 48]).expect("a small VPI");
        assert_eq!(cell.header_octets(), &[0, 0, 2, 0, 0x7f]);
        assert_eq!(cell.header(Interface::Uni), header);
        assert_eq!(format!("{cell:?}"), format!("00000200 7f {}", "ab".repeat(48)));
    }

    #[test]
    fn idle_and_unassigned_cells_carry_the_published_hec() {
        assert_eq!(hec::syndrome(Cell::IDLE.header_octets()), 0);
        assert_eq!(Cell::default().header_octets(), &[0, 0, 0, 0, 0x55]);
    }

    #[test]
    fn a_cell_is_53_octets_and_no_other_number() {
        let refused = Cell::try_from(&[0u8; 52][..]).expect_err("52 octets");
        assert_eq!(refused.to_string(), "cell of 52 octets, expected 53");
        assert!(Cell::try_from(&[0u8; 53][..]).is_ok());
    }
}
