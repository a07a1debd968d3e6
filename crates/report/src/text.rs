//! The report for people: verdict, path, ledger, findings, and the reliability of the figures.
//!
//! Lines fit 80 columns, except texts of one longer word.

pub(crate) mod bar;
mod calls;
mod closing;
mod connection;
mod findings;
mod header;
pub(crate) mod hops;
pub(crate) mod lines;
pub(crate) mod page;
mod path;
mod recorded;
mod refused;
mod request_tree;
mod short_report;
mod table;
mod totals;

use std::io;

use crate::{Format, Options, Report, ReportError, order};
use page::Page;
use sockscope_render::style::Tone;

/// Plain text, with colours if the options allow them: short, or in full.
#[derive(Debug, Clone, Copy, Default)]
pub struct Text;

impl Format for Text {
    fn write(&self, report: &Report<'_>, out: &mut dyn io::Write) -> Result<(), ReportError> {
        report.check()?;
        let mut page = Page::new(out, report.options);
        if !report.options.full {
            return Ok(short_report::write(report, &mut page)?);
        }
        let lead = header::write(report, &mut page)?;
        totals::write(report, totals::SERVERS_MAX, &mut page)?;
        request_tree::write(report, &mut page)?;
        let lead = lead.map(|lead| lead.connection);
        let ranked = order::by_importance(report, lead);
        let (detailed, rest) = ranked.split_at(ranked.len().min(report.options.detailed));
        for connection in detailed {
            connection::write(report, connection, &mut page)?;
        }
        if !rest.is_empty() {
            table::write(report, rest, &ranked, &mut page)?;
        }
        closing::write(report, &mut page)?;
        Ok(())
    }
}

/// Writes the verdict of a report alone, with its reason and its fix.
///
/// # Errors
///
/// [`ReportError::Write`] when `out` fails.
pub fn write_verdict(report: &Report<'_>, out: &mut dyn io::Write) -> Result<(), ReportError> {
    Ok(header::write_verdict_alone(report, &mut Page::new(out, report.options))?)
}

/// Writes `text` after a label, wrapped to the width of a report.
///
/// # Errors
///
/// [`ReportError::Write`] when `out` fails.
pub fn write_labelled(
    label: &str,
    text: &str,
    options: &Options,
    out: &mut dyn io::Write,
) -> Result<(), ReportError> {
    Ok(Page::new(out, options).labelled(label, text, Tone::Plain)?)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod verdict_tests;
