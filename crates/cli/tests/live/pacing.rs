//! Data that waits for the rate that its program set.

use crate::bundle::workload_recorded;
use crate::report::text;
use crate::turn;

#[test]
fn root_a_rate_that_the_program_sets_bounds_its_flow() {
    let Some(_turn) = turn::take() else { return };
    let bulk = ["--bytes", "2000000", "--pacing-rate", "1000000"];
    let recording = workload_recorded("bulk.py", &bulk);
    let report = &recording.report;
    let found = report.findings("pacing-limited");
    assert_eq!(found.len(), 1, "{}", report.summary());
    assert!(text(&found[0]["summary"]).contains("1000000 bytes a second"), "{}", found[0]);
    let verdict = recording.line("verdict");
    assert!(verdict.contains("pacing-limited costs most"), "{verdict}");
}

#[test]
fn root_a_rate_that_the_flow_never_reaches_is_silent() {
    let Some(_turn) = turn::take() else { return };
    let bulk = ["--bytes", "2000000", "--rate", "1000000", "--pacing-rate", "1000000000"];
    let recording = workload_recorded("bulk.py", &bulk);
    let report = &recording.report;
    assert!(report.findings("pacing-limited").is_empty(), "{}", report.summary());
}
