//! `sockscope replay`: calls of recorded programs made again, and the change next to the program that was changed.
//!
//! The short form has few kinds of traffic and few runs. The full form (`SOCKSCOPE_SOAK=full`) has eight kinds and prints
//! a table: the recording, its copy, the changed program and its prediction. Each program is recorded several times, in
//! turns with the replays. A ratio has its interval, and next to it the ratio of every second recording to the others:
//! a replay cannot be closer than these recordings are to each other. Both ends are bound to one CPU, and then to two: a
//! program whose CPUs the kernel chooses takes another time in each recording. `SOCKSCOPE_KINDS` selects kinds, as
//! `split,http`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::bundle::{sockscope, stdout_of, workload};
use crate::report::{count, text};
use crate::schema::Schema;
use crate::turn;

/// A kind of traffic.
#[derive(Clone, Copy)]
struct Kind {
    /// For `kinds.py`.
    name: &'static str,
    size: &'static [&'static str],
    /// Between this kind and its twin.
    change: &'static str,
    /// Recordings, each with its replay. Where nothing waits for a timer, recordings differ more.
    turns: usize,
    /// Recordings of the twin in a turn: one takes some 10 ms, where its original takes seconds.
    twins: usize,
    /// A change that takes a wait away needs a recording without one.
    needs_warm: bool,
}

const KINDS: [Kind; 8] = [
    Kind::of("split", &["--calls", "50"], "one-write").warm(),
    Kind::of("slow-reader", &[], "read-bytes=65536"),
    Kind::of("pipelined", &["--calls", "1000"], "one-write").turns(12),
    Kind::of("bulk", &["--megabytes", "2048"], "read-bytes=65536").turns(8),
    Kind::of("chat", &["--calls", "50"], "nodelay"),
    Kind::of("http", &["--calls", "50"], "one-write").warm(),
    Kind::of("datagrams", &["--calls", "1000"], "think=-300us").turns(12),
    Kind::of("thinking", &["--calls", "50"], "one-write"),
];

impl Kind {
    const fn of(name: &'static str, size: &'static [&'static str], change: &'static str) -> Self {
        Self { name, size, change, turns: 3, twins: 4, needs_warm: false }
    }

    const fn turns(self, turns: usize) -> Self {
        Self { turns, twins: 2, ..self }
    }

    const fn warm(self) -> Self {
        Self { needs_warm: true, ..self }
    }

    fn is_chosen(self) -> bool {
        let chosen = std::env::var("SOCKSCOPE_KINDS").ok();
        chosen.is_none_or(|kinds| kinds.split(',').any(|it| it == self.name))
    }
}

/// Of a recording for `--warm`.
const WARM_CALLS: [&str; 2] = ["--calls", "500"];

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
        // Notes on the recording are of the machine: other guests may have had its CPUs.
        let of_replay: Vec<&str> = said.lines().filter(|line| !line.contains("(steal)")).collect();
        assert_eq!((output.status.code(), of_replay.len()), (Some(2), 1), "{said}");
        said
    };
    assert!(refused(&["--set", "nodelay"]).contains("is no stream"));
    assert!(refused(&["--set", "personality=4.3bsd"]).contains("add --on model"));
    assert!(refused(&["--set", "faster"]).contains("faster is no change"));
}

/// A turn is made again where other guests took more than this part of the CPU time, so often at most.
const STOLEN_MAX: f64 = 0.02;
const ATTEMPTS: usize = 4;

/// CPU time of all kinds, and that which other guests of the machine took: `steal` of /proc/stat (proc_stat(5)).
fn cpu_times() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/stat").expect("the kernel's counts");
    let first = stat.lines().next().expect("all CPUs").split_whitespace().skip(1);
    let times: Vec<f64> = first.take(8).map(|ticks| ticks.parse().expect("ticks")).collect();
    (times.iter().sum(), times[7])
}

/// The values of several recordings, or of their replays, in the order of time.
struct Values(Vec<f64>);

impl Values {
    fn median(&self) -> f64 {
        middle_and_ends(self.0.clone(), 0)[0]
    }

    /// Every second one.
    fn half(&self, first: usize) -> Self {
        Self(self.0.iter().skip(first).step_by(2).copied().collect())
    }

    /// The ratio to others: the middle of the ratios of all pairs, and its interval of 95 % (H. B. Mann and D. R. Whitney,
    /// 1947). With three of each kind it has all ratios.
    fn by(&self, others: &Self) -> String {
        let [count, other_count] = [self.0.len(), others.0.len()].map(|count| count as f64);
        let ratios = self.0.iter().flat_map(|one| others.0.iter().map(move |other| one / other));
        let deviation = (count * other_count * (count + other_count + 1.0) / 12.0).sqrt();
        let below = (count * other_count / 2.0 - 1.96 * deviation).max(0.0) as usize;
        let [middle, low, high] = middle_and_ends(ratios.collect(), below);
        format!("{middle:>5.2} ({low:.2} to {high:.2})")
    }

    /// The line of a table: the program, its replay, and the A/A control of the program.
    fn print(&self, name: &str, replay: &Self) {
        let control = self.half(0).by(&self.half(1));
        let [own, copy] = [self, replay].map(Self::median);
        println!("  {name:<29}{own:>15.4} {copy:>15.4} {:>21} {control:>21}", replay.by(self));
    }
}

/// The median, and the values with so many below and above.
fn middle_and_ends(mut values: Vec<f64>, outside: usize) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    let middle = f64::midpoint(values[last / 2], values[values.len() / 2]);
    [middle, values[outside], values[last - outside]]
}

#[test]
fn a_ratio_has_an_interval() {
    let of = |values: &[f64]| Values(values.to_vec());
    assert_eq!(of(&[2.0, 4.0, 3.0]).by(&of(&[1.0, 2.0, 1.0])), " 2.00 (1.00 to 4.00)");
    let many = Values((1..=20).map(f64::from).collect());
    assert_eq!((many.median(), many.half(1).0[0]), (10.5, 2.0));
    assert_eq!(many.by(&many), " 1.00 (0.67 to 1.50)");
}

/// Recordings of a kind and of its changed twin in turns, each original with its replay.
struct Measured {
    kind: Kind,
    cpus: &'static str,
    turns: Vec<Turn>,
}

struct Turn {
    replay: Value,
    /// With the think times of a recording without a wait.
    warm_replay: Option<Value>,
    /// Figures of the changed program.
    twins: Vec<f64>,
    /// Part of the CPU time that other guests of the machine took.
    stolen: f64,
}

impl Turn {
    fn of(kind: Kind, cpus: &str) -> Self {
        let (all_before, stolen_before) = cpu_times();
        let folder = TempDir::new().expect("a folder");
        let at = |name: &str, size: &[&str], more: &[&str]| {
            recorded(folder.path(), name, &[&[kind.name, "--cpus", cpus], size, more].concat())
        };
        let choice: &[&str] = if kind.name == "chat" { &["--connection", "all"] } else { &[] };
        // Half of the twins before the replay, half after it.
        let twins = || {
            let figure_of = |index: usize| {
                let twin = at(&format!("changed-{index}"), kind.size, &["--changed"]);
                // The figures of the recording: the runs are of no use here.
                let figures = replayed(&twin, &[choice, &["--rounds", "2"]].concat());
                std::fs::remove_dir_all(twin).expect("it was written");
                figure(&figures["original"])
            };
            (0..kind.twins / 2).map(figure_of).collect::<Vec<f64>>()
        };
        let mut all_twins = twins();
        let dir = at("original", kind.size, &[]);
        let set = [choice, &["--set", kind.change, "--rounds", "4"]].concat();
        let replay = replayed(&dir, &set);
        let warm_replay = kind.needs_warm.then(|| {
            let warm = at("warm", &WARM_CALLS, &["--nodelay"]).display().to_string();
            replayed(&dir, &[&set[..], &["--warm", &warm]].concat())
        });
        all_twins.extend(twins());
        let (all, stolen) = cpu_times();
        let stolen = (stolen - stolen_before) / (all - all_before);
        Self { replay, warm_replay, twins: all_twins, stolen }
    }
}

impl Measured {
    fn of(kind: Kind, cpus: &'static str) -> Self {
        let undisturbed = |_| {
            let mut attempts = (0..ATTEMPTS).map(|_| Turn::of(kind, cpus));
            let first = attempts.next().expect("an attempt");
            if first.stolen <= STOLEN_MAX {
                return first;
            }
            attempts.find(|turn| turn.stolen <= STOLEN_MAX).unwrap_or(first)
        };
        Self { kind, cpus, turns: (0..kind.turns).map(undisturbed).collect() }
    }

    fn values(&self, run: &str, value: impl Fn(&Value) -> f64) -> Values {
        Values(self.turns.iter().map(|turn| value(&turn.replay[run])).collect())
    }

    fn is_timed(&self) -> bool {
        self.turns[0].replay["original"]["exchange_p50_ns"].is_number()
    }

    fn twins(&self) -> Values {
        Values(self.turns.iter().flat_map(|turn| turn.twins.iter().copied()).collect())
    }

    fn print(&self) {
        let verdicts: Vec<&str> =
            self.turns.iter().map(|turn| text(&turn.replay["verdict"])).collect();
        let count = |verdict: &str| verdicts.iter().filter(|one| **one == verdict).count();
        let most = self.turns.iter().map(|turn| turn.stolen).fold(0.0, f64::max);
        println!(
            "{} on CPUs: {}; of {} runs {} are copies and {} unclear; other guests took {:.1} % of a run at most",
            self.kind.name,
            self.cpus,
            verdicts.len(),
            count("copy"),
            count("unclear"),
            most * 100.0
        );
        let line = |name: &str, value: &dyn Fn(&Value) -> f64| {
            self.values("original", value).print(name, &self.values("unchanged", value));
        };
        line(if self.is_timed() { "exchange p50, ns" } else { "throughput, B/s" }, &figure);
        for side in ["client", "server"] {
            let figures = &self.turns[0].replay["original"];
            for place in figures["ledger"][side].as_object().expect("places").keys() {
                let share =
                    |figures: &Value| figures["ledger"][side][place].as_f64().unwrap_or(0.0);
                if self.values("original", share).median() > 0.05 {
                    line(&format!("{side} {place}"), &share);
                }
            }
        }
        let predicted = self.values("changed", figure);
        self.twins().print(self.kind.change, &predicted);
        let warm = self.turns.iter().filter_map(|turn| turn.warm_replay.as_ref());
        let warm: Vec<f64> = warm.map(|replay| figure(&replay["changed"])).collect();
        if !warm.is_empty() {
            self.twins().print("--warm", &Values(warm));
        }
    }

    /// By cause: a change that made the program better by half makes its replay better.
    fn check(&self) {
        let is_better = |before: &Values, after: &Values, by: f64| match self.is_timed() {
            true => after.median() * by < before.median(),
            false => after.median() > before.median() * by,
        };
        if is_better(&self.values("original", figure), &self.twins(), 2.0) {
            let [copy, predicted] = ["unchanged", "changed"].map(|run| self.values(run, figure));
            assert!(is_better(&copy, &predicted, 1.0), "{}", self.kind.name);
        }
    }
}

#[test]
fn root_eight_kinds_are_replayed_next_to_their_changed_twins() {
    let Some(_turn) = turn::take() else { return };
    if !is_full() {
        return;
    }
    println!("  {:<29}{:>15} {:>15} {:>21} {:>21}", "", "program", "replay", "ratio", "A/A");
    for kind in KINDS.into_iter().filter(|kind| kind.is_chosen()) {
        for cpus in ["one", "two"] {
            let measured = Measured::of(kind, cpus);
            measured.print();
            measured.check();
        }
    }
}
