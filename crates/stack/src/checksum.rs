//! The Internet checksum (RFC 1071).

use crate::mbuf::{Chain, Pool};

/// A sum in progress over pieces of bytes of any length.
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
        self.sum += sum_of(bytes);
        if bytes.len() % 2 == 1 {
            self.turn();
        }
    }

    fn turn(&mut self) {
        self.sum = u64::from(fold(self.sum).swap_bytes());
        self.is_odd = !self.is_odd;
    }

    /// Adds a header without options, at an even place.
    pub(crate) fn add_header(&mut self, words: [u32; 5]) {
        self.sum += words.iter().map(|word| u64::from(word.to_be())).sum::<u64>();
    }

    /// The value of the checksum field that makes the sum right.
    pub fn finish(mut self) -> u16 {
        if self.is_odd {
            self.turn();
        }
        !u16::from_be(fold(self.sum))
    }

    /// Whether the bytes, their checksum field among them, are undamaged.
    pub fn is_valid(self) -> bool {
        self.finish() == 0
    }

    /// A sum that holds the pseudo header of TCP and UDP already (RFC 9293 §3.1, RFC 768).
    pub fn of_pseudo_header(source: [u8; 4], destination: [u8; 4], protocol: u8, len: u16) -> Self {
        let addresses = [source, destination].map(|address| u64::from(u32::from_ne_bytes(address)));
        let words = [u16::from(protocol), len].map(|word| u64::from(word.to_be()));
        Self { sum: addresses[0] + addresses[1] + words[0] + words[1], is_odd: false }
    }

    /// Adds the bytes of a chain from `skip` on.
    pub fn add_chain(&mut self, pool: &Pool, chain: &Chain, skip: usize) {
        let mut skip = skip;
        for piece in pool.pieces(chain) {
            self.add(&piece[skip.min(piece.len())..]);
            skip = skip.saturating_sub(piece.len());
        }
    }
}

/// The words of a header without options at the front of `bytes`; `None` for fewer bytes.
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
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = Checksum::default();
    sum.add(bytes);
    sum.finish()
}

/// Sum of 16-bit words in the machine's order; an odd last byte is followed by 0.
///
/// Words of 32 bits add up to the same, as both of their halves have the place value 1
/// (RFC 1071 §2(A)).
fn sum_of(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    sum + u64::from(u32::from_ne_bytes(last))
}

/// Adds the 16-bit words of a sum up until one is left, which is 0 for a sum of 0 only.
fn fold(mut sum: u64) -> u16 {
    while sum >> 16 > 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
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
