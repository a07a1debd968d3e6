//! Header error control (I.432): the fifth octet of a cell, and its use by a receiver.
//!
//! The octet is the CRC-8 of the four before it, generator x^8+x^2+x+1, with 0x55 added. The forty
//! single-bit errors give forty different syndromes, and none of the 780 two-bit errors gives one of
//! them: a receiver corrects one bit or detects two.

use crc::{CRC_8_I_432_1, Crc};

use crate::HEADER_BYTES;

/// The CRC with 0x55 added, so that cells are found in a stream that has slipped.
static CRC: Crc<u8> = Crc::<u8>::new(&CRC_8_I_432_1);

/// Bit of the header (0 is the first sent) by the syndrome that its error alone gives.
static BIT_OF_SYNDROME: [u8; 256] = bits_of_syndromes();

/// Marks a syndrome that no single-bit error gives.
const NO_BIT: u8 = u8::MAX;

/// The HEC octet for the four octets of `header`, given as the word that begins with octet 1.
pub fn of_header(header: u32) -> u8 {
    CRC.checksum(&header.to_be_bytes())
}

/// The difference between the HEC of a header and the one it carries; 0 when they agree.
pub fn syndrome(octets: &[u8; HEADER_BYTES]) -> u8 {
    let [first, second, third, fourth, hec] = *octets;
    of_header(u32::from_be_bytes([first, second, third, fourth])) ^ hec
}

/// The one bit (0 to 39, 0 being the first sent) whose error gives `syndrome`; `None` when no
/// single-bit error does.
pub fn bit_in_error(syndrome: u8) -> Option<u8> {
    let bit = BIT_OF_SYNDROME[usize::from(syndrome)];
    (bit != NO_BIT).then_some(bit)
}

/// The mode of a receiver for the next bad header (I.432, HEC receiver modes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// A single-bit error is corrected, once.
    #[default]
    Correction,
    /// Any error discards the cell: after one error, the next is likely part of a burst.
    Detection,
}

/// The verdict of a receiver on one header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No error.
    Good,
    /// This bit (0 to 39) was wrong and has been corrected.
    Corrected(u8),
    /// The cell is not to be used.
    Discard,
}

/// The receiver of one line, which starts in [`Mode::Correction`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Receiver {
    mode: Mode,
}

impl Receiver {
    /// A receiver that may correct the first error it meets.
    pub fn new() -> Self {
        Self::default()
    }

    /// The mode for the next bad header.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Checks the header of the next cell, and corrects it in place when it may.
    pub fn receive(&mut self, octets: &mut [u8; HEADER_BYTES]) -> Verdict {
        let syndrome = syndrome(octets);
        if syndrome == 0 {
            self.mode = Mode::Correction;
            return Verdict::Good;
        }
        let was = std::mem::replace(&mut self.mode, Mode::Detection);
        match bit_in_error(syndrome) {
            Some(bit) if was == Mode::Correction => {
                octets[usize::from(bit / 8)] ^= 0x80 >> (bit % 8);
                Verdict::Corrected(bit)
            }
            _ => Verdict::Discard,
        }
    }
}

const fn bits_of_syndromes() -> [u8; 256] {
    let mut table = [NO_BIT; 256];
    // From the last bit back: an error one bit earlier is divided once more.
    let mut syndrome: u8 = 1;
    let mut bit = HEADER_BYTES as u8 * 8;
    while bit > 0 {
        bit -= 1;
        table[syndrome as usize] = bit;
        syndrome = syndrome << 1 ^ if syndrome >> 7 == 1 { CRC_8_I_432_1.poly } else { 0 };
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: u32 = 0x0000_0200;

    fn sealed(header: u32) -> [u8; 5] {
        let [first, second, third, fourth] = header.to_be_bytes();
        [first, second, third, fourth, of_header(header)]
    }

    fn flipped(mut octets: [u8; 5], bits: &[u8]) -> [u8; 5] {
        for &bit in bits {
            octets[usize::from(bit / 8)] ^= 0x80 >> (bit % 8);
        }
        octets
    }

    #[test]
    fn headers_and_syndromes_of_the_vectors() {
        let mut lines = 0;
        for line in include_str!("../tests/vectors/hec.csv").lines().skip(1) {
            let mut columns = line.rsplit(',');
            let expected = u8::from_str_radix(columns.next().unwrap(), 16).unwrap();
            let header = u64::from_str_radix(columns.next().unwrap(), 16).unwrap();
            let octets: [u8; 5] = header.to_be_bytes()[3..].try_into().unwrap();
            assert_eq!(syndrome(&octets), expected, "{line}");
            lines += 1;
        }
        assert_eq!(lines, 51);
    }

    #[test]
    fn every_single_bit_error_is_corrected() {
        for bit in 0..40 {
            let mut receiver = Receiver::new();
            let mut octets = flipped(sealed(GOOD), &[bit]);
            assert_eq!(receiver.receive(&mut octets), Verdict::Corrected(bit));
            assert_eq!(octets, sealed(GOOD));
        }
    }

    #[test]
    fn every_two_bit_error_is_detected() {
        let mut pairs = 0;
        for first in 0..40 {
            for second in 0..first {
                let mut octets = flipped(sealed(GOOD), &[first, second]);
                assert_eq!(Receiver::new().receive(&mut octets), Verdict::Discard);
                pairs += 1;
            }
        }
        assert_eq!(pairs, 780);
    }

    #[test]
    fn a_receiver_corrects_one_error_and_then_discards_until_a_good_header() {
        let mut receiver = Receiver::new();
        let mut verdicts = |bits: &[u8]| receiver.receive(&mut flipped(sealed(GOOD), bits));
        assert_eq!(verdicts(&[]), Verdict::Good);
        assert_eq!(verdicts(&[7]), Verdict::Corrected(7));
        assert_eq!(verdicts(&[7]), Verdict::Discard);
        assert_eq!(verdicts(&[9]), Verdict::Discard);
        assert_eq!(verdicts(&[]), Verdict::Good);
        assert_eq!(verdicts(&[9]), Verdict::Corrected(9));
        assert_eq!(verdicts(&[]), Verdict::Good);
        assert_eq!(verdicts(&[1, 2]), Verdict::Discard);
        assert_eq!(verdicts(&[1]), Verdict::Discard);
    }

    proptest! {
        #[test]
        fn errors_look_the_same_in_every_header(header in any::<u32>(), bit in 0u8..40) {
            prop_assert_eq!(bit_in_error(syndrome(&flipped(sealed(header), &[bit]))), Some(bit));
        }
    }
}
