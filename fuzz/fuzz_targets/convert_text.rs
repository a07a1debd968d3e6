//! Any text as that of tcpdump and of NETMON: read without a panic, in time order.
//! Corpus: `crates/convert/tests/samples/`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockscope_convert::{netmon, tcpdump};

fuzz_target!(|text: &str| {
    for capture in [tcpdump::read(text), netmon::read(text)] {
        assert!(capture.records.is_sorted_by_key(|record| record.at_ns));
    }
});
