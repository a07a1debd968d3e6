//! The outcome of all checks: schema `sockscope.claims/1`, and text for people.

use std::io;

use serde::Serialize;
use sockscope_experiment::papers::{EvidenceKind, PAPERS, Role};
use sockscope_experiment::result::wrapped;

use super::summary::{Causes, Counts, Predictions};
use super::{CauseVerdict, Checked, Explanation, Shown, Verdict};

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
/// counts by kind of evidence and by paper last.
///
/// # Errors
///
/// When `out` fails.
pub fn write_text(checked: &[Checked], out: &mut dyn io::Write) -> io::Result<()> {
    let width = checked.iter().map(|it| it.claim.id.len()).max().unwrap_or(0);
    for one in checked {
        let (claim, comparison) = (&one.claim, &one.comparison);
        let role = claim.role.name();
        let kind = one.evidence.kind.name();
        let verdict = comparison.verdict.name();
        writeln!(out, "{verdict:<13}  {:<width$}  {role:<10}  {kind}", claim.id)?;
        if !one.evidence.reason.is_empty() {
            write_wrapped(&format!("{}: {}", spaced(kind), one.evidence.reason), out)?;
        }
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
        if let Some(explanation) = &one.explanation {
            write_explanation(explanation, out)?;
        }
    }
    write_summary(checked, out)
}

/// Why a claim differs: the cause with its verdict, what the runs had, and what the paper leaves open.
fn write_explanation(explanation: &Explanation, out: &mut dyn io::Write) -> io::Result<()> {
    let Explanation { cause, verdict, observed, open } = explanation;
    let cause = match verdict {
        CauseVerdict::NotKnown => format!("cause not known: {cause}"),
        _ => format!("explained by {cause}: {}", spaced(verdict.name())),
    };
    write_wrapped(&cause, out)?;
    write_wrapped(&format!("observed {observed}"), out)?;
    write_wrapped(&format!("the paper leaves open {open}"), out)
}

/// Kinds of evidence, in the order of the columns.
const KINDS: [EvidenceKind; 3] =
    [EvidenceKind::Found, EvidenceKind::PartlyTakenIn, EvidenceKind::Arithmetic];

/// Counts of verdicts, by kind of evidence, and by paper and kind.
fn write_summary(checked: &[Checked], out: &mut dyn io::Write) -> io::Result<()> {
    let all = Counts::of(checked);
    writeln!(out)?;
    writeln!(out, "{} claims: {}", checked.len(), all.words())?;
    for kind in KINDS {
        let counts = Counts::of(checked.iter().filter(|one| one.evidence.kind == kind));
        let total = counts.checkable() + counts.not_checkable;
        writeln!(out, "  {:<15} {total:>3}: {}", spaced(kind.name()), counts.words())?;
    }
    writeln!(out)?;
    writeln!(out, "Of those that the model can show, reproduced:")?;
    let columns = KINDS.map(|kind| spaced(kind.name()));
    writeln!(
        out,
        "  {:<15} {:>10} {:>16} {:>11} {:>18}",
        "", columns[0], columns[1], columns[2], "found predictions"
    )?;
    for (paper, of_paper) in by_paper(checked) {
        let share = |kind, role: Option<Role>| {
            let is_it = |one: &&&Checked| {
                one.evidence.kind == kind && role.is_none_or(|role| one.claim.role == role)
            };
            let counts = Counts::of(of_paper.iter().filter(is_it).copied());
            format!("{} of {}", counts.reproduced, counts.checkable())
        };
        let [found, partly, arithmetic] = KINDS.map(|kind| share(kind, None));
        let predictions = share(EvidenceKind::Found, Some(Role::Prediction));
        writeln!(out, "  {paper:<15} {found:>10} {partly:>16} {arithmetic:>11} {predictions:>18}")?;
    }
    writeln!(out)?;
    writeln!(out, "Of all predictions that the model can show, reproduced:")?;
    for (paper, of_paper) in by_paper(checked) {
        let counts = Predictions::of(&of_paper);
        if let Some(percent) = counts.percent() {
            let Predictions { reproduced, checkable, missing, explained } = counts;
            writeln!(
                out,
                "  {paper:<15} {reproduced:>3} of {checkable:>3}, {percent:.0} %; missing for 90 %: {missing}; differ by a cause that holds: {explained}"
            )?;
        }
    }
    if all.differs > 0 {
        writeln!(out)?;
        writeln!(out, "{}", Causes::of(checked).words())?;
        writeln!(out, "docs/fidelity.md says more of what differs.")?;
    }
    Ok(())
}

/// The claims of each paper that has some, in the order of the register.
fn by_paper(checked: &[Checked]) -> Vec<(&'static str, Vec<&Checked>)> {
    let of = |paper: &'static str| {
        let of_paper: Vec<_> = checked.iter().filter(|one| one.claim.paper() == paper).collect();
        (!of_paper.is_empty()).then_some((paper, of_paper))
    };
    PAPERS.into_iter().filter_map(of).collect()
}

/// A name as words.
fn spaced(name: &str) -> String {
    name.replace('-', " ")
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
    /// How the result arises: `found`, `partly-taken-in` or `arithmetic`.
    evidence: &'static str,
    /// Why the claim is not found; null where it is.
    evidence_reason: Option<&'a str>,
    unit: Option<&'a str>,
    expected: ShownView<'a>,
    got: ShownView<'a>,
    note: &'a str,
    /// Why it differs; null where it does not, and where nothing explains it.
    explanation: Option<ExplanationView<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ExplanationView<'a> {
    /// The cause, or what is known where none is.
    cause: &'a str,
    /// What runs say to the cause: `holds`, `does-not-hold` or `not-known`.
    verdict: &'static str,
    /// What the runs had.
    observed: &'a str,
    /// What the paper leaves open.
    open: &'a str,
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
    #[serde(flatten)]
    all: Counts,
    by_evidence: ByEvidence,
    by_paper: Vec<PaperSummary>,
    /// Of the claims that differ, by what runs say to their cause.
    causes: Causes,
}

/// Verdicts by kind of evidence.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
struct ByEvidence {
    found: Counts,
    partly_taken_in: Counts,
    arithmetic: Counts,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PaperSummary {
    paper: &'static str,
    #[serde(flatten)]
    all: Counts,
    by_evidence: ByEvidence,
    predictions: Predictions,
}

impl ByEvidence {
    fn of(checked: &[&Checked]) -> Self {
        let of = |kind| Counts::of(checked.iter().filter(|one| one.evidence.kind == kind).copied());
        let [found, partly_taken_in, arithmetic] = KINDS.map(of);
        Self { found, partly_taken_in, arithmetic }
    }
}

impl<'a> ExplanationView<'a> {
    fn of(explanation: &'a Explanation) -> Self {
        let Explanation { cause, verdict, observed, open } = explanation;
        Self { cause, verdict: verdict.name(), observed, open }
    }
}

impl<'a> Document<'a> {
    fn new(checked: &'a [Checked]) -> Self {
        let claim = |Checked { claim, evidence, comparison, explanation }: &'a Checked| ClaimView {
            id: &claim.id,
            verdict: comparison.verdict.name(),
            on: "model",
            role: claim.role.name(),
            evidence: evidence.kind.name(),
            evidence_reason: Some(&*evidence.reason).filter(|reason| !reason.is_empty()),
            unit: claim.unit.as_deref(),
            expected: shown(&comparison.expected),
            got: shown(&comparison.got),
            note: &comparison.note,
            explanation: explanation.as_ref().map(ExplanationView::of),
        };
        let of_paper = |(paper, of_paper): (&'static str, Vec<&'a Checked>)| PaperSummary {
            paper,
            all: Counts::of(of_paper.iter().copied()),
            by_evidence: ByEvidence::of(&of_paper),
            predictions: Predictions::of(&of_paper),
        };
        Self {
            schema: SCHEMA,
            claims: checked.iter().map(claim).collect(),
            summary: Summary {
                all: Counts::of(checked),
                by_evidence: ByEvidence::of(&checked.iter().collect::<Vec<_>>()),
                by_paper: by_paper(checked).into_iter().map(of_paper).collect(),
                causes: Causes::of(checked),
            },
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
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/claims.json");
        if std::env::var_os("SOCKSCOPE_UPDATE").is_some() {
            std::fs::write(path, &expected).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == expected, "run SOCKSCOPE_UPDATE=1 cargo test -p sockscope-claims schema");
    }
}
