//! The times of findings in a figure: a narrow bar for each rule, along the figure's axis of time.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use sockscope_analysis::{Finding, FindingId};
use sockscope_render::number::count;
use sockscope_render::page::{Key, Page, Panel, Sample};
use sockscope_render::svg::Rect;
use sockscope_render::theme::{Ink, Stroke};
use sockscope_render::units::Quantity;

use super::spans::{SPAN_PX_MIN, joined};

/// One for each bar, from the outermost on; the legend has the same order.
const INKS: [Ink; 3] = [Ink::Alarm, Ink::Program, Ink::Window];
const THICKNESS_PX: f64 = 5.0;
/// From one bar to the next.
const ROW_PX: f64 = 6.0;

/// The findings that have a time within the interval shown.
pub(super) struct Marks {
    rows: Vec<Row>,
    /// Those of rules without a bar.
    others: Vec<String>,
    /// Of panels that share their axis the first one has the bars.
    are_drawn: Cell<bool>,
}

/// The findings of one rule.
struct Row {
    ink: Ink,
    /// As `late-wakeup 5× (16.1 ms)`: number and cost in the whole trace.
    words: String,
    /// Within the interval, by start.
    times: Vec<(u64, u64)>,
}

impl Marks {
    /// Of these findings; the rules with the longest times have bars.
    pub(super) fn within<'a>(
        findings: impl Iterator<Item = &'a Finding>,
        (from_ns, to_ns): (u64, u64),
    ) -> Self {
        let is_shown = |&(start_ns, end_ns): &(u64, u64)| start_ns <= to_ns && end_ns >= from_ns;
        let mut by_id: BTreeMap<FindingId, Vec<&Finding>> = BTreeMap::new();
        for finding in findings.filter(|one| one.times.iter().any(is_shown)) {
            by_id.entry(finding.id).or_default().push(finding);
        }
        let rows = by_id.into_iter().map(|(id, findings)| {
            let times = findings.iter().flat_map(|one| &one.times).copied().filter(is_shown);
            let cut = times.map(|(start_ns, end_ns)| (start_ns.max(from_ns), end_ns.min(to_ns)));
            let mut times: Vec<_> = cut.collect();
            times.sort_unstable();
            Row { ink: Ink::Alarm, words: words(id, &findings), times }
        });
        let mut rows: Vec<Row> = rows.collect();
        rows.sort_by_key(|row| Reverse(row.times.iter().map(|(from, to)| to - from).sum::<u64>()));
        let others = rows.drain(rows.len().min(INKS.len())..).map(|row| row.words).collect();
        rows.iter_mut().zip(INKS).for_each(|(row, ink)| row.ink = ink);
        Self { rows, others, are_drawn: Cell::new(false) }
    }

    /// For the legend.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        self.rows.iter().map(|row| Key { sample: Sample::Bar(row.ink), words: &row.words })
    }

    /// Names the findings without a bar.
    pub(super) fn note(&self) -> Option<String> {
        let has_some = !self.others.is_empty();
        has_some.then(|| format!("findings without a bar: {}", self.others.join(", ")))
    }

    /// Along the upper edge of a panel. `px` gives the place of a time on its x axis.
    pub(super) fn draw(&self, page: &mut Page, panel: &Panel, px: impl Fn(u64) -> f64) {
        if self.are_drawn.replace(true) {
            return;
        }
        let mut y = panel.area.y;
        for row in &self.rows {
            for (x, width) in row.bars(&px) {
                page.svg.rect(&row.class(), Rect { x, y, width, height: THICKNESS_PX });
            }
            y += ROW_PX;
        }
    }

    /// Along the left side of a figure whose time runs downward. `px` gives the height of a time.
    pub(super) fn draw_at_side(&self, page: &mut Page, left: f64, px: impl Fn(u64) -> f64) {
        let mut x = left;
        for row in &self.rows {
            for (y, height) in row.bars(&px) {
                page.svg.rect(&row.class(), Rect { x, y, width: THICKNESS_PX, height });
            }
            x += ROW_PX;
        }
    }
}

impl Row {
    /// Begin and length of each bar.
    fn bars(&self, px: &impl Fn(u64) -> f64) -> impl Iterator<Item = (f64, f64)> {
        let spans = joined(self.times.iter().map(|(from_ns, to_ns)| (px(*from_ns), px(*to_ns))));
        spans.into_iter().map(|(from_px, to_px)| (from_px, (to_px - from_px).max(SPAN_PX_MIN)))
    }

    fn class(&self) -> String {
        self.ink.drawn(Stroke::Fill)
    }
}

fn words(id: FindingId, findings: &[&Finding]) -> String {
    let sum = |of: fn(&Finding) -> u64| {
        findings.iter().fold(0u64, |sum, finding| sum.saturating_add(of(finding)))
    };
    let times = count(sum(|finding| finding.count));
    match sum(|finding| finding.cost_ns) {
        0 => format!("{} {times}×", id.name()),
        cost_ns => format!("{} {times}× ({})", id.name(), Quantity::Time.words(cost_ns as f64)),
    }
}
