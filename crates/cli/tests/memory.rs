//! A trace that does not fit into memory ends in one line, at any limit.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use sockscope_record::{FlowId, Kind, Record};
use sockscope_trace::{BundleWriter, Meta};

/// Records of the bundle: some 100 bytes of memory for each.
const RECORDS: u64 = 600_000;
/// Limits that are tried, in KiB, on the address space beyond what an empty trace needs.
const LIMITS_KIB: [u64; 8] = [0, 8_000, 16_000, 24_000, 32_000, 45_000, 60_000, 1_000_000];

fn write(dir: &Path, records: u64) {
    let mut writer = BundleWriter::create(dir, Meta::default()).unwrap();
    let record = |number: u64| Record {
        at_ns: 1_000 * number,
        flow: FlowId(2),
        kind: Kind::ALL[number as usize % 8],
        offset: 100 * (number / 8),
        len: 100,
        ..Record::default()
    };
    let all: Vec<Record> = (0..records).map(record).collect();
    writer.append(&all).unwrap();
    writer.finish(Meta::default()).unwrap();
}

fn report(dir: &Path, limit_kib: u64) -> Output {
    let mut sh = Command::new("sh");
    sh.args(["-c", "ulimit -v $1; exec $2 report $3", "sh", &limit_kib.to_string()]);
    sh.arg(env!("CARGO_BIN_EXE_sockscope")).arg(dir).output().expect("a shell")
}

/// The smallest limit, in steps of 4 MiB, under which the report of a trace is printed.
fn enough(dir: &Path) -> u64 {
    let mut limits = (1_u64..1_000).map(|step| 4_096 * step);
    limits.find(|limit| report(dir, *limit).status.success()).expect("some limit is enough")
}

#[test]
fn whatever_the_limit_a_report_is_printed_or_one_line_names_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    let [empty, full] = ["empty", "full"].map(|name| folder.path().join(name));
    write(&empty, 0);
    write(&full, RECORDS);
    let base_kib = enough(&empty);
    let mut statuses = Vec::new();
    for more_kib in LIMITS_KIB {
        let output = report(&full, base_kib + more_kib);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), None, "{more_kib}: {said}");
        if !output.status.success() {
            assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
            assert!(said.contains("600000 records of 0 connections need up to 60 MiB"), "{said}");
        }
        statuses.push(output.status.success());
    }
    assert!(statuses.is_sorted() && !statuses[0] && statuses[7], "{statuses:?}");
}
