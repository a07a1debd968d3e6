//! The findings of a connection, with proof and cure.

use std::io;

use sockscope_analysis::{Analysis, Finding};
use sockscope_render::number::{count, percent_of};
use sockscope_render::style::Tone;

use super::page::{INDENT, Page};
use crate::fix_to_try;
use crate::times::Times;

pub(super) fn write(
    findings: &[&Finding],
    analysis: &Analysis,
    times: Times,
    page: &mut Page<'_>,
) -> io::Result<()> {
    page.blank()?;
    if findings.is_empty() {
        return page.labelled("findings", "none", Tone::Good);
    }
    for finding in findings {
        write_one(finding, analysis, times, page)?;
    }
    Ok(())
}

fn write_one(
    finding: &Finding,
    analysis: &Analysis,
    times: Times,
    page: &mut Page<'_>,
) -> io::Result<()> {
    let sign = page.style.glyphs().times;
    let cost = match finding.cost_ns {
        // Another finding may have the time: that of one wait counts once.
        0 => "no cost of its own".to_owned(),
        ns => {
            let share = percent_of(ns, analysis.duration_ns);
            format!("cost {} ({share} of the trace)", page.time(ns))
        }
    };
    let id = page.style.paint(finding.id.name(), Tone::Bad);
    let seen = count(finding.count);
    page.line(&format!("finding  {id}: {seen}{sign}, {cost}, flow {}", finding.flow))?;
    let indent = " ".repeat(INDENT);
    page.wrapped(&indent, INDENT, &finding.summary, Tone::Plain)?;
    for evidence in &finding.evidence {
        let first = format!("{indent}{:>13}  ", times.at(evidence.at_ns));
        page.wrapped(&first, first.chars().count(), &evidence.text, Tone::Plain)?;
    }
    let first = format!("{indent}fix: ");
    page.wrapped(&first, INDENT, &finding.fix, Tone::Strong)?;
    let connection = analysis.connection(finding.flow.connection());
    match connection.and_then(|one| fix_to_try::fix_command(finding, one.connection.protocol)) {
        // In one line, so that it can be pasted.
        Some(command) => page.line(&format!("{indent}try: {command}")),
        None => Ok(()),
    }
}
