//! A link that drops large packets and says nothing.

use crate::link;
use crate::report::{count, text};
use crate::turn;

#[test]
fn root_segments_that_are_too_large_for_a_link_fall_into_a_black_hole() {
    let Some(_turn) = turn::take() else { return };
    let (recording, counts) = link::recorded(&["--largest", "1200"], "large_request.py", &[]);
    assert_eq!(recording.facts()["client"]["answered"], false);
    assert!(count(&counts["there"]["too_large"]) >= 4, "{counts}");
    let report = &recording.report;
    let found = report.findings("mtu-blackhole");
    assert_eq!(found.len(), 1, "{}", report.summary());
    assert!(text(&found[0]["fix"]).contains("tcp_mtu_probing"), "{}", found[0]);
    assert!(report.findings("retransmission").is_empty(), "{}", report.summary());
    let verdict = recording.line("verdict");
    assert!(verdict.contains("mtu-blackhole costs most"), "{verdict}");
}

#[test]
fn root_a_link_that_takes_all_packets_is_no_black_hole() {
    let Some(_turn) = turn::take() else { return };
    let (recording, _) = link::recorded(&["--delay-ms", "5"], "large_request.py", &[]);
    assert_eq!(recording.facts()["client"]["answered"], true);
    let report = &recording.report;
    assert!(report.findings("mtu-blackhole").is_empty(), "{}", report.summary());
}
