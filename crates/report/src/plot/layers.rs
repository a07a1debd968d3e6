//! One direction's data on their way through the layers: a column for each of the eight points, from
//! the writer at the left to the reader at the right, time downward.
//!
//! Each line is one segment: it falls while its last byte waits in a layer. Times are drawn to
//! scale but for gaps in which nothing happens, which are cut and labelled with their length.

use sockscope_analysis::Pass;
use sockscope_record::{Point, marks};

use super::page::{Key, Page, Sample};
use super::scene::{Scene, end_of};
use super::svg::{Anchor, Path, Rect};
use super::theme::{self, Ink, Shape, Stroke, Words};
use super::units::{Quantity, grouped};
use crate::number::count;

/// Segments shown at most: more lines than this cannot be told apart.
const SEGMENTS_MAX: usize = 40;
/// Room for times, left; right as much, or more where the words for segments need it.
const SIDE_PX: f64 = 92.0;
/// Room above the first event, for the names of the layers.
const HEAD_PX: f64 = 58.0;
/// Height of a cut in time.
const CUT_PX: f64 = 30.0;
/// A gap is cut when it is longer than this share of all gaps that are not.
const CUT_SHARE: f64 = 0.25;
/// Between the last column and the words for a segment.
const LABEL_GAP_PX: f64 = 10.0;
/// Least distance of two times at the left edge.
const ROW_PX: f64 = 14.0;

/// What stands over each column.
const LAYERS: [(&str, &str); 8] = [
    ("program", "write"),
    ("socket", "to TCP"),
    ("IP", "to interface"),
    ("driver", "to wire"),
    ("driver", "from wire"),
    ("IP", "takes it"),
    ("TCP", "to socket"),
    ("program", "read"),
];

/// A segment and when its last byte passed each point.
struct Journey {
    bytes: u32,
    from: u64,
    at_ns: [Option<u64>; 8],
}

pub(super) fn draw(scene: &Scene<'_>) -> String {
    let keys = [
        Key { sample: Sample::Line(Ink::Data, Stroke::Line), words: "a segment's last byte" },
        Key { sample: Sample::Mark(Ink::Program, Shape::Triangle), words: "write" },
        Key { sample: Sample::Mark(Ink::Program, Shape::Circle), words: "read" },
    ];
    let mut page = Page::open(scene, "Through the layers", &keys);
    let (mut journeys, mut left_out) = journeys(scene);
    // Cuts have a height of their own, so that a trace of long waits has room for fewer segments.
    let room_px = room_px(page.content());
    while journeys.len() > 1 && Heights::of(&journeys, room_px).bottom() > room_px {
        journeys.pop();
        left_out += 1;
    }
    page.svg.group("layers");
    if journeys.is_empty() {
        page.empty(page.content(), "no segments seen");
    } else {
        draw_journeys(scene, &mut page, &journeys);
    }
    page.svg.end_group();
    if left_out > 0 {
        page.note(format!(
            "{} segments shown, {} later ones left out",
            count(journeys.len() as u64),
            count(left_out as u64)
        ));
    }
    page.finish()
}

/// The segments within the time shown, as TCP took them (else as the driver did), and how many more
/// there are.
fn journeys(scene: &Scene<'_>) -> (Vec<Journey>, usize) {
    let flow = scene.flow();
    let points = [Point::SendDequeue, Point::InterfaceDequeue, Point::InputEnqueue];
    let seen = points.into_iter().find(|point| flow.at(*point).iter().any(|pass| pass.len > 0));
    let Some(seen) = seen else { return (Vec::new(), 0) };
    let is_first = |pass: &&Pass| pass.len > 0 && pass.marks & marks::RETRANSMITTED == 0;
    let mut segments = scene.shown(flow.at(seen)).iter().filter(is_first);
    let shown = segments.by_ref().take(SEGMENTS_MAX);
    let journeys = shown.map(|pass| journey(scene, pass)).collect();
    (journeys, segments.count())
}

fn journey(scene: &Scene<'_>, segment: &Pass) -> Journey {
    let last = end_of(segment).saturating_sub(1);
    let passed = |point| {
        let passes = scene.flow().at(point).iter();
        let mut holds = passes.filter(|pass| pass.offset <= last && last < end_of(pass));
        holds.next().map(|pass| pass.at_ns).filter(|at_ns| scene.shows(*at_ns))
    };
    Journey { bytes: segment.len, from: segment.offset, at_ns: Point::ALL.map(passed) }
}

/// Time to height: to scale, with long gaps cut.
struct Heights {
    /// Instants in order, each with its height; a cut before it has its length.
    stops: Vec<(u64, f64, Option<u64>)>,
}

impl Heights {
    fn of(journeys: &[Journey], room_px: f64) -> Self {
        let mut times: Vec<u64> =
            journeys.iter().flat_map(|journey| journey.at_ns).flatten().collect();
        times.sort_unstable();
        times.dedup();
        let cut_ns = cut_ns(&times);
        let gaps = || times.windows(2).map(|pair| pair[1] - pair[0]);
        let cuts = gaps().filter(|gap| *gap > cut_ns).count() as f64;
        let drawn_ns: u64 = gaps().filter(|gap| *gap <= cut_ns).sum();
        let px_per_ns = (room_px - cuts * CUT_PX).max(ROW_PX) / drawn_ns.max(1) as f64;
        let (mut stops, mut y) = (Vec::with_capacity(times.len()), 0.0);
        for (at, time_ns) in times.iter().enumerate() {
            let gap_ns = at.checked_sub(1).map_or(0, |before| time_ns - times[before]);
            let is_cut = gap_ns > cut_ns;
            y += if is_cut { CUT_PX } else { gap_ns as f64 * px_per_ns };
            stops.push((*time_ns, y, is_cut.then_some(gap_ns)));
        }
        Self { stops }
    }

    fn y(&self, at_ns: u64) -> f64 {
        let at = self.stops.partition_point(|(time_ns, ..)| *time_ns < at_ns);
        self.stops.get(at).or(self.stops.last()).map_or(0.0, |(_, y, _)| *y)
    }

    fn bottom(&self) -> f64 {
        self.stops.last().map_or(0.0, |(_, y, _)| *y)
    }
}

/// The longest gap that is drawn to scale: longer ones would leave too little room for the others.
fn cut_ns(times: &[u64]) -> u64 {
    let mut gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    let (mut sum_ns, mut longest) = (0, u64::MAX);
    for (at, gap) in gaps.iter().enumerate() {
        // The first gaps are kept whatever their share: some must be drawn.
        if at >= 4
            && *gap as f64 > CUT_SHARE * (sum_ns + gap) as f64
            && *gap > gaps[at - 1].saturating_mul(4)
        {
            longest = gaps[at - 1];
            break;
        }
        sum_ns += gap;
    }
    longest
}

fn draw_journeys(scene: &Scene<'_>, page: &mut Page, journeys: &[Journey]) {
    let content = page.content();
    let top = content.y + HEAD_PX;
    let heights = Heights::of(journeys, room_px(content));
    let words = journeys.iter().map(|journey| Words::Tick.width_px(&label(journey)));
    let right_px = words.fold(SIDE_PX, |most, width| most.max(width + LABEL_GAP_PX));
    let between = content.width - SIDE_PX - right_px;
    let column = |index: usize| content.x + SIDE_PX + between * index as f64 / 7.0;
    draw_columns(page, &column, content, top + heights.bottom() + 8.0);
    let across = (column(0), column(7));
    draw_times(scene, page, &heights, across, top);
    for journey in journeys {
        draw_journey(page, journey, &|index| column(index), &|at_ns| top + heights.y(at_ns));
    }
    label_segments(page, journeys, column(7) + LABEL_GAP_PX, &|at_ns| top + heights.y(at_ns));
}

/// Height for the times, below the names of the layers.
fn room_px(content: Rect) -> f64 {
    (content.bottom() - content.y - HEAD_PX - 12.0).max(1.0)
}

fn draw_columns(page: &mut Page, column: &impl Fn(usize) -> f64, content: Rect, bottom: f64) {
    let mut lines = Path::default();
    for (index, (layer, step)) in LAYERS.iter().enumerate() {
        let x = column(index);
        lines.bar(x, content.y + HEAD_PX - 8.0, bottom);
        let above = |up: f64| (x, content.y + HEAD_PX - up);
        page.svg.text(Words::Panel.class(), Anchor::Middle, above(42.0), layer);
        page.svg.text(Words::Tick.class(), Anchor::Middle, above(28.0), step);
        let number = format!("{}", Point::ALL[index].number());
        page.svg.text(Words::Tick.class(), Anchor::Middle, above(14.0), &number);
    }
    page.svg.path("axis", &lines);
}

/// Times at the left edge, where there is room, and cuts across all columns.
fn draw_times(
    scene: &Scene<'_>,
    page: &mut Page,
    heights: &Heights,
    (left, right): (f64, f64),
    top: f64,
) {
    let place = (left - 12.0, top - 14.0);
    page.svg.text(Words::Axis.class(), Anchor::End, place, "time (ms)");
    let mut free_from = f64::NEG_INFINITY;
    for (at_ns, y, cut) in &heights.stops {
        if let Some(ns) = cut {
            let y = top + y - CUT_PX / 2.0;
            let ground = Rect { x: left, y: y - 8.0, width: right - left, height: 16.0 };
            page.svg.rect(theme::CUT, ground);
            let middle = ((left + right) / 2.0, y + 4.5);
            let words = Quantity::Time.words(*ns as f64);
            page.svg.text(Words::Panel.class(), Anchor::Middle, middle, &words);
        }
        if *y >= free_from {
            let time_ms = format!("{:.3}", scene.since_zero(*at_ns) / 1e6);
            let place = (left - 12.0, top + y + 4.0);
            page.svg.text(Words::Tick.class(), Anchor::End, place, &grouped(&time_ms));
            free_from = y + ROW_PX;
        }
    }
}

fn draw_journey(
    page: &mut Page,
    journey: &Journey,
    column: &impl Fn(usize) -> f64,
    height: &impl Fn(u64) -> f64,
) {
    let passed = journey.at_ns.iter().enumerate();
    let places: Vec<(usize, (f64, f64))> = passed
        .filter_map(|(index, at_ns)| at_ns.map(|at_ns| (index, (column(index), height(at_ns)))))
        .collect();
    let mut line = Path::default();
    for (at, (_, place)) in places.iter().enumerate() {
        if at == 0 { line.move_to(*place) } else { line.line_to(*place) }
    }
    page.svg.path(&Ink::Data.drawn(Stroke::Line), &line);
    for (index, place) in places {
        let shape = match Point::ALL[index] {
            Point::SendEnqueue => Shape::Triangle,
            Point::ReceiveDequeue => Shape::Circle,
            _ => continue,
        };
        let mut mark = Path::default();
        shape.put(&mut mark, place, 4.5);
        page.svg.path(&Ink::Program.drawn(shape.stroke()), &mark);
    }
}

/// Each segment's bytes at the right edge, beside where it was last seen, where there is room.
fn label_segments(page: &mut Page, journeys: &[Journey], x: f64, height: &impl Fn(u64) -> f64) {
    let mut free_from = f64::NEG_INFINITY;
    for journey in journeys {
        let Some(last_ns) = journey.at_ns.iter().flatten().max() else { continue };
        let y = height(*last_ns);
        if y >= free_from {
            page.svg.text(Words::Tick.class(), Anchor::Start, (x, y + 4.0), &label(journey));
            free_from = y + ROW_PX;
        }
    }
}

fn label(journey: &Journey) -> String {
    let (bytes, from) = (journey.bytes.to_string(), journey.from.to_string());
    format!("{} at {}", grouped(&bytes), grouped(&from))
}

#[cfg(test)]
mod tests {
    use super::cut_ns;

    #[test]
    fn gaps_of_centuries_are_cut_without_overflow() {
        let quarter = u64::MAX / 5;
        let times: Vec<_> = (0..6).map(|number| number * quarter).collect();
        assert_eq!(cut_ns(&times), u64::MAX);
    }
}
