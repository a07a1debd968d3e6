//! Readers that are late, and why: they do something else, or have no CPU.

use serde_json::Value;

use crate::bundle::{run_once, whole, words, workload_recorded};
use crate::report::{bytes, count, flow, longest_wait, text};
use crate::turn;

#[test]
fn root_a_reader_that_sleeps_is_slow_and_not_late() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("slow_reader.py", &["--bytes", "1000000"]);
    let report = &recording.report;
    assert_eq!(report.found(), ["slow-reader"].into(), "{}", report.summary());
    let finding = report.findings("slow-reader")[0];
    assert_eq!(finding["side"], "server");
    let connection = &report.connections()[0];
    assert_eq!(bytes(connection, "client"), 1_000_000);
    assert_eq!(longest_wait(flow(connection, "client")), "receive_queue.app");
}

#[test]
fn root_a_reader_beside_a_hog_is_late_and_not_slow() {
    let Some(_turn) = turn::take() else { return };
    // A late reader acknowledges late: without the option Nagle's algorithm would hold the next message.
    let recording = workload_recorded("hog_reader.py", &["--nodelay"]);
    let report = &recording.report;
    assert!(report.found().contains("late-wakeup"), "{}", report.summary());
    assert!(!report.found().contains("slow-reader"), "{}", report.summary());
    assert_eq!(report.findings("late-wakeup")[0]["side"], "server");
    let connection = &report.connections()[0];
    assert_eq!(bytes(connection, "client"), 300_000);
    assert_eq!(longest_wait(flow(connection, "client")), "receive_queue.wakeup");
}

/// A server shares its CPU with two processes that never sleep, and has 80 connections of three calls each.
const SHORT_CONNECTIONS: &str = "
import os, socket, sys
listener = socket.create_server(('127.0.0.1', 0))
address = listener.getsockname()
first, last = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))
children = []
def start(work, cpu, nice):
    child = os.fork()
    if child:
        children.append(child)
        return
    os.sched_setaffinity(0, {cpu})
    os.nice(nice)
    work()
    os._exit(0)
def hog():
    while True:
        pass
def serve():
    while True:
        with listener.accept()[0] as connection:
            while connection.recv(100):
                connection.sendall(b'y' * 100)
for _ in range(2):
    start(hog, first, 0)
start(serve, first, 5)
os.sched_setaffinity(0, {last})
for _ in range(320):
    with socket.create_connection(address) as connection:
        for _ in range(3):
            connection.sendall(b'x' * 50)
            connection.recv(100)
for child in children:
    os.kill(child, 9)
";

#[test]
fn root_late_reads_of_many_connections_are_one_cause() {
    let Some(_turn) = turn::take() else { return };
    let recording = whole(|| run_once(&[], &words(&["python3", "-c", SHORT_CONNECTIONS])));
    let report = &recording.report;
    let late = report.findings("late-wakeup");
    let of_server: Vec<_> = late.iter().filter(|finding| finding["side"] == "server").collect();
    assert_eq!(of_server.len(), 1, "{}", report.summary());
    assert!(count(&of_server[0]["count"]) >= 5, "{}", of_server[0]);
    assert!(text(&of_server[0]["summary"]).contains("connections"), "{}", of_server[0]);
    let cost = |finding: &Value| count(&finding["cost_ns"]);
    let connections = report.connections().iter();
    let findings = connections.flat_map(|one| one["findings"].as_array().into_iter().flatten());
    let most = findings.max_by_key(|finding| cost(finding)).expect("a finding");
    assert_eq!(most["id"], "late-wakeup", "{}", report.summary());
}

/// Each of ten messages is looked at, then read in two parts.
const PEEKS: &str = "
import socket
listener = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
for _ in range(10):
    client.sendall(b'x' * 500)
    server.recv(1000, socket.MSG_PEEK)
    server.recv(300)
    server.recv(300)
";

#[test]
fn root_a_peek_is_no_read() {
    let Some(_turn) = turn::take() else { return };
    let recording = whole(|| run_once(&["--calls"], &words(&["python3", "-c", PEEKS])));
    let reads = &flow(&recording.report.connections()[0], "client")["read_bytes"];
    assert_eq!(reads["count"], 20, "{reads}");
    assert_eq!((&reads["min"], &reads["max"]), (&200.into(), &300.into()), "{reads}");
}
