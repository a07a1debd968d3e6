//! One cell, recorded and compared with its caller's own measurement.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde_json::Value;

use super::cells::Measure;
use super::{Cell, LookAlike};
use crate::bundle::{Recording, run_once, sockscope_says, workload};
use crate::report::{count, text};

/// A cost, a count and a wait may differ by this share from the caller's.
const TOLERANCE: f64 = 0.2;
/// A wait also by so many nanoseconds: the caller reads its clock outside of the calls.
const TOLERANCE_NS: u64 = 200_000;
/// Recordings of a cell before missed records count against it.
const ATTEMPTS: u32 = 3;

/// How the verdict begins where callers waited long, and no rule knows why.
pub const UNKNOWN: &str = "no known cause";

/// Findings that say that a program takes long, or does not read.
const BLAMES: [&str; 5] =
    ["slow-service", "head-of-line", "unanswered", "slow-reader", "late-wakeup"];

/// A cell's line of the table.
pub struct Judged {
    /// Trouble and server.
    pub name: String,
    verdict: String,
    /// The whole of the verdict.
    sentence: String,
    side: String,
    is_process_right: Option<bool>,
    reported: Option<u64>,
    measured: Option<u64>,
    /// Waits of the caller.
    pub requests: usize,
    /// Waits that the report has as a request, which took another time.
    pub requests_off: usize,
    /// The faults, in words.
    pub wrong: Vec<String>,
}

impl Judged {
    /// Head of the table.
    pub const HEAD: &str = "cell                          verdict                  side    process  reported ms  \
                            measured ms  ratio  requests off  judgement";

    fn of(name: String, recording: &Recording) -> Self {
        let sentence = sentence(recording);
        Self {
            name,
            verdict: verdict(&sentence).to_owned(),
            sentence,
            side: String::new(),
            is_process_right: None,
            reported: None,
            measured: None,
            requests: 0,
            requests_off: 0,
            wrong: Vec::new(),
        }
    }

    /// Keeps the trace of a cell that is wrong.
    fn with_trace(mut self, mut recording: Recording) -> Self {
        if !self.wrong.is_empty() {
            self.wrong.push(format!("the trace stays in {}", recording.keep().display()));
        }
        self
    }

    fn demand_verdict(&mut self, expected: &str) {
        if self.verdict != expected {
            self.wrong.push(format!("the verdict is {:?} and not {expected:?}", self.verdict));
        }
    }

    fn demand(&mut self, holds: bool, words: impl FnOnce() -> String) {
        if !holds {
            self.wrong.push(words());
        }
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A count of the report is not in milliseconds, and has no fraction.
        let ms =
            |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e6));
        let ratio = match (self.reported, self.measured) {
            (Some(reported), Some(measured)) => format!("{:.2}", reported as f64 / measured as f64),
            _ => "-".to_owned(),
        };
        let process = match self.is_process_right {
            Some(true) => "right",
            Some(false) => "wrong",
            None => "-",
        };
        let judgement = if self.wrong.is_empty() { "right" } else { "WRONG" };
        write!(
            f,
            "{:<29} {:<24} {:<7} {:<8} {:>11} {:>12} {:>6} {:>7} of {:<4} {judgement}",
            self.name,
            self.verdict,
            self.side,
            process,
            ms(self.reported),
            ms(self.measured),
            ratio,
            self.requests_off,
            self.requests,
        )
    }
}

/// Records a planted trouble.
pub fn cell(cell: &Cell, built: &Path) -> Judged {
    let recording = recorded("trouble", cell.trouble, cell.server, built);
    let facts = recording.facts();
    let mut judged = Judged::of(format!("{} {}", cell.trouble, cell.server), &recording);
    let findings = recording.report.findings(cell.verdict);
    judged.demand_verdict(cell.verdict);
    judge_side(&mut judged, cell, &findings, &facts);
    judge_cost(&mut judged, cell.measure, &findings, &facts);
    let innocent = pid(&facts["innocent"]);
    for id in BLAMES.into_iter().filter(|_| !facts["innocent"].is_null()) {
        for finding in recording.report.findings(id) {
            if id == "late-wakeup" && had_no_cpu(finding, &facts) {
                continue;
            }
            let blamed = text(&finding["summary"]).split(" served ").next().unwrap_or_default();
            let blamed = blamed.split(" waited").next().unwrap_or_default();
            judged.demand(!blamed.contains(&innocent), || {
                format!("{id} blames the innocent: {finding}")
            });
        }
    }
    judge_requests(&mut judged, &recording, &facts);
    judged.with_trace(recording)
}

/// Records a healthy look-alike: nothing is found, and the verdict names no cause.
pub fn look_alike(shape: &LookAlike, built: &Path) -> Judged {
    let recording = recorded("healthy", shape.shape, shape.server, built);
    let facts = recording.facts();
    let mut judged = Judged::of(format!("{} {}", shape.shape, shape.server), &recording);
    let late = recording.report.findings("late-wakeup");
    let is_late = !late.is_empty() && late.iter().all(|finding| had_no_cpu(finding, &facts));
    let mut found = recording.report.found();
    if is_late {
        found.remove("late-wakeup");
    }
    judged.demand(found.is_empty(), || format!("found {found:?}"));
    if !is_late || judged.verdict != "late-wakeup" {
        let verdict = if waited_long(&recording, &facts) { UNKNOWN } else { shape.verdict };
        judged.demand_verdict(verdict);
        let whose = shape.whose.map(|whose| format!("% to {whose}"));
        let is_named = whose.is_none_or(|whose| judged.sentence.contains(&whose));
        judged.demand(is_named, || "the verdict does not say whose the time is".to_owned());
    }
    judge_requests(&mut judged, &recording, &facts);
    judged.with_trace(recording)
}

/// Whether callers waited long, as the documents say it of a verdict, by their own clocks. A loaded machine can do that.
fn waited_long(recording: &Recording, facts: &Value) -> bool {
    let calls = facts["calls"].as_array().expect("a workload has them");
    let mut waits: Vec<u64> = calls.iter().map(|call| count(&call[2])).collect();
    waits.sort_unstable();
    let (sum, trace_ns) =
        (waits.iter().sum::<u64>(), count(&recording.report.trace()["duration_ns"]));
    let median = waits.get(waits.len() / 2).copied().unwrap_or(0);
    waits.last().is_some_and(|longest| *longest >= 100_000_000)
        || median > 1_000_000 && sum >= 100_000_000 && sum >= trace_ns / 100
}

/// Whether the process that a `late-wakeup` names waited as long for a CPU by the scheduler's account: then others
/// load the machine, and the finding is true.
fn had_no_cpu(finding: &Value, facts: &Value) -> bool {
    let waits = facts["without_cpu_ns"].as_object().expect("a workload has them");
    let is_of = |number: &str| text(&finding["summary"]).contains(&format!("pid {number})"));
    let named = waits.iter().find(|(number, _)| is_of(number));
    named.is_some_and(|(_, waited_ns)| count(waited_ns) >= count(&finding["cost_ns"]))
}

/// A cell of the matrix, recorded without missed records where that succeeds.
fn recorded(task: &str, shape: &str, server: &str, built: &Path) -> Recording {
    let words = workload("matrix/run.py", &[task, shape, server, &built.display().to_string()]);
    for _ in 1..ATTEMPTS {
        let recording = run_once(&[], &words);
        if recording.report.missed() == 0 {
            return recording;
        }
        println!("{shape} {server}: {} records missed, once more", recording.report.missed());
    }
    run_once(&[], &words)
}

/// All findings have the side, and one of them names the process.
fn judge_side(judged: &mut Judged, cell: &Cell, findings: &[&Value], facts: &Value) {
    let Some(finding) = findings.first() else {
        return judged.demand(false, || format!("no {} was found", cell.verdict));
    };
    judged.side = text(&finding["side"]).to_owned();
    let is_side = findings.iter().all(|finding| finding["side"] == cell.side);
    judged.demand(is_side, || format!("the side is {} and not {}", finding["side"], cell.side));
    if !cell.names_process {
        return;
    }
    let pid = pid(&facts["pid"]);
    let is_named = |finding: &&&Value| {
        text(&finding["summary"]).contains(&pid) || text(&finding["fix"]).contains(&pid)
    };
    let is_right = findings.iter().any(|finding| is_named(&finding));
    judged.is_process_right = Some(is_right);
    judged.demand(is_right, || format!("no finding names {pid}: {}", finding["summary"]));
}

fn judge_cost(judged: &mut Judged, measure: Measure, findings: &[&Value], facts: &Value) {
    let (key, measured) = match measure {
        Measure::Cost => ("cost_ns", count(&facts["cost_ns"])),
        Measure::Sum => ("cost_ns", count(&facts["sum_ns"])),
        Measure::Count => ("count", count(&facts["count"])),
    };
    let reported: u64 = findings.iter().map(|finding| count(&finding[key])).sum();
    let is_right = reported.abs_diff(measured) as f64 <= TOLERANCE * measured as f64;
    judged.demand(is_right && measured > 0, || {
        format!("{key} is {reported}, and the workload measured {measured}")
    });
    if key == "cost_ns" {
        (judged.reported, judged.measured) = (Some(reported), Some(measured));
    }
}

/// Each wait of the caller is one request of the report, whose parts add up to it and take as long.
fn judge_requests(judged: &mut Judged, recording: &Recording, facts: &Value) {
    let requests = requests(recording);
    let calls = facts["calls"].as_array().expect("a workload has them");
    judged.requests = calls.len();
    for call in calls {
        let [port, since, waited] = [0, 1, 2].map(|index| count(&call[index]));
        let rows = requests.get(&port).into_iter().flatten();
        let is_within = |row: &&Request| (since..=since + waited).contains(&row.asked_ns);
        let within: Vec<&Request> = rows.filter(is_within).collect();
        let [request] = within[..] else {
            judged.wrong.push(format!("a wait of {waited} ns has {} requests", within.len()));
            continue;
        };
        let tolerance = TOLERANCE_NS.max((waited as f64 * TOLERANCE) as u64);
        judged.requests_off += usize::from(request.total_ns.abs_diff(waited) > tolerance);
    }
    let is_sum = |row: &Request| row.parts_ns.is_none_or(|parts| parts == row.total_ns);
    let are_sums = requests.values().flatten().all(is_sum);
    judged.demand(are_sums, || "the parts of a request do not add up to it".to_owned());
}

/// A row of the report's requests.
struct Request {
    asked_ns: u64,
    total_ns: u64,
    /// Request, service and response; `None` where one of them is unknown.
    parts_ns: Option<u64>,
}

/// The requests of each client's port.
fn requests(recording: &Recording) -> BTreeMap<u64, Vec<Request>> {
    let dir = recording.dir().display().to_string();
    let csv = sockscope_says(&["report", &dir, "--format", "csv-requests"]);
    let mut lines = csv.lines();
    let head: Vec<&str> = lines.next().expect("a head").split(',').collect();
    let column =
        |name: &str| head.iter().position(|column| *column == name).expect("the column is there");
    let [client, asked, total] = ["client", "asked_ns", "total_ns"].map(column);
    let parts = ["request_ns", "service_ns", "response_ns"].map(column);
    let mut requests = BTreeMap::<u64, Vec<Request>>::new();
    for line in lines {
        let words: Vec<&str> = line.split(',').collect();
        let number = |index: usize| words[index].parse::<u64>().ok();
        let port =
            words[client].rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        let (Some(asked_ns), Some(total_ns)) = (number(asked), number(total)) else { continue };
        let parts_ns = parts.iter().map(|part| number(*part)).sum();
        requests.entry(port).or_default().push(Request { asked_ns, total_ns, parts_ns });
    }
    requests
}

/// The verdict of the text report, in one line.
fn sentence(recording: &Recording) -> String {
    let said = sockscope_says(&["report", &recording.dir().display().to_string()]);
    let from = said.lines().skip_while(|line| !line.starts_with("verdict  "));
    let lines: Vec<&str> = from.take_while(|line| !line.is_empty()).collect();
    let words: Vec<&str> = lines.iter().flat_map(|line| line.split_whitespace()).skip(1).collect();
    assert!(!words.is_empty(), "no verdict: {said}");
    words.join(" ")
}

/// The name of the finding that is the verdict, or the words before the first comma, semicolon or full stop.
fn verdict(sentence: &str) -> &str {
    // Where none of the findings has a cost, the verdict names them.
    if let Some((_, rest)) = sentence.split_once("that of ")
        && let Some((named, _)) = rest.split_once(" is not measured")
    {
        return named;
    }
    let is_a_name = !sentence.starts_with("no ") && !sentence.starts_with("nothing ");
    let ends = if is_a_name { " :,;." } else { ":,;." };
    sentence.split(|letter| ends.contains(letter)).next().unwrap_or_default()
}

/// As the report writes it.
fn pid(number: &Value) -> String {
    format!("pid {number})")
}
