//! Histograms of the protocol's own time: output (points 2 to 3) and input (points 6 to 7).
//!
//! One observation is one run of bytes. The median and the 99th percentile are marked.

use sockscope_analysis::Residence;
use sockscope_record::Stage;
use sockscope_record::statistics::percentile;
use sockscope_render::histogram::{Histogram, LOG_FLOOR};
use sockscope_render::number::{count, counted};
use sockscope_render::page::{Key, Page, Panel, Sample};
use sockscope_render::scale::Axis;
use sockscope_render::svg::{Path, Rect};
use sockscope_render::theme::{Ink, Stroke, Words};
use sockscope_render::units::Quantity;

use super::curves;
use super::figure_page;
use super::queue_length::{nothing_seen, stage_words};
use super::scene::Scene;
use crate::palette;

/// Height of the words at a mark; there are two, above the tallest bin.
const MARK_ROW_PX: f64 = 17.0;

pub(super) fn draw(scene: &Scene<'_>) -> String {
    let keys = [
        Key { sample: Sample::Bars(Ink::Plain), words: "runs of bytes with this delay" },
        Key { sample: Sample::Line(Ink::Plain, Stroke::Line), words: "median" },
        Key { sample: Sample::Line(Ink::Alarm, Stroke::Dashed), words: "99th percentile" },
    ];
    let mut page = figure_page::open(scene, "Protocol delay", &keys);
    let stages = [Stage::TcpOutput, Stage::TcpInput];
    for (stage, area) in stages.into_iter().zip(page.stack(&[1.0; 2], false)) {
        draw_stage(scene, &mut page, stage, area);
    }
    page.finish()
}

fn draw_stage(scene: &Scene<'_>, page: &mut Page, stage: Stage, area: Rect) {
    let waits = curves::waits(scene, stage);
    let mut delays: Vec<u64> = waits.iter().map(Residence::delay_ns).collect();
    delays.sort_unstable();
    page.svg.group(stage.name());
    match Histogram::of(&delays) {
        Some(bins) => {
            let panel = histogram_panel(area, &bins, ["delay", "runs"]);
            page.panel_title(area, &stage_words(stage), &summary(&delays, &bins));
            page.frame(&panel, true);
            let ink = palette::ink(palette::stage(stage), page);
            draw_bins(page, &panel, &bins, ink);
            draw_marks(page, &panel, &delays);
        }
        None => {
            let panel = Panel {
                area,
                x: Axis::from_zero("delay", Quantity::Time, 1e6, (area.x, area.right()), 8),
                y: Axis::from_zero("runs", Quantity::Count, 1.0, (area.bottom(), area.y), 2),
            }
            .without_values();
            page.panel_title(area, &stage_words(stage), "");
            page.frame(&panel, true);
            page.empty(area, &nothing_seen(scene, stage));
        }
    }
    page.svg.end_group();
}

fn summary(delays: &[u64], bins: &Histogram) -> String {
    let below = delays.partition_point(|delay| *delay < LOG_FLOOR);
    let width = if bins.is_log && below > 0 {
        format!("10 bins a decade; {} below {LOG_FLOOR} ns are in the first", count(below as u64))
    } else if bins.is_log {
        "10 bins a decade".to_owned()
    } else {
        let width = bins.edges[1] - bins.edges[0];
        format!("bins of {}", Quantity::Time.words(width))
    };
    format!("{}; {width}", counted(delays.len() as u64, "run"))
}

/// The axes of a histogram of times, with room for the words of its marks.
pub(super) fn histogram_panel(area: Rect, bins: &Histogram, [time, number]: [&str; 2]) -> Panel {
    let domain = (bins.edges[0], bins.edges[bins.edges.len() - 1]);
    let x_px = (area.x, area.right());
    let x = if bins.is_log {
        Axis::log(time, Quantity::Time, domain, x_px)
    } else {
        // Values that are nearly equal are not blown up to the whole width.
        let span = domain.1 - domain.0;
        let margin = (span * 0.02).max((domain.1 * 0.1 - span) / 2.0);
        let domain = ((domain.0 - margin).max(0.0), domain.1 + margin);
        Axis::linear(time, Quantity::Time, domain, x_px, 8)
    };
    let highest = bins.counts.iter().copied().max().unwrap_or(1) as f64;
    let y_px = (area.bottom(), area.y + 2.0 * MARK_ROW_PX);
    let y = Axis::from_zero(number, Quantity::Count, highest, y_px, 5);
    Panel { area, x, y }
}

pub(super) fn draw_bins(page: &mut Page, panel: &Panel, bins: &Histogram, ink: Ink) {
    let zero_y = panel.y.scale.px(0.0);
    for (edges, runs) in bins.edges.windows(2).zip(&bins.counts).filter(|(_, runs)| **runs > 0) {
        let (left, right) = (panel.x.scale.px(edges[0]), panel.x.scale.px(edges[1]));
        // A bin with anything in it must be seen.
        let top = panel.y.scale.px(*runs as f64).min(zero_y - 1.0);
        let gap = if right - left > 4.0 { 1.0 } else { 0.0 };
        let bar =
            Rect { x: left, y: top, width: (right - left - gap).max(0.8), height: zero_y - top };
        page.svg.rect(&ink.drawn(Stroke::Fill), bar);
    }
}

/// Median and 99th percentile: lines of different dash, their words in rows of their own.
pub(super) fn draw_marks(page: &mut Page, panel: &Panel, delays: &[u64]) {
    let marks = [(50, "median", Ink::Plain, Stroke::Line), (99, "p99", Ink::Alarm, Stroke::Dashed)];
    let mut labels = Vec::new();
    for (percent, name, ink, stroke) in marks {
        let Some(delay) = percentile(delays, percent) else { continue };
        let x = panel.x.scale.px(delay as f64);
        let mut path = Path::default();
        path.bar(x, panel.area.bottom(), panel.area.y);
        page.svg.path(&ink.drawn(stroke), &path);
        labels.push((x, format!("{name} {}", Quantity::Time.words(delay as f64))));
    }
    // After both lines, so that neither runs through the words of the other.
    let mut y = panel.area.y + MARK_ROW_PX / 2.0 - 2.0;
    for (x, words) in labels {
        let reach = Words::Label.width_px(&words) / 2.0 + 8.0;
        let is_room_right = x + 2.0 * reach < panel.area.right();
        page.label((if is_room_right { x + reach } else { x - reach }, y), &words);
        y += MARK_ROW_PX;
    }
}
