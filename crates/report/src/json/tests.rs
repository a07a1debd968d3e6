//! The contract, key by key: a key that is removed or moved fails here.

use std::collections::BTreeSet;

use serde_json::Value;
use sockscope_analysis::Analysis;

use super::*;
use crate::Options;
use crate::fixture::{
    absurd, empty, hop, hostile, many, nested_calls, slow_calls, stall, unknown_everything, written,
};

fn json(analysis: &Analysis) -> Value {
    serde_json::from_str(&written(&Json, analysis, &Options::default())).unwrap()
}

/// Asserts that `value` is an object with these keys and no others.
fn has_keys(value: &Value, keys: &str) {
    let found: BTreeSet<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    let wanted: BTreeSet<_> = keys.split_whitespace().collect();
    assert_eq!(found, wanted);
}

#[test]
fn the_report_has_the_keys_of_its_schema() {
    let report = json(&stall());
    has_keys(&report, "schema trace waits connections");
    assert_eq!(report["schema"], "sockscope.report/2");
    has_keys(
        &report["trace"],
        "duration_ns records missed_records points source notes
         start_ns missed_events finished steal_share tool_version host kernel clock command",
    );
    has_keys(
        &report["trace"]["points"],
        "SendEnqueue SendDequeue InterfaceEnqueue InterfaceDequeue
         InputEnqueue InputDequeue ReceiveEnqueue ReceiveDequeue",
    );
    has_keys(&report["trace"]["points"]["SendEnqueue"], "records missed cost_ns_mean");
}

#[test]
fn the_parts_of_what_callers_waited_add_up() {
    let waits = &json(&nested_calls())["waits"];
    let ns = |name: &str| waits[name].as_u64().unwrap();
    has_keys(
        waits,
        "union_ns sum_ns answerers_ns network_and_kernel_ns callers_ns opening_ns unknown_ns",
    );
    let known_ns = ns("answerers_ns") + ns("network_and_kernel_ns") + ns("callers_ns");
    assert_eq!(known_ns + ns("opening_ns") + ns("unknown_ns"), ns("sum_ns"));
    assert!(ns("answerers_ns") > 0, "{waits}");
}

#[test]
fn requests_that_wait_for_others_are_a_tree() {
    let report = json(&nested_calls());
    let slowest = &report["slowest_nested"];
    has_keys(
        slowest,
        "connections server pid comm nested_by count asked_ns total_ns own_ns nested_ns shared_ns
         transit_ns nested",
    );
    assert_eq!((&slowest["comm"], &slowest["nested_by"]), (&"nginx".into(), &Value::Null));
    let store = &slowest["nested"][0]["nested"][0];
    assert_eq!((&store["comm"], &store["nested_by"]), (&"postgres".into(), &"thread".into()));
    assert_eq!((&store["count"], &store["own_ns"]), (&3.into(), &264_000_000.into()));
}

#[test]
fn a_recording_without_its_end_is_not_finished() {
    let mut analysis = stall();
    assert_eq!(json(&analysis)["trace"]["finished"], true);
    analysis.facts.unfinished = true;
    assert_eq!(json(&analysis)["trace"]["finished"], false);
}

#[test]
fn a_connection_has_the_keys_of_its_schema() {
    let connection = &json(&stall())["connections"][0];
    has_keys(
        connection,
        "id protocol client server processes flows findings
         opened_ns closed_ns preexisting both_ends_here kernels_own layers refused syn_dropped reset windows_shut exchanges requests buffers",
    );
    has_keys(&connection["processes"][0], "pid comm side");
    has_keys(&connection["findings"][0], "id count cost_ns flow side summary evidence fix try");
    has_keys(&connection["findings"][0]["evidence"][0], "at_ns text");
    has_keys(
        &connection["exchanges"],
        "asked_by total_ns request_ns service_ns response_ns slowest",
    );
    has_keys(&connection["exchanges"]["slowest"], "at_ns total_ns");
    has_keys(&connection["buffers"][0], "side buffer asked_bytes set_by_program granted_bytes");
}

#[test]
fn requests_have_the_keys_of_their_schema_and_the_slowest_comes_first() {
    let requests = &json(&slow_calls())["connections"][0]["requests"];
    has_keys(requests, "conversation asked_by count left_out total_ns service_ns ends slowest");
    has_keys(
        &requests["ends"],
        "answered open given-up reset-by-asker reset-by-answerer refused closed",
    );
    has_keys(
        &requests["slowest"][0],
        "asked_ns heard_ns answered_ns ended_ns end total_ns request_ns service_ns response_ns pause_ns
         request_bytes response_bytes request_writes request_reads response_writes response_reads
         asker_thread answerer_thread overlapped",
    );
    assert_eq!((&requests["count"], &requests["ends"]["given-up"]), (&3.into(), &1.into()));
    assert_eq!(requests["slowest"][0]["total_ns"], 3_000_000_000_u64);
    assert_eq!(requests["total_ns"]["max"], 3_000_000_000_u64);
}

#[test]
fn a_flow_has_the_keys_of_its_schema() {
    let flow = &json(&stall())["connections"][0]["flows"][0];
    has_keys(
        flow,
        "id from bytes bytes_is_lower_bound segments segments_is_lower_bound retransmitted_bytes
         retransmitted_bytes_is_lower_bound drops datagrams_refused drops_are_lower_bounds stages
         dropped_byte_delay_ns ledger to throughput_bytes_per_s throughput_is_lower_bound ledger_total_ns
         ledger_wire_uncertainty_ns acks bursts
         write_bytes write_count_is_lower_bound read_bytes read_count_is_lower_bound reads_are_guessed \
         read_copy_bytes_max",
    );
    let mut analysis = stall();
    analysis.connections[0].flows[0].interface = Some(sockscope_analysis::Interface {
        device: "eth0".to_owned(),
        discipline: "tbf".to_owned(),
        index: 7,
        namespace: 4_026_532_345,
        namespace_name: Some("shop".to_owned()),
    });
    analysis.connections[0].flows[0].hops = vec![hop()];
    let hop = &json(&analysis)["connections"][0]["flows"][0]["hops"][0];
    has_keys(
        hop,
        "device arrived_by bytes transit_ns queue_ns queue_bytes residue_bytes ledger_transit_ns ledger_queue_ns",
    );
    assert_eq!((&hop["device"]["name"], &hop["arrived_by"]["name"]), (&"r1".into(), &Value::Null));
    let interface = &json(&analysis)["connections"][0]["flows"][0]["interface"];
    has_keys(
        interface,
        "device queueing_discipline index network_namespace network_namespace_name",
    );
    assert_eq!((&interface["device"], &interface["index"]), (&"eth0".into(), &7.into()));
    assert_eq!(interface["network_namespace_name"], "shop");
    assert_eq!(hop["device"]["network_namespace_name"], Value::Null);
    has_keys(
        &flow["stages"],
        "send_queue tcp_output interface_queue wire input_queue tcp_input receive_queue total",
    );
    let stage = &flow["stages"]["send_queue"];
    has_keys(
        stage,
        "delay_ns byte_delay_ns length_bytes residue_bytes resident_bytes unknown_intervals uncertainty_ns",
    );
    has_keys(&stage["delay_ns"], "count mean min p50 p90 p99 max");
    has_keys(&stage["length_bytes"], "mean max max_is_lower_bound");
    has_keys(
        &flow["ledger"],
        "app_idle handshake send_buffer send_buffer.writer send_queue.nagle send_queue.cork send_queue.cwnd send_queue.rwnd
         send_queue.pacing send_queue.other tcp_output interface_queue wire input_queue tcp_input
         receive_queue.wakeup receive_queue.app dropped unknown",
    );
    has_keys(&flow["acks"], "advancing pure duplicate counts_are_lower_bounds bytes delay_ns late");
    has_keys(&flow["acks"]["late"], "timer piggyback read unknown");
    has_keys(&flow["bursts"], "count count_is_lower_bound bytes duration_ns gap_ns");
}

#[test]
fn figures_are_in_base_units() {
    let report = json(&stall());
    let connection = &report["connections"][0];
    assert_eq!(report["trace"]["points"]["SendEnqueue"]["cost_ns_mean"], 87.0);
    assert_eq!(connection["client"], "127.0.0.1:40000");
    assert_eq!(connection["findings"][0]["cost_ns"], 8_170_000_000_u64);
    let stage = &connection["flows"][0]["stages"]["send_queue"];
    assert_eq!(stage["delay_ns"]["p50"], 42_100_000);
    assert!(stage["delay_ns"]["mean"].is_u64(), "times are integers");
    assert_eq!(stage["length_bytes"]["mean"], 210.5);
}

#[test]
fn the_ledger_adds_up_to_one() {
    let report = json(&stall());
    let ledger = report["connections"][0]["flows"][0]["ledger"].as_object().unwrap().clone();
    let sum: f64 = ledger.values().map(|share| share.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
}

#[test]
fn unknown_is_null_and_never_zero() {
    let report = json(&unknown_everything());
    assert!(report["trace"]["points"]["SendEnqueue"]["cost_ns_mean"].is_null());
    assert_eq!(report["trace"]["missed_records"], 515);
    let connection = &report["connections"][0];
    assert!(connection["exchanges"].is_null() && connection["closed_ns"].is_null());
    let flow = &connection["flows"][0];
    assert!(flow["throughput_bytes_per_s"].is_null());
    for unknown in ["delay_ns", "length_bytes", "residue_bytes"] {
        assert!(flow["stages"]["wire"][unknown].is_null(), "{unknown}");
    }
}

#[test]
fn zero_connections_are_an_empty_list() {
    assert_eq!(json(&empty())["connections"], serde_json::json!([]));
}

#[test]
fn thousands_of_connections_come_by_id() {
    let report = json(&many(2000));
    let connections = report["connections"].as_array().unwrap();
    let ids = connections.iter().map(|connection| connection["id"].as_u64().unwrap());
    assert!(ids.eq(1..=2000));
}

#[test]
fn hostile_names_survive_the_round_trip() {
    let report = json(&hostile());
    assert_eq!(report["connections"][0]["processes"][0]["comm"], "x\n\x1b[2J\u{202e}\"");
}

#[test]
fn no_number_is_not_finite() {
    let text = written(&Json, &absurd(), &Options::default());
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    let flow = &json(&absurd())["connections"][0]["flows"][0];
    assert!(flow["throughput_bytes_per_s"].is_null());
    assert!(flow["stages"]["wire"]["delay_ns"]["mean"].is_null());
    assert_eq!(flow["stages"]["wire"]["delay_ns"]["p99"], u64::MAX);
    assert_eq!(flow["stages"]["wire"]["residue_bytes"], i64::MIN);
}

#[test]
fn one_flow_comes_with_its_own_findings() {
    let options = Options { flow: Some(sockscope_record::FlowId(3)), ..Options::default() };
    let report: Value = serde_json::from_str(&written(&Json, &stall(), &options)).unwrap();
    let connection = &report["connections"][0];
    assert_eq!(connection["flows"].as_array().unwrap().len(), 1);
    assert_eq!(connection["flows"][0]["from"], "server");
    assert_eq!(connection["findings"], serde_json::json!([]));
}

#[test]
fn the_same_analysis_gives_the_same_bytes() {
    let options = Options::default();
    assert_eq!(written(&Json, &many(50), &options), written(&Json, &many(50), &options));
}

#[test]
fn a_lower_bound_is_told_beside_its_figure() {
    let mut analysis = stall();
    let flow = &mut analysis.connections[0].flows[0];
    flow.at_least.bytes = true;
    flow.at_least.acks = true;
    flow.stages[0].unknown_intervals = 1;
    flow.stages[0].resident_bytes = None;
    let report = json(&analysis);
    let flows = &report["connections"][0]["flows"];
    let bound = |flow: usize| flows[flow]["bytes_is_lower_bound"].as_bool().unwrap();
    assert_eq!([bound(0), bound(1)], [true, false]);
    assert_eq!(flows[0]["acks"]["counts_are_lower_bounds"], true);
    assert_eq!(flows[0]["segments_is_lower_bound"], false);
    let stage = &flows[0]["stages"]["send_queue"];
    assert_eq!(stage["length_bytes"]["max_is_lower_bound"], true);
    assert!(stage["resident_bytes"].is_null());
}
