//! A host that does not offer window scaling, at the far end of a long path.

use crate::bundle::{command, words};
use crate::hosts::Hosts;
use crate::link;
use crate::report::text;
use crate::turn;

const OFF: &str = "echo 0 > /proc/sys/net/ipv4/tcp_window_scaling";

#[test]
fn root_a_host_without_window_scaling_bounds_its_flows() {
    let Some(_turn) = turn::take() else { return };
    let hosts = Hosts::up(&[]);
    let status = command(&hosts.on_b(&words(&["sh", "-c", OFF]))).status().expect("sh");
    assert!(status.success(), "{status}");
    let path = ["--delay-ms", "5"];
    let (recording, _) = link::recorded_between(&hosts, &path, "bulk.py", &["--bytes", "2000000"]);
    let report = &recording.report;
    let found = report.findings("no-window-scaling");
    assert_eq!(found.len(), 1, "{}", report.summary());
    assert_eq!(found[0]["side"], "server", "{}", found[0]);
    let reason = "the host of the server (python3, pid ";
    assert!(text(&found[0]["summary"]).contains(reason), "{}", found[0]);
    assert!(report.findings("receive-window-limited").is_empty(), "{}", report.summary());
}
