//! A comparison as text, JSON (schema `sockscope.lab/1`) and CSV.

use std::io;

use serde_json::{Value, json};

use super::ID;
use super::measure::{Measured, Row, Times, median};
use crate::conditions::Conditions;

/// Writes a table: a line for each carrier, size and combination.
///
/// # Errors
///
/// When `out` fails.
pub fn write_text(measured: &Measured, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(
        out,
        "{ID}: functions over data in one loop, and one after the other, on this machine"
    )?;
    writeln!(
        out,
        "  CPU time of both ends for each KiB of data; medians of {} turns; control: separate passes once more\n",
        measured.plan.turns
    )?;
    writeln!(
        out,
        "{:<8} {:>9}  {:<20} {:>13} {:>13} {:>9} {:>9}",
        "carrier", "data B", "functions", "separate ns", "one loop ns", "ratio", "control"
    )?;
    for row in &measured.rows {
        let (carrier, name) = (row.carrier.name(), row.combination.name());
        write!(out, "{carrier:<8} {:>9}  {name:<20} ", row.data_bytes)?;
        match &row.outcome {
            Ok(times) => writeln!(
                out,
                "{:>13.1} {:>13.1} {:>7.2} x {:>7.2} x{}",
                median(&times.separate),
                median(&times.integrated),
                times.ratio(),
                times.control_ratio(),
                if times.is_clear() { "" } else { "  not clear" }
            )?,
            Err(reason) => writeln!(out, "{reason}")?,
        }
    }
    writeln!(out, "not clear: two equal forms differ as much as the two that are compared")?;
    let Conditions { machine, others, .. } = &measured.conditions;
    writeln!(out, "machine: {}; during the turns {}", machine.words(), others.words())
}

/// Writes one document.
///
/// # Errors
///
/// When `out` fails.
pub fn write_json(measured: &Measured, out: &mut dyn io::Write) -> io::Result<()> {
    let document = json!({
        "schema": "sockscope.lab/1",
        "experiment": ID,
        "on": "live",
        "seed": null,
        "machine": measured.conditions.machine.words(),
        "personality": null,
        "conditions": measured.conditions,
        "cases": measured.rows.iter().map(case).collect::<Vec<_>>(),
    });
    serde_json::to_writer_pretty(&mut *out, &document)?;
    out.write_all(b"\n")
}

fn case(row: &Row) -> Value {
    let results = row.outcome.as_ref().ok().map(|times| {
        json!({
            "separate_ns_per_kib": times.separate,
            "integrated_ns_per_kib": times.integrated,
            "control_ns_per_kib": times.control,
            "ratio": times.ratio(),
            "control_ratio": times.control_ratio(),
            "is_clear": times.is_clear(),
        })
    });
    json!({
        "parameters": {
            "carrier": row.carrier.name(),
            "data_bytes": row.data_bytes,
            "functions": row.combination.name(),
        },
        "repetitions": row.outcome.as_ref().map_or(0, |times| times.separate.len()),
        "results": results,
        "error": row.outcome.as_ref().err(),
    })
}

/// Writes a line for each case with times, in nanoseconds for each KiB.
///
/// # Errors
///
/// When `out` fails.
pub fn write_csv(measured: &Measured, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(
        out,
        "carrier,data_bytes,functions,separate_ns,integrated_ns,control_ns,ratio,control_ratio"
    )?;
    let with_times =
        |row: &Row| Some((row.carrier, row.data_bytes, row.combination, row.outcome.clone().ok()?));
    for (carrier, data_bytes, combination, times) in measured.rows.iter().filter_map(with_times) {
        let Times { separate, integrated, control } = &times;
        let [separate, integrated, control] = [separate, integrated, control].map(|it| median(it));
        let (carrier, functions) = (carrier.name(), combination.name());
        writeln!(
            out,
            "{carrier},{data_bytes},{functions},{separate:.2},{integrated:.2},{control:.2},{:.4},{:.4}",
            times.ratio(),
            times.control_ratio()
        )?;
    }
    Ok(())
}
