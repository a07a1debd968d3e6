//! The seal of a segment: its files and the facts that an analysis needs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sockscope_record::{FlowId, Kind, Loss, Record};

/// The folder of the seals in a spool.
pub const SEGMENTS: &str = "segments";
/// Version of the seals.
pub(crate) const SCHEMA: &str = "sockscope.spool/1";

/// A segment of one host. Its seal is written after all its files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// `sockscope.spool/1`.
    pub schema: String,
    /// Version of the program that wrote it.
    pub tool_version: String,
    /// Name of the host.
    pub host: String,
    /// The recording: numbers of connections are its own.
    pub run: String,
    /// Place among the segments of the recording, from 0 on.
    pub sequence: u64,
    /// The recording ended with it.
    pub is_last: bool,
    /// Release of the kernel.
    pub kernel: String,
    /// Where its records are from, as in a trace.
    pub source: String,
    /// Nanoseconds to add to its times for the time since 1970.
    pub offset_ns: i64,
    /// It has the records from this time on, on its own clock.
    pub from_ns: u64,
    /// And before this time.
    pub until_ns: u64,
    /// Records in its files.
    pub records: u64,
    /// Records of connections that the trace does not describe, which are in no file.
    pub undescribed_records: u64,
    /// Names of the numbers in records of kind `Drop`.
    pub drop_reasons: BTreeMap<u32, String>,
    /// Times in which it missed records of any connection.
    pub losses: Vec<Missed>,
    /// Its files, by bucket.
    pub files: Vec<BucketFile>,
}

/// A file with the records of one bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketFile {
    /// The bucket.
    pub bucket: u16,
    /// Path below the spool.
    pub path: String,
    /// Size in octets.
    pub bytes: u64,
    /// CRC-32 (IEEE 802.3) of its octets.
    pub crc32: u32,
    /// Records in it.
    pub records: u64,
    /// Connections in it.
    pub connections: u64,
}

/// A record of kind `Loss` that concerns no single flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// Begin of the time.
    pub since_ns: u64,
    /// Its end.
    pub at_ns: u64,
    /// Number of missed records; 0 where that is unknown.
    pub count: u64,
    /// Kind of the missed records.
    pub code: u8,
    /// Marks of the record.
    pub marks: u8,
}

impl Missed {
    pub(crate) fn of(record: &Record) -> Option<Self> {
        let loss = record.loss().filter(|_| record.flow == FlowId::default())?;
        let (at_ns, marks) = (record.at_ns, record.marks);
        Some(Self { since_ns: loss.since_ns, at_ns, count: loss.count, code: record.code, marks })
    }

    pub(crate) fn record(&self) -> Record {
        let loss =
            Loss { since_ns: self.since_ns, count: self.count, of: Kind::from_code(self.code) };
        Record { at_ns: self.at_ns, marks: self.marks, ..Record::default() }.with_loss(loss)
    }
}

/// Name of the files of a segment, without the extension: `HOST-RUN-SEQUENCE`.
pub(crate) fn file_name(host: &str, run: &str, sequence: u64) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '-' | '_');
    let host: String = host.chars().map(|it| if is_plain(it) { it } else { '_' }).collect();
    // A name that begins with a dot would be hidden.
    format!("{}-{run}-{sequence:08}", host.trim_start_matches('.'))
}
