//! What a kernel says to the claims: schema `sockscope.claims-live/1`, and text for people.

use std::io;
use std::time::Duration;

use serde::Serialize;
use sockscope_experiment::result::wrapped;

use super::{Interval, Judged, JudgedClaim, JudgingRun, LiveVerdict};

/// Name and version of the form.
const SCHEMA: &str = "sockscope.claims-live/1";
/// Columns of a line of notes.
const WIDTH: usize = 100;

/// Writes the outcome as one JSON document. `machine` is that of the runs, in words.
///
/// # Errors
///
/// When `out` fails.
pub fn write_live_json(judged: &Judged, machine: &str, out: &mut dyn io::Write) -> io::Result<()> {
    let Judged { claims: judged, runs } = judged;
    let claims = judged.iter().map(|one| ClaimView {
        id: &one.claim.id,
        verdict: one.verdict.name(),
        expected: one.expected().name(),
        is_surprise: one.is_surprise(),
        value: one.value,
        values: &one.values,
        interval: one.interval.map(|interval| [interval.least, interval.most]),
        words: &one.words,
        run: &one.run,
    });
    let [holds, changed, gone, not_judged] = counts(judged);
    let surprises = judged.iter().filter(|one| one.is_surprise()).count();
    let summary = Summary { holds, changed, gone, not_judged, surprises };
    let runs = runs.iter().map(|one| RunView {
        run: &one.run,
        times: one.times,
        seconds: one.took.as_secs_f64(),
    });
    let document = Document {
        schema: SCHEMA,
        on: "live",
        machine,
        claims: claims.collect(),
        runs: runs.collect(),
        summary,
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    out.write_all(b"\n")
}

/// Writes the outcome as text: for each claim its verdict, the number and the run, then how long each run took, a
/// summary last.
///
/// # Errors
///
/// When `out` fails.
pub fn write_live_text(judged: &Judged, machine: &str, out: &mut dyn io::Write) -> io::Result<()> {
    let Judged { claims: judged, runs } = judged;
    let width = judged.iter().map(|one| one.claim.id.len()).max().unwrap_or(0);
    for one in judged {
        let id = &one.claim.id;
        let expected = match one.is_surprise() {
            true => format!("  the register expects: {}", one.expected().name()),
            false => String::new(),
        };
        let line = format!("{:<10}  {id:<width$}{expected}", one.verdict.name());
        writeln!(out, "{}", line.trim_end())?;
        if one.is_surprise() {
            write_wrapped(&one.claim.statement, out)?;
        }
        let value = one.value.map(|value| format!(": {}", rounded(value))).unwrap_or_default();
        let value = match one.interval.filter(|interval| interval.least < interval.most) {
            Some(Interval { least, most }) => {
                format!("{value} ({} to {})", rounded(least), rounded(most))
            }
            None => value,
        };
        write_wrapped(&format!("{}{value}", one.words), out)?;
        if !one.run.is_empty() {
            write_wrapped(&one.run, out)?;
        }
    }
    write_runs(runs, out)?;
    let [holds, changed, gone, not_judged] = counts(judged);
    let surprises = judged.iter().filter(|one| one.is_surprise()).count();
    writeln!(
        out,
        "\n{} claims on {machine}: {holds} hold, {changed} changed, {gone} gone, {not_judged} not judged",
        judged.len()
    )?;
    if surprises > 0 {
        writeln!(
            out,
            "{surprises} otherwise than the register expects; docs/fidelity.md explains them."
        )?;
    }
    Ok(())
}

/// The longest first.
fn write_runs(runs: &[JudgingRun], out: &mut dyn io::Write) -> io::Result<()> {
    let all: Duration = runs.iter().map(|one| one.took).sum();
    writeln!(out, "\n{:>9} {:>6}  run", "seconds", "times")?;
    let mut sorted: Vec<&JudgingRun> = runs.iter().collect();
    sorted.sort_by_key(|one| std::cmp::Reverse(one.took));
    for JudgingRun { run, took, times } in sorted {
        writeln!(out, "{:>9.1} {times:>6}  {run}", took.as_secs_f64())?;
    }
    writeln!(out, "{:>9.1}         all runs", all.as_secs_f64())
}

fn write_wrapped(text: &str, out: &mut dyn io::Write) -> io::Result<()> {
    const INDENT: usize = 12;
    let mut lines = wrapped(text, WIDTH - INDENT).into_iter().filter(|line| !line.is_empty());
    lines.try_for_each(|line| writeln!(out, "{:INDENT$}{line}", ""))
}

/// Four significant digits.
fn rounded(number: f64) -> String {
    if number.fract() == 0.0 {
        return format!("{number}");
    }
    let whole_digits = number.abs().log10().floor().max(0.0) as usize + 1;
    format!("{number:.*}", 4_usize.saturating_sub(whole_digits).max(1))
}

/// How many claims have each verdict, in the order of [`LiveVerdict`].
fn counts(judged: &[JudgedClaim]) -> [usize; 4] {
    LiveVerdict::ALL.map(|verdict| judged.iter().filter(|one| one.verdict == verdict).count())
}

/// The document.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(title = SCHEMA))]
struct Document<'a> {
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    schema: &'static str,
    on: &'static str,
    /// The machine, in words.
    machine: &'a str,
    claims: Vec<ClaimView<'a>>,
    /// Runs of experiments, in the order of their first claims.
    runs: Vec<RunView<'a>>,
    summary: Summary,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ClaimView<'a> {
    id: &'a str,
    /// `holds`, `changed`, `gone` or `not-judged`.
    verdict: &'static str,
    /// The same, by the register.
    expected: &'static str,
    is_surprise: bool,
    /// The median of `values`.
    value: Option<f64>,
    /// What was read each time.
    values: &'a [f64],
    /// Where the value is expected: the interval of confidence of the mean (95 %), of ratios the geometric one, and all values.
    interval: Option<[f64; 2]>,
    /// What the value is, or why nothing is judged.
    words: &'a str,
    /// The command line of the run; empty without one.
    run: &'a str,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RunView<'a> {
    /// The command line of the run.
    run: &'a str,
    /// How often it was run.
    times: usize,
    /// How long all times took together.
    seconds: f64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Summary {
    holds: usize,
    changed: usize,
    gone: usize,
    not_judged: usize,
    surprises: usize,
}

#[cfg(test)]
mod tests {
    use super::super::judge;
    use super::*;

    #[test]
    fn the_schema_file_is_that_of_the_types() {
        let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<Document<'_>>();
        let expected = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/claims-live.json");
        if std::env::var_os("SOCKSCOPE_UPDATE").is_some() {
            std::fs::write(path, &expected).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == expected, "run SOCKSCOPE_UPDATE=1 cargo test -p sockscope-claims schema");
    }

    #[test]
    fn both_forms_have_the_reason_of_what_is_not_judged() {
        let judged =
            judge(None, &mut |_, _| Err("no right to make a namespace".to_owned())).unwrap();
        let (mut text, mut json) = (Vec::new(), Vec::new());
        write_live_text(&judged, "Linux 6.18", &mut text).unwrap();
        write_live_json(&judged, "Linux 6.18", &mut json).unwrap();
        let text = String::from_utf8(text).unwrap();
        let last = "66 claims on Linux 6.18: 0 hold, 0 changed, 0 gone, 66 not judged\n";
        assert!(text.ends_with(last), "{text}");
        assert!(text.contains("no right to make a namespace"), "{text}");
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!((&json["summary"]["not_judged"], &json["on"]), (&66.into(), &"live".into()));
        // A run that fails is not made again.
        let first = &json["runs"][0];
        assert_eq!(
            (&first["run"], &first["times"]),
            (&"lab run si-2a --on live".into(), &1.into())
        );
        assert!(
            first["seconds"].is_number() && text.contains("1  lab run si-2a --on live"),
            "{text}"
        );
    }
}
