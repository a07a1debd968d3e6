//! Messages in several writes that Nagle's algorithm does not hold.

use crate::bundle::{Recording, workload_recorded};
use crate::report::{count, text};
use crate::turn;

/// Calls without Nagle's algorithm, their body in so many writes.
fn calls(body_writes: &str) -> Recording {
    let calls = ["--calls", "50", "--nodelay", "--body-writes", body_writes];
    workload_recorded("split_calls.py", &calls)
}

#[test]
fn root_a_message_in_many_writes_takes_a_packet_for_each() {
    let Some(_turn) = turn::take() else { return };
    let recording = calls("5");
    let report = &recording.report;
    let found = report.findings("split-message");
    assert_eq!(found.len(), 1, "{}", report.summary());
    // Where the client waits for a CPU between two writes, they are no one message.
    let messages = count(&found[0]["count"]);
    let summary = text(&found[0]["summary"]);
    let packets = summary.split("they took ").nth(1).and_then(|rest| rest.split(' ').next());
    let packets: u64 = packets.and_then(|it| it.parse().ok()).expect("it counts packets");
    assert!(packets > 2 * messages, "{summary}");
}

#[test]
fn root_a_head_and_a_body_without_nagle_are_two_writes() {
    let Some(_turn) = turn::take() else { return };
    let recording = calls("1");
    let report = &recording.report;
    assert!(report.findings("split-message").is_empty(), "{}", report.summary());
}
