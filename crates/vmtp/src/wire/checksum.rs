//! The checksum of RFC 1045 §3.4: two one's-complement sums over alternate clusters.

/// Octets of a cluster.
const CLUSTER_BYTES: usize = 32;

/// Words of 32 bits of a cluster.
const CLUSTER_WORDS: usize = CLUSTER_BYTES / 4;

/// The checksum of header and data. Never 0, which means "no checksum".
///
/// Clusters of 32 octets go to the sums A and B in turn; each is added as 16-bit words with end-around
/// carry and not complemented, as the text reads. Words are added as this machine has them, and the
/// sum's octets put in order at the end (RFC 1071 §2 B).
pub fn checksum(octets: &[u8]) -> u32 {
    let (pairs, rest) = octets.as_chunks::<{ 2 * CLUSTER_BYTES }>();
    // A sum for each place in a cluster: so the compiler adds several at once.
    let mut lanes = [0u64; 2 * CLUSTER_WORDS];
    for pair in pairs {
        for (lane, word) in lanes.iter_mut().zip(pair.as_chunks::<4>().0) {
            *lane += u64::from(u32::from_ne_bytes(*word));
        }
    }
    let (a, b) = lanes.split_at(CLUSTER_WORDS);
    let mut sums = [a.iter().sum(), b.iter().sum()];
    for (sum, cluster) in sums.iter_mut().zip(rest.chunks(CLUSTER_BYTES)) {
        *sum += sum_of(cluster);
    }
    let [a, b] = sums.map(fold).map(u16::from_be);
    u32::from(a) << 16 | u32::from(b)
}

/// Sum of a cluster's words. Adding 32 bits at a time gives the same when folded.
fn sum_of(cluster: &[u8]) -> u64 {
    let (words, rest) = cluster.as_chunks::<4>();
    let sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    // Data is padded to eight octets: there is a rest only in a damaged packet.
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum + u64::from(u32::from_ne_bytes(last))
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    // The loop left 16 bits; 0 is stored as its other form.
    if sum == 0 { 0xffff } else { sum as u16 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As the RFC words it: 16 bits at a time.
    fn by_words(octets: &[u8]) -> u32 {
        let mut sums = [0u32; 2];
        for (index, word) in octets.chunks_exact(2).enumerate() {
            let sum = &mut sums[index / 16 % 2];
            *sum += u32::from(u16::from_be_bytes([word[0], word[1]]));
            *sum = (*sum & 0xffff) + (*sum >> 16);
        }
        let [a, b] = sums.map(|sum| if sum == 0 { 0xffff } else { sum });
        a << 16 | b
    }

    #[test]
    fn nothing_sums_to_all_ones() {
        assert_eq!(checksum(&[]), 0xffff_ffff);
        assert_eq!(checksum(&[0; 64]), 0xffff_ffff);
    }

    proptest! {
        #[test]
        fn wide_words_give_the_same(words in prop::collection::vec(any::<u64>(), 0..100)) {
            let octets: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            prop_assert_eq!(checksum(&octets), by_words(&octets));
        }
    }
}
