//! The tables `findings`, `finding_times` and `evidence`, which have the number of a finding in common.

use sockscope_analysis::{ConnectionAnalysis, Finding};

use crate::column::columns;
use crate::trace::Trace;

/// A finding: the place of its connection, its place there, and its number in the trace.
#[derive(Clone, Copy)]
pub(crate) struct FindingRow {
    connection: usize,
    index: usize,
    number: u64,
}

impl FindingRow {
    fn of(self, trace: &Trace) -> (&ConnectionAnalysis, &Finding) {
        let one = &trace.analysis.connections[self.connection];
        (one, &one.findings[self.index])
    }
}

/// The findings of a connection, numbered from 1 on in the whole trace.
pub(crate) fn rows(trace: &Trace, connection: usize) -> Option<Vec<FindingRow>> {
    let all = &trace.analysis.connections;
    let here = all.get(connection)?.findings.len();
    let before: usize = all[..connection].iter().map(|one| one.findings.len()).sum();
    let row = |index| FindingRow { connection, index, number: (before + index + 1) as u64 };
    Some((0..here).map(row).collect())
}

columns! {
    FindingColumns "findings", |trace, row: FindingRow| {
        let (one, finding) = row.of(trace);
        let times = &finding.times;
    }
    finding: Whole "" "Number of the finding in its trace, from 1 on" = row.number;
    connection: Whole "" "Number of the connection" = one.connection.id.0.into();
    flow: Whole "" "Flow in whose data it shows" = finding.flow.0.into();
    name: Word "" "Name of the rule: its page is docs/findings/NAME.md" = finding.id.name();
    side: Word "" "The end to change: `client` or `server`" = finding.side.name();
    count: Whole "" "Occurrences" = finding.count;
    connections: Whole "" "Connections over which it was summed up; 1 of one alone" = finding.connections;
    cost_ns: Whole "ns" "Time that it cost, all occurrences together" = finding.cost_ns;
    is_failure: Flag "" "A failure, which matters at any cost in time" = finding.id.is_failure();
    is_consequence: Flag "" "It only passes on the time of another finding" = finding.id.is_consequence();
    first_ns: MaybeWhole "ns" "Begin of its first time, on the clock of the trace; null without times" = times.first().map(|it| it.0);
    first: Time "ns" "The same time since 1970 (UTC)" = times.first().and_then(|it| trace.clock.at(it.0));
    last_ns: MaybeWhole "ns" "End of its last time, on the clock of the trace; null without times" = times.last().map(|it| it.1);
    last: Time "ns" "The same time since 1970 (UTC)" = times.last().and_then(|it| trace.clock.at(it.1));
    times: Whole "" "Times that the table `finding_times` has of it" = times.len() as u64;
    summary: Text "" "One sentence with the figures" = finding.summary.clone();
    fix: Text "" "The change that solves it, and its place" = finding.fix.clone();
}

/// A time or an evidence of a finding, by its place.
pub(crate) type PartRow = (FindingRow, usize);

/// The times of a connection's findings.
pub(crate) fn time_rows(trace: &Trace, connection: usize) -> Option<Vec<PartRow>> {
    parts(trace, connection, |finding| finding.times.len())
}

/// The evidence of a connection's findings.
pub(crate) fn evidence_rows(trace: &Trace, connection: usize) -> Option<Vec<PartRow>> {
    parts(trace, connection, |finding| finding.evidence.len())
}

fn parts(
    trace: &Trace,
    connection: usize,
    count: impl Fn(&Finding) -> usize,
) -> Option<Vec<PartRow>> {
    let findings = rows(trace, connection)?.into_iter();
    let parts = findings.flat_map(|row| (0..count(row.of(trace).1)).map(move |part| (row, part)));
    Some(parts.collect())
}

columns! {
    TimeColumns "finding_times", |trace, row: PartRow| {
        let (one, finding) = row.0.of(trace);
        let (start_ns, end_ns) = finding.times[row.1];
    }
    finding: Whole "" "Number of the finding in its trace" = row.0.number;
    connection: Whole "" "Number of the connection" = one.connection.id.0.into();
    flow: Whole "" "Flow in whose data it shows" = finding.flow.0.into();
    name: Word "" "Name of the rule" = finding.id.name();
    start_ns: Whole "ns" "Begin of a time that it cost, on the clock of the trace" = start_ns;
    start: Time "ns" "The same time since 1970 (UTC)" = trace.clock.at(start_ns);
    end_ns: Whole "ns" "End of that time" = end_ns;
    end: Time "ns" "The same time since 1970 (UTC)" = trace.clock.at(end_ns);
}

columns! {
    EvidenceColumns "evidence", |trace, row: PartRow| {
        let (one, finding) = row.0.of(trace);
        let evidence = &finding.evidence[row.1];
    }
    finding: Whole "" "Number of the finding in its trace" = row.0.number;
    connection: Whole "" "Number of the connection" = one.connection.id.0.into();
    flow: Whole "" "Flow in whose data it shows" = finding.flow.0.into();
    name: Word "" "Name of the rule" = finding.id.name();
    at_ns: Whole "ns" "Time of the record that proves it, on the clock of the trace" = evidence.at_ns;
    at: Time "ns" "The same time since 1970 (UTC)" = trace.clock.at(evidence.at_ns);
    text: Text "" "The event that was recorded, one line" = evidence.text.clone();
}
