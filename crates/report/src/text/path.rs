//! The path of one flow as a line from `write()` to `read()`, with times and lengths below it.
//!
//! ```text
//! write() 1━━━━━━━━2────────3━━━━━━━━4┄┄┄┄┄┄┄┄5━━━━━━━━6────────7━━━━━━━━8 read()
//! ```
//!
//! The digits are the eight points; between them lie the stages, queues drawn heavy, code thin,
//! the wire dotted. Below: delay (median and 99th percentile; of a capture its upper bound by acknowledgments),
//! length over time in bytes, residue; where there are any, bytes still there when the trace ended and intervals of unknown length.

use std::io;

use sockscope_analysis::{Distribution, FlowAnalysis, StageAnalysis};
use sockscope_record::{Protocol, Stage};
use sockscope_render::number::{count, rounded, size};
use sockscope_render::style::Tone;

use super::page::{Page, columns};

/// Columns of a stage, its point not counted.
const CELL: usize = 8;

/// Columns before point 1.
const LABEL: usize = 8;

/// The stages of a Unix socket. Its bytes pass points 1 and 7 at one instant, and no other until point 8.
const UNIX: [Stage; 1] = [Stage::ReceiveQueue];

/// The head of each stage, in two lines.
const HEADS: [[&str; 2]; 8] = [
    ["send", "queue"],
    ["TCP/IP", "out"],
    ["interface", "queue"],
    ["", "wire"],
    ["input", "queue"],
    ["TCP/IP", "in"],
    ["receive", "queue"],
    ["", "total"],
];

type CellText = fn(&StageAnalysis, &Page<'_>) -> String;

/// Rows below the line, top to bottom.
const ROWS: [(&str, CellText); 5] = [
    ("p50", |stage, page| delay(stage, page, |times| times.p50)),
    ("p99", |stage, page| delay(stage, page, |times| times.p99)),
    ("mean len", |stage, _| length_mean(stage)),
    ("max len", length_max),
    ("residue", |stage, _| stage.residue_bytes.map_or(unknown(), signed_size)),
];

pub(super) fn write(
    flow: &FlowAnalysis,
    protocol: Protocol,
    page: &mut Page<'_>,
) -> io::Result<()> {
    let shown = if protocol.is_unix() { &UNIX[..] } else { &Stage::ALL };
    for line in 0..2 {
        page.line(&head(line, protocol))?;
    }
    page.line(&drawn(shown, page))?;
    for (label, text) in ROWS {
        let tone = if label == "p50" { Tone::Strong } else { Tone::Plain };
        write_row(label, text, tone, flow, shown, page)?;
    }
    if flow.stages.iter().any(|stage| stage.uncertainty.is_some()) {
        write_row("error", error, Tone::Plain, flow, shown, page)?;
    }
    // Rare, and then worth a row.
    if flow.stages.iter().any(|stage| stage.resident_bytes.is_some_and(|bytes| bytes > 0)) {
        let at_end: CellText = |stage, _| stage.resident_bytes.map_or(unknown(), size);
        write_row("at end", at_end, Tone::Plain, flow, shown, page)?;
    }
    if flow.stages.iter().any(|stage| stage.unknown_intervals > 0) {
        let gaps: CellText = |stage, _| count(stage.unknown_intervals);
        write_row("gaps", gaps, Tone::Bad, flow, shown, page)?;
    }
    Ok(())
}

fn write_row(
    label: &str,
    text: CellText,
    tone: Tone,
    flow: &FlowAnalysis,
    shown: &[Stage],
    page: &mut Page<'_>,
) -> io::Result<()> {
    let cells = shown.iter().map(|stage| {
        let found = flow.stages.iter().find(|analysis| analysis.stage == *stage);
        found.map_or(unknown(), |analysis| text(analysis, page))
    });
    let cells: Vec<String> = cells.collect();
    let line = page.style.paint(&row(label, &cells), tone);
    page.line(&line)
}

/// A time of a stage's delays, or its upper bound where acknowledgments alone limit it.
fn delay(stage: &StageAnalysis, page: &Page<'_>, of: fn(&Distribution) -> u64) -> String {
    let at_most = |times: Distribution| {
        format!("{}{}", page.style.glyphs().at_most, page.time(of(&times)).replace(' ', ""))
    };
    let measured = stage.delay_ns.map(|times| page.time(of(&times)));
    measured.or_else(|| stage.delay_at_most_ns.map(at_most)).unwrap_or_else(unknown)
}

/// By how much the delays of a stage between two hosts may be longer or shorter.
fn error(stage: &StageAnalysis, page: &Page<'_>) -> String {
    let Some(uncertainty) = stage.uncertainty else { return String::new() };
    page.uncertainty(uncertainty).replace(' ', "")
}

/// The largest length that is known: where some lengths are not, one of these may have been larger.
fn length_max(stage: &StageAnalysis, page: &Page<'_>) -> String {
    let Some(length) = stage.length_bytes else { return unknown() };
    page.bound(size(length.max), stage.unknown_intervals > 0)
}

/// A mean that rounds to nothing and is not: `<1 B`.
fn length_mean(stage: &StageAnalysis) -> String {
    let Some(length) = stage.length_bytes else { return unknown() };
    match rounded(length.mean) {
        Some(0) if length.mean > 0.0 => "<1 B".to_owned(),
        mean => mean.map_or(unknown(), size),
    }
}

fn unknown() -> String {
    "?".to_owned()
}

/// A residue: bytes too many or too few, with its sign.
fn signed_size(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    format!("{sign}{}", size(bytes.unsigned_abs()))
}

fn head(line: usize, protocol: Protocol) -> String {
    let mut text = " ".repeat(LABEL);
    let heads = if protocol.is_unix() { &HEADS[6..7] } else { &HEADS[..] };
    for names in heads {
        let name = match names[line] {
            "TCP/IP" if protocol == Protocol::Udp => "UDP/IP",
            name => name,
        };
        text.push_str(&format!("{name:^width$}", width = CELL + 1));
    }
    text
}

fn drawn(shown: &[Stage], page: &Page<'_>) -> String {
    let [queue, code, wire] = page.style.glyphs().path;
    let mut text = format!("{:<LABEL$}", "write()");
    for stage in shown.iter().filter(|stage| **stage != Stage::Total) {
        let line = match stage {
            Stage::TcpOutput | Stage::TcpInput => code,
            Stage::Wire => wire,
            _ => queue,
        };
        text.push_str(&stage.enter().number().to_string());
        text.extend(std::iter::repeat_n(line, CELL));
    }
    text.push_str("8 read()");
    text
}

/// Cells end one column before the next point, so that they are centred for usual values.
fn row(label: &str, cells: &[String]) -> String {
    let mut text = format!("{label:<LABEL$}");
    for cell in cells {
        // A value wider than its stage pushes the rest to the right rather than be cut.
        let padding = (CELL + 1).saturating_sub(columns(cell)).max(1);
        text.extend(std::iter::repeat_n(' ', padding));
        text.push_str(cell);
    }
    text
}
