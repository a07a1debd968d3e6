//! The ledger over time: where the oldest unread byte was, a panel for each place.
//!
//! A bar is a pixel column. Its height is the share of the column's time in which the byte was in the place: the
//! bars of all places together fill a column.

use sockscope_analysis::{LedgerPart, LedgerSpan, ledger_spans};
use sockscope_record::Protocol;
use sockscope_render::number::{apportion, percent};
use sockscope_render::page::{Key, Page, Panel, Sample};
use sockscope_render::scale::Axis;
use sockscope_render::svg::{Path, Rect};
use sockscope_render::theme::{self, Ink, Stroke};
use sockscope_render::units::Quantity;

use super::figure_page;
use super::scene::Scene;
use crate::order::place_name;
use crate::palette;

/// The smallest share of the time shown that has a panel in any case, in tenths of a percent.
const SHARE_MIN: u64 = 10;

/// So many places have a panel, however small their shares are.
const PLACES_MIN: usize = 4;

/// One place, and in which part of each pixel column the byte was there.
struct Place {
    part: LedgerPart,
    ns: u64,
    /// 0 to 1.
    shares: Vec<f64>,
}

pub(super) fn draw(scene: &Scene<'_>) -> String {
    let keys = [
        Key {
            sample: Sample::Bars(Ink::Plain),
            words: "share of the time of a pixel column: the bars of all places together are full",
        },
        Key { sample: Sample::Unknown, words: "unknown" },
    ];
    let mut page = figure_page::open(scene, "Where the oldest unread byte was", &keys);
    let spans = shown(scene);
    let all = page.stack(&[1.0], true)[0];
    let mut places = places(scene, &spans, columns(&panel(scene, all)).1);
    if places.is_empty() {
        let area = all;
        page.frame(&panel(scene, area).without_values(), true);
        page.empty(area, "no bytes seen in this time");
        return page.finish();
    }
    let tenths = apportion(&places.iter().map(|place| place.ns).collect::<Vec<_>>(), 1000);
    let mut shown: Vec<_> = places.drain(..).zip(tenths).collect();
    let mut largest: Vec<u64> = shown.iter().map(|(place, _)| place.ns).collect();
    largest.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
    let least_ns = largest.get(PLACES_MIN - 1).copied().unwrap_or(0);
    let is_small = |(place, tenths): &mut (Place, u64)| *tenths < SHARE_MIN && place.ns < least_ns;
    let rest: Vec<_> = shown.extract_if(.., is_small).collect();
    let is_udp = scene.store.connection.protocol == Protocol::Udp;
    for (area, (place, tenths)) in page.stack(&vec![1.0; shown.len()], true).into_iter().zip(&shown)
    {
        let name = place_name(place.part.name(), is_udp);
        let time = Quantity::Time.words(place.ns as f64);
        page.svg.group(name);
        let title = format!("{name}: {}", palette::place(place.part).meaning);
        page.panel_title(area, &title, &format!("{}, {time}", percent(*tenths)));
        let is_last = Some(place.part) == shown.last().map(|(last, _)| last.part);
        let panel = panel(scene, area);
        figure_page::frame(scene, &mut page, &panel, is_last);
        draw_place(&mut page, &panel, place);
        page.svg.end_group();
    }
    if !rest.is_empty() {
        let names: Vec<_> = rest.iter().map(|(it, _)| place_name(it.part.name(), is_udp)).collect();
        page.note(format!("below 1 % each, without a panel: {}", names.join(", ")));
    }
    page.finish()
}

/// The ledger's spans within the time shown.
fn shown(scene: &Scene<'_>) -> Vec<LedgerSpan> {
    let spans = ledger_spans(scene.store, scene.options.direction, scene.curves());
    let within = spans.into_iter().filter_map(|span| {
        let start_ns = span.start_ns.max(scene.from_ns);
        let end_ns = span.end_ns.min(scene.to_ns);
        (start_ns < end_ns).then_some(LedgerSpan { start_ns, end_ns, ..span })
    });
    within.collect()
}

/// The begin of a panel's pixel columns, and their number.
fn columns(panel: &Panel) -> (f64, usize) {
    let scale = &panel.x.scale;
    let (left, right) = (scale.px(scale.low()), scale.px(scale.high()));
    (left, ((right - left) as usize).max(1))
}

/// The places with any time, in the order of the path.
fn places(scene: &Scene<'_>, spans: &[LedgerSpan], columns: usize) -> Vec<Place> {
    let column_ns = (scene.to_ns - scene.from_ns) as f64 / columns as f64;
    let mut places: Vec<_> = LedgerPart::ALL
        .into_iter()
        .map(|part| Place { part, ns: 0, shares: vec![0.0; columns] })
        .collect();
    for span in spans {
        let place = &mut places[span.part as usize];
        place.ns += span.duration_ns();
        let at = |ns: u64| (ns - scene.from_ns) as f64 / column_ns;
        let (from, to) = (at(span.start_ns), at(span.end_ns));
        let last = (to as usize).min(columns - 1);
        for column in from as usize..=last {
            let (left, right) = (column as f64, (column + 1) as f64);
            place.shares[column] += (to.min(right) - from.max(left)).max(0.0);
        }
    }
    places.retain(|place| place.ns > 0);
    places
}

fn panel(scene: &Scene<'_>, area: Rect) -> Panel {
    let mut y = Axis::from_zero("share", Quantity::Percent, 100.0, (area.bottom(), area.y), 2);
    y.label = "%".to_owned();
    Panel { area, x: figure_page::time_axis(scene, area), y }
}

fn draw_place(page: &mut Page, panel: &Panel, place: &Place) {
    let is_unknown = place.part == LedgerPart::Unknown;
    let (left, _) = columns(panel);
    let mut bars = Path::default();
    for (column, share) in place.shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
        let x = left + column as f64;
        let bottom = panel.area.bottom();
        // Any time at all must be visible.
        let top = panel.y.scale.px(share * 100.0).min(bottom - 1.0);
        if is_unknown {
            page.svg.rect(theme::UNKNOWN, Rect { x, y: top, width: 1.0, height: bottom - top });
        } else {
            bars.bar(x + 0.5, bottom, top);
        }
    }
    let stroke = if place.part == LedgerPart::AppIdle { Stroke::PaleThin } else { Stroke::Thin };
    let ink = palette::ink(palette::place(place.part), page);
    page.svg.path(&ink.drawn(stroke), &bars);
}
