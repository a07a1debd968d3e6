//! The Internet checksum (RFC 1071).

use crate::mbuf::{Chain, Pool};

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
        let sum = u64::from(fold(sum_of(bytes)));
        // After an odd number of bytes the halves of every word are the other way round
        // (RFC 1071 §2(B)).
        self.sum += if self.is_odd { u64::from((sum as u16).swap_bytes()) } else { sum };
        self.is_odd ^= bytes.len() % 2 == 1;
    }

    /// Adds one word in the order of the network, at an even place.
    pub fn add_word(&mut self, word: u16) {
        self.sum += u64::from(word.to_be());
    }

    /// What the checksum field must hold for the sum over it to be right.
    #[must_use]
    pub fn finish(self) -> u16 {
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
        let mut sum = Self { sum: addresses.iter().sum(), is_odd: false };
        sum.add_word(u16::from(protocol));
        sum.add_word(len);
        sum
    }

    /// Adds the bytes of a chain from `skip` on.
    pub fn add_chain(&mut self, pool: &Pool, chain: &Chain, skip: usize) {
        let mut skip = skip;
        for piece in pool.pieces(chain) {
            let from = skip.min(piece.len());
            skip -= from;
            self.add(&piece[from..]);
        }
    }
}

/// The checksum of these bytes.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = Checksum::default();
    sum.add(bytes);
    sum.finish()
}

/// Sum of 16-bit words in the machine's order, folded to 64 bits; an odd last byte is followed by 0.
///
/// Words of 64 bits add up to the same, as each of their quarters has the place value 1 too
/// (RFC 1071 §2(A)); what is carried out of the lower half of the sum counts as 1 again.
#[inline]
fn sum_of(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<32>();
    // Two sums, so that an addition need not wait for the carry of the one before.
    let mut sums = [0_u128; 2];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (word, place) in words.iter().zip([0, 1, 0, 1]) {
            sums[place] += u128::from(u64::from_ne_bytes(*word));
        }
    }
    let sum = sums[0] + sums[1] + u128::from(sum_of_few(rest));
    let (carried, sum) = ((sum >> 64) as u64, sum as u64);
    (sum >> 32) + (sum & 0xffff_ffff) + carried
}

#[inline]
fn sum_of_few(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let sum = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum::<u64>();
    if rest.is_empty() {
        return sum;
    }
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum + u64::from(u32::from_ne_bytes(last))
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
