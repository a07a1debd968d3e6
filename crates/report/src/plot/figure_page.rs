//! The page of a figure that shows one connection: its words and its time axes are from the scene.

use sockscope_render::page::{Head, Key, Page, Panel};
use sockscope_render::scale::Axis;
use sockscope_render::svg::Rect;
use sockscope_render::units::Quantity;

use super::scene::Scene;

/// First and last event stand this far from the edges of their panel, so that they are seen.
const TIME_INSET_PX: f64 = 6.0;

/// The page of a figure of one connection.
pub(super) fn open(scene: &Scene<'_>, title: &str, keys: &[Key<'_>]) -> Page {
    let ends = scene.subtitle();
    let subtitle = scene.options.about.map(|about| format!("{about}: {ends}"));
    let head = Head {
        title: scene.options.title.unwrap_or(title),
        subtitle: subtitle.as_deref().unwrap_or(&ends),
        facts: scene.facts(scene.to_ns.saturating_sub(scene.from_ns)),
        size: (scene.options.width, scene.options.height),
    };
    let keys: Vec<Key<'_>> = keys.iter().copied().chain(scene.marks.keys()).collect();
    let mut page = Page::with_head(head, &keys);
    scene.marks.note().into_iter().for_each(|note| page.note(note));
    scene.options.notes.iter().for_each(|note| page.note(note.clone()));
    page
}

/// Draws the frame of a panel over time, and in it the times of findings.
pub(super) fn frame(scene: &Scene<'_>, page: &mut Page, panel: &Panel, has_x_numbers: bool) {
    page.frame(panel, has_x_numbers);
    let px = |at_ns: u64| panel.x.scale.px(scene.since_zero(at_ns));
    scene.marks.draw(page, panel, px);
}

/// A panel over time whose y axis starts at zero.
pub(super) fn panel_over_time(
    scene: &Scene<'_>,
    area: Rect,
    (name, quantity, high): (&str, Quantity, f64),
) -> Panel {
    let ticks = ((area.height / 30.0) as usize).clamp(2, 6);
    let px = (area.bottom(), area.y);
    Panel { area, x: time_axis(scene, area), y: Axis::from_zero(name, quantity, high, px, ticks) }
}

/// The time axis of a figure, in nanoseconds after the scene's zero.
pub(super) fn time_axis(scene: &Scene<'_>, area: Rect) -> Axis {
    let ticks = ((area.width / 90.0) as usize).clamp(2, 10);
    Axis::linear(
        "time",
        Quantity::Time,
        (scene.since_zero(scene.from_ns), scene.since_zero(scene.to_ns)),
        (area.x + TIME_INSET_PX, area.right() - TIME_INSET_PX),
        ticks,
    )
}
