//! Messages that are a little larger than a segment, and some that are not.

use crate::bundle::Recording;
use crate::link;
use crate::report::text;
use crate::turn;

/// Calls of one write with 100 bytes and a body, over a link whose segments have 1448 bytes.
fn calls(body_bytes: &str) -> Recording {
    let calls = ["--calls", "150", "--one-write", "--body-bytes", body_bytes];
    link::recorded(&[], "split_calls.py", &calls).0
}

#[test]
fn root_messages_a_little_larger_than_a_segment_leave_a_small_one_each() {
    let Some(_turn) = turn::take() else { return };
    let recording = calls("1400");
    let report = &recording.report;
    let found = report.findings("buffer-mismatch");
    assert_eq!(found.len(), 1, "{}", report.summary());
    assert_eq!((&found[0]["side"], &found[0]["count"]), (&"client".into(), &150.into()));
    assert!(text(&found[0]["summary"]).contains("mostly of 52 bytes"), "{}", found[0]);
}

#[test]
fn root_messages_that_fill_a_segment_leave_nothing() {
    let Some(_turn) = turn::take() else { return };
    let recording = calls("1348");
    let report = &recording.report;
    assert!(report.findings("buffer-mismatch").is_empty(), "{}", report.summary());
}
