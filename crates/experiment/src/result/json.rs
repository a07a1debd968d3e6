//! Results as JSON, schema `sockscope.lab/1`: base units, parameters and results by name.

use std::io;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{CaseResult, RunResult};
use crate::measurement::{Distribution, Measurement, SystemCall};
use crate::{Experiment, Keep};

/// Name and version of the form.
const SCHEMA: &str = "sockscope.lab/1";

/// Writes `result` as one document.
///
/// # Errors
///
/// When `out` fails.
pub fn write_json(result: &RunResult, out: &mut dyn io::Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, result)?;
    out.write_all(b"\n")
}

impl Serialize for RunResult {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("schema", SCHEMA)?;
        map.serialize_entry("experiment", &self.experiment.id)?;
        map.serialize_entry("on", "model")?;
        map.serialize_entry("seed", &self.experiment.seed)?;
        let first = self.cases.first().map(|case| &case.case.parameters);
        map.serialize_entry("machine", &first.map(|it| &it.machine))?;
        let personality = first.map(|it| &it.personality).filter(|name| !name.is_empty());
        map.serialize_entry("personality", &personality)?;
        map.serialize_entry("notes", &self.experiment.notes)?;
        let cases = self.cases.iter().map(|case| Shown { case, experiment: &self.experiment });
        map.serialize_entry("cases", &cases.collect::<Vec<_>>())?;
        map.end()
    }
}

/// A case with what the experiment keeps of it.
struct Shown<'a> {
    case: &'a CaseResult,
    experiment: &'a Experiment,
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("parameters", &Pairs(&self.case.case.named))?;
        map.serialize_entry("repetitions", &self.experiment.repetitions)?;
        map.serialize_entry("results", &Results(&self.case.measured, self.experiment))?;
        map.end()
    }
}

struct Results<'a>(&'a Measurement, &'a Experiment);

impl Serialize for Results<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self(measured, experiment) = self;
        let mut map = to.serialize_map(None)?;
        if experiment.keeps(Keep::Calls) {
            map.serialize_entry("calls", &Pairs(&measured.calls))?;
        }
        if experiment.keeps(Keep::Seconds) {
            let seconds = measured.routine_ns.iter().map(|(name, ns)| (*name, *ns as f64 / 1e9));
            map.serialize_entry("seconds", &Pairs(&seconds.collect::<Vec<_>>()))?;
        }
        if experiment.keeps(Keep::Time) {
            map.serialize_entry("call_ns", &measured.call_ns)?;
        }
        if experiment.keeps(Keep::Throughput) {
            map.serialize_entry("bytes", &measured.bytes)?;
            map.serialize_entry("transfer_ns", &measured.transfer_ns)?;
            map.serialize_entry("throughput_bits_per_s", &measured.throughput_bits_per_s())?;
        }
        if experiment.keeps(Keep::Packets) {
            map.serialize_entry("segments", &measured.segments)?;
            map.serialize_entry("acks", &measured.acks)?;
            map.serialize_entry("retransmitted_segments", &measured.retransmitted)?;
        }
        if experiment.keeps(Keep::Wire) {
            let lines: Vec<_> = measured.wire.iter().map(ToString::to_string).collect();
            map.serialize_entry("wire", &lines)?;
        }
        if experiment.keeps(Keep::SystemCalls) {
            map.serialize_entry("system_calls", &measured.system_calls)?;
        }
        if experiment.keeps(Keep::Measures) {
            for measure in &measured.measures {
                map.serialize_entry(measure.name, &measure.value())?;
            }
        }
        map.end()
    }
}

impl Serialize for SystemCall {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(4))?;
        map.serialize_entry("at_ns", &self.at_ns)?;
        map.serialize_entry("name", self.name)?;
        map.serialize_entry("asked_bytes", &self.asked)?;
        map.serialize_entry("returned_bytes", &self.returned)?;
        map.end()
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(7))?;
        map.serialize_entry("n", &self.n())?;
        map.serialize_entry("mean", &self.mean_ns())?;
        map.serialize_entry("min", &self.min_ns())?;
        for (name, percent) in [("p50", 50), ("p90", 90), ("p99", 99)] {
            map.serialize_entry(name, &self.percentile_ns(percent))?;
        }
        map.serialize_entry("max", &self.max_ns())?;
        map.end()
    }
}

/// Pairs as one object, in their order.
struct Pairs<'a, K, V>(&'a [(K, V)]);

impl<K: Serialize, V: Serialize> Serialize for Pairs<'_, K, V> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}
