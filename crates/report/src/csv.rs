//! CSV (RFC 4180), tidy: one row per flow and stage, then one per flow and part of the ledger.
//!
//! Base units; a value that is unknown or does not apply is empty. A ledger row's stage is `ledger.` and
//! the part's name, as `ledger.send_queue.nagle`. Columns are described in
//! docs/reference/report.md.

use std::io::{self, Write};

use sockscope_analysis::{
    ConnectionAnalysis, FlowAnalysis, LedgerPart, StageAnalysis, Uncertainty,
};
use sockscope_render::number::rounded;

use crate::{Format, Report, ReportError};

/// Column heads, in order.
pub(crate) const COLUMNS: [&str; 27] = [
    "connection",
    "flow",
    "protocol",
    "client",
    "server",
    "from",
    "stage",
    "flow_bytes",
    "delay_count",
    "delay_ns_mean",
    "delay_ns_min",
    "delay_ns_p50",
    "delay_ns_p90",
    "delay_ns_p99",
    "delay_ns_max",
    "length_bytes_mean",
    "length_bytes_max",
    "residue_bytes",
    "resident_bytes",
    "unknown_intervals",
    "missed_records",
    "ledger_ns",
    "ledger_share",
    "byte_delay_ns",
    "flow_bytes_is_lower_bound",
    "length_bytes_max_is_lower_bound",
    "uncertainty_ns",
];

/// CSV with a head line.
#[derive(Debug, Clone, Copy, Default)]
pub struct Csv;

impl Format for Csv {
    fn write(&self, report: &Report<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
        report.check()?;
        writeln!(out, "{}", COLUMNS.join(","))?;
        let missed_records = report.analysis.facts.missed.total();
        for connection in report.connections() {
            for flow in report.flows(connection) {
                let key = flow_key(connection, flow);
                write_flow(&key, flow, missed_records, out)?;
            }
        }
        Ok(())
    }
}

/// The first fields of all rows of a flow. No field needs quotes: addresses and names have neither
/// commas nor quotes nor line ends.
fn flow_key(analysis: &ConnectionAnalysis, flow: &FlowAnalysis) -> String {
    let connection = &analysis.connection;
    format!(
        "{},{},{},{},{},{}",
        connection.id.0,
        flow.id,
        connection.protocol.name(),
        connection.end(sockscope_record::Side::Client),
        connection.end(sockscope_record::Side::Server),
        flow.id.direction().sender().name(),
    )
}

fn write_flow(
    key: &str,
    flow: &FlowAnalysis,
    missed_records: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    for stage in &flow.stages {
        let name = stage.stage.name();
        write!(out, "{key},{name},{},", flow.bytes)?;
        write_stage(stage, out)?;
        let byte_delay_ns = or_empty(stage.byte_delay_ns.and_then(rounded));
        let (bytes, max) = (flow.at_least.bytes, stage.unknown_intervals > 0);
        let max = or_empty(stage.length_bytes.map(|_| max));
        let uncertainty_ns = or_empty(stage.uncertainty.and_then(Uncertainty::at_most_ns));
        writeln!(out, ",{missed_records},,,{byte_delay_ns},{bytes},{max},{uncertainty_ns}")?;
    }
    for (part, ns) in LedgerPart::ALL.into_iter().zip(flow.ledger.ns) {
        let share = flow.ledger.share(part);
        let (name, bytes) = (part.name(), flow.bytes);
        let is_lower_bound = flow.at_least.bytes;
        write!(out, "{key},ledger.{name},{bytes},,,,,,,,,,,,,{missed_records},{ns},{share:.9},")?;
        let uncertainty = flow.ledger_uncertainty(part).and_then(Uncertainty::at_most_ns);
        writeln!(out, ",{is_lower_bound},,{}", or_empty(uncertainty))?;
    }
    Ok(())
}

fn write_stage(stage: &StageAnalysis, out: &mut dyn Write) -> io::Result<()> {
    match &stage.delay_ns {
        None => write!(out, ",,,,,,,")?,
        Some(delay) => write!(
            out,
            "{},{},{},{},{},{},{},",
            delay.count,
            or_empty(rounded(delay.mean)),
            delay.min,
            delay.p50,
            delay.p90,
            delay.p99,
            delay.max,
        )?,
    }
    match &stage.length_bytes {
        Some(length) if length.mean.is_finite() => {
            write!(out, "{:.3},{},", length.mean, length.max)?;
        }
        Some(length) => write!(out, ",{},", length.max)?,
        None => write!(out, ",,")?,
    }
    let residue = or_empty(stage.residue_bytes);
    let resident = or_empty(stage.resident_bytes);
    write!(out, "{residue},{resident},{}", stage.unknown_intervals)
}

fn or_empty(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use sockscope_record::Stage;

    use super::*;
    use crate::fixture::{self, stall, unknown_everything};
    use crate::{Options, Report};

    fn csv(analysis: &sockscope_analysis::Analysis) -> String {
        fixture::written(&Csv, analysis, &Options::default())
    }

    #[test]
    fn every_row_has_every_column() {
        for analysis in [stall(), unknown_everything(), fixture::many(30)] {
            for line in csv(&analysis).lines() {
                assert_eq!(line.split(',').count(), COLUMNS.len(), "{line}");
            }
        }
    }

    #[test]
    fn a_flow_is_its_eight_stages_then_its_ledger() {
        let text = csv(&stall());
        let stages: Vec<_> = text.lines().skip(1).map(|line| column(line, "stage")).collect();
        assert_eq!(stages[0], "send_queue");
        assert_eq!(stages[7], "total");
        assert_eq!(stages[8], "ledger.app_idle");
        assert_eq!(stages[7 + LedgerPart::ALL.len()], "ledger.unknown");
        assert_eq!(stages.len(), 2 * (8 + LedgerPart::ALL.len()));
    }

    #[test]
    fn unknown_is_empty_and_never_zero() {
        let text = csv(&unknown_everything());
        let first = text.lines().nth(1).unwrap();
        for unknown in ["delay_ns_p50", "length_bytes_mean", "residue_bytes"] {
            assert_eq!(column(first, unknown), "", "{unknown}");
        }
    }

    #[test]
    fn a_lower_bound_is_told_in_a_column_of_its_own() {
        let mut analysis = stall();
        let flow = &mut analysis.connections[0].flows[0];
        flow.at_least.bytes = true;
        flow.stages[1].unknown_intervals = 1;
        flow.stages[2].length_bytes = None;
        let text = csv(&analysis);
        let rows: Vec<_> = text.lines().skip(1).collect();
        let max = |row: usize| column(rows[row], "length_bytes_max_is_lower_bound");
        assert_eq!([max(0), max(1), max(2)], ["false", "true", ""]);
        assert!(rows[..8].iter().all(|row| column(row, "flow_bytes_is_lower_bound") == "true"));
        assert_eq!(column(rows.last().unwrap(), "flow_bytes_is_lower_bound"), "false");
    }

    #[test]
    fn times_between_two_hosts_have_their_error() {
        let mut analysis = stall();
        let flow = &mut analysis.connections[0].flows[0];
        flow.wire_intervals = 3;
        flow.stages[Stage::Wire as usize].uncertainty = Some(Uncertainty::AtMost(400));
        flow.stages[Stage::Total as usize].uncertainty = Some(Uncertainty::Unknown);
        let text = csv(&analysis);
        let rows = text.lines().skip(1).take(8 + LedgerPart::ALL.len());
        let errors: Vec<_> = rows
            .map(|row| (column(row, "stage"), column(row, "uncertainty_ns")))
            .filter(|(_, error)| !error.is_empty())
            .collect();
        assert_eq!(errors, [("wire", "400"), ("ledger.wire", "1200")]);
    }

    #[test]
    fn the_ledger_of_a_flow_adds_up_to_one() {
        let text = csv(&stall());
        let shares = text
            .lines()
            .skip(1)
            .take(8 + LedgerPart::ALL.len())
            .map(|line| column(line, "ledger_share"));
        let sum: f64 =
            shares.filter(|share| !share.is_empty()).map(|s| s.parse::<f64>().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    }

    #[test]
    fn one_flow_of_many_can_be_picked() {
        let options = Options { flow: Some(sockscope_record::FlowId(3)), ..Options::default() };
        let text = fixture::written(&Csv, &stall(), &options);
        assert!(text.lines().skip(1).all(|line| column(line, "flow") == "3"));
        assert_eq!(text.lines().count(), 1 + 8 + LedgerPart::ALL.len());
    }

    #[test]
    fn an_absent_flow_is_an_error_before_the_first_byte() {
        let options = Options { flow: Some(sockscope_record::FlowId(99)), ..Options::default() };
        let (analysis, origin) = (stall(), fixture::origin());
        let report = Report { origin: &origin, analysis: &analysis, options: &options };
        let mut out = Vec::new();
        let error = Csv.write(&report, &mut out).unwrap_err();
        assert_eq!(error.to_string(), "no flow 99 in this trace, which has flows 2 to 3");
        assert!(out.is_empty());
    }

    fn column<'a>(line: &'a str, name: &str) -> &'a str {
        let index = COLUMNS.iter().position(|&column| column == name).unwrap();
        line.split(',').nth(index).unwrap()
    }
}
