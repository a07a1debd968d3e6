//! A running recorder has given up its rights, and still records, serves and keeps.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use common::{CALLS, Program, Watch, may_record, watch};
use sockscope_trace::Bundle;

/// The value of a line of each thread's status.
fn of_threads(pid: u32, name: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let value = |thread: &Path| {
        let status = fs::read_to_string(thread.join("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
        line.unwrap().trim().to_owned()
    };
    threads.map(|thread| value(&thread.unwrap().path())).collect()
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn root_a_recorder_cannot_open_a_file_elsewhere_and_goes_on() {
    if !may_record("root_a_recorder_cannot_open_a_file_elsewhere_and_goes_on") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [output, lines, elsewhere] =
        ["watch", "lines", "elsewhere"].map(|it| folder.path().join(it));
    fs::create_dir(&lines).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    let file = lines.join("findings.jsonl");
    let mut calls = Program::start(Command::new("python3").args(["-c", CALLS]));
    let port = calls.port();
    let when = "finding=nagle-delayed-ack > 100ms in 5s";
    let arguments = ["--listen", "127.0.0.1:0", "--when", when, "--after", "500ms", "--findings"];
    let mut recorder = Watch::start(watch(&port, &output, &arguments).arg(&file));
    let line = recorder.wait_for("metrics are at");
    let address = line.split("http://").nth(1).unwrap().trim_end_matches("/metrics").to_owned();
    // The name of the file leads elsewhere now. Root could open it.
    fs::rename(&lines, folder.path().join("moved")).unwrap();
    symlink(&elsewhere, &lines).unwrap();
    calls.begin();
    let refused = recorder.wait_for("are not written: ");
    assert!(refused.contains("Permission denied"), "{refused}");
    assert!(!elsewhere.join("findings.jsonl").exists());
    recorder.wait_for("see it: sockscope report");
    let metrics = get(&address, "/metrics");
    assert!(metrics.contains("finding=\"nagle-delayed-ack\""), "{metrics}");
    let filtered = of_threads(recorder.child.id(), "Seccomp");
    assert!(filtered.len() >= 3 && filtered.iter().all(|mode| mode == "2"), "{filtered:?}");
    let has_no_new = of_threads(recorder.child.id(), "NoNewPrivs");
    assert!(has_no_new.iter().all(|value| value == "1"), "{has_no_new:?}");
    let said = recorder.end();
    assert!(said.contains("1 trace kept, "), "{said}");
    let kept = fs::read_dir(&output).unwrap().next().unwrap().unwrap().path();
    assert!(Bundle::open(&kept).unwrap().meta().complete, "{said}");
}
