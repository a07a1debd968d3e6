//! Results as CSV: one row for each case and number, base units.

use std::io;

use super::{Distribution, RunResult, Seen};
use crate::experiment::{Experiment, Keep, word};

/// Writes `result` with the columns `case`, one for each parameter, `result`, `value`.
///
/// A parameter that a case does not have is empty in its rows, and so is what is unknown.
///
/// # Errors
///
/// When `out` fails.
pub fn write_csv(result: &RunResult, out: &mut dyn io::Write) -> io::Result<()> {
    let names = parameter_names(result);
    writeln!(out, "case,{},result,value", names.join(","))?;
    for (number, case) in result.cases.iter().enumerate() {
        let parameters =
            names.iter().map(|name| case.case.value(name).map(word).unwrap_or_default());
        let parameters = parameters.collect::<Vec<_>>().join(",");
        for (name, value) in numbers(&case.seen, &result.experiment) {
            let value = value.map(|value| value.to_string()).unwrap_or_default();
            writeln!(out, "{number},{parameters},{name},{value}")?;
        }
    }
    Ok(())
}

/// Every parameter of any case, in the order of first appearance.
fn parameter_names(result: &RunResult) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in result.cases.iter().flat_map(|case| &case.case.named) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// What the experiment keeps, as named numbers. Lists, as wire traces, are for JSON and text.
fn numbers(seen: &Seen, experiment: &Experiment) -> Vec<(String, Option<f64>)> {
    let mut numbers = Vec::new();
    if experiment.keeps(Keep::Calls) {
        let calls = seen.calls.iter();
        numbers.extend(calls.map(|(name, calls)| (format!("calls.{name}"), Some(*calls as f64))));
    }
    if experiment.keeps(Keep::Seconds) {
        let times = seen.routine_ns.iter();
        numbers.extend(times.map(|(name, ns)| (format!("seconds.{name}"), Some(*ns as f64 / 1e9))));
    }
    if experiment.keeps(Keep::Time) {
        numbers.extend(distribution("call_ns", &seen.call_ns));
    }
    if experiment.keeps(Keep::Throughput) {
        numbers.push(("bytes".to_owned(), Some(seen.bytes as f64)));
        numbers.push(("transfer_ns".to_owned(), Some(seen.transfer_ns as f64)));
        numbers.push(("throughput_bits_per_s".to_owned(), seen.throughput_bits_per_s()));
    }
    if experiment.keeps(Keep::Packets) {
        numbers.push(("segments".to_owned(), Some(seen.segments as f64)));
        numbers.push(("acks".to_owned(), Some(seen.acks as f64)));
        numbers.push(("retransmitted_segments".to_owned(), Some(seen.retransmitted as f64)));
    }
    numbers
}

fn distribution(name: &str, times: &Distribution) -> [(String, Option<f64>); 7] {
    [
        ("n", Some(times.n() as u64)),
        ("mean", times.mean_ns()),
        ("min", times.min_ns()),
        ("p50", times.percentile_ns(50)),
        ("p90", times.percentile_ns(90)),
        ("p99", times.percentile_ns(99)),
        ("max", times.max_ns()),
    ]
    .map(|(part, ns)| (format!("{name}.{part}"), ns.map(|ns| ns as f64)))
}
