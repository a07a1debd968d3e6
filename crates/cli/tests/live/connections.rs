//! Connections that begin and end in unusual numbers or ways.

use std::time::Duration;

use crate::background::Background;
use crate::bundle::{Recorder, command, run_once, sockscope_says, whole, words, workload_recorded};
use crate::report::{bytes, count, flow};
use crate::turn;

#[test]
fn root_answers_after_a_half_close_are_followed_to_their_end() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("half_close.py", &["--rounds", "5"]);
    let connections = recording.report.connections();
    assert_eq!(connections.len(), 5, "{}", recording.report.summary());
    for connection in connections {
        assert_eq!(bytes(connection, "client"), 2000);
        assert_eq!(bytes(connection, "server"), 500_000);
    }
}

#[test]
fn root_thousands_of_connections_are_told_apart() {
    let Some(_turn) = turn::take() else { return };
    check_many(&["--connections", "3000"]);
}

#[test]
fn root_hundreds_of_connections_at_a_time_are_told_apart() {
    let Some(_turn) = turn::take() else { return };
    check_many(&["--connections", "1000", "--parallel", "200"]);
}

#[test]
fn root_an_idle_connection_is_nobodys_fault() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("idle.py", &["--rest-s", "0.2"]);
    assert!(recording.report.found().is_empty(), "{}", recording.report.summary());
    assert_eq!(recording.report.bytes_from("client"), 500);
}

/// Writes to itself what it never reads, says so, and goes on for a while.
const STUCK: &str = "
import socket, sys, time
listener = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
client.sendall(bytes(5000))
print(listener.getsockname()[1], flush=True)
print('written', file=sys.stderr, flush=True)
time.sleep(20)
";

#[test]
fn root_what_is_never_read_waits_until_the_recording_ends() {
    let Some(_turn) = turn::take() else { return };
    let recorder = Recorder::start(&["--comm", "python3"], None);
    let mut stuck = command(&words(&["python3", "-c", STUCK]));
    let stuck = Background::start_until(&mut stuck, "-KILL", "written");
    // Nothing more happens on the connection.
    std::thread::sleep(Duration::from_millis(1500));
    let recording = recorder.stop();
    let port = stuck.stop().trim().parse().expect("it says its port");
    let connection = recording.report.connection(port);
    let sent = flow(connection, "client");
    assert_eq!(sent["stages"]["receive_queue"]["resident_bytes"], 5000, "{sent}");
    let total_ns = sent["ledger_total_ns"].as_f64().expect("a flow with data has a ledger");
    let unread_ns = sent["ledger"]["receive_queue.app"].as_f64().map(|share| share * total_ns);
    // It slept for longer than that.
    assert!(unread_ns > Some(1e9), "{sent}");
    assert!(connection["closed_ns"].is_null(), "{connection}");
    let mut buffers = connection["buffers"].as_array().expect("a list").iter();
    let send = buffers.find(|one| one["side"] == "client" && one["buffer"] == "send");
    let granted = send.and_then(|one| one["granted_bytes"].as_u64()).expect("it has a size");
    // What connect() begins with is the second number of tcp_wmem, and grows when it has its answer.
    let wmem = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").expect("procfs is there");
    let at_first = wmem.split_whitespace().nth(1).and_then(|bytes| bytes.parse().ok());
    assert!(granted > at_first.expect("a number"), "{granted}, and {wmem}");
}

/// Each connection by its client's port, with its own bytes.
fn check_many(arguments: &[&str]) {
    let recording = workload_recorded("many_connections.py", arguments);
    let facts = recording.facts();
    let made = facts["client"]["connections"].as_array().expect("facts of each").len();
    assert_eq!(recording.report.connections().len(), made);
    for connection in recording.report.connections() {
        assert_eq!((bytes(connection, "client"), bytes(connection, "server")), (50, 200));
    }
    assert_eq!(recording.report.bytes_from("server"), count(&facts["server"]["written_bytes"]));
}

/// Binds a port, connects to it from it, and reads what it writes.
const TO_ITSELF: &str = "
import socket
own = socket.socket()
own.bind(('127.0.0.1', 0))
own.connect(own.getsockname())
print(own.getsockname()[1])
for _ in range(7):
 own.sendall(bytes(1000))
 left = 1000
 while left: left -= len(own.recv(left))
own.close()
";

#[test]
fn root_a_socket_connected_to_itself_has_one_stream_and_all_its_points() {
    let Some(_turn) = turn::take() else { return };
    let recording = whole(|| run_once(&[], &words(&["python3", "-c", TO_ITSELF])));
    let port = recording.said.trim().parse().expect("it says its port");
    let connection = recording.report.connection(port);
    assert_eq!(connection["client"], connection["server"], "{connection}");
    assert_eq!(connection["both_ends_here"], true, "{connection}");
    let (own, other) = (flow(connection, "client"), flow(connection, "server"));
    assert_eq!((&own["bytes"], &other["bytes"]), (&7000.into(), &0.into()), "{connection}");
    for (stage, seen) in own["stages"].as_object().expect("stages by name") {
        assert_eq!(seen["residue_bytes"], 0, "{stage}: {own}");
    }
    assert_eq!(own["ledger"]["unknown"], 0.0, "{own}");
    assert!(own["acks"]["advancing"].as_u64() > Some(0), "{own}");
    let text = sockscope_says(&["report", &recording.dir().display().to_string()]);
    assert!(text.contains("one socket, connected to itself"), "{text}");
}

/// Sends itself a little at a time, for longer than the test takes; says its port, and that it goes on.
const GOES_ON: &str = "
import socket, sys, threading, time
listener = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
print(listener.getsockname()[1], flush=True)
def read():
 while server.recv(100): pass
threading.Thread(target=read, daemon=True).start()
for n in range(40000):
 client.sendall(bytes(100))
 if n == 1000: print('goes on', file=sys.stderr, flush=True)
 time.sleep(0.0005)
";

/// The probes are detached one after the other, which takes them longer than a byte its way.
#[test]
fn root_a_recording_that_ends_amid_traffic_adds_up() {
    let Some(_turn) = turn::take() else { return };
    let mut port = 0;
    let recording = whole(|| {
        let recorder = Recorder::start(&["--comm", "python3"], None);
        let mut sender = command(&words(&["python3", "-c", GOES_ON]));
        let sender = Background::start_until(&mut sender, "-KILL", "goes on");
        let recording = recorder.stop();
        port = sender.stop().trim().parse().expect("it says its port");
        recording
    });
    let sent = flow(recording.report.connection(port), "client");
    assert!(count(&sent["bytes"]) >= 100_000, "{sent}");
}
