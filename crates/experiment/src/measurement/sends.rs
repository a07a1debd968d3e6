//! Where a message of a sender spends its time on a kernel: samples of the CPU, and stages between points.

/// Of all messages of a case.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SendProfile {
    /// Messages of the runs with samples.
    pub messages: u64,
    /// Segments with data, or datagrams, for a message of these runs.
    pub segments_per_message: f64,
    /// Samples of a second of CPU time.
    pub frequency_hz: u64,
    /// Samples that found no room.
    pub missed: u64,
    /// CPU time of the sender for a message without samples, nanoseconds.
    pub cpu_ns: f64,
    /// How much more CPU time a message takes with samples, in percent of that: one value for each round.
    pub cost_percent: Vec<f64>,
    /// By how many percentage points a layer's share differs between two runs by chance (95 %).
    pub points_by_chance: f64,
    /// Samples by layer, from the program down.
    pub layers: Vec<LayerSamples>,
    /// Nanoseconds of messages that are under way one at a time.
    pub stages: Vec<StageTime>,
    /// How often a message passes each point, one at a time.
    pub passages: Vec<(&'static str, f64)>,
}

/// Samples of a layer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LayerSamples {
    /// Its place from the program down.
    pub rank: usize,
    /// Its name, as `TCP`.
    pub layer: &'static str,
    /// Its functions with their samples, that with most first.
    pub functions: Vec<(String, u64)>,
}

/// Time between two points.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StageTime {
    /// Its name, as `send_queue`.
    pub stage: &'static str,
    /// Median of the octets; `None`: no octet passed both points.
    pub p50_ns: Option<u64>,
    /// Mean of the octets.
    pub mean_ns: Option<u64>,
}

impl LayerSamples {
    /// Of all functions.
    pub fn samples(&self) -> u64 {
        self.functions.iter().map(|(_, samples)| samples).sum()
    }
}

impl SendProfile {
    /// All samples.
    pub fn samples(&self) -> u64 {
        self.layers.iter().map(LayerSamples::samples).sum()
    }

    /// Samples of a layer; 0 where it has none.
    pub fn of_layer(&self, layer: &str) -> u64 {
        self.layer(layer).map_or(0, LayerSamples::samples)
    }

    /// Samples of a function of a layer; 0 where it has none.
    pub fn of_function(&self, layer: &str, function: &str) -> u64 {
        let functions = self.layer(layer).into_iter().flat_map(|one| &one.functions);
        functions.filter(|(name, _)| name == function).map(|(_, samples)| samples).sum()
    }

    fn layer(&self, layer: &str) -> Option<&LayerSamples> {
        self.layers.iter().find(|one| one.layer == layer)
    }

    /// CPU time of a message that so many samples stand for: their share of the time without samples.
    pub fn ns_of(&self, samples: u64) -> f64 {
        self.cpu_ns * samples as f64 / self.samples().max(1) as f64
    }

    /// Standard deviation of [`SendProfile::ns_of`] by chance (binomial).
    pub fn deviation_ns(&self, samples: u64) -> f64 {
        let all = self.samples().max(1) as f64;
        let share = samples as f64 / all;
        self.cpu_ns * (share * (1.0 - share) / all).sqrt()
    }

    /// Mean of the rounds; `None` without one.
    pub fn mean_cost_percent(&self) -> Option<f64> {
        let rounds = self.cost_percent.len();
        (rounds > 0).then(|| self.cost_percent.iter().sum::<f64>() / rounds as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_share_the_time_without_samples() {
        let functions = vec![("tcp_sendmsg".to_owned(), 200), ("tcp_ack".to_owned(), 50)];
        let program = vec![("user space".to_owned(), 250)];
        let sends = SendProfile {
            cpu_ns: 1000.0,
            cost_percent: vec![1.0, 4.0],
            layers: vec![
                LayerSamples { rank: 0, layer: "program", functions: program },
                LayerSamples { rank: 4, layer: "TCP", functions },
            ],
            ..SendProfile::default()
        };
        assert_eq!((sends.samples(), sends.of_layer("TCP"), sends.of_layer("IP")), (500, 250, 0));
        assert_eq!(sends.ns_of(sends.of_function("TCP", "tcp_ack")), 100.0);
        // Half of 500 samples: the deviation of the share is 1 / (2 * sqrt(500)).
        assert!((sends.deviation_ns(250) - 22.36).abs() < 0.01);
        assert_eq!(sends.mean_cost_percent(), Some(2.5));
    }
}
