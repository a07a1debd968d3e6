//! Connections that are opened anew for each request.

use crate::bundle::{Recording, workload_recorded};
use crate::link;
use crate::report::text;
use crate::turn;

/// Over a link on which a handshake takes as long as a request.
fn over_a_link(arguments: &[&str]) -> Recording {
    link::recorded(&["--delay-ms", "5"], "many_connections.py", arguments).0
}

#[test]
fn root_a_connection_for_each_request_is_one_finding_and_the_verdict() {
    let Some(_turn) = turn::take() else { return };
    let recording = over_a_link(&["--connections", "60", "--closer", "client"]);
    let report = &recording.report;
    let found = report.findings("connection-churn");
    assert_eq!(found.len(), 1, "{}", report.summary());
    let finding = found[0];
    assert_eq!((&finding["side"], &finding["count"]), (&"client".into(), &59.into()), "{finding}");
    let pid = format!("pid {}", recording.facts()["client"]["pid"]);
    assert!(text(&finding["summary"]).contains(&pid), "{finding}");
    assert!(text(&finding["summary"]).contains("for 1 request each"), "{finding}");
    let verdict = recording.line("verdict");
    assert!(verdict.contains("connection-churn costs most"), "{verdict}");
}

#[test]
fn root_where_the_server_closes_first_the_finding_says_so() {
    let Some(_turn) = turn::take() else { return };
    let recording = over_a_link(&["--connections", "30", "--closer", "server"]);
    let found = recording.report.findings("connection-churn");
    assert_eq!(found.len(), 1, "{}", recording.report.summary());
    let finding = found[0];
    assert_eq!((&finding["side"], &finding["count"]), (&"server".into(), &29.into()), "{finding}");
    assert!(text(&finding["fix"]).contains("closes first"), "{finding}");
}

#[test]
fn root_connections_that_are_open_at_once_are_a_pool() {
    let Some(_turn) = turn::take() else { return };
    let recording = over_a_link(&["--connections", "40", "--parallel", "40"]);
    let report = &recording.report;
    assert!(report.findings("connection-churn").is_empty(), "{}", report.summary());
}

#[test]
fn root_connections_that_carry_many_requests_are_kept() {
    let Some(_turn) = turn::take() else { return };
    let recording =
        workload_recorded("many_connections.py", &["--connections", "50", "--questions", "20"]);
    let report = &recording.report;
    assert!(report.findings("connection-churn").is_empty(), "{}", report.summary());
}
