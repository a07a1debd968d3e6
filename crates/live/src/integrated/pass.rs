//! Loops over data: each is one pass.

/// Copies `from` to the start of `to`.
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    to[..from.len()].copy_from_slice(from);
}

/// The Internet checksum's sum (RFC 1071), not complemented, of data that begins at an even place.
pub(super) fn sum(octets: &[u8]) -> u64 {
    let (words, rest) = octets.as_chunks::<8>();
    let sum: u64 = words.iter().map(|word| sum_of(*word)).sum();
    sum + sum_of_rest(rest)
}

/// Copies and sums in one loop: each octet is read once and written once.
pub(super) fn copy_and_sum(to: &mut [u8], from: &[u8]) -> u64 {
    let (words, rest) = from.as_chunks::<8>();
    let (to_words, to_rest) = to[..from.len()].as_chunks_mut::<8>();
    let mut sum = 0;
    for (to, from) in to_words.iter_mut().zip(words) {
        *to = *from;
        sum += sum_of(*from);
    }
    to_rest.copy_from_slice(rest);
    sum + sum_of_rest(rest)
}

/// Folds a sum to 16 bits and complements it: what a checksum field holds.
pub(super) fn finish(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    // The loop left 16 bits.
    !(sum as u16)
}

/// In the machine's byte order: the sum does not depend on it (RFC 1071 §2(B)).
fn sum_of(word: [u8; 8]) -> u64 {
    let word = u64::from_ne_bytes(word);
    (word >> 32) + (word & 0xffff_ffff)
}

fn sum_of_rest(rest: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..rest.len()].copy_from_slice(rest);
    sum_of(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn one_pass_gives_what_two_give(octets in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut copied = vec![0; octets.len()];
            prop_assert_eq!(finish(copy_and_sum(&mut copied, &octets)), finish(sum(&octets)));
            prop_assert_eq!(copied, octets);
        }

        #[test]
        fn a_flipped_bit_changes_the_sum(
            octets in prop::collection::vec(any::<u8>(), 1..100), at in any::<prop::sample::Index>(), bit in 0u8..8,
        ) {
            let mut flipped = octets.clone();
            flipped[at.index(octets.len())] ^= 1 << bit;
            prop_assert_ne!(finish(sum(&flipped)), finish(sum(&octets)));
        }
    }
}
