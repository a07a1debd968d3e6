//! The Internet checksum (RFC 1071).

use crate::mbuf::{Chain, Pieces, Pool};

/// Bytes that are summed in one turn, and of what is left then.
const BLOCK_BYTES: usize = 128;
const PART_BYTES: usize = 32;

/// A sum in progress over bytes that come in pieces of any length.
///
/// After an odd number of bytes the halves of every word are the other way round (RFC 1071 §2(B)).
#[derive(Debug, Clone, Copy, Default)]
pub struct Checksum {
    sum: u64,
    is_odd: bool,
}

impl Checksum {
    /// Adds the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.sum = add(self.sum, sum_of(bytes));
        if bytes.len() % 2 == 1 {
            self.turn();
        }
    }

    fn turn(&mut self) {
        self.sum = self.sum.rotate_left(8);
        self.is_odd = !self.is_odd;
    }

    /// Adds one word in the order of the network, at an even place.
    pub fn add_word(&mut self, word: u16) {
        self.sum = add(self.sum, u64::from(word.to_be()));
    }

    /// Adds a header without options, at an even place.
    pub(crate) fn add_header(&mut self, words: [u32; 5]) {
        let sum = words.iter().map(|word| u64::from(word.to_be())).sum();
        self.sum = add(self.sum, sum);
    }

    /// What the checksum field must hold for the sum over it to be right.
    #[must_use]
    pub fn finish(mut self) -> u16 {
        if self.is_odd {
            self.turn();
        }
        !u16::from_be(fold(self.sum))
    }

    /// Whether the bytes, their checksum field among them, are undamaged.
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.finish() == 0
    }

    /// A sum that holds the pseudo header of TCP and UDP already (RFC 9293 §3.1, RFC 768).
    #[must_use]
    pub fn of_pseudo_header(source: [u8; 4], destination: [u8; 4], protocol: u8, len: u16) -> Self {
        let addresses = [source, destination].map(|address| u64::from(u32::from_ne_bytes(address)));
        let words = [u16::from(protocol), len].map(|word| u64::from(word.to_be()));
        Self { sum: addresses[0] + addresses[1] + words[0] + words[1], is_odd: false }
    }

    /// Adds the bytes of a chain from `skip` on.
    pub fn add_chain(&mut self, pool: &Pool, chain: &Chain, skip: usize) {
        if skip < chain.len() {
            *self = self.with_pieces(pool.pieces(chain), skip);
        }
    }

    fn with_pieces(mut self, pieces: Pieces<'_>, mut skip: usize) -> Self {
        for piece in pieces {
            if skip < piece.len() {
                self.add(&piece[skip..]);
                skip = 0;
            } else {
                skip -= piece.len();
            }
        }
        self
    }
}

/// The words of a header without options, of which `bytes` are the first; `None` for less.
pub(crate) fn header_words(bytes: &[u8]) -> Option<[u32; 5]> {
    let (words, _) = bytes.first_chunk::<20>()?.as_chunks::<4>();
    Some(std::array::from_fn(|at| u32::from_be_bytes(words[at])))
}

/// The words of a header without options as they go out.
pub(crate) fn header_bytes(words: [u32; 5]) -> [u8; 20] {
    let mut bytes = [0; 20];
    for (place, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *place = word.to_be_bytes();
    }
    bytes
}

/// The checksum of these bytes.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = Checksum::default();
    sum.add(bytes);
    sum.finish()
}

/// Sum of 16-bit words in the machine's order; an odd last byte is followed by 0.
///
/// Words of 64 bits add up to the same, as each of their quarters has the place value 1 too
/// (RFC 1071 §2(A)), and so has what is carried out of them.
fn sum_of(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
    let sum = blocks.iter().fold((0, 0), add_block);
    let (parts, rest) = rest.as_chunks::<PART_BYTES>();
    let (sum, carries) = parts.iter().fold(sum, add_block);
    let (words, rest) = rest.as_chunks::<8>();
    let few = words.iter().fold(carries, |sum, word| add(sum, u64::from_ne_bytes(*word)));
    let sum = add(sum, few);
    if rest.is_empty() { sum } else { add_last(sum, rest) }
}

/// Adds a block to a sum and to the number of carries out of it. The carry out of each word goes into
/// the next; blocks do not wait for each other.
fn add_block<const BYTES: usize>((sum, carries): (u64, u64), block: &[u8; BYTES]) -> (u64, u64) {
    let (words, _) = block.as_chunks::<8>();
    let (of_block, carry) = words.iter().fold((0, false), |(sum, carry), word| {
        add_with_carry(sum, u64::from_ne_bytes(*word), carry)
    });
    let (sum, carry) = add_with_carry(sum, of_block, carry);
    (sum, carries + u64::from(carry))
}

/// Adds up to seven bytes, followed by 0.
fn add_last(sum: u64, bytes: &[u8]) -> u64 {
    let Some((word, rest)) = bytes.split_first_chunk::<4>() else { return add_odd(sum, bytes) };
    let sum = add(sum, u64::from(u32::from_ne_bytes(*word)));
    if rest.is_empty() { sum } else { add_odd(sum, rest) }
}

/// Adds up to three bytes, followed by 0.
fn add_odd(sum: u64, bytes: &[u8]) -> u64 {
    let mut last = [0; 4];
    last[..bytes.len()].copy_from_slice(bytes);
    add(sum, u64::from(u32::from_ne_bytes(last)))
}

/// A sum in which what is carried out of the highest place counts as 1 again.
fn add(sum: u64, word: u64) -> u64 {
    let (sum, carry) = sum.overflowing_add(word);
    sum + u64::from(carry)
}

/// Written so that it becomes one instruction.
fn add_with_carry(sum: u64, word: u64, carry: bool) -> (u64, bool) {
    let (sum, by_word) = sum.overflowing_add(word);
    let (sum, by_carry) = sum.overflowing_add(u64::from(carry));
    (sum, by_word | by_carry)
}

/// Adds the 16-bit words of a sum up until one is left, which is 0 for a sum of 0 only.
fn fold(sum: u64) -> u16 {
    let (sum, carry) = (sum as u32).overflowing_add((sum >> 32) as u32);
    let sum = sum + u32::from(carry);
    let (sum, carry) = (sum as u16).overflowing_add((sum >> 16) as u16);
    sum + u16::from(carry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As RFC 1071 §4.1 writes it.
    fn by_the_book(bytes: &[u8]) -> u16 {
        let words = bytes.chunks(2);
        let sum = words.fold(0u32, |sum, word| {
            sum + u32::from(word[0]) * 256 + u32::from(*word.get(1).unwrap_or(&0))
        });
        let sum = (sum & 0xffff) + (sum >> 16);
        !((sum & 0xffff) + (sum >> 16)) as u16
    }

    #[test]
    fn the_example_of_rfc_1071_section_3() {
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    #[test]
    fn no_bytes_sum_to_nothing() {
        assert_eq!(checksum(&[]), 0xffff);
    }

    proptest! {
        #[test]
        fn pieces_of_any_length_give_the_sum_of_the_whole(
            bytes in prop::collection::vec(any::<u8>(), 0..3000),
            cuts in prop::collection::vec(0usize..3000, 0..8),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let (mut sum, mut from) = (Checksum::default(), 0);
            for cut in cuts {
                sum.add(&bytes[from..cut]);
                from = cut;
            }
            prop_assert_eq!(sum.finish(), by_the_book(&bytes));
        }

        #[test]
        fn one_changed_bit_is_always_seen(mut bytes in prop::collection::vec(any::<u8>(), 4..200), bit in any::<prop::sample::Index>()) {
            bytes.truncate(bytes.len() & !1);
            bytes[..2].fill(0);
            let sum = checksum(&bytes);
            bytes[..2].copy_from_slice(&sum.to_be_bytes());
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mut changed = Checksum::default();
            changed.add(&bytes);
            prop_assert!(!changed.is_valid());
        }
    }
}
