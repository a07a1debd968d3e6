//! Traces of all cases in one picture: Figure 5 of the layering paper.

use sockscope_analysis::ConnectionStore;
use sockscope_experiment::result::RunResult;
use sockscope_experiment::{Case, Figure};
use sockscope_record::Direction;
use sockscope_render::chart::Chart;
use sockscope_report::plot::{Overlay, PlotOptions, Run, overlay};

use super::captions::{On, facts, notes, series_words, subtitle};

/// The connection of one case, and the direction that is shown.
pub type Traced<'a> = (&'a Case, &'a ConnectionStore, Direction);

/// A chart with a line for each of `traces`, which are in the order of the cases.
///
/// # Errors
///
/// When the kind of overlay does not exist, or its window is empty.
pub fn overlaid(
    figure: &Figure,
    result: &RunResult,
    traces: &[Traced<'_>],
) -> Result<Chart, String> {
    let refuse = |error| format!("figure `{}`: {error}", figure.name);
    let kind: Overlay = figure.overlay.as_deref().unwrap_or_default().parse().map_err(refuse)?;
    let shown = traces.iter().copied().filter(|(case, ..)| figure.shows(case));
    let shown: Vec<Traced<'_>> = shown.collect();
    let mut runs = Vec::new();
    for (index, (case, store, direction)) in shown.iter().copied().enumerate() {
        let start_ns = store.first_ns().unwrap_or(0);
        let at = |ms: Option<f64>| ms.map(|ms| start_ns.saturating_add((ms * 1e6) as u64));
        let name = figure.cases.get(index).cloned();
        runs.push(Run {
            name: name.unwrap_or_else(|| series_words(figure, case, "")),
            store,
            options: PlotOptions {
                direction,
                from_ns: at(figure.from_ms),
                to_ns: at(figure.to_ms),
                ..PlotOptions::default()
            },
        });
    }
    let on = On::of(result);
    Ok(Chart {
        title: figure.title.clone(),
        subtitle: subtitle(figure, &result.experiment, shown.first().map(|(case, ..)| *case), on),
        panels: overlay(kind, &runs).map_err(refuse)?,
        notes: notes(figure, &result.experiment),
        facts: facts(figure, result),
    })
}
