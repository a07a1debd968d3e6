//! The messages for a collector of OpenTelemetry, and their times.

use std::time::{Duration, Instant};

use sockscope_analysis::Analysis;
use sockscope_program::failure::Failure;
use sockscope_program::machine;
use sockscope_watch::{Metrics, Sender};

use crate::otlp::{Otlp, Signal};

/// A collector of OpenTelemetry, with the time of the last message of metrics.
pub struct Collector {
    otlp: Otlp,
    sender: Sender,
    metrics_at: Instant,
    /// Messages that it had taken when the user was informed of a dropped one.
    said_at: Option<u64>,
}

impl Collector {
    /// Sends to this address from now on.
    pub fn start(address: &str) -> Result<Self, Failure> {
        let sender = Sender {
            host: machine::host(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_ns: machine::clock().realtime_ns,
        };
        Ok(Self { otlp: Otlp::start(address)?, sender, metrics_at: Instant::now(), said_at: None })
    }

    /// Sends the findings of a refresh that ended at `until_ns` of its clock.
    pub fn send_findings(&mut self, analysis: &Analysis, until_ns: u64) {
        let at_ns = i128::from(until_ns) + machine::clock().offset_ns();
        let at_ns = u64::try_from(at_ns).unwrap_or_default();
        if let Some(body) = self.sender.findings(analysis, at_ns) {
            self.otlp.send(Signal::Logs, &body);
        }
        let [sent, _] = self.otlp.counts();
        if let Some(error) = self.otlp.take_error()
            && self.said_at.replace(sent) != Some(sent)
        {
            stderr!("sockscope: messages to the collector are dropped: {error}");
        }
    }

    /// Sends the metrics, unless the last ones were sent less than the interval ago.
    pub fn send_metrics_after(&mut self, interval: Duration, metrics: &Metrics) {
        if self.metrics_at.elapsed() >= interval {
            self.metrics_at = Instant::now();
            let body = self.sender.metrics(metrics, machine::clock().realtime_ns);
            self.otlp.send(Signal::Metrics, &body);
        }
    }

    /// Messages that it took, and those that were dropped.
    pub fn counts(&self) -> [u64; 2] {
        self.otlp.counts()
    }

    /// Sends those that wait, as far as time allows. The counts at the end.
    pub fn end(&mut self) -> [u64; 2] {
        self.otlp.end();
        self.otlp.counts()
    }
}
