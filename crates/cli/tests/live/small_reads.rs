//! Streams that are read in small and in large pieces.

use crate::bundle::workload_recorded;
use crate::report::count;
use crate::turn;

#[test]
fn root_a_stream_read_in_small_pieces_is_found() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("bulk.py", &["--bytes", "1000000", "--read-bytes", "100"]);
    let report = &recording.report;
    let found = report.findings("small-reads");
    assert_eq!(found.len(), 1, "{}", report.summary());
    assert_eq!(found[0]["side"], "server", "{}", found[0]);
    // What is read when the queue is empty, and next to a segment's end, does not count.
    let (counted, reads) =
        (count(&found[0]["count"]), count(&recording.facts()["server"]["reads"]));
    assert!((1000..=reads).contains(&counted), "{counted} of {reads}: {}", found[0]);
}

#[test]
fn root_a_stream_written_in_small_pieces_and_read_in_large_ones_is_not() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("bulk.py", &["--bytes", "500000", "--write-bytes", "100"]);
    let report = &recording.report;
    assert!(report.findings("small-reads").is_empty(), "{}", report.summary());
}
