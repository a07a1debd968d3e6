//! Bytes in the four queues and at the hops over time: the bytes that have entered less those that have left, as a step curve.

use sockscope_record::Stage;
use sockscope_render::page::{Key, Page, Sample};
use sockscope_render::svg::Rect;
use sockscope_render::theme::{Ink, Stroke};
use sockscope_render::units::Quantity;

use super::curves::{self, Step};
use super::figure_page;
use super::places::places;
use super::scene::Scene;
use super::step_line;
use crate::palette;

/// The curve of the send queue with the bytes that write() was given and the buffer has no room for.
const ASKED: (Ink, Stroke) = (Ink::Class("place-send_queue"), Stroke::Dashed);

pub(super) fn draw(scene: &Scene<'_>) -> String {
    let mut keys = vec![
        Key { sample: Sample::Line(Ink::Plain, Stroke::Line), words: "bytes in the queue" },
        Key { sample: Sample::Line(ASKED.0, ASKED.1), words: "with what write() still holds" },
        Key { sample: Sample::Unknown, words: "unknown: records were missed" },
    ];
    if scene.is_unix() || curves::lengths_with_asked(scene).is_empty() {
        keys.remove(1);
    }
    let mut page = figure_page::open(scene, "Queue lengths", &keys);
    let places = places(scene, &mut page);
    let areas = page.stack(&vec![1.0; places.len()], true);
    for (index, (place, area)) in places.iter().zip(areas).enumerate() {
        let is_last = index + 1 == places.len();
        match &place.hop {
            Some((words, stays)) => {
                let drawn = Drawn { steps: curves::lengths_of(scene, stays), ..Drawn::hop(words) };
                draw_steps(scene, &mut page, place.stage, drawn, area, is_last);
            }
            None => draw_queue(scene, &mut page, place.stage, area, is_last),
        }
    }
    if places.iter().any(|place| place.hop.is_some()) {
        let missed = match scene.losses().next() {
            Some(_) => "; bytes whose pass there was missed do not count",
            None => "",
        };
        page.note(format!("at a hop, bytes count that were seen to leave it{missed}"));
    }
    page.finish()
}

/// The content of a panel.
struct Drawn<'a> {
    /// Of the group in the document.
    name: &'a str,
    words: String,
    steps: Vec<Step>,
    asked: Vec<Step>,
    /// Words in the place of a curve.
    nothing: String,
}

impl<'a> Drawn<'a> {
    fn hop(words: &str) -> Self {
        Self {
            name: "hop",
            words: words.to_owned(),
            steps: Vec::new(),
            asked: Vec::new(),
            nothing: "no bytes seen to pass in this time".to_owned(),
        }
    }

    fn queue(scene: &Scene<'_>, stage: Stage) -> Self {
        Self {
            name: stage.name(),
            words: stage_words(stage),
            steps: curves::lengths(scene, stage),
            asked: match stage {
                Stage::SendQueue => curves::lengths_with_asked(scene),
                _ => Vec::new(),
            },
            nothing: nothing_seen(scene, stage),
        }
    }
}

/// `send socket queue, points 1 to 2`.
pub(super) fn stage_words(stage: Stage) -> String {
    let name = match stage {
        Stage::SendQueue => "send socket queue",
        Stage::TcpOutput => "protocol output",
        Stage::InterfaceQueue => "interface queue",
        Stage::Wire => "wire",
        Stage::InputQueue => "IP input queue",
        Stage::TcpInput => "protocol input",
        Stage::ReceiveQueue => "receive socket queue",
        Stage::Total => "write to read",
    };
    format!("{name}, points {} to {}", stage.enter().number(), stage.leave().number())
}

/// Why a stage has nothing to draw.
pub(super) fn nothing_seen(scene: &Scene<'_>, stage: Stage) -> String {
    let unseen =
        [stage.enter(), stage.leave()].into_iter().find(|point| scene.flow().at(*point).is_empty());
    match unseen {
        Some(point) => format!("no bytes seen at point {}", point.number()),
        None => "no bytes seen to pass in this time".to_owned(),
    }
}

/// Draws one queue; the receive queue's panel also serves the figure of acknowledgments.
pub(super) fn draw_queue(
    scene: &Scene<'_>,
    page: &mut Page,
    stage: Stage,
    area: Rect,
    has_x_numbers: bool,
) {
    let drawn = Drawn::queue(scene, stage);
    draw_steps(scene, page, stage, drawn, area, has_x_numbers);
}

fn draw_steps(
    scene: &Scene<'_>,
    page: &mut Page,
    stage: Stage,
    drawn: Drawn<'_>,
    area: Rect,
    has_x_numbers: bool,
) {
    let Drawn { name, words, steps, asked, nothing } = drawn;
    let most = |steps: &[Step]| steps.iter().filter_map(|step| step.value).fold(0.0, f64::max);
    let high = most(&steps).max(most(&asked));
    let panel = figure_page::panel_over_time(scene, area, ("length", Quantity::Bytes, high));
    page.svg.group(name);
    page.panel_title(area, &words, &summary(&steps, most(&steps)));
    let panel = if steps.is_empty() { panel.without_values() } else { panel };
    figure_page::frame(scene, page, &panel, has_x_numbers);
    if steps.is_empty() {
        page.empty(area, &nothing);
    } else {
        step_line::draw_unknown(scene, page, &panel, &steps);
        let ink = palette::ink(palette::stage(stage), page);
        step_line::draw_length(scene, page, &panel, &steps, ink);
        if !asked.is_empty() {
            step_line::draw_mean(scene, page, &panel, &asked, ASKED);
        }
    }
    page.svg.end_group();
}

fn summary(steps: &[Step], high: f64) -> String {
    let unknown = steps.chunk_by(|left, right| left.value.is_none() == right.value.is_none());
    let unknown = unknown.filter(|run| run.iter().all(|step| step.value.is_none())).count();
    match (steps.is_empty(), unknown) {
        (true, _) => String::new(),
        (false, 0) => format!("most {}", Quantity::Bytes.words(high)),
        (false, 1) => format!("most known {}; unknown in 1 interval", Quantity::Bytes.words(high)),
        (false, some) => {
            format!("most known {}; unknown in {some} intervals", Quantity::Bytes.words(high))
        }
    }
}
