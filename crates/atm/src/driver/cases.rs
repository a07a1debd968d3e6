//! The last cell of a message by its length: Whateley's large case statement, as a table.

use crate::aal34::CELL_DATA_BYTES;
use crate::crc10;

/// Words of data in a full cell.
pub(super) const DATA_WORDS: usize = CELL_DATA_BYTES / 4;

/// The way to write a cell with so many octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FillCase {
    /// Whole words of the message.
    pub words: usize,
    /// Octets after them, which share a word with filler.
    pub octets: usize,
    /// Words of filler after that.
    pub filler_words: usize,
    /// The trailer word: LI, and the CRC left to the card.
    pub trailer: u32,
}

/// By octets of data; 0 is there only so that the index is the number.
pub(super) static CASES: [FillCase; CELL_DATA_BYTES + 1] = cases();

/// The trailer word of a full cell.
pub(super) const FULL_TRAILER: u32 = trailer(CELL_DATA_BYTES);

const fn trailer(octets: usize) -> u32 {
    // LI is above the CRC in the upper half of the word.
    (octets as u32) << (16 + crc10::BITS)
}

const fn cases() -> [FillCase; CELL_DATA_BYTES + 1] {
    let full = FillCase { words: DATA_WORDS, octets: 0, filler_words: 0, trailer: FULL_TRAILER };
    let mut cases = [full; CELL_DATA_BYTES + 1];
    let mut filled = 0;
    while filled < CELL_DATA_BYTES {
        cases[filled] = FillCase {
            words: filled / 4,
            octets: filled % 4,
            filler_words: (CELL_DATA_BYTES - filled) / 4,
            trailer: trailer(filled),
        };
        filled += 1;
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_fills_the_cell() {
        for (filled, case) in CASES.iter().enumerate() {
            let shared = usize::from(case.octets > 0);
            assert_eq!(case.words * 4 + case.octets, filled);
            assert_eq!(case.words + shared + case.filler_words, DATA_WORDS, "{filled}");
        }
        assert_eq!(CASES[24].trailer, 0x6000_0000);
        assert_eq!(CASES[44].trailer, 0xb000_0000);
    }
}
