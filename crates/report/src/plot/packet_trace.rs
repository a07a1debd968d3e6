//! Packets over time at points 3, 4, 7 and 8: a bar for each, as tall as the packet's number.
//!
//! The points are those of the interface queue and of the receive socket queue; of a capture, those that it has. Packets
//! are numbered in the order of the stream, as the driver takes them, and have the same numbers in all panels: the slope
//! is the rate. Segments without data (acknowledgments, SYN, FIN) have no number and stand as short strokes under the
//! axis.

use sockscope_analysis::{Passage, packets_are_alone};
use sockscope_record::{Point, marks};
use sockscope_render::columns;
use sockscope_render::number::count;
use sockscope_render::page::{Key, Page, Panel, Sample};
use sockscope_render::svg::{Path, Rect};
use sockscope_render::theme::{Ink, Shape, Stroke};
use sockscope_render::units::Quantity;

use super::error_band;
use super::figure_page;
use super::scene::{Scene, end_of, point_words};
use super::step_line;

const POINTS: [Point; 4] = [
    Point::InterfaceEnqueue,
    Point::InterfaceDequeue,
    Point::ReceiveEnqueue,
    Point::ReceiveDequeue,
];

/// Points at which a capture may have packets.
const CAPTURED: [Point; 4] =
    [Point::InterfaceEnqueue, Point::InterfaceDequeue, Point::InputEnqueue, Point::InputDequeue];

/// Room between the zero line and the axis, for strokes of segments without data.
const STUB_PX: f64 = 7.0;

/// Points of the path, the best first, whose records are single packets.
const PACKET_POINTS: [Point; 4] =
    [Point::InterfaceDequeue, Point::InputEnqueue, Point::InterfaceEnqueue, Point::ReceiveEnqueue];

/// A larger packet fits no Ethernet.
const ETHERNET_BYTES_MAX: u64 = 9_216;

/// Least height of a bar.
const BAR_PX_MIN: f64 = 1.5;

/// The packets of a flow, by the position after their last byte.
struct Packets {
    ends: Vec<u64>,
}

impl Packets {
    fn of(scene: &Scene<'_>) -> Self {
        let seen = PACKET_POINTS.into_iter().map(|point| scene.flow().at(point));
        let seen = seen.into_iter().find(|passes| passes.iter().any(|pass| pass.len > 0));
        let data = seen.unwrap_or(&[]).iter().filter(|pass| pass.len > 0);
        let mut ends: Vec<u64> = data.map(end_of).collect();
        ends.sort_unstable();
        ends.dedup();
        Self { ends }
    }

    /// How many packets end at or before this position.
    fn until(&self, position: u64) -> u64 {
        self.ends.partition_point(|end| *end <= position) as u64
    }

    /// How many packets end in `pass`.
    fn ended_by(&self, pass: &Passage) -> u64 {
        self.until(end_of(pass)) - self.until(pass.offset)
    }
}

pub(super) fn draw(scene: &Scene<'_>) -> String {
    let keys = [
        Key { sample: Sample::Bars(Ink::Data), words: "a packet passes the point" },
        Key { sample: Sample::Stub(Ink::Ack), words: "no data: ACK, SYN, FIN" },
        Key { sample: Sample::Mark(Ink::Alarm, Shape::Cross), words: "sent again" },
        Key { sample: Sample::Unknown, words: "records of this point were missed" },
    ];
    let packets = Packets::of(scene);
    let mut page = figure_page::open(scene, "Packet trace", &keys);
    let points = points(scene);
    let heights = vec![1.0; points.len()];
    for (index, area) in page.stack(&heights, true).into_iter().enumerate() {
        draw_point(scene, &mut page, (&points, index), area, &packets);
    }
    error_band::note(scene, &mut page, ", from point 4 to point 7");
    page.finish()
}

/// A panel each: a capture has no socket queue, and no panel for it.
fn points(scene: &Scene<'_>) -> Vec<Point> {
    if !packets_are_alone(scene.store) {
        return POINTS.to_vec();
    }
    let mut seen = CAPTURED.to_vec();
    seen.retain(|point| !scene.flow().at(*point).is_empty());
    if seen.is_empty() { vec![Point::InterfaceDequeue] } else { seen }
}

fn draw_point(
    scene: &Scene<'_>,
    page: &mut Page,
    (points, index): (&[Point], usize),
    area: Rect,
    packets: &Packets,
) {
    let (point, is_last) = (points[index], index + 1 == points.len());
    let seen = scene.flow().at(point);
    let passes = scene.shown(seen);
    let last = scene.to_ns;
    // The same scale in all panels: the packets that have passed any of them by the end of the figure.
    let before = |point: Point| scene.flow().at(point).iter().filter(move |it| it.at_ns <= last);
    let high =
        points.iter().copied().flat_map(before).map(|pass| packets.until(end_of(pass))).max();
    let high = high.unwrap_or(0) as f64;
    let bars_area = Rect { height: area.height - STUB_PX, ..area };
    let axis = ("packet number", Quantity::Count, high);
    let mut panel = figure_page::panel_over_time(scene, bars_area, axis);
    panel.area = area;
    page.svg.group(point.name());
    page.panel_title(area, &point_words(point), &summary(passes, packets));
    if passes.is_empty() {
        page.frame(&panel.without_values(), is_last);
        let when = if seen.is_empty() { "" } else { " in this time" };
        page.empty(area, &format!("no packets seen at point {}{when}", point.number()));
    } else {
        figure_page::frame(scene, page, &panel, is_last);
        step_line::draw_losses(scene, page, &panel, point);
        draw_packets(scene, page, &panel, passes, packets);
        note_offload(page, point, passes, packets);
    }
    page.svg.end_group();
}

fn summary(passes: &[Passage], packets: &Packets) -> String {
    let bytes: u64 = passes.iter().map(|pass| u64::from(pass.len)).sum();
    let with_data = passes.iter().filter(|pass| pass.len > 0).count() as u64;
    let mut words =
        format!("{} with data, {}", count(with_data), Quantity::Bytes.words(bytes as f64));
    let at_once = passes.iter().map(|pass| packets.ended_by(pass)).max().unwrap_or(0);
    if at_once > 1 {
        words.push_str(&format!(", up to {} packets at once", count(at_once)));
    }
    let without = passes.len() as u64 - with_data;
    if without > 0 {
        words.push_str(&format!("; {} without", count(without)));
    }
    words
}

/// Data that the sender hands on as one packet, and that are several on the wire.
fn note_offload(page: &mut Page, point: Point, passes: &[Passage], packets: &Packets) {
    if !matches!(point, Point::InterfaceEnqueue | Point::InterfaceDequeue) {
        return;
    }
    let largest = passes.iter().max_by_key(|pass| pass.len);
    let Some(largest) = largest else { return };
    let (number, words) = (point.number(), Quantity::Bytes.words(f64::from(largest.len)));
    if packets.ended_by(largest) > 1 {
        page.note(format!(
            "segmentation offload: up to {words} pass point {number} as one packet, and are divided later"
        ));
    } else if u64::from(largest.len) > ETHERNET_BYTES_MAX {
        page.note(format!(
            "up to {words} pass point {number} as one packet: segmentation offload, or a large MTU"
        ));
    }
}

fn draw_packets(
    scene: &Scene<'_>,
    page: &mut Page,
    panel: &Panel,
    passes: &[Passage],
    packets: &Packets,
) {
    let x_of = |pass: &Passage| panel.x.scale.px(scene.since_zero(pass.at_ns));
    let area = panel.area;
    // Records within a packet, as of single buffers that a reader copies, have no bar.
    let whole = || passes.iter().filter(|pass| packets.ended_by(pass) > 0);
    let number = |pass: &Passage| (x_of(pass), packets.until(end_of(pass)) as f64);
    draw_bars(page, panel, whole().map(number), whole().count(), Ink::Data);

    let stubs = passes.iter().filter(|pass| pass.len == 0).map(|pass| (x_of(pass), 0.0));
    let zero_y = panel.y.scale.px(0.0);
    let mut path = Path::default();
    for (x, _) in one_per_column(stubs, area, passes.len()) {
        path.bar(x, zero_y + 1.0, area.bottom() - 1.0);
    }
    page.svg.path(&Ink::Ack.drawn(Stroke::Thin), &path);

    let again = passes.iter().filter(|pass| pass.len > 0 && pass.marks & marks::RETRANSMITTED != 0);
    let mut path = Path::default();
    for (x, number) in one_per_column(again.map(number), area, passes.len()) {
        Shape::Cross.put(&mut path, (x, panel.y.scale.px(number)), 4.5);
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
