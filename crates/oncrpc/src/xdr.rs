//! XDR (RFC 4506): everything is a multiple of four octets, big-endian, without type tags. Only the
//! types that calls, replies and the portmapper have are here.

use super::{Result, RpcError};

/// Octets that a value of `len` octets takes with its fill (RFC 4506 §3).
pub fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

/// The destination of encoded octets. Words and runs of octets are separate, because the classic
/// record stream treats a full buffer differently for each.
pub trait Sink {
    /// Takes one unit of four octets.
    fn put_word(&mut self, word: u32);
    /// Takes octets that need not end at a unit.
    fn put_octets(&mut self, octets: &[u8]);
}

impl Sink for Vec<u8> {
    fn put_word(&mut self, word: u32) {
        self.extend_from_slice(&word.to_be_bytes());
    }

    fn put_octets(&mut self, octets: &[u8]) {
        self.extend_from_slice(octets);
    }
}

/// Encodes values one after the other.
pub struct Encoder<'a> {
    sink: &'a mut dyn Sink,
}

impl<'a> Encoder<'a> {
    /// Encodes into `sink`.
    pub fn new(sink: &'a mut dyn Sink) -> Self {
        Self { sink }
    }

    /// Unsigned integer (§4.2).
    pub fn uint(&mut self, value: u32) -> &mut Self {
        self.sink.put_word(value);
        self
    }

    /// Fixed-length opaque data and its fill (§4.9).
    pub fn opaque_fixed(&mut self, octets: &[u8]) -> &mut Self {
        const FILL: [u8; 3] = [0; 3];
        self.sink.put_octets(octets);
        let fill = padded(octets.len()) - octets.len();
        if fill > 0 {
            self.sink.put_octets(&FILL[..fill]);
        }
        self
    }

    /// Variable-length opaque data (§4.10). At most `u32::MAX` octets are encoded.
    pub fn opaque(&mut self, octets: &[u8]) -> &mut Self {
        let len = u32::try_from(octets.len()).unwrap_or(u32::MAX);
        self.uint(len).opaque_fixed(&octets[..len as usize])
    }

    /// String (§4.11).
    pub fn string(&mut self, text: &str) -> &mut Self {
        self.opaque(text.as_bytes())
    }
}

/// Decodes values one after the other.
#[derive(Debug, Clone)]
pub struct Decoder<'a> {
    octets: &'a [u8],
    at: usize,
}

impl<'a> Decoder<'a> {
    /// Decodes `octets` from their start.
    pub fn new(octets: &'a [u8]) -> Self {
        Self { octets, at: 0 }
    }

    /// Octets not taken yet.
    pub fn rest(&self) -> &'a [u8] {
        &self.octets[self.at..]
    }

    /// An error at the present place.
    pub fn expected(&self, expected: &'static str) -> RpcError {
        RpcError { offset: self.at, expected }
    }

    /// Unsigned integer.
    ///
    /// # Errors
    ///
    /// When fewer than four octets are left.
    pub fn uint(&mut self) -> Result<u32> {
        let word = self.rest().first_chunk().ok_or_else(|| self.expected("four octets"))?;
        self.at += 4;
        Ok(u32::from_be_bytes(*word))
    }

    /// Fixed-length opaque data; its fill must be zero (§3).
    ///
    /// # Errors
    ///
    /// When it is cut short, or the fill is not zero.
    pub fn opaque_fixed(&mut self, len: usize) -> Result<&'a [u8]> {
        let rest = self.rest();
        if len > rest.len() || padded(len) > rest.len() {
            return Err(self.expected("the octets that the length announces"));
        }
        let (data, fill) = rest[..padded(len)].split_at(len);
        if fill.iter().any(|octet| *octet != 0) {
            return Err(RpcError { offset: self.at + len, expected: "fill of zeros" });
        }
        self.at += padded(len);
        Ok(data)
    }

    /// Variable-length opaque data of at most `max` octets.
    ///
    /// # Errors
    ///
    /// When it is longer, cut short, or its fill is not zero.
    pub fn opaque(&mut self, max: usize) -> Result<&'a [u8]> {
        let place = self.clone();
        let len = self.uint()? as usize;
        if len > max {
            return Err(place.expected("a shorter length"));
        }
        self.opaque_fixed(len)
    }

    /// String of at most `max` octets. RFC 4506 wants ASCII; UTF-8 is taken too.
    ///
    /// # Errors
    ///
    /// As [`Decoder::opaque`], and when it is not UTF-8.
    pub fn string(&mut self, max: usize) -> Result<&'a str> {
        let place = self.clone();
        let octets = self.opaque(max)?;
        std::str::from_utf8(octets).map_err(|_| place.expected("text"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{hex, words};
    use proptest::prelude::*;

    fn encoded(encode: impl FnOnce(&mut Encoder<'_>)) -> String {
        let mut octets = Vec::new();
        encode(&mut Encoder::new(&mut octets));
        words(&octets)
    }

    #[test]
    fn every_type_encodes_as_the_standard_says() {
        let check = |encode: &dyn Fn(&mut Encoder<'_>), expected: &str| {
            assert_eq!(encoded(|to| encode(to)), expected);
        };
        check(&|to| _ = to.uint(0xdead_beef), "deadbeef");
        check(&|to| _ = to.opaque_fixed(&[1, 2, 3]), "01020300");
        check(&|to| _ = to.string("hi"), "00000002 68690000");
        check(&|to| _ = to.string(""), "00000000");
        check(&|to| _ = to.uint(1).uint(2), "00000001 00000002");
    }

    /// RFC 4506 §7: the file that holds a program.
    #[test]
    fn the_published_example_encodes_and_decodes() {
        const FILE: &str = "00000009 73696c6c 7970726f 67000000 00000002 00000004 6c697370 \
                            00000004 6a6f686e 00000006 28717569 74290000";
        let text = encoded(|to| {
            to.string("sillyprog").uint(2).string("lisp").string("john").opaque(b"(quit)");
        });
        assert_eq!(text, FILE);
        let octets = hex(FILE);
        let mut from = Decoder::new(&octets);
        assert_eq!(from.string(255), Ok("sillyprog"));
        assert_eq!(from.uint(), Ok(2));
        assert_eq!(from.string(255), Ok("lisp"));
        assert_eq!(from.string(32), Ok("john"));
        assert_eq!(from.opaque(65535), Ok(&b"(quit)"[..]));
        assert!(from.rest().is_empty());
    }

    #[test]
    fn hostile_octets_are_refused_with_their_place() {
        let fails = |octets: &str, decode: &dyn Fn(&mut Decoder<'_>) -> Result<()>| {
            decode(&mut Decoder::new(&hex(octets))).unwrap_err().to_string()
        };
        let opaque = |from: &mut Decoder<'_>| from.opaque(8).map(drop);
        assert_eq!(fails("000000", &opaque), "octet 0: expected four octets");
        assert_eq!(fails("00000009", &opaque), "octet 0: expected a shorter length");
        let cut = "octet 4: expected the octets that the length announces";
        assert_eq!(fails("00000003 010203", &opaque), cut);
        assert_eq!(fails("00000003 01020301", &opaque), "octet 7: expected fill of zeros");
        assert_eq!(
            fails("00000001 ff000000", &|from| from.string(9).map(drop)),
            "octet 0: expected text"
        );
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(word: u32, opaque: Vec<u8>, text: String) {
            let mut octets = Vec::new();
            Encoder::new(&mut octets).uint(word).opaque(&opaque).string(&text);
            prop_assert_eq!(octets.len() % 4, 0);
            let mut from = Decoder::new(&octets);
            prop_assert_eq!(from.uint()?, word);
            prop_assert_eq!(from.opaque(usize::MAX)?, &opaque);
            prop_assert_eq!(from.string(usize::MAX)?, &text);
            prop_assert!(from.rest().is_empty());
        }
    }
}
