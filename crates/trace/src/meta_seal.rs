//! The seal that detects changed bytes of `meta.json`.
//!
//! The first field, `sealed`, announces a checksum; the last, `crc32`, holds it: the CRC-32 of the
//! file (the polynomial of IEEE 802.3), in which its own eight digits count as zeros. Either of the
//! two requires the other, so that no change of one place makes the file look like one of a release
//! that wrote no checksum.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::meta::Meta;

/// Digits in place of the checksum while it is computed.
const NO_DIGITS: &str = "00000000";

/// Bytes before the digits.
const BEFORE_DIGITS: &[u8] = b"\"crc32\": \"";

/// `meta.json`: the description of a recording between the two fields of its seal.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(title = "meta.json"))]
pub(crate) struct Sealed<'a> {
    sealed: bool,
    #[serde(flatten)]
    meta: &'a Meta,
    crc32: &'static str,
}

/// The fields of the seal; others are ignored.
#[derive(Deserialize)]
struct Fields {
    sealed: Option<Value>,
    crc32: Option<Value>,
}

/// `meta` as JSON with its seal, and a newline at the end.
pub(crate) fn sealed(meta: &Meta) -> serde_json::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(&Sealed { sealed: true, meta, crc32: NO_DIGITS })?;
    bytes.push(b'\n');
    // The last field is the last place with its name, for any texts before it.
    if let Some(at) = digits_at(&bytes) {
        let digits = digits_of(&bytes, at);
        bytes[at..at + NO_DIGITS.len()].copy_from_slice(digits.as_bytes());
    }
    Ok(bytes)
}

/// Whether the bytes of a `meta.json` are the written ones; an error has the expected content. A
/// file without a seal gives none.
pub(crate) fn check(bytes: &[u8]) -> Result<(), String> {
    let fields: Fields =
        serde_json::from_slice(bytes).map_err(|error| format!("JSON ({error})"))?;
    let digits = match (fields.sealed, fields.crc32) {
        (None, None) => return Ok(()),
        (Some(Value::Bool(true)), Some(Value::String(digits))) => digits,
        _ => return Err("both parts of its seal, sealed and crc32".to_owned()),
    };
    let computed = digits_at(bytes).map(|at| digits_of(bytes, at));
    match computed {
        Some(computed) if computed == digits => Ok(()),
        Some(computed) => Err(format!("a file with checksum {digits}, not {computed}")),
        None => Err("a checksum of eight digits in its last field".to_owned()),
    }
}

/// Start of the digits of the checksum.
fn digits_at(bytes: &[u8]) -> Option<usize> {
    let last = bytes.windows(BEFORE_DIGITS.len()).rposition(|place| place == BEFORE_DIGITS)?;
    let at = last + BEFORE_DIGITS.len();
    (at + NO_DIGITS.len() <= bytes.len()).then_some(at)
}

/// CRC-32 of `bytes` with zeros for the digits at `at`.
fn digits_of(bytes: &[u8], at: usize) -> String {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..at]);
    hasher.update(NO_DIGITS.as_bytes());
    hasher.update(&bytes[at + NO_DIGITS.len()..]);
    format!("{:08x}", hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_the_seal_in_a_note_is_no_seal() {
        let note = "\"crc32\": \"12345678".to_owned();
        let bytes = sealed(&Meta { notes: vec![note], ..Meta::default() }).unwrap();
        assert_eq!(check(&bytes), Ok(()));
    }

    #[test]
    fn what_other_releases_wrote_needs_no_seal() {
        assert_eq!(check(br#"{"format_version":2,"host":"a"}"#), Ok(()));
        assert!(check(b"no JSON").is_err());
    }

    #[test]
    fn half_a_seal_is_damage() {
        let expected = Err("both parts of its seal, sealed and crc32".to_owned());
        assert_eq!(check(br#"{"sealed":true,"crc3":"12345678"}"#), expected);
        assert_eq!(check(br#"{"sealed":true,"crc32":8}"#), expected);
        assert_eq!(check(br#"{"sealex":true,"crc32": "12345678"}"#), expected);
    }

    #[test]
    fn digits_that_cannot_be_are_damage() {
        for digits in ["", "1234567", "é", "AAAAAAAA"] {
            let bytes = format!(r#"{{"sealed":true,"crc32": "{digits}"}}"#);
            assert!(check(bytes.as_bytes()).is_err(), "{digits}");
        }
    }
}
