//! The verdict and the ledger of its flow, as a part of a page of others: a notebook's, for example.
//!
//! It has no script, and its style sheet names only classes below its own. A reader that drops style sheets still
//! shows the words, the bar and its colours.

use std::io;

use maud::{Markup, PreEscaped, html};
use sockscope_analysis::{ConnectionAnalysis, FlowAnalysis, Ledger, LedgerPart};

use super::connection::headline;
use super::figures::is_udp;
use super::{bars, words};
use crate::order::by_importance;
use crate::palette::{self, Look};
use crate::text::lines::{self, Head};
use crate::{Format, Report, ReportError};

/// Rules of the words and of the bar. Text has the colour of the page around it.
const RULES: &str = "\
.sockscope-summary dl.words{display:grid;grid-template-columns:max-content 1fr;gap:.2rem .9rem;margin:.4rem 0}
.sockscope-summary dl.words dt,.sockscope-summary dl.words dd{margin:0;padding:0;font-weight:400}
.sockscope-summary dl.words dd.bad,.sockscope-summary dl.words dd.good{font-weight:600}
.sockscope-summary svg.ledger-bar{display:block;width:100%;max-width:960px;height:auto}
.sockscope-summary svg.ledger-bar text{font:700 12px sans-serif;text-anchor:middle;fill:#1a1a1a;stroke:#fff;stroke-width:3px;paint-order:stroke}
.sockscope-summary table.legend td{padding:.1rem .6rem .1rem 0;text-align:left;border:0}
.sockscope-summary table.legend td.number{text-align:right}
.sockscope-summary table.legend td:not(:last-child){white-space:nowrap}
.sockscope-summary .swatch{display:inline-block;min-width:1.5em;text-align:center;font-weight:700;border-bottom:.25em solid var(--place)}
";

/// The verdict, and the ledger of the flow that it names, in one element of HTML.
#[derive(Debug, Clone, Copy, Default)]
pub struct Summary;

impl Format for Summary {
    fn write(&self, report: &Report<'_>, out: &mut dyn io::Write) -> Result<(), ReportError> {
        report.check()?;
        let head = lines::head(report)?;
        let shown = shown(report, &head);
        let colours = shown.map(|(_, flow)| colours(&flow.ledger)).unwrap_or_default();
        let part = html! {
            div class="sockscope-summary" {
                style { (RULES) (PreEscaped(colours)) }
                (words::list(&head.verdict, "verdict"))
                @if let Some((connection, flow)) = shown { (ledger(connection, flow)) }
            }
        };
        Ok(out.write_all(part.0.as_bytes())?)
    }
}

fn ledger(connection: &ConnectionAnalysis, flow: &FlowAnalysis) -> Markup {
    let is_udp = is_udp(connection);
    html! {
        p { (headline(connection)) ", flow " (flow.id) ": the place of the oldest unread byte, shares of time" }
        (bars::sum(&flow.ledger, is_udp, bars::WIDE))
        (bars::legend(&flow.ledger, is_udp))
    }
}

/// Rules with the colours of the places of a ledger, for light and for dark grounds.
fn colours(ledger: &Ledger) -> String {
    let places = LedgerPart::ALL.into_iter().zip(ledger.ns).filter(|(_, ns)| *ns > 0);
    let looks: Vec<Look> =
        places.map(|(part, _)| palette::place(part)).chain([palette::REST]).collect();
    let rule = |look: &Look, colour: &str| {
        format!(".sockscope-summary .{}{{--place:{colour};fill:{colour}}}", look.class)
    };
    let light: String = looks.iter().map(|look| rule(look, look.on_light)).collect();
    let dark: String = looks.iter().map(|look| rule(look, look.on_dark)).collect();
    format!("{light}\n@media (prefers-color-scheme:dark){{{dark}}}")
}

/// The flow of the verdict, else the one of the same connection in which bytes were under way for longest.
fn shown<'a>(
    report: &Report<'a>,
    head: &Head,
) -> Option<(&'a ConnectionAnalysis, &'a FlowAnalysis)> {
    let connection = by_importance(report, head.lead).into_iter().next()?;
    let named = report.flows(connection).find(|flow| Some(flow.id) == head.flow);
    let flow = named.or_else(|| report.flows(connection).max_by_key(|flow| under_way_ns(flow)))?;
    Some((connection, flow))
}

fn under_way_ns(flow: &FlowAnalysis) -> u64 {
    let places = LedgerPart::ALL.into_iter().zip(flow.ledger.ns);
    let places = places.filter(|(part, _)| *part != LedgerPart::AppIdle);
    places.fold(0, |sum, (_, ns)| sum.saturating_add(ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, fixture};

    fn summary(options: &Options) -> String {
        let (analysis, origin) = (fixture::stall(), fixture::origin());
        let mut out = Vec::new();
        Summary.write(&Report { origin: &origin, analysis: &analysis, options }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_verdict_precedes_the_ledger_of_its_flow() {
        let part = summary(&Options::default());
        let at = |text: &str| part.find(text).unwrap_or_else(|| panic!("{text} in {part}"));
        assert!(at("<dt>verdict</dt>") < at("<svg class=\"ledger-bar\""));
        assert!(at("<svg class=\"ledger-bar\"") < at("<table class=\"legend\">"));
        assert!(part.starts_with("<div class=\"sockscope-summary\">") && part.ends_with("</div>"));
    }

    #[test]
    fn nothing_in_it_is_loaded_or_run() {
        let part = summary(&Options::default());
        for absent in ["<script", "http:", "https:", "<link", "@import", " onload"] {
            assert!(!part.contains(absent), "{absent}");
        }
        assert!(part.contains("fill=\"#"), "a bar without a style sheet has its colours");
    }

    #[test]
    fn its_rules_hold_for_its_own_classes() {
        for rule in RULES.lines() {
            let selectors = rule.split('{').next().unwrap();
            let is_own = |one: &str| one.starts_with(".sockscope-summary ");
            assert!(selectors.split(',').all(is_own), "{rule}");
        }
    }
}
