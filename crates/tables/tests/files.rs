//! Files of tables, read back.

use std::io::{self, Write};
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use sockscope_record::{FlowId, Kind, Record};
use sockscope_tables::{
    META, WallClock, read_parquet, read_records, records, records_of, sorted_records, write_csv,
    write_parquet,
};
use sockscope_trace::{Bundle, BundleWriter, ClockSnapshot, Meta};
use tempfile::TempDir;

/// One more than a row group.
const MANY: u64 = 122_881;
const FEW: u64 = 5_000;

/// Three flows that take turns; the rows are not strictly in order of time.
fn all_records(count: u64) -> Vec<Record> {
    let one = |number: u64| Record {
        at_ns: 1_000 * (number ^ 2),
        flow: FlowId(2 + (number % 3) as u32),
        offset: 100 * number,
        len: 100,
        kind: Kind::ALL[(number % 8) as usize],
        thread: 7,
        cpu: (number % 2) as u16,
        ..Record::default()
    };
    (0..count).map(one).collect()
}

fn bundle(records: &[Record]) -> (TempDir, Bundle) {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = vec![ClockSnapshot::new(0, 1_795_771_800_000_000_000)];
    let meta = Meta { clock, host: "alpha".to_owned(), ..Meta::default() };
    let mut writer = BundleWriter::create(folder.path(), meta.clone()).expect("a new bundle");
    writer.append(records).expect("room on the disk");
    writer.finish(meta).expect("room on the disk");
    let bundle = Bundle::open(folder.path()).expect("the bundle just written");
    (folder, bundle)
}

fn parquet(dir: &Path, bundle: &Bundle, meta: &str) -> Bytes {
    let table = sorted_records(bundle, dir, &mut |_| {}).expect("readable");
    let (mut file, mut written) = (Vec::new(), 0);
    let rows = write_parquet(table, &mut file, &[(META, meta)], &mut |more| written += more);
    assert_eq!(rows.expect("memory takes it"), written);
    file.into()
}

#[test]
fn a_parquet_file_has_the_records_by_flow_then_by_time() {
    let mut all = all_records(FEW);
    let (folder, bundle) = bundle(&all);
    let file = parquet(folder.path(), &bundle, "");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a Parquet file");
    let batches: Vec<RecordBatch> =
        reader.build().expect("readable").map(|batch| batch.expect("readable")).collect();
    let back: Vec<Record> =
        batches.iter().flat_map(|batch| read_records(batch).expect("records")).collect();
    all.sort_by_key(|record| (record.flow, record.at_ns));
    assert!(back == all);
}

#[test]
fn a_parquet_file_has_row_groups_their_order_and_the_facts_of_the_recording() {
    let (folder, bundle) = bundle(&all_records(MANY));
    let meta = String::from_utf8(bundle.meta().to_json().expect("JSON")).expect("text");
    let file = parquet(folder.path(), &bundle, &meta);
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a Parquet file");
    let groups = reader.metadata().row_groups();
    let rows: Vec<i64> = groups.iter().map(|group| group.num_rows()).collect();
    assert_eq!(rows, [122_880, 1]);
    let order = groups[0].sorting_columns().expect("an order");
    let names = order.iter().map(|column| reader.schema().field(column.column_idx as usize).name());
    assert_eq!(names.collect::<Vec<_>>(), ["flow", "at_ns"]);
    let facts = reader.metadata().file_metadata().key_value_metadata().expect("facts");
    let fact = |key: &str| facts.iter().find(|fact| fact.key == key)?.value.clone();
    assert_eq!(fact("schema").as_deref(), Some("sockscope.records/1"));
    let back = Meta::from_json(fact(META).expect("the facts").as_bytes()).expect("a meta.json");
    assert_eq!(&back, bundle.meta());
}

#[test]
fn a_csv_file_has_a_line_of_names_and_a_line_of_each_record() {
    let (_folder, bundle) = bundle(&all_records(3));
    let mut file = Vec::new();
    let table = records(&bundle).expect("its file opens");
    write_csv(table, &mut file, &mut |_| {}).expect("memory takes it");
    let text = String::from_utf8(file).expect("text");
    assert_eq!(
        text,
        "flow,at_ns,at,kind,kind_code,offset,len,host,cpu,thread,tcp_flags,marks,code,detail,extra\r\n\
         2,2000,2026-11-27T09:30:00.000002000Z,SendEnqueue,1,0,100,,0,7,0,0,0,0,0\r\n\
         3,3000,2026-11-27T09:30:00.000003000Z,SendDequeue,2,100,100,,1,7,0,0,0,0,0\r\n\
         4,0,2026-11-27T09:30:00.000000000Z,InterfaceEnqueue,3,200,100,,0,7,0,0,0,0,0\r\n"
    );
}

#[test]
fn a_csv_file_and_a_parquet_file_have_the_same_sums() {
    let (folder, bundle) = bundle(&all_records(FEW));
    let file = parquet(folder.path(), &bundle, "");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a Parquet file");
    let batches = reader.build().expect("readable").map(|batch| batch.expect("readable"));
    let sum = |batch: RecordBatch| -> i64 {
        let offsets = batch.column_by_name("offset").expect("offsets");
        assert_eq!(offsets.null_count(), 0);
        offsets.as_primitive::<Int64Type>().values().iter().sum()
    };
    let in_parquet: i64 = batches.map(sum).sum();
    let mut csv = Vec::new();
    let table = sorted_records(&bundle, folder.path(), &mut |_| {}).expect("readable");
    write_csv(table, &mut csv, &mut |_| {}).expect("memory takes it");
    let text = String::from_utf8(csv).expect("text");
    let offset = |line: &str| line.split(',').nth(5)?.parse::<i64>().ok();
    let in_csv: i64 = text.split_terminator("\r\n").skip(1).filter_map(offset).sum();
    assert_eq!(in_parquet, in_csv);
    assert_eq!(in_csv as u64, 100 * FEW * (FEW - 1) / 2);
}

/// A disk that is full after so many octets.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if octets.len() > self.0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0 -= octets.len();
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_of_the_file() {
    let (folder, bundle) = bundle(&all_records(FEW));
    let table = || sorted_records(&bundle, folder.path(), &mut |_| {}).expect("readable");
    let is_full = |error: sockscope_tables::Error| match error {
        sockscope_tables::Error::Write(error) => error.kind() == io::ErrorKind::StorageFull,
        _ => false,
    };
    assert!(is_full(write_parquet(table(), Full(1_000), &[], &mut |_| {}).expect_err("full")));
    assert!(is_full(write_csv(table(), Full(1_000), &mut |_| {}).expect_err("full")));
}

#[test]
fn records_of_a_file_are_read_back_with_its_facts() {
    let all = all_records(FEW);
    let table = records_of(all.clone(), WallClock::default());
    let mut file = Vec::new();
    let rows = write_parquet(table, &mut file, &[("a fact", "its text")], &mut |_| {});
    assert_eq!(rows.unwrap(), FEW);
    let read = read_parquet(file.clone()).unwrap();
    assert_eq!((read.facts["a fact"].as_str(), read.records), ("its text", all));
    file.truncate(file.len() / 2);
    let error = read_parquet(file).expect_err("the end of the file is missing").to_string();
    assert!(error.starts_with("no whole Parquet file: "), "{error}");
}
