//! The stalled call: two writes, Nagle's algorithm, a delayed acknowledgment.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::bundle::{Recording, workload_recorded};
use crate::report::{bytes, count, flow, longest_wait, text};
use crate::turn;

const CALLS: u64 = 200;

#[test]
fn root_each_stalled_call_is_counted_and_its_side_and_fix_named() {
    let Some(_turn) = turn::take() else { return };
    let recording = calls(&[]);
    let facts = recording.facts();
    let connection = &recording.report.connections()[0];
    let findings = recording.report.findings("nagle-delayed-ack");
    assert_eq!(findings.len(), 1, "{}", recording.report.summary());
    let finding = findings[0];

    let stalled = count(&facts["client"]["calls_over_20ms"]);
    assert!(stalled > CALLS / 2, "the workload did not stall here: {facts}");
    assert!(count(&finding["count"]).abs_diff(stalled) <= 2, "{stalled} stalled: {finding}");
    assert_eq!(finding["side"], "client");
    assert_eq!(finding["flow"], flow(connection, "client")["id"]);
    let fix = text(&finding["fix"]);
    assert!(fix.contains("TCP_NODELAY") && fix.contains("one call"), "{fix}");
    assert!(fix.contains(&facts["client"]["pid"].to_string()), "{fix}");
    assert!(!finding["evidence"].as_array().expect("evidence").is_empty());
    assert_eq!(longest_wait(flow(connection, "client")), "send_queue.nagle");
    assert_eq!(recording.report.findings("split-message").len(), 1);
}

#[test]
fn root_no_stall_is_found_with_tcp_nodelay() {
    let Some(_turn) = turn::take() else { return };
    assert_silent(&calls(&["--nodelay"]));
}

#[test]
fn root_no_stall_is_found_with_one_write() {
    let Some(_turn) = turn::take() else { return };
    assert_silent(&calls(&["--one-write"]));
}

#[test]
fn root_no_stall_is_found_in_calls_that_write_once_by_themselves() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("rpc.py", &[]);
    assert_quiet_about_writes(&recording);
    let said = recording.facts();
    let connection = &recording.report.connections()[0];
    for (end, facts) in [("client", &said["client"]), ("server", &said["server"])] {
        assert_eq!(bytes(connection, end), count(&facts["written_bytes"]));
    }
}

#[test]
fn root_what_msg_more_holds_back_is_corked() {
    let Some(_turn) = turn::take() else { return };
    let recording = calls(&["--more", "--pause-ms", "5"]);
    let client = flow(&recording.report.connections()[0], "client");
    assert_eq!(longest_wait(client), "send_queue.cork", "{}", recording.report.summary());
    assert_eq!(client["ledger"]["send_queue.nagle"], Value::from(0.0));
    assert!(!recording.report.found().contains("nagle-delayed-ack"));
}

/// 200 calls of 100 + 300 bytes, answered by 100, recorded whole.
fn calls(arguments: &[&str]) -> Recording {
    let recording = workload_recorded("split_calls.py", arguments);
    let connections = recording.report.connections();
    assert_eq!(connections.len(), 1, "{}", recording.report.summary());
    assert_eq!(bytes(&connections[0], "client"), CALLS * 400);
    assert_eq!(bytes(&connections[0], "server"), CALLS * 100);
    recording
}

fn assert_silent(recording: &Recording) {
    assert_quiet_about_writes(recording);
    let client = flow(&recording.report.connections()[0], "client");
    assert_eq!(client["ledger"]["send_queue.nagle"], Value::from(0.0));
}

fn assert_quiet_about_writes(recording: &Recording) {
    let found = recording.report.found();
    let about_writes = ["nagle-delayed-ack", "split-message", "small-writes", "delayed-ack-wait"];
    let wrong: BTreeSet<_> = about_writes.iter().filter(|id| found.contains(*id)).collect();
    assert!(wrong.is_empty(), "{}", recording.report.summary());
}
