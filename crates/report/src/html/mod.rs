//! The report as one HTML file that opens from a disk: it loads nothing, and works without a script but for zoom.
//!
//! A process may have any name, so that every text is escaped. A policy in the file allows only the file's own style
//! and scripts, by their hashes, and no request. The file is kept below [`BYTES_MAX`]: connections have figures in the
//! order of their cost, as long as there is room.

mod bars;
mod columns;
mod connection;
mod figures;
mod findings;
mod hops;
mod pack;
mod page;
mod path;
mod summary;
mod table;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeSet;
use std::io;

use maud::{Markup, html};
use sockscope_analysis::{ConnectionAnalysis, Stores};
use sockscope_record::ConnectionId;
use sockscope_render::number::counted;

use crate::order::by_importance;
use crate::text::lines;
use crate::{Format, Json, Report, ReportError};
use connection::{Section, Subsection};
use figures::Detailed;
pub use summary::Summary;

/// Size of a file, which only the list of connections and the report's JSON may exceed.
const BYTES_MAX: usize = 1_900_000;
/// Below this no further connection has a section of its own.
const BYTES_LEFT_MIN: usize = 30_000;
/// The detail of figures, from the finest to none. A connection has the first one that its room allows.
const DETAILS: [Option<Detailed>; 6] = [
    Some(Detailed {
        columns: 4_000,
        is_whole: true,
        bar_columns: 300,
        drawing_px: Some((760, 420)),
    }),
    Some(Detailed {
        columns: 1_500,
        is_whole: true,
        bar_columns: 300,
        drawing_px: Some((560, 360)),
    }),
    Some(Detailed { columns: 600, is_whole: true, bar_columns: 200, drawing_px: Some((420, 320)) }),
    Some(Detailed { columns: 400, is_whole: false, bar_columns: 150, drawing_px: None }),
    Some(Detailed { columns: 150, is_whole: false, bar_columns: 100, drawing_px: None }),
    None,
];
/// The first connection may take this part of the room that is left, later ones that.
const SHARES: [usize; 2] = [3, 8];

/// The report as one HTML file.
#[derive(Debug, Clone, Copy)]
pub struct Html<'a> {
    /// The records of the connections of the report, for the figures.
    pub stores: &'a Stores,
}

impl Format for Html<'_> {
    fn write(&self, report: &Report<'_>, out: &mut dyn io::Write) -> Result<(), ReportError> {
        report.check()?;
        Ok(out.write_all(self.page(report)?.as_bytes())?)
    }
}

impl Html<'_> {
    fn page(&self, report: &Report<'_>) -> Result<String, ReportError> {
        let head = lines::head(report)?;
        let json = page::report_block(&report_json(report)?);
        let ranked = by_importance(report, head.lead);
        let table_bytes = table::section(report, &ranked, |_| true).0.len();
        let used = page::fixed_bytes() + json.0.len() + table_bytes;
        let chosen = self.choose(report, &ranked, BYTES_MAX.saturating_sub(used))?;
        let mut by_cost = ranked.clone();
        by_cost.sort_by_key(|one| std::cmp::Reverse(crate::order::cost_ns(report, one)));
        let body = html! {
            header {
                h1 { "sockscope report" }
                (words::list(&head.origin, "small"))
            }
            section id="verdict" { (words::list(&head.verdict, "verdict")) }
            (table::section(report, &by_cost, |one| chosen.has_section(one)))
            (chosen.without_figures(report, &ranked))
            @for section in &chosen.sections { (section.markup) }
            section id="reliability" {
                h2 { "Reliability" }
                (words::list(&lines::closing(report)?, "small"))
            }
            (json)
            (page::json_block("figures", &chosen.data().to_string()))
        };
        Ok(page::document(&title(report), &body))
    }

    /// The connections that have a section, in the order of their importance, within so many bytes.
    fn choose<'a>(
        &self,
        report: &Report<'a>,
        ranked: &[&'a ConnectionAnalysis],
        mut left: usize,
    ) -> Result<Chosen, ReportError> {
        let mut chosen = Chosen::default();
        for (index, connection) in ranked.iter().enumerate() {
            if left < BYTES_LEFT_MIN {
                break;
            }
            // Few connections share all of it.
            let share = SHARES[usize::from(index > 0)].min(ranked.len() - index);
            let prepared = Subsection::new(report, self.stores, connection);
            let mut section = prepared.section(None)?;
            for detailed in DETAILS {
                section = prepared.section(detailed)?;
                if section.bytes() <= left / share {
                    break;
                }
            }
            if section.bytes() > left {
                break;
            }
            left -= section.bytes();
            let id = connection.connection.id;
            if !section.data.is_empty() {
                chosen.with_figures.insert(id);
            }
            chosen.with_sections.insert(id);
            chosen.sections.push(section);
        }
        Ok(chosen)
    }
}

/// The connections with sections of their own.
#[derive(Default)]
struct Chosen {
    sections: Vec<Section>,
    with_sections: BTreeSet<ConnectionId>,
    with_figures: BTreeSet<ConnectionId>,
}

impl Section {
    fn bytes(&self) -> usize {
        let data: usize = self.data.iter().map(|(_, data)| data.to_string().len()).sum();
        self.markup.0.len() + data
    }
}

impl Chosen {
    fn has_section(&self, connection: &ConnectionAnalysis) -> bool {
        self.with_sections.contains(&connection.connection.id)
    }

    /// Names the connections with data that have no figure here, and the command that draws one.
    fn without_figures(&self, report: &Report<'_>, ranked: &[&ConnectionAnalysis]) -> Markup {
        let has_data = |one: &&&ConnectionAnalysis| report.flows(one).any(figures::is_drawn);
        let without: Vec<_> = ranked
            .iter()
            .filter(has_data)
            .filter(|one| !self.with_figures.contains(&one.connection.id))
            .collect();
        let Some(first) = without.first() else { return html! {} };
        let flow = report.flows(first).find(|flow| figures::is_drawn(flow));
        let command = flow.zip(report.command("plot")).map(|(flow, command)| {
            format!("{command} --figure queue-length --flow {} -o F.svg", flow.id)
        });
        html! {
            p class="note" {
                (counted(without.len() as u64, "connection")) " with data "
                @if without.len() == 1 { "has" } @else { "have" } " no figure in this file, to keep it small."
                @if let Some(command) = command {
                    " This command draws one of connection " (first.connection.id.0) ": "
                    code class="command" { (command) }
                }
            }
        }
    }

    fn data(&self) -> serde_json::Value {
        let flows = self.sections.iter().flat_map(|section| section.data.iter().cloned());
        let places: Vec<_> =
            sockscope_analysis::LedgerPart::ALL.map(sockscope_analysis::LedgerPart::name).into();
        serde_json::json!({
            "flows": serde_json::Map::from_iter(flows),
            "looks": figures::looks(),
            "places": places,
        })
    }
}

fn report_json(report: &Report<'_>) -> Result<String, ReportError> {
    let mut json = Vec::new();
    Json.write(report, &mut json)?;
    Ok(String::from_utf8(json).unwrap_or_default())
}

/// The name of the page in a list of windows.
fn title(report: &Report<'_>) -> String {
    let command = report.origin.command.as_deref().unwrap_or_default();
    let host = report.origin.host.as_deref().unwrap_or_default();
    let words = [command, host].into_iter().find(|words| !words.is_empty()).unwrap_or_default();
    let short: String = sockscope_render::style::printable(words).chars().take(60).collect();
    format!("sockscope report {short}").trim_end().to_owned()
}
