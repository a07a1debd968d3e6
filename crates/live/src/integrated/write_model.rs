//! What the model gave as text, JSON (schema `sockscope.lab/1`) and CSV.

use std::io;

use serde_json::{Value, json};

use super::model::{ModelRow, Modelled};
use super::work::Pass;
use super::{ID, write::LEFT_OUT};

/// Writes a table: a line for each size and form, and how many times faster the path is.
///
/// # Errors
///
/// When `out` fails.
pub fn write_model_text(modelled: &Modelled, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "{ID}: an echo call through layers and by one integrated path, in the model")?;
    writeln!(
        out,
        "  {}: CPU of both ends, there and back; passes counted as they were made",
        modelled.machine
    )?;
    writeln!(out, "  {LEFT_OUT}\n")?;
    writeln!(
        out,
        "{:>9}  {:<10} {:>7} {:>8} {:>6} {:>9} {:>9} {:>18} {:>14}",
        "data B",
        "form",
        "reads/B",
        "writes/B",
        "sums/B",
        "syscalls",
        "segments",
        "CPU us",
        "faster"
    )?;
    for pair in modelled.rows.chunks(2) {
        for row in pair {
            let faster = pair.first().filter(|first| first.form != row.form);
            write_row(row, faster, out)?;
        }
    }
    writeln!(out, "\nnothing was lost: the model counts every pass")
}

fn write_row(
    row: &ModelRow,
    layered: Option<&ModelRow>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let us = |ns: u64| ns as f64 / 1e3;
    let cpu = match (row.cpu_ns_min, row.cpu_ns_max) {
        (min, max) if min == max => format!("{:.0}", us(min)),
        (min, max) => format!("{:.0} to {:.0}", us(min), us(max)),
    };
    let ratio = |other_ns: u64, layered_ns: u64| layered_ns as f64 / other_ns.max(1) as f64;
    let faster = layered.map_or(String::new(), |layered| {
        let from = ratio(row.cpu_ns_max, layered.cpu_ns_min);
        format!("{from:.2} to {:.2} x", ratio(row.cpu_ns_min, layered.cpu_ns_min))
    });
    writeln!(
        out,
        "{:>9}  {:<10} {:>7.2} {:>8.2} {:>6.2} {:>9} {:>9} {:>18} {:>14}",
        row.data_bytes,
        row.form,
        per_byte(row, row.work.read_bytes()),
        per_byte(row, row.work.written_bytes()),
        per_byte(row, row.work.summed_bytes()),
        row.work.system_calls(),
        row.segments,
        cpu,
        faster,
    )
}

/// Of each byte of the data, both ways.
fn per_byte(row: &ModelRow, bytes: u64) -> f64 {
    bytes as f64 / (2 * row.data_bytes.max(1)) as f64
}

/// Writes one document.
///
/// # Errors
///
/// When `out` fails.
pub fn write_model_json(modelled: &Modelled, out: &mut dyn io::Write) -> io::Result<()> {
    let document = json!({
        "schema": "sockscope.lab/1",
        "experiment": ID,
        "on": "model",
        "seed": null,
        "machine": modelled.machine,
        "personality": null,
        "notes": [LEFT_OUT],
        "cases": modelled.rows.iter().map(case).collect::<Vec<_>>(),
    });
    serde_json::to_writer_pretty(&mut *out, &document)?;
    out.write_all(b"\n")
}

fn case(row: &ModelRow) -> Value {
    let passes = Pass::ALL.into_iter().map(|pass| {
        let count = row.work.of(pass);
        (pass.name().to_owned(), json!({ "passes": count.passes, "bytes": count.bytes }))
    });
    json!({
        "parameters": { "data_bytes": row.data_bytes, "form": row.form },
        "repetitions": 1,
        "results": {
            "cpu_ns_min": row.cpu_ns_min,
            "cpu_ns_max": row.cpu_ns_max,
            "read_bytes": row.work.read_bytes(),
            "written_bytes": row.work.written_bytes(),
            "summed_bytes": row.work.summed_bytes(),
            "system_calls": row.work.system_calls(),
            "segments": row.segments,
            "passes": passes.collect::<serde_json::Map<_, _>>(),
        },
    })
}

/// Writes a line for each size and form, in base units.
///
/// # Errors
///
/// When `out` fails.
pub fn write_model_csv(modelled: &Modelled, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(
        out,
        "machine,data_bytes,form,read_bytes,written_bytes,summed_bytes,system_calls,segments,cpu_ns_min,cpu_ns_max"
    )?;
    for row in &modelled.rows {
        let (work, machine) = (&row.work, &modelled.machine);
        writeln!(
            out,
            "{machine},{},{},{},{},{},{},{},{},{}",
            row.data_bytes,
            row.form,
            work.read_bytes(),
            work.written_bytes(),
            work.summed_bytes(),
            work.system_calls(),
            row.segments,
            row.cpu_ns_min,
            row.cpu_ns_max,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::integrated::{ModelPlan, model};

    fn written(write: fn(&Modelled, &mut dyn io::Write) -> io::Result<()>) -> String {
        let plan = ModelPlan { data_bytes: vec![4800], ..ModelPlan::default() };
        let mut out = Vec::new();
        write(&model(&plan).unwrap(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn all_forms_of_output_say_the_same_counts() {
        let csv = written(write_model_csv);
        assert!(csv.contains("\nsparcstation-1,4800,layered,77"), "{csv}");
        let json: Value = serde_json::from_str(&written(write_model_json)).unwrap();
        let passes = &json["cases"][1]["results"]["passes"];
        assert_eq!(passes["send"], json!({ "passes": 8, "bytes": 9688 }));
        assert_eq!(passes["encode"]["passes"], 0);
        let text = written(write_model_text);
        assert!(
            text.lines().any(|line| line.contains("integrated") && line.ends_with(" x")),
            "{text}"
        );
    }
}
