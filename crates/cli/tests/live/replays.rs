//! `sockscope replay`: calls of recorded programs made again, and the change next to the program that was changed.
//!
//! The short form has two kinds of traffic and few runs. The full form (`SOCKSCOPE_SOAK=full`) has eight kinds and prints
//! a table: the recording, its copy, the changed program and its prediction. A chat is replayed by one of its connections.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::bundle::{sockscope, stdout_of, workload};
use crate::report::{count, text};
use crate::schema::Schema;
use crate::turn;

/// Kinds of `kinds.py`, and the change between a kind and its twin.
const KINDS: [(&str, &str); 8] = [
    ("split", "one-write"),
    ("slow-reader", "read-bytes=65536"),
    ("pipelined", "one-write"),
    ("bulk", "read-bytes=65536"),
    ("chat", "nodelay"),
    ("http", "one-write"),
    ("datagrams", "think=0"),
    ("thinking", "one-write"),
];

fn is_full() -> bool {
    std::env::var("SOCKSCOPE_SOAK").is_ok_and(|form| form == "full")
}

/// `kinds.py`, recorded with `--calls`.
fn recorded(folder: &Path, name: &str, arguments: &[&str]) -> PathBuf {
    let dir = folder.join(name);
    let mut program = sockscope();
    program.args(["record", "--calls", "-o"]).arg(&dir).arg("--");
    stdout_of(&program.args(workload("kinds.py", arguments)).output().expect("it was built"));
    dir
}

fn replay(dir: &Path, arguments: &[&str]) -> Output {
    let mut program: Command = sockscope();
    program.arg("replay").arg(dir).args(arguments).stdin(Stdio::null());
    program.output().expect("it was built")
}

fn replayed(dir: &Path, arguments: &[&str]) -> Value {
    let output = replay(dir, &[arguments, &["--format", "json"]].concat());
    let said = stdout_of(&output);
    Schema::read("replay").check(Path::new("sockscope replay"), said.as_bytes());
    let result: Value = serde_json::from_str(&said).expect("JSON");
    if result["compare"].is_object() {
        let compare = serde_json::to_vec(&result["compare"]).expect("it was read");
        Schema::read("compare").check(Path::new("sockscope replay, compare"), &compare);
    }
    result
}

/// The figure that is compared: the median exchange, where there are exchanges, else the throughput.
fn figure(figures: &Value) -> f64 {
    let [time, rate] = ["exchange_p50_ns", "throughput_bytes_per_s"].map(|key| &figures[key]);
    time.as_f64().or(rate.as_f64()).expect("a figure")
}

/// The largest place of the ledger of a side's data.
fn largest_place<'a>(figures: &'a Value, side: &str) -> &'a str {
    let places = figures["ledger"][side].as_object().expect("places");
    let largest = places.iter().max_by(|one, other| {
        let share = |place: &Value| place.as_f64().unwrap_or(0.0);
        share(one.1).total_cmp(&share(other.1))
    });
    largest.map(|(place, _)| place.as_str()).expect("a place")
}

#[test]
fn root_a_stall_is_copied_and_one_write_takes_it_away() {
    let Some(_turn) = turn::take() else { return };
    let folder = TempDir::new().expect("a folder");
    let dir = recorded(folder.path(), "split", &["split", "--calls", "20"]);
    let result = replayed(&dir, &["--set", "one-write", "--rounds", "2"]);
    assert_eq!((count(&result["writes"]), count(&result["certain_writes"])), (60, 60));
    for run in ["original", "unchanged"] {
        assert_eq!(largest_place(&result[run], "client"), "send_queue.nagle", "{result}");
    }
    assert_eq!(result["changed"]["ledger"]["client"]["send_queue.nagle"], 0.0, "{result}");
    assert_eq!(result["original"]["exchanges"], result["changed"]["exchanges"]);
    assert!(figure(&result["changed"]) * 4.0 < figure(&result["unchanged"]), "{result}");
    let findings = result["compare"]["roles"][0]["findings"].as_array().expect("findings");
    let stall = findings.iter().find(|one| one["id"] == "nagle-delayed-ack").expect("a stall");
    assert_eq!(stall["changes"][0], "disappeared", "{stall}");
}

#[test]
fn root_larger_reads_are_predicted() {
    let Some(_turn) = turn::take() else { return };
    let folder = TempDir::new().expect("a folder");
    let dir = recorded(folder.path(), "slow", &["slow-reader", "--megabytes", "1"]);
    let output = folder.path().join("kept");
    let kept = output.display().to_string();
    let larger = replayed(&dir, &["--set", "read-bytes=65536", "--rounds", "2", "-o", &kept]);
    for run in ["original", "unchanged", "changed"] {
        assert_eq!(largest_place(&larger[run], "client"), "receive_queue.app", "{larger}");
    }
    assert!(figure(&larger["changed"]) > 2.0 * figure(&larger["unchanged"]), "{larger}");
    for file in ["pattern.toml", "changed.toml", "1-unchanged.sockscope", "2-changed.sockscope"] {
        assert!(output.join(file).exists(), "{file}");
    }
}

#[test]
fn root_a_wire_adds_its_delay() {
    let Some(_turn) = turn::take() else { return };
    if !is_full() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let dir = recorded(folder.path(), "calls", &["split", "--changed", "--calls", "20"]);
    let far = replayed(&dir, &["--set", "delay=10ms", "--rounds", "2"]);
    // Out and back.
    assert!(figure(&far["changed"]) > 20e6, "{far}");
    assert!(figure(&far["unchanged"]) < 20e6, "{far}");
}

#[test]
fn root_a_change_that_a_connection_cannot_have_is_refused_in_one_line() {
    let Some(_turn) = turn::take() else { return };
    let folder = TempDir::new().expect("a folder");
    let dir = recorded(folder.path(), "datagrams", &["datagrams", "--calls", "3"]);
    let refused = |arguments: &[&str]| {
        let output = replay(&dir, arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        said
    };
    assert!(refused(&["--set", "nodelay"]).contains("is no stream"));
    assert!(refused(&["--set", "personality=4.3bsd"]).contains("add --on model"));
    assert!(refused(&["--set", "faster"]).contains("faster is no change"));
}

#[test]
fn root_eight_kinds_are_replayed_next_to_their_changed_twins() {
    let Some(_turn) = turn::take() else { return };
    if !is_full() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let mut rows = Vec::new();
    for (kind, change) in KINDS {
        let dir = recorded(folder.path(), kind, &[kind]);
        let result = replayed(&dir, &["--set", change, "--rounds", "8"]);
        // The twin's own figures are those of its recording.
        let twin = recorded(folder.path(), &format!("{kind}-changed"), &[kind, "--changed"]);
        let twin = replayed(&twin, &["--rounds", "2"]);
        let [original, copy, predicted] =
            ["original", "unchanged", "changed"].map(|run| figure(&result[run]));
        let changed = figure(&twin["original"]);
        let unit = if result["original"]["exchange_p50_ns"].is_null() { "B/s" } else { "ns" };
        rows.push(format!(
            "{kind:<12} {unit:<4} {original:>12.0} {copy:>12.0} {:>6.2}  {:<10}  {change:<17} {changed:>12.0} \
             {predicted:>12.0} {:>6.2}",
            copy / original,
            text(&result["verdict"]),
            predicted / changed
        ));
        // By cause: a change that made the program better by half makes its replay better.
        let is_better = |before: f64, after: f64, by: f64| match unit {
            "ns" => after * by < before,
            _ => after > before * by,
        };
        let is_one_of_many = kind == "chat";
        if is_better(original, changed, 2.0) && !is_one_of_many {
            assert!(is_better(copy, predicted, 1.0), "{}", rows.join("\n"));
        }
    }
    println!(
        "{:<12} {:<4} {:>12} {:>12} {:>6}  {:<10}  {:<17} {:>12} {:>12} {:>6}",
        "kind",
        "",
        "original",
        "copy",
        "ratio",
        "verdict",
        "change",
        "changed",
        "prediction",
        "ratio"
    );
    println!("{}", rows.join("\n"));
}
