//! `sockscope replay`: calls of recorded programs made again, and the change next to the program that was changed.
//!
//! The short form has few kinds of traffic and few runs. The full form (`SOCKSCOPE_SOAK=full`) has eight kinds and prints
//! a table: the recording, its copy, the changed program and its prediction. The changed program runs four times, before
//! and after the replay: a prediction cannot be closer than these runs are to each other.

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
    ("datagrams", "think=-300us"),
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
fn root_a_chat_is_replayed_with_all_its_connections() {
    let Some(_turn) = turn::take() else { return };
    let folder = TempDir::new().expect("a folder");
    let dir = recorded(folder.path(), "chat", &["chat", "--calls", "6"]);
    let all = ["--connection", "all", "--set", "nodelay", "--rounds", "2"];
    let result = replayed(&dir, &all);
    assert!(text(&result["connection"]).ends_with(" and 49 more"), "{result}");
    // A line, and the same to each member: the server's write to one waits for the read from another.
    let writes = 6 + 6 * 50;
    assert_eq!((count(&result["writes"]), count(&result["certain_writes"])), (writes, writes));
    let exchanges = |run: &str| count(&result[run]["exchanges"]);
    assert_eq!(exchanges("unchanged"), exchanges("original"), "{result}");
    let stalls = |run: &str| {
        let share = &result[run]["ledger"]["server"]["send_queue.nagle"];
        share.as_f64().expect("a share")
    };
    for run in ["original", "unchanged"] {
        assert!(stalls(run) > 0.0, "{run}: {result}");
    }
    assert_eq!(stalls("changed"), 0.0, "{result}");
    let refused = replay(&dir, &["--connection", "all", "--on", "model"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("the model makes the calls of one connection"), "{said}");
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

/// The changed programs, each with its figure and the CPUs of most of its reads.
struct Twins(Vec<(f64, Option<&'static str>)>);

impl Twins {
    fn record(&mut self, folder: &Path, kind: &str, choice: &[&str]) {
        let name = format!("{kind}-changed-{}", self.0.len());
        let dir = recorded(folder, &name, &[kind, "--changed"]);
        // The figures of the recording: the runs are of no use here.
        let result = replayed(&dir, &[choice, &["--rounds", "2"]].concat());
        let cpus = result["original"]["same_cpu"].as_f64();
        let cpus = cpus.map(|share| if share >= 0.5 { "one" } else { "two" });
        self.0.push((figure(&result["original"]), cpus));
    }

    /// The median of those on these CPUs, the largest as a multiple of the smallest, and their number.
    fn on(&self, cpus: Option<&str>) -> Option<(f64, f64, usize)> {
        let alike = self.0.iter().filter(|(_, own)| cpus.is_none() || *own == cpus);
        let mut values: Vec<f64> = alike.map(|(value, _)| *value).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = f64::midpoint(values[values.len() / 2], values[(values.len() - 1) / 2]);
        Some((middle, high / low, values.len()))
    }
}

#[test]
fn root_eight_kinds_are_replayed_next_to_their_changed_twins() {
    let Some(_turn) = turn::take() else { return };
    if !is_full() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    println!(
        "{:<12} {:<4} {:>12} {:>12} {:>6}  {:<10}  {:<16} {:<5} {:>12} {:>5} {:>12} {:>6}",
        "kind",
        "",
        "original",
        "copy",
        "ratio",
        "verdict",
        "change",
        "CPUs",
        "changed",
        "A/A",
        "prediction",
        "ratio"
    );
    for (kind, change) in KINDS {
        let choice: &[&str] = if kind == "chat" { &["--connection", "all"] } else { &[] };
        let mut twins = Twins(Vec::new());
        twins.record(folder.path(), kind, choice);
        let dir = recorded(folder.path(), kind, &[kind]);
        let first = replayed(&dir, &[choice, &["--set", change, "--rounds", "8"]].concat());
        (0..2).for_each(|_| twins.record(folder.path(), kind, choice));
        let again = recorded(folder.path(), &format!("{kind}-again"), &[kind]);
        let second = replayed(&again, &[choice, &["--rounds", "2"]].concat());
        twins.record(folder.path(), kind, choice);
        let [original, copy] = ["original", "unchanged"].map(|run| figure(&first[run]));
        let again = figure(&second["original"]);
        let unit = if first["original"]["exchange_p50_ns"].is_null() { "B/s" } else { "ns" };
        println!(
            "{kind:<12} {unit:<4} {original:>12.0} {copy:>12.0} {:>6.2}  {:<10}  (A/A of the original {:.2})",
            copy / original,
            text(&first["verdict"]),
            original.max(again) / original.min(again)
        );
        // The kernel chooses the CPUs of the changed program: each choice has its prediction.
        let chosen = first["cpus"].as_str();
        let other = chosen.map(|cpus| if cpus == "one" { "two" } else { "one" });
        let predictions = [(chosen, &first["changed"]), (other, &first["changed_other_cpus"])];
        for (cpus, prediction) in predictions.iter().filter(|(_, figures)| figures.is_object()) {
            let Some((changed, spread, count)) = twins.on(*cpus) else { continue };
            let predicted = figure(prediction);
            println!(
                "{:<48}  {change:<16} {:<5} {changed:>12.0} {spread:>5.2} {predicted:>12.0} {:>6.2}  ({count} of 4)",
                "",
                cpus.unwrap_or("free"),
                predicted / changed
            );
        }
        if ["split", "http"].contains(&kind) {
            // Think times without the wait, from the unchanged program with an option set from outside.
            let quick = recorded(folder.path(), &format!("{kind}-quick"), &[kind, "--nodelay"]);
            let warm = ["--set", change, "--rounds", "8", "--warm", &quick.display().to_string()];
            let result = replayed(&dir, &warm);
            for (cpus, run) in [(chosen, "changed"), (other, "changed_other_cpus")] {
                let Some((changed, spread, count)) = twins.on(cpus) else { continue };
                let predicted = figure(&result[run]);
                println!(
                    "{:<48}  {:<16} {:<5} {changed:>12.0} {spread:>5.2} {predicted:>12.0} {:>6.2}  ({count} of 4)",
                    "",
                    "--warm",
                    cpus.unwrap_or("free"),
                    predicted / changed
                );
            }
        }
        // By cause: a change that made the program better by half makes its replay better.
        let is_better = |before: f64, after: f64, by: f64| match unit {
            "ns" => after * by < before,
            _ => after > before * by,
        };
        let changed = twins.on(None).expect("four runs").0;
        if is_better(original, changed, 2.0) {
            assert!(is_better(copy, figure(&first["changed"]), 1.0), "{first}");
        }
    }
}
