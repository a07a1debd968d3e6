//! What a host does not take, by the kernel's own reason.

use crate::bundle::{Recording, run_once, workload, workload_recorded};
use crate::report::{count, text};
use crate::turn;

/// Records traffic of which its host takes nothing, so that the records cannot add up.
fn untaken(arguments: &[&str]) -> Recording {
    run_once(&[], &workload("turned_away.py", arguments))
}

#[test]
fn root_a_full_accept_queue_is_the_servers() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("turned_away.py", &["queue", "--backlog", "1"]);
    let (facts, report) = (recording.facts(), &recording.report);
    let late = count(&facts["late"]);
    assert!(late > 0, "the queue took all: {facts}");
    let found = report.findings("accept-queue-full");
    assert_eq!(found.len() as u64, late, "{}", report.summary());
    assert!(report.findings("retransmission").is_empty(), "{}", report.summary());
    assert!(report.findings("slow-accept").is_empty(), "{}", report.summary());
    for finding in found {
        assert_eq!(finding["side"], "server", "{finding}");
        let pid = format!("pid {}", facts["server_pid"]);
        assert!(text(&finding["summary"]).contains(&pid), "{finding}");
    }
}

#[test]
fn root_connections_that_wait_for_accept_are_the_servers() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("turned_away.py", &["queue", "--backlog", "64"]);
    let (facts, report) = (recording.facts(), &recording.report);
    assert_eq!(facts["late"], 0);
    assert_eq!(report.found(), ["slow-accept"].into(), "{}", report.summary());
    let finding = report.findings("slow-accept")[0];
    assert_eq!((&finding["side"], &finding["count"]), (&"server".into(), &facts["answered"]));
    let pid = format!("pid {}", facts["server_pid"]);
    assert!(text(&finding["summary"]).contains(&pid), "{finding}");
}

#[test]
fn root_a_server_that_accepts_at_once_is_silent() {
    let Some(_turn) = turn::take() else { return };
    let queue = ["queue", "--backlog", "64", "--away-ms", "0"];
    let recording = workload_recorded("turned_away.py", &queue);
    let report = &recording.report;
    assert!(recording.facts()["answered"] != 0, "{}", report.summary());
    assert!(report.found().is_empty(), "{}", report.summary());
}

#[test]
fn root_a_syn_that_a_filter_drops_has_the_filters_reason() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("turned_away.py", &["filter"]);
    let report = &recording.report;
    assert_eq!(report.found(), ["syn-dropped"].into(), "{}", report.summary());
    let finding = report.findings("syn-dropped")[0];
    assert_eq!((&finding["side"], &finding["count"]), (&"server".into(), &1.into()), "{finding}");
    assert!(text(&finding["summary"]).contains("SOCKET_FILTER"), "{finding}");
    assert!(text(&finding["fix"]).contains("SO_ATTACH_FILTER"), "{finding}");
}

#[test]
fn root_a_filter_that_accepts_is_silent() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("turned_away.py", &["filter", "--accept-all"]);
    let report = &recording.report;
    assert!(report.findings("syn-dropped").is_empty(), "{}", report.summary());
}

#[test]
fn root_a_connection_that_no_program_listens_for_is_refused() {
    let Some(_turn) = turn::take() else { return };
    let recording = untaken(&["refused"]);
    let report = &recording.report;
    assert_eq!(report.found(), ["connection-refused"].into(), "{}", report.summary());
    let found = report.findings("connection-refused");
    assert_eq!(found.len() as u64, count(&recording.facts()["refusals"]), "{}", report.summary());
    for finding in found {
        assert!(text(&finding["summary"]).ends_with("no program listens there."), "{finding}");
    }
}

#[test]
fn root_a_program_that_is_served_at_last_was_not_refused() {
    let Some(_turn) = turn::take() else { return };
    let recording = untaken(&["refused", "--then-served"]);
    let report = &recording.report;
    assert!(report.findings("connection-refused").is_empty(), "{}", report.summary());
}

#[test]
fn root_a_socket_closed_with_data_unread_is_the_closers() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("turned_away.py", &["unread"]);
    let (facts, report) = (recording.facts(), &recording.report);
    assert_eq!(facts["ended_by"], "reset", "{facts}");
    let found = report.findings("reset-unread");
    assert_eq!(found.len(), 1, "{}", report.summary());
    assert_eq!(found[0]["side"], "server", "{}", found[0]);
    assert!(text(&found[0]["summary"]).contains("990 bytes unread"), "{}", found[0]);
}

#[test]
fn root_a_socket_closed_with_all_read_resets_nothing() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("turned_away.py", &["unread", "--read-all"]);
    assert_eq!(recording.facts()["ended_by"], "end of stream");
    let report = &recording.report;
    assert!(report.findings("reset-unread").is_empty(), "{}", report.summary());
}

#[test]
fn root_datagrams_that_no_socket_takes_are_refused() {
    let Some(_turn) = turn::take() else { return };
    let recording = untaken(&["datagrams"]);
    let report = &recording.report;
    assert_eq!(report.found(), ["udp-refused"].into(), "{}", report.summary());
    assert_eq!(report.findings("udp-refused")[0]["count"], recording.facts()["sent"]);
}

#[test]
fn root_datagrams_that_a_filter_drops_have_the_filters_reason() {
    let Some(_turn) = turn::take() else { return };
    let recording = untaken(&["datagrams", "--filter"]);
    let report = &recording.report;
    assert_eq!(report.found(), ["udp-dropped"].into(), "{}", report.summary());
    let finding = report.findings("udp-dropped")[0];
    assert_eq!(finding["count"], recording.facts()["sent"], "{finding}");
    assert!(text(&finding["summary"]).contains("SOCKET_FILTER"), "{finding}");
}

#[test]
fn root_datagrams_that_are_taken_are_neither() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("turned_away.py", &["datagrams", "--taken"]);
    let report = &recording.report;
    let found = report.found();
    assert!(!found.contains("udp-refused") && !found.contains("udp-dropped"), "{found:?}");
}
