//! The form of a message in transit between two proxies.

use std::ops::Range;

/// Packs a message into a packet and takes it out again. The payload lies between a header and a
/// trailer, so that a proxy copies it once, from the slot to its place in the packet.
pub trait PacketFormat {
    /// Bytes in front of the payload.
    fn header_bytes(&self) -> usize;

    /// Bytes behind the payload.
    fn trailer_bytes(&self) -> usize;

    /// Fills header and trailer of a packet whose payload is in its place.
    fn seal(&mut self, packet: &mut [u8]);

    /// The place of the payload in a packet that arrived.
    ///
    /// # Errors
    /// The expected form, when the packet is damaged or of another format. It is then discarded.
    fn open(&mut self, packet: &[u8]) -> Result<Range<usize>, &'static str>;
}

/// Eight bytes of header, big-endian: "SKCH", the payload's length (16 bits, modulo 2^16) and the
/// Internet checksum of the whole packet (RFC 1071). It finds errors that a transport without a
/// checksum does not.
#[derive(Debug, Clone, Copy, Default)]
pub struct Checked;

const MAGIC: [u8; 4] = *b"SKCH";

impl PacketFormat for Checked {
    fn header_bytes(&self) -> usize {
        8
    }

    fn trailer_bytes(&self) -> usize {
        0
    }

    fn seal(&mut self, packet: &mut [u8]) {
        // Modulo 2^16, as the format requires.
        let len = (packet.len() - 8) as u16;
        packet[..4].copy_from_slice(&MAGIC);
        packet[4..6].copy_from_slice(&len.to_be_bytes());
        packet[6..8].fill(0);
        let checksum = !sum(packet);
        packet[6..8].copy_from_slice(&checksum.to_be_bytes());
    }

    fn open(&mut self, packet: &[u8]) -> Result<Range<usize>, &'static str> {
        if packet.len() < 8 || packet[..4] != MAGIC {
            return Err("a packet of a channel");
        }
        let len = u16::from_be_bytes([packet[4], packet[5]]);
        if (packet.len() - 8) as u16 != len {
            return Err("a packet as long as it says");
        }
        // RFC 1071 §1: with the checksum in it the sum is all ones.
        if sum(packet) != 0xffff {
            return Err("a packet whose checksum holds");
        }
        Ok(8..packet.len())
    }
}

/// One's complement sum of 16-bit words; an odd byte at the end counts as if a zero followed
/// (RFC 1071 §1 and §4.1).
fn sum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<2>();
    let words = words.iter().map(|word| u64::from(u16::from_be_bytes(*word)));
    let odd = rest.first().map_or(0, |byte| u64::from(*byte) << 8);
    let mut sum = words.sum::<u64>() + odd;
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    // Folded below 2^16 just now.
    sum as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sealed(payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 8];
        packet.extend(payload);
        Checked.seal(&mut packet);
        packet
    }

    #[test]
    fn the_sum_is_that_of_the_example_in_rfc_1071() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn a_packet_is_its_header_and_the_message() {
        assert_eq!(sealed(b"hi"), *b"SKCH\x00\x02\x01\x01hi");
    }

    proptest! {
        #[test]
        fn what_is_sealed_opens(payload: Vec<u8>) {
            let packet = sealed(&payload);
            let range = Checked.open(&packet).unwrap();
            prop_assert_eq!(&packet[range], &payload[..]);
        }

        #[test]
        fn a_flipped_bit_is_noticed(payload: Vec<u8>, at: prop::sample::Index, bit in 0_u32..8) {
            let mut packet = sealed(&payload);
            let at = at.index(packet.len());
            packet[at] ^= 1_u8 << bit;
            prop_assert!(Checked.open(&packet).is_err());
        }

        #[test]
        fn any_bytes_are_judged_without_panic(bytes: Vec<u8>) {
            let _ = Checked.open(&bytes);
        }
    }
}
