//! Two runs side by side: before a change and after it.
//!
//! Compared are the most important connection of each run and, of it, the flow that asks; a run
//! of one call pattern over one connection is what this is for.

use std::io;

use sockscope_analysis::{
    Analysis, ConnectionAnalysis, Distribution, Finding, FlowAnalysis, Ledger, LedgerPart,
};
use sockscope_record::{Direction, Side};
use sockscope_render::number::{apportion, bound, count, percent, rate, rounded};
use sockscope_render::style::Tone;

use crate::order::by_importance;
use crate::text::bar::{bar, of_ledger};
use crate::text::page::{Page, columns};
use crate::{Options, Origin, Report, ReportError};

/// Columns of the row labels.
const LABEL: usize = 22;

/// Columns of each run.
const SIDE: usize = 29;

/// Writes `before` and `after` side by side: exchange time, throughput, ledger and findings.
///
/// # Errors
///
/// [`ReportError::Write`] when `out` fails.
pub fn compare(
    before: &Analysis,
    after: &Analysis,
    options: &Options,
    out: &mut dyn io::Write,
) -> Result<(), ReportError> {
    let mut page = Page::new(out, options);
    let runs = [before, after].map(|analysis| Run::new(analysis, options));
    write_row("", ["before", "after"].map(str::to_owned), "", Tone::Strong, &mut page)?;
    write_times(&runs, &mut page)?;
    write_ledger(&runs, &mut page)?;
    write_findings(&runs, &mut page)?;
    Ok(())
}

/// What is compared of one run; `None` when it has no connection.
struct Run<'a> {
    duration_ns: u64,
    connection: Option<&'a ConnectionAnalysis>,
    flow: Option<&'a FlowAnalysis>,
}

impl<'a> Run<'a> {
    fn new(analysis: &'a Analysis, options: &Options) -> Self {
        let origin = Origin::default();
        let all = Options { flow: None, ..options.clone() };
        let report = Report { origin: &origin, analysis, options: &all };
        // The report's lifetime is this call's, the connection's is the analysis's.
        let id = by_importance(&report, None).first().map(|first| first.connection.id);
        let connection = analysis.connections.iter().find(|it| Some(it.connection.id) == id);
        Self { duration_ns: analysis.duration_ns, connection, flow: connection.map(asking_flow) }
    }

    fn exchange_ns(&self) -> Option<Distribution> {
        let exchanges = self.connection?.exchanges.as_ref()?;
        Some(exchanges.total_ns)
    }

    fn throughput(&self) -> Option<f64> {
        self.flow?.throughput_bytes_per_s.filter(|rate| rate.is_finite())
    }

    fn is_throughput_lower_bound(&self) -> bool {
        self.flow.is_some_and(|flow| flow.at_least.throughput)
    }

    fn ledger(&self) -> Ledger {
        self.flow.map(|flow| flow.ledger.clone()).unwrap_or_default()
    }

    fn findings(&self) -> &'a [Finding] {
        self.connection.map_or(&[], |connection| &connection.findings)
    }
}

/// The flow whose sender asks, or that carries more bytes where neither asks.
fn asking_flow(connection: &ConnectionAnalysis) -> &FlowAnalysis {
    let [from_client, from_server] = &connection.flows;
    let direction = match &connection.exchanges {
        Some(exchanges) if exchanges.asked_by == Side::Server => Direction::FromServer,
        Some(_) => Direction::FromClient,
        None if from_server.bytes > from_client.bytes => Direction::FromServer,
        None => Direction::FromClient,
    };
    &connection.flows[direction as usize]
}

/// A figure of a distribution.
type Pick = fn(&Distribution) -> u64;

fn write_times(runs: &[Run<'_>; 2], page: &mut Page<'_>) -> io::Result<()> {
    let rows: [(&str, Pick); 3] = [
        ("exchange p50", |times| times.p50),
        ("exchange p99", |times| times.p99),
        ("exchange max", |times| times.max),
    ];
    for (name, pick) in rows {
        let ns = runs.each_ref().map(|run| run.exchange_ns().map(|times| pick(&times)));
        if ns != [None, None] {
            write_times_row(name, ns, page)?;
        }
    }
    let counts = runs.each_ref().map(|run| run.exchange_ns().map(|times| count(times.count)));
    if counts != [None, None] {
        write_row("exchanges", counts.map(|it| it.unwrap_or_else(unknown)), "", Tone::Plain, page)?;
    }
    let rates = runs.each_ref().map(Run::throughput);
    let bounds = runs.each_ref().map(Run::is_throughput_lower_bound);
    let texts = [0, 1].map(|run| rates[run].map_or(unknown(), |it| bound(rate(it), bounds[run])));
    let change = match rates {
        [Some(before), Some(after)] if bounds == [false; 2] => factor(before, after, page),
        _ => String::new(),
    };
    write_row("throughput", texts, &change, Tone::Plain, page)?;
    write_times_row("duration", runs.each_ref().map(|run| Some(run.duration_ns)), page)
}

fn write_times_row(name: &str, ns: [Option<u64>; 2], page: &mut Page<'_>) -> io::Result<()> {
    let texts = ns.map(|ns| ns.map_or(unknown(), |ns| page.time(ns)));
    let change = match ns {
        [Some(before), Some(after)] => factor(after as f64, before as f64, page),
        _ => String::new(),
    };
    write_row(name, texts, &change, Tone::Plain, page)
}

fn unknown() -> String {
    "?".to_owned()
}

/// How many times as good as `worse` `better` is: `355×`. Empty where a ratio says nothing.
fn factor(worse: f64, better: f64, page: &Page<'_>) -> String {
    let ratio = better / worse;
    let times = page.style.glyphs().times;
    match ratio.is_finite() && ratio > 0.0 {
        true if ratio >= 9.95 => {
            rounded(ratio).map_or(String::new(), |it| count(it) + &times.to_string())
        }
        true => format!("{ratio:.2}{times}"),
        false => String::new(),
    }
}

/// The bars, then each part that has 1 % or more in one of the runs.
fn write_ledger(runs: &[Run<'_>; 2], page: &mut Page<'_>) -> io::Result<()> {
    page.blank()?;
    let ledgers = runs.each_ref().map(Run::ledger);
    let bars = ledgers.each_ref().map(|ledger| bar(&of_ledger(ledger, false), SIDE - 2, page));
    // Bars may hold colour codes, which have no width: they are padded by hand.
    page.line(&format!("{:<LABEL$}{}  {}", "where the oldest", bars[0], bars[1]))?;
    page.line("unread byte was")?;
    let tenths = ledgers.each_ref().map(|ledger| apportion(&ledger.ns, 1000));
    for (index, part) in LedgerPart::ALL.into_iter().enumerate() {
        if tenths.iter().any(|tenths| tenths[index] >= 10) {
            let texts = [0, 1].map(|run| {
                let ns = ledgers[run].ns[index];
                format!("{:>7} {:>9}", percent(tenths[run][index]), page.time(ns))
            });
            write_row(&format!("  {}", part.name()), texts, "", Tone::Plain, page)?;
        }
    }
    Ok(())
}

fn write_findings(runs: &[Run<'_>; 2], page: &mut Page<'_>) -> io::Result<()> {
    page.blank()?;
    let lists = runs.each_ref().map(|run| findings(run.findings(), page));
    for row in 0..lists[0].len().max(lists[1].len()) {
        let texts = lists.each_ref().map(|list| list.get(row).cloned().unwrap_or_default());
        write_row(if row == 0 { "findings" } else { "" }, texts, "", Tone::Plain, page)?;
    }
    Ok(())
}

/// Two lines a finding: name, then count and time.
fn findings(findings: &[Finding], page: &Page<'_>) -> Vec<String> {
    if findings.is_empty() {
        return vec!["none".to_owned()];
    }
    let lines = |finding: &Finding| {
        let times = page.style.glyphs().times;
        let cost = match finding.cost_ns {
            0 => "no cost of its own".to_owned(),
            cost_ns => format!("cost {}", page.time(cost_ns)),
        };
        let figures = format!("  {}{times}, {cost}", count(finding.count));
        [finding.id.name().to_owned(), figures]
    };
    findings.iter().flat_map(lines).collect()
}

fn write_row(
    label: &str,
    texts: [String; 2],
    change: &str,
    tone: Tone,
    page: &mut Page<'_>,
) -> io::Result<()> {
    let [before, after] = texts;
    let after = match change {
        "" => after,
        change => format!("{after:<16}{change}"),
    };
    let gap = " ".repeat(SIDE.saturating_sub(columns(&before)).max(1));
    let line = page.style.paint(&format!("{label:<LABEL$}{before}{gap}{after}"), tone);
    page.line(&line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Charset;
    use crate::fixture::{absurd, empty, fixed, stall, unknown_everything};

    fn compared(before: &Analysis, after: &Analysis, options: &Options) -> String {
        let mut out = Vec::new();
        compare(before, after, options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_stall_and_its_cure_stand_side_by_side() {
        insta::assert_snapshot!(compared(&stall(), &fixed(), &Options::default()));
    }

    /// The wait of a split message may be another finding's: 0 ns would say that it cost nothing.
    #[test]
    fn a_finding_without_time_of_its_own_has_no_time() {
        let mut split = stall();
        split.connections[0].findings[0].cost_ns = 0;
        let text = compared(&split, &fixed(), &Options::default());
        assert!(text.contains("×, no cost of its own") && !text.contains("cost 0 ns"), "{text}");
    }

    #[test]
    fn ascii_stays_ascii_and_within_80_columns() {
        let options = Options { charset: Charset::Ascii, ..Options::default() };
        let text = compared(&stall(), &fixed(), &options);
        assert!(text.is_ascii());
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn a_run_without_connections_is_unknown() {
        let text = compared(&empty(), &unknown_everything(), &Options::default());
        assert!(text.contains("throughput            ?"), "{text}");
    }

    #[test]
    fn absurd_figures_give_no_ratio() {
        let text = compared(&absurd(), &fixed(), &Options::default());
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}
