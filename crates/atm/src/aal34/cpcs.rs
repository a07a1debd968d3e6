//! The common part of AAL3/4 (I.363 §4.3): a frame around a message before it is cut into cells.
//!
//! ```text
//! CPI 8 | Btag 8 | BASize 16 | payload, 0 to 65,535 octets | PAD to 4 | AL 8 | Etag 8 | Length 16
//! ```

use crate::Error;

/// The longest payload.
pub const PAYLOAD_BYTES_MAX: usize = 65_535;

/// Octets before the payload, and after its padding.
pub const HEADER_BYTES: usize = 4;

/// Octets after the padding.
pub const TRAILER_BYTES: usize = 4;

/// The longest frame: the necessary capacity of a reassembler.
pub const FRAME_BYTES_MAX: usize = frame_bytes(PAYLOAD_BYTES_MAX);

/// Octets of the frame around `payload_bytes`.
pub const fn frame_bytes(payload_bytes: usize) -> usize {
    HEADER_BYTES + payload_bytes.next_multiple_of(4) + TRAILER_BYTES
}

/// Appends the frame around `payload` to `frame`.
///
/// `tag` should differ from that of the message before. BASize is the length itself, as in message
/// mode. Fails when the payload is longer than the length field allows.
pub fn encode(payload: &[u8], tag: u8, frame: &mut Vec<u8>) -> Result<(), Error> {
    let octets = payload.len();
    let expected = "at most 65535";
    let length = u16::try_from(octets).map_err(|_| Error::Length {
        what: "AAL3/4 payload",
        octets,
        expected,
    })?;
    frame.reserve(frame_bytes(octets));
    frame.extend([0, tag]);
    frame.extend(length.to_be_bytes());
    frame.extend(payload);
    frame.extend(&[0; 3][..octets.next_multiple_of(4) - octets]);
    frame.extend([0, tag]);
    frame.extend(length.to_be_bytes());
    Ok(())
}

/// The payload of a frame.
///
/// Fails when the frame is no multiple of 4, its tags differ, its length does not fit its octets,
/// or BASize is below the length. CPI and AL are not checked: only 0 is defined, and a receiver may
/// not rely on it.
pub fn decode(frame: &[u8]) -> Result<&[u8], Error> {
    let octets = frame.len();
    let length =
        Error::Length { what: "AAL3/4 frame", octets, expected: "a multiple of 4 from 8 on" };
    if !octets.is_multiple_of(4) {
        return Err(length);
    }
    let ([_, begin, size @ ..], rest) = frame.split_first_chunk::<HEADER_BYTES>().ok_or(length)?;
    let (padded, trailer) = rest.split_last_chunk::<TRAILER_BYTES>().ok_or(length)?;
    let [_, end, field @ ..] = trailer;
    if begin != end {
        return Err(Error::Tags { begin: *begin, end: *end });
    }
    let field = u16::from_be_bytes(*field);
    let payload_bytes = usize::from(field);
    let fits = payload_bytes.next_multiple_of(4) == padded.len();
    if !fits || u16::from_be_bytes(*size) < field {
        return Err(Error::LengthField { field, octets: padded.len() });
    }
    Ok(&padded[..payload_bytes])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framed(payload: &[u8], tag: u8) -> Vec<u8> {
        let mut frame = Vec::new();
        encode(payload, tag, &mut frame).expect("short enough");
        frame
    }

    #[test]
    fn five_octets_are_framed_in_sixteen() {
        let frame = framed(b"hello", 7);
        assert_eq!(frame, b"\x00\x07\x00\x05hello\x00\x00\x00\x00\x07\x00\x05");
        assert_eq!(decode(&frame), Ok(&b"hello"[..]));
    }

    #[test]
    fn two_messages_run_together_are_noticed_by_their_tags() {
        let (first, second) = (framed(&[1; 40], 1), framed(&[2; 40], 2));
        let together = [&first[..24], &second[24..]].concat();
        assert_eq!(decode(&together), Err(Error::Tags { begin: 1, end: 2 }));
    }

    #[test]
    fn a_length_that_does_not_fit_is_refused() {
        let mut frame = framed(&[1; 40], 1);
        frame[47] = 36;
        assert_eq!(decode(&frame), Err(Error::LengthField { field: 36, octets: 40 }));
        frame[47] = 40;
        frame[3] = 39;
        assert_eq!(decode(&frame), Err(Error::LengthField { field: 40, octets: 40 }));
        assert!(decode(&frame[..44]).is_err());
        assert!(decode(&frame[..45]).is_err());
        assert!(decode(&[]).is_err());
    }

    #[test]
    fn what_the_length_field_cannot_say_is_refused() {
        let refused = encode(&[0; 65_536], 0, &mut Vec::new()).expect_err("too long");
        assert_eq!(refused.to_string(), "AAL3/4 payload of 65536 octets, expected at most 65535");
    }

    proptest! {
        #[test]
        fn what_is_framed_is_read_back(payload in prop::collection::vec(any::<u8>(), 0..500), tag in any::<u8>()) {
            let frame = framed(&payload, tag);
            prop_assert_eq!(frame.len(), frame_bytes(payload.len()));
            prop_assert_eq!(decode(&frame), Ok(&payload[..]));
        }
    }
}
