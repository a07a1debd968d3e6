//! The ladder between the two ends: client left, server right, time downward.
//!
//! Segments are arrows from where they left to where they arrived; writes and reads stand at the
//! lines of the ends. The drawing keeps the order of events, not their distance: close events are
//! spread so that each has its own line of text, the longest waits are cut and labelled with their length.

use std::cmp::Reverse;

use sockscope_record::Side;
use sockscope_render::page::{Key, Page, Sample};
use sockscope_render::svg::{Anchor, Path, Rect};
use sockscope_render::theme::{self, Ink, Shape, Stroke, Words};
use sockscope_render::units::{Quantity, grouped};

use super::error_band;
use super::figure_page;
use super::ladder::{Act, Arrow, Carries, Ladder};
use super::scene::Scene;

/// Room at each side for the time of an event and the action of the program.
const SIDE_PX: f64 = 182.0;
/// Of that, the time.
const TIME_PX: f64 = 74.0;
/// Room above the first event, for the names of the ends.
const HEAD_PX: f64 = 62.0;
/// Least distance of two texts below each other.
const ROW_PX: f64 = 15.0;
/// Least distance between two departures, whose labels are over the arrows.
const DEPARTURE_PX: f64 = 24.0;
/// Height of a cut in the time line.
const CUT_PX: f64 = 46.0;
/// The longest waits are cut: those of this part of the longest one, and no shorter than the least.
const CUT_DIVISOR: u64 = 8;
const CUT_NS_MIN: u64 = 20_000;
/// At most one wait in so many is cut: where more are as long, they are the usual distance.
const CUT_SHARE_DIVISOR: usize = 3;

/// Something that has a time and a side, and needs a height.
#[derive(Debug, Clone, Copy)]
struct Event {
    at_ns: u64,
    /// Order among events of one instant: write, departure, arrival, read.
    rank: u8,
    side: Side,
    what: What,
    /// An arrow begins here, whose label stands next to it.
    begins: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Departure(usize),
    Arrival(usize),
    Act(usize),
}

/// An event and its height in the drawing.
#[derive(Debug, Clone, Copy)]
struct Placed {
    event: Event,
    y: f64,
}

/// A gap too long to draw.
#[derive(Debug, Clone, Copy)]
struct Cut {
    y: f64,
    ns: u64,
}

/// Pixels of the two ends' lines.
#[derive(Debug, Clone, Copy)]
struct Ends {
    client_x: f64,
    server_x: f64,
}

impl Ends {
    fn x(self, side: Side) -> f64 {
        match side {
            Side::Client => self.client_x,
            Side::Server => self.server_x,
        }
    }
}

pub(super) fn draw(scene: &Scene<'_>) -> String {
    let mut keys = vec![
        Key { sample: Sample::Arrow(Ink::Data, Stroke::Line), words: "data" },
        Key { sample: Sample::Arrow(Ink::Ack, Stroke::Dashed), words: "no data: ACK, SYN, FIN" },
        Key { sample: Sample::Arrow(Ink::Alarm, Stroke::Line), words: "data sent again" },
        Key {
            sample: Sample::Mark(Ink::Alarm, Shape::Cross),
            words: "dropped, or not seen to arrive",
        },
        Key { sample: Sample::Mark(Ink::Program, Shape::Triangle), words: "write" },
        Key { sample: Sample::Mark(Ink::Program, Shape::Circle), words: "read" },
    ];
    let ladder = Ladder::of(scene);
    if scene.is_unix() {
        let of_tcp = |ink| matches!(ink, Sample::Arrow(Ink::Ack | Ink::Alarm, _));
        keys.retain(|key| !of_tcp(key.sample));
    }
    let is_dropped = |arrow: &Arrow| arrow.arrived_ns.is_none();
    if !ladder.sees_arrivals || scene.is_unix() && !ladder.arrows.iter().any(is_dropped) {
        keys.retain(|key| !matches!(key.sample, Sample::Mark(_, Shape::Cross)));
    }
    let mut page = figure_page::open(scene, "Time sequence", &keys);
    let events = events(&ladder);
    let (placed, cuts) = place(&events);
    let height = placed.last().map_or(120.0, |last| last.y + 24.0);
    page.set_content_height(HEAD_PX + height);
    let content = page.content();
    page.svg.group("time-sequence");
    if events.is_empty() {
        page.empty(content, &format!("no {}s seen", scene.unit()));
    } else {
        draw_ladder(scene, &mut page, content, &ladder, &placed, &cuts);
        let cut = if cuts.is_empty() { "" } else { ": the longest waits are cut" };
        page.note(format!("the order of events is drawn, not their distance{cut}"));
        page.set_facts(scene.facts(span_ns(&events)));
        note_losses(scene, &mut page, &events);
    }
    page.svg.end_group();
    ladder.notes.into_iter().for_each(|note| page.note(note));
    page.finish()
}

/// Notes on the page that a segment may be missing from the drawing.
fn note_losses(scene: &Scene<'_>, page: &mut Page, events: &[Event]) {
    let Some((first, last)) = events.first().zip(events.last()) else { return };
    if scene.losses().any(|loss| loss.start_ns <= last.at_ns && loss.end_ns >= first.at_ns) {
        let unit = scene.unit();
        page.note(format!("records were missed in this time: {unit}s may be missing"));
    }
}

fn span_ns(events: &[Event]) -> u64 {
    match (events.first(), events.last()) {
        (Some(first), Some(last)) => last.at_ns - first.at_ns,
        _ => 0,
    }
}

fn events(ladder: &Ladder) -> Vec<Event> {
    let mut events = Vec::new();
    for (index, arrow) in ladder.arrows.iter().enumerate() {
        let ends = [
            (arrow.departed_ns, arrow.from, 1, What::Departure(index)),
            (arrow.arrived_ns.or(arrow.dropped_ns), arrow.from.other(), 2, What::Arrival(index)),
        ];
        for (at_ns, side, rank, what) in ends {
            // Of an arrow whose departure has no record, only the arrival is drawn.
            let begins = what == What::Departure(index) || arrow.departed_ns.is_none();
            events.extend(at_ns.map(|at_ns| Event { at_ns, rank, side, what, begins }));
        }
    }
    for (index, act) in ladder.acts.iter().enumerate() {
        let rank = if act.is_write { 0 } else { 3 };
        let (at_ns, side) = (act.at_ns, act.side);
        events.push(Event { at_ns, rank, side, what: What::Act(index), begins: false });
    }
    // The sort is stable: equal events stay in the order of the trace.
    events.sort_by_key(|event| (event.at_ns, event.rank));
    events
}

/// Gives each event its height, from 0 on, and returns the cuts in time.
fn place(events: &[Event]) -> (Vec<Placed>, Vec<Cut>) {
    let cut_ns = cut_ns(events);
    let (mut placed, mut cuts): (Vec<Placed>, Vec<Cut>) = (Vec::new(), Vec::new());
    let mut y = 0.0;
    for (index, event) in events.iter().enumerate() {
        let gap_ns = index.checked_sub(1).map_or(0, |before| event.at_ns - events[before].at_ns);
        let before_y = y;
        if gap_ns >= cut_ns {
            cuts.push(Cut { y: before_y + CUT_PX / 2.0 + 2.0, ns: gap_ns });
            y += CUT_PX + 4.0;
        } else {
            y += 10.0 * gap_ns as f64 / cut_ns as f64;
        }
        for other in placed.iter().rev().take(8) {
            y = f64::max(y, other.y + distance_px(&other.event, event));
        }
        placed.push(Placed { event: *event, y });
    }
    (placed, cuts)
}

/// The least distance of `later` below `earlier`, so that their texts do not touch.
fn distance_px(earlier: &Event, later: &Event) -> f64 {
    let of_one_arrow = match (earlier.what, later.what) {
        (What::Departure(left), What::Arrival(right)) => left == right,
        _ => false,
    };
    if of_one_arrow {
        // Time runs downward: even the fastest arrow has a slant.
        10.0
    } else if earlier.begins && later.begins {
        DEPARTURE_PX
    } else if earlier.side == later.side {
        ROW_PX
    } else {
        0.0
    }
}

/// Height of the first event at or after this time, else of the last one.
fn height_at(placed: &[Placed], at_ns: u64) -> f64 {
    let at = placed.partition_point(|placed| placed.event.at_ns < at_ns);
    placed.get(at).or(placed.last()).map_or(0.0, |placed| placed.y)
}

/// Gaps from this length on are cut.
fn cut_ns(events: &[Event]) -> u64 {
    let gaps = events.windows(2).map(|pair| pair[1].at_ns - pair[0].at_ns);
    let mut gaps: Vec<u64> = gaps.filter(|gap| *gap > 0).collect();
    gaps.sort_unstable_by_key(|gap| Reverse(*gap));
    let longest = gaps.first().copied().unwrap_or(0);
    let least_ns = (longest / CUT_DIVISOR).max(CUT_NS_MIN);
    let cuts_max = (gaps.len() / CUT_SHARE_DIVISOR).max(1);
    // The first one that must not be cut.
    let usual_ns = gaps.get(cuts_max).map_or(0, |gap| gap.saturating_add(1));
    least_ns.max(usual_ns)
}

fn draw_ladder(
    scene: &Scene<'_>,
    page: &mut Page,
    content: Rect,
    ladder: &Ladder,
    placed: &[Placed],
    cuts: &[Cut],
) {
    let ends = Ends { client_x: content.x + SIDE_PX, server_x: content.right() - SIDE_PX };
    let top = content.y + HEAD_PX;
    scene.marks.draw_at_side(page, content.x, |at_ns| top + height_at(placed, at_ns));
    for cut in cuts {
        let width = ends.server_x - ends.client_x;
        let y = top + cut.y - 11.0;
        page.svg.rect(theme::CUT, Rect { x: ends.client_x, y, width, height: 22.0 });
    }
    let has_band = draw_errors(scene, page, ends, ladder, placed, top);
    error_band::note(scene, page, if has_band { ": the pale band of an arrow" } else { "" });
    draw_ends(scene, page, content, ends, placed, cuts);
    let mut labelled = Vec::new();
    for (index, arrow) in ladder.arrows.iter().enumerate() {
        let height = |what: What| {
            placed.iter().find(|placed| placed.event.what == what).map(|placed| top + placed.y)
        };
        let heights = (height(What::Departure(index)), height(What::Arrival(index)));
        let is_bare = arrow.carries == Carries::Nothing;
        let sees = ladder.sees_arrivals && (!is_bare || ladder.sees_bare_arrivals);
        if let Some(drawn) = draw_arrow(page, ends, arrow, heights, sees) {
            let words = if arrow.is_bold { Words::Panel } else { Words::Label };
            let width = words.width_px(&arrow.label) + 12.0;
            let place = free_place(drawn, width, &mut labelled);
            page.words_on_ground(words, place, &arrow.label);
        }
    }
    draw_cut_words(page, ends, cuts, top);
    draw_side_words(scene, page, ends, ladder, placed, top);
}

/// The error of each arrival at the other host, between the events that may have been before and after it. Whether any is
/// drawn.
fn draw_errors(
    scene: &Scene<'_>,
    page: &mut Page,
    ends: Ends,
    ladder: &Ladder,
    placed: &[Placed],
    top: f64,
) -> bool {
    let Some(error_ns) = error_band::error_ns(scene) else { return false };
    let mut is_drawn = false;
    let known: Vec<_> = placed.iter().map(|it| (it.event.at_ns, it.y)).collect();
    for (index, arrow) in ladder.arrows.iter().enumerate() {
        let at = |what| placed.iter().find(|it| it.event.what == what).map(|it| top + it.y);
        let Some((departed_ns, arrived_ns)) = arrow.departed_ns.zip(arrow.arrived_ns) else {
            continue;
        };
        let heights = (at(What::Departure(index)), at(What::Arrival(index)));
        let (Some(from_y), Some(to_y)) = heights else { continue };
        let [early, late] = error_band::around(departed_ns, arrived_ns, error_ns)
            .map(|at_ns| top + error_band::height_between(&known, at_ns));
        // Events of one instant have heights of their own: the arrow is in its band.
        let edges = [early.max(from_y).min(to_y), late.max(to_y)];
        let (from_x, to_x) = (ends.x(arrow.from), ends.x(arrow.from.other()));
        let ink = if arrow.carries == Carries::Nothing { Ink::Ack } else { Ink::Data };
        error_band::fan(page, ink, (from_x, from_y), to_x, edges);
        is_drawn = true;
    }
    is_drawn
}

/// The time that each cut leaves out.
fn draw_cut_words(page: &mut Page, ends: Ends, cuts: &[Cut], top: f64) {
    for cut in cuts {
        let middle = (ends.client_x + ends.server_x) / 2.0;
        page.svg.text(
            Words::Panel.class(),
            Anchor::Middle,
            (middle, top + cut.y + 4.5),
            &Quantity::Time.words(cut.ns as f64),
        );
    }
}

/// The names of the ends and their lines, broken where time is cut.
fn draw_ends(
    scene: &Scene<'_>,
    page: &mut Page,
    content: Rect,
    ends: Ends,
    placed: &[Placed],
    cuts: &[Cut],
) {
    let top = content.y + HEAD_PX;
    let bottom = top + placed.last().map_or(0.0, |last| last.y) + 14.0;
    for side in [Side::Client, Side::Server] {
        let x = ends.x(side);
        let place = (x, content.y + 18.0);
        page.svg.text(Words::Panel.class(), Anchor::Middle, place, side.name());
        let name = Words::Note.fitted(&scene.end_words(side), 2.0 * SIDE_PX - 20.0);
        page.svg.text(Words::Note.class(), Anchor::Middle, (x, content.y + 34.0), &name);
        let mut line = Path::default();
        line.move_to((x, top - 10.0));
        for cut in cuts {
            let y = top + cut.y;
            line.down_to(y - 10.0);
            for (across, down) in [(-5.0, -6.0), (5.0, 0.0), (-5.0, 6.0), (0.0, 10.0)] {
                line.line_to((x + across, y + down));
            }
        }
        line.down_to(bottom);
        page.svg.path("axis", &line);
    }
    let outward = [(Side::Client, Anchor::End, -9.0), (Side::Server, Anchor::Start, 9.0)];
    for (side, anchor, across) in outward {
        let place = (ends.x(side) + across, top - 11.0);
        page.svg.text(Words::Axis.class(), anchor, place, "time (ms)");
    }
}

/// Two ends of a drawn line.
type Line = ((f64, f64), (f64, f64));

/// Draws an arrow and returns the part of it that a label may use.
fn draw_arrow(
    page: &mut Page,
    ends: Ends,
    arrow: &Arrow,
    heights: (Option<f64>, Option<f64>),
    sees_arrivals: bool,
) -> Option<Line> {
    let (from_x, to_x) = (ends.x(arrow.from), ends.x(arrow.from.other()));
    let (ink, stroke) = match arrow.carries {
        Carries::Data => (Ink::Data, Stroke::Line),
        Carries::DataAgain => (Ink::Alarm, Stroke::Line),
        Carries::Nothing => (Ink::Ack, Stroke::Dashed),
    };
    let stroke = if arrow.is_bold { Stroke::Bold } else { stroke };
    let drawn = match heights {
        (Some(from_y), Some(to_y)) => ((from_x, from_y), (to_x, to_y)),
        (Some(from_y), None) if !sees_arrivals => ((from_x, from_y), (to_x, from_y + 8.0)),
        // Three quarters of the way, and a cross where no record shows it further.
        (Some(from_y), None) => ((from_x, from_y), (from_x + (to_x - from_x) * 0.75, from_y + 8.0)),
        // It arrived, and its end is not reached: no record has the time when it left.
        (None, Some(to_y)) if arrow.dropped_ns.is_some() => {
            let across = to_x - from_x;
            ((from_x + across * 0.25, to_y - 8.0), (from_x + across * 0.75, to_y))
        }
        (None, Some(to_y)) => ((from_x + (to_x - from_x) * 0.25, to_y - 8.0), (to_x, to_y)),
        (None, None) => return None,
    };
    page.arrow(ink, stroke, drawn.0, drawn.1);
    if arrow.arrived_ns.is_none() && sees_arrivals {
        let mut cross = Path::default();
        let (end_x, end_y) = drawn.1;
        Shape::Cross.put(&mut cross, (end_x + (to_x - from_x).signum() * 9.0, end_y), 5.0);
        page.svg.path(&Ink::Alarm.drawn(Stroke::Line), &cross);
    }
    Some(drawn)
}

/// Parts of an arrow's way at which its label may stand, the best first.
const LABEL_PLACES: [f64; 5] = [0.5, 0.35, 0.65, 0.25, 0.75];
/// Height of a label.
const LABEL_PX: f64 = 15.0;

/// Where on an arrow its label hides none of `labelled`, middle and width of those before; the middle
/// where each place would.
fn free_place((from, to): Line, width: f64, labelled: &mut Vec<((f64, f64), f64)>) -> (f64, f64) {
    let at = |part: f64| (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part);
    let is_free = |(x, y): &(f64, f64)| {
        labelled.iter().all(|((other_x, other_y), other_width)| {
            (x - other_x).abs() >= (width + other_width) / 2.0 || (y - other_y).abs() >= LABEL_PX
        })
    };
    let place = LABEL_PLACES.into_iter().map(at).find(is_free).unwrap_or_else(|| at(0.5));
    labelled.push((place, width));
    place
}

/// At the outer side of each line: the time of each event and, farther out, the action of the program.
fn draw_side_words(
    scene: &Scene<'_>,
    page: &mut Page,
    ends: Ends,
    ladder: &Ladder,
    placed: &[Placed],
    top: f64,
) {
    for Placed { event, y } in placed {
        let (anchor, outward) = match event.side {
            Side::Client => (Anchor::End, -1.0),
            Side::Server => (Anchor::Start, 1.0),
        };
        let (x, y) = (ends.x(event.side), top + y);
        let time_ms = format!("{:.3}", scene.since_zero(event.at_ns) / 1e6);
        let place = (x + 9.0 * outward, y + 4.0);
        page.svg.text(Words::Tick.class(), anchor, place, &grouped(&time_ms));
        if let What::Act(index) = event.what {
            draw_act(page, &ladder.acts[index], (x, y), outward, anchor);
        }
    }
}

fn draw_act(page: &mut Page, act: &Act, (x, y): (f64, f64), outward: f64, anchor: Anchor) {
    let shape = if act.is_write { Shape::Triangle } else { Shape::Circle };
    let mut mark = Path::default();
    shape.put(&mut mark, (x, y), 4.5);
    page.svg.path(&Ink::Program.drawn(shape.stroke()), &mark);
    let verb = if act.is_write { "write" } else { "read" };
    // To the octet, as the segments: one more or less is the subject of such a drawing.
    let words = format!("{verb} {} B", grouped(&act.bytes.to_string()));
    let place = (x + (9.0 + TIME_PX) * outward, y + 4.0);
    page.svg.text(Words::Label.class(), anchor, place, &words);
}
