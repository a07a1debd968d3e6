//! The outcome of all checks: schema `sockscope.claims/1`, and text for people.

use std::io;

use serde::Serialize;
use sockscope_experiment::result::wrapped;

use super::{Checked, Shown, Verdict};

/// Name and version of the form.
const SCHEMA: &str = "sockscope.claims/1";

/// Columns of a line of notes.
const WIDTH: usize = 100;

/// Writes the outcome as one JSON document.
///
/// # Errors
///
/// When `out` fails.
pub fn write_json(checked: &[Checked], out: &mut dyn io::Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &Document::new(checked))?;
    out.write_all(b"\n")
}

/// Writes the outcome as text: one line a claim, what differs and why it cannot be checked below it,
/// a summary last.
///
/// # Errors
///
/// When `out` fails.
pub fn write_text(checked: &[Checked], out: &mut dyn io::Write) -> io::Result<()> {
    let width = checked.iter().map(|it| it.claim.id.len()).max().unwrap_or(0);
    for one in checked {
        let (claim, comparison) = (&one.claim, &one.comparison);
        let role = claim.role.name();
        writeln!(out, "{:<13}  {:<width$}  {role}", comparison.verdict.name(), claim.id)?;
        if comparison.verdict == Verdict::NotCheckable {
            write_wrapped(&comparison.note, out)?;
            continue;
        }
        let unit = claim.unit.as_deref().filter(|_| matches!(comparison.got, Shown::Numbers(_)));
        let unit = unit.map(|unit| format!(" ({unit})")).unwrap_or_default();
        let (expected, got) = (words(&comparison.expected), words(&comparison.got));
        if comparison.verdict == Verdict::Differs {
            write_wrapped(&claim.statement, out)?;
        }
        write_wrapped(&format!("paper {expected}; model {got}{unit}"), out)?;
        if !comparison.note.is_empty() {
            write_wrapped(&comparison.note, out)?;
        }
    }
    let [reproduced, differs, not_checkable] = counts(checked);
    let differ = if differs == 1 { "differs" } else { "differ" };
    writeln!(out)?;
    writeln!(
        out,
        "{} claims: {reproduced} reproduced, {differs} {differ}, {not_checkable} not checkable",
        checked.len()
    )?;
    if differs > 0 {
        writeln!(out, "What differs is explained in docs/fidelity.md.")?;
    }
    Ok(())
}

fn write_wrapped(text: &str, out: &mut dyn io::Write) -> io::Result<()> {
    const INDENT: usize = 15;
    let mut lines = wrapped(text, WIDTH - INDENT).into_iter().filter(|line| !line.is_empty());
    lines.try_for_each(|line| writeln!(out, "{:INDENT$}{line}", ""))
}

fn words(shown: &Shown) -> String {
    match shown {
        Shown::Nothing => "?".to_owned(),
        Shown::Words(words) => words.clone(),
        Shown::Numbers(numbers) => {
            numbers.iter().map(|number| rounded(*number)).collect::<Vec<_>>().join(", ")
        }
    }
}

/// Whole numbers whole, others with four significant digits.
fn rounded(number: f64) -> String {
    if number.fract() == 0.0 || !number.is_finite() {
        return format!("{number}");
    }
    let whole_digits = number.abs().log10().floor().max(0.0) as usize + 1;
    format!("{number:.*}", 4_usize.saturating_sub(whole_digits).max(1))
}

/// How many claims have each verdict, in the order of [`Verdict`].
fn counts(checked: &[Checked]) -> [usize; 3] {
    [Verdict::Reproduced, Verdict::Differs, Verdict::NotCheckable]
        .map(|verdict| checked.iter().filter(|it| it.comparison.verdict == verdict).count())
}

/// The document.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(title = SCHEMA))]
struct Document<'a> {
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    schema: &'static str,
    claims: Vec<ClaimView<'a>>,
    summary: Summary,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ClaimView<'a> {
    id: &'a str,
    verdict: &'static str,
    on: &'static str,
    role: &'static str,
    unit: Option<&'a str>,
    expected: ShownView<'a>,
    got: ShownView<'a>,
    note: &'a str,
}

/// A single number stands alone; what is not a number is null.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum ShownView<'a> {
    One(Option<f64>),
    Words(&'a str),
    Numbers(Vec<Option<f64>>),
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Summary {
    reproduced: usize,
    differs: usize,
    not_checkable: usize,
}

impl<'a> Document<'a> {
    fn new(checked: &'a [Checked]) -> Self {
        let [reproduced, differs, not_checkable] = counts(checked);
        let claim = |Checked { claim, comparison }: &'a Checked| ClaimView {
            id: &claim.id,
            verdict: comparison.verdict.name(),
            on: "model",
            role: claim.role.name(),
            unit: claim.unit.as_deref(),
            expected: shown(&comparison.expected),
            got: shown(&comparison.got),
            note: &comparison.note,
        };
        Self {
            schema: SCHEMA,
            claims: checked.iter().map(claim).collect(),
            summary: Summary { reproduced, differs, not_checkable },
        }
    }
}

fn shown(shown: &Shown) -> ShownView<'_> {
    let finite = |number: &f64| Some(*number).filter(|number| number.is_finite());
    match shown {
        Shown::Nothing => ShownView::One(None),
        Shown::Words(words) => ShownView::Words(words),
        Shown::Numbers(numbers) => match numbers.as_slice() {
            [one] => ShownView::One(finite(one)),
            all => ShownView::Numbers(all.iter().map(finite).collect()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_file_is_that_of_the_types() {
        let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<Document<'_>>();
        let expected = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/schemas/claims.json");
        if std::env::var_os("SOCKSCOPE_UPDATE").is_some() {
            std::fs::write(path, &expected).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == expected, "run SOCKSCOPE_UPDATE=1 cargo test -p sockscope-claims schema");
    }
}
