//! Bundles for tests: what is written and what is read, without the API's details.
#![allow(dead_code, missing_docs, reason = "each test file uses some of it")]

use std::fs;
use std::path::{Path, PathBuf};

use sockscope_record::{Connection, ConnectionId, FlowId, Kind, Process, Protocol, Record, Side};
use sockscope_trace::{Bundle, BundleWriter, ClockSnapshot, Meta, Part};
use tempfile::TempDir;

/// A folder that goes away with the test.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub fn bundle(&self) -> PathBuf {
        self.named("a")
    }

    pub fn named(&self, name: &str) -> PathBuf {
        self.0.path().join(name).with_extension("sockscope")
    }
}

/// `count` records of connection 1, 1 µs apart, every field in use.
pub fn records(count: u64) -> Vec<Record> {
    (0..count)
        .map(|number| Record {
            at_ns: 1_000 * number,
            offset: 100 * number,
            detail: u64::MAX - number,
            flow: FlowId(2 + number as u32 % 2),
            len: 100,
            thread: 4_000 + number as u32 % 3,
            extra: number as u32 * 7,
            kind: Kind::ALL[number as usize % 20],
            code: number as u8 % 5,
            tcp_flags: 0x18,
            marks: number as u8 % 64,
            cpu: number as u16 % 2,
        })
        .collect()
}

pub fn connection(id: u32) -> Connection {
    Connection {
        id: ConnectionId(id),
        protocol: Protocol::Tcp,
        client: format!("10.0.0.1:{}", 40_000 + id % 20_000).parse().unwrap(),
        server: "10.0.0.2:80".parse().unwrap(),
        opened_ns: 5,
        closed_ns: None,
        preexisting: false,
        both_ends_here: true,
        processes: vec![
            Process::new(7, "curl", Side::Client),
            Process::new(9, "nginx: wörker", Side::Server),
        ],
        names: None,
        mark: None,
        elsewhere: None,
    }
}

pub fn meta() -> Meta {
    Meta {
        tool_version: "0.1.0".into(),
        host: "alpha".into(),
        clock: vec![ClockSnapshot::new(1_000, 1_790_000_000_000_001_000)],
        ..Meta::default()
    }
}

/// Writes a finished bundle; each slice is one batch.
pub fn write(dir: &Path, batches: &[&[Record]], connections: &[Connection]) {
    let mut writer = BundleWriter::create(dir, meta()).unwrap();
    for connection in connections {
        writer.connection(connection).unwrap();
    }
    for batch in batches {
        writer.append(batch).unwrap();
        writer.flush().unwrap();
    }
    writer.finish(meta()).unwrap();
}

/// All records, and what is wrong, one sentence each.
pub fn read(dir: &Path) -> (Vec<Record>, Vec<String>) {
    let bundle = Bundle::open(dir).unwrap();
    let mut reader = bundle.records().unwrap();
    let mut all = Vec::new();
    while let Some(batch) = reader.next_batch().unwrap() {
        all.extend_from_slice(batch);
    }
    assert_eq!(reader.rows() + reader.damaged_rows(), bundle.record_rows());
    (all, bundle.problems().iter().map(ToString::to_string).collect())
}

pub fn bytes(dir: &Path, part: Part) -> Vec<u8> {
    fs::read(dir.join(part.file_name())).unwrap()
}

pub fn put(dir: &Path, part: Part, bytes: &[u8]) {
    fs::write(dir.join(part.file_name()), bytes).unwrap();
}
