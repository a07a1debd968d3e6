//! The AAL5 CPCS-PDU: payload, padding and trailer.

use crate::{Error, PAYLOAD_BYTES, crc32::crc32};

/// The longest payload.
pub const PAYLOAD_BYTES_MAX: usize = 65_535;

/// Octets after the padding.
pub const TRAILER_BYTES: usize = 8;

/// The longest frame: 1,366 cells.
pub const FRAME_BYTES_MAX: usize = frame_bytes(PAYLOAD_BYTES_MAX);

/// Octets of the frame around `payload_bytes`: a multiple of 48.
pub const fn frame_bytes(payload_bytes: usize) -> usize {
    (payload_bytes + TRAILER_BYTES).next_multiple_of(PAYLOAD_BYTES)
}

/// The contents of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The message.
    pub payload: &'a [u8],
    /// CPCS-UU: one octet from user to user.
    pub user_to_user: u8,
    /// CPI: 0 unless a later use is defined.
    pub common_part: u8,
}

impl<'a> Frame<'a> {
    /// A message with nothing else.
    pub fn of_payload(payload: &'a [u8]) -> Self {
        Self { payload, user_to_user: 0, common_part: 0 }
    }

    /// The four trailer octets before the CRC.
    ///
    /// Fails when the length field cannot hold the payload's length.
    pub(super) fn trailer(&self) -> Result<[u8; 4], Error> {
        let octets = self.payload.len();
        let too_long = Error::Length { what: "AAL5 payload", octets, expected: "at most 65535" };
        let [high, low] = u16::try_from(octets).map_err(|_| too_long)?.to_be_bytes();
        Ok([self.user_to_user, self.common_part, high, low])
    }
}

/// Appends the frame to `octets`. A frame with an empty payload means that a message was given up.
/// Fails when the payload is longer than the length field allows.
pub fn encode(frame: &Frame<'_>, octets: &mut Vec<u8>) -> Result<(), Error> {
    let trailer = frame.trailer()?;
    let begin = octets.len();
    let end = begin + frame_bytes(frame.payload.len());
    octets.reserve(end - begin);
    octets.extend(frame.payload);
    octets.resize(end - TRAILER_BYTES, 0);
    octets.extend(trailer);
    let crc = crc32(&octets[begin..]);
    octets.extend(crc.to_be_bytes());
    Ok(())
}

/// Reads a frame.
///
/// Fails when its length is no multiple of 48 from 48 on, or its CRC is wrong. Fails when its
/// length field is 0 (the sender gave it up) or leaves more than 47 octets of padding, or fewer
/// than 0. The padding is not checked.
pub fn decode(octets: &[u8]) -> Result<Frame<'_>, Error> {
    let bad_length = Error::Length {
        what: "AAL5 frame",
        octets: octets.len(),
        expected: "a multiple of 48 from 48 on",
    };
    if !octets.len().is_multiple_of(PAYLOAD_BYTES) {
        return Err(bad_length);
    }
    let (checked, carried) = octets.split_last_chunk().ok_or(bad_length)?;
    let (padded, trailer) = checked.split_last_chunk::<4>().ok_or(bad_length)?;
    let (carried, found) = (u32::from_be_bytes(*carried), crc32(checked));
    if carried != found {
        return Err(Error::Crc { carried, found });
    }
    let [user_to_user, common_part, length @ ..] = *trailer;
    let field = u16::from_be_bytes(length);
    let payload_bytes = usize::from(field);
    match field {
        0 => Err(Error::Aborted),
        _ if frame_bytes(payload_bytes) == octets.len() => {
            Ok(Frame { payload: &padded[..payload_bytes], user_to_user, common_part })
        }
        _ => Err(Error::LengthField { field, octets: padded.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(frame: &Frame<'_>) -> Vec<u8> {
        let mut octets = Vec::new();
        encode(frame, &mut octets).expect("short enough");
        octets
    }

    #[test]
    fn eight_octets_of_trailer_fill_the_first_cell_at_forty() {
        assert_eq!([0, 40, 41, 88, 89].map(frame_bytes), [48, 48, 96, 96, 144]);
        assert_eq!(FRAME_BYTES_MAX, 1366 * 48);
    }

    #[test]
    fn a_wrong_bit_is_told_with_both_crcs() {
        let mut octets = encoded(&Frame::of_payload(&[0; 40]));
        assert_eq!(octets[44..], 0x864d_7f99u32.to_be_bytes());
        octets[44] ^= 0x80;
        let refused = Error::Crc { carried: 0x064d_7f99, found: 0x864d_7f99 };
        assert_eq!(decode(&octets), Err(refused));
    }

    #[test]
    fn a_length_that_does_not_fit_is_refused_though_the_crc_is_right() {
        let with_length = |length: u16| {
            let mut octets = vec![0; 96];
            octets[90..92].copy_from_slice(&length.to_be_bytes());
            let crc = crc32(&octets[..92]);
            octets[92..].copy_from_slice(&crc.to_be_bytes());
            decode(&octets).map(|frame| frame.payload.len())
        };
        assert_eq!(with_length(0), Err(Error::Aborted));
        assert_eq!(with_length(40), Err(Error::LengthField { field: 40, octets: 88 }));
        assert_eq!(with_length(41), Ok(41));
        assert_eq!(with_length(88), Ok(88));
        assert_eq!(with_length(89), Err(Error::LengthField { field: 89, octets: 88 }));
    }

    #[test]
    fn octets_that_are_no_whole_cells_are_refused() {
        for octets in [0, 8, 47, 49] {
            assert!(matches!(decode(&vec![0; octets]), Err(Error::Length { .. })), "{octets}");
        }
        let long = vec![0; 65_536];
        assert!(encode(&Frame::of_payload(&long), &mut Vec::new()).is_err());
    }

    proptest! {
        #[test]
        fn what_is_framed_is_read_back(
            payload in prop::collection::vec(any::<u8>(), 1..500), user_to_user: u8, common_part: u8,
        ) {
            let frame = Frame { payload: &payload, user_to_user, common_part };
            let octets = encoded(&frame);
            prop_assert_eq!(decode(&octets), Ok(frame));
        }

        #[test]
        fn any_octets_are_read_or_refused(octets in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode(&octets).is_err());
        }
    }
}
