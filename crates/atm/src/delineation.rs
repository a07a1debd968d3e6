//! Cells found in a stream of octets by their HEC (I.432 §4.5), for lines that do not mark where a
//! cell begins. The stream is aligned to octets, as in SDH.

use crate::{CELL_BYTES, Cell, HEADER_BYTES, hec};

/// Wrong headers in a row after which the place of cells is lost: ALPHA.
pub const WRONG_HEADERS_MAX: u32 = 7;

/// Right headers in a row after which the place of cells is believed: DELTA, 6 for SDH.
pub const RIGHT_HEADERS: u32 = 6;

/// The certainty of the place of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Not known: every octet may begin a header.
    #[default]
    Hunt,
    /// So many right headers have followed the first, each where it should.
    Presync(u32),
    /// Known; so many wrong headers arrived in a row just now.
    Sync(u32),
}

/// The receiving end of one line.
#[derive(Debug, Clone)]
pub struct Delineator {
    state: State,
    octets: [u8; CELL_BYTES],
    filled: usize,
}

impl Delineator {
    /// An end that knows nothing yet.
    pub fn new() -> Self {
        Self { state: State::Hunt, octets: [0; CELL_BYTES], filled: 0 }
    }

    /// The certainty of the place of cells.
    pub fn state(&self) -> State {
        self.state
    }

    /// Takes the next octet, and returns the cell that it completes. Cells are returned only once
    /// their place is known; idle ones and ones with a wrong header are among them, the latter for
    /// [`hec::Receiver`] to judge.
    pub fn push(&mut self, octet: u8) -> Option<Cell> {
        self.octets[self.filled] = octet;
        self.filled += 1;
        if self.filled == HEADER_BYTES {
            self.judge_header();
        }
        if self.filled < CELL_BYTES {
            return None;
        }
        self.filled = 0;
        matches!(self.state, State::Sync(_)).then_some(Cell::from_octets(self.octets))
    }

    fn judge_header(&mut self) {
        let header = self.octets.first_chunk().expect("a cell is longer than its header");
        let is_right = hec::syndrome(header) == 0;
        self.state = match (self.state, is_right) {
            (State::Hunt, true) => State::Presync(0),
            (State::Presync(right), true) if right + 1 == RIGHT_HEADERS => State::Sync(0),
            (State::Presync(right), true) => State::Presync(right + 1),
            (State::Sync(_), true) => State::Sync(0),
            (State::Sync(wrong), false) if wrong + 1 < WRONG_HEADERS_MAX => State::Sync(wrong + 1),
            (_, false) => State::Hunt,
        };
        if self.state == State::Hunt {
            // The next header may begin with the second of these octets.
            self.octets.copy_within(1..HEADER_BYTES, 0);
            self.filled = HEADER_BYTES - 1;
        }
    }
}

impl Default for Delineator {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cell(at: usize) -> Cell {
        // Payloads that hold no right header by chance: zeros would, shifted, give 55 the HEC.
        Cell::with_header_word(0x200 + ((at as u32) << 8), &[0xa5; 48])
    }

    fn stream(cells: impl Iterator<Item = Cell>) -> Vec<u8> {
        cells.flat_map(|cell| *cell.octets()).collect()
    }

    fn found(end: &mut Delineator, octets: &[u8]) -> Vec<Cell> {
        octets.iter().filter_map(|&octet| end.push(octet)).collect()
    }

    #[test]
    fn cells_come_from_the_sixth_right_header_after_the_first() {
        for slip in 0..CELL_BYTES {
            let mut end = Delineator::new();
            let cells = found(&mut end, &stream((0..20).map(cell))[slip..]);
            let first = 6 + usize::from(slip > 0);
            assert_eq!(cells, (first..20).map(cell).collect::<Vec<_>>(), "{slip} octets lost");
        }
    }

    #[test]
    fn six_wrong_headers_are_borne_and_the_seventh_begins_the_hunt() {
        let wrong = |count: usize| {
            let mut end = Delineator::new();
            found(&mut end, &stream((0..10).map(cell)));
            let damaged = (0..count).map(|at| {
                let mut cell = cell(at);
                cell.octets_mut()[4] ^= 0x18;
                cell
            });
            let cells = found(&mut end, &stream(damaged)).len();
            (end.state(), cells)
        };
        assert_eq!(wrong(6), (State::Sync(6), 6));
        assert_eq!(wrong(7), (State::Hunt, 6));
    }

    #[test]
    fn a_lost_octet_is_found_out_and_cells_come_again() {
        let mut octets = stream((0..40).map(cell));
        octets.remove(15 * CELL_BYTES + 30);
        let cells = found(&mut Delineator::new(), &octets);
        assert_eq!(cells.last(), Some(&cell(39)));
        assert!(cells.len() > 20, "{}", cells.len());
    }

    proptest! {
        #[test]
        fn any_octets_before_only_delay(noise in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut end = Delineator::new();
            found(&mut end, &noise);
            let cells = found(&mut end, &stream((0..200).map(cell)));
            prop_assert_eq!(cells.last(), Some(&cell(199)));
        }
    }
}
