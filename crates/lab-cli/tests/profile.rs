//! `sockscope-lab lab run bb-1 --on live`: the shares of the layers in the time of a send.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Command;

use serde_json::Value;

/// By how many percentage points the share of a layer may differ between two runs.
const POINTS_MAX: f64 = 3.0;
/// Runs of the long form.
const RUNS: usize = 3;

/// Programs that others attached, as a recorder of theirs: no layer of a send.
const OF_OTHERS: &str = "BPF";
/// Shares of the layers in percent, by size and layer.
type Shares = BTreeMap<(u64, String), f64>;

/// The cases of a run; `None` where this process may not make namespaces or take samples, which counts the test as
/// skipped.
fn cases(test: &str, arguments: &[&str]) -> Option<Vec<Value>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope-lab"));
    command.args(["lab", "run", "bb-1", "--on", "live", "--keep-disturbed", "--format", "json"]);
    let output = command.args(arguments).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let skip = |why: &str| {
        let required = std::env::var("SOCKSCOPE_LIVE").is_ok_and(|wish| wish == "1");
        assert!(!required, "{why}");
        // Of a test that passes libtest shows what is written past its capture.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
        None
    };
    if said.contains("cannot make a PID namespace") {
        return skip(said.trim_end());
    }
    assert!(output.status.success(), "{said}");
    let result: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let notes = result["notes"].as_array().expect("the schema has notes");
    let refused =
        |note: &&Value| note.as_str().is_some_and(|it| it.contains("there is no profile"));
    match notes.iter().find(refused) {
        Some(note) => skip(&note.to_string()),
        None => result["cases"].as_array().cloned(),
    }
}

fn shares(cases: &[Value]) -> Shares {
    let mut shares = Shares::new();
    for case in cases {
        let size = case["parameters"]["message_bytes"].as_u64().expect("each case has a size");
        let layers = case["results"]["sends"]["layers"].as_array().expect("the schema has layers");
        let counted = |layer: &Value| {
            let name = layer["layer"].as_str().expect("it has a name").to_owned();
            (name, layer["samples"].as_f64().expect("it is a count"))
        };
        let own: Vec<_> =
            layers.iter().map(counted).filter(|(name, _)| name != OF_OTHERS).collect();
        let all: f64 = own.iter().map(|(_, samples)| samples).sum();
        shares.extend(own.into_iter().map(|(name, samples)| ((size, name), 100.0 * samples / all)));
    }
    shares
}

/// The greatest difference of a share between two runs, with its size and layer.
fn greatest_difference(runs: &[Shares]) -> (f64, (u64, String)) {
    let keys: Vec<&(u64, String)> = runs.iter().flat_map(BTreeMap::keys).collect();
    let difference = |key: &(u64, String)| {
        let of_runs = || runs.iter().map(|run| run.get(key).copied().unwrap_or(0.0));
        of_runs().fold(0.0, f64::max) - of_runs().fold(f64::MAX, f64::min)
    };
    let all = keys.into_iter().map(|key| (difference(key), key.clone()));
    all.max_by(|one, other| one.0.total_cmp(&other.0)).expect("there are layers")
}

#[test]
fn a_layer_that_one_run_lacks_differs_by_its_share() {
    let run = |pairs: &[(&str, f64)]| -> Shares {
        pairs.iter().map(|(name, share)| ((1, (*name).to_owned()), *share)).collect()
    };
    let runs = [run(&[("TCP", 60.0), ("IP", 40.0)]), run(&[("TCP", 61.0), ("copy", 39.0)])];
    assert_eq!(greatest_difference(&runs), (40.0, (1, "IP".to_owned())));
}

#[test]
fn root_the_time_of_a_send_is_shared_by_the_layers_that_it_passes() {
    let test = "root_the_time_of_a_send_is_shared_by_the_layers_that_it_passes";
    let arguments = ["--repetitions", "1", "--set", "message_bytes=1024", "--set", "messages=100"];
    let Some(cases) = cases(test, &arguments) else { return };
    let sends = &cases[0]["results"]["sends"];
    let shares = shares(&cases);
    for layer in ["program", "TCP", "IP", "device", "buffers", "copy"] {
        assert!(shares.contains_key(&(1024, layer.to_owned())), "{layer}: {sends}");
    }
    assert!((shares.values().sum::<f64>() - 100.0).abs() < 1e-6, "{shares:?}");
    assert!(sends["samples"].as_u64() > Some(500), "{sends}");
    assert_eq!(sends["cost_percent"].as_array().map(Vec::len), Some(1), "{sends}");
    let stages = sends["stages"].as_array().expect("the schema has stages");
    let median = |name: &str| {
        let stage = stages.iter().find(|stage| stage["stage"] == name);
        stage
            .and_then(|stage| stage["p50_ns"].as_u64())
            .unwrap_or_else(|| panic!("{name}: {sends}"))
    };
    assert!(median("total") >= median("tcp_input"), "{sends}");
    let passages = sends["passages_per_message"].as_object().expect("the schema has passages");
    assert_eq!(passages.len(), 8, "{sends}");
    let of_point = |name: &str| passages[name].as_f64().expect("it is a number");
    // A message of 1,024 octets alone is one segment.
    assert!((of_point("InterfaceEnqueue") - 1.0).abs() < 0.1, "{sends}");
}

/// The long form of `scripts/soak profile`. It needs a machine without other work.
#[test]
fn root_soak_shares_of_layers_repeat_within_three_points() {
    if std::env::var("SOCKSCOPE_SOAK").as_deref() != Ok("full") {
        return;
    }
    let test = "root_soak_shares_of_layers_repeat_within_three_points";
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let Some(cases) = cases(test, &[]) else { return };
        runs.push(shares(&cases));
    }
    let (points, (size, layer)) = greatest_difference(&runs);
    println!("shares differ by {points:.2} points at most, at {size} bytes: {layer}");
    assert!(points <= POINTS_MAX, "{points:.2} points at {size} bytes: {layer}");
}
