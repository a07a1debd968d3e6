//! The table of records against the records of a bundle.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use sockscope_record::{FlowId, Kind, Record};
use sockscope_tables::{read_records, records};
use sockscope_trace::{Bundle, BundleWriter, ClockSnapshot, Meta};

/// A record of each kind, with the smallest and the largest values that fit.
fn every_kind() -> Vec<Record> {
    let of = |(number, kind): (u64, Kind)| Record {
        at_ns: 1_000 * number,
        offset: if number == 3 { i64::MAX.cast_unsigned() } else { number },
        detail: u64::MAX - number,
        flow: FlowId(if number == 4 { u32::MAX } else { 2 }),
        len: u32::MAX,
        thread: 77,
        extra: u32::MAX - 1,
        kind,
        code: 255,
        tcp_flags: 0x18,
        marks: 129,
        cpu: u16::MAX,
    };
    (1..).zip(Kind::ALL).map(of).collect()
}

fn written(dir: &Path, records: &[Record], clock: Vec<ClockSnapshot>) -> Bundle {
    let meta = Meta { clock, ..Meta::default() };
    let mut writer = BundleWriter::create(dir, meta.clone()).expect("a new bundle");
    writer.append(records).expect("room on the disk");
    writer.finish(meta).expect("room on the disk");
    Bundle::open(dir).expect("the bundle just written")
}

fn batches(bundle: &Bundle) -> Vec<RecordBatch> {
    let table = records(bundle).expect("its file opens");
    table.map(|batch| batch.expect("readable")).collect()
}

#[test]
fn the_records_of_a_table_are_those_of_the_bundle() {
    let folder = tempfile::tempdir().expect("a folder");
    let all = every_kind();
    let read = batches(&written(folder.path(), &all, Vec::new()));
    let back: Vec<Record> =
        read.iter().flat_map(|batch| read_records(batch).expect("records")).collect();
    assert_eq!(back, all);
}

#[test]
fn a_kind_is_a_word_and_a_number() {
    let folder = tempfile::tempdir().expect("a folder");
    let read = batches(&written(folder.path(), &every_kind(), Vec::new()));
    let kinds = read[0].column_by_name("kind").expect("words").as_dictionary::<Int8Type>();
    let names = kinds.values().as_string::<i32>();
    let words = kinds.keys().iter().flatten().map(|key| names.value(key as usize));
    assert!(words.eq(Kind::ALL.iter().map(|kind| kind.name())));
}

#[test]
fn times_since_1970_are_those_of_the_first_reading_of_both_clocks() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = vec![ClockSnapshot { monotonic_ns: 500, realtime_ns: 1_700_000_000_000_000_500 }];
    let read = batches(&written(folder.path(), &every_kind(), clock));
    let at = read[0].column_by_name("at").expect("times").as_primitive::<TimestampNanosecondType>();
    assert_eq!(at.timezone(), Some("UTC"));
    assert_eq!(at.value(0), 1_700_000_000_000_001_000);
}

#[test]
fn a_time_that_does_not_fit_is_null_and_its_neighbours_are_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = vec![ClockSnapshot { monotonic_ns: 500, realtime_ns: 1_700_000_000_000_000_500 }];
    let at = |at_ns| Record { at_ns, flow: FlowId(2), ..Record::default() };
    let read = batches(&written(folder.path(), &[at(1), at(i64::MAX.cast_unsigned())], clock));
    let times = read[0].column_by_name("at").expect("times");
    assert_eq!([times.is_null(0), times.is_null(1)], [false, true]);
}

#[test]
fn a_bundle_without_records_has_an_empty_table() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(batches(&written(folder.path(), &[], Vec::new())).is_empty());
}

/// The columns of one record, one of them replaced.
fn with(name: &str, column: Option<&ArrayRef>) -> RecordBatch {
    let names = [
        "flow",
        "at_ns",
        "kind_code",
        "offset",
        "len",
        "thread",
        "tcp_flags",
        "marks",
        "code",
        "detail",
        "extra",
    ];
    let one = || -> ArrayRef { Arc::new(Int64Array::from(vec![1])) };
    let all = names.map(|it| (it, if it == name { column.cloned() } else { Some(one()) }));
    RecordBatch::try_from_iter(all.into_iter().filter_map(|(it, column)| Some((it, column?))))
        .expect("columns of one length")
}

#[test]
fn wider_integers_are_read_and_the_cpu_may_be_missing() {
    let [record] = read_records(&with("", None)).expect("a record").try_into().expect("one");
    let expected = Record {
        at_ns: 1,
        offset: 1,
        detail: 1,
        flow: FlowId(1),
        len: 1,
        thread: 1,
        extra: 1,
        kind: Kind::SendEnqueue,
        code: 1,
        tcp_flags: 1,
        marks: 1,
        cpu: 0,
    };
    assert_eq!(record, expected);
}

#[test]
fn a_column_that_is_no_record_is_named_with_the_expected_value() {
    let longs = |values: Vec<Option<i64>>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let error = |name, column: Option<ArrayRef>| {
        read_records(&with(name, column.as_ref())).expect_err("refused").to_string()
    };
    assert_eq!(error("marks", None), "column marks: expected integers, found no such column");
    assert_eq!(
        error("len", Some(Arc::new(StringArray::from(vec!["a"])))),
        "column len: expected integers, found Utf8"
    );
    assert_eq!(
        error("code", Some(longs(vec![None]))),
        "column code: expected no nulls, found 1 of them"
    );
    assert_eq!(
        error("kind_code", Some(longs(vec![Some(200)]))),
        "row 0: expected the number of a kind of records in column kind_code, found 200"
    );
    assert_eq!(
        error("offset", Some(longs(vec![Some(-1)]))),
        "row 0: expected 0 to 9223372036854775807 in column offset, found -1"
    );
}

#[test]
fn the_sample_bundle_has_as_many_rows_as_it_has_records() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/bundles/v2/calls.sockscope");
    let bundle = Bundle::open(dir).expect("the sample");
    let read = batches(&bundle);
    let rows: usize = read.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows as u64, bundle.record_rows());
    let bytes = |batch: &RecordBatch| -> i64 {
        batch
            .column_by_name("len")
            .expect("lengths")
            .as_primitive::<Int64Type>()
            .iter()
            .flatten()
            .sum()
    };
    assert!(read.iter().map(bytes).sum::<i64>() > 0);
}
