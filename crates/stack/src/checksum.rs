//! The Internet checksum (RFC 1071).

use crate::mbuf::{Chain, Pool};

/// Bytes that are summed in one turn.
const BLOCK_BYTES: usize = 64;

/// A sum in progress over bytes that come in pieces of any length.
#[derive(Debug, Clone, Copy, Default)]
pub struct Checksum {
    sum: u64,
    is_odd: bool,
}

impl Checksum {
    /// Adds the next bytes.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        let sum = sum_of(bytes);
        // After an odd number of bytes the halves of every word are the other way round
        // (RFC 1071 §2(B)).
        self.sum = add(self.sum, if self.is_odd { sum.rotate_left(8) } else { sum });
        self.is_odd ^= bytes.len() % 2 == 1;
    }

    /// Adds one word in the order of the network, at an even place.
    #[inline]
    pub fn add_word(&mut self, word: u16) {
        self.sum = add(self.sum, u64::from(word.to_be()));
    }

    /// Adds a header without options, at an even place.
    #[inline]
    pub(crate) fn add_header(&mut self, words: [u32; 5]) {
        let sum = words.iter().map(|word| u64::from(word.to_be())).sum();
        self.sum = add(self.sum, sum);
    }

    /// What the checksum field must hold for the sum over it to be right.
    #[inline]
    #[must_use]
    pub fn finish(self) -> u16 {
        !u16::from_be(fold(self.sum))
    }

    /// Whether the bytes, their checksum field among them, are undamaged.
    #[inline]
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.finish() == 0
    }

    /// A sum that holds the pseudo header of TCP and UDP already (RFC 9293 §3.1, RFC 768).
    #[inline]
    #[must_use]
    pub fn of_pseudo_header(source: [u8; 4], destination: [u8; 4], protocol: u8, len: u16) -> Self {
        let addresses = [source, destination].map(|address| u64::from(u32::from_ne_bytes(address)));
        let words = [u16::from(protocol), len].map(|word| u64::from(word.to_be()));
        Self { sum: addresses[0] + addresses[1] + words[0] + words[1], is_odd: false }
    }

    /// Adds the bytes of a chain from `skip` on.
    pub fn add_chain(&mut self, pool: &Pool, chain: &Chain, mut skip: usize) {
        let mut sum = *self;
        for piece in pool.pieces(chain) {
            if skip < piece.len() {
                sum.add(&piece[skip..]);
                skip = 0;
            } else {
                skip -= piece.len();
            }
        }
        *self = sum;
    }
}

/// The words of a header without options, of which `bytes` are the first; `None` for less.
#[inline]
pub(crate) fn header_words(bytes: &[u8]) -> Option<[u32; 5]> {
    let (words, _) = bytes.first_chunk::<20>()?.as_chunks::<4>();
    Some(std::array::from_fn(|at| u32::from_be_bytes(words[at])))
}

/// The words of a header without options as they go out.
#[inline]
pub(crate) fn header_bytes(words: [u32; 5]) -> [u8; 20] {
    let mut bytes = [0; 20];
    for (place, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *place = word.to_be_bytes();
    }
    bytes
}

/// The checksum of these bytes.
#[inline]
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
#[inline]
fn sum_of(bytes: &[u8]) -> u64 {
    if bytes.len() < BLOCK_BYTES { sum_of_few(bytes) } else { sum_of_blocks(bytes) }
}

fn sum_of_blocks(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
    // Four sums, so that the next block need not wait for the last addition of this one.
    let mut sums = [0; 4];
    let mut carries = 0;
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        let mut carry = false;
        for (word, place) in words.iter().zip([0, 1, 2, 3, 0, 1, 2, 3]) {
            (sums[place], carry) = add_with_carry(sums[place], u64::from_ne_bytes(*word), carry);
        }
        carries += u64::from(carry);
    }
    sums.into_iter().fold(add(carries, sum_of_few(rest)), add)
}

/// As [`sum_of`], for less than a block.
#[inline]
fn sum_of_few(bytes: &[u8]) -> u64 {
    let (mut sum, mut rest) = (0, bytes);
    while let Some((words, later)) = rest.split_first_chunk::<16>() {
        let [low, high] = halves(*words);
        (sum, rest) = (add(add(sum, low), high), later);
    }
    if let Some((word, later)) = rest.split_first_chunk::<8>() {
        (sum, rest) = (add(sum, u64::from_ne_bytes(*word)), later);
    }
    if let Some((word, later)) = rest.split_first_chunk::<4>() {
        (sum, rest) = (add(sum, u64::from(u32::from_ne_bytes(*word))), later);
    }
    if rest.is_empty() { sum } else { add(sum, sum_of_last(rest)) }
}

#[inline]
fn halves(bytes: [u8; 16]) -> [u64; 2] {
    let word = u128::from_ne_bytes(bytes);
    [word as u64, (word >> 64) as u64]
}

/// Up to three bytes, followed by 0.
#[cold]
fn sum_of_last(bytes: &[u8]) -> u64 {
    let mut last = [0; 4];
    last[..bytes.len()].copy_from_slice(bytes);
    u64::from(u32::from_ne_bytes(last))
}

/// A sum in which what is carried out of the highest place counts as 1 again.
#[inline]
fn add(sum: u64, word: u64) -> u64 {
    let (sum, carry) = sum.overflowing_add(word);
    sum + u64::from(carry)
}

/// Written so that it becomes one instruction.
#[inline]
fn add_with_carry(sum: u64, word: u64, carry: bool) -> (u64, bool) {
    let (sum, by_word) = sum.overflowing_add(word);
    let (sum, by_carry) = sum.overflowing_add(u64::from(carry));
    (sum, by_word | by_carry)
}

/// Adds the 16-bit words of a sum up until one is left, which is 0 for a sum of 0 only.
#[inline]
fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
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
