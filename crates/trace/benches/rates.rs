//! Rates of appending and reading, in records a second on one thread.
//!
//! `cargo bench -p sockscope-trace [-- FOLDER]`; the bundle is written to FOLDER, else to the
//! system's folder for temporary files. Each line is the median and the range of the rounds; the
//! two `append` lines differ in nothing, and so show what the machine's noise is.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sockscope_record::{FlowId, Kind, Record};
use sockscope_trace::{Bundle, BundleWriter, Meta};

/// Records of one round.
const RECORDS: usize = 10_000_000;

/// Records of one append, about what a ring buffer gives at a time.
const APPEND_RECORDS: usize = 512;

const ROUNDS: usize = 5;

fn main() {
    let root = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let root = root.map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(root).expect("a folder to write to");
    let dir = folder.path().join("rates.sockscope");
    let block = records();
    report("append", || append(&dir, &block, APPEND_RECORDS));
    report("append (control)", || append(&dir, &block, APPEND_RECORDS));
    report("append one by one", || append(&dir, &block, 1));
    report("read", || read(&dir));
    report("open", || Bundle::open(&dir).expect("the bundle just written").record_rows());
}

/// Runs `round` and prints how many records a second it took.
fn report(name: &str, mut round: impl FnMut() -> u64) {
    let mut rates: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            let records = black_box(round());
            records as f64 / start.elapsed().as_secs_f64() / 1e6
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    let (median, least, most) = (rates[ROUNDS / 2], rates[0], rates[ROUNDS - 1]);
    println!("{name:20} {median:8.1} million records/s ({least:.1} to {most:.1}, {ROUNDS} rounds)");
}

fn append(dir: &Path, block: &[Record], at_a_time: usize) -> u64 {
    let mut writer = BundleWriter::create(dir, Meta::default()).expect("a new bundle");
    for _ in 0..RECORDS / block.len() {
        block.chunks(at_a_time).for_each(|chunk| writer.append(chunk).expect("room on the disk"));
    }
    let records = writer.records();
    writer.finish(Meta::default()).expect("room on the disk");
    records
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
