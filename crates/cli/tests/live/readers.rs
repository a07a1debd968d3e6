//! Readers that are late, and why: they do something else, or have no CPU.

use crate::bundle::{run_once, whole, words, workload_recorded};
use crate::report::{bytes, flow, longest_wait};
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
