//! The path of a flow from `write()` to `read()` as a picture with its numbers: a table, so that it can be read aloud.

use maud::{Markup, html};
use sockscope_analysis::{Distribution, FlowAnalysis, StageAnalysis, Uncertainty};
use sockscope_record::{Protocol, Stage};
use sockscope_render::number::{rounded, size, time};
use sockscope_render::style::Charset;

use crate::order::place_name;
use crate::palette;

type Cell = fn(&StageAnalysis) -> String;

/// Rows below the path.
const ROWS: [(&str, Cell); 5] = [
    ("delay, median", |stage| delay(stage, |times| times.p50)),
    ("delay, p99", |stage| delay(stage, |times| times.p99)),
    ("mean length", |stage| {
        let mean = stage.length_bytes.map(|length| length.mean);
        match mean.and_then(rounded) {
            Some(0) if mean > Some(0.0) => "<1 B".to_owned(),
            rounded => rounded.map_or(unknown(), size),
        }
    }),
    ("largest length", |stage| {
        let at_least = if stage.unknown_intervals > 0 { "≥" } else { "" };
        stage.length_bytes.map_or(unknown(), |length| format!("{at_least}{}", size(length.max)))
    }),
    ("residue", |stage| {
        let sign = |bytes: i64| if bytes < 0 { "-" } else { "" };
        let text = |bytes: i64| format!("{}{}", sign(bytes), size(bytes.unsigned_abs()));
        stage.residue_bytes.map_or(unknown(), text)
    }),
];

/// Those below the path of this flow: a row with errors where a stage has one.
fn rows(flow: &FlowAnalysis) -> impl Iterator<Item = (&'static str, Cell)> {
    let has_error = flow.stages.iter().any(|stage| stage.uncertainty.is_some());
    let error: (&str, Cell) = ("error of the clocks", error);
    ROWS[..2].iter().copied().chain(has_error.then_some(error)).chain(ROWS[2..].iter().copied())
}

fn error(stage: &StageAnalysis) -> String {
    match stage.uncertainty {
        None => String::new(),
        Some(Uncertainty::AtMost(ns)) => format!("±{}", nanoseconds(ns)),
        Some(Uncertainty::Unknown) => "±?".to_owned(),
    }
}

fn unknown() -> String {
    "?".to_owned()
}

/// A time of a stage's delays, or its upper bound where acknowledgments alone limit it.
fn delay(stage: &StageAnalysis, of: fn(&Distribution) -> u64) -> String {
    let measured = stage.delay_ns.map(|times| nanoseconds(of(&times)));
    let at_most = || Some(format!("≤{}", nanoseconds(of(&stage.delay_at_most_ns?))));
    measured.or_else(at_most).unwrap_or_else(unknown)
}

fn nanoseconds(ns: u64) -> String {
    time(ns, Charset::Unicode)
}

/// Whether the stage is a queue, code or the wire, for its line.
fn kind(stage: Stage) -> &'static str {
    match stage {
        Stage::TcpOutput | Stage::TcpInput => "code",
        Stage::Wire => "wire",
        _ => "queue",
    }
}

pub(super) fn picture(flow: &FlowAnalysis, protocol: Protocol) -> Markup {
    // Bytes of a Unix socket pass points 1 and 7 at one instant, and no other until point 8.
    let stages: &[Stage] =
        if protocol.is_unix() { &[Stage::ReceiveQueue] } else { &Stage::ALL[..7] };
    // Of one stage the total is that stage.
    let (end, total): (_, &[Stage]) = match stages.len() {
        1 => ("read()", &[]),
        _ => ("read(): total", &[Stage::Total]),
    };
    let is_udp = protocol == Protocol::Udp;
    let stage = |wanted: Stage| flow.stages.iter().find(|one| one.stage == wanted);
    html! {
        div class="wide" {
            table class="path" {
                thead {
                    tr {
                        th scope="row" { "write()" }
                        @for stage in stages {
                            th scope="col" class={ (kind(*stage)) " " (palette::stage(*stage).class) } {
                                span class="point" { (stage.enter().number()) }
                                span class="line" {}
                                span class="stage" { (place_name(stage.name(), is_udp)) }
                            }
                        }
                        th scope="col" class="total" { span class="point" { "8" } span class="stage" { (end) } }
                    }
                }
                tbody {
                    @for (label, cell) in rows(flow) {
                        tr {
                            th scope="row" { (label) }
                            @for one in stages.iter().chain(total) {
                                td class="number" { (stage(*one).map_or(unknown(), cell)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
