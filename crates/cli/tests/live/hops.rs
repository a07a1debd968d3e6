//! TCP through a router, a bridge and a tunnel of this host: each device between the ends is a hop.

use std::process::Command;

use serde_json::Value;

use crate::bundle::Recording;
use crate::hosts::{B_V4, Hosts};
use crate::report::{bytes, count, flow, text};
use crate::turn;
use crate::two_hosts::{PORT, between};

const BYTES: u64 = 400_000;

/// A transfer from host `a` to host `b`, with these arguments of `scripts/netns-path`.
fn transfer(path: &[&str]) -> Recording {
    let hosts = Hosts::up_by_path(path);
    let amount = BYTES.to_string();
    let (recording, server) = between(&hosts, "bulk.py", B_V4, &["--bytes", &amount]);
    assert_eq!(server["ok"], true);
    assert_eq!(bytes(recording.report.connection(PORT), "client"), BYTES);
    recording
}

/// The client's flow, and its only hop, which all its bytes passed.
fn hop(recording: &Recording) -> (&Value, &Value) {
    let client = flow(recording.report.connection(PORT), "client");
    let hops = client["hops"].as_array().map(Vec::as_slice).unwrap_or_default();
    assert_eq!(hops.len(), 1, "{client}");
    assert_eq!(
        (count(&hops[0]["bytes"]), count(&hops[0]["residue_bytes"])),
        (BYTES, 0),
        "{}",
        hops[0]
    );
    (client, &hops[0])
}

/// The median of a stage or a time at a hop.
fn median(times: &Value) -> u64 {
    count(&times["p50"])
}

fn is_silent_on_queues(recording: &Recording) {
    let found = recording.report.found();
    let queues = ["network-queue", "interface-queue-limited"];
    assert!(queues.iter().all(|id| !found.contains(id)), "{}", recording.report.summary());
}

#[test]
fn root_the_queue_of_a_router_is_that_of_its_device() {
    let Some(_turn) = turn::take() else { return };
    let recording = transfer(&["router", "5mbit"]);
    let (client, hop) = hop(&recording);
    assert_eq!((text(&hop["device"]["name"]), text(&hop["arrived_by"]["name"])), ("far", "near"));
    let of_stage = |name: &str| median(&client["stages"][name]["delay_ns"]);
    let queue = median(&hop["queue_ns"]);
    let others = ["interface_queue", "input_queue", "tcp_input"].map(of_stage);
    assert!(others.iter().all(|other| other * 10 < queue), "{others:?}, {queue}");
    assert!(count(&hop["ledger_queue_ns"]) * 2 > count(&client["ledger_total_ns"]), "{client}");
    let report = &recording.report;
    let found = report.findings("network-queue");
    assert_eq!(found.len(), 1, "{}", report.summary());
    let summary = text(&found[0]["summary"]);
    let name = text(&hop["device"]["network_namespace_name"]);
    assert!(name.ends_with("-r"), "as scripts/netns-path names the router's: {hop}");
    let place = format!("in the queue of far of network namespace {name},");
    assert!(summary.contains(&place), "{summary}");
    assert!(report.findings("interface-queue-limited").is_empty(), "{}", report.summary());
}

#[test]
fn root_a_router_without_a_queue_is_a_hop_and_no_finding() {
    let Some(_turn) = turn::take() else { return };
    let recording = transfer(&["router"]);
    let (_, hop) = hop(&recording);
    assert_eq!((text(&hop["device"]["name"]), &hop["queue_ns"]), ("far", &Value::Null));
    assert!(count(&hop["transit_ns"]["count"]) > 0, "{hop}");
    is_silent_on_queues(&recording);
}

#[test]
fn root_a_bridge_is_a_hop_though_it_leaves_a_packet_its_socket() {
    let Some(_turn) = turn::take() else { return };
    let recording = transfer(&["bridge", "5mbit"]);
    let (client, hop) = hop(&recording);
    assert_eq!((text(&hop["device"]["name"]), text(&hop["arrived_by"]["name"])), ("far", "near"));
    assert_eq!(
        client["interface"],
        Value::Null,
        "the bridge's queue is not the client's: {client}"
    );
    let found = recording.report.findings("network-queue");
    assert_eq!(found.len(), 1, "{}", recording.report.summary());
    assert!(text(&found[0]["summary"]).contains("in the queue of far "), "{}", found[0]);
}

/// The reason why a tunnel cannot be made; the device is gone with the namespace that it is tried in.
fn lack_of_vxlan() -> Option<&'static str> {
    let words =
        ["-n", "ip", "link", "add", "tunnel0", "type", "vxlan", "id", "7", "dstport", "4789"];
    let tried = Command::new("unshare").args(words).output();
    let is_made = tried.is_ok_and(|output| output.status.success());
    (!is_made).then_some(
        "this kernel makes no VXLAN device (CONFIG_VXLAN), or unshare and ip are missing",
    )
}

#[test]
fn root_the_device_below_a_tunnel_is_a_hop() {
    let Some(_turn) = turn::take_with(lack_of_vxlan()) else { return };
    let recording = transfer(&["tunnel", "5mbit"]);
    let (_, hop) = hop(&recording);
    assert_eq!((text(&hop["device"]["name"]), &hop["arrived_by"]), ("veth0", &Value::Null));
    let found = recording.report.findings("network-queue");
    assert_eq!(found.len(), 1, "{}", recording.report.summary());
    assert!(text(&found[0]["summary"]).contains("in the queue of veth0 "), "{}", found[0]);
}
