//! The reliability of the figures: conservation, loss, and the probes' own cost.

use std::io;

use sockscope_analysis::{FlowAnalysis, StageAnalysis};
use sockscope_record::{LossCounts, Point, PointCost, Stage};
use sockscope_render::number::{count, counted, percent_of};
use sockscope_render::style::Tone;

use super::connection::has_data;
use super::page::Page;
use crate::Report;

/// Over which time the paths' `mean len` is.
const MEAN_LENGTH: &str = "over time, from a stage's first byte in to its last byte out";

/// Flows named one by one before the rest is only counted.
const NAMED_MAX: usize = 6;

pub(super) fn write(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    page.blank()?;
    if report.connections().flat_map(|connection| report.flows(connection)).any(has_data) {
        page.labelled("mean len", MEAN_LENGTH, Tone::Plain)?;
    }
    write_conservation(report, page)?;
    let analysis = report.analysis;
    let facts = &analysis.facts;
    let counted = if facts.unfinished { ", as far as was counted" } else { "" };
    let loss = format!("{}{counted}; {}", missed(&facts.missed), cost(&facts.costs, report, page));
    page.labelled("missed", &loss, Tone::Plain)
}

pub(super) fn write_conservation(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let flows: Vec<_> = report
        .connections()
        .flat_map(|connection| {
            let is_unix = connection.connection.protocol.is_unix();
            report.flows(connection).map(move |flow| Conserved { flow, is_unix })
        })
        .filter(|one| one.flow.bytes > 0)
        .collect();
    let queues_all: usize = flows.iter().map(|flow| flow.queues().count()).sum();
    if queues_all == 0 {
        return Ok(());
    }
    let is_whole = |stage: &&StageAnalysis| stage.residue_bytes == Some(0);
    let whole: usize = flows.iter().map(|flow| flow.queues().filter(is_whole).count()).sum();
    let (whole_text, all_text) = (count(whole as u64), count(queues_all as u64));
    let is_unknown = flows.iter().all(|flow| flow.queues().all(|it| it.residue_bytes.is_none()));
    let (tone, mut text) = match queues_all - whole {
        0 => (Tone::Good, format!("residue 0 in all {all_text} queues")),
        // As of a capture: nothing was found wrong.
        _ if is_unknown => (Tone::Plain, format!("unknown in all {all_text} queues")),
        _ => (Tone::Bad, format!("residue 0 in {whole_text} of {all_text} queues")),
    };
    let of_unix = flows.iter().filter(|one| one.is_unix).count();
    let kinds = [(flows.len() - of_unix, 7, ""), (of_unix, 1, "Unix ")].into_iter();
    let kinds = kinds.filter(|kind| kind.0 > 0).map(|(flows, queues, kind)| match flows {
        1 => format!("{queues} of 1 {kind}flow with data"),
        more => format!("{queues} of each of {} {kind}flows with data", count(more as u64)),
    });
    text += &format!(" ({})", kinds.collect::<Vec<_>>().join(", "));
    if let Some(differs) = named(&flows, |residue| residue.is_some_and(|bytes| bytes != 0)) {
        text += &format!("; off by: {differs}");
    }
    if !is_unknown && let Some(unknown) = named(&flows, |residue| residue.is_none()) {
        text += &format!("; unknown: {unknown}");
    }
    page.wrapped("conservation: ", super::page::INDENT, &text, tone)
}

/// A flow whose bytes are balanced.
struct Conserved<'a> {
    flow: &'a FlowAnalysis,
    is_unix: bool,
}

impl<'a> Conserved<'a> {
    /// The seven stages, without the total that they add up to. A Unix socket has the last one alone.
    fn queues(&self) -> impl Iterator<Item = &'a StageAnalysis> {
        let is_unix = self.is_unix;
        let is_queue = move |stage: Stage| match stage {
            Stage::Total => false,
            Stage::ReceiveQueue => true,
            _ => !is_unix,
        };
        self.flow.stages.iter().filter(move |stage| is_queue(stage.stage))
    }
}

/// The flows with stages whose residue is `odd`, as `flow 3 wire -1,448 B`; `None` without one.
fn named(flows: &[Conserved<'_>], odd: impl Fn(Option<i64>) -> bool) -> Option<String> {
    let mut names = flows.iter().filter_map(|flow| {
        let odd: Vec<_> = flow.queues().filter(|stage| odd(stage.residue_bytes)).collect();
        let is_unknown = flow.queues().all(|stage| stage.residue_bytes.is_none());
        match odd.is_empty() {
            true => None,
            false if is_unknown => Some(format!("all of flow {}", flow.flow.id)),
            false => {
                let stages: Vec<_> = odd.into_iter().map(with_residue).collect();
                Some(format!("flow {} {}", flow.flow.id, stages.join(" and ")))
            }
        }
    });
    let mut listed: Vec<_> = names.by_ref().take(NAMED_MAX).collect();
    let more = names.count();
    if more > 0 {
        listed.push(format!("and {} more", counted(more as u64, "flow")));
    }
    (!listed.is_empty()).then(|| listed.join(", "))
}

fn with_residue(stage: &StageAnalysis) -> String {
    match stage.residue_bytes {
        Some(bytes) => {
            let sign = if bytes < 0 { "-" } else { "" };
            format!("{} {sign}{} B", stage.stage.name(), count(bytes.unsigned_abs()))
        }
        None => stage.stage.name().to_owned(),
    }
}

/// As `515 records: 512 of ReceiveEnqueue, 3 of no point`.
fn missed(missed: &LossCounts) -> String {
    let mut places: Vec<_> = Point::ALL
        .iter()
        .zip(missed.points)
        .filter(|&(_, missed)| missed > 0)
        .map(|(point, missed)| format!("{} of {}", count(missed), point.name()))
        .collect();
    if missed.events > 0 {
        places.push(format!("{} of no point", count(missed.events)));
    }
    match places.is_empty() {
        true => "no record".to_owned(),
        false if missed.total() == 1 => format!("1 record: {}", places.join(", ")),
        false => format!("{} records: {}", count(missed.total()), places.join(", ")),
    }
}

/// The time of the probes, all together and each hit.
fn cost(costs: &[PointCost; 8], report: &Report<'_>, page: &Page<'_>) -> String {
    let measured = costs.iter().filter(|cost| cost.mean_ns().is_some());
    let (hits, run_ns) = measured.fold((0u64, 0u64), |(hits, run_ns), cost| {
        (hits.saturating_add(cost.hits), run_ns.saturating_add(cost.run_ns))
    });
    if hits == 0 {
        return "cost of the probes: ? (record with --cost)".to_owned();
    }
    let share = percent_of(run_ns, report.analysis.duration_ns);
    format!(
        "probes: {} of {}, {} in all, {share} of a CPU",
        counted(hits, "hit"),
        page.mean_time(run_ns as f64 / hits as f64),
        page.time(run_ns),
    )
}
