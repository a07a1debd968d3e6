//! Findings with their evidence. Each piece of evidence leads to its time in the figure of its flow.

use maud::{Markup, html};
use sockscope_analysis::{ConnectionAnalysis, Finding};
use sockscope_render::number::{count, percent_of, time};
use sockscope_render::style::{Charset, printable};

use crate::{Report, fix_to_try};

/// Spans of a finding that a figure marks, the longest ones.
const MARKS_MAX: usize = 60;

/// The anchor of a finding.
pub(super) fn anchor(connection: &ConnectionAnalysis, index: usize) -> String {
    format!("finding-{}-{}", connection.connection.id.0, index + 1)
}

pub(super) fn section<'a>(
    report: &Report<'a>,
    connection: &'a ConnectionAnalysis,
    has_figures: bool,
) -> Markup {
    let findings: Vec<&Finding> = report.findings(connection).collect();
    html! {
        @if !findings.is_empty() {
            h3 { "Findings" }
            @for (index, finding) in findings.into_iter().enumerate() {
                (one(report, connection, (finding, &anchor(connection, index)), has_figures))
            }
        }
    }
}

fn one(
    report: &Report<'_>,
    connection: &ConnectionAnalysis,
    (finding, anchor): (&Finding, &str),
    has_figures: bool,
) -> Markup {
    let cost = match finding.cost_ns {
        0 => "no cost of its own".to_owned(),
        ns => {
            let share = percent_of(ns, report.analysis.duration_ns);
            format!("cost {} ({share} of the trace)", time(ns, Charset::Unicode))
        }
    };
    let times = report.times();
    html! {
        article class="finding" id=(anchor) {
            h4 { (finding.id.name()) ": " (count(finding.count)) "×, " (cost) ", flow " (finding.flow) }
            p { (printable(&finding.summary)) }
            @if !finding.evidence.is_empty() {
                ol class="evidence" {
                    @for evidence in &finding.evidence {
                        @let (from_ns, to_ns) = span_at(finding, evidence.at_ns);
                        li {
                            @if has_figures {
                                a href={ "#flow-" (finding.flow) } data-flow=(finding.flow)
                                    data-from=(seconds(report, from_ns)) data-to=(seconds(report, to_ns))
                                    data-at=(seconds(report, evidence.at_ns)) { (times.at(evidence.at_ns)) }
                            } @else {
                                span class="time" { (times.at(evidence.at_ns)) }
                            }
                            " " (printable(&evidence.text))
                        }
                    }
                }
            }
            p class="fix" { strong { "Fix: " } (printable(&finding.fix)) }
            @if let Some(command) = fix_to_try::fix_command(finding, connection.connection.protocol) {
                p { "Try: " code class="command" { (printable(&command)) } }
            }
        }
    }
}

/// The time that a figure shows for a piece of evidence: the cost around it, or a moment.
fn span_at(finding: &Finding, at_ns: u64) -> (u64, u64) {
    let holds = |&&(from_ns, to_ns): &&(u64, u64)| (from_ns..=to_ns).contains(&at_ns);
    finding.times.iter().find(holds).copied().unwrap_or((at_ns, at_ns))
}

/// Seconds after the trace's first record.
pub(super) fn seconds(report: &Report<'_>, at_ns: u64) -> String {
    let since_ns = i128::from(at_ns) - i128::from(report.analysis.start_ns);
    let sign = if since_ns < 0 { "-" } else { "" };
    let since_ns = since_ns.unsigned_abs();
    format!("{sign}{}.{:09}", since_ns / 1_000_000_000, since_ns % 1_000_000_000)
}

/// The times of a finding that a figure marks, in order.
pub(super) fn marked(finding: &Finding) -> Vec<(u64, u64)> {
    let mut times = finding.times.clone();
    times.sort_unstable_by_key(|(from_ns, to_ns)| (std::cmp::Reverse(to_ns - from_ns), *from_ns));
    times.truncate(MARKS_MAX);
    times.sort_unstable();
    times
}
