//! `sockscope-lab lab run --on live`: experiments of files on this kernel.

#[path = "../../cli/tests/schema/mod.rs"]
mod schema;

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use schema::Schema;
use serde_json::Value;
use sockscope_record::Kind;
use sockscope_trace::{Bundle, Source};

/// `lab run` on this kernel, a run of each case, disturbed or not.
fn run_of(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope-lab"));
    command.args(["lab", "run"]).args(arguments);
    command.args(["--on", "live", "--keep-disturbed", "--repetitions", "1", "--format", "json"]);
    command
}

/// A run in JSON, whatever else the machine does; `None` where this process may not make namespaces, which counts the
/// test as skipped.
fn ran(test: &str, arguments: &[&str]) -> Option<Value> {
    let output = run_of(arguments).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("cannot make a PID namespace") {
        let required = std::env::var("SOCKSCOPE_LIVE").is_ok_and(|wish| wish == "1");
        assert!(!required, "{said}");
        // Of a test that passes libtest shows what is written past its capture.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {}", said.trim_end());
        return None;
    }
    assert!(output.status.success(), "{said}");
    Schema::read("lab").check(Path::new(&arguments.join(" ")), &output.stdout);
    Some(serde_json::from_slice(&output.stdout).expect("it is JSON"))
}

fn results(result: &Value) -> Vec<&Value> {
    let cases = result["cases"].as_array().expect("the schema has cases");
    cases.iter().map(|case| &case["results"]).collect()
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count"))
}

#[test]
fn root_every_octet_of_a_transfer_arrives_in_both_topologies() {
    let test = "root_every_octet_of_a_transfer_arrives_in_both_topologies";
    let arguments = ["si-1a", "--set", "total_bytes=100000", "--set", "socket_buffer_bytes=16384"];
    let Some(result) = ran(test, &arguments) else { return };
    assert_eq!((&result["on"], &result["seed"]), (&"live".into(), &Value::Null));
    let machine = &result["conditions"]["machine"];
    assert!(machine["kernel"].as_str().is_some_and(|kernel| kernel.contains('.')), "{machine}");
    let both = results(&result);
    assert_eq!(both.len(), 2, "{result}");
    for of in both {
        assert_eq!(count(&of["bytes"]), 100_000);
        assert!(count(&of["segments"]) >= 2 && count(&of["transfer_ns"]) > 0, "{of}");
    }
    // 100,000 octets over an Ethernet of 10 Mbit/s take 80 ms, but for what the token bucket lends.
    let rate = results(&result)[0]["throughput_bits_per_s"].as_f64();
    assert!(rate.is_some_and(|rate| rate < 20e6), "{rate:?}");
}

#[test]
fn root_remote_calls_and_sends_have_a_time_each() {
    let test = "root_remote_calls_and_sends_have_a_time_each";
    let arguments = ["lh-1", "--set", "data_bytes=0", "--set", "calls=4", "--set", "sack=false"];
    let Some(calls) = ran(test, &arguments) else { return };
    assert_eq!(count(&results(&calls)[0]["call_ns"]["n"]), 4, "{calls}");
    let namespaces = &calls["conditions"]["namespaces"];
    assert_eq!(namespaces[0]["both"]["net.ipv4.tcp_sack"], "0", "that of the run: {namespaces}");
    assert_eq!(namespaces.as_array().map(Vec::len), Some(1), "{namespaces}");
    let arguments =
        ["bb-3", "--set", "messages=5", "--set", "link=ethernet-3", "--set", "link_delay_us=0"];
    let Some(sends) = ran(test, &arguments) else { return };
    let of_sends = results(&sends);
    assert_eq!(of_sends.len(), 4, "two sizes over two protocols: {sends}");
    for of in of_sends {
        assert_eq!(count(&of["call_ns"]["n"]), 5, "{of}");
    }
}

#[test]
fn root_connections_stages_and_groups_are_programs_of_their_own() {
    let test = "root_connections_stages_and_groups_are_programs_of_their_own";
    let arguments = ["si-5a", "--set", "connections=3", "--set", "total_bytes=20000"];
    let arguments = [&arguments[..], &["--set", "socket_buffer_bytes=16384"]].concat();
    let Some(many) =
        ran(test, &[&arguments[..], &["--set", "interface_queue_packets=50"]].concat())
    else {
        return;
    };
    assert_eq!(count(&results(&many)[0]["bytes"]), 60_000, "{many}");
    let group = ["pc-6b", "--set", "members=2", "--set", "request_bytes=100", "--set", "run_ms=50"];
    let Some(group) = ran(test, &group) else { return };
    let all = results(&group);
    assert_eq!(all.len(), 3, "VMTP, TCP and QUIC: {group}");
    for of in &all {
        assert!(of["packets_in"].as_f64() > Some(1.5), "both members answer: {group}");
    }
    // A request of one packet goes to both members by multicast, else to each.
    let out: Vec<_> = all.iter().filter_map(|of| of["packets_out"].as_f64()).collect();
    assert!(out[0] == 1.0 && out[1] > 1.9 && out[2] > 1.9, "{out:?}");
}

#[test]
fn root_calls_over_three_protocols_pass_a_wire_of_the_rate_and_delay() {
    let test = "root_calls_over_three_protocols_pass_a_wire_of_the_rate_and_delay";
    let sizes = ["pc-3", "--set", "request_bytes=5000", "--set", "response_bytes=3000"];
    let line = ["--set", "link_kbit_per_s=4000", "--set", "link_delay_us=2000"];
    let Some(all) = ran(test, &[&sizes[..], &line, &["--set", "run_ms=200"]].concat()) else {
        return;
    };
    let names: Vec<_> = all["cases"].as_array().unwrap().iter().collect();
    let names: Vec<_> = names.iter().map(|case| &case["parameters"]["protocol"]).collect();
    assert_eq!(names, ["vmtp", "tcp", "quic"]);
    for of in results(&all) {
        // The line takes 16 ms for 8,000 octets, and the way there and back 4 ms.
        assert!(of["call_ns"]["min"].as_f64() > Some(20e6), "{of}");
        let calls = count(&of["call_ns"]["n"]);
        assert_eq!(count(&of["bytes"]), calls * 8000, "{of}");
    }
}

#[test]
fn root_the_stages_of_a_run_are_recorded() {
    let test = "root_the_stages_of_a_run_are_recorded";
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().to_str().unwrap();
    let arguments = ["si-4c", "--set", "pieces=3", "--set", "compute_us=1000", "-o", output];
    let Some(stage) = ran(test, &arguments) else { return };
    let of_stage = results(&stage)[0];
    assert_eq!(count(&of_stage["bytes"]), 3 * 32_768, "{stage}");
    assert!(of_stage["stage_compute_us"].as_f64() >= Some(1000.0), "{stage}");
    assert_eq!(of_stage["points_seen"].as_f64(), Some(8.0), "{stage}");
    let bundle = Bundle::open(folder.path().join("si-4c.sockscope")).unwrap();
    assert!(bundle.meta().complete && bundle.problems().is_empty(), "{:?}", bundle.problems());
    assert_eq!((bundle.meta().source, bundle.meta().records > 0), (Source::Live, true));
    let queues = std::fs::read_to_string(folder.path().join("si-4c-figure-18.svg")).unwrap();
    assert!(queues.contains("Figure 18, this kernel"), "{queues}");
    assert!(
        queues.contains("<g id=\"interface queue of the data that the stage sends\">"),
        "{queues}"
    );
}

/// Octets and times of the only connection of the bundle of `si-2a`: first and last record.
fn connection(folder: &Path) -> (u64, [u64; 2]) {
    let bundle = Bundle::open(folder.join("si-2a.sockscope")).unwrap();
    assert_eq!(bundle.connections().len(), 1, "{:?}", bundle.connections());
    let (mut reader, mut records) = (bundle.records().unwrap(), Vec::new());
    while let Some(batch) = reader.next_batch().unwrap() {
        records.extend_from_slice(batch);
    }
    let read = records.iter().filter(|record| record.kind == Kind::ReceiveDequeue);
    let times = records.iter().map(|record| record.at_ns);
    let ends = [times.clone().min().unwrap(), times.max().unwrap()];
    (read.map(|record| u64::from(record.len)).sum(), ends)
}

/// A slow run of 50,000 octets, which is killed where the test ends early.
struct Slow(Child);

impl Slow {
    fn start(output: &str) -> Self {
        let slow = ["si-2a", "--set", "total_bytes=50000", "--set", "write_bytes=1000"];
        let slow = [&slow[..], &["--set", "write_pause_ms=40", "-o", output]].concat();
        let mut command = run_of(&slow);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"))
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn root_two_runs_at_once_have_their_own_connection_each() {
    let test = "root_two_runs_at_once_have_their_own_connection_each";
    let fast = ["si-2a", "--set", "total_bytes=20000"];
    if ran(test, &fast).is_none() {
        return;
    }
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [slow_in, fast_in] = folders.each_ref().map(|folder| folder.path().to_str().unwrap());
    let mut slow = Slow::start(slow_in);
    // The bundle begins with the recording.
    while !folders[0].path().join("si-2a.sockscope").exists() {
        assert!(slow.0.try_wait().unwrap().is_none(), "it ended without a bundle");
        std::thread::sleep(Duration::from_millis(5));
    }
    ran(test, &[&fast[..], &["-o", fast_in]].concat()).expect("it ran before");
    assert!(slow.0.wait().unwrap().success());
    let [(of_slow, slow_ns), (of_fast, fast_ns)] =
        folders.each_ref().map(|folder| connection(folder.path()));
    assert_eq!((of_slow, of_fast), (50_000, 20_000));
    assert!(fast_ns[0] < slow_ns[1] && slow_ns[0] < fast_ns[1], "{slow_ns:?} {fast_ns:?}");
}

/// An experiment with a client that writes what wrk once wrote, if SACK is off.
const OTHERS: &str = r#"
id = "web"
title = "t"
paper = "none"
source = "s"
question = "q"
workload = "program"
seed = 1
repetitions = 1
record = ["measures"]
parameters = { sack = false, topology = "loopback" }
[program]
command = "sh -c 'grep -qx 0 /proc/sys/net/ipv4/tcp_sack && cat FIXTURE'"
parse = "wrk"
"#;

#[test]
fn root_programs_of_others_run_with_the_settings_of_their_case() {
    let test = "root_programs_of_others_run_with_the_settings_of_their_case";
    let folder = tempfile::tempdir().unwrap();
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../live/src/parse/fixtures/wrk.txt");
    let path = folder.path().join("web.toml");
    std::fs::write(&path, OTHERS.replace("FIXTURE", fixture)).unwrap();
    let Some(web) = ran(test, &[path.to_str().unwrap()]) else { return };
    assert_eq!(results(&web)[0]["requests_per_s"].as_f64(), Some(36_749.52), "{web}");
}
