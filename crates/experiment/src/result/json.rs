//! Results as JSON, schema `sockscope.lab/1`: base units, parameters and results by name.

use std::io;

use serde::ser::{Serialize, Serializer};
use toml::Value;

use super::{CaseResult, RunResult};
use crate::measurement::{Distribution, LayerSamples, Measurement, SendProfile, StageTime};
use crate::{Experiment, Keep};

/// Name and version of the form.
const SCHEMA: &str = "sockscope.lab/1";

/// Writes `result` as one document.
///
/// # Errors
///
/// When `out` fails.
pub fn write_json(result: &RunResult, out: &mut dyn io::Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &Document::new(result))?;
    out.write_all(b"\n")
}

/// The document. Runs on this machine have more results, and their parameters in another order.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(title = SCHEMA))]
struct Document<'a> {
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    schema: &'static str,
    experiment: &'a str,
    on: &'static str,
    seed: Option<u64>,
    machine: Option<&'a str>,
    personality: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<Named<serde_json::Value>>"))]
    conditions: Option<&'a serde_json::Value>,
    notes: Vec<&'a str>,
    cases: Vec<CaseView<'a>>,
}

#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CaseView<'a> {
    #[cfg_attr(test, schemars(with = "Named<serde_json::Value>"))]
    parameters: Pairs<&'a str, &'a Value>,
    repetitions: u32,
    results: ResultsView<'a>,
}

/// What the experiment keeps. Measures stand by their names behind the others.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ResultsView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<Named<u64>>"))]
    calls: Option<Pairs<&'static str, u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<Named<f64>>"))]
    seconds: Option<Pairs<&'static str, f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_ns: Option<DistributionView>,
    #[serde(flatten)]
    throughput: Option<ThroughputView>,
    #[serde(flatten)]
    packets: Option<PacketsView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wire: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_calls: Option<Vec<SystemCallView<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sends: Option<SendsView<'a>>,
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "Named<Option<f64>>"))]
    measures: Pairs<&'static str, Option<f64>>,
}

#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ThroughputView {
    bytes: u64,
    transfer_ns: u64,
    throughput_bits_per_s: Option<f64>,
}

#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PacketsView {
    segments: u64,
    acks: u64,
    retransmitted_segments: u64,
}

#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SystemCallView<'a> {
    at_ns: u64,
    name: &'a str,
    asked_bytes: u64,
    returned_bytes: u64,
}

/// Where a message of a sender spends its time, on a kernel.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SendsView<'a> {
    messages: u64,
    segments_per_message: f64,
    frequency_hz: u64,
    samples: u64,
    missed_samples: u64,
    points_by_chance: f64,
    cpu_ns_per_message: f64,
    cost_percent: &'a [f64],
    layers: Vec<LayerView<'a>>,
    stages: Vec<StageView>,
    #[cfg_attr(test, schemars(with = "Named<f64>"))]
    passages_per_message: Pairs<&'static str, f64>,
}

#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LayerView<'a> {
    layer: &'static str,
    samples: u64,
    functions: Vec<FunctionView<'a>>,
}

#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FunctionView<'a> {
    name: &'a str,
    samples: u64,
}

#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StageView {
    stage: &'static str,
    p50_ns: Option<u64>,
    mean_ns: Option<u64>,
}

/// Nanoseconds; percentiles by nearest rank.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DistributionView {
    n: usize,
    mean: Option<u64>,
    min: Option<u64>,
    p50: Option<u64>,
    p90: Option<u64>,
    p99: Option<u64>,
    max: Option<u64>,
}

impl<'a> Document<'a> {
    fn new(RunResult { experiment, cases, kernel }: &'a RunResult) -> Self {
        let kernel = kernel.as_ref();
        let first = cases.first().map(|case| &case.case.parameters).filter(|_| kernel.is_none());
        let personality = first.map(|it| it.personality.as_str());
        let of_kernel = kernel.map_or(&[][..], |kernel| &kernel.notes);
        Self {
            schema: SCHEMA,
            experiment: &experiment.id,
            on: if kernel.is_some() { "live" } else { "model" },
            seed: kernel.is_none().then_some(experiment.seed),
            machine: kernel.map(|it| it.machine.as_str()).or(first.map(|it| it.machine.as_str())),
            personality: personality.filter(|name| !name.is_empty()),
            conditions: kernel.map(|kernel| &kernel.conditions),
            notes: experiment.notes.iter().chain(of_kernel).map(String::as_str).collect(),
            cases: cases.iter().map(|case| CaseView::new(case, experiment)).collect(),
        }
    }
}

impl<'a> CaseView<'a> {
    fn new(CaseResult { case, measured }: &'a CaseResult, experiment: &Experiment) -> Self {
        Self {
            parameters: case.named.iter().map(|(name, value)| (name.as_str(), value)).collect(),
            repetitions: experiment.repetitions,
            results: ResultsView::new(measured, experiment),
        }
    }
}

impl<'a> ResultsView<'a> {
    fn new(all: &'a Measurement, experiment: &Experiment) -> Self {
        let kept = |what| experiment.keeps(what).then_some(all);
        let seconds = |(name, ns): &(_, u64)| (*name, *ns as f64 / 1e9);
        let system_call = |call: &'a crate::measurement::SystemCall| SystemCallView {
            at_ns: call.at_ns,
            name: call.name,
            asked_bytes: call.asked,
            returned_bytes: call.returned,
        };
        let measures = kept(Keep::Measures).map_or(&[][..], |all| &all.measures);
        Self {
            calls: kept(Keep::Calls).map(|all| all.calls.iter().copied().collect()),
            seconds: kept(Keep::Seconds).map(|all| all.routine_ns.iter().map(seconds).collect()),
            call_ns: kept(Keep::Time).map(|all| DistributionView::new(&all.call_ns)),
            throughput: kept(Keep::Throughput).map(|all| ThroughputView {
                bytes: all.bytes,
                transfer_ns: all.transfer_ns,
                throughput_bits_per_s: all.throughput_bits_per_s(),
            }),
            packets: kept(Keep::Packets).map(|all| PacketsView {
                segments: all.segments,
                acks: all.acks,
                retransmitted_segments: all.retransmitted,
            }),
            wire: kept(Keep::Wire).map(|all| all.wire.iter().map(ToString::to_string).collect()),
            system_calls: kept(Keep::SystemCalls)
                .map(|all| all.system_calls.iter().map(system_call).collect()),
            sends: all.sends.as_ref().map(SendsView::new),
            measures: measures.iter().map(|measure| (measure.name, measure.value())).collect(),
        }
    }
}

impl<'a> SendsView<'a> {
    fn new(sends: &'a SendProfile) -> Self {
        let function =
            |(name, samples): &'a (String, u64)| FunctionView { name, samples: *samples };
        let layer = |one: &'a LayerSamples| LayerView {
            layer: one.layer,
            samples: one.samples(),
            functions: one.functions.iter().map(function).collect(),
        };
        let stage = |time: &StageTime| StageView {
            stage: time.stage,
            p50_ns: time.p50_ns,
            mean_ns: time.mean_ns,
        };
        Self {
            messages: sends.messages,
            segments_per_message: sends.segments_per_message,
            frequency_hz: sends.frequency_hz,
            samples: sends.samples(),
            missed_samples: sends.missed,
            points_by_chance: sends.points_by_chance,
            cpu_ns_per_message: sends.cpu_ns,
            cost_percent: &sends.cost_percent,
            layers: sends.layers.iter().map(layer).collect(),
            stages: sends.stages.iter().map(stage).collect(),
            passages_per_message: sends.passages.iter().copied().collect(),
        }
    }
}

impl DistributionView {
    fn new(times: &Distribution) -> Self {
        Self {
            n: times.n(),
            mean: times.mean_ns(),
            min: times.min_ns(),
            p50: times.percentile_ns(50),
            p90: times.percentile_ns(90),
            p99: times.percentile_ns(99),
            max: times.max_ns(),
        }
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        DistributionView::new(self).serialize(to)
    }
}

/// Pairs as one object, in their order.
struct Pairs<K, V>(Vec<(K, V)>);

impl<K, V> FromIterator<(K, V)> for Pairs<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl<K: Serialize, V: Serialize> Serialize for Pairs<K, V> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// The schema of [`Pairs`].
#[cfg(test)]
type Named<T> = std::collections::BTreeMap<String, T>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_file_is_that_of_the_types() {
        let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<Document<'_>>();
        let expected = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/lab.json");
        if std::env::var_os("SOCKSCOPE_UPDATE").is_some() {
            std::fs::write(path, &expected).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            found == expected,
            "run SOCKSCOPE_UPDATE=1 cargo test -p sockscope-experiment schema"
        );
    }
}
