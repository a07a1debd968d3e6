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
    assert!(!recording.report.found().contains("corked"), "each body ends its hold");
}

#[test]
fn root_a_forgotten_cork_is_found_with_each_call_that_waits_for_the_timer() {
    let Some(_turn) = turn::take() else { return };
    let forgotten = [
        ("--cork=left", "TCP_CORK", "set TCP_CORK to 0"),
        ("--more-left", "MSG_MORE", "leave MSG_MORE"),
    ];
    for (how, option, cure) in forgotten {
        let recording = workload_recorded("split_calls.py", &["--calls", "8", how]);
        let findings = recording.report.findings("corked");
        assert_eq!(findings.len(), 1, "{how}: {}", recording.report.summary());
        let finding = findings[0];
        assert!(count(&finding["count"]).abs_diff(8) <= 1, "{finding}");
        assert_eq!(finding["side"], "client");
        let summary = text(&finding["summary"]);
        assert!(summary.contains(&format!(": {option} held them until TCP's timer")), "{summary}");
        assert!(text(&finding["fix"]).contains(cure), "{finding}");
    }
}

#[test]
fn root_no_cork_is_found_in_calls_that_uncork_or_end_what_they_began() {
    let Some(_turn) = turn::take() else { return };
    for how in ["--cork=each", "--more"] {
        assert_silent(&calls(&[how]));
    }
}

#[test]
fn root_a_program_that_uncorks_late_is_told_so() {
    let Some(_turn) = turn::take() else { return };
    let late = ["--calls", "8", "--cork", "each", "--uncork-after-ms", "50"];
    let recording = workload_recorded("split_calls.py", &late);
    let findings = recording.report.findings("corked");
    assert_eq!(findings.len(), 1, "{}", recording.report.summary());
    assert!(count(&findings[0]["count"]).abs_diff(8) <= 1, "{}", findings[0]);
    let summary = text(&findings[0]["summary"]);
    assert!(summary.contains("until the client uncorked"), "{summary}");
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
    let about_writes =
        ["nagle-delayed-ack", "split-message", "small-writes", "delayed-ack-wait", "corked"];
    let wrong: BTreeSet<_> = about_writes.iter().filter(|id| found.contains(*id)).collect();
    assert!(wrong.is_empty(), "{}", recording.report.summary());
}
