//! The receive queue over time, and under it each acknowledgment of the data in it.
//!
//! An acknowledgment is drawn when the receiver made it (point 4 of the reverse flow, else the first
//! other point with records). Four rows of different markers: riding on data, alone, late, and
//! repeated. Late is 10 ms or more after its data entered the queue.

use sockscope_analysis::{AckNews, Passage, acknowledgments};
use sockscope_record::{Point, Stage};
use sockscope_render::number::count;
use sockscope_render::page::{Key, Page, Panel, Sample};
use sockscope_render::scale::{Axis, Scale, Tick};
use sockscope_render::svg::{Path, Rect};
use sockscope_render::theme::{Ink, Shape, Stroke};

use super::figure_page;
use super::packet_trace::{is_crowded, one_per_column};
use super::queue_length::draw_queue;
use super::scene::{Scene, end_of};
use crate::palette;

/// An acknowledgment this long after its data is late: twice the longest time of a busy receiver,
/// a quarter of the shortest delayed-ACK timer in use.
const LATE_NS: u64 = 10_000_000;

/// More marks than this are not tied to the queue's curve.
const DROP_LINES_MAX: usize = 60;

/// The effect of an acknowledgment; also its row, from the top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AckKind {
    /// Acknowledged new data, on a segment with data of its own.
    OnData,
    /// Acknowledged new data, alone.
    Pure,
    /// Acknowledged new data long after its arrival.
    Late,
    /// Acknowledged nothing new: a duplicate, or a window update.
    Repeat,
}

impl AckKind {
    const ALL: [Self; 4] = [Self::OnData, Self::Pure, Self::Late, Self::Repeat];

    fn row_words(self) -> &'static str {
        match self {
            Self::OnData => "on data",
            Self::Pure => "pure",
            Self::Late => "late",
            Self::Repeat => "repeat",
        }
    }

    fn mark(self) -> (Ink, Shape) {
        match self {
            Self::OnData => (Ink::Ack, Shape::Triangle),
            Self::Pure => (Ink::Ack, Shape::Circle),
            Self::Late => (Ink::Alarm, Shape::Diamond),
            Self::Repeat => (Ink::Plain, Shape::Cross),
        }
    }
}

pub(super) fn draw(scene: &Scene<'_>) -> String {
    let key =
        |kind: AckKind, words| Key { sample: Sample::Mark(kind.mark().0, kind.mark().1), words };
    let queue = Ink::Class(palette::stage(Stage::ReceiveQueue).class);
    let keys = [
        Key { sample: Sample::Line(queue, Stroke::Line), words: "bytes in the queue" },
        key(AckKind::OnData, "ACK on a data segment"),
        key(AckKind::Pure, "pure ACK"),
        key(AckKind::Late, "ACK 10 ms or more after its data"),
        key(AckKind::Repeat, "duplicate or window update"),
        Key { sample: Sample::Unknown, words: "unknown: records were missed" },
    ];
    let mut page = figure_page::open(scene, "Receive queue and acknowledgments", &keys);
    let areas = page.stack(&[3.2, 1.0], true);
    let acks: Vec<(u64, AckKind)> =
        acks(scene).into_iter().filter(|(at_ns, _)| scene.shows(*at_ns)).collect();
    draw_drop_lines(scene, &mut page, areas[0], &acks);
    draw_queue(scene, &mut page, Stage::ReceiveQueue, areas[0], false);
    draw_acks(scene, &mut page, areas[1], &acks);
    page.finish()
}

fn draw_acks(scene: &Scene<'_>, page: &mut Page, area: Rect, acks: &[(u64, AckKind)]) {
    let panel = Panel { area, x: figure_page::time_axis(scene, area), y: row_axis(area) };
    page.svg.group("acks");
    page.panel_title(area, "acknowledgments of this data", &summary(acks));
    figure_page::frame(scene, page, &panel, true);
    if acks.is_empty() {
        page.empty(area, "no acknowledgments seen");
    }
    for kind in AckKind::ALL {
        draw_row(scene, page, &panel, kind, acks);
    }
    page.svg.end_group();
}

fn draw_row(
    scene: &Scene<'_>,
    page: &mut Page,
    panel: &Panel,
    kind: AckKind,
    acks: &[(u64, AckKind)],
) {
    let of_kind = || acks.iter().filter(|ack| ack.1 == kind);
    let xs = of_kind().map(|ack| (panel.x.scale.px(scene.since_zero(ack.0)), 0.0));
    let number = of_kind().count();
    if is_crowded(number, panel.area) {
        page.note("a row of very many marks has one for each pixel column".to_owned());
    }
    let y = panel.y.scale.px(row_value(kind));
    let radius = (panel.area.height / 10.0).clamp(2.5, 5.0);
    let (ink, shape) = kind.mark();
    let mut path = Path::default();
    for (x, _) in one_per_column(xs, panel.area, number) {
        shape.put(&mut path, (x, y), radius);
    }
    page.svg.path(&ink.drawn(shape.stroke()), &path);
}

/// Ties acknowledgments to the queue's length at their moment: all of them while they are few,
/// else the late ones, while those are.
fn draw_drop_lines(scene: &Scene<'_>, page: &mut Page, area: Rect, acks: &[(u64, AckKind)]) {
    let x = figure_page::time_axis(scene, area).scale;
    let late = || acks.iter().filter(|ack| ack.1 == AckKind::Late);
    for kind in AckKind::ALL {
        let is_tied = match kind {
            AckKind::Late => late().count() <= DROP_LINES_MAX,
            _ => acks.len() <= DROP_LINES_MAX,
        };
        let mut path = Path::default();
        for (at_ns, _) in acks.iter().filter(|ack| is_tied && ack.1 == kind) {
            path.bar(x.px(scene.since_zero(*at_ns)), area.y, area.bottom());
        }
        page.svg.path(&kind.mark().0.drawn(Stroke::Dotted), &path);
    }
}

fn summary(acks: &[(u64, AckKind)]) -> String {
    let words = AckKind::ALL.map(|kind| {
        let number = acks.iter().filter(|ack| ack.1 == kind).count();
        format!("{} {}", count(number as u64), kind.row_words())
    });
    words.join(", ")
}

fn row_axis(area: Rect) -> Axis {
    let ticks = AckKind::ALL
        .map(|kind| Tick { at: row_value(kind), label: kind.row_words().to_owned() })
        .to_vec();
    Axis {
        scale: Scale::linear(0.0, AckKind::ALL.len() as f64, area.bottom(), area.y),
        ticks,
        label: String::new(),
    }
}

fn row_value(kind: AckKind) -> f64 {
    AckKind::ALL.len() as f64 - kind as usize as f64 - 0.5
}

/// Every acknowledgment with news about the data of the scene's flow, in time order.
fn acks(scene: &Scene<'_>) -> Vec<(u64, AckKind)> {
    let arrivals = scene.flow().at(Point::ReceiveEnqueue);
    let (mut arrived, mut next_arrival) = (0, 0);
    let mut acks = Vec::new();
    for (pass, news) in acknowledgments(scene.store, scene.options.direction) {
        let position = match news {
            AckNews::Advances { to, .. } => to,
            AckNews::Repeats => {
                acks.push((pass.at_ns, AckKind::Repeat));
                continue;
            }
            AckNews::Nothing => continue,
        };
        let mut came_ns = None;
        while arrived < position && next_arrival < arrivals.len() {
            let arrival = &arrivals[next_arrival];
            arrived = arrived.max(end_of(arrival));
            came_ns = Some(arrival.at_ns);
            next_arrival += 1;
        }
        if came_ns.is_none() && next_arrival > 0 {
            came_ns = Some(arrivals[next_arrival - 1].at_ns);
        }
        acks.push((pass.at_ns, advancing(pass, came_ns)));
    }
    acks
}

fn advancing(pass: &Passage, came_ns: Option<u64>) -> AckKind {
    if came_ns.is_some_and(|came_ns| pass.at_ns.saturating_sub(came_ns) >= LATE_NS) {
        AckKind::Late
    } else if pass.len == 0 {
        AckKind::Pure
    } else {
        AckKind::OnData
    }
}
