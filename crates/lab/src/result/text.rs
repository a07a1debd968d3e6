//! Results as text for people: what was asked, on what it ran, then tables with units in their heads.

use std::io;

use super::{CaseResult, RunResult, Seen};
use crate::experiment::{Keep, word};

/// Columns to fill; lines of tables with many cases may be longer.
const WIDTH: usize = 96;

/// Writes `result`.
///
/// # Errors
///
/// When `out` fails.
pub fn write_text(result: &RunResult, out: &mut dyn io::Write) -> io::Result<()> {
    write_head(result, out)?;
    write_case_table(result, out)?;
    write_routines(result, out)?;
    for case in &result.cases {
        write_lists(result, case, out)?;
    }
    Ok(())
}

fn write_head(result: &RunResult, out: &mut dyn io::Write) -> io::Result<()> {
    let experiment = &result.experiment;
    writeln!(
        out,
        "{}: {} ({}, {})",
        experiment.id, experiment.title, experiment.paper, experiment.source
    )?;
    for line in wrapped(&experiment.question) {
        writeln!(out, "  {line}")?;
    }
    let runs = match experiment.repetitions {
        1 => "1 run".to_owned(),
        runs => format!("{runs} runs"),
    };
    writeln!(out, "  on the model, seed {}, {runs} of each case", experiment.seed)?;
    if let Some(case) = result.cases.first() {
        let fixed = &case.case.named[..case.case.named.len() - case.case.swept];
        let words: Vec<_> =
            fixed.iter().map(|(name, value)| format!("{name} {}", word(value))).collect();
        for line in wrapped(&words.join(", ")) {
            writeln!(out, "  {line}")?;
        }
    }
    for note in &experiment.notes {
        for (at, line) in wrapped(note).into_iter().enumerate() {
            writeln!(out, "  {} {line}", if at == 0 { "note:" } else { "     " })?;
        }
    }
    writeln!(out)
}

/// `text` in lines of at most [`WIDTH`] columns, an indent left free.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > WIDTH - 8 {
            lines.push(String::new());
        }
        let Some(line) = lines.last_mut() else { continue };
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}

/// One line a case: its parameters, then what was measured.
fn write_case_table(result: &RunResult, out: &mut dyn io::Write) -> io::Result<()> {
    let experiment = &result.experiment;
    let mut heads: Vec<&str> = Vec::new();
    if experiment.keeps(Keep::Time) {
        heads.extend(["calls", "mean ms", "min ms", "p50 ms", "p90 ms", "max ms"]);
    }
    if experiment.keeps(Keep::Throughput) {
        heads.extend(["bytes", "transfer ms", "Mbit/s"]);
    }
    if experiment.keeps(Keep::Packets) {
        heads.extend(["segments", "acks", "sent again"]);
    }
    if experiment.keeps(Keep::Measures) {
        let measures = result.cases.first().into_iter().flat_map(|case| &case.seen.measures);
        heads.extend(measures.map(|measure| measure.name));
    }
    if heads.is_empty() {
        return Ok(());
    }
    let mut rows = vec![heads.iter().map(|head| (*head).to_owned()).collect::<Vec<_>>()];
    let mut labels = vec!["case".to_owned()];
    for case in result.cases.iter().filter(|case| experiment.shows(&case.case)) {
        labels.push(case.case.words());
        rows.push(case_fields(&case.seen, result));
    }
    write_table(&labels, &rows, out)?;
    let (shown, all) = (rows.len() - 1, result.cases.len());
    if shown < all {
        writeln!(out, "{shown} of {all} cases; CSV and JSON have all")?;
    }
    Ok(())
}

fn case_fields(seen: &Seen, result: &RunResult) -> Vec<String> {
    let mut fields = Vec::new();
    let times = &seen.call_ns;
    if result.experiment.keeps(Keep::Time) {
        fields.push(times.n().to_string());
        let times = [
            times.mean_ns(),
            times.min_ns(),
            times.percentile_ns(50),
            times.percentile_ns(90),
            times.max_ns(),
        ];
        fields.extend(times.map(|ns| ns.map_or("?".to_owned(), millis)));
    }
    if result.experiment.keeps(Keep::Throughput) {
        fields.push(seen.bytes.to_string());
        fields.push(millis(seen.transfer_ns));
        let rate = seen.throughput_bits_per_s();
        fields.push(rate.map_or("?".to_owned(), |rate| format!("{:.3}", rate / 1e6)));
    }
    if result.experiment.keeps(Keep::Packets) {
        fields
            .extend([seen.segments, seen.acks, seen.retransmitted].map(|count| count.to_string()));
    }
    if result.experiment.keeps(Keep::Measures) {
        let measures = seen.measures.iter().map(|measure| measure.value());
        fields.extend(measures.map(|value| value.map_or("?".to_owned(), four_digits)));
    }
    fields
}

/// A number with four significant digits, or all of its whole ones.
fn four_digits(value: f64) -> String {
    let whole = if value == 0.0 { 1 } else { value.abs().log10().floor() as i32 + 1 };
    let decimals = (4 - whole).clamp(0, 6) as usize;
    format!("{value:.decimals$}")
}

fn millis(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

/// Tables of routines: one row each, one column a case.
fn write_routines(result: &RunResult, out: &mut dyn io::Write) -> io::Result<()> {
    let heads: Vec<_> = result.cases.iter().map(case_head).collect();
    let Some(first) = result.cases.first() else { return Ok(()) };
    if result.experiment.keeps(Keep::Calls) {
        let names = routine_names(result, |seen, name| seen.calls_of(name) > 0, &first.seen);
        let row = |name: &&str| {
            result.cases.iter().map(|case| case.seen.calls_of(name).to_string()).collect()
        };
        write_routine_table(
            "calls of",
            &heads,
            &names,
            &names.iter().map(row).collect::<Vec<_>>(),
            out,
        )?;
    }
    if result.experiment.keeps(Keep::Seconds) {
        let names = routine_names(result, |seen, name| seen.seconds_of(name) > 0.0, &first.seen);
        let row = |name: &&str| {
            result.cases.iter().map(|case| format!("{:.2}", case.seen.seconds_of(name))).collect()
        };
        write_routine_table(
            "seconds in",
            &heads,
            &names,
            &names.iter().map(row).collect::<Vec<_>>(),
            out,
        )?;
    }
    Ok(())
}

/// The names of the routines that did something in any case, in the model's order.
fn routine_names(
    result: &RunResult,
    did: impl Fn(&Seen, &str) -> bool,
    first: &Seen,
) -> Vec<&'static str> {
    let names = first.calls.iter().map(|(name, _)| *name);
    names.filter(|name| result.cases.iter().any(|case| did(&case.seen, name))).collect()
}

/// The values of what is swept, as a column's head.
fn case_head(case: &CaseResult) -> String {
    let swept = &case.case.named[case.case.named.len() - case.case.swept..];
    swept.iter().map(|(_, value)| word(value)).collect::<Vec<_>>().join(" ")
}

fn write_routine_table(
    title: &str,
    heads: &[String],
    names: &[&'static str],
    rows: &[Vec<String>],
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let mut labels = vec![title.to_owned()];
    labels.extend(names.iter().map(|name| (*name).to_owned()));
    let mut all = vec![heads.to_vec()];
    all.extend_from_slice(rows);
    write_table(&labels, &all, out)
}

/// Left-aligned labels, right-aligned fields, as wide as they must be; the first row is the head.
fn write_table(labels: &[String], rows: &[Vec<String>], out: &mut dyn io::Write) -> io::Result<()> {
    let label_width = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let columns = rows.first().map_or(0, Vec::len);
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns).map(width).collect();
    for (label, row) in labels.iter().zip(rows) {
        write!(out, "{label:<label_width$}")?;
        for (field, width) in row.iter().zip(&widths) {
            write!(out, "  {field:>width$}")?;
        }
        writeln!(out)?;
    }
    writeln!(out)
}

/// Wire trace and system calls of one case.
fn write_lists(result: &RunResult, case: &CaseResult, out: &mut dyn io::Write) -> io::Result<()> {
    let title = case.case.words();
    if result.experiment.keeps(Keep::Wire) {
        writeln!(out, "on the wire, {title}:")?;
        for row in &case.seen.wire {
            writeln!(out, "  {row}")?;
        }
        writeln!(out)?;
    }
    if result.experiment.keeps(Keep::SystemCalls) {
        writeln!(out, "system calls of the client, {title}:")?;
        for call in &case.seen.system_calls {
            let asked = if call.asked > 0 { call.asked.to_string() } else { String::new() };
            let at = millis(call.at_ns);
            writeln!(out, "  {at:>12} ms  {}({asked}) = {}", call.name, call.returned)?;
        }
        writeln!(out)?;
    }
    Ok(())
}
