//! Traces of several runs in one chart: a line for each, from the first record of each on.
//!
//! `sequence` has positions in the stream as they are sent, `queue-length` the four queues. Lines keep to pixel
//! resolution.

use std::str::FromStr;

use sockscope_analysis::ConnectionStore;
use sockscope_record::Stage;
use sockscope_render::chart::{ChartAxis, ChartPanel, Join, Series, Spread};
use sockscope_render::units::Quantity;

use super::curves;
use super::options::{Figure, PlotError, PlotOptions};
use super::places::QUEUES;
use super::queue_length::stage_words;
use super::scene::{Scene, end_of};
use super::sequence::segments;

/// Points of a line at most: as many as a figure has pixel columns, each with its least and its most.
const COLUMNS: usize = 900;

/// The curves that are laid over one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlay {
    /// Positions in the stream over time.
    Sequence,
    /// Lengths of the four queues over time, a panel for each.
    QueueLength,
}

impl FromStr for Overlay {
    type Err = PlotError;

    /// The overlay of this name; fails on any other word.
    fn from_str(name: &str) -> Result<Self, PlotError> {
        match name {
            "sequence" => Ok(Self::Sequence),
            "queue-length" => Ok(Self::QueueLength),
            _ => Err(PlotError::unknown(name, ["sequence", "queue-length"].into_iter())),
        }
    }
}

/// One run: its name in the legend, its connection, and the part of it to show.
pub struct Run<'a> {
    /// In the legend.
    pub name: String,
    /// The connection.
    pub store: &'a ConnectionStore,
    /// Direction and window; sizes and words are those of the chart.
    pub options: PlotOptions<'a>,
}

/// The panels of a chart of `runs`.
///
/// # Errors
///
/// On options that no figure can be drawn with.
pub fn overlay(kind: Overlay, runs: &[Run<'_>]) -> Result<Vec<ChartPanel>, PlotError> {
    let mut panels = match kind {
        Overlay::Sequence => vec![panel("", "position")],
        Overlay::QueueLength => QUEUES.map(|it| panel(&stage_words(it), "length")).to_vec(),
    };
    for run in runs {
        let scene = Scene::new(run.store, &run.options, Figure::Sequence)?;
        let lines = match kind {
            Overlay::Sequence => vec![positions(&scene)],
            Overlay::QueueLength => QUEUES.map(|stage| lengths(&scene, stage)).to_vec(),
        };
        for (panel, points) in panels.iter_mut().zip(lines) {
            let (name, points) = (run.name.clone(), thinned(points));
            panel.series.push(Series { name, points, join: Join::Step });
        }
    }
    Ok(panels)
}

fn panel(title: &str, y: &str) -> ChartPanel {
    ChartPanel {
        title: title.to_owned(),
        x: ChartAxis::new("time", Quantity::Time, Spread::Linear),
        y: ChartAxis::new(y, Quantity::Bytes, Spread::Linear),
        series: Vec::new(),
    }
}

/// Time and position after the last byte of each segment.
fn positions(scene: &Scene<'_>) -> Vec<(f64, f64)> {
    let sent = scene.shown(segments(scene).1).iter().filter(|pass| pass.len > 0);
    sent.map(|pass| (scene.since_zero(pass.at_ns), end_of(pass) as f64)).collect()
}

/// Time and length; not a number where it is unknown.
fn lengths(scene: &Scene<'_>, stage: Stage) -> Vec<(f64, f64)> {
    let steps = curves::lengths(scene, stage).into_iter();
    steps.map(|step| (scene.since_zero(step.at_ns), step.value.unwrap_or(f64::NAN))).collect()
}

/// At most the least and the most of each of [`COLUMNS`] parts of the time, and what is unknown there.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() <= 2 * COLUMNS {
        return points;
    }
    let (first, last) = (points[0].0, points[points.len() - 1].0);
    let column = |at: f64| ((at - first) / (last - first).max(1.0) * COLUMNS as f64) as usize;
    let mut kept = Vec::new();
    for part in points.chunk_by(|left, right| column(left.0) == column(right.0)) {
        let known = || part.iter().enumerate().filter(|(_, point)| !point.1.is_nan());
        let by_value = |a: &(usize, &(f64, f64)), b: &(usize, &(f64, f64))| a.1.1.total_cmp(&b.1.1);
        let ends = [
            known().min_by(by_value),
            known().max_by(by_value),
            part.iter().enumerate().next_back(),
        ];
        let mut ends: Vec<_> = ends.into_iter().flatten().collect();
        ends.sort_by_key(|(index, _)| *index);
        ends.dedup_by_key(|(index, _)| *index);
        kept.extend(ends.into_iter().map(|(_, point)| *point));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::super::tests::trace;
    use super::*;

    fn run<'a>(name: &str, store: &'a ConnectionStore) -> Run<'a> {
        Run { name: name.to_owned(), store, options: PlotOptions::default() }
    }

    #[test]
    fn runs_are_laid_over_one_another_from_their_first_record() {
        let early = trace("10 c 2 0+100 | 30 c 2 100+100");
        let late = trace("500 c 2 0+150 | 510 c 2 150+50");
        let panels = overlay(Overlay::Sequence, &[run("a", &early), run("b", &late)]).unwrap();
        let [panel] = &panels[..] else { panic!("{panels:?}") };
        let lines = panel.series.iter().map(|one| (one.name.as_str(), one.points.clone()));
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [("a", vec![(0.0, 100.0), (20e3, 200.0)]), ("b", vec![(0.0, 150.0), (10e3, 200.0)])]
        );
    }

    #[test]
    fn queues_have_a_panel_each() {
        let store = trace("0 c 7 0+100 | 5 c 8 0+100");
        let panels = overlay(Overlay::QueueLength, &[run("a", &store)]).unwrap();
        let titles: Vec<&str> = panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(titles[3], "receive socket queue, points 7 to 8");
        assert_eq!(panels[3].series[0].points, [(0.0, 100.0), (5e3, 0.0)]);
        assert_eq!((panels.len(), panels[0].series[0].points.len()), (4, 0));
    }

    #[test]
    fn a_long_line_keeps_its_extremes() {
        let spike = |index: u32| if index == 7_777 { 9.0 } else { f64::from(index % 2) };
        let points = (0..10_000).map(|index| (f64::from(index), spike(index))).collect();
        let kept = thinned(points);
        assert!(kept.len() <= 3 * (COLUMNS + 1) && kept.is_sorted_by(|a, b| a.0 < b.0));
        assert!(kept.contains(&(7_777.0, 9.0)) && kept.iter().any(|point| point.1 == 0.0));
        assert_eq!(kept.last(), Some(&(9_999.0, 1.0)));
    }

    #[test]
    fn a_kind_that_does_not_exist_is_refused_with_those_that_do() {
        let error = "pie".parse::<Overlay>().unwrap_err().to_string();
        assert!(error.contains("sequence, queue-length"), "{error}");
    }
}
