//! Batches that are missing, doubled or exchanged: each case is reported.

mod common;

use std::cell::Cell;
use std::fs;
use std::io::{Cursor, Read, Result, Seek, SeekFrom};
use std::rc::Rc;

use common::{Folder, bytes, connection, meta, put, read, records};
use proptest::prelude::*;
use sockscope_record::{Kind, Record};
use sockscope_trace::{Bundle, BundleWriter, Part, RecordReader, check, merge};

/// Rows of the batches of [`Pieces::new`].
const ROWS: [usize; 4] = [5, 7, 9, 4];

/// A finished bundle and the bytes of its records, batch by batch: the schema with the empty first batch,
/// those of [`ROWS`], and the end.
struct Pieces {
    folder: Folder,
    pieces: Vec<Vec<u8>>,
}

impl Pieces {
    fn new() -> Self {
        let folder = Folder::new();
        let path = folder.bundle().join("records.arrows");
        let mut writer = BundleWriter::create(folder.bundle(), meta()).unwrap();
        writer.connection(&connection(1)).unwrap();
        let length = || fs::metadata(&path).unwrap().len() as usize;
        let (mut ends, mut rest) = (vec![0, length()], &records(25)[..]);
        for rows in ROWS {
            let (batch, behind) = rest.split_at(rows);
            rest = behind;
            writer.append(batch).unwrap();
            writer.flush().unwrap();
            ends.push(length());
        }
        writer.finish(meta()).unwrap();
        ends.push(length());
        let whole = bytes(&folder.bundle(), Part::Records);
        let pieces = ends.windows(2).map(|ends| whole[ends[0]..ends[1]].to_vec()).collect();
        Self { folder, pieces }
    }

    /// Writes the file of these pieces: its records but those of loss, the rows missed, and all problems.
    fn of(&self, order: &[usize]) -> (Vec<Record>, u64, Vec<String>) {
        let order: Vec<_> = order.iter().map(|piece| &self.pieces[*piece][..]).collect();
        put(&self.folder.bundle(), Part::Records, &order.concat());
        let report = check(self.folder.bundle()).unwrap();
        let is_told = |record: &Record| record.kind == Kind::Loss && record.flow.0 == 0;
        let mut given = records_of(&self.folder);
        given.retain(|record| !is_told(record));
        let problems = report.problems.iter().map(ToString::to_string).collect();
        (given, report.missed.events, problems)
    }
}

fn records_of(folder: &Folder) -> Vec<Record> {
    let mut reader = Bundle::open(folder.bundle()).unwrap().records().unwrap();
    let mut all = Vec::new();
    while let Some(batch) = reader.next_batch().unwrap() {
        all.extend_from_slice(batch);
    }
    all
}

#[test]
fn a_batch_that_is_missing_is_named_and_its_rows_are_lost() {
    let pieces = Pieces::new();
    let (given, missed, problems) = pieces.of(&[0, 1, 3, 4, 5]);
    let all = records(25);
    assert_eq!(given, [&all[..5], &all[12..]].concat());
    assert_eq!(missed, 7);
    let at = pieces.pieces[0].len() + pieces.pieces[1].len();
    let expected = format!("records.arrows: 7 rows missing before byte {at}: count as missed");
    assert_eq!(problems, [expected]);
}

/// The missing rows lie between these times.
#[test]
fn a_missing_batch_leaves_loss_records_at_every_point_between_its_neighbours() {
    let pieces = Pieces::new();
    pieces.of(&[0, 1, 3, 4, 5]);
    let told: Vec<Record> = records_of(&pieces.folder)
        .into_iter()
        .filter(|record| record.kind == Kind::Loss && record.flow.0 == 0)
        .collect();
    assert_eq!(told.len(), 9);
    for loss in &told {
        assert!(loss.offset <= 4_000 && loss.at_ns >= 12_000, "{loss:?}");
    }
    assert_eq!(told.iter().map(|loss| loss.detail).sum::<u64>(), 7);
}

#[test]
fn missing_batches_at_the_end_are_noticed_too() {
    let pieces = Pieces::new();
    let (_, missed, problems) = pieces.of(&[0, 1, 2, 5]);
    assert_eq!((missed, problems.len()), (13, 1), "{problems:?}");
    // The end itself was taken as well.
    let (_, _, problems) = pieces.of(&[0, 1, 2]);
    assert!(problems[0].starts_with("records.arrows: not finished"), "{problems:?}");
    assert_eq!(problems[1], "records.arrows: 12 records found, 25 written by meta.json");
}

#[test]
fn a_batch_that_comes_twice_is_named_and_counts_once() {
    let pieces = Pieces::new();
    let (given, missed, problems) = pieces.of(&[0, 1, 2, 2, 3, 4, 5]);
    assert_eq!((given, missed), (records(25), 0));
    let at = pieces.pieces[..3].concat().len();
    let expected = format!(
        "records.arrows: batch 3, at byte {at}, comes again or not in its place: 7 rows left out"
    );
    assert_eq!(problems, [expected]);
}

#[test]
fn a_merged_bundle_says_what_was_missing_in_each() {
    let pieces = Pieces::new();
    pieces.of(&[0, 1, 3, 3, 4, 5]);
    let other = Folder::new();
    common::write(&other.bundle(), &[&records(3)], &[connection(1)]);
    let [first, second] = [&pieces.folder, &other].map(|it| Bundle::open(it.bundle()).unwrap());
    let done = merge(&first, &second, other.named("both")).unwrap();
    assert_eq!(done.problems.each_ref().map(Vec::len), [2, 0]);
    let both = Bundle::open(other.named("both")).unwrap();
    let notes = both.meta().notes.join("\n");
    assert!(notes.contains("7 rows missing before byte"), "{notes}");
    assert!(notes.contains("9 rows left out"), "{notes}");
    assert_eq!(both.meta().loss.events, 7);
    assert_eq!(check(other.named("both")).unwrap().problems, []);
}

#[test]
fn a_batch_of_connections_that_is_missing_is_named() {
    let folder = Folder::new();
    let path = folder.bundle().join("flows.arrows");
    let mut writer = BundleWriter::create(folder.bundle(), meta()).unwrap();
    let mut ends = Vec::new();
    for id in 1..4 {
        ends.push(fs::metadata(&path).unwrap().len() as usize);
        writer.connection(&connection(id)).unwrap();
        writer.flush().unwrap();
    }
    writer.finish(meta()).unwrap();
    let whole = bytes(&folder.bundle(), Part::Flows);
    put(&folder.bundle(), Part::Flows, &[&whole[..ends[1]], &whole[ends[2]..]].concat());
    let (_, problems) = read(&folder.bundle());
    let expected = format!("flows.arrows: 1 row missing before byte {}: count as missed", ends[1]);
    assert_eq!(problems, [expected]);
}

/// Counts the bytes that are read through it.
struct Counted {
    bytes: Cursor<Vec<u8>>,
    read: Rc<Cell<usize>>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let read = self.bytes.read(into)?;
        self.read.set(self.read.get() + read);
        Ok(read)
    }
}

impl Seek for Counted {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.bytes.seek(to)
    }
}

/// A search behind the cut for each record of another bundle took minutes.
#[test]
fn the_end_of_a_cut_file_is_looked_through_once() {
    let folder = Folder::new();
    let all = records(40_000);
    common::write(&folder.bundle(), &[&all[..20], &all[20..]], &[]);
    let mut whole = bytes(&folder.bundle(), Part::Records);
    whole.truncate(whole.len() - 5_000);
    let read = Rc::new(Cell::new(0));
    let source = Counted { bytes: Cursor::new(whole), read: read.clone() };
    let mut reader = RecordReader::new(source, "records.arrows");
    while reader.next_batch().unwrap().is_some() {}
    let once = read.get();
    for _ in 0..100 {
        assert!(reader.next_batch().unwrap().is_none());
    }
    let again = read.get() - once;
    // The header of the message that is cut.
    assert!(once > 1_000_000 && again < 100 * 4_096, "{once} bytes, then {again}");
}

proptest! {
    /// Either all is as it was written, or something is said.
    #[test]
    fn no_order_of_batches_gives_another_answer_without_a_word(
        order in prop::collection::vec(1_usize..5, 0..7),
    ) {
        let pieces = Pieces::new();
        let (given, missed, problems) = pieces.of(&[&[0], &order[..], &[5]].concat());
        prop_assert_eq!(given.len() as u64 + missed, 25);
        prop_assert!(order == [1, 2, 3, 4] || !problems.is_empty());
        let mut once = given.clone();
        once.dedup();
        prop_assert_eq!(once, given);
    }
}
