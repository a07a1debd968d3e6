//! Exported files read by other programs: DuckDB, Polars, pandas, pyarrow, and the package of Perfetto.
//!
//! They are in `tests/readers/.venv`, where `scripts/setup` installs them. Without them these tests count as skipped.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use sockscope_record::{ConnectionId, Direction, Kind, Point, Record};
use sockscope_trace::{BundleWriter, ClockSnapshot, Meta};

#[path = "../../../benches/traffic.rs"]
mod traffic;

use traffic::{Traffic, connection};

/// Of which two connections carry bulk data.
const CONNECTIONS: u32 = 6;
/// More than a row group.
const MANY: usize = 130_000;
const FEW: usize = 20_000;
/// Wall clock at time 0 of the trace.
const EPOCH_NS: u64 = 1_795_771_800_000_000_000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/readers")
}

/// Python with the readers; if they are missing, the test counts as skipped.
fn python(test: &str) -> Option<PathBuf> {
    let python = folder().join(".venv/bin/python");
    let has_all = || {
        let mut command = Command::new(&python);
        command.args(["-c", "import duckdb, pandas, perfetto, polars, pyarrow"]);
        command.output().is_ok_and(|output| output.status.success())
    };
    if python.exists() && has_all() {
        return Some(python);
    }
    let reason = "no DuckDB, Polars, pandas, pyarrow and perfetto: `make setup` installs them";
    let required = std::env::var("SOCKSCOPE_READERS").is_ok_and(|wish| wish == "1");
    assert!(!required, "{reason}");
    // Of a test that passes libtest shows what is written past its capture.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
    None
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes a bundle, and returns its records.
fn bundle(dir: &Path, count: usize) -> Vec<Record> {
    let clock = vec![ClockSnapshot::new(0, EPOCH_NS)];
    let meta = Meta { clock, ..Meta::default() };
    let mut writer = BundleWriter::create(dir, meta.clone()).expect("a new bundle");
    for id in 1..=CONNECTIONS + 1 {
        writer.connection(&connection(id)).expect("room on the disk");
    }
    let (mut traffic, mut records) = (Traffic::new(CONNECTIONS, 2), Vec::new());
    while records.len() < count {
        traffic.step(&mut records);
    }
    let returns = records.clone();
    let returns = returns.iter().filter(|record| record.kind == Kind::WriteCall);
    records.extend(returns.map(|call| Record {
        kind: Kind::WriteReturn,
        at_ns: call.at_ns + 1_500,
        ..*call
    }));
    slow_calls(ConnectionId(CONNECTIONS + 1), &mut records);
    // Rows of a bundle are nearly in order of time, not strictly.
    records.sort_by_key(|record| record.at_ns / 50_000);
    writer.append(&records).expect("room on the disk");
    writer.finish(meta).expect("room on the disk");
    records
}

/// Twenty calls that take 150 ms each, most of it in the answering program.
fn slow_calls(id: ConnectionId, records: &mut Vec<Record>) {
    for call in 0..20 {
        let asked_ns = 1_000_000_000 + 160_000_000 * call;
        for (direction, at_ns) in
            [(Direction::FromClient, asked_ns), (Direction::FromServer, asked_ns + 150_000_000)]
        {
            records.extend(Point::ALL.map(|point| Record {
                at_ns: at_ns + 1_000 * u64::from(point.number()),
                flow: id.flow(direction),
                offset: 100 * call,
                len: 100,
                kind: point.into(),
                thread: 900 + direction as u32,
                ..Record::default()
            }));
        }
    }
}

fn export(dir: &Path, form: &str, output: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope-convert"));
    let output = command.arg("export").arg(dir).args(["--to", form, "-o"]).arg(output).output();
    let output = output.expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    output
}

fn check(python: &Path, program: &str, arguments: &[&str]) {
    let mut command = Command::new(python);
    command.arg(folder().join(program)).args(arguments);
    let output = command.output().expect("python starts");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// Rows and sums of the tables, by the records and by the report of the same bundle.
fn sums(records: &[Record], dir: &Path) -> BTreeMap<&'static str, Value> {
    let loaded = sockscope_program::loaded::Loaded::read(dir).expect("the bundle just written");
    let (analysis, _, _) = loaded.finish();
    let all = &analysis.connections;
    let flows = || all.iter().flat_map(|one| &one.flows);
    let requests = || all.iter().flat_map(|one| &one.requests.list);
    assert!(all.iter().any(|one| !one.findings.is_empty()), "calls of 150 ms are a finding");
    let findings = || all.iter().flat_map(|one| &one.findings);
    let calls = || {
        let ends = [Kind::WriteReturn, Kind::ReadReturn];
        records.iter().filter(move |record| ends.contains(&record.kind))
    };
    let sum = |of: fn(&Record) -> u64| records.iter().map(of).sum::<u64>();
    let ledger = || flows().flat_map(|flow| flow.ledger.ns).filter(|ns| *ns > 0);
    let times = || findings().flat_map(|finding| &finding.times);
    BTreeMap::from([
        (
            "records",
            json!({
                "rows": records.len(),
                "len": sum(|record| record.len.into()),
                "at_ns": sum(|record| record.at_ns),
                "flow": sum(|record| record.flow.0.into()),
                "kind_code": sum(|record| record.kind as u64),
                "offset": sum(|record| record.offset),
                "marks": sum(|record| record.marks.into()),
            }),
        ),
        (
            "flows",
            json!({ "rows": flows().count(), "bytes": flows().map(|flow| flow.bytes).sum::<u64>() }),
        ),
        ("stages", json!({ "rows": 8 * flows().count() })),
        (
            "findings",
            json!({
                "rows": findings().count(),
                "cost_ns": findings().map(|finding| finding.cost_ns).sum::<u64>(),
            }),
        ),
        (
            "finding_times",
            json!({
                "rows": times().count(),
                "start_ns": times().map(|times| times.0).sum::<u64>(),
            }),
        ),
        (
            "evidence",
            json!({ "rows": findings().map(|finding| finding.evidence.len()).sum::<usize>() }),
        ),
        ("ledger", json!({ "rows": ledger().count(), "time_ns": ledger().sum::<u64>() })),
        (
            "exchanges",
            json!({
                "rows": requests().count(),
                "total_ns": requests().filter_map(|request| request.total_ns()).sum::<u64>(),
                "response_bytes": requests().map(|request| request.response_bytes).sum::<u64>(),
            }),
        ),
        (
            "calls",
            json!({
                "rows": calls().count(),
                "bytes": calls().map(|call| u64::from(call.len)).sum::<u64>(),
            }),
        ),
    ])
}

#[test]
fn every_reader_finds_the_same_sums_in_every_table() {
    let Some(python) = python("every_reader_finds_the_same_sums_in_every_table") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let records = bundle(&path("bundle"), MANY);
    let sums = sums(&records, &path("bundle"));
    export(&path("bundle"), "parquet", &path("parquet"));
    export(&path("bundle"), "csv", &path("csv"));
    let [parquet, csv] = ["parquet", "csv"].map(|name| path(name).display().to_string());
    check(&python, "check_tables.py", &[&parquet, &csv, &json!(sums).to_string()]);
}

#[test]
fn the_package_of_perfetto_knows_every_field_and_every_parent() {
    let test = "the_package_of_perfetto_knows_every_field_and_every_parent";
    let Some(python) = python(test) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    bundle(&path("bundle"), FEW);
    let output = export(&path("bundle"), "perfetto", &path("t.pftrace"));
    let said = text(&output.stderr);
    let events = said.split(' ').nth(1).expect("the number of events");
    check(&python, "check_perfetto.py", &[&path("t.pftrace").display().to_string(), events]);
}

#[test]
fn a_reader_finds_the_records_of_a_spool_with_their_folders_as_columns() {
    let test = "a_reader_finds_the_records_of_a_spool_with_their_folders_as_columns";
    let Some(python) = python(test) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let spool = folder.path().join("spool");
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/demo/two-writes.sockscope");
    assert!(
        text(&export(&trace, "spool", &spool).stderr)
            .contains("2109 records of host vm in 1 file of")
    );
    let again = export(&trace, "spool", &spool);
    assert!(text(&again.stderr).ends_with("spool has this trace already\n"), "{again:?}");
    let query = format!(
        "import duckdb; print(*duckdb.sql(\"SELECT count(*), min(day), max(hour), max(bucket) \
         FROM read_parquet('{}/day=*/*/*/*.parquet', hive_partitioning=true)\").fetchall()[0])",
        spool.display()
    );
    let output = Command::new(python).args(["-c", &query]).output().expect("python");
    assert_eq!(text(&output.stdout).trim(), "2109 2026-11-21 04 149", "{output:?}");
}
