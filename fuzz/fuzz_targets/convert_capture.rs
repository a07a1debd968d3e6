//! Any bytes as a capture file: read without a panic, with no more records than its packets can make.
//! Seeds: a file of each format and link type, made by the tests of `convert`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockscope_convert::capture_file::{Told, Unreadable, read};

/// Records of a packet at most: its own, a SYN's options, what is sent again, and what arrived twice.
const RECORDS_MAX: u64 = 4;

fuzz_target!(|file: &[u8]| {
    let told = Told { host: vec!["10.0.0.1".parse().expect("it is an address")] };
    let mut records = 0;
    let summary = read::<Unreadable>(file, &told, |part| {
        records += part.records.len() as u64;
        Ok(())
    });
    if let Ok(summary) = summary {
        // One more is of what the capture missed.
        assert!(records <= 1 + RECORDS_MAX * summary.packets);
        let read: u64 = summary.sent_received_seen.iter().sum();
        let rest: u64 = summary.not_read.iter().map(|(_, count, _)| count).sum();
        assert_eq!(read + rest, summary.packets);
    }
});
