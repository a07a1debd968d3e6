//! A comparison as text, JSON (schema `sockscope.lab/1`) and CSV.

use std::io;

use serde_json::{Value, json};

use super::{Comparison, ID, Row};
use crate::conditions::Conditions;

/// What the model does not count.
pub(super) const LEFT_OUT: &str =
    "without the wire, acknowledgments, changes of process and costs of mbufs";

/// Writes a table: a line for each size and form, and how many times faster the path is.
///
/// # Errors
///
/// When `out` fails.
pub fn write_text(comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "{ID}: an echo call through layers and by one integrated path, on this machine")?;
    let plan = &comparison.plan;
    writeln!(
        out,
        "  CPU time of both ends there and back, without network; medians of {} turns of {} ms\n",
        plan.turns,
        plan.turn.as_millis()
    )?;
    writeln!(
        out,
        "{:>9}  {:<10} {:>6} {:>6} {:>11} {:>11} {:>9} {:>7}",
        "data B", "form", "reads", "writes", "p50 ns", "p90 ns", "MB/s", "faster"
    )?;
    for pair in comparison.rows.chunks(2) {
        for row in pair {
            write_row(row, faster(pair).filter(|_| row.form != pair[0].form), out)?;
        }
    }
    let Conditions { machine, others, .. } = &comparison.conditions;
    writeln!(out, "machine: {}; during the turns {}", machine.words(), others.words())
}

/// How many times the first row's median is the second's.
fn faster(pair: &[Row]) -> Option<f64> {
    let [first, second] = pair else { return None };
    let median = |row: &Row| row.call_ns.percentile_ns(50).filter(|&ns| ns > 0);
    Some(median(first)? as f64 / median(second)? as f64)
}

fn write_row(row: &Row, faster: Option<f64>, out: &mut dyn io::Write) -> io::Result<()> {
    let ns = |percent| row.call_ns.percentile_ns(percent);
    let text = |ns: Option<u64>| ns.map_or("?".to_owned(), |ns| ns.to_string());
    writeln!(
        out,
        "{:>9}  {:<10} {:>6} {:>6} {:>11} {:>11} {:>9} {:>7}",
        row.data_bytes,
        row.form,
        row.touches.reads,
        row.touches.writes,
        text(ns(50)),
        text(ns(90)),
        rate(row).map_or("?".to_owned(), |bytes_per_s| format!("{:.0}", bytes_per_s / 1e6)),
        faster.map_or(String::new(), |ratio| format!("{ratio:.2} x")),
    )
}

/// Bytes of data a second, both ways counted.
fn rate(row: &Row) -> Option<f64> {
    let ns = row.call_ns.percentile_ns(50).filter(|&ns| ns > 0)?;
    Some(2.0 * row.data_bytes as f64 * 1e9 / ns as f64)
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
        "cases": comparison.rows.iter().map(case).collect::<Vec<_>>(),
    });
    serde_json::to_writer_pretty(&mut *out, &document)?;
    out.write_all(b"\n")
}

fn case(row: &Row) -> Value {
    json!({
        "parameters": { "data_bytes": row.data_bytes, "form": row.form },
        "repetitions": row.call_ns.n(),
        "results": {
            "call_ns": row.call_ns,
            "reads_per_byte": row.touches.reads,
            "writes_per_byte": row.touches.writes,
        },
    })
}

/// Writes a line for each size and form, in base units.
///
/// # Errors
///
/// When `out` fails.
pub fn write_csv(comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "data_bytes,form,reads_per_byte,writes_per_byte,call_ns_p50,call_ns_p90")?;
    for row in &comparison.rows {
        let ns = |percent| row.call_ns.percentile_ns(percent).unwrap_or(0);
        let touches = row.touches;
        writeln!(
            out,
            "{},{},{},{},{},{}",
            row.data_bytes,
            row.form,
            touches.reads,
            touches.writes,
            ns(50),
            ns(90)
        )?;
    }
    Ok(())
}
