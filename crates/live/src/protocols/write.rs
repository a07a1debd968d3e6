//! A comparison as text, JSON (schema `sockscope.lab/1`) and CSV.

use std::io;

use serde_json::{Map, Value, json};
use sockscope_analysis::{Ledger, LedgerPart};

use super::{CaseLedger, Comparison, Figures, ID, Row};
use crate::conditions::Conditions;

/// Parts of the ledger that a line of text has room for.
const PARTS_SHOWN: usize = 3;

/// Writes a table: a line for each case.
///
/// # Errors
///
/// When `out` fails.
pub fn write_text(comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "{ID}: a call of each protocol on this machine, now")?;
    writeln!(
        out,
        "  loopback, one process, the median of {} turns of {} ms; ledger: of the time that request or response was under way\n",
        comparison.plan.repetitions,
        comparison.plan.slice.as_millis()
    )?;
    writeln!(
        out,
        "{:<8} {:>9} {:>7} {:>9} {:>9} {:>9} {:>10} {:>6} {:>9}  ledger",
        "proto", "message B", "clients", "p50 us", "p99 us", "mean us", "calls/s", "+-%", "Mbit/s"
    )?;
    for row in &comparison.rows {
        write_row(row, out)?;
    }
    for note in &comparison.notes {
        writeln!(out, "note: {note}")?;
    }
    let Conditions { machine, others, .. } = &comparison.conditions;
    writeln!(out, "machine: {}; during the turns {}", machine.words(), others.words())
}

fn write_row(row: &Row, out: &mut dyn io::Write) -> io::Result<()> {
    write!(out, "{:<8} {:>9} {:>7} ", row.protocol.name(), row.message_bytes, row.clients)?;
    let figures = match &row.outcome {
        Ok(figures) => figures,
        Err(why) => return writeln!(out, "{why}"),
    };
    let us = |ns: Option<u64>| ns.map_or("?".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e3));
    let call = &figures.call_ns;
    writeln!(
        out,
        "{:>9} {:>9} {:>9} {:>10.0} {:>6.0} {:>9.1}  {}",
        us(call.percentile_ns(50)),
        us(call.percentile_ns(99)),
        us(call.mean_ns()),
        figures.calls_per_s,
        spread_percent(figures),
        row.throughput_bits_per_s().unwrap_or(0.0) / 1e6,
        figures.ledger.as_ref().map_or("?".to_owned(), parts),
    )
}

/// Half of the distance from the slowest turn to the fastest, of the median.
fn spread_percent(figures: &Figures) -> f64 {
    match (figures.turns_per_s.first(), figures.turns_per_s.last()) {
        (Some(least), Some(most)) => (most - least) / 2.0 / figures.calls_per_s * 100.0,
        _ => f64::NAN,
    }
}

/// The largest shares of the time in which something was under way.
fn parts(ledger: &CaseLedger) -> String {
    let under_way = |part: &LedgerPart| *part != LedgerPart::AppIdle;
    let mut shares: Vec<(u64, String)> = Vec::new();
    for (way, ledger) in [(">", &ledger.request), ("<", &ledger.response)] {
        let parts = LedgerPart::ALL.into_iter().filter(under_way);
        shares
            .extend(parts.map(|part| (ledger.ns[part as usize], format!("{way}{}", part.name()))));
    }
    let total: u64 = shares.iter().map(|(ns, _)| ns).sum();
    shares.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let shown = shares.iter().filter(|(ns, _)| *ns > 0).take(PARTS_SHOWN);
    let share =
        |(ns, name): &(u64, String)| format!("{name} {:.0} %", *ns as f64 * 100.0 / total as f64);
    shown.map(share).collect::<Vec<_>>().join(", ")
}

/// Writes one document.
///
/// # Errors
///
/// When `out` fails.
pub fn write_json(comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
    let document = json!({
        "schema": "sockscope.lab/1",
        "experiment": ID,
        "on": "live",
        "seed": null,
        "machine": comparison.conditions.machine.words(),
        "personality": null,
        "conditions": comparison.conditions,
        "notes": comparison.notes,
        "cases": comparison.rows.iter().map(case).collect::<Vec<_>>(),
    });
    serde_json::to_writer_pretty(&mut *out, &document)?;
    out.write_all(b"\n")
}

fn case(row: &Row) -> Value {
    let results = match &row.outcome {
        Ok(figures) => results(row, figures),
        Err(why) => json!({ "not_run": why }),
    };
    json!({
        "parameters": {
            "protocol": row.protocol.name(),
            "message_bytes": row.message_bytes,
            "clients": row.clients,
            "topology": "loopback",
        },
        "repetitions": row.outcome.as_ref().map_or(0, |figures| figures.turns_per_s.len()),
        "results": results,
    })
}

fn results(row: &Row, figures: &Figures) -> Value {
    json!({
        "call_ns": figures.call_ns,
        "calls": figures.calls,
        "transactions_per_s": figures.calls_per_s,
        "turns_transactions_per_s": figures.turns_per_s,
        "throughput_bits_per_s": row.throughput_bits_per_s(),
        "ledger": figures.ledger.as_ref().map(|ledger| {
            json!({ "request": shares(&ledger.request), "response": shares(&ledger.response) })
        }),
        "recorded_ratio": figures.recorded_ratio,
    })
}

fn shares(ledger: &Ledger) -> Map<String, Value> {
    LedgerPart::ALL
        .into_iter()
        .map(|part| (part.name().into(), ledger.share(part).into()))
        .collect()
}

/// Writes a line for each case, in base units; an empty field is unknown.
///
/// # Errors
///
/// When `out` fails.
pub fn write_csv(comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(
        out,
        "protocol,message_bytes,clients,calls,call_ns_mean,call_ns_p50,call_ns_p90,call_ns_p99,transactions_per_s,throughput_bits_per_s"
    )?;
    for row in &comparison.rows {
        write!(out, "{},{},{}", row.protocol.name(), row.message_bytes, row.clients)?;
        let Ok(figures) = &row.outcome else {
            writeln!(out, ",,,,,,,")?;
            continue;
        };
        let call = &figures.call_ns;
        write!(out, ",{}", figures.calls)?;
        for ns in
            [call.mean_ns(), call.percentile_ns(50), call.percentile_ns(90), call.percentile_ns(99)]
        {
            write!(out, ",{}", ns.map_or(String::new(), |ns| ns.to_string()))?;
        }
        let bits = row.throughput_bits_per_s().unwrap_or(0.0);
        writeln!(out, ",{:.1},{bits:.0}", figures.calls_per_s)?;
    }
    Ok(())
}
