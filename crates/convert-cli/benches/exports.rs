//! Records exported a second of CPU time on one core.
//!
//! A bundle of 10 million records of 64 connections is written first, to the folder for temporary files (`TMPDIR`).
//! `records` are the figures of the table of records alone: reading, sorting, writing. The other lines are of the whole
//! command, which analyses the trace too, in a process of its own on one CPU.
//!
//! `cargo bench -p sockscope-convert-cli`, or `-- RECORDS` for fewer of them.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::thread::{CpuSet, Pid, sched_setaffinity};
use sockscope_tables::{Error, Table, sorted_records, write_csv, write_parquet};
use sockscope_trace::{Bundle, BundleWriter, ClockSnapshot, Meta};

#[path = "../../../benches/process.rs"]
mod process;
#[path = "../../../benches/traffic.rs"]
mod traffic;

use process::{CpuTime, memory_kib};
use traffic::{Traffic, connection};

const RECORDS: usize = 10_000_000;
const CONNECTIONS: u32 = 64;
const BULK: u32 = 8;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let records = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(RECORDS);
    let mut one = CpuSet::new();
    one.set(0);
    // All measured work is on this CPU; a machine that refuses this has the same CPU time on several.
    let _ = sched_setaffinity(None::<Pid>, &one);
    let folder = tempfile::tempdir().expect("a folder");
    let (dir, out) = (folder.path().join("bundle"), folder.path().join("out"));
    fs::create_dir(&out).expect("a folder");
    let made = write(&dir, records);
    for round in 1..=3 {
        let parquet = |table, file| write_parquet(table, file, &[], &mut |_| {});
        table(
            &format!("records parquet {round}"),
            &dir,
            &out.join("records.parquet"),
            made,
            parquet,
        );
        let csv = |table, file| write_csv(table, file, &mut |_| {});
        table(&format!("records csv {round}"), &dir, &out.join("records.csv"), made, csv);
    }
    for (form, name) in [("parquet", "tables"), ("csv", "tables"), ("perfetto", "t.pftrace")] {
        whole(form, &dir, &out.join(name), made);
    }
}

/// Writes the bundle, and returns the number of its records.
fn write(dir: &Path, records: usize) -> u64 {
    let clock = vec![ClockSnapshot::new(1, 1_795_771_800_000_000_000)];
    let meta = Meta { clock, ..Meta::default() };
    let mut writer = BundleWriter::create(dir, meta.clone()).expect("a new bundle");
    let mut traffic = Traffic::new(CONNECTIONS, BULK);
    for id in 1..=CONNECTIONS {
        writer.connection(&connection(id)).expect("room on the disk");
    }
    let (mut made, mut batch) = (0, Vec::new());
    while made < records {
        batch.clear();
        while batch.len() < 512 {
            traffic.step(&mut batch);
        }
        made += batch.len();
        writer.append(&batch).expect("room on the disk");
    }
    writer.finish(meta).expect("room on the disk");
    made as u64
}

/// Writes the table of records alone.
fn table(
    name: &str,
    dir: &Path,
    path: &Path,
    records: u64,
    write: impl FnOnce(Table, BufWriter<File>) -> Result<u64, Error>,
) {
    let file = BufWriter::with_capacity(1 << 18, File::create(path).expect("room on the disk"));
    let start = CpuTime::now();
    let bundle = Bundle::open(dir).expect("the bundle just written");
    let folder = path.parent().expect("a file in a folder");
    let sorted = sorted_records(&bundle, folder, &mut |_| {}).expect("readable");
    let read = start.elapsed();
    let rows = write(sorted, file).expect("room on the disk");
    let spent = start.elapsed();
    assert_eq!(rows, records);
    let bytes = fs::metadata(path).expect("the file just written").len();
    say(name, records, spent, bytes);
    println!(
        "{:<22} sorting {:.2} s, peak {} MiB",
        "",
        read.as_secs_f64(),
        memory_kib("VmHWM") / 1024
    );
}

/// The command on one CPU.
fn whole(form: &str, dir: &Path, output: &Path, records: u64) {
    let before = children();
    let status = Command::new(env!("CARGO_BIN_EXE_sockscope-convert"))
        .arg("export")
        .arg(dir)
        .args(["--to", form, "-o"])
        .arg(output)
        .stderr(Stdio::null())
        .status()
        .expect("the program starts");
    assert!(status.success(), "{form}");
    say(&format!("whole {form}"), records, children() - before, size(output));
}

fn say(name: &str, records: u64, spent: Duration, bytes: u64) {
    println!(
        "{name:<22} {:>6.2} M records/s ({records} records, {:.2} s of CPU time, {:.1} octets a record)",
        records as f64 / spent.as_secs_f64() / 1e6,
        spent.as_secs_f64(),
        bytes as f64 / records as f64,
    );
}

/// CPU time of all children that ended: `cutime` and `cstime` of proc(5), in ticks of 10 ms.
fn children() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("proc is mounted");
    let fields = stat.rsplit(')').next().expect("a name in parentheses");
    let ticks = fields.split_whitespace().skip(13).take(2);
    let ticks: u64 = ticks.map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(10 * ticks)
}

fn size(path: &Path) -> u64 {
    let found = fs::metadata(path).expect("it was written");
    if found.is_file() {
        return found.len();
    }
    let files = fs::read_dir(path).expect("a folder");
    files.map(|file| file.and_then(|it| it.metadata()).expect("a file").len()).sum()
}
