//! Rates of appending and reading, in records a second on one thread.
//!
//! `cargo bench -p sockscope-trace`; the bundle is written to the folder for temporary files
//! (`TMPDIR`). An append and its control differ in nothing, and so show the noise of the machine.

use std::hint::black_box;
use std::path::Path;

use divan::Bencher;
use divan::counter::ItemsCount;
use sockscope_record::{FlowId, Kind, Record};
use sockscope_trace::{Bundle, BundleWriter, Meta};
use tempfile::TempDir;

/// Records of one bundle.
const RECORDS: usize = 10_000_000;

/// Records of one append, about what the recorder takes from a list at a time.
const APPEND_RECORDS: usize = 512;

fn main() {
    divan::main();
}

#[divan::bench(sample_count = 5, sample_size = 1, args = ["case", "control"])]
fn append(bencher: Bencher<'_, '_>, _: &str) {
    appended(bencher, APPEND_RECORDS);
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn append_one_by_one(bencher: Bencher<'_, '_>) {
    appended(bencher, 1);
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn read_all(bencher: Bencher<'_, '_>) {
    let folder = written();
    bencher.counter(ItemsCount::new(RECORDS)).bench_local(|| read(folder.path()));
}

#[divan::bench]
fn open(bencher: Bencher<'_, '_>) {
    let folder = written();
    bencher.counter(ItemsCount::new(RECORDS)).bench_local(|| {
        Bundle::open(folder.path()).expect("the bundle just written").record_rows()
    });
}

fn appended(bencher: Bencher<'_, '_>, at_a_time: usize) {
    let (folder, block) = (tempfile::tempdir().expect("a folder"), records());
    let counted = bencher.counter(ItemsCount::new(RECORDS));
    counted.bench_local(|| write(folder.path(), &block, at_a_time));
}

/// A folder with a bundle.
fn written() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), &records(), APPEND_RECORDS);
    folder
}

fn write(dir: &Path, block: &[Record], at_a_time: usize) {
    let mut writer = BundleWriter::create(dir, Meta::default()).expect("a new bundle");
    for _ in 0..RECORDS / block.len() {
        block.chunks(at_a_time).for_each(|chunk| writer.append(chunk).expect("room on the disk"));
    }
    writer.finish(Meta::default()).expect("room on the disk");
}

fn read(dir: &Path) -> u64 {
    let mut reader = Bundle::open(dir).and_then(|bundle| bundle.records()).expect("the bundle");
    let mut bytes = 0;
    while let Some(batch) = reader.next_batch().expect("readable") {
        bytes += batch.iter().map(|record| u64::from(record.len)).sum::<u64>();
    }
    black_box(bytes);
    reader.rows()
}

fn records() -> Vec<Record> {
    (0..100_000)
        .map(|number: u64| Record {
            at_ns: 200 * number,
            offset: 1_448 * number,
            flow: FlowId(2 + (number % 64) as u32),
            len: 1_448,
            kind: Kind::ALL[(number % 8) as usize],
            cpu: (number % 2) as u16,
            ..Record::default()
        })
        .collect()
}
