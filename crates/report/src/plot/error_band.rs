//! The error of times between two hosts, as a pale band around a time of the other host.
//!
//! Nothing arrives before it was sent: no band reaches above the time of departure.

use sockscope_analysis::Uncertainty;
use sockscope_render::page::{Page, Panel};
use sockscope_render::svg::Path;
use sockscope_render::theme::{Ink, Stroke};
use sockscope_render::units::Quantity;

use super::curves::Step;
use super::scene::Scene;

/// Nanoseconds of the error on either side; `None` without one to draw.
pub(super) fn error_ns(scene: &Scene<'_>) -> Option<u64> {
    scene.options.uncertainty?.at_most_ns().filter(|ns| *ns > 0)
}

/// The line at the foot: the size of the error, and `more`, the look of its band where one is drawn.
pub(super) fn note(scene: &Scene<'_>, page: &mut Page, more: &str) {
    match scene.options.uncertainty {
        None => {}
        Some(Uncertainty::AtMost(ns)) => {
            let error = Quantity::Time.words(ns as f64);
            page.note(format!("times between the two hosts are ±{error}{more}"));
        }
        Some(Uncertainty::Unknown) => {
            page.note("the error of times between the two hosts is not known".to_owned());
        }
    }
}

/// The earliest and the latest time of an arrival.
pub(super) fn around(departed_ns: u64, arrived_ns: u64, error_ns: u64) -> [u64; 2] {
    let earliest = arrived_ns.saturating_sub(error_ns).max(departed_ns.min(arrived_ns));
    [earliest, arrived_ns.saturating_add(error_ns)]
}

/// From a departure to the earliest and to the latest height of its arrival.
pub(super) fn fan(page: &mut Page, ink: Ink, from: (f64, f64), to_x: f64, [early, late]: [f64; 2]) {
    let mut path = Path::default();
    path.move_to(from);
    path.line_to((to_x, early));
    path.line_to((to_x, late));
    path.close();
    page.svg.path(&ink.drawn(Stroke::PaleFill), &path);
}

/// A height between those of the known times around it; their order is that of time.
pub(super) fn height_between(known: &[(u64, f64)], at_ns: u64) -> f64 {
    let next = known.partition_point(|(time_ns, _)| *time_ns < at_ns);
    match (next.checked_sub(1).and_then(|before| known.get(before)), known.get(next)) {
        (Some((from_ns, low)), Some((to_ns, high))) => {
            let share = (at_ns - from_ns) as f64 / (to_ns - from_ns).max(1) as f64;
            low + (high - low) * share
        }
        (Some((_, y)), None) | (None, Some((_, y))) => *y,
        (None, None) => 0.0,
    }
}

/// A step curve of the other host: all places that its steps may have. Whether any is drawn.
pub(super) fn steps(
    scene: &Scene<'_>,
    page: &mut Page,
    panel: &Panel,
    steps: &[Step],
    ink: Ink,
) -> bool {
    let Some(error_ns) = error_ns(scene) else { return false };
    // Where there are more steps than pixels the line itself is wider than the band.
    if steps.len() as f64 > panel.area.width {
        return false;
    }
    let (left, right) = (panel.area.x, panel.area.right());
    let x = |at_ns: f64| panel.x.scale.px(at_ns).clamp(left, right);
    let (mut path, mut is_drawn) = (Path::default(), false);
    for pair in steps.windows(2) {
        let (Some(low), Some(high)) = (pair[0].value, pair[1].value) else { continue };
        let at_ns = scene.since_zero(pair[1].at_ns);
        let (from, to) = (x(at_ns - error_ns as f64), x(at_ns + error_ns as f64));
        let (low, high) = (panel.y.scale.px(low), panel.y.scale.px(high));
        path.move_to((from, low));
        path.down_to(high);
        path.across_to(to);
        path.down_to(low);
        path.close();
        is_drawn = true;
    }
    if is_drawn {
        page.svg.path(&ink.drawn(Stroke::PaleFill), &path);
    }
    is_drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_height_lies_between_those_of_its_neighbours() {
        let known = [(10, 1.0), (20, 2.0), (20, 3.0), (40, 5.0)];
        let heights = [5, 10, 15, 20, 30, 40, 90].map(|at_ns| height_between(&known, at_ns));
        assert_eq!(heights, [1.0, 1.0, 1.5, 2.0, 4.0, 5.0, 5.0]);
        assert_eq!(height_between(&[], 7), 0.0);
    }

    #[test]
    fn an_arrival_is_not_before_its_departure() {
        assert_eq!(around(100, 130, 10), [120, 140]);
        assert_eq!(around(100, 130, 50), [100, 180]);
        // Two clocks may show an arrival before its departure: the stated time is in its band.
        assert_eq!(around(100, 90, 50), [90, 140]);
    }
}
