//! Times of components along a path: a bar for each, with the printed value next to the measured one.
//!
//! A panel is one case. Its bars begin at zero, so that lengths can be compared by eye; the words behind them have both
//! values, so that a bar too short to be seen still has its number.

use crate::page::{Head, Key, Page, Panel, Sample};
use crate::scale::{Axis, Scale, Tick};
use crate::size::{SizeError, check_size};
use crate::svg::{Path, Rect};
use crate::theme::{Ink, Shape, Stroke, Words};
use crate::units::Quantity;

/// Height of a bar, of the height of its row.
const BAR_SHARE: f64 = 0.56;
/// Least width of a bar: a value above zero is visible.
const BAR_PX_MIN: f64 = 1.5;
/// Room behind the longest bar for its words.
const WORDS_PX: f64 = 190.0;
const NAMES_PX: f64 = 140.0;

/// A drawing of components with the text around it.
#[derive(Debug, Clone, PartialEq)]
pub struct Components {
    /// The subject.
    pub title: String,
    /// The system that was measured.
    pub subtitle: String,
    /// From top to bottom.
    pub panels: Vec<ComponentPanel>,
    /// Notes for the reader, under the drawing.
    pub notes: Vec<String>,
    /// Source of the numbers: the last line.
    pub facts: String,
}

/// The components in one case.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentPanel {
    /// The case.
    pub title: String,
    /// In the order of the path.
    pub rows: Vec<Component>,
}

/// One component.
#[derive(Debug, Clone, PartialEq)]
pub struct Component {
    /// Its name.
    pub name: String,
    /// Nanoseconds measured; `None`: unknown.
    pub value_ns: Option<f64>,
    /// Nanoseconds that the paper prints; `None`: it prints none.
    pub printed_ns: Option<f64>,
    /// The class of its bar, and the colours of the class on a light and on a dark ground.
    pub look: Option<(&'static str, [&'static str; 2])>,
}

/// Draws the components as an SVG document of `width` by `height` pixels.
///
/// # Errors
///
/// When the width or the height is outside [`SIZES_PX`](crate::size::SIZES_PX).
pub fn draw_components(
    components: &Components,
    width: u32,
    height: u32,
) -> Result<String, SizeError> {
    check_size(width, height)?;
    let mut keys = vec![
        Key { sample: Sample::Bar(Ink::Plain), words: "measured" },
        Key { sample: Sample::Mark(Ink::Alarm, Shape::Diamond), words: "printed in the paper" },
    ];
    let mut rows = components.panels.iter().flat_map(|panel| &panel.rows);
    if rows.all(|row| row.printed_ns.is_none()) {
        keys.truncate(1);
    }
    let head = Head {
        title: &components.title,
        subtitle: &components.subtitle,
        facts: components.facts.clone(),
        size: (width, height),
    };
    let mut page = Page::with_head(head, &keys);
    components.notes.iter().for_each(|note| page.note(note.clone()));
    page.leave_room(NAMES_PX);
    let heights: Vec<f64> = components.panels.iter().map(|it| it.rows.len() as f64 + 1.0).collect();
    for (panel, area) in components.panels.iter().zip(page.stack(&heights, false)) {
        draw_panel(&mut page, panel, area);
    }
    Ok(page.finish())
}

fn draw_panel(page: &mut Page, panel: &ComponentPanel, area: Rect) {
    page.svg.group(&panel.title);
    page.panel_title(area, &panel.title, &sum(panel));
    let values = panel.rows.iter().flat_map(|row| [row.value_ns, row.printed_ns]).flatten();
    let high = values.fold(0.0, f64::max);
    // The longest bar leaves room for its words.
    let span = high * area.width / (area.width - WORDS_PX).max(1.0);
    let count = panel.rows.len() as f64;
    let row = area.height / count.max(1.0);
    let middle = |index: usize| count - index as f64 - 0.5;
    let tick =
        |(index, row): (usize, &Component)| Tick { at: middle(index), label: row.name.clone() };
    let drawn = Panel {
        area,
        x: Axis::linear(
            "mean time",
            Quantity::Time,
            (0.0, span.max(1.0)),
            (area.x, area.right()),
            8,
        ),
        y: Axis {
            scale: Scale::linear(0.0, count, area.bottom(), area.y),
            ticks: panel.rows.iter().enumerate().map(tick).collect(),
            label: String::new(),
        },
    };
    page.frame(&drawn, true);
    for (index, component) in panel.rows.iter().enumerate() {
        let y = drawn.y.scale.px(middle(index));
        draw_row(page, &drawn, component, (y, row * BAR_SHARE));
    }
    page.svg.end_group();
}

fn draw_row(page: &mut Page, panel: &Panel, row: &Component, (y, height): (f64, f64)) {
    let ink = match row.look {
        Some((class, colours)) => {
            page.colour(class, colours);
            Ink::Class(class)
        }
        None => Ink::Data,
    };
    let left = panel.area.x;
    let mut end = left;
    if let Some(value) = row.value_ns {
        let width = (panel.x.scale.px(value) - left).max(BAR_PX_MIN);
        let bar = Rect { x: left, y: y - height / 2.0, width, height };
        page.svg.rect(&ink.drawn(Stroke::Fill), bar);
        end = bar.right();
    }
    if let Some(printed) = row.printed_ns {
        let mut mark = Path::default();
        let x = panel.x.scale.px(printed);
        Shape::Diamond.put(&mut mark, (x, y), 5.0);
        page.svg.path(&Ink::Alarm.drawn(Stroke::Fill), &mark);
        end = end.max(x + 5.0);
    }
    page.words(Words::Label, (end + 8.0, y + 4.5), &words(row));
}

/// `305 µs, printed 280 µs`.
fn words(row: &Component) -> String {
    let value = row.value_ns.map_or("unknown".to_owned(), |ns| Quantity::Time.words(ns));
    match row.printed_ns {
        Some(printed) => format!("{value}, printed {}", Quantity::Time.words(printed)),
        None => value,
    }
}

/// All of them together, where each is known.
fn sum(panel: &ComponentPanel) -> String {
    let sum = panel.rows.iter().try_fold(0.0, |sum, row| Some(sum + row.value_ns?));
    sum.map_or(String::new(), |sum| format!("sum {}", Quantity::Time.words(sum)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(name: &str, value_us: Option<f64>, printed_us: Option<f64>) -> Component {
        let ns = |us: Option<f64>| us.map(|us| us * 1e3);
        let look = Some(("place-wire", ["#123456", "#abcdef"]));
        Component {
            name: name.to_owned(),
            value_ns: ns(value_us),
            printed_ns: ns(printed_us),
            look,
        }
    }

    fn drawn(rows: Vec<Component>) -> String {
        let panels = vec![ComponentPanel { title: "one at a time".to_owned(), rows }];
        let components = Components {
            title: "Delays".to_owned(),
            subtitle: "model".to_owned(),
            panels,
            notes: Vec::new(),
            facts: "sockscope: 1 case".to_owned(),
        };
        draw_components(&components, 800, 400).unwrap()
    }

    /// The widths of all bars in the drawing, without that of the legend.
    fn widths(svg: &str) -> Vec<f64> {
        let bars = svg.split("<rect class=\"fill place-wire\"").skip(1);
        bars.map(|bar| {
            bar.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        })
        .collect()
    }

    #[test]
    fn a_bar_is_as_long_as_its_time_and_has_both_values_behind_it() {
        let rows =
            vec![component("send", Some(300.0), Some(280.0)), component("wire", Some(900.0), None)];
        let svg = drawn(rows);
        let [short, long] = widths(&svg)[..] else { panic!("{svg}") };
        assert!((long / short - 3.0).abs() < 0.01, "{short} {long}");
        assert!(svg.contains(">300 µs, printed 280 µs<") && svg.contains(">900 µs<"), "{svg}");
        assert!(svg.contains("sum 1.20 ms") && svg.contains(">printed in the paper<"), "{svg}");
        assert!(svg.contains(".fill.place-wire,.pale-fill.place-wire{fill:#123456}"), "{svg}");
    }

    #[test]
    fn an_unknown_time_has_no_bar_and_no_sum() {
        let svg = drawn(vec![component("send", None, None), component("wire", Some(0.0), None)]);
        assert_eq!(widths(&svg), [BAR_PX_MIN], "a measured zero is visible");
        assert!(svg.contains(">unknown<") && !svg.contains("sum "), "{svg}");
        assert!(!svg.contains("printed in the paper"));
    }
}
