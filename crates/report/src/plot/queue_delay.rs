//! Queueing delay in the four queues and at the hops: a bar at the time of entry, as tall as the wait.
//!
//! One bar is one run of bytes that entered together and left together. The hops divide the wire: they stand between the
//! interface queue and the input queue.

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
use super::places::{Place, places};
use super::queue_length::{nothing_seen, stage_words};
use super::scene::Scene;
use crate::palette;

pub(super) fn draw(scene: &Scene<'_>) -> String {
    let keys = [Key {
        sample: Sample::Bars(Ink::Plain),
        words: "wait of a run of bytes, at the time it entered the queue",
    }];
    let mut page = figure_page::open(scene, "Queue delays", &keys);
    let places = places(scene, &mut page);
    let areas = page.stack(&vec![1.0; places.len()], true);
    for (index, (place, area)) in places.iter().zip(areas).enumerate() {
        draw_place(scene, &mut page, place, area, index + 1 == places.len());
    }
    if places.iter().any(|place| place.hop.is_some()) && scene.losses().next().is_some() {
        page.note(
            "bytes whose pass at a hop was among the missed records have no bar there".into(),
        );
    }
    page.finish()
}

fn draw_place(scene: &Scene<'_>, page: &mut Page, place: &Place, area: Rect, is_last: bool) {
    let stage = place.stage;
    let (title, waits) = match &place.hop {
        Some((words, waits)) => {
            let shown = waits.iter().filter(|wait| scene.shows(wait.entered_ns));
            (words.clone(), shown.copied().collect())
        }
        None => (stage_words(stage), curves::waits(scene, stage)),
    };
    let longest = waits.iter().map(Residence::delay_ns).max().unwrap_or(0) as f64;
    let panel = figure_page::panel_over_time(scene, area, ("delay", Quantity::Time, longest));
    page.svg.group(if place.hop.is_some() { "hop" } else { stage.name() });
    let is_of_calls = scene.options.is_by_call && stage == Stage::SendQueue;
    let unit = if is_of_calls { "call" } else { "run" };
    page.panel_title(area, &title, &summary(&waits, unit));
    if waits.is_empty() {
        page.frame(&panel.without_values(), is_last);
        let words = match place.hop {
            Some(_) => "no bytes seen to pass in this time".to_owned(),
            None => nothing_seen(scene, stage),
        };
        page.empty(area, &words);
    } else {
        figure_page::frame(scene, page, &panel, is_last);
        let bars = waits.iter().map(|wait| {
            (panel.x.scale.px(scene.since_zero(wait.entered_ns)), wait.delay_ns() as f64)
        });
        let ink = palette::ink(palette::stage(stage), page);
        draw_bars(page, &panel, bars, waits.len(), ink);
    }
    page.svg.end_group();
    if place.hop.is_none() && scene.loses_records_of(&[stage.enter(), stage.leave()]) {
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
