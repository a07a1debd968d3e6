//! Bits that changed anywhere in a finished file are noticed, and cost no batch but their own.

mod common;

use std::io::Cursor;

use common::{Folder, bytes, connection, put, read, records, write};
use sockscope_record::{Kind, Point, Record};
use sockscope_trace::{Bundle, ConnectionReader, Part, Problem, RecordReader, check};

/// Four batches with rows.
const BATCHES: [std::ops::Range<usize>; 4] = [0..5, 5..12, 12..21, 21..40];

fn finished() -> Folder {
    let folder = Folder::new();
    let all = records(40);
    let batches: Vec<&[Record]> = BATCHES.iter().map(|range| &all[range.clone()]).collect();
    write(&folder.bundle(), &batches, &[connection(1), connection(2)]);
    folder
}

/// What a reader gives, its own loss records aside, the rows that these tell, and the problems.
fn read_all(bytes: &[u8]) -> (Vec<Record>, u64, Vec<Problem>) {
    let mut reader = RecordReader::new(Cursor::new(bytes), "records.arrows");
    let mut all = Vec::new();
    while let Some(batch) = reader.next_batch().unwrap() {
        all.extend_from_slice(batch);
    }
    let missed =
        all.iter().filter(|record| record.kind == Kind::Loss).map(|loss| loss.detail).sum();
    assert_eq!(missed, reader.damaged_rows());
    all.retain(|record| record.kind != Kind::Loss);
    (all, missed, reader.problems())
}

/// `records` without one or more whole batches; `None` when something else is missing or new.
fn batches_left_out(found: &[Record]) -> Option<Vec<usize>> {
    let all = records(40);
    let (mut rest, mut left_out) = (found, Vec::new());
    for (number, range) in BATCHES.into_iter().enumerate() {
        match rest.strip_prefix(&all[range]) {
            Some(behind) => rest = behind,
            None => left_out.push(number),
        }
    }
    rest.is_empty().then_some(left_out)
}

#[test]
fn any_flipped_bit_of_the_records_is_noticed_and_costs_at_most_its_batch() {
    let whole = bytes(&finished().bundle(), Part::Records);
    assert_eq!(read_all(&whole), (records(40), 0, vec![]));
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        let (found, missed, problems) = read_all(&changed);
        assert!(!problems.is_empty(), "byte {at}: nothing said");
        let left_out = batches_left_out(&found).unwrap_or_else(|| panic!("byte {at}: {found:?}"));
        assert!(left_out.len() <= 1, "byte {at}: batches {left_out:?} left out");
        let rows: usize = left_out.iter().map(|number| BATCHES[*number].len()).sum();
        assert_eq!((found.len() + rows, missed), (40, rows as u64), "byte {at}: {problems:?}");
    }
}

#[test]
fn any_flipped_bit_of_the_connections_is_noticed() {
    let whole = bytes(&finished().bundle(), Part::Flows);
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        let mut reader = ConnectionReader::new(Cursor::new(changed), "flows.arrows");
        reader.read().unwrap();
        assert!(!reader.problems().is_empty(), "byte {at}: nothing said");
        let known = [connection(1), connection(2)];
        assert!(reader.connections().values().all(|found| known.contains(found)), "byte {at}");
    }
}

#[test]
fn any_flipped_bit_of_the_description_is_noticed_and_hides_no_record() {
    let folder = finished();
    let whole = bytes(&folder.bundle(), Part::Meta);
    assert_eq!(Bundle::open(folder.bundle()).unwrap().problems(), []);
    for (at, bit) in (0..whole.len()).flat_map(|at| [(at, at % 7), (at, 7)]) {
        let mut changed = whole.clone();
        changed[at] ^= 1 << bit;
        put(&folder.bundle(), Part::Meta, &changed);
        let bundle = Bundle::open(folder.bundle()).unwrap();
        assert_eq!(bundle.problems().len(), 1, "byte {at}, bit {bit}: {:?}", bundle.problems());
        assert_eq!(bundle.record_rows(), 40, "byte {at}, bit {bit}");
    }
}

#[test]
fn a_damaged_description_is_shown_with_what_it_says() {
    let folder = finished();
    let text = String::from_utf8(bytes(&folder.bundle(), Part::Meta)).unwrap();
    let host = Bundle::open(folder.bundle()).unwrap().meta().host.clone();
    let changed = text.replace(&format!("\"host\": \"{host}\""), "\"host\": \"elsewhere\"");
    put(&folder.bundle(), Part::Meta, changed.as_bytes());
    let bundle = Bundle::open(folder.bundle()).unwrap();
    assert_eq!(bundle.meta().host, "elsewhere");
    let said = bundle.problems()[0].to_string();
    assert!(said.starts_with("meta.json: damaged: expected a file with checksum "), "{said}");
}

#[test]
fn a_run_of_zeros_or_ones_as_a_disk_leaves_them_is_noticed() {
    let whole = bytes(&finished().bundle(), Part::Records);
    for at in (0..whole.len() - 512).step_by(512) {
        for fill in [0, 0xff] {
            let mut changed = whole.clone();
            changed[at..at + 512].fill(fill);
            let (found, missed, problems) = read_all(&changed);
            assert!(!problems.is_empty(), "bytes {at} to {}: nothing said", at + 512);
            let left_out = batches_left_out(&found).unwrap_or_else(|| panic!("byte {at}"));
            let rows: usize = left_out.iter().map(|number| BATCHES[*number].len()).sum();
            assert_eq!(missed, rows as u64, "byte {at}: {problems:?}");
        }
    }
}

/// Changes a number in the batch of seven records.
fn with_a_damaged_batch() -> Folder {
    let folder = finished();
    let mut changed = bytes(&folder.bundle(), Part::Records);
    let column: Vec<u8> = (5..12).flat_map(|number| (u64::MAX - number).to_le_bytes()).collect();
    let at = changed.windows(column.len()).position(|window| window == column).unwrap();
    changed[at + 8] ^= 0x10;
    put(&folder.bundle(), Part::Records, &changed);
    folder
}

#[test]
fn a_damaged_batch_is_named_and_its_rows_are_lost_at_its_place() {
    let folder = with_a_damaged_batch();
    let (found, opened) = read(&folder.bundle());
    // The headers are whole, so that opening alone does not see it.
    assert_eq!(opened, [""; 0]);
    let all = records(40);
    assert_eq!((&found[..5], &found[14..]), (&all[..5], &all[12..]));
    let losses = &found[5..14];
    let told: Vec<_> = losses.iter().map(|loss| (loss.kind, loss.code, loss.detail)).collect();
    let mut expected = Point::ALL.map(|point| (Kind::Loss, point.number(), 0)).to_vec();
    expected.push((Kind::Loss, Kind::Loss as u8, 7));
    assert_eq!(told, expected);
    // From before the last record of the batch before it to after the first of the one behind.
    assert!(losses.iter().all(|loss| loss.offset <= 4_000 && loss.at_ns >= 12_000));
    let report = check(folder.bundle()).unwrap();
    assert_eq!((report.records, report.missed.total()), (33 + 9, 7));
    let problems: Vec<_> = report.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].starts_with("records.arrows: batch 2, at byte "), "{problems:?}");
    assert!(
        problems[0].contains(" is damaged: 7 rows left out: expected a body with checksum "),
        "{problems:?}"
    );
}

#[test]
fn of_very_many_damaged_batches_the_first_are_named_and_the_others_counted() {
    let folder = Folder::new();
    let all = records(40);
    let batches: Vec<&[Record]> = all.chunks(1).collect();
    write(&folder.bundle(), &batches, &[connection(1)]);
    let mut changed = bytes(&folder.bundle(), Part::Records);
    for record in &all {
        let detail = record.detail.to_le_bytes();
        let at = changed.windows(8).position(|window| window == detail).unwrap();
        changed[at] ^= 0x80;
    }
    put(&folder.bundle(), Part::Records, &changed);
    let (found, missed, problems) = read_all(&changed);
    assert_eq!((found.len(), missed, problems.len()), (0, 40, 17));
    let last = problems.last().map(ToString::to_string).unwrap();
    assert_eq!(last, "records.arrows: further damaged or missing batches: 24; 24 rows left out");
    assert_eq!(Bundle::open(folder.bundle()).unwrap().record_rows(), 40);
}
