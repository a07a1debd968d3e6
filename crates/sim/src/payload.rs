//! The payload of the model's programs: a pattern that follows from the position in the stream.
//!
//! A reader computes the expected bytes from its own position, and so finds each lost, repeated or
//! damaged byte. The pattern repeats after a prime number of bytes, which is a multiple of no segment,
//! mbuf or page: bytes shifted by one of these sizes differ from the expected ones.

/// Bytes after which the pattern repeats; the largest prime below 2^16.
pub const PERIOD: u64 = 65_521;

/// The payload, long enough for the longest piece asked for so far.
#[derive(Debug)]
pub struct Payload {
    bytes: Vec<u8>,
}

impl Default for Payload {
    fn default() -> Self {
        let mut payload = Self { bytes: Vec::new() };
        payload.make_room(16 * 1024);
        payload
    }
}

impl Payload {
    /// Makes room for pieces of up to `len` bytes.
    pub fn make_room(&mut self, len: usize) {
        let (have, want) = (self.bytes.len(), PERIOD as usize + len);
        self.bytes.extend((have..want).map(|place| byte_at(place as u64 % PERIOD)));
    }

    /// The bytes from position `offset` of the stream on; room for `len` must have been made.
    pub fn piece(&self, offset: u64, len: usize) -> &[u8] {
        let start = (offset % PERIOD) as usize;
        assert!(start + len <= self.bytes.len(), "no room was made for {len} bytes");
        &self.bytes[start..start + len]
    }

    /// Position of the first of `bytes` that differs from the stream at `offset`.
    pub fn first_difference(&self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let room = self.bytes.len() - PERIOD as usize;
        let mut at = offset;
        for piece in bytes.chunks(room) {
            let expected = self.piece(at, piece.len());
            if piece != expected {
                let same = piece.iter().zip(expected).take_while(|(a, b)| a == b).count();
                return Some(at + same as u64);
            }
            at += piece.len() as u64;
        }
        None
    }
}

/// The byte at a place of the period, from the bits of a multiplicative hash (Knuth, TAOCP 6.4).
fn byte_at(place: u64) -> u8 {
    ((place as u32).wrapping_mul(0x9e37_79b1) >> 24) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_and_repeat_after_the_period() {
        let mut payload = Payload::default();
        payload.make_room(100_000);
        let whole = payload.piece(5, 2000).to_vec();
        assert_eq!([payload.piece(5, 700), payload.piece(705, 1300)].concat(), whole);
        assert_eq!(payload.piece(5 + PERIOD, 2000), whole);
    }

    #[test]
    fn the_first_wrong_byte_is_found() {
        let payload = Payload::default();
        let mut bytes = payload.piece(1_000_000, 3000).to_vec();
        assert_eq!(payload.first_difference(1_000_000, &bytes), None);
        bytes[1234] ^= 0x10;
        assert_eq!(payload.first_difference(1_000_000, &bytes), Some(1_001_234));
    }

    #[test]
    fn a_shift_by_any_usual_size_is_seen() {
        let payload = Payload::default();
        for shift in [1, 2, 4, 8, 100, 108, 112, 128, 512, 536, 1024, 1460, 2048, 4096, 8192] {
            assert!(payload.first_difference(shift, payload.piece(0, 1024)).is_some(), "{shift}");
        }
    }
}
