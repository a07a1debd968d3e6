//! The options that choose a part of a trace, the same for every command that reads one.

use std::time::Duration;

use clap::Args;
use sockscope_analysis::FindingId;
use sockscope_report::Filter;

use crate::pick::{Ports, ports, process};
use crate::suggest::did_you_mean;
use crate::times::seconds;

/// Which part of a trace to show. Options of different kinds must all match; values of one kind are
/// alternatives.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Which part of the trace")]
pub struct FilterArgs {
    /// Connection by its number in the report (several: repeat, or 3,7)
    #[arg(long, value_name = "N", value_parser = connection, value_delimiter = ',', allow_negative_numbers = true)]
    connection: Vec<u32>,
    /// Connections with this port at either end: 80,443 or 8000-8003 (or repeat)
    #[arg(long, value_name = "N", value_parser = ports, value_delimiter = ',', allow_negative_numbers = true)]
    port: Vec<Ports>,
    /// Connections of this process (several: repeat, or 12,34)
    #[arg(long, value_name = "PID", value_parser = process, value_delimiter = ',', allow_negative_numbers = true)]
    pid: Vec<u32>,
    /// Connections of processes with this name, as the report has it (several: repeat)
    #[arg(long, value_name = "NAME")]
    comm: Vec<String>,
    /// From this time on: seconds after the trace's first record, as all output has them
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    from: Option<Duration>,
    /// Until this time, in seconds after the trace's first record
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    to: Option<Duration>,
    /// The N connections whose slowest request took longest
    #[arg(long, value_name = "N", value_parser = some_connections, allow_negative_numbers = true)]
    slowest: Option<usize>,
    /// Connections with this finding, as slow-reader, and this finding alone (several: repeat)
    #[arg(long, value_name = "ID", value_parser = finding, value_delimiter = ',')]
    finding: Vec<FindingId>,
}

impl FilterArgs {
    /// The filter of these options.
    pub fn filter(&self) -> Filter {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Filter {
            connections: self.connection.clone(),
            ports: self.port.iter().map(Ports::range).collect(),
            pids: self.pid.clone(),
            comms: self.comm.clone(),
            from_ns: self.from.map(ns),
            to_ns: self.to.map(ns),
            slowest: self.slowest,
            findings: self.finding.clone(),
        }
    }
}

fn connection(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "a connection has a number, as in the report: 3".to_owned())
}

fn some_connections(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("0 connections show nothing: give 1 or more".to_owned()),
        Ok(connections) => Ok(connections),
        Err(_) => Err(format!("{text} is not a number of connections")),
    }
}

/// A finding by its name.
pub fn finding(text: &str) -> Result<FindingId, String> {
    let named = FindingId::ALL.into_iter().find(|id| id.name() == text);
    named.ok_or_else(|| {
        let names = FindingId::ALL.map(FindingId::name);
        match did_you_mean(text, names).as_str() {
            "" => format!("there is no such finding; there are {}", names.join(", ")),
            meant => format!("there is no such finding{meant}"),
        }
    })
}

/// A flow by its number.
pub fn flow(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "a flow has a number, as in the report: 2".to_owned())
}
