//! The outcome of all checks: schema `sockscope.claims/1`, and text for people.

use std::io;

use serde::ser::{Serialize, SerializeMap, Serializer};

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
    serde_json::to_writer_pretty(&mut *out, &Outcome(checked))?;
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
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && INDENT + line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(out, "{:INDENT$}{line}", "")?;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if line.is_empty() { Ok(()) } else { writeln!(out, "{:INDENT$}{line}", "") }
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

struct Outcome<'a>(&'a [Checked]);

impl Serialize for Outcome<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(3))?;
        map.serialize_entry("schema", SCHEMA)?;
        map.serialize_entry("claims", self.0)?;
        map.serialize_entry("summary", &Summary(counts(self.0)))?;
        map.end()
    }
}

struct Summary([usize; 3]);

impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let names = ["reproduced", "differs", "not_checkable"];
        to.collect_map(names.into_iter().zip(self.0))
    }
}

impl Serialize for Checked {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("id", &self.claim.id)?;
        map.serialize_entry("verdict", self.comparison.verdict.name())?;
        map.serialize_entry("on", "model")?;
        map.serialize_entry("role", self.claim.role.name())?;
        map.serialize_entry("unit", &self.claim.unit)?;
        map.serialize_entry("expected", &self.comparison.expected)?;
        map.serialize_entry("got", &self.comparison.got)?;
        map.serialize_entry("note", &self.comparison.note)?;
        map.end()
    }
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nothing => to.serialize_none(),
            Self::Words(words) => to.serialize_str(words),
            Self::Numbers(numbers) => match numbers.as_slice() {
                [one] => to.serialize_f64(*one),
                all => to.collect_seq(all),
            },
        }
    }
}
