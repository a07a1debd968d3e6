//! Situations 1, 23, 24 and 26: people who do not know the program yet.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use super::answer::Answer;
use super::situation::{Situation, When};
use crate::bundle::{checkout, command, sockscope, sockscope_says, stdout_of, words};

#[test]
fn root_situation_01_a_newcomer_asks_doctor_and_demo() {
    let Some(situation) = Situation::live(1, When::InTheSuite, &[]) else { return };
    situation.answer(&Answer::from_text(&sockscope_says(&["doctor"])), |answer| {
        answer.says(&["Recording works here.", "held CAP_BPF"]);
        answer.is_silent_about(&["MISSING"]);
    });
    let demo = sockscope_says(&["demo", "--calls", "10"]);
    // Above the report stands what the demo does.
    let report = demo.find("sockscope 0").unwrap_or_else(|| panic!("no report: {demo}"));
    situation.answer(&Answer::from_text(&demo[report..]), |answer| {
        answer.part_says("verdict", &["nagle-delayed-ack costs most"]);
        answer.part_says("why", &["client (sockscope, pid ", "Nagle's algorithm"]);
        answer.part_says("fix", &["write each message in one call"]);
        answer.is_silent_about(&["nothing wrong", "the path"]);
    });
}

/// The first cell of a researcher's notebook.
const RESEARCH: &str = "
import json, sys
import pyarrow.ipc as ipc
with ipc.open_stream(sys.argv[1] + '/records.arrows') as records:
    table = records.read_all()
with ipc.open_stream(sys.argv[1] + '/flows.arrows') as flows:
    ends = flows.read_all()
print(json.dumps({'records': table.num_rows, 'columns': table.column_names, 'flows': ends.num_rows}))
";

#[test]
fn situation_23_a_researcher_opens_a_bundle_in_pyarrow() {
    let Some(python) = python_with("pyarrow") else {
        crate::turn::skip("no Python here has pyarrow (python3 -m pip install pyarrow)");
        super::situation::write_row(23, &[], "skipped: no pyarrow");
        return;
    };
    let Some(situation) = Situation::offline(23, &[]) else { return };
    let bundle = checkout().join("tests/bundles/v2/calls.sockscope").display().to_string();
    let read = words(&[&python, "-c", RESEARCH, &bundle]);
    let said = stdout_of(&command(&read).output().expect("it is there"));
    let json = sockscope_says(&["report", &bundle, "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&json).expect("one document");
    let facts: serde_json::Value = serde_json::from_str(said.trim()).expect("one document");
    let columns = facts["columns"].as_array().expect("names").iter();
    let columns: Vec<&str> = columns.filter_map(|name| name.as_str()).collect();
    assert!(
        ["at_ns", "flow", "kind", "offset", "len"].iter().all(|name| columns.contains(name)),
        "{columns:?}"
    );
    assert_eq!(facts["records"], report["trace"]["records"]);
    situation.answer(&Answer::from_text(&said), |answer| answer.says(&["records"]));
    let rows = sockscope_says(&["report", &bundle, "--format", "csv-requests"]);
    let requests = report["connections"].as_array().expect("connections").iter();
    let requests: u64 = requests.map(|it| crate::report::count(&it["requests"]["count"])).sum();
    assert_eq!(rows.lines().count() as u64, 1 + requests, "a row for each request: {rows}");
}

/// A Python that has this module; `SOCKSCOPE_PYTHON` can name one.
fn python_with(module: &str) -> Option<String> {
    let given = std::env::var("SOCKSCOPE_PYTHON").ok();
    let pythons = given.into_iter().chain(["python3", "/usr/bin/python3"].map(str::to_owned));
    pythons.into_iter().find(|python| {
        let ask = Command::new(python).args(["-c", &format!("import {module}")]).output();
        ask.is_ok_and(|output| output.status.success())
    })
}

#[test]
fn situation_24_a_person_with_a_capture() {
    let Some(situation) = Situation::offline(24, &[]) else { return };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let bundle = folder.path().join("wire.sockscope");
    let sample = checkout().join("crates/convert/tests/samples/rpc-call.txt");
    let status = sockscope().arg("convert").arg(&sample).arg("-o").arg(&bundle).output();
    stdout_of(&status.expect("it was built"));
    situation.report(&bundle, |answer| {
        answer.says(&["pcap", "verdict"]);
        // It shows packets alone: what happens within the two hosts is unknown, and the report says so.
        answer.part_says("verdict", &["nothing can be said of who waited", "sockscope record"]);
        answer.is_silent_about(&["nothing wrong", "costs most"]);
    });
}

#[test]
fn situation_26_no_rights_and_typing_errors() {
    let Some(situation) = Situation::offline(26, &["setpriv"]) else { return };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let bundle = folder.path().join("never").display().to_string();
    let refused = |output: Output, wanted: &[&str]| {
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(output.stdout.is_empty(), "{said}");
        // A line above may be a note of the bundle.
        assert!((1..=2).contains(&said.lines().count()), "{said}");
        assert!(said.lines().all(|line| line.starts_with("sockscope: ")), "{said}");
        situation.answer(&Answer::from_text(&said), |answer| answer.says(wanted));
    };
    let run = |arguments: &[&str]| sockscope().args(arguments).output().expect("it was built");
    let without_rights = |arguments: &[&str]| {
        let mut nobody = Command::new("setpriv");
        nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]);
        nobody.arg("--bounding-set=-all").arg(env!("CARGO_BIN_EXE_sockscope")).args(arguments);
        nobody.output().expect("it is installed")
    };
    if is_root() {
        let task = ["record", "--port", "80", "-o", &bundle];
        refused(without_rights(&task), &["CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN, CAP_SYS_ADMIN"]);
    }
    refused(
        run(&["record", "--comm", "nosuchprocess", "--duration", "0", "-o", &bundle]),
        &["--duration"],
    );
    let calls = checkout().join("tests/bundles/v2/calls.sockscope").display().to_string();
    refused(run(&["plot", &calls, "--figure", "queue-lenght"]), &["queue-length"]);
    refused(
        run(&["plot", &calls, "--figure", "sequence", "--from", "500"]),
        &["from 0.000000 s to 0.049999 s"],
    );
    refused(run(&["report", &format!("{calls}/meta.json")]), &["a file"]);
    refused(run(&["explain", "slow-servise"]), &["slow-service"]);
    assert!(!Path::new(&bundle).exists(), "a refused recording leaves no bundle");
    let left = fs::read_dir(folder.path()).expect("it is ours").count();
    assert_eq!(left, 0, "a refused recording leaves nothing");
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}
