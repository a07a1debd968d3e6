//! The receive queue: whole cells in, one word at a time out.

use std::collections::VecDeque;

use super::RECEIVE_WORDS;
use super::map::QueueWord;
use super::words::CELL_WORDS;

#[derive(Debug, Default)]
pub(super) struct ReceiveQueue {
    cells: VecDeque<[u32; CELL_WORDS]>,
    /// Words of the first cell that have been read.
    read: usize,
}

impl ReceiveQueue {
    /// Cells with some word left.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// Queues a cell; `false` when there is no room for all of it.
    pub fn push(&mut self, words: [u32; CELL_WORDS]) -> bool {
        let used = self.cells.len() * CELL_WORDS - self.read;
        let has_room = used + CELL_WORDS <= RECEIVE_WORDS;
        if has_room {
            self.cells.push_back(words);
        }
        has_room
    }

    /// The next word, when it is the addressed one; else `None`, and nothing changes.
    pub fn read(&mut self, place: QueueWord) -> Option<u32> {
        let expected = match self.read {
            0 => QueueWord::Header,
            13 => QueueWord::Trailer,
            _ => QueueWord::Payload,
        };
        let word = self.cells.front()?[self.read];
        if place != expected {
            return None;
        }
        self.read = (self.read + 1) % CELL_WORDS;
        if self.read == 0 {
            self.cells.pop_front();
        }
        Some(word)
    }

    /// Discards the rest of the first cell; `false` in an empty queue.
    pub fn discard(&mut self) -> bool {
        self.read = 0;
        self.cells.pop_front().is_some()
    }

    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_read_in_order_and_no_other_way() {
        let mut queue = ReceiveQueue::default();
        assert_eq!(queue.read(QueueWord::Header), None, "empty");
        assert!(queue.push(std::array::from_fn(|at| at as u32)));
        assert_eq!(queue.read(QueueWord::Payload), None, "the header comes first");
        assert_eq!(queue.read(QueueWord::Header), Some(0));
        for at in 1..=12 {
            assert_eq!(queue.read(QueueWord::Trailer), None, "word {at} is payload");
            assert_eq!(queue.read(QueueWord::Payload), Some(at));
        }
        assert_eq!(queue.read(QueueWord::Payload), None, "twelve payload words, no more");
        assert_eq!(queue.cells(), 1);
        assert_eq!(queue.read(QueueWord::Trailer), Some(13));
        assert_eq!(queue.cells(), 0);
    }

    #[test]
    fn the_queue_holds_292_cells_and_takes_none_in_part() {
        let mut queue = ReceiveQueue::default();
        let taken = (0..300).filter(|_| queue.push([0; CELL_WORDS])).count();
        assert_eq!(taken, 292);
        // 4,096 words are 292 cells and eight words: six more words make room for one more cell.
        queue.read(QueueWord::Header);
        assert!((0..4).all(|_| queue.read(QueueWord::Payload).is_some()));
        assert!(!queue.push([0; CELL_WORDS]));
        queue.read(QueueWord::Payload);
        assert!(queue.push([0; CELL_WORDS]));
        assert!(queue.discard());
        assert_eq!((queue.cells(), queue.read), (292, 0));
    }
}
