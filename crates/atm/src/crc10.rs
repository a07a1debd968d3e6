//! CRC-10 of the AAL3/4 SAR-PDU (I.363; catalogue name CRC-10/ATM).
//!
//! Generator x^10+x^9+x^5+x^4+x+1, initial value 0, most significant bit first, no final
//! inversion. A SAR-PDU of 48 octets carries the CRC of its first 374 bits in its last ten. The fast
//! path takes sixteen octets a step through sixteen tables of 512 octets, so that the look-ups of
//! one step do not wait for each other; tests compare it with [`bitwise`].

use crate::PAYLOAD_BYTES;

/// The generator without its leading term.
pub const GENERATOR: u16 = 0x233;

/// Bits of the CRC.
pub const BITS: u32 = 10;

const MASK: u16 = 0x3ff;

/// Octets of one step of the fast path.
const STEP: usize = 16;

/// Octets of a SAR-PDU before the one that LI and CRC share.
const WHOLE_OCTETS: usize = PAYLOAD_BYTES - 2;

/// `TABLES[k][b]`: CRC of the octet `b` followed by `k` octets of zero.
static TABLES: [[u16; 256]; STEP] = tables();

/// CRC of the six bits `b` alone: the share of LI after the whole octets.
static SIX_BITS: [u16; 64] = six_bits();

/// Bit of a SAR-PDU (0 is the first sent) by the syndrome that its error alone gives.
static BIT_OF_SYNDROME: [u16; 1 << BITS] = bits_of_syndromes();

/// Marks a syndrome that no single-bit error gives.
const NO_BIT: u16 = u16::MAX;

/// CRC of `octets`, in the low ten bits.
pub fn crc10(octets: &[u8]) -> u16 {
    let (steps, rest) = octets.as_chunks::<STEP>();
    let crc = steps.iter().fold(0, advance);
    rest.iter().fold(crc, |crc, &octet| advance(crc, &[octet]))
}

/// CRC of a SAR-PDU over its first 374 bits: 46 octets and the six bits of LI.
pub fn of_sar_pdu(pdu: &[u8; PAYLOAD_BYTES]) -> u16 {
    // 46 = 14 + 16 + 16: a constant number of steps, which the compiler unrolls.
    let (first, rest) = pdu[..WHOLE_OCTETS].split_at(WHOLE_OCTETS % STEP);
    // The lengths are constants: 14, and two steps of 16.
    let first: &[u8; WHOLE_OCTETS % STEP] = first.try_into().expect("14 octets");
    let crc = rest.as_chunks::<STEP>().0.iter().fold(advance(0, first), advance);
    let length_bits = u16::from(pdu[WHOLE_OCTETS] >> 2);
    (crc << 6 & MASK) ^ SIX_BITS[usize::from((crc >> 4) ^ length_bits)]
}

/// The difference between the CRC found of a SAR-PDU and the one it carries; 0 when they agree.
pub fn syndrome(pdu: &[u8; PAYLOAD_BYTES]) -> u16 {
    of_sar_pdu(pdu) ^ carried(pdu)
}

/// The CRC that a SAR-PDU carries.
pub fn carried(pdu: &[u8; PAYLOAD_BYTES]) -> u16 {
    u16::from_be_bytes([pdu[WHOLE_OCTETS], pdu[WHOLE_OCTETS + 1]]) & MASK
}

/// Writes the CRC of a SAR-PDU into its last ten bits; LI next to it stays.
pub fn insert(pdu: &mut [u8; PAYLOAD_BYTES]) {
    let crc = of_sar_pdu(pdu);
    pdu[WHOLE_OCTETS] = pdu[WHOLE_OCTETS] & 0xfc | (crc >> 8) as u8;
    pdu[WHOLE_OCTETS + 1] = crc as u8;
}

/// The one bit (0 to 383, 0 being the first sent) whose error gives `syndrome`; `None` when no
/// single-bit error does. All 384 syndromes differ, and no two-bit error gives one of them.
pub fn bit_in_error(syndrome: u16) -> Option<u16> {
    let bit = *BIT_OF_SYNDROME.get(usize::from(syndrome))?;
    (bit != NO_BIT).then_some(bit)
}

/// The definition, a bit at a time: the reference for the fast path.
pub fn bitwise(octets: &[u8]) -> u16 {
    octets.iter().fold(0, |crc, &octet| append_bits(crc, octet, 8))
}

/// `crc` after the octets of one step.
#[inline]
fn advance<const OCTETS: usize>(crc: u16, octets: &[u8; OCTETS]) -> u16 {
    // Several sums, independent of each other and of the CRC so far.
    let mut sums = [0; 4];
    for (at, &octet) in octets.iter().enumerate() {
        sums[at % 4] ^= TABLES[OCTETS - 1 - at][usize::from(octet)];
    }
    after_zeros::<OCTETS>(crc) ^ sums[0] ^ sums[1] ^ sums[2] ^ sums[3]
}

/// `crc` after so many octets of zero: its ten bits are over the first octet and two bits more.
#[inline]
fn after_zeros<const OCTETS: usize>(crc: u16) -> u16 {
    let first = TABLES[OCTETS - 1][usize::from(crc >> 2)];
    match OCTETS {
        1 => first ^ (crc << 8 & MASK),
        _ => first ^ TABLES[OCTETS - 2][usize::from((crc << 6) as u8)],
    }
}

/// `crc` after the upper `bits` bits of the octet.
const fn append_bits(mut crc: u16, octet: u8, bits: u32) -> u16 {
    let mut done = 0;
    while done < bits {
        let feedback = (crc >> 9) ^ (octet >> (7 - done) & 1) as u16;
        crc = crc << 1 & MASK;
        if feedback & 1 == 1 {
            crc ^= GENERATOR;
        }
        done += 1;
    }
    crc
}

const fn tables() -> [[u16; 256]; STEP] {
    let mut tables = [[0; 256]; STEP];
    let mut octet = 0;
    while octet < 256 {
        let mut crc = append_bits(0, octet as u8, 8);
        let mut zeros = 0;
        while zeros < STEP {
            tables[zeros][octet] = crc;
            crc = append_bits(crc, 0, 8);
            zeros += 1;
        }
        octet += 1;
    }
    tables
}

const fn six_bits() -> [u16; 64] {
    let mut table = [0; 64];
    let mut bits = 0;
    while bits < 64 {
        table[bits] = append_bits(0, (bits as u8) << 2, 6);
        bits += 1;
    }
    table
}

const fn bits_of_syndromes() -> [u16; 1 << BITS] {
    let mut table = [NO_BIT; 1 << BITS];
    // From the last bit back: an error one bit earlier is divided once more.
    let mut syndrome: u16 = 1;
    let mut bit = PAYLOAD_BYTES as u16 * 8;
    while bit > 0 {
        bit -= 1;
        table[syndrome as usize] = bit;
        syndrome = syndrome << 1 & MASK ^ if syndrome >> 9 == 1 { GENERATOR } else { 0 };
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_check_value_of_the_catalogue() {
        assert_eq!(bitwise(b"123456789"), 0x199);
        assert_eq!(crc10(b"123456789"), 0x199);
    }

    #[test]
    fn every_bit_of_a_pdu_has_the_syndrome_of_the_vectors() {
        let vectors = include_str!("../tests/vectors/crc10-syndromes.csv");
        let mut bits = 0;
        for line in vectors.lines().skip(1) {
            let (bit, syndrome) = line.split_once(',').expect("two columns");
            let syndrome = u16::from_str_radix(syndrome, 16).expect("hexadecimal");
            assert_eq!(bit_in_error(syndrome), bit.parse().ok(), "{line}");
            bits += 1;
        }
        assert_eq!(bits, 384);
    }

    #[test]
    fn every_single_error_is_located_and_no_double_error_is_taken_for_one() {
        let mut pdu = std::array::from_fn(|at| (at * 37) as u8);
        insert(&mut pdu);
        for first in 0..384 {
            flip(&mut pdu, first);
            assert_eq!(bit_in_error(syndrome(&pdu)), Some(first as u16));
            for second in 0..first {
                flip(&mut pdu, second);
                let syndrome = syndrome(&pdu);
                assert!(syndrome != 0 && bit_in_error(syndrome).is_none(), "{first} {second}");
                flip(&mut pdu, second);
            }
            flip(&mut pdu, first);
        }
    }

    #[test]
    fn a_syndrome_beyond_ten_bits_is_no_bit() {
        assert_eq!(bit_in_error(0x400), None);
    }

    fn flip(pdu: &mut [u8; PAYLOAD_BYTES], bit: usize) {
        pdu[bit / 8] ^= 0x80 >> (bit % 8);
    }

    proptest! {
        #[test]
        fn the_fast_path_agrees_with_the_definition(octets in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(crc10(&octets), bitwise(&octets));
        }

        #[test]
        fn a_pdu_with_its_crc_divides_without_rest(pdu in prop::collection::vec(any::<u8>(), 48)) {
            let mut pdu: [u8; 48] = pdu.try_into().unwrap();
            let before = pdu;
            insert(&mut pdu);
            prop_assert_eq!(&pdu[..46], &before[..46]);
            prop_assert_eq!(pdu[46] >> 2, before[46] >> 2);
            prop_assert_eq!((bitwise(&pdu), syndrome(&pdu)), (0, 0));
        }
    }
}
