//! Time by place as one bar and its legend: of the ledger, and of a mean byte.
//!
//! Each part has its own letter, so that the bar reads without colour; parts below 1 % are summed
//! up. Percentages are rounded so that they add up to 100.0 exactly.

use std::io;

use sockscope_analysis::{FlowAnalysis, Ledger, LedgerPart, StageAnalysis};
use sockscope_record::Stage;
use sockscope_render::number::{apportion, percent, rounded};
use sockscope_render::style::Tone;

use super::page::{INDENT, Page};
use crate::order::place_name;
use crate::palette::{self, Look, REST};

/// Columns of the bar in a report, its ends included: as long as the path above it.
pub(crate) const BAR_WIDTH: usize = 64;

/// Smallest share with a letter of its own, in tenths of a percent.
const SHOWN_MIN: u64 = 10;

/// Time in one place, or in several that are printed together.
pub(crate) struct Part {
    name: String,
    look: Look,
    ns: u64,
    /// Share of the whole, tenths of a percent.
    tenths: u64,
}

/// Where the oldest unread byte was, in path order.
pub(crate) fn of_ledger(ledger: &Ledger, is_udp: bool) -> Vec<Part> {
    let parts = LedgerPart::ALL.into_iter().zip(ledger.ns);
    shared_out(
        parts
            .map(|(part, ns)| (place_name(part.name(), is_udp), palette::place(part), ns))
            .collect(),
    )
}

/// A part of a ledger's bar: the letter and the colour of its place, and its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BarPart {
    /// Of the place; `+` of all places below 1 %.
    pub letter: char,
    /// Of the place.
    pub tone: Tone,
    /// Columns, at least one.
    pub columns: usize,
}

/// The bar of a ledger in so many columns, in path order; empty for one that covers no time.
pub fn ledger_bar(ledger: &Ledger, is_udp: bool, width: usize) -> Vec<BarPart> {
    cells(&of_ledger(ledger, is_udp), width).collect()
}

/// Room for one column each first: each line of the legend has one in the bar.
fn cells(parts: &[Part], width: usize) -> impl Iterator<Item = BarPart> + '_ {
    let weights: Vec<u64> = parts.iter().map(|part| part.ns).collect();
    let columns = apportion(&weights, width.saturating_sub(parts.len()) as u64);
    parts.iter().zip(columns).map(|(part, columns)| {
        let Look { letter, terminal, .. } = part.look;
        BarPart { letter, tone: Tone::Colour(terminal), columns: columns as usize + 1 }
    })
}

/// The ledger as a bar with its legend, and with the error of the time between two hosts.
pub(crate) fn write_ledger(
    flow: &FlowAnalysis,
    is_udp: bool,
    page: &mut Page<'_>,
) -> io::Result<()> {
    let parts = of_ledger(&flow.ledger, is_udp);
    page.line(&format!("ledger  {}", bar(&parts, BAR_WIDTH, page)))?;
    legend(&parts, INDENT, page)?;
    let part = LedgerPart::Wire;
    let Some(uncertainty) = flow.ledger_uncertainty(part) else { return Ok(()) };
    let (name, time) = (part.name(), page.time(flow.ledger.ns[part as usize]));
    let error = page.uncertainty(uncertainty);
    page.line(&format!("{:INDENT$}{name} {time} {error}, by the clocks of the two hosts", ""))
}

/// Shares of an average byte's time, in path order: its delay in each stage, that between its drop and its
/// retransmission, and as unknown the rest, of a stage without records. None when the total is unknown.
pub(crate) fn of_delays(
    stages: &[StageAnalysis],
    dropped_ns: Option<f64>,
    is_udp: bool,
) -> Vec<Part> {
    let Some(total_ns) = mean_ns(stages, Stage::Total) else { return Vec::new() };
    let places = Stage::ALL.into_iter().filter(|stage| *stage != Stage::Total);
    let mut parts: Vec<_> = places
        .map(|stage| {
            (
                place_name(stage.name(), is_udp),
                palette::stage(stage),
                mean_ns(stages, stage).unwrap_or(0),
            )
        })
        .collect();
    let dropped = LedgerPart::Dropped;
    parts.push((
        dropped.name(),
        palette::place(dropped),
        dropped_ns.and_then(rounded).unwrap_or(0),
    ));
    let known_ns = parts.iter().fold(0_u64, |sum, (_, _, ns)| sum.saturating_add(*ns));
    let unknown = LedgerPart::Unknown;
    // Each mean is rounded to a nanosecond by itself.
    let slack_ns = parts.len() as u64;
    let unknown_ns = Some(total_ns.saturating_sub(known_ns)).filter(|ns| *ns > slack_ns);
    parts.push((unknown.name(), palette::place(unknown), unknown_ns.unwrap_or(0)));
    shared_out(parts)
}

/// The mean delay of a byte in `stage`.
fn mean_ns(stages: &[StageAnalysis], stage: Stage) -> Option<u64> {
    let analysis = stages.iter().find(|analysis| analysis.stage == stage);
    analysis.and_then(|analysis| rounded(analysis.byte_delay_ns?))
}

/// The parts of 1 % or more in their order, then the others as one.
fn shared_out(parts: Vec<(&'static str, Look, u64)>) -> Vec<Part> {
    let weights: Vec<u64> = parts.iter().map(|(_, _, ns)| *ns).collect();
    let tenths = apportion(&weights, 1000);
    let mut shown = Vec::new();
    let mut rest = Part { name: String::new(), look: REST, ns: 0, tenths: 0 };
    let mut rest_parts = 0;
    for ((name, look, ns), tenths) in parts.into_iter().zip(tenths) {
        if tenths >= SHOWN_MIN {
            shown.push(Part { name: name.to_owned(), look, ns, tenths });
        } else if ns > 0 {
            rest_parts += 1;
            rest.ns = rest.ns.saturating_add(ns);
            rest.tenths += tenths;
            rest.name = name.to_owned();
        }
    }
    if rest_parts > 1 {
        rest.name = format!("{rest_parts} parts below 1 % each");
    }
    shown.extend((rest_parts > 0).then_some(rest));
    shown
}

/// The bar alone, `width` columns; a line of `?` when no time is covered.
pub(crate) fn bar(parts: &[Part], width: usize, page: &Page<'_>) -> String {
    let (open, close) = page.style.glyphs().bar;
    let mut text = String::new();
    for BarPart { letter, tone, columns } in cells(parts, width - 2) {
        text.push_str(&page.style.paint(&letter.to_string().repeat(columns), tone));
    }
    if parts.is_empty() {
        text = "?".repeat(width - 2);
    }
    format!("{open}{text}{close}")
}

/// The bar's legend, a line for each part of 1 % or more, largest first, after `indent` columns; then the
/// time that these are shares of.
pub(crate) fn legend(parts: &[Part], indent: usize, page: &mut Page<'_>) -> io::Result<()> {
    for part in by_size(parts) {
        let Look { letter, terminal, meaning, .. } = part.look;
        let letter = page.style.paint(&letter.to_string(), Tone::Colour(terminal));
        let (share, time) = (percent(part.tenths), page.time(part.ns));
        let text = page.clean(&format!("{:<20}  {meaning}", part.name));
        page.line(&format!("{:indent$}{letter} {share:>7} {time:>8}  {}", "", text.trim_end()))?;
    }
    if parts.is_empty() {
        return Ok(());
    }
    let total_ns = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.ns));
    let (share, time) = (percent(1000), page.time(total_ns));
    page.line(&format!("{:indent$}= {share:>7} {time:>8}  {BASE}", ""))
}

/// The legend of [`of_delays`] as a sentence, largest part first.
pub(crate) fn in_words(parts: &[Part], stages: &[StageAnalysis], page: &Page<'_>) -> String {
    let total = mean_ns(stages, Stage::Total).map_or("?".to_owned(), |ns| page.time(ns));
    let word = |part: &Part| format!("{} {} {}", part.look.letter, percent(part.tenths), part.name);
    let words: Vec<String> = by_size(parts).into_iter().map(word).collect();
    format!("{total} for a mean byte: {}", words.join(", "))
}

/// The largest first, the sum of the rest last.
fn by_size(parts: &[Part]) -> Vec<&Part> {
    let mut parts: Vec<&Part> = parts.iter().collect();
    parts.sort_by_key(|part| (part.look.letter == REST.letter, std::cmp::Reverse(part.ns)));
    parts
}

/// The time that a ledger covers.
const BASE: &str = "the flow's first record to the connection's last";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Options;

    fn drawn(ns: [u64; LedgerPart::ALL.len()], width: usize) -> String {
        let mut out = Vec::new();
        let options = Options { charset: crate::Charset::Ascii, ..Options::default() };
        bar(&of_ledger(&Ledger { ns }, false), width, &Page::new(&mut out, &options))
    }

    #[test]
    fn a_legend_ends_with_the_time_of_which_it_gives_shares() {
        let ns = parts(&[(LedgerPart::Wire, 600_000), (LedgerPart::SendNagle, 1_400_000)]);
        let mut out = Vec::new();
        let options = Options::default();
        legend(&of_ledger(&Ledger { ns }, false), 9, &mut Page::new(&mut out, &options)).unwrap();
        let shown = String::from_utf8(out).unwrap();
        let last = shown.lines().last().unwrap();
        assert_eq!(last, format!("         = 100.0 %  2.00 ms  {BASE}"));
    }

    #[test]
    fn a_ledger_without_time_has_no_base() {
        let ns = [0; LedgerPart::ALL.len()];
        let mut out = Vec::new();
        let options = Options::default();
        legend(&of_ledger(&Ledger { ns }, false), 9, &mut Page::new(&mut out, &options)).unwrap();
        assert_eq!(out, b"");
    }

    fn parts(of: &[(LedgerPart, u64)]) -> [u64; LedgerPart::ALL.len()] {
        let mut ns = [0; LedgerPart::ALL.len()];
        of.iter().for_each(|&(part, value)| ns[part as usize] = value);
        ns
    }

    #[test]
    fn the_bar_is_in_path_order_and_in_proportion() {
        let ns = parts(&[(LedgerPart::ReceiveApp, 25), (LedgerPart::SendNagle, 75)]);
        assert_eq!(drawn(ns, 22), "[NNNNNNNNNNNNNNNAAAAA]");
    }

    #[test]
    fn one_percent_is_seen_and_less_is_summed_up() {
        let ns = parts(&[
            (LedgerPart::Wire, 984),
            (LedgerPart::AppIdle, 10),
            (LedgerPart::TcpInput, 3),
            (LedgerPart::TcpOutput, 3),
        ]);
        assert_eq!(drawn(ns, 22), "[.wwwwwwwwwwwwwwwwww+]");
    }

    /// Stages with these mean delays of a byte; the total last.
    fn stages(byte_delays_ns: [Option<f64>; 8]) -> Vec<StageAnalysis> {
        let stages = Stage::ALL.into_iter().zip(byte_delays_ns);
        let stage = |(stage, byte_delay_ns)| StageAnalysis {
            stage,
            delay_ns: None,
            delay_at_most_ns: None,
            byte_delay_ns,
            length_bytes: None,
            residue_bytes: None,
            resident_bytes: Some(0),
            unknown_intervals: 0,
            uncertainty: None,
        };
        stages.map(stage).collect()
    }

    /// Letters with shares in tenths of a percent.
    fn mean_byte(byte_delays_ns: [Option<f64>; 8]) -> String {
        let parts = of_delays(&stages(byte_delays_ns), None, false);
        let texts = parts.iter().map(|part| format!("{}{}", part.look.letter, part.tenths));
        texts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_mean_byte_is_shared_out_over_the_stages() {
        let known = [450.0, 3.0, 500.0, 30.0, 2.0, 5.0, 10.0, 1000.0].map(Some);
        assert_eq!(mean_byte(known), "S450 Q500 w30 r10 +10");
    }

    #[test]
    fn what_stages_without_a_point_took_of_the_total_is_unknown() {
        let one_end = [Some(100.0), None, None, None, None, None, Some(300.0), Some(1000.0)];
        assert_eq!(mean_byte(one_end), "S100 r300 ?600");
        let no_total = [Some(100.0), None, None, None, None, None, None, None];
        assert_eq!(mean_byte(no_total), "");
        let rounding = [33.4, 33.4, 33.4, 0.0, 0.0, 0.0, 0.0, 100.2].map(Some);
        assert_eq!(mean_byte(rounding), "S334 o333 Q333");
    }

    #[test]
    fn no_time_is_unknown() {
        assert_eq!(drawn([0; LedgerPart::ALL.len()], 6), "[????]");
    }

    proptest! {
        #[test]
        fn any_ledger_fills_the_bar_and_adds_up_to_100(ns in any::<[u64; LedgerPart::ALL.len()]>(), shifts in any::<[u8; LedgerPart::ALL.len()]>()) {
            let mut ns = ns;
            ns.iter_mut().zip(shifts).for_each(|(ns, shift)| *ns >>= shift % 64);
            prop_assert_eq!(drawn(ns, BAR_WIDTH).len(), BAR_WIDTH);
            let tenths: u64 = of_ledger(&Ledger { ns }, false).iter().map(|part| part.tenths).sum();
            prop_assert_eq!(tenths, if ns.iter().all(|&ns| ns == 0) { 0 } else { 1000 });
        }
    }
}
