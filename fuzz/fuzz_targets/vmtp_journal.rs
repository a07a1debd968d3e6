//! The journal of a store. Any octets as one; then the same octets, cut into records, make a journal
//! that is damaged: reading it returns the records before the damage, and nothing else. The state of
//! a store from a journal is all that the next one needs.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockscope_vmtp::store::fuzz::{again, journal, known, payloads};

/// Octets before the first record.
const HEAD_BYTES: usize = 16;
/// Octets of a record before its payload.
const RECORD_HEAD_BYTES: usize = 12;
/// Octets of the shortest payload.
const PAYLOAD_BYTES_MIN: usize = 5;

fuzz_target!(|octets: &[u8]| {
    let _ = payloads(octets);
    let Some((&[records, place, cut, flip], rest)) = octets.split_first_chunk::<4>() else {
        return;
    };
    let written = split(rest, 1 + usize::from(records % 16));
    damage(&written, usize::from(records / 16), usize::from(place) << 4 | usize::from(cut), flip);
    for payload in &written {
        // A refusal is kept without the refused request: written once more, nothing changes any more.
        let Some(first) = again(payload) else { continue };
        assert!(first.len() <= payload.len());
        assert_eq!(again(&first), Some(first));
    }
    let once = known(&written);
    assert_eq!(known(&once), once);
});

/// Payloads: each begins with its length, so that the fuzzer can move their borders.
fn split(mut octets: &[u8], most: usize) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    while let Some((&len, rest)) = octets.split_first().filter(|_| payloads.len() < most) {
        let (payload, later) = rest.split_at(rest.len().min(usize::from(len)));
        octets = later;
        // No store writes shorter ones.
        if payload.len() >= PAYLOAD_BYTES_MIN {
            payloads.push(payload.to_vec());
        }
    }
    payloads
}

/// Cuts a journal anywhere, or damages an octet of it.
fn damage(written: &[Vec<u8>], known: usize, place: usize, flip: u8) {
    let known = known.min(written.len());
    let mut octets = journal(known as u64, written);
    assert_eq!(payloads(&octets).as_deref(), Some(written));
    let place = HEAD_BYTES + place % (octets.len() - HEAD_BYTES + 1);
    match octets.get_mut(place).filter(|_| flip != 0) {
        Some(octet) => *octet ^= flip,
        None => octets.truncate(place),
    }
    let whole = whole_before(written, place);
    match payloads(&octets) {
        Some(read) => assert!(read == written[..whole] && whole >= known),
        None => assert!(whole < known, "{whole} records are whole, and {known} had to be"),
    }
}

/// Records that end at this octet or before it.
fn whole_before(written: &[Vec<u8>], place: usize) -> usize {
    let ends = written.iter().scan(HEAD_BYTES, |end, payload| {
        *end += RECORD_HEAD_BYTES + payload.len();
        Some(*end)
    });
    ends.take_while(|&end| end <= place).count()
}
