//! The words of the report as values: the pages of a browser say the same as the text.

use std::io;

use sockscope_analysis::{ConnectionAnalysis, FlowAnalysis};
use sockscope_record::{ConnectionId, FlowId, Protocol};

use super::page::{Labelled, Page};
use super::{calls, closing, connection, header};
use crate::Report;

/// The label of the first line of the verdict.
const VERDICT: &str = "verdict";

/// The first words of a report.
pub(crate) struct Head {
    /// The recording.
    pub(crate) origin: Vec<Labelled>,
    /// The verdict with its reason, its fix, and cautions.
    pub(crate) verdict: Vec<Labelled>,
    /// The connection that the verdict names.
    pub(crate) lead: Option<ConnectionId>,
    /// The direction that it names.
    pub(crate) flow: Option<FlowId>,
}

pub(crate) fn head(report: &Report<'_>) -> io::Result<Head> {
    let (mut origin, lead) = Page::collect(report.options, |page| header::write(report, page))?;
    let first = origin.iter().position(|line| line.label == VERDICT).unwrap_or(origin.len());
    let verdict = origin.split_off(first);
    let flow = lead.as_ref().and_then(|lead| lead.flow);
    Ok(Head { origin, verdict, lead: lead.map(|lead| lead.connection), flow })
}

/// The ends of a connection, and notes on it.
pub(crate) fn ends(
    report: &Report<'_>,
    analysis: &ConnectionAnalysis,
) -> io::Result<Vec<Labelled>> {
    let write = |page: &mut Page<'_>| connection::write_ends(report, analysis, page);
    Ok(Page::collect(report.options, write)?.0)
}

/// The amount of data in one direction.
pub(crate) fn traffic(
    report: &Report<'_>,
    analysis: &ConnectionAnalysis,
    flow: &FlowAnalysis,
) -> io::Result<Vec<Labelled>> {
    let write = |page: &mut Page<'_>| connection::write_traffic(analysis, flow, page);
    Ok(Page::collect(report.options, write)?.0)
}

/// The calls, segments and acknowledgments of one direction.
pub(crate) fn flow(
    report: &Report<'_>,
    analysis: &ConnectionAnalysis,
    flow: &FlowAnalysis,
) -> io::Result<Vec<Labelled>> {
    let is_tcp = analysis.connection.protocol == Protocol::Tcp;
    Ok(Page::collect(report.options, |page| calls::write_flow(flow, is_tcp, page))?.0)
}

/// Requests, transactions and buffers of a connection.
pub(crate) fn calls(
    report: &Report<'_>,
    analysis: &ConnectionAnalysis,
) -> io::Result<Vec<Labelled>> {
    let write = |page: &mut Page<'_>| connection::write_calls(report, analysis, page);
    Ok(Page::collect(report.options, write)?.0)
}

/// The reliability of the figures.
pub(crate) fn closing(report: &Report<'_>) -> io::Result<Vec<Labelled>> {
    Ok(Page::collect(report.options, |page| closing::write(report, page))?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, fixture};

    #[test]
    fn the_words_are_those_of_the_text_without_its_lines() {
        let (analysis, origin, options) = (fixture::stall(), fixture::origin(), Options::default());
        let report = Report { origin: &origin, analysis: &analysis, options: &options };
        let head = head(&report).unwrap();
        let labels: Vec<_> = head.verdict.iter().map(|line| line.label.as_str()).collect();
        assert_eq!(labels, ["verdict", "why", "fix", "try"]);
        assert_eq!(head.verdict[3].text, "sockscope try nodelay -- CMD");
        assert!(head.verdict[3].is_command && !head.verdict[0].is_command);
        assert_eq!(head.lead, Some(ConnectionId(1)));
        assert_eq!(head.origin.last().map(|line| line.label.as_str()), Some("trace"));
        let traffic = traffic(&report, &analysis.connections[0], &analysis.connections[0].flows[0]);
        assert_eq!(traffic.unwrap()[0].label, "flow 2");
    }
}
