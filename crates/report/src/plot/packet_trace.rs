//! Packets over time at points 3, 4, 7 and 8: a bar for each, as tall as its bytes.
//!
//! The points are those of the interface queue and of the receive socket queue. Segments without
//! data (acknowledgments, SYN, FIN) have no height and stand as short strokes under the axis.

use sockscope_analysis::Passage;
use sockscope_record::{Point, marks};
use sockscope_render::columns;
use sockscope_render::number::count;
use sockscope_render::page::{Key, Page, Panel, Sample};
use sockscope_render::svg::{Path, Rect};
use sockscope_render::theme::{Ink, Shape, Stroke};
use sockscope_render::units::Quantity;

use super::figure_page;
use super::scene::{Scene, point_words};
use super::step_line;

const POINTS: [Point; 4] = [
    Point::InterfaceEnqueue,
    Point::InterfaceDequeue,
    Point::ReceiveEnqueue,
    Point::ReceiveDequeue,
];

/// Room between the zero line and the axis, for strokes of segments without data.
const STUB_PX: f64 = 7.0;

/// Least height of a bar.
const BAR_PX_MIN: f64 = 1.5;

pub(super) fn draw(scene: &Scene<'_>) -> String {
    let keys = [
        Key { sample: Sample::Bars(Ink::Data), words: "bytes that pass the point" },
        Key { sample: Sample::Stub(Ink::Ack), words: "no data: ACK, SYN, FIN" },
        Key { sample: Sample::Mark(Ink::Alarm, Shape::Cross), words: "sent again" },
        Key { sample: Sample::Unknown, words: "records of this point were missed" },
    ];
    let mut page = figure_page::open(scene, "Packet trace", &keys);
    for (index, area) in page.stack(&[1.0; 4], true).into_iter().enumerate() {
        draw_point(scene, &mut page, POINTS[index], area, index + 1 == POINTS.len());
    }
    page.finish()
}

fn draw_point(scene: &Scene<'_>, page: &mut Page, point: Point, area: Rect, is_last: bool) {
    let seen = scene.flow().at(point);
    let passes = scene.shown(seen);
    let bytes_max = passes.iter().map(|pass| pass.len).max().unwrap_or(0);
    let high = f64::from(bytes_max);
    let bars_area = Rect { height: area.height - STUB_PX, ..area };
    let mut panel = figure_page::panel_over_time(scene, bars_area, ("size", Quantity::Bytes, high));
    panel.area = area;
    page.svg.group(point.name());
    page.panel_title(area, &point_words(point), &summary(passes));
    if passes.is_empty() {
        page.frame(&panel.without_values(), is_last);
        let when = if seen.is_empty() { "" } else { " in this time" };
        page.empty(area, &format!("no packets seen at point {}{when}", point.number()));
    } else {
        figure_page::frame(scene, page, &panel, is_last);
        step_line::draw_losses(scene, page, &panel, point);
        draw_packets(scene, page, &panel, passes);
    }
    page.svg.end_group();
}

fn summary(passes: &[Passage]) -> String {
    let bytes: u64 = passes.iter().map(|pass| u64::from(pass.len)).sum();
    let with_data = passes.iter().filter(|pass| pass.len > 0).count() as u64;
    let total = Quantity::Bytes.words(bytes as f64);
    match passes.len() as u64 - with_data {
        0 => format!("{} with data, {total}", count(with_data)),
        without => format!("{} with data, {total}; {} without", count(with_data), count(without)),
    }
}

fn draw_packets(scene: &Scene<'_>, page: &mut Page, panel: &Panel, passes: &[Passage]) {
    let x_of = |pass: &Passage| panel.x.scale.px(scene.since_zero(pass.at_ns));
    let area = panel.area;
    let data = || passes.iter().filter(|pass| pass.len > 0);
    let sizes = data().map(|pass| (x_of(pass), f64::from(pass.len)));
    draw_bars(page, panel, sizes, data().count(), Ink::Data);

    let stubs = passes.iter().filter(|pass| pass.len == 0).map(|pass| (x_of(pass), 0.0));
    let zero_y = panel.y.scale.px(0.0);
    let mut path = Path::default();
    for (x, _) in one_per_column(stubs, area, passes.len()) {
        path.bar(x, zero_y + 1.0, area.bottom() - 1.0);
    }
    page.svg.path(&Ink::Ack.drawn(Stroke::Thin), &path);

    let again = data().filter(|pass| pass.marks & marks::RETRANSMITTED != 0);
    let tops = again.map(|pass| (x_of(pass), f64::from(pass.len)));
    let mut path = Path::default();
    for (x, size) in one_per_column(tops, area, passes.len()) {
        Shape::Cross.put(&mut path, (x, panel.y.scale.px(size)), 4.5);
    }
    page.svg.path(&Ink::Alarm.drawn(Shape::Cross.stroke()), &path);
}

/// Bars from the zero line; an envelope per pixel column when there are more than the columns can
/// show: pale up to the largest, full up to the smallest.
pub(super) fn draw_bars(
    page: &mut Page,
    panel: &Panel,
    bars: impl Iterator<Item = (f64, f64)>,
    bar_count: usize,
    ink: Ink,
) {
    let (area, zero_y) = (panel.area, panel.y.scale.px(0.0));
    // Every event is visible, however small.
    let top = |value: f64| panel.y.scale.px(value).min(zero_y - BAR_PX_MIN);
    let (mut full, mut pale) = (Path::default(), Path::default());
    if is_crowded(bar_count, area) {
        for column in columns::envelope(bars, area.x, area.width) {
            let full_y = top(column.min);
            full.bar(column.x_px, zero_y, full_y);
            if column.max > column.min {
                pale.bar(column.x_px, full_y, top(column.max));
            }
        }
        page.note(format!(
            "{} or more bars in a panel are drawn as an envelope: full up to the least of each \
             pixel column, pale up to the most",
            count(crowd(area) as u64)
        ));
    } else {
        for (x, value) in bars {
            full.bar(x, zero_y, top(value));
        }
    }
    page.svg.path(&ink.drawn(Stroke::PaleThin), &pale);
    page.svg.path(&ink.drawn(Stroke::Thin), &full);
}

/// All `events` while they can be distinguished, else the topmost of each pixel column.
pub(super) fn one_per_column(
    events: impl Iterator<Item = (f64, f64)>,
    area: Rect,
    event_count: usize,
) -> Vec<(f64, f64)> {
    if !is_crowded(event_count, area) {
        return events.collect();
    }
    let columns = columns::envelope(events, area.x, area.width);
    columns.into_iter().map(|column| (column.x_px, column.max)).collect()
}

/// Events from which on a panel is drawn per pixel column.
pub(super) fn crowd(area: Rect) -> usize {
    (area.width * 2.0) as usize
}

/// Whether a panel holds more events than its pixel columns can show one by one.
pub(super) fn is_crowded(event_count: usize, area: Rect) -> bool {
    event_count >= crowd(area)
}
