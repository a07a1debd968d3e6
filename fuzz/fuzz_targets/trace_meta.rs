//! Any bytes as a `meta.json`; accepted input survives being written and read again.
//! Corpus: `tests/bundles/*/*/meta.json`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockscope_trace::Meta;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(meta) = Meta::from_json(bytes) {
        let written = meta.to_json().expect("what was read can be written");
        assert_eq!(Meta::from_json(&written).expect("what was written can be read"), meta);
    }
});
