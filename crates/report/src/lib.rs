//! Analysis results as text, JSON, CSV and Arrow, the traffic itself as text, and figures.
//!
//! Everything here is a pure function of an [`Analysis`] or of
//! [`ConnectionStore`](sockscope_analysis::ConnectionStore)s, written to any [`io::Write`]: no
//! clock, no file, no environment is read, and the same input gives the same bytes out. The caller
//! finds out whether to use colour and which characters the terminal can show, and sets both in
//! [`Options`]; colour alone never carries a meaning.
//!
//! Text has human units with three significant digits. JSON, CSV and Arrow have base units: nanoseconds,
//! bytes, shares of 1. Unknown values are `?` in text, `null` in JSON and Arrow, and empty in CSV.

mod arrow_requests;
pub mod assets;
mod compare;
mod csv;
mod csv_requests;
mod filter;
mod fix_to_try;
mod html;
mod json;
mod order;
pub mod palette;
pub mod plot;
mod request_tree;
mod show;
mod text;
mod times;
mod total_cost;
mod waits;

#[cfg(test)]
mod fixture;

use std::io;

use sockscope_analysis::{Analysis, ConnectionAnalysis, Finding, FlowAnalysis};
use sockscope_record::FlowId;
pub use sockscope_render::style::{Charset, printable};

pub use arrow_requests::ArrowRequests;
pub use compare::{
    Compared, Comparison, draw_compare, exchange_times_ns, write_compare, write_compare_csv,
    write_compare_json,
};
pub use csv::Csv;
pub use csv_requests::CsvRequests;
pub use filter::{Filter, FilterError};
pub use fix_to_try::{FixToTry, change_to_replay, findings_by_cost, fix_command, fix_to_try};
pub use html::{Html, Summary};
pub use json::{GroupView, Json};
pub use order::{cost_ns, place_name};
pub use show::{ShowOptions, ShownEvent, show, show_part, show_tcpdump};
pub use text::bar::{BarPart, ledger_bar};
pub use text::{Text, write_labelled, write_verdict};
pub use times::WallClock;

use times::Times;

/// An export format: one way to write a whole report.
pub trait Format {
    /// Writes `report` to `out`, in small pieces: hand it a buffered writer.
    ///
    /// # Errors
    ///
    /// [`ReportError::NoSuchFlow`] before the first byte is written when the options name a flow
    /// that the analysis does not have; [`ReportError::Write`] when `out` fails.
    fn write(&self, report: &Report<'_>, out: &mut dyn io::Write) -> Result<(), ReportError>;
}

/// The content of a report, for each format.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// The origin of the trace.
    pub origin: &'a Origin,
    /// The results of the analysis.
    pub analysis: &'a Analysis,
    /// The parts to write and their form.
    pub options: &'a Options,
}

/// The origin of a trace, for the header. `None` is printed as unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// Version of the tool that recorded the trace, as `0.1.0`.
    pub tool_version: Option<String>,
    /// Name of the recording host.
    pub host: Option<String>,
    /// Its kernel, as `6.18.1`.
    pub kernel: Option<String>,
    /// The clock that all times are read on, as `monotonic`.
    pub clock: Option<String>,
    /// The command line that was recorded.
    pub command: Option<String>,
    /// When it was recorded, and which sockets.
    pub recorded: Option<Recorded>,
    /// The name of the trace in a command line of the shell: empty for the last one recorded. Text has commands on
    /// the trace only where it is there.
    pub argument: Option<String>,
}

/// The time of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The wall clock when the recording began.
    pub began: WallClock,
    /// Its duration, where that is known.
    pub duration_ns: Option<u64>,
    /// The picked sockets, as `port 6379`.
    pub pick: Option<String>,
}

/// The part of a trace that a report shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The words of the request, see [`Filter::words`].
    pub words: String,
    /// Connections of the whole trace.
    pub of_connections: u64,
    /// Whether the part begins after the trace.
    pub is_cut: bool,
}

/// The parts to write and their form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Text has everything. Otherwise it has the verdict, the totals and the connection of the verdict.
    pub full: bool,
    /// Only this flow; all flows when `None`.
    pub flow: Option<FlowId>,
    /// Columns to fill in text, kept within [`Options::WIDTH_MIN`] and [`Options::WIDTH_MAX`].
    pub width: usize,
    /// Whether text may contain terminal colours (SGR sequences, ECMA-48 §8.3.117).
    pub color: bool,
    /// Characters that text may use.
    pub charset: Charset,
    /// Connections that text shows in full, the most important ones.
    pub detailed: usize,
    /// Further connections that text shows as a line of a table; the rest is summed up.
    pub listed: usize,
    /// Which part of the trace the analysis is of; all of it when `None`.
    pub shown: Option<Shown>,
    /// Text has this clock next to each time.
    pub wall_clock: Option<WallClock>,
}

impl Options {
    /// Narrowest text, in columns: the path with its seven stages needs it.
    pub const WIDTH_MIN: usize = 80;
    /// Widest text, in columns: longer lines are hard to read.
    pub const WIDTH_MAX: usize = 100;
}

impl Default for Options {
    /// Everything, all flows, 80 columns, Unicode, no colour, 4 connections in full and 40 in the table.
    fn default() -> Self {
        Self {
            full: true,
            flow: None,
            width: Self::WIDTH_MIN,
            color: false,
            charset: Charset::Unicode,
            detailed: 4,
            listed: 40,
            shown: None,
            wall_clock: None,
        }
    }
}

/// Why a report was not written, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The writer failed. A broken pipe arrives here, too: for a program that is success.
    #[error("cannot write the report: {0}")]
    Write(#[from] io::Error),
    /// The options name a flow that is not in the trace.
    #[error("no flow {wanted} in this trace, which has {}", known_flows(known))]
    NoSuchFlow {
        /// The flow that was asked for.
        wanted: FlowId,
        /// The flows of the trace in ascending order, first and last of each run without a gap.
        known: Vec<(FlowId, FlowId)>,
    },
}

/// Runs of flows that an error names; of more than these the error has the number.
const RUNS_NAMED_MAX: usize = 8;

fn known_flows(runs: &[(FlowId, FlowId)]) -> String {
    let named = runs.iter().take(RUNS_NAMED_MAX).map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}"),
    });
    let named: Vec<_> = named.collect();
    match runs.len().saturating_sub(RUNS_NAMED_MAX) {
        _ if runs.is_empty() => "no connection".to_owned(),
        0 => format!("flows {}", named.join(", ")),
        more => format!("flows {} and {more} more runs", named.join(", ")),
    }
}

/// Fails when `wanted` is not one of `flows`, which may have any order.
///
/// # Errors
///
/// [`ReportError::NoSuchFlow`], which lists the flows of the trace.
pub fn check_flow(
    wanted: Option<FlowId>,
    flows: impl Iterator<Item = FlowId>,
) -> Result<(), ReportError> {
    let Some(wanted) = wanted else { return Ok(()) };
    let mut flows: Vec<_> = flows.collect();
    if flows.contains(&wanted) {
        return Ok(());
    }
    flows.sort_unstable();
    let mut known: Vec<(FlowId, FlowId)> = Vec::new();
    for flow in flows {
        match known.last_mut() {
            Some((_, last)) if flow.0 - last.0 <= 1 => *last = flow,
            _ => known.push((flow, flow)),
        }
    }
    Err(ReportError::NoSuchFlow { wanted, known })
}

impl<'a> Report<'a> {
    /// The connections to write, by id.
    fn connections(&self) -> impl Iterator<Item = &'a ConnectionAnalysis> + Clone + use<'a> {
        let wanted = self.options.flow;
        let all = self.analysis.connections.iter();
        all.filter(move |connection| wanted.is_none_or(|flow| has_flow(connection, flow)))
    }

    /// The flows of `connection` to write, from the client first.
    fn flows(
        &self,
        connection: &'a ConnectionAnalysis,
    ) -> impl Iterator<Item = &'a FlowAnalysis> + Clone + use<'a> {
        let wanted = self.options.flow;
        connection.flows.iter().filter(move |flow| wanted.is_none_or(|id| flow.id == id))
    }

    /// The findings of `connection` that concern the flows to write, highest cost first.
    fn findings(
        &self,
        connection: &'a ConnectionAnalysis,
    ) -> impl Iterator<Item = &'a Finding> + Clone + use<'a> {
        let wanted = self.options.flow;
        connection.findings.iter().filter(move |finding| wanted.is_none_or(|id| finding.flow == id))
    }

    /// A command on the trace, as `sockscope show redis.sockscope`; `None` where it cannot be named.
    fn command(&self, name: &str) -> Option<String> {
        let argument = self.origin.argument.as_deref()?;
        Some(format!("sockscope {name} {argument}").trim_end().to_owned())
    }

    /// The form of its times.
    fn times(&self) -> Times {
        Times::new(self.analysis.start_ns, self.options.wall_clock)
    }

    /// Fails when the options name a flow that is not there.
    fn check(&self) -> Result<(), ReportError> {
        let flows = self.analysis.connections.iter().flat_map(|connection| &connection.flows);
        check_flow(self.options.flow, flows.map(|flow| flow.id))
    }
}

fn has_flow(connection: &ConnectionAnalysis, id: FlowId) -> bool {
    connection.flows.iter().any(|flow| flow.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error for flow 99 in a trace with these flows.
    fn said(flows: &[u32]) -> String {
        let flows = flows.iter().copied().map(FlowId);
        check_flow(Some(FlowId(99)), flows).expect_err("none of them is 99").to_string()
    }

    #[test]
    fn an_absent_flow_is_told_which_there_are() {
        assert_eq!(said(&[]), "no flow 99 in this trace, which has no connection");
        let known = |flows: &[u32]| said(flows).replace("no flow 99 in this trace, which has ", "");
        assert_eq!(known(&[4, 5, 2, 3]), "flows 2 to 5");
        assert_eq!(known(&[2, 3, 200, 201]), "flows 2 to 3, 200 to 201");
        let many: Vec<u32> = (0..20).map(|run| run * 4).collect();
        assert_eq!(known(&many), "flows 0, 4, 8, 12, 16, 20, 24, 28 and 12 more runs");
        assert!(check_flow(Some(FlowId(2)), [FlowId(2)].into_iter()).is_ok());
        assert!(check_flow(None, std::iter::empty()).is_ok());
    }
}
