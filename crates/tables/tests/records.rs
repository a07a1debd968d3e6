//! The table of records against the records of a bundle.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use sockscope_record::{Connection, ConnectionId, FlowId, Kind, Process, Protocol, Record, Side};
use sockscope_tables::{Table, WallClock, read_records, records, records_of};
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
    let clock = vec![ClockSnapshot::new(500, 1_700_000_000_000_000_500)];
    let read = batches(&written(folder.path(), &every_kind(), clock));
    let at = read[0].column_by_name("at").expect("times").as_primitive::<TimestampNanosecondType>();
    assert_eq!(at.timezone(), Some("UTC"));
    assert_eq!(at.value(0), 1_700_000_000_000_001_000);
}

#[test]
fn a_time_that_does_not_fit_is_null_and_its_neighbours_are_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = vec![ClockSnapshot::new(500, 1_700_000_000_000_000_500)];
    let at = |at_ns| Record { at_ns, flow: FlowId(2), ..Record::default() };
    let read = batches(&written(folder.path(), &[at(1), at(i64::MAX.cast_unsigned())], clock));
    let times = read[0].column_by_name("at").expect("times");
    assert_eq!([times.is_null(0), times.is_null(1)], [false, true]);
}

/// A bundle of connection 1 with these numbers of hosts at its ends, and of connection 2 with none.
fn of_hosts(dir: &Path, records: &[Record], hosts: [u32; 2]) -> Bundle {
    let mut writer = BundleWriter::create(dir, Meta::default()).expect("a new bundle");
    let ends = [([10, 0, 0, 1], 40_000).into(), ([10, 0, 0, 2], 80).into()];
    let process = |(side, host)| Process { host, ..Process::new(7, "program", side) };
    let processes = [Side::Client, Side::Server].into_iter().zip(hosts).map(process).collect();
    let first = Connection::new(ConnectionId(1), Protocol::Tcp, ends, 1);
    writer.connection(&Connection { processes, ..first }).expect("room on the disk");
    let second = Connection::new(ConnectionId(2), Protocol::Tcp, ends, 1);
    writer.connection(&second).expect("room on the disk");
    writer.append(records).expect("room on the disk");
    writer.finish(Meta::default()).expect("room on the disk");
    Bundle::open(dir).expect("the bundle just written")
}

fn hosts(table: Table) -> Vec<Option<i64>> {
    let batches: Vec<RecordBatch> = table.map(|batch| batch.expect("readable")).collect();
    let column = |batch: &RecordBatch| batch.column_by_name("host").expect("hosts").clone();
    let columns: Vec<ArrayRef> = batches.iter().map(column).collect();
    columns.iter().flat_map(|one| one.as_primitive::<Int64Type>().iter()).collect()
}

#[test]
fn a_record_of_a_merged_bundle_has_the_number_of_its_host() {
    let kinds = [Kind::WriteCall, Kind::InterfaceDequeue, Kind::InputEnqueue, Kind::Run, Kind::Hop];
    let of_flow =
        |flow| kinds.map(|kind| Record { at_ns: 1, flow: FlowId(flow), kind, ..Record::default() });
    let all = [of_flow(2), of_flow(3), of_flow(4)].concat();
    let folder = tempfile::tempdir().expect("a folder");
    let bundle = of_hosts(folder.path(), &all, [2, 3]);
    let expected = [
        [Some(2), Some(2), Some(3), Some(3), None],
        [Some(3), Some(3), Some(2), Some(2), None],
        [None; 5],
    ];
    assert_eq!(hosts(records(&bundle).expect("its file opens")), expected.concat());
    #[cfg(feature = "files")]
    {
        let sorted = sockscope_tables::sorted_records(&bundle, folder.path(), &mut |_| {});
        assert_eq!(hosts(sorted.expect("readable")), expected.concat());
    }
}

#[test]
fn a_host_is_null_where_no_process_shows_it_and_in_a_trace_of_one_host() {
    let all = [Kind::WriteCall, Kind::Run];
    let all = all.map(|kind| Record { at_ns: 1, flow: FlowId(2), kind, ..Record::default() });
    for (numbers, expected) in [([0, 3], [None, Some(3)]), ([0, 0], [None; 2])] {
        let folder = tempfile::tempdir().expect("a folder");
        let bundle = of_hosts(folder.path(), &all, numbers);
        assert_eq!(hosts(records(&bundle).expect("its file opens")), expected, "{numbers:?}");
    }
    assert_eq!(hosts(records_of(all.to_vec(), WallClock::default())), [None; 2]);
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
