//! Any bytes as a `flows.arrows`. Corpus: `tests/bundles/*/*/flows.arrows`.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use sockscope_trace::ConnectionReader;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = ConnectionReader::new(Cursor::new(bytes), "flows.arrows");
    // Only a later format version is an error here, and that is a valid answer.
    let _ = reader.read();
    let _ = reader.problems();
});
