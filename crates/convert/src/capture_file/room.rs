//! Room that the lists of all connections share.
//!
//! A small compressed file may hold many connections, each with many segments: a bound for each list alone bounds
//! nothing.

use std::collections::VecDeque;

/// Entries of all lists together: 48 MiB of the larger ones.
const ENTRIES_MAX: usize = 1 << 21;
/// Entries of a list at first.
const FIRST: usize = 4;

/// Entries that lists may still grow by.
#[derive(Debug)]
pub(super) struct Room {
    left: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { left: ENTRIES_MAX }
    }
}

/// A list with a capacity.
pub(super) trait List: Default {
    fn len(&self) -> usize;
    fn capacity(&self) -> usize;
    fn reserve_exact(&mut self, more: usize);
}

impl<T> List for Vec<T> {
    fn len(&self) -> usize {
        self.len()
    }

    fn capacity(&self) -> usize {
        self.capacity()
    }

    fn reserve_exact(&mut self, more: usize) {
        self.reserve_exact(more);
    }
}

impl<T> List for VecDeque<T> {
    fn len(&self) -> usize {
        self.len()
    }

    fn capacity(&self) -> usize {
        self.capacity()
    }

    fn reserve_exact(&mut self, more: usize) {
        self.reserve_exact(more);
    }
}

impl Room {
    /// Whether the list has room for one more entry; it grows where all lists together may.
    pub fn is_for_one(&mut self, list: &mut impl List) -> bool {
        let before = list.capacity();
        if list.len() < before {
            return true;
        }
        let more = before.max(FIRST);
        if more > self.left {
            return false;
        }
        list.reserve_exact(more);
        self.left = self.left.saturating_sub(list.capacity() - before);
        true
    }

    /// Takes the room of a list back, with its entries.
    pub fn free(&mut self, list: &mut impl List) {
        self.left += std::mem::take(list).capacity();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_grow_until_all_together_are_full_and_again_when_one_is_freed() {
        let mut room = Room { left: 14 };
        let (mut one, mut other) = (Vec::new(), VecDeque::new());
        let mut fill = |one: &mut Vec<u8>, other: &mut VecDeque<u8>| {
            while room.is_for_one(one) {
                one.push(0);
            }
            while room.is_for_one(other) {
                other.push_back(0);
            }
            room.left
        };
        assert_eq!(fill(&mut one, &mut other), 2);
        assert_eq!((one.len(), other.len()), (8, 4));
        let mut room = Room { left: 2 };
        room.free(&mut one);
        assert_eq!((room.left, one.capacity()), (10, 0));
        while room.is_for_one(&mut other) {
            other.push_back(0);
        }
        assert_eq!((other.len(), room.left), (8, 6));
    }
}
