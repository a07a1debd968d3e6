//! CRC-32 of the AAL5 CPCS-PDU (I.363; catalogue name CRC-32/BZIP2, also CRC-32/AAL5).
//!
//! Generator 0x04C11DB7, initial value all ones, most significant bit first, final inversion: not
//! the bit order of Ethernet. `crc-fast` uses the carry-less multiplication of the CPU where there is
//! one. Tests compare it with the definition, a bit at a time.

use crc_fast::CrcAlgorithm;

/// CRC of `octets`, by the fastest way that this CPU has.
pub fn crc32(octets: &[u8]) -> u32 {
    // A CRC of 32 bits is in the low half of the result.
    crc_fast::checksum(CrcAlgorithm::Crc32Bzip2, octets) as u32
}

/// CRC of octets that lie in several places.
///
/// ```
/// use sockscope_atm::crc32::{Crc32, crc32};
///
/// let mut crc = Crc32::new();
/// crc.append(b"1234");
/// crc.append(b"56789");
/// assert_eq!(crc.value(), crc32(b"123456789"));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Crc32(crc_fast::Digest);

impl Crc32 {
    /// The CRC of nothing.
    pub fn new() -> Self {
        Self(crc_fast::Digest::new(CrcAlgorithm::Crc32Bzip2))
    }

    /// Adds octets that follow those so far.
    pub fn append(&mut self, octets: &[u8]) {
        self.0.update(octets);
    }

    /// The CRC of all octets so far.
    pub fn value(&self) -> u32 {
        self.0.finalize() as u32
    }
}

impl Default for Crc32 {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The generator without its leading term.
    const GENERATOR: u32 = 0x04c1_1db7;

    /// The register after a whole CPCS-PDU with its CRC, before the final inversion.
    const RESIDUE: u32 = 0xc704_dd7b;

    /// The definition, a bit at a time.
    fn bitwise(octets: &[u8]) -> u32 {
        let eight_bits = |register: u32| {
            (0..8).fold(register, |register, _| {
                register << 1 ^ if register >> 31 == 1 { GENERATOR } else { 0 }
            })
        };
        !octets
            .iter()
            .fold(u32::MAX, |register, &octet| eight_bits(register ^ u32::from(octet) << 24))
    }

    #[test]
    fn the_check_value_of_the_catalogue() {
        let check = 0xfc89_1918;
        assert_eq!([crc32, bitwise].map(|crc| crc(b"123456789")), [check; 2]);
    }

    #[test]
    fn octets_with_their_crc_leave_the_residue() {
        let mut octets = b"any octets".to_vec();
        octets.extend(crc32(&octets).to_be_bytes());
        assert_eq!([crc32, bitwise].map(|crc| !crc(&octets)), [RESIDUE; 2]);
    }

    proptest! {
        #[test]
        fn library_and_definition_agree(octets in prop::collection::vec(any::<u8>(), 0..3000)) {
            prop_assert_eq!(crc32(&octets), bitwise(&octets));
        }

        #[test]
        fn parts_give_the_crc_of_the_whole(
            octets in prop::collection::vec(any::<u8>(), 0..600), cut in any::<prop::sample::Index>(),
        ) {
            let (first, second) = octets.split_at(cut.index(octets.len() + 1));
            let mut crc = Crc32::new();
            crc.append(first);
            crc.append(second);
            prop_assert_eq!(crc.value(), bitwise(&octets));
        }
    }
}
