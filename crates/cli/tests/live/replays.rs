//! `sockscope replay`: calls of recorded programs made again, and the change next to the program that was changed.
//!
//! The short form has few kinds of traffic and few runs. The full form (`SOCKSCOPE_SOAK=full`) has eight kinds and prints
//! a table: the recording, its copy, the changed program and its prediction. Each program is recorded three times, in turns
//! with the replays, and medians are compared: a replay cannot be closer than these recordings are to each other. Both
//! ends are bound to one CPU, and then to two: a program whose CPUs the kernel chooses takes another time in each
//! recording. `SOCKSCOPE_KINDS` selects kinds, as `split,http`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::bundle::{sockscope, stdout_of, workload};
use crate::report::{count, text};
use crate::schema::Schema;
use crate::turn;

/// Kinds of `kinds.py`, their sizes, and the change between a kind and its twin. Each recording takes some 30 ms at least.
const KINDS: [(&str, &[&str], &str); 8] = [
    ("split", &["--calls", "50"], "one-write"),
    ("slow-reader", &[], "read-bytes=65536"),
    ("pipelined", &["--calls", "1000"], "one-write"),
    ("bulk", &["--megabytes", "2048"], "read-bytes=65536"),
    ("chat", &["--calls", "50"], "nodelay"),
    ("http", &["--calls", "50"], "one-write"),
    ("datagrams", &["--calls", "1000"], "think=-300us"),
    ("thinking", &["--calls", "50"], "one-write"),
];

/// Of recordings without a wait: 50 calls of 0.1 ms would say little.
const MANY_CALLS: [&str; 2] = ["--calls", "500"];

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

/// Recordings of each program: the kernel and other guests of the machine make each one different.
const RECORDINGS: usize = 3;
/// One is made again where other guests took more than this part of the CPU time, so often at most.
const STOLEN_MAX: f64 = 0.005;
const ATTEMPTS: usize = 4;

/// CPU time of all kinds, and that which other guests of the machine took: `steal` of /proc/stat (proc_stat(5)).
fn cpu_times() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/stat").expect("the kernel's counts");
    let first = stat.lines().next().expect("all CPUs").split_whitespace().skip(1);
    let times: Vec<f64> = first.take(8).map(|ticks| ticks.parse().expect("ticks")).collect();
    (times.iter().sum(), times[7])
}

/// The values of several recordings, or of their replays.
#[derive(Default)]
struct Values(Vec<f64>);

impl Values {
    fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    fn median(&self) -> f64 {
        let Self(values) = self;
        let count = values.len();
        if count == 0 {
            f64::NAN
        } else {
            f64::midpoint(values[count / 2], values[(count - 1) / 2])
        }
    }

    /// The largest as a multiple of the smallest.
    fn spread(&self) -> f64 {
        let Self(values) = self;
        values.last().unwrap_or(&f64::NAN) / values.first().unwrap_or(&f64::NAN)
    }
}

/// Recordings of a kind and of its changed twin in turns, each original with its replay.
struct Measured {
    kind: &'static str,
    cpus: &'static str,
    replays: Vec<Value>,
    /// With the think times of a recording without a wait.
    warm_replays: Vec<Value>,
    twins: Vec<Value>,
    /// Part of the CPU time of each turn that other guests of the machine took.
    stolen: Vec<f64>,
}

impl Measured {
    fn of(kind: &'static str, size: &[&str], change: &'static str, cpus: &'static str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let at = |name: &str, size: &[&str], more: &[&str]| {
            recorded(folder.path(), name, &[&[kind, "--cpus", cpus], size, more].concat())
        };
        let choice: &[&str] = if kind == "chat" { &["--connection", "all"] } else { &[] };
        let needs_warm = ["split", "http"].contains(&kind);
        let quick_size = if needs_warm { &MANY_CALLS } else { size };
        let mut own = Self {
            kind,
            cpus,
            replays: vec![],
            warm_replays: vec![],
            twins: vec![],
            stolen: vec![],
        };
        let measure = |name: &str| {
            let dir = at(name, size, &[]);
            let set = [choice, &["--set", change, "--rounds", "4"]].concat();
            let replay = replayed(&dir, &set);
            let warm = needs_warm.then(|| {
                let quick = at(&format!("{name}-quick"), quick_size, &["--nodelay"]);
                let quick = quick.display().to_string();
                replayed(&dir, &[&set[..], &["--warm", &quick]].concat())
            });
            let twin = at(&format!("{name}-changed"), quick_size, &["--changed"]);
            // The figures of the recording: the runs are of no use here.
            let figures = replayed(&twin, &[choice, &["--rounds", "2"]].concat());
            (replay, warm, figures["original"].clone())
        };
        for turn in 0..RECORDINGS {
            let mut attempt = 0;
            let (replay, warm, twin) = loop {
                let (all_before, stolen_before) = cpu_times();
                let measured = measure(&format!("{turn}-{attempt}"));
                let (all, stolen) = cpu_times();
                let share = (stolen - stolen_before) / (all - all_before);
                attempt += 1;
                if share <= STOLEN_MAX || attempt == ATTEMPTS {
                    own.stolen.push(share);
                    break measured;
                }
            };
            own.replays.push(replay);
            own.warm_replays.extend(warm);
            own.twins.push(twin);
        }
        own
    }

    fn values(&self, run: &str, value: impl Fn(&Value) -> f64) -> Values {
        Values::of(self.replays.iter().map(|replay| value(&replay[run])))
    }

    fn print_copy(&self) {
        let line = |name: &str, value: &dyn Fn(&Value) -> f64| {
            let [own, copy] = ["original", "unchanged"].map(|run| self.values(run, value));
            println!(
                "  {name:<32} {:>14.4} {:>14.4} {:>6.2}  {:>6.2} {:>6.2}",
                own.median(),
                copy.median(),
                copy.median() / own.median(),
                own.spread(),
                copy.spread()
            );
        };
        let verdicts: Vec<&str> = self.replays.iter().map(|one| text(&one["verdict"])).collect();
        let stolen: Vec<String> =
            self.stolen.iter().map(|share| format!("{:.1} %", share * 100.0)).collect();
        println!(
            "{} on CPUs: {}: {}; other guests took {}",
            self.kind,
            self.cpus,
            verdicts.join(", "),
            stolen.join(", ")
        );
        let is_timed = self.replays[0]["original"]["exchange_p50_ns"].is_number();
        line(if is_timed { "exchange p50, ns" } else { "throughput, B/s" }, &figure);
        for side in ["client", "server"] {
            let places = self.replays[0]["original"]["ledger"][side].as_object().expect("places");
            for place in places.keys() {
                let share =
                    |figures: &Value| figures["ledger"][side][place].as_f64().unwrap_or(0.0);
                if self.values("original", share).median() > 0.05 {
                    line(&format!("{side} {place}"), &share);
                }
            }
        }
    }

    fn print_predictions(&self, change: &str) {
        for (name, replays) in [(change, &self.replays), ("--warm", &self.warm_replays)] {
            let twins = Values::of(self.twins.iter().map(figure));
            let predicted = Values::of(replays.iter().map(|replay| figure(&replay["changed"])));
            if predicted.0.is_empty() {
                continue;
            }
            println!(
                "  {name:<32} {:>14.4} {:>14.4} {:>6.2}  {:>6.2} {:>6.2}",
                twins.median(),
                predicted.median(),
                predicted.median() / twins.median(),
                twins.spread(),
                predicted.spread()
            );
        }
    }
}

#[test]
fn root_eight_kinds_are_replayed_next_to_their_changed_twins() {
    let Some(_turn) = turn::take() else { return };
    if !is_full() {
        return;
    }
    println!(
        "  {:<32} {:>14} {:>14} {:>6}  {:>6} {:>6}",
        "medians of 3", "program", "replay", "ratio", "A/A", "A/A"
    );
    let chosen = std::env::var("SOCKSCOPE_KINDS").ok();
    let is_chosen =
        |kind| chosen.as_ref().is_none_or(|kinds| kinds.split(',').any(|it| it == kind));
    let kinds = KINDS.into_iter().filter(|(kind, ..)| is_chosen(*kind));
    let placed = kinds.flat_map(|kind| ["one", "two"].map(|cpus| (kind, cpus)));
    for ((kind, size, change), cpus) in placed {
        let measured = Measured::of(kind, size, change, cpus);
        measured.print_copy();
        measured.print_predictions(change);
        // By cause: a change that made the program better by half makes its replay better.
        let is_timed = measured.replays[0]["original"]["exchange_p50_ns"].is_number();
        let is_better = |before: f64, after: f64, by: f64| match is_timed {
            true => after * by < before,
            false => after > before * by,
        };
        let original = measured.values("original", figure).median();
        let changed = Values::of(measured.twins.iter().map(figure)).median();
        if is_better(original, changed, 2.0) {
            let [copy, predicted] =
                ["unchanged", "changed"].map(|run| measured.values(run, figure).median());
            assert!(is_better(copy, predicted, 1.0), "{kind}: {copy} to {predicted}");
        }
    }
}
