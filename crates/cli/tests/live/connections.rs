//! Connections that begin and end in unusual numbers or ways.

use crate::bundle::workload_recorded;
use crate::report::{bytes, count};
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
