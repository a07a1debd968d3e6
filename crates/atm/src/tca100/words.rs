//! A cell as fourteen words (Whateley, Figure 2), and its two pads.
//!
//! ```text
//! word 0       b0  b1   b2 b3     header, as a number
//! word 1       b4  Pad1 b5 b6     HEC and SAR header, as numbers
//! words 2-12   b(4k+2) .. b(4k-1) data, so that a little-endian store puts b(4k-1) first
//! word 13      b51 b52  Pad2      SAR trailer, as a number
//! ```
//!
//! Words are the values that a load or store has in a register.

use crate::{CELL_BYTES, Cell, crc10, hec};

/// Words of a cell in a queue.
pub const CELL_WORDS: usize = 14;

/// Pad1 of a cell to send, in word 1: governs whether the card fills in the HEC.
pub const PAD1_HEC: u32 = 0x0001_0000;

/// Pad1 of a cell to send, in word 1: governs whether the card fills in the CRC-10.
pub const PAD1_CRC: u32 = 0x0002_0000;

/// Pad2 of a cell received, in word 13: it did not have 53 octets.
pub const PAD2_FRAMING_ERROR: u32 = 0x1;

/// Pad2 of a cell received, in word 13: its HEC is wrong. 1 means wrong, as Mach has it.
pub const PAD2_HEADER_ERROR: u32 = 0x2;

/// Pad2 of a cell received, in word 13: its CRC-10 is wrong, which has no meaning without AAL3/4.
pub const PAD2_PAYLOAD_ERROR: u32 = 0x4;

/// Where in word 13 the syndrome of the CRC-10 begins.
pub const PAD2_SYNDROME_SHIFT: u32 = 6;

/// A cell as the receive queue presents it: its octets and its errors.
///
/// A cell that is too short is filled up with zeros, one that is too long cut, and both are marked.
pub fn of_received(octets: &[u8]) -> [u32; CELL_WORDS] {
    let mut whole = [0; CELL_BYTES];
    let present = octets.len().min(CELL_BYTES);
    whole[..present].copy_from_slice(&octets[..present]);
    let cell = Cell::from_octets(whole);
    let header = hec::syndrome(cell.header_octets());
    let payload = crc10::syndrome(cell.payload());
    let mark = |is_wrong: bool, bit: u32| if is_wrong { bit } else { 0 };
    let mut words = of_cell(&cell);
    words[1] |= u32::from(header) << 16;
    words[13] |= mark(octets.len() != CELL_BYTES, PAD2_FRAMING_ERROR)
        | mark(header != 0, PAD2_HEADER_ERROR)
        | mark(payload != 0, PAD2_PAYLOAD_ERROR)
        | u32::from(payload) << PAD2_SYNDROME_SHIFT;
    words
}

/// The words of a cell, both pads 0.
pub fn of_cell(cell: &Cell) -> [u32; CELL_WORDS] {
    let octets = cell.octets();
    let mut words = [0; CELL_WORDS];
    words[0] = cell.header_word();
    words[1] = u32::from_be_bytes([octets[4], 0, octets[5], octets[6]]);
    for (word, data) in words[2..13].iter_mut().zip(octets[7..51].as_chunks().0) {
        *word = u32::from_le_bytes(*data);
    }
    words[13] = u32::from_be_bytes([octets[51], octets[52], 0, 0]);
    words
}

/// The cell in these words, for any pads.
pub fn to_cell(words: &[u32; CELL_WORDS]) -> Cell {
    let mut octets = [0; CELL_BYTES];
    octets[..4].copy_from_slice(&words[0].to_be_bytes());
    let [hec, _, sar @ ..] = words[1].to_be_bytes();
    octets[4] = hec;
    octets[5..7].copy_from_slice(&sar);
    for (data, word) in octets[7..51].as_chunks_mut().0.iter_mut().zip(&words[2..13]) {
        *data = word.to_le_bytes();
    }
    octets[51..].copy_from_slice(&words[13].to_be_bytes()[..2]);
    Cell::from_octets(octets)
}

/// Whether a cell ends a message: ST is EOM or SSM. The card's own criterion is not known.
pub fn ends_message(words: &[u32; CELL_WORDS]) -> bool {
    words[1] & 0x4000 != 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The words of `tca100.csv` next to the octets of `sar.csv`, line by line.
    #[test]
    fn words_and_octets_of_the_vectors_are_the_same_cells() {
        let words = include_str!("../../tests/vectors/tca100.csv").lines().skip(1);
        let octets = include_str!("../../tests/vectors/sar.csv").lines().skip(1);
        let mut cells = 0;
        for (words, octets) in words.zip(octets) {
            let mut expected: Vec<u32> = words
                .rsplit(',')
                .take(CELL_WORDS)
                .map(|word| u32::from_str_radix(word, 16).unwrap())
                .collect();
            expected.reverse();
            let hex = octets.rsplit(',').next().unwrap();
            let octets: Vec<u8> = (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                .collect();
            assert_eq!(of_received(&octets)[..], expected[..], "{words}");
            let cell = to_cell(expected[..].try_into().unwrap());
            assert_eq!(cell.octets()[..], octets[..], "{words}");
            cells += 1;
        }
        assert_eq!(cells, 40);
    }

    #[test]
    fn pads_say_what_is_wrong_and_where() {
        let mut cell = Cell::default();
        let pads = |octets: &[u8]| {
            let words = of_received(octets);
            (words[1] >> 16 & 0xff, words[13] & 0xffff)
        };
        assert_eq!(pads(cell.octets()), (0, 0));
        cell.octets_mut()[0] ^= 0x80;
        assert_eq!(pads(cell.octets()), (0x31, PAD2_HEADER_ERROR), "bit 0 of the header");
        cell.octets_mut()[0] ^= 0x80;
        cell.octets_mut()[5] ^= 0x80;
        let expected = PAD2_PAYLOAD_ERROR | 0x1f3 << PAD2_SYNDROME_SHIFT;
        assert_eq!(pads(cell.octets()), (0, expected), "bit 0 of the payload");
        cell.octets_mut()[5] ^= 0x80;
        assert_eq!(pads(&cell.octets()[..49]), (0, PAD2_FRAMING_ERROR));
    }

    proptest! {
        #[test]
        fn words_hold_every_octet(octets in prop::collection::vec(any::<u8>(), CELL_BYTES)) {
            let cell = Cell::try_from(&octets[..]).unwrap();
            prop_assert_eq!(to_cell(&of_cell(&cell)), cell);
            prop_assert_eq!(to_cell(&of_received(&octets)), cell);
        }
    }
}
