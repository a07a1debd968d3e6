//! Bars of the ledger: the sum of a flow, and the place at each time. Each place has its colour and its letter.

use maud::{Markup, html};
use sockscope_analysis::{Ledger, LedgerDetail, LedgerPart, edges};
use sockscope_render::number::{apportion, percent, time};
use sockscope_render::style::Charset;

use crate::order::place_name;
use crate::palette;

/// Pixels of a bar across and down; a page scales it.
pub(super) const WIDE: (u64, u64) = (640, 20);
pub(super) const NARROW: (u64, u64) = (160, 12);
/// A part of this many pixels has room for its letter.
const LETTER_PX: u64 = 12;
/// Shares that differ by less look the same.
const SAME_SHARE: f64 = 0.01;
/// Height of the flattest area that is drawn.
const VISIBLE_PX: f64 = 0.3;
const OVER_TIME_PX: (usize, usize) = (900, 34);

/// The shares of a flow's time as one bar. Its words are those of places of 1 % or more. A style sheet has the colours,
/// and where a reader drops it, the attributes.
pub(super) fn sum(ledger: &Ledger, is_udp: bool, (width, height): (u64, u64)) -> Markup {
    let places: Vec<_> =
        LedgerPart::ALL.into_iter().zip(ledger.ns).filter(|(_, ns)| *ns > 0).collect();
    let weights: Vec<u64> = places.iter().map(|(_, ns)| *ns).collect();
    let (widths, tenths) = (apportion(&weights, width), apportion(&weights, 1000));
    let words = places.iter().zip(&tenths).filter(|(_, tenths)| **tenths >= ROW_MIN);
    let words = words.map(|((part, _), tenths)| {
        format!("{} {}", place_name(part.name(), is_udp), percent(*tenths))
    });
    let words = words.collect::<Vec<_>>().join(", ");
    let lefts = widths.iter().scan(0, |left, width| Some(std::mem::replace(left, *left + width)));
    html! {
        svg class="ledger-bar" viewBox={ "0 0 " (width) " " (height) } role="img" aria-label=(words) {
            title { (words) }
            @for (((part, _), part_px), left) in places.iter().zip(&widths).zip(lefts) {
                @let look = palette::place(*part);
                @if *part_px > 0 {
                    rect class=(look.class) x=(left) width=(part_px) height=(height) fill=(look.on_light) {}
                }
                @if *part_px >= LETTER_PX {
                    text x=(left + part_px / 2) y=(height * 3 / 4) { (look.letter) }
                }
            }
        }
    }
}

/// Smallest share with a row of its own, in tenths of a percent.
const ROW_MIN: u64 = 10;

/// The shares as a table, the largest first; those below 1 % in one row.
pub(super) fn legend(ledger: &Ledger, is_udp: bool) -> Markup {
    let places: Vec<_> =
        LedgerPart::ALL.into_iter().zip(ledger.ns).filter(|(_, ns)| *ns > 0).collect();
    let tenths = apportion(&places.iter().map(|(_, ns)| *ns).collect::<Vec<_>>(), 1000);
    let mut rows: Vec<_> = places.into_iter().zip(tenths).collect();
    rows.sort_by_key(|((_, ns), _)| std::cmp::Reverse(*ns));
    let (rows, small): (Vec<_>, Vec<_>) =
        rows.into_iter().partition(|(_, tenths)| *tenths >= ROW_MIN);
    let names: Vec<_> =
        small.iter().map(|((part, _), _)| place_name(part.name(), is_udp)).collect();
    let sum = small.iter().fold((0_u64, 0), |(ns, tenths), ((_, more), more_tenths)| {
        (ns.saturating_add(*more), tenths + more_tenths)
    });
    let row = |look, (ns, tenths): (u64, u64), name: Markup, words: &str| {
        html! {
            tr {
                td { (swatch(look)) }
                td class="number" { (percent(tenths)) }
                td class="number" { (time(ns, Charset::Unicode)) }
                td { (name) }
                td { (words) }
            }
        }
    };
    html! {
        table class="legend" {
            @for ((part, ns), tenths) in rows {
                @let name = html! { code { (place_name(part.name(), is_udp)) } };
                (row(palette::place(part), (ns, tenths), name, palette::place(part).meaning))
            }
            @if !names.is_empty() {
                (row(palette::REST, sum, html! { "below 1 % each" }, &names.join(", ")))
            }
        }
    }
}

/// The letter of a place on its colour.
fn swatch(look: palette::Look) -> Markup {
    html! { span class={ "swatch " (look.class) } { (look.letter) } }
}

/// The place at each time, as a drawing without a script, of so many columns.
pub(super) fn over_time(
    detail: &LedgerDetail,
    (from_ns, to_ns): (u64, u64),
    columns: usize,
) -> Markup {
    let (width, height) = OVER_TIME_PX;
    let column_px = width as f64 / columns as f64;
    let columns = detail.columns(&edges(from_ns, to_ns, columns));
    let mut rects: Vec<Rect> = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        let total_ns: u64 = column.iter().sum();
        let mut below = 0.0;
        for (part, ns) in LedgerPart::ALL.into_iter().zip(column).filter(|(_, ns)| **ns > 0) {
            let share = *ns as f64 / total_ns as f64;
            let rect = Rect { part, from: index, to: index + 1, below, share };
            below += share;
            match rects.iter_mut().rev().take(LedgerPart::ALL.len()).find(|it| it.continues(&rect))
            {
                Some(before) => before.to = rect.to,
                None => rects.push(rect),
            }
        }
    }
    html! {
        svg class="ledger-bar" viewBox={ "0 0 " (width) " " (height) } role="img"
            aria-label="the place of the oldest unread byte over time" {
            @for part in LedgerPart::ALL {
                @let areas = rects.iter().filter(|rect| rect.part == part);
                @let areas: String = areas.map(|rect| rect.area(column_px, height as f64)).collect();
                @if !areas.is_empty() { path class=(palette::place(part).class) d=(areas) {} }
            }
            @for part in LedgerPart::ALL {
                @let widest = rects.iter().filter(|rect| rect.part == part && rect.share >= 0.6);
                @let widest = widest.max_by_key(|rect| (rect.to - rect.from, std::cmp::Reverse(rect.from)));
                @if let Some(rect) = widest.filter(|rect| rect.width_px(column_px) >= LETTER_PX as f64) {
                    @let middle = (rect.from + rect.to) as f64 * column_px / 2.0;
                    text x=(format!("{middle:.0}")) y=(height * 5 / 8) { (palette::place(part).letter) }
                }
            }
        }
    }
}

/// A place over some columns.
struct Rect {
    part: LedgerPart,
    from: usize,
    to: usize,
    below: f64,
    share: f64,
}

impl Rect {
    fn width_px(&self, column_px: f64) -> f64 {
        (self.to - self.from) as f64 * column_px
    }

    /// A part of a path; empty where it is too flat to be seen.
    fn area(&self, column_px: f64, height: f64) -> String {
        if self.share * height < VISIBLE_PX {
            return String::new();
        }
        let tenth = |value: f64| (value * 10.0).round() / 10.0;
        let x = tenth(self.from as f64 * column_px);
        let wide = tenth(self.width_px(column_px));
        let top = tenth((1.0 - self.below - self.share) * height);
        let tall = tenth(self.share * height);
        format!("M{x} {top}h{wide}v{tall}h-{wide}z")
    }

    /// Whether the other one is the same in the next column.
    fn continues(&self, next: &Self) -> bool {
        let is_same = |one: f64, other: f64| (one - other).abs() < SAME_SHARE;
        self.part == next.part
            && self.to == next.from
            && is_same(self.below, next.below)
            && is_same(self.share, next.share)
    }
}

#[cfg(test)]
mod tests {
    use sockscope_analysis::LedgerSpan;

    use super::*;

    #[test]
    fn a_bar_has_each_place_in_the_order_of_the_path_with_its_letter() {
        let mut ledger = Ledger::default();
        ledger.ns[LedgerPart::ReceiveApp as usize] = 25;
        ledger.ns[LedgerPart::SendNagle as usize] = 75;
        let bar = sum(&ledger, false, WIDE).into_string();
        let nagle = r##"<rect class="place-send_queue-nagle" x="0" width="480" height="20" fill="#0072b2">"##;
        let at = |text: &str| bar.find(text).unwrap_or_else(|| panic!("{text} in {bar}"));
        assert!(at(nagle) < at(r#"<rect class="place-receive_queue-app" x="480""#));
        assert!(bar.contains(">N</text>") && bar.contains("send_queue.nagle 75.0 %"));
    }

    #[test]
    fn a_place_over_many_columns_is_one_rectangle() {
        let span = |start_ns, end_ns, part| LedgerSpan { start_ns, end_ns, offset: 0, part };
        let detail = LedgerDetail::new(vec![
            span(0, 600, LedgerPart::SendNagle),
            span(600, 1_200, LedgerPart::AppIdle),
        ]);
        let bar = over_time(&detail, (0, 1_200), 300).into_string();
        assert!(bar.contains(r#"<path class="place-app_idle" d="M450 0h450v34h-450z">"#), "{bar}");
        assert_eq!(bar.matches('z').count(), 2, "{bar}");
    }
}
