//! What the program prints of the bundles that come with it, compared with files next to this one.
//!
//! `SOCKSCOPE_UPDATE=1 cargo test -p sockscope-cli --test golden` writes them anew; look at the
//! difference before it is committed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A bundle, and what its files are called here.
const BUNDLES: [(&str, &str); 3] = [
    ("demo/two-writes.sockscope", "two-writes"),
    ("demo/one-write.sockscope", "one-write"),
    ("../../tests/bundles/v2/calls.sockscope", "calls"),
];

#[test]
fn a_report_reads_as_it_did() {
    for (bundle, name) in BUNDLES {
        compare(&format!("{name}.txt"), &said(&["report", "--full", &path(bundle)]));
    }
}

#[test]
fn a_report_as_json_holds_what_it_did() {
    for (bundle, name) in BUNDLES {
        let said = said(&["report", &path(bundle), "--format", "json"]);
        let report: Value = serde_json::from_str(&said).expect("one document");
        // One value a line, so that a difference is a line.
        let lines = serde_json::to_string_pretty(&report).expect("what was read can be written");
        compare(&format!("{name}.json"), &(lines + "\n"));
    }
}

#[test]
fn a_report_as_csv_has_the_rows_it_had() {
    for (bundle, name) in BUNDLES {
        compare(&format!("{name}.csv"), &said(&["report", &path(bundle), "--format", "csv"]));
    }
}

#[test]
fn a_comparison_reads_as_it_did() {
    let [before, after, _] = BUNDLES.map(|(bundle, _)| path(bundle));
    compare("compare.txt", &said(&["compare", &before, &after]));
    compare("compare.csv", &said(&["compare", &before, &after, "--format", "csv"]));
    compare("compare.svg", &said(&["compare", &before, &after, "--format", "svg"]));
    let said = said(&["compare", &before, &after, "--format", "json"]);
    let comparison: Value = serde_json::from_str(&said).expect("one document");
    let lines = serde_json::to_string_pretty(&comparison).expect("what was read can be written");
    compare("compare.json", &(lines + "\n"));
}

#[test]
fn the_recorded_demonstration_reads_as_it_did() {
    compare("demo.txt", &said(&["demo", "--recorded"]));
}

/// The parts of each request add up to what its caller waited.
#[test]
fn the_parts_of_every_request_add_up() {
    let mut known = 0;
    for (bundle, _) in BUNDLES {
        let said = said(&["report", &path(bundle), "--format", "csv-requests"]);
        let mut lines = said.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let heads = lines.next().expect("a head line");
        for row in lines {
            let column = |name| {
                let index = heads.iter().position(|head| *head == name).expect("a column");
                row[index].parse::<u64>().ok()
            };
            let parts = ["request_ns", "service_ns", "response_ns"].map(column);
            if let Some(sum) = parts.into_iter().sum::<Option<u64>>() {
                assert_eq!(Some(sum), column("total_ns"), "{bundle}: {row:?}");
                known += 1;
            }
        }
    }
    assert_eq!(known, 100, "50 calls in each bundle of the demo");
}

fn compare(file: &str, found: &str) {
    let golden = manifest().join("tests/golden").join(file);
    if std::env::var_os("SOCKSCOPE_UPDATE").is_some() {
        fs::write(&golden, found).expect("the file can be written");
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    let mut lines = found.lines().zip(expected.lines()).enumerate();
    let differs = lines.find(|(_, (found, expected))| found != expected);
    assert!(found == expected, "{file} differs: (line from 0, (found, expected)) {differs:?}");
}

fn said(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope"));
    command.args(arguments).env("COLUMNS", "96").env("LC_ALL", "C.UTF-8");
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("a report is text")
}

fn path(bundle: &str) -> String {
    manifest().join(bundle).display().to_string()
}

fn manifest() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}
