//! The check of the targets that read capture files.

use sockscope_convert::capture_file::{Told, Unreadable, read};

/// Records of a packet at most: its own, a SYN's options, what is sent again, and what arrived twice.
const RECORDS_MAX: u64 = 4;

/// Reads a file without a panic, with no more records than its packets can make. Every packet is read or counted.
pub fn check(file: &[u8]) {
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
}
