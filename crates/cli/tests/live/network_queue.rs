//! Queues in the network, before a slow link.

use crate::link;
use crate::report::count;
use crate::turn;

#[test]
fn root_a_queue_before_a_slow_link_is_the_networks() {
    let Some(_turn) = turn::take() else { return };
    let link = ["--delay-ms", "5", "--rate", "1000000", "--queue-bytes", "10000000"];
    let (recording, counts) = link::recorded_once(&link, "bulk.py", &["--bytes", "2000000"]);
    assert_eq!(count(&counts["there"]["dropped"]), 0, "{counts}");
    let report = &recording.report;
    let found = report.findings("network-queue");
    assert_eq!(found.len(), 1, "{}", report.summary());
    assert_eq!(found[0]["side"], "client", "{}", found[0]);
    let verdict = recording.line("verdict");
    assert!(verdict.contains("network-queue costs most"), "{verdict}");
}

#[test]
fn root_a_link_with_a_delay_and_no_queue_is_silent() {
    let Some(_turn) = turn::take() else { return };
    let link = ["--delay-ms", "20"];
    let (recording, _) = link::recorded_once(&link, "bulk.py", &["--bytes", "2000000"]);
    let report = &recording.report;
    assert!(report.findings("network-queue").is_empty(), "{}", report.summary());
    assert!(report.findings("no-window-scaling").is_empty(), "{}", report.summary());
}
