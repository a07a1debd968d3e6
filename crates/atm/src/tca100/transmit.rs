//! The transmit queue and engine.
//!
//! Each word is queued with its address. A trailer releases all words before it; a header begins a
//! new cell on the line, so that words in a wrong order leave as deformed cells: pieces that are
//! too short, or one that is too long. The engine takes words evenly over the time that the cell
//! needs on the line.

use std::collections::VecDeque;

use super::line::{LineCell, LineClock};
use super::map::QueueWord;
use super::words::{CELL_WORDS, PAD1_CRC, PAD1_HEC};
use super::{LINE_BITS_PER_S, TRANSMIT_WORDS};
use crate::{Cell, crc10, hec};

/// The effect of a set bit of Pad1 on a CRC of a cell to be sent.
///
/// The sources differ: Whateley writes that the bit is turned off for cells without the CRC, Mach's
/// working driver writes zeros and counts on both CRCs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pad1Polarity {
    /// One leaves the octets as they were written: Mach.
    #[default]
    OneSuppresses,
    /// One has the card fill the CRC in: Whateley.
    OneInserts,
}

impl Pad1Polarity {
    fn inserts(self, is_one: bool) -> bool {
        match self {
            Self::OneSuppresses => !is_one,
            Self::OneInserts => is_one,
        }
    }
}

/// Words that were released together as one cell, well formed or not.
#[derive(Debug)]
struct Piece {
    words: Vec<u32>,
    /// Whether its last word was a trailer, which is sent only by half.
    has_trailer: bool,
    released_ns: u64,
}

#[derive(Debug)]
pub(super) struct TransmitQueue {
    /// Written and not yet released.
    partial: Vec<(QueueWord, u32)>,
    released: VecDeque<Piece>,
    /// Words of the first piece that the engine has taken; `None` when it has not begun.
    taken: Option<usize>,
    released_words: usize,
    line: LineClock,
    polarity: Pad1Polarity,
    /// The engine was off until then.
    enabled_ns: u64,
}

impl Default for TransmitQueue {
    fn default() -> Self {
        Self::new(LINE_BITS_PER_S, Pad1Polarity::default())
    }
}

impl TransmitQueue {
    pub fn new(bits_per_s: u64, polarity: Pad1Polarity) -> Self {
        Self {
            partial: Vec::new(),
            released: VecDeque::new(),
            taken: None,
            released_words: 0,
            line: LineClock::new(bits_per_s),
            polarity,
            enabled_ns: 0,
        }
    }

    /// Words in the queue.
    pub fn words(&self) -> usize {
        self.released_words - self.taken.unwrap_or(0) + self.partial.len()
    }

    /// Released cells, the one being sent included.
    pub fn cells(&self) -> usize {
        self.released.len()
    }

    pub fn is_full(&self) -> bool {
        self.words() >= TRANSMIT_WORDS
    }

    /// When the engine will take its next word; `None` when nothing is released or it is off.
    pub fn next_room_ns(&self, is_enabled: bool) -> Option<u64> {
        let piece = self.released.front()?;
        let Some(taken) = self.taken else {
            let mut line = self.line;
            line.begin(piece.released_ns.max(self.enabled_ns));
            return is_enabled.then(|| line.after_ns(piece.bits_of(1)));
        };
        Some(self.line.after_ns(piece.bits_of(taken + 1)))
    }

    /// Takes a word for which there is room.
    pub fn push(&mut self, now_ns: u64, place: QueueWord, word: u32) {
        debug_assert!(!self.is_full());
        self.partial.push((place, word));
        if place == QueueWord::Trailer {
            self.release(now_ns);
        }
    }

    pub fn enable(&mut self, now_ns: u64) {
        self.enabled_ns = now_ns;
    }

    /// Empties the queue; a cell that is being sent is cut off and lost.
    pub fn reset(&mut self) {
        self.partial.clear();
        self.released.clear();
        self.released_words = 0;
        self.taken = None;
    }

    /// The next cell that has wholly left by `now_ns`.
    pub fn advance(&mut self, now_ns: u64, is_enabled: bool) -> Option<LineCell> {
        loop {
            if self.next_room_ns(is_enabled)? > now_ns {
                return None;
            }
            let piece = self.released.front()?;
            let taken = match self.taken {
                Some(taken) => taken + 1,
                None => {
                    self.line.begin(piece.released_ns.max(self.enabled_ns));
                    1
                }
            };
            self.taken = Some(taken);
            if taken == piece.words.len() {
                return self.finish();
            }
        }
    }

    fn finish(&mut self) -> Option<LineCell> {
        let piece = self.released.pop_front()?;
        self.taken = None;
        self.released_words -= piece.words.len();
        self.line.end(piece.bits());
        Some(LineCell::new(self.line.after_ns(0), &piece.octets(self.polarity)))
    }

    /// Cuts the written words at their headers: each begins a cell on the line.
    fn release(&mut self, now_ns: u64) {
        let partial = std::mem::take(&mut self.partial);
        self.released_words += partial.len();
        for piece in partial.chunk_by(|_, (place, _)| *place != QueueWord::Header) {
            self.released.push_back(Piece {
                words: piece.iter().map(|&(_, word)| word).collect(),
                has_trailer: piece.last().is_some_and(|(place, _)| *place == QueueWord::Trailer),
                released_ns: now_ns,
            });
        }
    }
}

impl Piece {
    /// Octets on the line: 53 for a cell of fourteen words.
    fn octet_count(&self) -> usize {
        let words = self.words.len();
        // Pad1 is not sent, nor is Pad2.
        4 * words - usize::from(words > 1) - if self.has_trailer { 2 } else { 0 }
    }

    fn bits(&self) -> u64 {
        self.octet_count() as u64 * 8
    }

    /// Bits that have left when the engine takes its `taken`-th word.
    fn bits_of(&self, taken: usize) -> u64 {
        (self.bits() * taken as u64).div_ceil(self.words.len() as u64)
    }

    fn octets(&self, polarity: Pad1Polarity) -> Vec<u8> {
        let mut octets = Vec::with_capacity(4 * self.words.len());
        for (at, word) in self.words.iter().enumerate() {
            let [first, second, third, fourth] = word.to_be_bytes();
            match at {
                _ if self.has_trailer && at + 1 == self.words.len() => {
                    octets.extend([first, second]);
                }
                0 => octets.extend(word.to_be_bytes()),
                1 => octets.extend([first, third, fourth]),
                _ => octets.extend([fourth, third, second, first]),
            }
        }
        self.insert(&mut octets, polarity);
        octets
    }

    /// Fills in HEC and CRC-10 where Pad1 asks for it.
    fn insert(&self, octets: &mut [u8], polarity: Pad1Polarity) {
        let pad1 = self.words.get(1).copied().unwrap_or(0);
        if polarity.inserts(pad1 & PAD1_HEC != 0)
            && let Some([first, second, third, fourth, hec]) = octets.first_chunk_mut()
        {
            *hec = hec::of_header(u32::from_be_bytes([*first, *second, *third, *fourth]));
        }
        if polarity.inserts(pad1 & PAD1_CRC != 0)
            && self.words.len() == CELL_WORDS
            && let Ok(mut cell) = Cell::try_from(&*octets)
        {
            crc10::insert(cell.payload_mut());
            octets.copy_from_slice(cell.octets());
        }
    }
}
