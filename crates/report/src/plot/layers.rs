//! One direction's data in transit through the layers: a column for each of the eight points, from
//! the writer at the left to the reader at the right, time downward. Where programs report layers of
//! their own, two columns before the points and two behind them.
//!
//! Each line is one segment: it falls while its last byte waits in a layer. Times are drawn to
//! scale except for gaps without events, which are cut and labelled with their length.

use std::ops::Range;

use sockscope_analysis::Passage;
use sockscope_record::{Point, marks};
use sockscope_render::number::{count, counted};
use sockscope_render::page::{Key, Page, Sample};
use sockscope_render::svg::{Anchor, Path, Rect};
use sockscope_render::theme::{self, Ink, Shape, Stroke, Words};
use sockscope_render::units::{Quantity, grouped};

use super::error_band;
use super::figure_page;
use super::scene::{Scene, end_of};

/// Segments shown at most: more lines than this cannot be distinguished.
const SEGMENTS_MAX: usize = 40;
/// Room for times, left; right as much, or more where the words for segments need it.
const SIDE_PX: f64 = 92.0;
/// Room above the first event, for the names of the layers in one row.
const HEAD_PX: f64 = 58.0;
/// Height of a column's head: its layer, the event there and its point. Where heads form two rows,
/// one row is this much higher.
const HEAD_ROW_PX: f64 = 42.0;
/// Least distance of two heads in a row.
const HEAD_GAP_PX: f64 = 4.0;
/// Height of a cut in time.
const CUT_PX: f64 = 30.0;
/// A gap is cut when it is longer than this share of all gaps that are not.
const CUT_SHARE: f64 = 0.25;
/// Between the last column and the words for a segment, with room for a line to words that had to move.
const LABEL_GAP_PX: f64 = 24.0;
/// Least distance of two times at the left edge.
const ROW_PX: f64 = 14.0;

/// Where the eight points begin among the layers.
const POINTS_AT: usize = 2;
/// Where they end.
const POINTS_END: usize = POINTS_AT + Point::ALL.len();
/// Layers that may have a column: behind the points as many of the program's own as before them.
const LAYER_COUNT: usize = POINTS_END + POINTS_AT;

/// Every layer, and the event there.
const LAYERS: [(&str, &str); LAYER_COUNT] = [
    ("stub", "is called"),
    ("XDR", "done"),
    ("program", "write"),
    ("socket", "to TCP"),
    ("IP", "to interface"),
    ("driver", "to wire"),
    ("driver", "from wire"),
    ("IP", "takes it"),
    ("TCP", "to socket"),
    ("program", "read"),
    ("XDR", "begins"),
    ("stub", "is done"),
];

/// A segment and when its last byte was in each layer.
struct Journey {
    bytes: u32,
    from: u64,
    at_ns: [Option<u64>; LAYER_COUNT],
}

pub(super) fn draw(scene: &Scene<'_>) -> String {
    let keys = [
        Key { sample: Sample::Line(Ink::Data, Stroke::Line), words: "a segment's last byte" },
        Key { sample: Sample::Mark(Ink::Program, Shape::Triangle), words: "write" },
        Key { sample: Sample::Mark(Ink::Program, Shape::Circle), words: "read" },
    ];
    let mut page = figure_page::open(scene, "Through the layers", &keys);
    let (mut journeys, mut left_out) = journeys(scene);
    // Cuts have a height of their own, so that a trace of long waits has room for fewer segments.
    let fits = |journeys: &[Journey]| {
        let room_px = Columns::of(scene, page.content(), journeys).room_px();
        Heights::of(journeys, room_px).fits(room_px)
    };
    while journeys.len() > 1 && !fits(&journeys) {
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
            "{} shown, {} later left out",
            counted(journeys.len() as u64, "segment"),
            count(left_out as u64)
        ));
    }
    page.finish()
}

/// The segments within the time shown, as TCP took them (else as the driver did), and the number of
/// others.
fn journeys(scene: &Scene<'_>) -> (Vec<Journey>, usize) {
    let flow = scene.flow();
    let points = [Point::SendDequeue, Point::InterfaceDequeue, Point::InputEnqueue];
    let seen = points.into_iter().find(|point| flow.at(*point).iter().any(|pass| pass.len > 0));
    let Some(seen) = seen else { return (Vec::new(), 0) };
    let is_first = |pass: &&Passage| pass.len > 0 && pass.marks & marks::RETRANSMITTED == 0;
    let mut segments = scene.shown(flow.at(seen)).iter().filter(is_first);
    let shown = segments.by_ref().take(SEGMENTS_MAX);
    let journeys = shown.map(|pass| journey(scene, pass)).collect();
    (journeys, segments.count())
}

fn journey(scene: &Scene<'_>, segment: &Passage) -> Journey {
    let last = end_of(segment).saturating_sub(1);
    let passed = |point| {
        let passes = scene.flow().at(point).iter();
        let mut holds = passes.filter(|pass| pass.offset <= last && last < end_of(pass));
        holds.next().map(|pass| pass.at_ns).filter(|at_ns| scene.shows(*at_ns))
    };
    let converted = |is_incoming| {
        let events = scene.flow().events.iter();
        let mut holds = events.filter(|event| (event.offset..event.end()).contains(&last));
        let span_ns = holds.find_map(|event| {
            let conversion = event.conversion()?;
            (conversion.is_incoming == is_incoming).then_some([conversion.began_ns, event.at_ns])
        });
        span_ns
            .map_or([None; 2], |span_ns| span_ns.map(|ns| Some(ns).filter(|ns| scene.shows(*ns))))
    };
    let mut at_ns = [None; LAYER_COUNT];
    let layers = converted(false).into_iter().chain(Point::ALL.map(passed)).chain(converted(true));
    at_ns.iter_mut().zip(layers).for_each(|(at_ns, layer)| *at_ns = layer);
    Journey { bytes: segment.len, from: segment.offset, at_ns }
}

/// The layers that have a column: the points always, the program's own where a segment was there.
fn shown_layers(journeys: &[Journey]) -> Range<usize> {
    let seen = |layer: usize| journeys.iter().any(|journey| journey.at_ns[layer].is_some());
    let from = (0..POINTS_AT).find(|layer| seen(*layer)).unwrap_or(POINTS_AT);
    let last = (POINTS_END..LAYER_COUNT).rfind(|layer| seen(*layer));
    from..last.map_or(POINTS_END, |last| last + 1)
}

/// The places of the columns, and the heights of their heads.
struct Columns {
    layers: Range<usize>,
    content: Rect,
    between_px: f64,
    /// Whether every other head is one row higher, as side by side they would cover each other.
    are_two_rows: bool,
}

impl Columns {
    fn of(scene: &Scene<'_>, content: Rect, journeys: &[Journey]) -> Self {
        let layers = shown_layers(journeys);
        let words = journeys.iter().map(|journey| Words::Tick.width_px(&label(scene, journey)));
        let right_px = words.fold(SIDE_PX, |most, width| most.max(width + LABEL_GAP_PX));
        let between_px = (content.width - SIDE_PX - right_px) / (layers.len() - 1) as f64;
        let covers = |pair: &[(&str, &str)]| {
            let room_px = |words: Words, [one, other]: [&str; 2]| {
                (words.width_px(one) + words.width_px(other)) / 2.0 + HEAD_GAP_PX
            };
            room_px(Words::Panel, [pair[0].0, pair[1].0]) > between_px
                || room_px(Words::Tick, [pair[0].1, pair[1].1]) > between_px
        };
        let are_two_rows = LAYERS[layers.clone()].windows(2).any(covers);
        Self { layers, content, between_px, are_two_rows }
    }

    fn x(&self, layer: usize) -> f64 {
        self.content.x + SIDE_PX + self.between_px * (layer - self.layers.start) as f64
    }

    /// The first column and the last.
    fn across(&self) -> (f64, f64) {
        (self.x(self.layers.start), self.x(self.layers.end - 1))
    }

    /// The height of this layer's head above the lower row.
    fn raised_px(&self, layer: usize) -> f64 {
        let is_raised = self.are_two_rows && (layer - self.layers.start) % 2 == 1;
        if is_raised { HEAD_ROW_PX } else { 0.0 }
    }

    /// Where the first event is.
    fn top(&self) -> f64 {
        self.content.y + HEAD_PX + if self.are_two_rows { HEAD_ROW_PX } else { 0.0 }
    }

    /// Height for the times, below the heads.
    fn room_px(&self) -> f64 {
        (self.content.bottom() - self.top() - 12.0).max(1.0)
    }
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

    /// The height of a time without a stop.
    fn between(&self, at_ns: u64) -> f64 {
        let known: Vec<_> = self.stops.iter().map(|(time_ns, y, _)| (*time_ns, *y)).collect();
        error_band::height_between(&known, at_ns)
    }

    fn bottom(&self) -> f64 {
        self.stops.last().map_or(0.0, |(_, y, _)| *y)
    }

    /// Whether all of it is within this height, but for the rounding of a long sum.
    fn fits(&self, room_px: f64) -> bool {
        self.bottom() <= room_px + 0.5
    }
}

/// The longest gap that is drawn to scale: longer ones would leave too little room for the others.
fn cut_ns(times: &[u64]) -> u64 {
    let mut gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    let (mut sum_ns, mut longest) = (0, u64::MAX);
    for (at, gap) in gaps.iter().enumerate() {
        // The first gaps are kept with any share: some must be drawn.
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
    let columns = Columns::of(scene, page.content(), journeys);
    let top = columns.top();
    let heights = Heights::of(journeys, columns.room_px());
    let bottom = top + heights.bottom();
    let height_of = |at_ns| top + heights.y(at_ns);
    scene.marks.draw_at_side(page, columns.content.x, height_of);
    draw_columns(page, &columns, bottom + 8.0);
    let across = columns.across();
    draw_times(scene, page, &heights, across, top);
    let height = |at_ns| top + heights.y(at_ns);
    let mut has_band = false;
    for journey in journeys {
        has_band |=
            draw_error(scene, page, journey, &columns, &|at_ns| top + heights.between(at_ns));
    }
    error_band::note(scene, page, if has_band { ": the pale band behind the wire" } else { "" });
    for journey in journeys {
        draw_journey(page, journey, &columns, &height);
    }
    label_segments(scene, page, journeys, across.1, (top, bottom), &height);
}

fn draw_columns(page: &mut Page, columns: &Columns, bottom: f64) {
    let mut lines = Path::default();
    for index in columns.layers.clone() {
        let (layer, step) = LAYERS[index];
        let x = columns.x(index);
        let foot = columns.top() - columns.raised_px(index);
        lines.bar(x, foot - 8.0, bottom);
        let above = |up: f64| (x, foot - up);
        page.svg.text(Words::Panel.class(), Anchor::Middle, above(42.0), layer);
        page.svg.text(Words::Tick.class(), Anchor::Middle, above(28.0), step);
        if let Some(point) = point_of(index) {
            let number = format!("{}", point.number());
            page.svg.text(Words::Tick.class(), Anchor::Middle, above(14.0), &number);
        }
    }
    page.svg.path("axis", &lines);
}

/// The point whose column this is, if it is not one of the program's own layers.
fn point_of(layer: usize) -> Option<Point> {
    Point::ALL.get(layer.checked_sub(POINTS_AT)?).copied()
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

/// The error of the time on the wire, where the other host's clock begins. Whether it is drawn.
fn draw_error(
    scene: &Scene<'_>,
    page: &mut Page,
    journey: &Journey,
    columns: &Columns,
    height: &impl Fn(u64) -> f64,
) -> bool {
    let wire = [Point::InterfaceDequeue, Point::InputEnqueue].map(|it| POINTS_AT + it.index());
    let [Some(departed_ns), Some(arrived_ns)] = wire.map(|layer| journey.at_ns[layer]) else {
        return false;
    };
    let Some(error_ns) = error_band::error_ns(scene) else { return false };
    let [from, to] = wire.map(|layer| columns.x(layer));
    let edges = error_band::around(departed_ns, arrived_ns, error_ns).map(height);
    error_band::fan(page, Ink::Data, (from, height(departed_ns)), to, edges);
    true
}

fn draw_journey(
    page: &mut Page,
    journey: &Journey,
    columns: &Columns,
    height: &impl Fn(u64) -> f64,
) {
    let passed = journey.at_ns.iter().enumerate();
    let places: Vec<(usize, (f64, f64))> = passed
        .filter_map(|(index, at_ns)| at_ns.map(|at_ns| (index, (columns.x(index), height(at_ns)))))
        .collect();
    let mut line = Path::default();
    for (at, (_, place)) in places.iter().enumerate() {
        if at == 0 { line.move_to(*place) } else { line.line_to(*place) }
    }
    page.svg.path(&Ink::Data.drawn(Stroke::Line), &line);
    for (index, place) in places {
        let shape = match point_of(index) {
            Some(Point::SendEnqueue) => Shape::Triangle,
            Some(Point::ReceiveDequeue) => Shape::Circle,
            _ => continue,
        };
        let mut mark = Path::default();
        shape.put(&mut mark, place, 4.5);
        page.svg.path(&Ink::Program.drawn(shape.stroke()), &mark);
    }
}

/// Each segment's bytes at the right edge, and when it was last seen, next to its place. Words that
/// would cover each other move apart and keep a line to their place; where there are too many for that,
/// those without room are left out.
fn label_segments(
    scene: &Scene<'_>,
    page: &mut Page,
    journeys: &[Journey],
    column: f64,
    (top, bottom): (f64, f64),
    height: &impl Fn(u64) -> f64,
) {
    let last_seen = |journey: &Journey| journey.at_ns.iter().flatten().max().copied();
    let seen = journeys.iter().filter_map(|journey| Some((last_seen(journey)?, journey)));
    let mut seen: Vec<_> = seen.collect();
    seen.sort_by_key(|(last_ns, _)| *last_ns);
    let places: Vec<f64> = seen.iter().map(|(last_ns, _)| height(*last_ns)).collect();
    let rows = spread(&places, top, bottom);
    let mut lines = Path::default();
    for (((_, journey), place), row) in seen.iter().zip(&places).zip(rows) {
        let Some(row) = row else { continue };
        let at = (column + LABEL_GAP_PX, row + 4.0);
        page.svg.text(Words::Tick.class(), Anchor::Start, at, &label(scene, journey));
        if (row - place).abs() > 1.0 {
            lines.move_to((column + 7.0, *place));
            lines.line_to((column + LABEL_GAP_PX - 4.0, row));
        }
    }
    page.svg.path("axis", &lines);
}

/// Rows for words at these heights, which rise: each at its place or as near as the others let it,
/// between `top` and `bottom`. Where there are too many, a row for each that has room at its place.
fn spread(places: &[f64], top: f64, bottom: f64) -> Vec<Option<f64>> {
    let mut free_from = f64::NEG_INFINITY;
    if places.len().saturating_sub(1) as f64 * ROW_PX > bottom - top {
        let row = |place: &f64| {
            let has_room = *place >= free_from;
            free_from = if has_room { *place + ROW_PX } else { free_from };
            has_room.then_some(*place)
        };
        return places.iter().map(row).collect();
    }
    let mut rows = Vec::with_capacity(places.len());
    for place in places {
        let row = place.max(free_from);
        free_from = row + ROW_PX;
        rows.push(row);
    }
    let mut free_to = bottom;
    for row in rows.iter_mut().rev() {
        *row = row.min(free_to);
        free_to = *row - ROW_PX;
    }
    rows.into_iter().map(Some).collect()
}

/// `1,460 at 2,920, 10.213 ms`.
fn label(scene: &Scene<'_>, journey: &Journey) -> String {
    let (bytes, from) = (journey.bytes.to_string(), journey.from.to_string());
    let words = format!("{} at {}", grouped(&bytes), grouped(&from));
    let last_ns = journey.at_ns.iter().flatten().max();
    last_ns.map_or_else(
        || words.clone(),
        |last_ns| {
            let time_ms = format!("{:.3}", scene.since_zero(*last_ns) / 1e6);
            format!("{words}, {} ms", grouped(&time_ms))
        },
    )
}

#[cfg(test)]
mod tests {
    use sockscope_record::Point;

    use super::{Heights, Journey, LAYER_COUNT, POINTS_AT, POINTS_END, cut_ns, spread};

    /// When the last bytes of the segments of a call of 4,800 octets passed the points, in nanoseconds.
    const CALL_NS: [[u64; Point::ALL.len()]; 5] = [
        [3_678_145, 4_022_536, 4_148_310, 4_181_074, 5_594_121, 5_686_467, 5_964_067, 9_837_041],
        [3_678_145, 4_476_055, 4_601_829, 5_592_757, 7_020_812, 7_113_158, 7_423_723, 10_049_004],
        [3_678_145, 4_821_721, 4_947_495, 7_004_440, 8_128_495, 8_220_841, 8_507_286, 10_212_725],
        [
            5_136_588, 11_237_326, 11_363_100, 11_395_864, 11_712_482, 11_804_828, 11_995_847,
            14_447_706,
        ],
        [
            11_862_840, 30_511_258, 30_637_032, 30_669_796, 31_514_414, 31_606_760, 31_839_673,
            34_375_321,
        ],
    ];

    #[test]
    fn rounding_leaves_no_segment_out() {
        let journey = |points_ns: [u64; Point::ALL.len()]| {
            let mut at_ns = [None; LAYER_COUNT];
            at_ns[POINTS_AT..POINTS_END].copy_from_slice(&points_ns.map(Some));
            Journey { bytes: 1, from: 0, at_ns }
        };
        let journeys = CALL_NS.map(journey);
        for room_px in (200..1000).map(f64::from) {
            for count in 1..=journeys.len() {
                assert!(
                    Heights::of(&journeys[..count], room_px).fits(room_px),
                    "{room_px} {count}"
                );
            }
        }
    }

    #[test]
    fn words_that_would_cover_each_other_move_apart() {
        let rows = |places: &[f64]| spread(places, 0.0, 100.0);
        assert_eq!(rows(&[10.0, 50.0]), [Some(10.0), Some(50.0)]);
        assert_eq!(rows(&[10.0, 12.0, 13.0]), [Some(10.0), Some(24.0), Some(38.0)]);
        assert_eq!(rows(&[50.0, 98.0, 99.0]), [Some(50.0), Some(86.0), Some(100.0)]);
        let many: Vec<f64> = (0..20).map(|at| f64::from(at) * 5.0).collect();
        assert_eq!(rows(&many).iter().flatten().count(), 7);
    }

    #[test]
    fn gaps_of_centuries_are_cut_without_overflow() {
        let quarter = u64::MAX / 5;
        let times: Vec<_> = (0..6).map(|number| number * quarter).collect();
        assert_eq!(cut_ns(&times), u64::MAX);
    }
}
