//! Results as named numbers: what CSV, figures and whoever compares cases read.

use super::{Distribution, Measurement};
use crate::{Experiment, Keep};

impl Measurement {
    /// What the experiment keeps, as named numbers in base units; `None` is unknown. Lists, as wire
    /// traces, are not among them.
    pub fn numbers(&self, experiment: &Experiment) -> Vec<(String, Option<f64>)> {
        let mut numbers = Vec::new();
        if experiment.keeps(Keep::Calls) {
            let calls = self.calls.iter();
            numbers
                .extend(calls.map(|(name, calls)| (format!("calls.{name}"), Some(*calls as f64))));
        }
        if experiment.keeps(Keep::Seconds) {
            let times = self.routine_ns.iter();
            numbers.extend(
                times.map(|(name, ns)| (format!("seconds.{name}"), Some(*ns as f64 / 1e9))),
            );
        }
        if experiment.keeps(Keep::Time) {
            numbers.extend(distribution("call_ns", &self.call_ns));
        }
        if experiment.keeps(Keep::Throughput) {
            numbers.push(("bytes".to_owned(), Some(self.bytes as f64)));
            numbers.push(("transfer_ns".to_owned(), Some(self.transfer_ns as f64)));
            numbers.push(("throughput_bits_per_s".to_owned(), self.throughput_bits_per_s()));
        }
        if experiment.keeps(Keep::Packets) {
            numbers.push(("segments".to_owned(), Some(self.segments as f64)));
            numbers.push(("acks".to_owned(), Some(self.acks as f64)));
            numbers.push(("retransmitted_segments".to_owned(), Some(self.retransmitted as f64)));
        }
        if experiment.keeps(Keep::Measures) {
            let measures = self.measures.iter();
            numbers.extend(measures.map(|measure| (measure.name.to_owned(), measure.value())));
        }
        if let Some(sends) = &self.sends {
            numbers.push(("sends.cpu_ns".to_owned(), Some(sends.cpu_ns)));
            numbers.push(("sends.cost_percent".to_owned(), sends.mean_cost_percent()));
            numbers.extend(sends.layers.iter().map(|one| {
                (format!("sends.cpu_ns.{}", one.layer), Some(sends.ns_of(one.samples())))
            }));
            numbers.extend(sends.stages.iter().map(|time| {
                (format!("sends.p50_ns.{}", time.stage), time.p50_ns.map(|ns| ns as f64))
            }));
        }
        numbers
    }
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

#[cfg(test)]
mod tests {
    use super::super::Measure;
    use super::*;
    use crate::builtin_by_id;

    #[test]
    fn a_measure_is_the_mean_of_its_repetitions() {
        let mut experiment = builtin_by_id("bb-1").unwrap();
        experiment.record = vec![Keep::Measures];
        let measured = |percent, wait_ns| Measurement {
            measures: vec![Measure::new("copy_percent", percent), Measure::new("wait_ns", wait_ns)],
            ..Measurement::default()
        };
        let both = measured(40.0, f64::NAN).and(measured(60.0, 1.0));
        let expected = [("copy_percent".to_owned(), Some(50.0)), ("wait_ns".to_owned(), None)];
        assert_eq!(both.numbers(&experiment), expected);
        assert_eq!(both.measure("copy_percent"), Some(50.0));
    }
}
