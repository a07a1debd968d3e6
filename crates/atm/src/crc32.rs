//! CRC-32 of the AAL5 CPCS-PDU (I.363; catalogue name CRC-32/BZIP2, also CRC-32/AAL5).
//!
//! Generator 0x04C11DB7, initial value all ones, most significant bit first, final inversion: not
//! the bit order of Ethernet. [`crc32`] uses the carry-less multiplication of the CPU where there is
//! one (through `crc-fast`); [`portable`] takes sixteen octets a step through tables; both are
//! tested against [`bitwise`].

use crc_fast::CrcAlgorithm;

/// The generator without its leading term.
pub const GENERATOR: u32 = 0x04c1_1db7;

/// What the register holds after a whole CPCS-PDU with its CRC, before the final inversion.
pub const RESIDUE: u32 = 0xc704_dd7b;

/// Octets of one step of the portable path.
const STEP: usize = 16;

/// `TABLES[k][b]`: what the octet `b` followed by `k` octets of zero adds.
static TABLES: [[u32; 256]; STEP] = tables();

/// CRC of `octets`, by the fastest way that this CPU has.
#[must_use]
pub fn crc32(octets: &[u8]) -> u32 {
    // A CRC of 32 bits comes in the low half of the result.
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
    #[must_use]
    pub fn new() -> Self {
        Self(crc_fast::Digest::new(CrcAlgorithm::Crc32Bzip2))
    }

    /// Adds octets that follow those so far.
    pub fn append(&mut self, octets: &[u8]) {
        self.0.update(octets);
    }

    /// The CRC of all octets so far.
    #[must_use]
    pub fn value(&self) -> u32 {
        self.0.finalize() as u32
    }
}

impl Default for Crc32 {
    fn default() -> Self {
        Self::new()
    }
}

/// CRC of `octets` by tables alone, for any CPU.
#[must_use]
pub fn portable(octets: &[u8]) -> u32 {
    let (steps, rest) = octets.as_chunks::<STEP>();
    let register = steps.iter().fold(u32::MAX, advance);
    !rest.iter().fold(register, |register, &octet| {
        register << 8 ^ TABLES[0][usize::from((register >> 24) as u8 ^ octet)]
    })
}

/// The definition, a bit at a time: what the other two are tested against.
#[must_use]
pub fn bitwise(octets: &[u8]) -> u32 {
    !octets.iter().fold(u32::MAX, |register, &octet| eight_bits(register ^ u32::from(octet) << 24))
}

fn advance(register: u32, octets: &[u8; STEP]) -> u32 {
    let before = register.to_be_bytes();
    let mut sum = 0;
    for (at, &octet) in octets.iter().enumerate() {
        let octet = if at < before.len() { octet ^ before[at] } else { octet };
        sum ^= TABLES[STEP - 1 - at][usize::from(octet)];
    }
    sum
}

const fn eight_bits(mut register: u32) -> u32 {
    let mut bit = 0;
    while bit < 8 {
        register = register << 1 ^ if register >> 31 == 1 { GENERATOR } else { 0 };
        bit += 1;
    }
    register
}

const fn tables() -> [[u32; 256]; STEP] {
    let mut tables = [[0; 256]; STEP];
    let mut octet = 0;
    while octet < 256 {
        let mut register = (octet as u32) << 24;
        let mut zeros = 0;
        while zeros < STEP {
            register = eight_bits(register);
            tables[zeros][octet] = register;
            zeros += 1;
        }
        octet += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_check_value_of_the_catalogue() {
        let check = 0xfc89_1918;
        assert_eq!([crc32, portable, bitwise].map(|crc| crc(b"123456789")), [check; 3]);
    }

    #[test]
    fn octets_with_their_crc_leave_the_residue() {
        let mut octets = b"any octets".to_vec();
        octets.extend(crc32(&octets).to_be_bytes());
        assert_eq!([crc32, portable, bitwise].map(|crc| !crc(&octets)), [RESIDUE; 3]);
    }

    proptest! {
        #[test]
        fn hardware_tables_and_definition_agree(octets in prop::collection::vec(any::<u8>(), 0..3000)) {
            let expected = bitwise(&octets);
            prop_assert_eq!([crc32(&octets), portable(&octets)], [expected; 2]);
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
