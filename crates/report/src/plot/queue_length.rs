//! Bytes in the four queues over time: the bytes that have entered less those that have left, as a step curve.

use sockscope_record::Stage;
use sockscope_render::page::{Key, Page, Sample};
use sockscope_render::svg::Rect;
use sockscope_render::theme::{Ink, Stroke};
use sockscope_render::units::Quantity;

use super::curves::{self, Step};
use super::figure_page;
use super::scene::Scene;
use super::step_line;
use crate::palette;

/// The queues among the stages, in path order.
pub(super) const QUEUES: [Stage; 4] =
    [Stage::SendQueue, Stage::InterfaceQueue, Stage::InputQueue, Stage::ReceiveQueue];

/// The queues of the connection. A Unix socket puts its bytes into the receive queue of its peer.
pub(super) fn queues(scene: &Scene<'_>) -> &'static [Stage] {
    if scene.is_unix() { &QUEUES[3..] } else { &QUEUES }
}

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
    let queues = queues(scene);
    let areas = page.stack(&vec![1.0; queues.len()], true);
    for (index, (stage, area)) in queues.iter().zip(areas).enumerate() {
        draw_queue(scene, &mut page, *stage, area, index + 1 == queues.len());
    }
    page.finish()
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
    let steps = curves::lengths(scene, stage);
    let asked = match stage {
        Stage::SendQueue => curves::lengths_with_asked(scene),
        _ => Vec::new(),
    };
    let most = |steps: &[Step]| steps.iter().filter_map(|step| step.value).fold(0.0, f64::max);
    let high = most(&steps).max(most(&asked));
    let panel = figure_page::panel_over_time(scene, area, ("length", Quantity::Bytes, high));
    page.svg.group(stage.name());
    page.panel_title(area, &stage_words(stage), &summary(&steps, most(&steps)));
    let panel = if steps.is_empty() { panel.without_values() } else { panel };
    figure_page::frame(scene, page, &panel, has_x_numbers);
    if steps.is_empty() {
        page.empty(area, &nothing_seen(scene, stage));
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
