//! Queueing delay in the four queues: a bar at the time of entry, as tall as the wait.
//!
//! One bar is one run of bytes that entered together and left together.

use sockscope_analysis::Residence;
use sockscope_record::Stage;
use sockscope_record::statistics::percentile;
use sockscope_render::number::counted;
use sockscope_render::page::{Key, Page, Sample};
use sockscope_render::svg::Rect;
use sockscope_render::theme::Ink;
use sockscope_render::units::Quantity;

use super::curves;
use super::figure_page;
use super::packet_trace::draw_bars;
use super::queue_length::{QUEUES, nothing_seen, stage_words};
use super::scene::Scene;
use crate::palette;

pub(super) fn draw(scene: &Scene<'_>) -> String {
    let keys = [Key {
        sample: Sample::Bars(Ink::Plain),
        words: "wait of a run of bytes, at the time it entered the queue",
    }];
    let mut page = figure_page::open(scene, "Queue delays", &keys);
    for (index, area) in page.stack(&[1.0; 4], true).into_iter().enumerate() {
        draw_queue(scene, &mut page, QUEUES[index], area, index + 1 == QUEUES.len());
    }
    page.finish()
}

fn draw_queue(scene: &Scene<'_>, page: &mut Page, stage: Stage, area: Rect, is_last: bool) {
    let waits = curves::waits(scene, stage);
    let longest = waits.iter().map(Residence::delay_ns).max().unwrap_or(0) as f64;
    let panel = figure_page::panel_over_time(scene, area, ("delay", Quantity::Time, longest));
    page.svg.group(stage.name());
    let is_of_calls = scene.options.is_by_call && stage == Stage::SendQueue;
    let unit = if is_of_calls { "call" } else { "run" };
    page.panel_title(area, &stage_words(stage), &summary(&waits, unit));
    if waits.is_empty() {
        page.frame(&panel.without_values(), is_last);
        page.empty(area, &nothing_seen(scene, stage));
    } else {
        figure_page::frame(scene, page, &panel, is_last);
        let bars = waits.iter().map(|wait| {
            (panel.x.scale.px(scene.since_zero(wait.entered_ns)), wait.delay_ns() as f64)
        });
        let ink = palette::ink(palette::stage(stage), page);
        draw_bars(page, &panel, bars, waits.len(), ink);
    }
    page.svg.end_group();
    if scene.loses_records_of(&[stage.enter(), stage.leave()]) {
        page.note(
            "bytes whose entry or leaving was among the missed records have no bar".to_owned(),
        );
    }
}

fn summary(waits: &[Residence], unit: &str) -> String {
    let mut delays: Vec<u64> = waits.iter().map(Residence::delay_ns).collect();
    delays.sort_unstable();
    match delays.as_slice() {
        [] => String::new(),
        [.., longest] => format!(
            "{}; median {}, longest {}",
            counted(delays.len() as u64, unit),
            Quantity::Time.words(percentile(&delays, 50).unwrap_or(0) as f64),
            Quantity::Time.words(*longest as f64)
        ),
    }
}
