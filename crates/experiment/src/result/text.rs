//! Results as text for people: what was asked, on what it ran, then tables with units in their heads.

use std::io;

use super::sends::write_sends;
use super::table::{Series, Table, parameters};
use super::{CaseResult, RunResult};
use crate::measurement::Measurement;
use crate::{Keep, word};
use sockscope_record::counted;

/// Columns that sentences fill.
const WIDTH: usize = 88;

/// Writes `result`.
///
/// # Errors
///
/// When `out` fails.
pub fn write_text(result: &RunResult, out: &mut dyn io::Write) -> io::Result<()> {
    write_head(result, out)?;
    write_cases(result, out)?;
    write_tables(result, out)?;
    for case in &result.cases {
        write_lists(result, case, out)?;
    }
    Ok(())
}

/// Writes the tables of a sender's routines, or of its layers on a kernel; nothing where the result has none.
///
/// # Errors
///
/// When `out` fails.
pub fn write_tables(result: &RunResult, out: &mut dyn io::Write) -> io::Result<()> {
    write_routines(result, out)?;
    write_sends(result, out)
}

fn write_head(result: &RunResult, out: &mut dyn io::Write) -> io::Result<()> {
    let experiment = &result.experiment;
    writeln!(
        out,
        "{}: {} ({}, {})",
        experiment.id, experiment.title, experiment.paper, experiment.source
    )?;
    for line in wrapped(&experiment.question, WIDTH) {
        writeln!(out, "  {line}")?;
    }
    let runs = counted(experiment.repetitions.into(), "run");
    match &result.kernel {
        None => writeln!(out, "  on the model, seed {}, {runs} of each case", experiment.seed)?,
        Some(kernel) => {
            let words = format!("on {}, {runs} of each case", kernel.machine);
            wrapped(&words, WIDTH).iter().try_for_each(|line| writeln!(out, "  {line}"))?;
        }
    }
    if let Some(case) = result.cases.first() {
        let fixed = &case.case.named[..case.case.named.len() - case.case.swept];
        let words: Vec<_> =
            fixed.iter().map(|(name, value)| format!("{name} {}", word(value))).collect();
        for line in wrapped(&words.join(", "), WIDTH) {
            writeln!(out, "  {line}")?;
        }
    }
    let of_kernel = result.kernel.as_ref().map_or(&[][..], |kernel| &kernel.notes);
    for note in experiment.notes.iter().chain(of_kernel) {
        for (at, line) in wrapped(note, WIDTH).into_iter().enumerate() {
            writeln!(out, "  {} {line}", if at == 0 { "note:" } else { "     " })?;
        }
    }
    writeln!(out)
}

fn write_wrapped(text: &str, out: &mut dyn io::Write) -> io::Result<()> {
    wrapped(text, WIDTH).into_iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// `text` in lines of at most so many columns; a longer word has a line of its own.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > columns {
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

/// The numbers of each case that is shown; those that are the same in all cases stand apart.
fn write_cases(result: &RunResult, out: &mut dyn io::Write) -> io::Result<()> {
    let shown: Vec<_> =
        result.cases.iter().filter(|case| result.experiment.shows(&case.case)).collect();
    let fields: Vec<_> = shown.iter().map(|case| case_fields(&case.measured, result)).collect();
    let of_head = |(at, head): (usize, &str)| Series {
        name: head.to_owned(),
        values: fields.iter().map(|case| case[at].clone()).collect(),
    };
    let heads = case_heads(result).into_iter().enumerate().map(of_head);
    let (mut numbers, mut same): (Vec<_>, Vec<_>) = heads.partition(Series::varies);
    if numbers.is_empty() {
        std::mem::swap(&mut numbers, &mut same);
    }
    let table = Table { parameters: parameters(&shown), numbers, ..Table::default() };
    table.write(out)?;
    let same: Vec<_> =
        same.iter().map(|series| format!("{} {}", series.name, series.values[0])).collect();
    if !same.is_empty() {
        write_wrapped(&format!("the same in all cases: {}", same.join(", ")), out)?;
        writeln!(out)?;
    }
    if shown.len() < result.cases.len() {
        let all = result.cases.len();
        writeln!(out, "{} of {all} cases; CSV and JSON have all", shown.len())?;
    }
    Ok(())
}

/// The names of what [`case_fields`] gives.
fn case_heads(result: &RunResult) -> Vec<&str> {
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
        let measures = result.cases.first().into_iter().flat_map(|case| &case.measured.measures);
        heads.extend(measures.map(|measure| measure.name));
    }
    heads
}

fn case_fields(measured: &Measurement, result: &RunResult) -> Vec<String> {
    let mut fields = Vec::new();
    let times = &measured.call_ns;
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
        fields.push(measured.bytes.to_string());
        fields.push(millis(measured.transfer_ns));
        let rate = measured.throughput_bits_per_s();
        fields.push(rate.map_or("?".to_owned(), |rate| format!("{:.3}", rate / 1e6)));
    }
    if result.experiment.keeps(Keep::Packets) {
        fields.extend(
            [measured.segments, measured.acks, measured.retransmitted]
                .map(|count| count.to_string()),
        );
    }
    if result.experiment.keeps(Keep::Measures) {
        let measures = measured.measures.iter().map(|measure| measure.value());
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
    let calls = |measured: &Measurement, name: &str| match measured.calls_of(name) {
        0 => None,
        calls => Some(calls.to_string()),
    };
    let seconds = |measured: &Measurement, name: &str| {
        Some(measured.seconds_of(name)).filter(|s| *s > 0.0).map(|s| format!("{s:.2}"))
    };
    if result.experiment.keeps(Keep::Calls) {
        routine_table(result, "calls of", "0", calls).write_by_name(out)?;
    }
    if result.experiment.keeps(Keep::Seconds) {
        routine_table(result, "seconds in", "0.00", seconds).write_by_name(out)?;
    }
    Ok(())
}

/// The routines of which any case has something, in the model's order.
fn routine_table(
    result: &RunResult,
    title: &str,
    nothing: &str,
    number: impl Fn(&Measurement, &str) -> Option<String>,
) -> Table {
    let cases: Vec<_> = result.cases.iter().collect();
    let names = cases.first().into_iter().flat_map(|case| &case.measured.calls);
    let of_name = |(name, _): &(&'static str, u64)| {
        let values: Vec<_> = cases.iter().map(|case| number(&case.measured, name)).collect();
        values.iter().any(Option::is_some).then(|| Series {
            name: (*name).to_owned(),
            values: values.into_iter().map(|it| it.unwrap_or_else(|| nothing.into())).collect(),
        })
    };
    let numbers = names.filter_map(of_name).collect();
    Table { title: title.into(), parameters: parameters(&cases), numbers }
}

/// Wire trace and system calls of one case.
fn write_lists(result: &RunResult, case: &CaseResult, out: &mut dyn io::Write) -> io::Result<()> {
    let title = case.case.words();
    if result.experiment.keeps(Keep::Wire) {
        writeln!(out, "on the wire, {title}:")?;
        for row in &case.measured.wire {
            writeln!(out, "  {row}")?;
        }
        writeln!(out)?;
    }
    if result.experiment.keeps(Keep::SystemCalls) {
        writeln!(out, "system calls of the client, {title}:")?;
        for call in &case.measured.system_calls {
            let asked = if call.asked > 0 { call.asked.to_string() } else { String::new() };
            let at = millis(call.at_ns);
            writeln!(out, "  {at:>12} ms  {}({asked}) = {}", call.name, call.returned)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;

    /// Two variants that differ in different things.
    const FILE: &str = r#"
id = "variants"
title = "Variants"
paper = "bsd-buffers"
source = "none"
question = "What stands where?"
feeds = []
workload = "send"
seed = 1
repetitions = 1
record = ["throughput"]

[parameters]
machine = "vax-11-750"
personality = "4.2bsd-cabrera"
messages = 1
protocol = "tcp"

[[variant]]
profiling = true

[[variant]]
link = "line-3"
link_delay_us = 100

[sweep]
message_bytes = [1, 2]
"#;

    #[test]
    fn each_value_stands_under_its_own_name() {
        let experiment = Experiment::parse("variants.toml", FILE).unwrap();
        let cases = experiment.cases().unwrap();
        let cases: Vec<_> = cases
            .into_iter()
            .map(|case| CaseResult {
                case,
                measured: Measurement { bytes: 1, ..Measurement::default() },
            })
            .collect();
        let named: Vec<_> = parameters(&cases.iter().collect::<Vec<_>>())
            .into_iter()
            .map(|series| format!("{}: {}", series.name, series.values.join(" ")))
            .collect();
        assert_eq!(
            named,
            [
                "profiling: true true - -",
                "message_bytes: 1 2 1 2",
                "link: - - line-3 line-3",
                "link_delay_us: - - 100 100",
            ]
        );
    }
}
