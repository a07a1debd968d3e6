//! `sockscope-view top` on traffic of this machine, as text, as JSON and on a terminal.

#[path = "../../cli/tests/schema/mod.rs"]
mod schema;
mod terminal;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use schema::Schema;
use terminal::Terminal;

fn top(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope-view"));
    command.arg("top").args(arguments).env_remove("COLUMNS").env("NO_COLOR", "1");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether this process may record; if not, the test counts as skipped.
fn may_record(test: &str) -> bool {
    let output = top(&["--port", "1", "--once", "--span", "100ms"]).output().unwrap();
    if output.status.success() {
        return true;
    }
    let reason = text(&output.stderr);
    let required = std::env::var("SOCKSCOPE_LIVE").is_ok_and(|wish| wish == "1");
    assert!(!required, "{reason}");
    // Of a test that passes libtest shows what is written past its capture.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {}", reason.trim_end());
    false
}

/// A program of `tests/workloads`, ended when the test ends.
struct Workload(Child);

impl Workload {
    /// Its server prints a port, its client connects there: both in one process group.
    fn start(script: &str) -> Self {
        let child = Command::new("python3")
            .args(["-u", "-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        Self(child)
    }

    /// Its first line.
    fn port(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        self.end();
    }
}

/// Calls in two writes: Nagle's rule holds the second one until the delayed acknowledgment.
const SPLIT_CALLS: &str = "
import socket, threading
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1])
def serve():
    peer = listener.accept()[0]
    while True:
        got = 0
        while got < 400:
            part = len(peer.recv(400 - got))
            if not part: return
            got += part
        peer.sendall(b'a' * 100)
threading.Thread(target=serve, daemon=True).start()
sock = socket.create_connection(listener.getsockname())
while True:
    sock.sendall(b'h' * 100)
    sock.sendall(b'b' * 300)
    sock.recv(100)
";

/// A message that is never read.
const UNREAD: &str = "
import socket, time
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1])
time.sleep(1.5)
sock = socket.create_connection(listener.getsockname())
peer = listener.accept()[0]
sock.sendall(b'x' * 5000)
time.sleep(60)
";

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn without_a_terminal_the_form_has_to_be_said() {
    let Output { status, stderr, .. } = top(&[]).output().unwrap();
    let expected = "sockscope: standard output is no terminal: give --once or --json\n";
    assert_eq!((text(&stderr).as_str(), status.code()), (expected, Some(2)));
}

#[test]
fn a_process_that_is_not_there_is_one_line() {
    let Output { status, stderr, .. } = top(&["--once", "--pid", "4194999"]).output().unwrap();
    let expected = "sockscope: --pid 4194999: no such process\n";
    assert_eq!((text(&stderr).as_str(), status.code()), (expected, Some(2)));
}

#[test]
fn root_a_stalled_call_is_first_in_the_list() {
    if !may_record("root_a_stalled_call_is_first_in_the_list") {
        return;
    }
    let mut calls = Workload::start(SPLIT_CALLS);
    let port = calls.port();
    let output = top(&["--port", &port, "--once", "--span", "2s"]).output().unwrap();
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut lines = said.lines();
    assert!(lines.next().is_some_and(|line| line.starts_with("1 connection, last 2.")), "{said}");
    let row = lines.nth(1).unwrap_or_default();
    assert!(row.contains("python3") && row.contains("NNN"), "{said}");
    assert!(said.contains("nagle-delayed-ack: "), "{said}");
}

#[test]
fn root_lines_of_json_follow_the_schema_and_age() {
    if !may_record("root_lines_of_json_follow_the_schema_and_age") {
        return;
    }
    let mut unread = Workload::start(UNREAD);
    let port = unread.port();
    let output = top(&["--port", &port, "--json", "--interval", "500ms", "--duration", "4s"]);
    let output = { output }.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let schema = Schema::read("top");
    let mut ages = Vec::new();
    for line in text(&output.stdout).lines() {
        schema.check(&here("--json"), line.as_bytes());
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        for one in line["connections"].as_array().unwrap() {
            if let Some(age_ns) = one["oldest_unread_ns"].as_u64() {
                assert_eq!(one["receive_queue_bytes"], 5_000, "{one}");
                ages.push(age_ns);
            }
        }
    }
    assert!(ages.len() > 1 && ages.is_sorted(), "the message grows older: {ages:?}");
}

#[test]
fn root_the_screen_follows_keys_and_sizes() {
    if !may_record("root_the_screen_follows_keys_and_sizes") {
        return;
    }
    let mut calls = Workload::start(SPLIT_CALLS);
    let port = calls.port();
    let pid = calls.0.id().to_string();
    let mut terminal = Terminal::new(80, 24);
    let before = terminal.settings();
    terminal.start(top(&["--port", &port, "--pid", &pid]));
    terminal.wait_for("the stalled connection", |screen| {
        screen.contains("sockscope top: 1 connection") && screen.contains("NNN")
    });
    terminal.resize(200, 50);
    terminal.wait_for("the column of findings", |screen| screen.contains("nagle-delayed-ack"));
    terminal.keys("\r");
    terminal.wait_for("the path of the connection", |screen| {
        screen.contains("write() 1") && screen.contains("8 read()")
    });
    terminal.keys("\u{1b}");
    terminal.wait_for("the list", |screen| screen.contains("TCP holds"));
    terminal.keys("/process:none\r");
    terminal.wait_for("an empty list", |screen| screen.contains("no connection yet"));
    terminal.keys("\u{1b}");
    terminal.wait_for("all connections", |screen| screen.contains("1 connection,"));
    terminal.keys("2");
    terminal.wait_for("the findings", |screen| screen.contains("nagle-delayed-ack, 1 connection"));
    calls.end();
    terminal.wait_for("the end of the process", |screen| {
        screen.contains(&format!("process {pid} ended"))
    });
    terminal.keys("q");
    assert_eq!(terminal.ended().code(), Some(0));
    assert!(terminal.is_restored(&before), "the terminal is as it was");
}

#[test]
fn root_a_closed_terminal_ends_it() {
    if !may_record("root_a_closed_terminal_ends_it") {
        return;
    }
    let mut terminal = Terminal::new(80, 24);
    terminal.start(top(&["--port", "1"]));
    terminal.wait_for("the first picture", |screen| screen.contains("no connection yet"));
    let mut child = terminal.close();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("it goes on without a terminal");
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(status.code(), Some(0), "{status}");
}
