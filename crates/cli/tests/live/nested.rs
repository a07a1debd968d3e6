//! Requests that wait for other requests: whose the time is, and who waits for whom.

use serde_json::Value;

use crate::bundle::{sockscope_says, workload_recorded};
use crate::report::{count, text};
use crate::turn;

#[test]
fn root_the_time_of_a_chain_is_that_of_the_last_server() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("nested.py", &["chain"]);
    let (facts, report) = (recording.facts(), &recording.report);
    let slow = report.findings("slow-service");
    assert_eq!(slow.len(), 1, "{}", report.summary());
    assert!(text(&slow[0]["summary"]).contains(&pid(&facts, "stores")), "{}", slow[0]);
    let waits = report.findings("upstream-wait");
    assert_eq!(waits.len(), 2, "{}", report.summary());
    for finding in waits {
        let summary = text(&finding["summary"]);
        assert!(summary.contains(&pid(&facts, "stores")), "{finding}");
        assert!(summary.contains("by the same thread"), "{finding}");
    }
    let tree = report.slowest_nested();
    let names = [tree, &tree["nested"][0], &tree["nested"][0]["nested"][0]];
    assert_eq!(
        names.map(|branch| text(&branch["comm"])),
        ["proxies", "serves", "stores"],
        "{tree}"
    );
    assert_eq!(verdict(&recording.dir().display().to_string()), "slow-service:");
}

#[test]
fn root_many_requests_for_one_are_the_cause_of_who_makes_them() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("nested.py", &["queries"]);
    let (facts, report) = (recording.facts(), &recording.report);
    let found = report.findings("n-plus-one");
    assert_eq!(found.len(), 1, "{}", report.summary());
    let summary = text(&found[0]["summary"]);
    assert!(summary.contains(&pid(&facts, "serves")) && summary.contains(" 60 times"), "{summary}");
    assert_eq!(verdict(&recording.dir().display().to_string()), "n-plus-one");
    let branch = &report.slowest_nested()["nested"][0]["nested"][0];
    assert_eq!(count(&branch["count"]), 60, "{branch}");
}

#[test]
fn root_one_request_for_many_answers_is_silent() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("nested.py", &["queries", "--batch"]);
    let report = &recording.report;
    assert!(report.findings("n-plus-one").is_empty(), "{}", report.summary());
    assert_eq!(report.findings("upstream-wait").len(), 2, "{}", report.summary());
}

#[test]
fn root_the_client_that_a_single_thread_serves_while_others_wait_is_named() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("nested.py", &["loop"]);
    let (facts, report) = (recording.facts(), &recording.report);
    let found = report.findings("head-of-line");
    assert_eq!(found.len(), 1, "{}", report.summary());
    assert_eq!(found[0]["count"], facts["late"], "{}", found[0]);
    let port = u16::try_from(count(&facts["holder_port"])).expect("a port");
    let holder = &report.connection(port)["id"];
    let named = format!("on connection {holder},");
    assert!(text(&found[0]["summary"]).contains(&named), "{}", found[0]);
    assert!(report.findings("slow-service").is_empty(), "{}", report.summary());
    assert_eq!(verdict(&recording.dir().display().to_string()), "head-of-line");
}

#[test]
fn root_clients_with_a_thread_each_wait_for_no_other() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("nested.py", &["loop", "--threads"]);
    let report = &recording.report;
    assert!(report.findings("head-of-line").is_empty(), "{}", report.summary());
    assert_eq!(report.findings("slow-service").len(), 1, "{}", report.summary());
}

/// As `pid 4711`, of a program of the workload.
fn pid(facts: &Value, name: &str) -> String {
    format!("pid {})", facts[name]["pid"])
}

/// The first word of the verdict.
fn verdict(dir: &str) -> String {
    let said = sockscope_says(&["report", dir]);
    let line = said.lines().find_map(|line| line.strip_prefix("verdict  "));
    let word = line.and_then(|line| line.split(' ').next());
    word.unwrap_or_else(|| panic!("no verdict: {said}")).to_owned()
}
