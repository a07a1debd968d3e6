//! The comparison as CSV (RFC 4180) in long form: a row for each role, run and measure.
//!
//! Base units; unknown values are empty. The columns are described in docs/reference/compare.md.

use std::io::{self, Write};

use sockscope_analysis::LedgerPart;
use sockscope_record::Direction;

use super::comparison::Comparison;
use super::group::Group;
use super::role::Role;
use crate::ReportError;

/// Writes the comparison as CSV with a head line.
///
/// # Errors
///
/// [`ReportError::Write`] when `out` fails.
pub fn write_compare_csv(comparison: &Comparison, out: &mut dyn Write) -> Result<(), ReportError> {
    writeln!(out, "row,protocol,client,server,server_port,run,measure,value")?;
    for (row, matched) in comparison.rows.iter().enumerate() {
        for (run, group) in comparison.runs.iter().zip(&matched.groups) {
            if let Some((role, group)) = group {
                let key = format!("{row},{},{}", role_key(role), quoted(&run.name));
                write_group(&key, group, out)?;
            }
        }
    }
    Ok(())
}

fn role_key(role: &Role) -> String {
    let (client, server) = (quoted(&role.client), quoted(&role.server));
    let port = role.server_port.map(|port| port.to_string()).unwrap_or_default();
    format!("{},{client},{server},{port}", role.protocol.name())
}

fn write_group(key: &str, group: &Group, out: &mut dyn Write) -> io::Result<()> {
    let mut line = |measure: &str, value: Option<u64>| {
        let value = value.map(|value| value.to_string()).unwrap_or_default();
        writeln!(out, "{key},{measure},{value}")
    };
    line("connections", Some(group.connections))?;
    let exchanges = group.exchanges();
    line("exchanges", Some(group.times_ns.len() as u64))?;
    line("exchanges_left_out", Some(group.left_out))?;
    line("exchange_ns_p50", exchanges.map(|times| times.p50))?;
    line("exchange_ns_p90", exchanges.map(|times| times.p90))?;
    line("exchange_ns_p99", exchanges.map(|times| times.p99))?;
    line("exchange_ns_max", exchanges.map(|times| times.max))?;
    for direction in [Direction::FromClient, Direction::FromServer] {
        let (flow, from) = (&group.flows[direction as usize], direction.sender().name());
        line(&format!("bytes.{from}"), Some(flow.bytes))?;
        let median = sockscope_record::statistics::percentile(&flow.throughputs, 50);
        line(&format!("throughput_bytes_per_s_p50.{from}"), median)?;
        for (part, ns) in LedgerPart::ALL.into_iter().zip(flow.ledger.ns) {
            line(&format!("ledger_ns.{from}.{}", part.name()), Some(ns))?;
        }
    }
    for (id, sum) in &group.findings {
        line(&format!("finding_count.{}", id.name()), Some(sum.count))?;
        line(&format!("finding_cost_ns.{}", id.name()), Some(sum.cost_ns))?;
    }
    Ok(())
}

/// A field in quotes, where it needs them; a terminal can show it.
fn quoted(text: &str) -> String {
    let text = crate::printable(text);
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}
