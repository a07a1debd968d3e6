//! What processes did over time, and the lengths of queues, on one axis: rows of bars, and step curves below them.

use crate::columns::{Column, step_envelope};
use crate::page::{Head, Key, Page, Panel, Sample};
use crate::scale::{Axis, Scale, Tick};
use crate::size::{SizeError, check_size};
use crate::svg::{Path, Rect};
use crate::theme::{Ink, Stroke};
use crate::units::Quantity;

/// Height of a bar, of the height of its row.
const BAR_SHARE: f64 = 0.6;
const NAMES_PX: f64 = 90.0;

/// A drawing of activity with the text around it. Times are nanoseconds on one clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// The subject.
    pub title: String,
    /// The system that was watched.
    pub subtitle: String,
    /// First and last instant shown.
    pub window_ns: (f64, f64),
    /// Over the rows.
    pub rows_title: String,
    /// From top to bottom.
    pub rows: Vec<ActivityRow>,
    /// Instants that a line through all panels marks.
    pub marked_ns: Vec<f64>,
    /// Meaning of those, for the legend.
    pub marked_words: String,
    /// Below the rows.
    pub queues: Vec<QueueCurve>,
    /// Notes for the reader, under the drawing.
    pub notes: Vec<String>,
    /// Source of the data: the last line.
    pub facts: String,
}

/// One process.
#[derive(Debug, Clone, PartialEq)]
pub struct ActivityRow {
    /// Its name.
    pub name: String,
    /// When it was active, in order.
    pub spans_ns: Vec<(f64, f64)>,
}

/// The length of a queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueCurve {
    /// Its name.
    pub title: String,
    /// From a time on so many bytes, in order of time; `None`: unknown.
    pub steps: Vec<(f64, Option<f64>)>,
    /// The class of its curve, and the colours of the class on a light and on a dark ground.
    pub look: (&'static str, [&'static str; 2]),
}

/// Draws the timeline as an SVG document of `width` by `height` pixels.
///
/// # Errors
///
/// When the width or the height is outside [`SIZES_PX`](crate::size::SIZES_PX).
pub fn draw_timeline(timeline: &Timeline, width: u32, height: u32) -> Result<String, SizeError> {
    check_size(width, height)?;
    let mut keys = vec![Key { sample: Sample::Bar(Ink::Data), words: "has work" }];
    if !timeline.marked_words.is_empty() {
        let sample = Sample::Line(Ink::Plain, Stroke::Dotted);
        keys.push(Key { sample, words: &timeline.marked_words });
    }
    if !timeline.queues.is_empty() {
        let sample = Sample::Line(Ink::Plain, Stroke::Line);
        keys.push(Key { sample, words: "bytes in the queue" });
    }
    let head = Head {
        title: &timeline.title,
        subtitle: &timeline.subtitle,
        facts: timeline.facts.clone(),
        size: (width, height),
    };
    let mut page = Page::with_head(head, &keys);
    timeline.notes.iter().for_each(|note| page.note(note.clone()));
    page.leave_room(NAMES_PX);
    let mut heights = vec![1.0; timeline.queues.len() + 1];
    heights[0] = 1.2;
    let areas = page.stack(&heights, true);
    let is_last = |index: usize| index + 1 == areas.len();
    draw_rows(&mut page, timeline, areas[0], is_last(0));
    for (index, queue) in timeline.queues.iter().enumerate() {
        draw_queue(&mut page, timeline, queue, (areas[index + 1], is_last(index + 1)));
    }
    Ok(page.finish())
}

fn time_axis(timeline: &Timeline, area: Rect) -> Axis {
    let px = (area.x, area.right());
    Axis::linear("time", Quantity::Time, timeline.window_ns, px, 10)
}

fn draw_rows(page: &mut Page, timeline: &Timeline, area: Rect, is_last: bool) {
    page.svg.group("activity");
    page.panel_title(area, &timeline.rows_title, "");
    let count = timeline.rows.len() as f64;
    let middle = |index: usize| count - index as f64 - 0.5;
    let tick =
        |(index, row): (usize, &ActivityRow)| Tick { at: middle(index), label: row.name.clone() };
    let panel = Panel {
        area,
        x: time_axis(timeline, area),
        y: Axis {
            scale: Scale::linear(0.0, count, area.bottom(), area.y),
            ticks: timeline.rows.iter().enumerate().map(tick).collect(),
            label: String::new(),
        },
    };
    page.frame(&panel, is_last);
    let height = area.height / count.max(1.0) * BAR_SHARE;
    let (from_ns, to_ns) = timeline.window_ns;
    for (index, row) in timeline.rows.iter().enumerate() {
        let y = panel.y.scale.px(middle(index)) - height / 2.0;
        for &(began_ns, ended_ns) in &row.spans_ns {
            if ended_ns >= from_ns && began_ns <= to_ns {
                let (x, right) = (panel.x.scale.px(began_ns), panel.x.scale.px(ended_ns));
                let bar = Rect { x, y, width: (right - x).max(1.0), height };
                page.svg.rect(&Ink::Data.drawn(Stroke::Fill), bar);
            }
        }
    }
    draw_marked(page, timeline, &panel);
    page.svg.end_group();
}

fn draw_queue(
    page: &mut Page,
    timeline: &Timeline,
    queue: &QueueCurve,
    (area, is_last): (Rect, bool),
) {
    let (from_ns, to_ns) = timeline.window_ns;
    // The last step before the window still holds in it.
    let first = queue.steps.partition_point(|(at_ns, _)| *at_ns <= from_ns).saturating_sub(1);
    let last = queue.steps.partition_point(|(at_ns, _)| *at_ns <= to_ns);
    let steps = queue.steps.get(first..last).unwrap_or(&[]);
    let high = steps.iter().filter_map(|(_, value)| *value).fold(0.0, f64::max);
    page.svg.group(&queue.title);
    page.panel_title(area, &queue.title, &format!("most {}", Quantity::Bytes.words(high)));
    let panel = Panel {
        area,
        x: time_axis(timeline, area),
        y: Axis::from_zero("length", Quantity::Bytes, high, (area.bottom(), area.y), 5),
    };
    page.frame(&panel, is_last);
    let (class, colours) = queue.look;
    page.colour(class, colours);
    let px = |at_ns: f64| panel.x.scale.px(at_ns);
    let points = steps.iter().map(|(at_ns, value)| (px(*at_ns), *value));
    // Nothing is known after the time shown.
    let end = std::iter::once((px(to_ns), None));
    let columns = step_envelope(points.chain(end), area.x, area.width);
    let ink = Ink::Class(class);
    page.svg.path(&ink.drawn(Stroke::Thin), &envelope(&panel, &columns));
    draw_marked(page, timeline, &panel);
    page.svg.end_group();
}

/// In each pixel column from zero to the most.
fn envelope(panel: &Panel, columns: &[Column]) -> Path {
    let mut path = Path::default();
    for column in columns.iter().filter(|column| column.max > 0.0) {
        path.bar(column.x_px, panel.area.bottom(), panel.y.scale.px(column.max));
    }
    path
}

fn draw_marked(page: &mut Page, timeline: &Timeline, panel: &Panel) {
    let (from_ns, to_ns) = timeline.window_ns;
    let mut lines = Path::default();
    for at_ns in timeline.marked_ns.iter().filter(|at_ns| (from_ns..=to_ns).contains(*at_ns)) {
        lines.bar(panel.x.scale.px(*at_ns), panel.area.bottom(), panel.area.y);
    }
    page.svg.path(&Ink::Plain.drawn(Stroke::Dotted), &lines);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline() -> Timeline {
        let row = |name: &str, spans_ns: &[(f64, f64)]| ActivityRow {
            name: name.to_owned(),
            spans_ns: spans_ns.to_vec(),
        };
        Timeline {
            title: "A stage".to_owned(),
            subtitle: "model".to_owned(),
            window_ns: (1000.0, 2000.0),
            rows_title: "processes".to_owned(),
            rows: vec![
                row("read", &[(100.0, 200.0), (1100.0, 1200.0)]),
                row("write", &[(1400.0, 2400.0)]),
            ],
            marked_ns: vec![1400.0, 2400.0],
            marked_words: "write begins".to_owned(),
            queues: vec![QueueCurve {
                title: "interface queue".to_owned(),
                steps: vec![(0.0, Some(10.0)), (1500.0, Some(300.0)), (1600.0, Some(0.0))],
                look: ("place-interface_queue", ["#111111", "#eeeeee"]),
            }],
            notes: Vec::new(),
            facts: "sockscope: 1 case".to_owned(),
        }
    }

    #[test]
    fn states_and_queue_share_one_axis_and_its_window() {
        let svg = draw_timeline(&timeline(), 800, 500).unwrap();
        let bars = svg.matches("<rect class=\"fill data\"").count();
        assert_eq!(bars, 3, "one of the legend, one of each process in the window: {svg}");
        let drawing = svg.split("<g id=\"activity\">").nth(1).unwrap();
        let marks = drawing.matches("<path class=\"dotted plain\"");
        assert_eq!(marks.count(), 2, "one path in each panel");
        assert!(svg.contains(">most 300 B<") && svg.contains(">write begins<"), "{svg}");
        assert_eq!(svg.matches(">time (µs)<").count(), 1, "numbers stand under the last panel");
    }

    #[test]
    fn rows_without_a_queue_have_the_numbers() {
        let alone = Timeline { queues: Vec::new(), ..timeline() };
        let svg = draw_timeline(&alone, 800, 400).unwrap();
        assert!(svg.contains(">time (µs)<") && !svg.contains("bytes in the queue"), "{svg}");
    }
}
