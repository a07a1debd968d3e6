//! What is whole is given, what is not is named, and no bytes whatever make a reader panic.

mod common;

use std::fs;
use std::io::Cursor;
use std::path::Path;

use common::{Folder, bytes, connection, meta, put, read, records, write};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};
use sockscope_trace::{
    Bundle, BundleWriter, ConnectionReader, Error, Meta, Part, Problem, RecordReader,
};

/// Reads records until there are no more; the count and why it ended.
fn read_records(bytes: &[u8]) -> (u64, Option<Problem>) {
    let mut reader = RecordReader::new(Cursor::new(bytes), "records.arrows");
    let mut records = 0;
    while let Ok(Some(batch)) = reader.next_batch() {
        records += batch.len() as u64;
    }
    (records, reader.problem())
}

fn read_connections(bytes: &[u8]) -> (usize, Vec<Problem>) {
    let mut reader = ConnectionReader::new(Cursor::new(bytes), "flows.arrows");
    let _ = reader.read();
    (reader.connections().len(), reader.problems())
}

/// Three batches of 5, 7 and 9 records, two connections.
fn small() -> Folder {
    let folder = Folder::new();
    let all = records(21);
    write(&folder.bundle(), &[&all[..5], &all[5..12], &all[12..]], &[connection(1), connection(2)]);
    folder
}

#[test]
fn cut_at_any_byte_the_records_end_at_a_whole_batch_and_say_where() {
    let whole = bytes(&small().bundle(), Part::Records);
    let mut counts = Vec::new();
    for length in 0..whole.len() {
        let (count, problem) = read_records(&whole[..length]);
        match problem {
            Some(Problem::Truncated { at_byte, rows, .. }) => {
                assert!(at_byte < length as u64);
                assert_eq!(rows, count);
            }
            Some(Problem::NotFinished { at_byte, rows, .. }) => {
                assert_eq!((at_byte, rows), (length as u64, count));
            }
            other => panic!("cut at {length}: {other:?}"),
        }
        counts.push(count);
    }
    counts.dedup();
    assert_eq!(counts, [0, 5, 12, 21]);
    assert_eq!(read_records(&whole), (21, None));
}

#[test]
fn cut_at_any_byte_the_connections_open_too() {
    let whole = bytes(&small().bundle(), Part::Flows);
    let mut counts: Vec<_> =
        (0..whole.len()).map(|length| read_connections(&whole[..length]).0).collect();
    counts.dedup();
    assert_eq!(counts, [0, 2]);
    assert_eq!(read_connections(&whole), (2, vec![]));
}

#[test]
fn a_truncated_bundle_says_what_is_whole() {
    let folder = small();
    let whole = bytes(&folder.bundle(), Part::Records);
    put(&folder.bundle(), Part::Records, &whole[..whole.len() - 1_500]);
    let (found, problems) = read(&folder.bundle());
    assert_eq!(found, records(12));
    let at = problems[0].find("up to byte ").map(|place| &problems[0][..place + 11]);
    assert_eq!(at, Some("records.arrows: truncated: whole up to byte "));
    assert!(problems[0].ends_with("(batches: 3, rows: 12), then part of a batch"), "{problems:?}");
}

#[test]
fn a_killed_writer_leaves_all_that_was_flushed() {
    let folder = Folder::new();
    let mut writer = BundleWriter::create(folder.bundle(), meta()).unwrap();
    writer.connection(&connection(1)).unwrap();
    writer.append(&records(30)).unwrap();
    writer.flush().unwrap();
    writer.append(&[Default::default(); 10]).unwrap();
    drop(writer);
    let (found, problems) = read(&folder.bundle());
    assert_eq!(found, records(30));
    let started: Vec<_> = problems.iter().map(|text| text.split(':').nth(1).unwrap()).collect();
    assert_eq!(started, [" not finished", " not finished"]);
    let bundle = Bundle::open(folder.bundle()).unwrap();
    assert_eq!(bundle.connections(), [connection(1)]);
    assert!(!bundle.meta().complete);
}

#[test]
fn each_file_may_be_missing_and_the_others_still_open() {
    for part in Part::ALL {
        let folder = small();
        fs::remove_file(folder.bundle().join(part.file_name())).unwrap();
        let (found, problems) = read(&folder.bundle());
        assert_eq!(problems, [format!("{part}: missing")]);
        assert_eq!(found.len(), if part == Part::Records { 0 } else { 21 });
        let bundle = Bundle::open(folder.bundle()).unwrap();
        assert_eq!(bundle.connections().len(), if part == Part::Flows { 0 } else { 2 });
        assert_eq!(bundle.meta().host.is_empty(), part == Part::Meta);
    }
}

#[test]
fn a_meta_that_is_no_json_is_a_problem_not_an_error() {
    let folder = small();
    put(&folder.bundle(), Part::Meta, b"{\"host\":");
    let (found, problems) = read(&folder.bundle());
    assert_eq!(found.len(), 21);
    assert!(problems[0].starts_with("meta.json: line 1, column 8: expected"), "{problems:?}");
}

#[test]
fn a_later_format_is_one_clear_error() {
    let folder = small();
    put(&folder.bundle(), Part::Meta, b"{\"format_version\":9}");
    let error = Bundle::open(folder.bundle()).unwrap_err();
    assert!(matches!(error, Error::NewerVersion { found: 9, .. }), "{error}");
    assert!(error.to_string().ends_with(
        "format version 9, and this sockscope reads up to version 2: a later release opens it"
    ));
}

/// A file of the sample of format version 1, whose messages have no seals.
fn unsealed(part: Part) -> Vec<u8> {
    let bundles = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/bundles");
    bytes(&bundles.join("v1/calls.sockscope"), part)
}

fn place_of(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).position(|window| window == what).unwrap()
}

#[test]
fn a_later_format_shows_in_the_streams_as_well() {
    let mut changed = unsealed(Part::Records);
    let at = place_of(&changed, b"sockscope.format_version");
    // The value stands elsewhere in the header, as a text of one byte: its length, then `1`.
    let place = place_of(&changed[..at + 500], b"\x01\x00\x00\x001\x00");
    changed[place + 4] = b'7';
    let mut reader = RecordReader::new(Cursor::new(changed), "records.arrows");
    assert!(matches!(reader.next_batch(), Err(Error::NewerVersion { found: 7, .. })));
}

#[test]
fn without_seals_damage_keeps_the_batches_before_it() {
    let mut damaged = unsealed(Part::Records);
    let whole = read_records(&damaged).0;
    let marks: Vec<_> = (0..damaged.len() - 8)
        .step_by(8)
        .filter(|at| damaged[*at..at + 4] == [0xff; 4] && damaged[at + 4..at + 8] != [0xff; 4])
        .collect();
    // Schema, the empty batch, then the batches with rows: damage is in the second of these.
    let at_byte = marks[3] as u64;
    damaged[marks[3]] = 0;
    let (count, problem) = read_records(&damaged);
    assert!(0 < count && count < whole);
    let expected = "the mark ff ff ff ff before a message".to_owned();
    let (part, rows) = (Part::Records, count);
    assert_eq!(problem, Some(Problem::Damaged { part, at_byte, batches: 2, rows, expected }));
}

#[test]
fn unknown_kinds_are_skipped_and_counted() {
    let mut changed = unsealed(Part::Records);
    let mut reader = RecordReader::new(Cursor::new(&changed), "records.arrows");
    let mut first = Vec::new();
    while first.is_empty() {
        first = reader.next_batch().unwrap().unwrap().to_vec();
    }
    let codes: Vec<u8> = first.iter().map(|record| record.kind as u8).collect();
    let at = place_of(&changed, &codes);
    changed[at + 1..at + 4].fill(99);
    let mut reader = RecordReader::new(Cursor::new(&changed), "records.arrows");
    let mut found = Vec::new();
    while found.is_empty() {
        found = reader.next_batch().unwrap().unwrap().to_vec();
    }
    let known: Vec<_> = first[..1].iter().chain(&first[4..]).copied().collect();
    assert_eq!((found, reader.unknown_kinds()), (known, 3));
}

#[test]
fn a_row_that_makes_no_sense_is_skipped_and_named() {
    let mut changed = unsealed(Part::Flows);
    let at = place_of(&changed, b"127.0.0.1");
    changed[at] = b'x';
    let (count, problems) = read_connections(&changed);
    // A later row of the same connection is whole.
    assert_eq!(count, 2);
    assert_eq!(
        problems[0].to_string(),
        "flows.arrows: 1 row skipped, the first of them row 0: \
         expected address and port, as 127.0.0.1:80 or [::1]:80"
    );
}

#[test]
fn an_absurd_header_length_is_refused_before_it_is_allocated() {
    let mut bytes = vec![0xff; 8];
    bytes.extend([0; 64]);
    let (_, problem) = read_records(&bytes);
    let problem = problem.unwrap().to_string();
    assert!(
        problem.contains("a message header of at most 1048576 bytes, not 4294967295"),
        "{problem}"
    );
}

/// The entries of the fuzz targets, run on mutated real files with a fixed seed.
#[test]
fn mutated_bytes_never_panic() {
    let folder = small();
    let [records, flows, meta] = Part::ALL.map(|part| bytes(&folder.bundle(), part));
    let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    for _ in 0..4000 {
        read_records(&mutated(&records, &mut rng));
        read_connections(&mutated(&flows, &mut rng));
        let _ = Meta::from_json(&mutated(&meta, &mut rng));
    }
}

/// A few bytes changed, mostly in headers, where they hurt; at times the end cut off.
fn mutated(bytes: &[u8], rng: &mut TestRng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + rng.next_u32() % 4 {
        let at = rng.next_u32() as usize % bytes.len();
        bytes[at] = match rng.next_u32() % 4 {
            0 => 0xff,
            1 => 0,
            2 => bytes[at] ^ 1 << (rng.next_u32() % 8),
            _ => rng.next_u32() as u8,
        };
    }
    if rng.next_u32().is_multiple_of(8) {
        bytes.truncate(rng.next_u32() as usize % bytes.len());
    }
    bytes
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        prop_assert_eq!(read_records(&bytes).0, 0);
        prop_assert_eq!(read_connections(&bytes).0, 0);
        let _ = Meta::from_json(&bytes);
    }
}
