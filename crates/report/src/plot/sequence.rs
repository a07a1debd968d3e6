//! Positions in the stream over time: bytes sent, acknowledged, allowed and read.
//!
//! A vertical stroke is a segment at point 2, from its first to its last byte. Below it run the lines
//! of the bytes that the sender knows to be acknowledged and of those read; above it the edge of the
//! window that the receiver offers. The room between stroke and edge is the bytes that could be sent.

use sockscope_analysis::Passage;
use sockscope_record::{Point, Record, marks, tcp_flags};
use sockscope_render::columns;
use sockscope_render::number::{count, counted};
use sockscope_render::page::{Key, Page, Panel, Sample};
use sockscope_render::scale::Axis;
use sockscope_render::svg::{Path, Rect};
use sockscope_render::theme::{Ink, Shape, Stroke};
use sockscope_render::units::Quantity;

use super::curves::{Step, clipped};
use super::error_band;
use super::figure_page;
use super::packet_trace::{crowd, is_crowded};
use super::scene::{Scene, end_of};
use super::step_line;

/// The window's edge may raise the figure to so many times the height of the rest.
const EDGE_ROOM: f64 = 2.0;

/// The three lines of the figure.
struct Lines {
    acknowledged: Vec<Step>,
    window_edge: Vec<Step>,
    read: Vec<Step>,
}

pub(super) fn draw(scene: &Scene<'_>) -> String {
    let sent_words = format!("{} sent", scene.unit());
    let mut keys = vec![
        Key { sample: Sample::Bars(Ink::Data), words: &sent_words },
        Key { sample: Sample::Mark(Ink::Alarm, Shape::Cross), words: "sent again" },
        Key { sample: Sample::Line(Ink::Window, Stroke::Dashed), words: "edge of the window" },
        Key { sample: Sample::Line(Ink::Ack, Stroke::Line), words: "acknowledged" },
        Key {
            sample: Sample::Line(Ink::Program, Stroke::Dotted),
            words: "read by the application",
        },
    ];
    if scene.is_unix() {
        // Those of TCP: sent again, the window and the acknowledgments.
        keys.drain(1..4);
    }
    let mut page = figure_page::open(scene, "Sequence", &keys);
    let area = page.stack(&[1.0], true)[0];
    let (point, seen) = segments(scene);
    let sent = scene.shown(seen);
    let lines = Lines::of(scene);
    let panel = panel(scene, &mut page, area, sent, &lines);
    page.svg.group("sequence");
    page.panel_title(area, "position in the stream", &summary(scene, sent));
    figure_page::frame(scene, &mut page, &panel, true);
    if sent.iter().all(|pass| pass.len == 0) {
        page.empty(area, &format!("no {}s with data seen", scene.unit()));
    } else if point != Point::SendDequeue && !scene.is_unix() {
        page.note(format!("point 2 was not seen: segments are those of point {}", point.number()));
    }
    draw_line(scene, &mut page, &panel, &lines.window_edge, (Ink::Window, Stroke::Dashed));
    let within = within(&panel, &lines.read);
    let has_band = error_band::steps(scene, &mut page, &panel, &within, Ink::Program);
    let look = if has_band { ": the pale band of the bytes read" } else { "" };
    error_band::note(scene, &mut page, look);
    draw_line(scene, &mut page, &panel, &lines.read, (Ink::Program, Stroke::Dotted));
    draw_line(scene, &mut page, &panel, &lines.acknowledged, (Ink::Ack, Stroke::Line));
    draw_segments(scene, &mut page, &panel, sent);
    page.svg.end_group();
    if scene.loses_records_of(&[point]) {
        let (number, unit) = (point.number(), scene.unit());
        page.note(format!("records of point {number} were missed: {unit}s are missing"));
    }
    page.finish()
}

/// The flow's segments at point 2, or at the next point that was seen.
pub(super) fn segments<'a>(scene: &Scene<'a>) -> (Point, &'a [Passage]) {
    let points = &Point::ALL[Point::SendDequeue.index()..Point::ReceiveDequeue.index()];
    let seen = points.iter().find(|point| !scene.flow().at(**point).is_empty());
    let point = seen.copied().unwrap_or(Point::SendDequeue);
    (point, scene.flow().at(point))
}

impl Lines {
    fn of(scene: &Scene<'_>) -> Self {
        let arriving = [Point::InputDequeue, Point::InputEnqueue, Point::InterfaceDequeue];
        let acks = arriving.map(|point| scene.reverse().at(point));
        let acks = acks.into_iter().find(|acks| !acks.is_empty()).unwrap_or(&[]);
        let acks = acks.iter().filter(|pass| pass.tcp_flags & tcp_flags::ACK != 0);
        let reads = scene.flow().at(Point::ReceiveDequeue).iter();
        Self {
            window_edge: window_edge(scene, acks.clone()),
            acknowledged: rising(scene, acks.map(|pass| (pass.at_ns, pass.acknowledged()))),
            read: rising(scene, reads.map(|pass| (pass.at_ns, end_of(pass)))),
        }
    }
}

/// The position that each arriving acknowledgment allows to be sent up to: the acknowledged one and
/// the window behind that (RFC 9293 §3.3.1). Without records of their arrival, the sender's notes of them.
fn window_edge<'a>(scene: &Scene<'_>, acks: impl Iterator<Item = &'a Passage>) -> Vec<Step> {
    let edges: Vec<_> = acks.map(|pass| (pass.at_ns, pass.window_edge())).collect();
    if !edges.is_empty() {
        return steps(scene, edges.into_iter());
    }
    let edge = |event: &Record| {
        let window = event.send_window()?;
        Some((event.at_ns, event.offset.saturating_add(window.bytes)))
    };
    steps(scene, scene.flow().events.iter().filter_map(edge))
}

/// A curve that only rises: a lower position later adds nothing.
fn rising(scene: &Scene<'_>, positions: impl Iterator<Item = (u64, u64)>) -> Vec<Step> {
    let mut highest = 0;
    let raised = positions.map(|(at_ns, position)| {
        highest = highest.max(position);
        (at_ns, highest)
    });
    steps(scene, raised)
}

fn steps(scene: &Scene<'_>, positions: impl Iterator<Item = (u64, u64)>) -> Vec<Step> {
    let all: Vec<Step> =
        positions.map(|(at_ns, position)| Step { at_ns, value: Some(position as f64) }).collect();
    clipped(scene, &all, |step| step.at_ns).to_vec()
}

fn panel(scene: &Scene<'_>, page: &mut Page, area: Rect, sent: &[Passage], lines: &Lines) -> Panel {
    let values = |steps: &[Step]| steps.iter().filter_map(|step| step.value).collect::<Vec<_>>();
    let mut positions: Vec<f64> = Vec::new();
    for pass in sent.iter().filter(|pass| pass.len > 0) {
        positions.extend([pass.offset as f64, end_of(pass) as f64]);
    }
    if positions.is_empty() {
        positions = [values(&lines.acknowledged), values(&lines.read)].concat();
    }
    let low = positions.iter().copied().fold(f64::INFINITY, f64::min);
    let high = positions.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = if low <= high { (low, high.max(low + 1.0)) } else { (0.0, 1.0) };
    let edge = values(&lines.window_edge).into_iter().fold(f64::NEG_INFINITY, f64::max);
    let room = low + (high - low) * EDGE_ROOM;
    if edge > room {
        let words = Quantity::Bytes.words(edge - high);
        page.note(format!(
            "the window's edge lies above the figure, up to {words} past the last byte sent"
        ));
    }
    let top = if edge > room { high } else { high.max(edge) };
    let margin = (top - low) * 0.03;
    let bottom = if low <= margin { 0.0 } else { low - margin };
    let px = (area.bottom(), area.y);
    let name = "position";
    let y = Axis::linear(name, Quantity::Bytes, (bottom, top + margin), px, 8);
    Panel { area, x: figure_page::time_axis(scene, area), y }
}

fn summary(scene: &Scene<'_>, sent: &[Passage]) -> String {
    let data = || sent.iter().filter(|pass| pass.len > 0);
    if scene.is_unix() {
        return counted(data().count() as u64, scene.unit());
    }
    let again = data().filter(|pass| pass.marks & marks::RETRANSMITTED != 0).count();
    format!(
        "{} with data, {} sent again",
        counted(data().count() as u64, "segment"),
        count(again as u64)
    )
}

/// Draws the part of a line that lies within the figure: nothing when it is all above or below.
fn draw_line(
    scene: &Scene<'_>,
    page: &mut Page,
    panel: &Panel,
    steps: &[Step],
    style: (Ink, Stroke),
) {
    step_line::draw(scene, page, panel, &within(panel, steps), style);
}

/// Steps whose values lie outside of the figure are unknown in it.
fn within(panel: &Panel, steps: &[Step]) -> Vec<Step> {
    let (low, high) = (panel.y.scale.low(), panel.y.scale.high());
    let within = |value: &f64| (low..=high).contains(value);
    steps.iter().map(|step| Step { value: step.value.filter(within), ..*step }).collect()
}

fn draw_segments(scene: &Scene<'_>, page: &mut Page, panel: &Panel, sent: &[Passage]) {
    let x_of = |pass: &Passage| panel.x.scale.px(scene.since_zero(pass.at_ns));
    let y_of = |position: u64| panel.y.scale.px(position as f64);
    for (is_again, ink) in [(false, Ink::Data), (true, Ink::Alarm)] {
        let of_kind = || {
            sent.iter().filter(move |pass| {
                pass.len > 0 && (pass.marks & marks::RETRANSMITTED != 0) == is_again
            })
        };
        let mut path = Path::default();
        let mut crosses = Path::default();
        if is_crowded(of_kind().count(), panel.area) {
            let ends = of_kind().flat_map(|pass| {
                [(x_of(pass), pass.offset as f64), (x_of(pass), end_of(pass) as f64)]
            });
            for column in columns::envelope(ends, panel.area.x, panel.area.width) {
                let (low_y, high_y) = (panel.y.scale.px(column.min), panel.y.scale.px(column.max));
                put_stroke(&mut path, column.x_px, low_y, high_y);
                Shape::Cross.put(&mut crosses, (column.x_px, high_y), 4.0);
            }
            page.note(format!(
                "{} or more {}s are drawn as an envelope from the first to the last byte of \
                 each pixel column",
                count(crowd(panel.area) as u64),
                scene.unit()
            ));
        } else {
            for pass in of_kind() {
                let (low_y, high_y) = (y_of(pass.offset), y_of(end_of(pass)));
                put_stroke(&mut path, x_of(pass), low_y, high_y);
                Shape::Cross.put(&mut crosses, (x_of(pass), (low_y + high_y) / 2.0), 4.0);
            }
        }
        page.svg.path(&ink.drawn(Stroke::Line), &path);
        if is_again {
            page.svg.path(&ink.drawn(Shape::Cross.stroke()), &crosses);
        }
    }
}

/// A stroke between two heights, long enough to be seen.
fn put_stroke(path: &mut Path, x: f64, low_y: f64, high_y: f64) {
    let short = (2.0 - (low_y - high_y)).max(0.0) / 2.0;
    path.bar(x, low_y + short, high_y - short);
}
