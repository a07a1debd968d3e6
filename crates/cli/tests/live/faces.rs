//! The other faces of a live bundle, and what the machine says of itself.

use std::fs::{self, DirEntry};
use std::path::Path;

use serde_json::Value;

use crate::bundle::{sockscope, sockscope_says, stdout_of, workload, workload_recorded};
use crate::schema::Schema;
use crate::turn;

const POINTS: [&str; 8] = [
    "SendEnqueue",
    "SendDequeue",
    "InterfaceEnqueue",
    "InterfaceDequeue",
    "InputEnqueue",
    "InputDequeue",
    "ReceiveEnqueue",
    "ReceiveDequeue",
];
const FIGURES: usize = 11;

#[test]
fn root_every_face_shows_a_live_bundle() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("split_calls.py", &["--calls", "10"]);
    let dir = recording.dir().display().to_string();

    let events = sockscope_says(&["show", &dir]);
    for point in POINTS {
        assert!(events.lines().filter(|line| line.contains(point)).count() >= 20, "{point}");
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let figures = folder.path().join("figures");
    sockscope_says(&["plot", &dir, "--figure", "all", "-o", &figures.display().to_string()]);
    let figures: Vec<_> = fs::read_dir(&figures).expect("it was made").flatten().collect();
    assert_eq!(figures.len(), FIGURES);
    for figure in figures.iter().map(DirEntry::path) {
        let svg = fs::read_to_string(&figure).expect("it was drawn");
        let is_whole = svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>");
        assert!(is_whole && !svg.contains("no bytes seen in this time"), "{}", figure.display());
    }
    let text = sockscope_says(&["report", &dir, "--full"]);
    for part in ["verdict", "residue", "ledger", "nagle-delayed-ack", "fix:", "missed"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let csv = sockscope_says(&["report", &dir, "--format", "csv"]);
    let columns = csv.lines().next().map_or(0, |line| line.split(',').count());
    assert!(csv.lines().all(|line| line.split(',').count() == columns), "{csv}");
    assert!(csv.contains(",receive_queue,"), "{csv}");
}

/// What a run of a command prints on standard output, and on standard error.
fn printed(options: &[&str]) -> [String; 2] {
    let mut command = sockscope();
    command.arg("run").args(options).args(["--", "sh", "-c", "printf 'from the command'"]);
    let output = command.output().expect("it starts");
    assert!(output.status.success());
    [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[test]
fn root_standard_output_belongs_to_the_command() {
    let Some(_turn) = turn::take() else { return };
    let [stdout, stderr] = printed(&[]);
    assert_eq!(stdout, "from the command");
    // Not in the last line of the command, where both go to one terminal.
    assert!(stderr.starts_with("\nsockscope "), "{stderr}");
    assert!(stderr.contains("\nverdict  "), "{stderr}");
}

#[test]
fn root_a_report_goes_to_the_file_that_run_names() {
    let Some(_turn) = turn::take() else { return };
    let folder = tempfile::tempdir().expect("a folder for the report");
    let file = folder.path().join("report.json").display().to_string();
    fs::write(&file, "an older one, which is much longer than nothing").expect("it is ours");
    let [stdout, stderr] = printed(&["--format", "json", "--report", &file]);
    assert_eq!(stdout, "from the command");
    assert!(!stderr.contains("schema"), "{stderr}");
    let report = fs::read_to_string(&file).expect("it was written");
    let report: Value = serde_json::from_str(&report).expect("one document and no more");
    assert_eq!(report["schema"], "sockscope.report/2");
}

#[test]
fn root_a_report_on_standard_output_is_alone_there() {
    let Some(_turn) = turn::take() else { return };
    for options in [&["--format", "json"][..], &["--format", "json", "--report", "-"]] {
        let [stdout, stderr] = printed(options);
        let report: Value = serde_json::from_str(&stdout).expect("one document and no more");
        assert_eq!(report["schema"], "sockscope.report/2");
        assert!(stderr.contains("from the command"), "{stderr}");
    }
    let [stdout, stderr] = printed(&["--report", "-"]);
    assert!(stdout.starts_with("sockscope "), "{stdout}");
    assert!(stderr.contains("from the command"), "{stderr}");
}

#[test]
fn root_a_report_that_cannot_be_written_costs_no_run_of_the_command() {
    let Some(_turn) = turn::take() else { return };
    let mut run = sockscope();
    run.args(["run", "--report", "/no/such/folder/report", "--", "echo", "started"]);
    let output = run.output().expect("it starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{stderr}");
    assert!(stderr.contains("cannot create /no/such/folder/report"), "{stderr}");
}

#[test]
fn root_the_segment_size_is_the_one_that_the_ends_agreed_on() {
    let Some(_turn) = turn::take() else { return };
    // Linux's before the peer named its own (TCP_MSS_DEFAULT less options).
    const UNNAMED: u64 = 536;
    let recording = workload_recorded("split_calls.py", &["--calls", "10"]);
    let events = sockscope_says(&["show", &recording.dir().display().to_string()]);
    for direction in [" > ", " < "] {
        let is_its = |line: &&str| line.contains("SendWindow") && line.contains(direction);
        let last = events.lines().rfind(is_its).expect("each end sends");
        let size = last.rsplit_once("mss ").and_then(|(_, size)| size.trim().parse().ok());
        assert!(size > Some(UNNAMED), "{last}");
    }
}

#[test]
fn root_no_more_records_are_kept_than_were_asked_for() {
    let Some(_turn) = turn::take() else { return };
    let folder = tempfile::tempdir().expect("a folder for the bundle");
    let dir = folder.path().join("few.sockscope").display().to_string();
    let command = workload("split_calls.py", &["--calls", "40"]);
    let mut arguments = vec!["record", "--max-records", "100", "-o", &dir, "--"];
    arguments.extend(command.iter().map(String::as_str));
    sockscope_says(&arguments);
    let report = sockscope_says(&["report", &dir, "--format", "json"]);
    let report: Value = serde_json::from_str(&report).expect("one document");
    assert_eq!(report["trace"]["records"], 100);
    assert_eq!(report["trace"]["missed_records"], 0);
    let notes = report["trace"]["notes"].to_string();
    assert!(notes.contains("ended after 100 records"), "{notes}");
}

#[test]
fn root_the_files_of_a_trace_have_no_more_bytes_than_were_asked_for() {
    let Some(_turn) = turn::take() else { return };
    const BYTES: u64 = 2 << 20;
    let folder = tempfile::tempdir().expect("a folder for the bundle");
    for how in ["record", "run"] {
        let dir = folder.path().join(how);
        let calls = workload("rpc.py", &["--calls", "20000"]);
        let mut recorder = sockscope();
        recorder.args([how, "--max-size", "2M", "-o"]).arg(&dir).arg("--").args(&calls);
        let output = recorder.output().expect("it was built");
        let said = stdout_of(&output);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let last = stderr.lines().last().unwrap_or_default();
        assert!(last.contains(", ended by --max-size"), "{stderr}");
        let files = fs::read_dir(&dir).expect("the bundle is there").flatten();
        let bytes: u64 = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
        assert!((BYTES / 2..=BYTES).contains(&bytes), "{bytes} B: {said}");
        let report = sockscope_says(&["report", &dir.display().to_string(), "--format", "json"]);
        let report: Value = serde_json::from_str(&report).expect("one document");
        assert_eq!(report["trace"]["finished"], true, "{}", report["trace"]);
        let notes = report["trace"]["notes"].to_string();
        assert!(notes.contains(" records, as --max-size asks: later records are not"), "{notes}");
    }
}

#[test]
fn root_a_command_that_fails_is_told_with_its_status() {
    let Some(_turn) = turn::take() else { return };
    let folder = tempfile::tempdir().expect("a folder for the bundle");
    let dir = folder.path().join("failed.sockscope").display().to_string();
    for (script, ending) in [("exit 3", "exit status 3"), ("kill -9 $$", "signal 9 (SIGKILL)")] {
        for how in [&["run"][..], &["record", "-o", &dir]] {
            let command = sockscope().args(how).args(["--", "sh", "-c", script]).output();
            let output = command.expect("it was built");
            // That of `record` is of the recording, which is done.
            assert_eq!(output.status.success(), how[0] == "record", "{script}");
            let stderr = String::from_utf8_lossy(&output.stderr);
            // The report of `run`, which is there as well, has a note.
            let told = stderr.lines().filter(|line| line.starts_with("sockscope: the command"));
            let told: Vec<_> = told.collect();
            assert_eq!(told, [format!("sockscope: the command ended with {ending}")], "{stderr}");
        }
    }
}

#[test]
fn root_doctor_finds_every_point_and_measures_it() {
    let Some(_turn) = turn::take() else { return };
    let said = sockscope_says(&["doctor", "--format", "json"]);
    Schema::read("doctor").check(Path::new("doctor"), said.as_bytes());
    let doctor: Value = serde_json::from_str(&said).expect("one document");
    assert_eq!(doctor["can_record"], true, "{}", doctor["problem"]);
    let hooks = doctor["hooks"].as_array().expect("hooks");
    for point in POINTS {
        let of_point = |hook: &&Value| {
            let points = hook["points"].as_array().expect("points");
            points.iter().any(|name| name == point)
        };
        let works = hooks.iter().filter(of_point).any(|hook| hook["works"] == true);
        assert!(works, "{point}: {said}");
    }
    let measured = hooks.iter().filter(|hook| hook["cost_ns_gross"].is_number()).count();
    assert!(measured >= 5, "only {measured} hooks were measured: {said}");
}

#[test]
fn root_the_demonstration_shows_the_stall_and_its_cure() {
    let Some(_turn) = turn::take() else { return };
    let said = sockscope_says(&["demo", "--calls", "10"]);
    let (before, after) = said.split_once("Now the same calls").expect("two runs");
    assert!(before.contains("nagle-delayed-ack") && before.contains("TCP_NODELAY"), "{said}");
    let row = |name| after.lines().find(|line| line.starts_with(name)).expect(name);
    assert!(row("  nagle-delayed-ack").ends_with("disappeared"), "{said}");
    assert!(faster(row("exchange p50")) > 1.0, "{said}");
}

/// How many times as fast as the first run the second one was: the last word of a row, as `329×`.
fn faster(row: &str) -> f64 {
    let ratio = row.split_whitespace().last().expect("words");
    let digits: String = ratio.chars().filter(|it| it.is_ascii_digit() || *it == '.').collect();
    digits.parse().expect(row)
}
