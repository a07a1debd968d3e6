//! Traffic between two network namespaces, over veth, with and without a limit of its rate.

use serde_json::Value;

use crate::background::Background;
use crate::bundle::{Recording, command, facts, run_once, whole, workload};
use crate::hosts::{B_V4, B_V6, Hosts};
use crate::report::{bytes, count, flow, longest_wait_but_for_cpu};
use crate::turn;

/// The server's port.
pub const PORT: u16 = 7000;

#[test]
fn root_calls_between_two_hosts_are_whole() {
    let Some(_turn) = turn::take() else { return };
    let hosts = Hosts::up(&[]);
    for address in [B_V4, B_V6] {
        let (recording, server) = between(&hosts, "rpc.py", address, &[]);
        let client = &recording.facts()["client"];
        let connection = recording.report.connection(PORT);
        assert_eq!(bytes(connection, "client"), count(&client["written_bytes"]));
        assert_eq!(bytes(connection, "server"), count(&server["written_bytes"]));
        let pids = connection["processes"].as_array().expect("processes");
        let pids: Vec<u64> = pids.iter().map(|process| count(&process["pid"])).collect();
        assert!(pids.contains(&count(&client["pid"])), "{pids:?}");
        assert!(pids.contains(&count(&server["pid"])), "{pids:?}");
        assert_no_interface_limit(&recording);
    }
}

#[test]
fn root_a_transfer_between_two_hosts_is_whole() {
    let Some(_turn) = turn::take() else { return };
    let hosts = Hosts::up(&[]);
    let (recording, server) = between(&hosts, "bulk.py", B_V4, &["--bytes", "30000000"]);
    assert_eq!(server["ok"], true);
    assert_eq!(bytes(recording.report.connection(PORT), "client"), 30_000_000);
    assert_no_interface_limit(&recording);
}

#[test]
fn root_a_limited_interface_of_the_client_is_found_there_and_nowhere_else() {
    let Some(_turn) = turn::take() else { return };
    check_limited("client", &[]);
}

#[test]
fn root_a_limited_interface_of_the_server_is_found_there_and_nowhere_else() {
    let Some(_turn) = turn::take() else { return };
    check_limited("server", &["--reverse"]);
}

#[test]
fn root_datagrams_that_an_interface_refuses_are_written_and_no_other_ones_dropped() {
    let Some(_turn) = turn::take() else { return };
    let hosts = Hosts::up(&["--rate", "20mbit", "--limit", "20000"]);
    // Of one length and without a pause: the interface's queue holds some forty of them.
    let amount = ["--burst", "0", "--sleep-ms", "0", "--reader-rcvbuf", "1000000"];
    let (recording, server) = between(&hosts, "udp_flood.py", B_V4, &amount);
    let sent = count(&recording.facts()["client"]["datagrams"]);
    let (read, missing) = (count(&server["datagrams"]), count(&server["missing"]));
    assert!(missing > 0 && read > 40, "the queue refused {missing}, the reader got {read}");
    let report = &recording.report;
    let client = flow(report.connection(PORT), "client");
    let passed = |point| report.records_at(point);
    assert_eq!(passed("SendEnqueue"), sent, "{}", report.summary());
    assert_eq!(passed("InterfaceDequeue"), read);
    assert_eq!(passed("ReceiveDequeue"), read);
    let drops: u64 =
        client["drops"].as_array().expect("drops").iter().map(|one| count(&one["count"])).sum();
    assert_eq!(drops, missing, "{client}");
}

fn check_limited(sender: &str, direction: &[&str]) {
    let hosts = Hosts::up(&["--rate", "50mbit"]);
    let amount = [&["--bytes", "1500000"], direction].concat();
    let (recording, server) = between(&hosts, "bulk.py", B_V4, &amount);
    assert_eq!(server["ok"], true);
    let report = &recording.report;
    let connection = report.connection(PORT);
    let limited = flow(connection, sender);
    assert_eq!(bytes(connection, sender), 1_500_000);
    assert_eq!(longest_wait_but_for_cpu(limited), "interface_queue");

    let findings = report.findings("interface-queue-limited");
    assert_eq!(findings.len(), 1, "{}", report.summary());
    assert_eq!(findings[0]["flow"], limited["id"]);
    assert_eq!(findings[0]["side"], sender);
    // Of its 50 Mbit/s the headers have 4 to 5 %.
    let summary = findings[0]["summary"].as_str().expect("the schema has a summary");
    let rate = summary.split("is the limit, ").nth(1).and_then(|rest| rest.split_once(" Mbit/s"));
    let rate: f64 = rate.and_then(|(rate, _)| rate.parse().ok()).expect(summary);
    assert!((45.0..50.0).contains(&rate), "{summary}");
    // A busy machine may keep the reader from its CPU; nothing else is wrong here.
    let mut others = report.found();
    others.remove("late-wakeup");
    assert_eq!(others, ["interface-queue-limited"].into(), "{}", report.summary());
}

fn assert_no_interface_limit(recording: &Recording) {
    let report = &recording.report;
    assert!(!report.found().contains("interface-queue-limited"), "{}", report.summary());
}

/// Records the workload's client on host `a` while its server runs on host `b`; returns what was
/// recorded and the server's facts.
pub fn between(
    hosts: &Hosts,
    program: &str,
    address: &str,
    arguments: &[&str],
) -> (Recording, Value) {
    let port = PORT.to_string();
    let ends = |role| {
        let place = ["--host", address, "--port", &port, "--role", role];
        workload(program, &[&place[..], arguments].concat())
    };
    let mut said = String::new();
    let recording = whole(|| {
        let mut serve = command(&hosts.on_b(&ends("server")));
        let server = Background::start_until(&mut serve, "-TERM", "listening on");
        let recording = run_once(&[], &hosts.on_a(&ends("client")));
        said = server.ended();
        recording
    });
    let server = facts(&said)["server"].take();
    (recording, server)
}
