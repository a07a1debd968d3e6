//! Programs of other people that an experiment runs: their command lines, and how their output is read.

use serde::Deserialize;

/// The table `program` of a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherPrograms {
    /// A command line for the server's end, which has the address 198.18.0.2.
    pub server: Option<String>,
    /// The port at which the server is ready when a socket listens there.
    pub ready: Option<u16>,
    /// The command line of the client, which has the address 198.18.0.1.
    pub command: String,
    /// How the output of the client is read.
    pub parse: Parser,
}

/// A program whose output is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parser {
    /// `iperf3 -J`.
    Iperf3,
    /// `sockperf ping-pong` or `under-load`.
    Sockperf,
    /// `wrk --latency`.
    Wrk,
    /// `ab`, ApacheBench.
    Ab,
    /// `redis-benchmark --csv` with one test.
    RedisBenchmark,
}

impl OtherPrograms {
    /// What is wrong with it.
    pub(super) fn validate(&self) -> Result<(), String> {
        if self.server.is_some() != self.ready.is_some() {
            return Err("`server` and `ready`, its port, go together".to_owned());
        }
        if self.command.trim().is_empty() {
            return Err("expected a `command`".to_owned());
        }
        Ok(())
    }
}
