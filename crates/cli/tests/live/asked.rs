//! Which connections are logged: asked for by the program, by the packet, by the operator.

use std::fs;

use crate::background::{Background, free_port};
use crate::bundle::{
    Recorder, Recording, command, facts, run_once, sockscope_says, stdout_of, whole, words,
    workload, workload_recorded,
};
use crate::hosts::{B_V4, Hosts};
use crate::report::{Report, bytes, count};
use crate::turn;

#[test]
fn root_so_log_logs_the_connection_that_asked_and_no_other() {
    let Some(_turn) = turn::take() else { return };
    let mut said = String::new();
    let recording = whole(|| {
        let recorder = Recorder::start(&[], None);
        said = run(&workload("so_log.py", &[]));
        recorder.stop()
    });
    let client = &facts(&said)["client"];
    assert_eq!(client["so_log"], "granted");
    let connections = recording.report.connections();
    assert_eq!(connections.len(), 1, "{}", recording.report.summary());
    // The program that connected is the client, though it asked only then.
    let port = u16::try_from(count(&client["logged_port"])).expect("a port");
    assert_eq!(recording.report.at_port("client", port).len(), 1, "{}", recording.report.summary());
    for end in ["client", "server"] {
        assert_eq!(bytes(&connections[0], end), 50_000);
    }
}

/// The probes have found by then that neither connection is logged, and know it.
#[test]
fn root_so_log_logs_a_connection_that_has_long_carried_data() {
    let Some(_turn) = turn::take() else { return };
    let recording = whole(|| {
        let recorder = Recorder::start(&[], None);
        let said = run(&workload("so_log.py", &["--calls-before", "50"]));
        assert_eq!(facts(&said)["client"]["so_log"], "granted");
        recorder.stop()
    });
    let connections = recording.report.connections();
    assert_eq!(connections.len(), 1, "{}", recording.report.summary());
    for end in ["client", "server"] {
        assert_eq!(bytes(&connections[0], end), 50_000, "100 calls of 500 bytes since it asked");
    }
}

#[test]
fn root_every_recorder_sees_the_connection_that_asked() {
    let Some(_turn) = turn::take() else { return };
    let mut said = String::new();
    let mut other = None;
    let recording = whole(|| {
        let recorders = [Recorder::start(&[], None), Recorder::start(&[], None)];
        said = run(&workload("so_log.py", &[]));
        let [first, second] = recorders.map(Recorder::stop);
        other = Some(second);
        first
    });
    assert_eq!(facts(&said)["client"]["so_log"], "granted");
    for recording in [&recording, &other.expect("made above")] {
        let connections = recording.report.connections();
        assert_eq!(connections.len(), 1, "{}", recording.report.summary());
        assert_eq!(bytes(&connections[0], "client"), 50_000);
    }
}

#[test]
fn root_so_log_is_refused_while_nothing_records() {
    let Some(_turn) = turn::take() else { return };
    let said = run(&workload("so_log.py", &["--calls", "5"]));
    assert_eq!(facts(&said)["client"]["so_log"], "ENOPROTOOPT");
}

/// All sockets of a command are recorded, and no other program's.
#[test]
fn root_a_recording_of_a_command_refuses_so_log_and_has_both_connections() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("so_log.py", &["--calls", "5"]);
    assert_eq!(recording.facts()["client"]["so_log"], "ENOPROTOOPT");
    let connections = recording.report.connections();
    assert_eq!(connections.len(), 2, "{}", recording.report.summary());
    for connection in connections {
        assert_eq!(bytes(connection, "client"), 2_500);
    }
}

#[test]
fn root_in_band_starts_the_recorder_of_the_receiving_host() {
    let Some(_turn) = turn::take() else { return };
    let hosts = Hosts::up(&[]);
    let mut received = None;
    let sent = whole(|| {
        let recorder = Recorder::start(&["--in-band"], Some(&hosts));
        let sent = calls_between(&hosts, &["--in-band"]);
        let recording = recorder.stop();
        // One machine made both: what one could not see the other could not either.
        received = Some(recording);
        sent
    });
    let received = received.expect("made above");
    let written = count(&sent.facts()["client"]["written_bytes"]);
    for recording in [&sent, &received] {
        let connections = recording.report.connections();
        assert_eq!(connections.len(), 1, "{}", recording.report.summary());
        assert_eq!(bytes(&connections[0], "client"), written);
        assert_eq!(bytes(&connections[0], "server"), written);
    }
    assert_eq!(received.report.gaps(), Vec::<String>::new());
}

#[test]
fn root_in_band_leaves_unmarked_connections_alone() {
    let Some(_turn) = turn::take() else { return };
    let hosts = Hosts::up(&[]);
    let recorder = Recorder::start(&["--in-band"], Some(&hosts));
    // Recorded, but without the mark.
    let unmarked = calls_between(&hosts, &[]);
    assert_eq!(unmarked.report.connections().len(), 1);
    assert!(recorder.stop().report.connections().is_empty());
}

#[test]
fn root_a_port_picks_its_connections_and_no_others() {
    let Some(_turn) = turn::take() else { return };
    let (picked, other) = (free_port().to_string(), free_port().to_string());
    let recording = whole(|| {
        let recorder = Recorder::start(&["--port", &picked], None);
        for port in [&picked, &other] {
            run(&workload("rpc.py", &["--calls", "20", "--port", port]));
        }
        recorder.stop()
    });
    assert_only(&recording.report, &picked);
}

#[test]
fn root_an_address_picks_its_connections_and_no_others() {
    let Some(_turn) = turn::take() else { return };
    let recording = whole(|| {
        let recorder = Recorder::start(&["--addr", "::1"], None);
        for host in ["127.0.0.1", "::1"] {
            run(&workload("rpc.py", &["--calls", "20", "--host", host]));
        }
        recorder.stop()
    });
    let connections = recording.report.connections();
    assert_eq!(connections.len(), 1, "{}", recording.report.summary());
    assert!(connections[0]["server"].as_str().is_some_and(|server| server.starts_with("[::1]")));
}

#[test]
fn root_a_connection_made_before_the_recorder_is_joined() {
    let Some(_turn) = turn::take() else { return };
    let port = free_port().to_string();
    const ALL: u64 = 3_000_000;
    const BEFORE: u64 = 1_000_000;
    let recording = whole(|| {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let go_on = folder.path().join("go-on");
        let until = go_on.display().to_string();
        let halting = ["--halt-at", &BEFORE.to_string(), "--until", &until];
        let amount = ["--bytes", &ALL.to_string(), "--write-bytes", "50000", "--port", &port];
        let mut transfer = command(&workload("bulk.py", &[&amount[..], &halting[..]].concat()));
        let transfer = Background::start_until(&mut transfer, "-TERM", "halted");
        let recorder = Recorder::start(&["--port", &port], None);
        fs::write(&go_on, "").expect("the folder is there");
        let said = facts(&transfer.ended());
        assert_eq!(said["server"]["ok"], true, "{said}");
        recorder.stop()
    });
    assert_only(&recording.report, &port);
    let connection = &recording.report.connections()[0];
    let seen = bytes(connection, "client");
    assert!((ALL - BEFORE..ALL).contains(&seen), "{seen}");
    assert_eq!(bytes(connection, "server"), 32);
}

fn assert_only(report: &Report, port: &str) {
    let port = port.parse().expect("a port");
    assert_eq!(report.connections().len(), 1, "{}", report.summary());
    assert_eq!(report.at_port("server", port).len(), 1, "{}", report.summary());
}

/// Remote calls from host `a` to host `b`, the client recorded with `options`.
fn calls_between(hosts: &Hosts, options: &[&str]) -> Recording {
    let end = |role| {
        let port = "7000";
        workload("rpc.py", &["--calls", "40", "--host", B_V4, "--port", port, "--role", role])
    };
    let mut serve = command(&hosts.on_b(&end("server")));
    let server = Background::start_until(&mut serve, "-TERM", "listening on");
    let recording = run_once(options, &hosts.on_a(&end("client")));
    server.ended();
    recording
}

/// Runs a program to its good end; returns what it printed.
fn run(words: &[String]) -> String {
    stdout_of(&command(words).output().expect("it is there"))
}

/// Calls of 300 bytes, of which the process named `answers` has the server's socket alone.
const CALLS: &str = "
import os, socket, sys, time
def name(comm): open('/proc/self/comm', 'w').write(comm)
listener = socket.create_server(('127.0.0.1', 0))
if os.fork() == 0:
 name('asks')
 client = socket.create_connection(listener.getsockname())
 for n in range(4000):
  client.sendall(bytes(300))
  client.recv(300, socket.MSG_WAITALL)
  time.sleep(0.005)
 os._exit(0)
name('answers')
server, _ = listener.accept()
for n in range(4000):
 server.sendall(server.recv(300, socket.MSG_WAITALL))
 if n == 10: print('goes on', file=sys.stderr, flush=True)
";

/// The kernel counts a SYN among the bytes acknowledged where the socket connected, and only there.
#[test]
fn root_positions_of_a_joined_server_count_its_bytes_and_no_syn() {
    let Some(_turn) = turn::take() else { return };
    let mut calls = command(&words(&["python3", "-c", CALLS]));
    let calls = Background::start_until(&mut calls, "-KILL", "goes on");
    let recorder = Recorder::start(&["--comm", "answers"], None);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let recording = recorder.stop();
    calls.stop();
    let dir = recording.dir().display().to_string();
    let said = sockscope_says(&["show", &dir, "--flow", "3"]);
    let written = said.lines().filter(|line| line.contains("SendEnqueue"));
    let starts = written.filter_map(|line| line.split(['[', ',']).nth(1)?.parse::<u64>().ok());
    let starts: Vec<u64> = starts.collect();
    assert!(!starts.is_empty(), "{said}");
    assert!(starts.iter().all(|start| start % 300 == 0), "{starts:?}");
}

/// The most ports and addresses that can be picked, at once with all else that can: the kernel checks the
/// probes with all of these, and no connection that one kind of pick excludes is logged.
#[test]
fn root_many_picks_of_all_kinds_at_once_load() {
    let Some(_turn) = turn::take() else { return };
    let own_pid = std::process::id().to_string();
    let many = many_picks();
    let many = || many.iter().map(String::as_str);
    for picks in [["--pid", &own_pid, "--in-band"].as_slice(), &["--comm", "nobody", "--in-band"]] {
        let picks: Vec<_> = many().chain(picks.iter().copied()).collect();
        let recording = Recorder::start(&picks, None).stop();
        assert!(recording.report.connections().is_empty(), "{}", recording.report.summary());
    }
    let both = ["--pid", &own_pid, "--comm", "nobody", "--in-band"];
    Recorder::start(&many().chain(both).collect::<Vec<_>>(), None).stop();
    let picks: Vec<_> = many().chain(["--in-band"]).collect();
    run_once(&picks, &words(&["true"]));
}

fn many_picks() -> Vec<String> {
    let ports = (1..=16).flat_map(|port| ["--port".to_owned(), port.to_string()]);
    let addresses = (1..=4).flat_map(|host| [format!("127.0.0.{host}"), format!("fd83::{host}")]);
    ports.chain(addresses.flat_map(|address| ["--addr".to_owned(), address])).collect()
}
