//! A step curve in a panel: its line, the area under it, and the hatch where it is unknown.

use sockscope_record::Point;
use sockscope_render::columns::{Column, step_envelope};
use sockscope_render::page::{Page, Panel};
use sockscope_render::svg::{Path, Rect};
use sockscope_render::theme::{self, Ink, Stroke, Words};

use super::curves::Step;
use super::scene::Scene;
use super::spans::{SPAN_PX_MIN, joined};

/// Draws `steps`, which are in time order, with this ink and stroke.
pub(super) fn draw(
    scene: &Scene<'_>,
    page: &mut Page,
    panel: &Panel,
    steps: &[Step],
    (ink, stroke): (Ink, Stroke),
) {
    if is_dense(steps, panel) {
        let columns = columns_of(scene, panel, steps);
        page.svg.path(&ink.drawn(Stroke::Thin), &envelope_path(panel, &columns));
        page.note(
            "curves of very many steps are drawn from the least to the most of each pixel column"
                .to_owned(),
        );
    } else {
        page.svg.path(&ink.drawn(stroke), &exact_path(scene, panel, steps));
    }
}

/// Draws `steps` with this ink and stroke, or if there are too many for the pixels, their mean over time.
pub(super) fn draw_mean(
    scene: &Scene<'_>,
    page: &mut Page,
    panel: &Panel,
    steps: &[Step],
    (ink, stroke): (Ink, Stroke),
) {
    let path = if is_dense(steps, panel) {
        mean_path(panel, &columns_of(scene, panel, steps))
    } else {
        exact_path(scene, panel, steps)
    };
    page.svg.path(&ink.drawn(stroke), &path);
}

/// Draws `steps` as the length of a queue: the curve with the area under it, or if there are too
/// many steps for the pixels, their mean over time within the pale range of their values.
pub(super) fn draw_length(
    scene: &Scene<'_>,
    page: &mut Page,
    panel: &Panel,
    steps: &[Step],
    ink: Ink,
) {
    let columns = columns_of(scene, panel, steps);
    if is_dense(steps, panel) {
        let pale = ink.drawn(Stroke::PaleThin);
        page.svg.path(&pale, &envelope_path(panel, &columns));
        page.svg.path(&ink.drawn(Stroke::Line), &mean_path(panel, &columns));
        page.note(
            "panels of very many steps: pale from the least to the most of each pixel column, \
             line the mean over its time"
                .to_owned(),
        );
    } else {
        page.svg.path(&ink.drawn(Stroke::PaleFill), &area_path(panel, &columns));
        page.svg.path(&ink.drawn(Stroke::Line), &exact_path(scene, panel, steps));
    }
}

/// More steps than pixels: single ones cannot be distinguished.
fn is_dense(steps: &[Step], panel: &Panel) -> bool {
    steps.len() as f64 > panel.area.width
}

fn columns_of(scene: &Scene<'_>, panel: &Panel, steps: &[Step]) -> Vec<Column> {
    let points =
        steps.iter().map(|step| (panel.x.scale.px(scene.since_zero(step.at_ns)), step.value));
    // Nothing is known after the time shown.
    let end = std::iter::once((end_px(panel), None));
    step_envelope(points.chain(end), panel.area.x, panel.area.width)
}

/// Where the time shown ends.
fn end_px(panel: &Panel) -> f64 {
    panel.x.scale.px(panel.x.scale.high())
}

/// Columns without a gap between them.
fn runs(columns: &[Column]) -> impl Iterator<Item = &[Column]> {
    columns.chunk_by(|left, right| right.x_px - left.x_px < 1.5)
}

fn area_path(panel: &Panel, columns: &[Column]) -> Path {
    let zero_y = panel.y.scale.px(0.0);
    let mut path = Path::default();
    for run in runs(columns) {
        path.move_to((run[0].x_px - 0.5, zero_y));
        for column in run {
            path.down_to(panel.y.scale.px(column.max));
            path.across_to((column.x_px + 0.5).min(end_px(panel)));
        }
        path.down_to(zero_y);
        path.close();
    }
    path
}

fn mean_path(panel: &Panel, columns: &[Column]) -> Path {
    let mut path = Path::default();
    for run in runs(columns) {
        path.move_to((run[0].x_px - 0.5, panel.y.scale.px(run[0].mean())));
        for column in run {
            path.line_to((column.x_px, panel.y.scale.px(column.mean())));
        }
    }
    path
}

/// Hatches the unknown parts of `steps` and labels those that are wide enough.
pub(super) fn draw_unknown(scene: &Scene<'_>, page: &mut Page, panel: &Panel, steps: &[Step]) {
    hatch(page, panel, &unknown_spans(scene, panel, steps), "unknown");
}

/// Hatches the times at which records of `point` were missed.
pub(super) fn draw_losses(scene: &Scene<'_>, page: &mut Page, panel: &Panel, point: Point) {
    let losses = scene.losses().filter(|loss| loss.point == Some(point));
    let shown = losses.filter(|loss| loss.start_ns <= scene.to_ns && loss.end_ns >= scene.from_ns);
    let px = |at_ns: u64| panel.x.scale.px(scene.since_zero(at_ns));
    let spans = joined(shown.map(|loss| (px(loss.start_ns), px(loss.end_ns))));
    hatch(page, panel, &spans, "records missed");
}

fn hatch(page: &mut Page, panel: &Panel, spans: &[(f64, f64)], words: &str) {
    let label_px = Words::Label.width_px(words) + 12.0;
    for (from_px, to_px) in spans {
        let width = (to_px - from_px).max(SPAN_PX_MIN);
        page.svg.rect(theme::UNKNOWN, Rect { x: *from_px, width, ..panel.area });
        if width >= label_px {
            let middle_y = panel.area.y + panel.area.height / 2.0;
            page.label((from_px + width / 2.0, middle_y), words);
        }
    }
}

/// Spans of pixels where the curve is unknown, neighbours joined.
fn unknown_spans(scene: &Scene<'_>, panel: &Panel, steps: &[Step]) -> Vec<(f64, f64)> {
    let px = |at_ns: u64| panel.x.scale.px(scene.since_zero(at_ns));
    let unknown = steps.iter().enumerate().filter(|(_, step)| step.value.is_none());
    let spans = unknown.map(|(index, step)| {
        let to = steps.get(index + 1).map_or(end_px(panel), |next| px(next.at_ns));
        (px(step.at_ns), to)
    });
    joined(spans)
}

fn exact_path(scene: &Scene<'_>, panel: &Panel, steps: &[Step]) -> Path {
    let mut path = Path::default();
    let mut is_known = false;
    for step in steps {
        let x = panel.x.scale.px(scene.since_zero(step.at_ns));
        if is_known {
            path.across_to(x);
        }
        match step.value.map(|value| panel.y.scale.px(value)) {
            Some(y) if is_known => path.down_to(y),
            Some(y) => path.move_to((x, y)),
            None => {}
        }
        is_known = step.value.is_some();
    }
    if is_known {
        path.across_to(end_px(panel));
    }
    path
}

/// A stroke per column; a flat one is as tall as a line is thick.
fn envelope_path(panel: &Panel, columns: &[Column]) -> Path {
    let mut path = Path::default();
    for column in columns {
        let (low_y, high_y) = (panel.y.scale.px(column.min), panel.y.scale.px(column.max));
        path.bar(column.x_px, low_y + 0.6, high_y - 0.6);
    }
    path
}
