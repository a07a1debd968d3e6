//! Charts of results: one line for each series, over a parameter that was varied.
//!
//! The other figures show one connection over time; a chart shows many runs: throughput over the
//! size of a buffer, a line for each machine. Panels stand one above the other and share the
//! legend: a series has the same ink, dash and marker in each. A value that is not finite is a gap.

use crate::page::{Head, Key, Page, Panel, Sample};
use crate::scale::Axis;
use crate::size::{SizeError, check_size};
use crate::svg::{Path, Rect};
use crate::theme::{Ink, Shape, Stroke};
use crate::units::Quantity;

/// A series of more points has no markers: they would hide the line.
const MARKED_POINTS_MAX: usize = 48;
const MARK_RADIUS_PX: f64 = 4.0;
/// First and last point stand this far from the edges of their panel, so that markers are whole.
const INSET_PX: f64 = 8.0;
/// Of the range of an axis: where data begins nearer to zero than this, the axis begins there.
const ZERO_SHARE: f64 = 0.35;
/// Room above and below the data on an axis that does not begin at zero, of their range.
const RANGE_MARGIN: f64 = 0.08;

/// A chart with the text around it.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// The subject of the chart.
    pub title: String,
    /// The system that was measured.
    pub subtitle: String,
    /// From top to bottom.
    pub panels: Vec<ChartPanel>,
    /// Notes for the reader, under the drawing.
    pub notes: Vec<String>,
    /// Source of the numbers: the last line.
    pub facts: String,
}

/// One drawing area.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartPanel {
    /// Over the panel; may be empty when there is one.
    pub title: String,
    /// The varied quantity.
    pub x: ChartAxis,
    /// The measured quantity.
    pub y: ChartAxis,
    /// Drawn in this order.
    pub series: Vec<Series>,
}

/// Meaning of an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChartAxis {
    /// Its name without the unit, as `throughput`.
    pub name: String,
    /// The measured quantity, whose base unit the points have.
    pub quantity: Quantity,
    /// Spread of values over it.
    pub spread: Spread,
    /// Whether a linear y axis begins at zero, so that heights can be compared by eye.
    pub is_from_zero: bool,
}

impl ChartAxis {
    /// An axis of this name, from zero on.
    pub fn new(name: impl Into<String>, quantity: Quantity, spread: Spread) -> Self {
        Self { name: name.into(), quantity, spread, is_from_zero: true }
    }

    /// The same over the range of the data, where small differences are the subject.
    pub fn over_data(self) -> Self {
        Self { is_from_zero: false, ..self }
    }
}

/// Spread of values over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Evenly.
    Linear,
    /// By their logarithm, ticks at powers of ten; only values above 0 are shown.
    Log,
    /// By their logarithm, ticks at powers of two; only values above 0 are shown.
    Doubling,
    /// Each value at a place of its own, all equally far apart: for values that lie in clusters.
    /// Along the x axis only; a y axis so asked for is linear.
    Places,
}

/// The points of one line.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend; series of one name look the same in all panels.
    pub name: String,
    /// Values on the x and y axes, in base units, in the order in which they are joined.
    pub points: Vec<(f64, f64)>,
    /// The line between its points.
    pub join: Join,
}

/// The line between the points of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// Straight from one to the next.
    Line,
    /// Level until the next one: a state that holds.
    Step,
    /// No line.
    Points,
    /// Level until the next one, filled down to the axis: the bins of a histogram.
    Bars,
}

/// Ink, dash and marker of one series.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Look {
    ink: Ink,
    stroke: Stroke,
    shape: Shape,
}

/// Draws `chart` as an SVG document of `width` by `height` pixels.
///
/// # Errors
///
/// When the width or the height is outside [`SIZES_PX`](crate::size::SIZES_PX).
pub fn draw_chart(chart: &Chart, width: u32, height: u32) -> Result<String, SizeError> {
    check_size(width, height)?;
    let names = series_names(chart);
    let is_marked = chart.panels.iter().flat_map(|panel| &panel.series).all(Series::is_marked);
    let looks: Vec<Look> = (0..names.len()).map(|index| look(index, is_marked)).collect();
    let keys: Vec<Key<'_>> = names
        .iter()
        .zip(&looks)
        .map(|(name, look)| Key { sample: look.sample(is_marked), words: name })
        .collect();
    let head = Head {
        title: &chart.title,
        subtitle: &chart.subtitle,
        facts: chart.facts.clone(),
        size: (width, height),
    };
    // A single line without a name needs no legend.
    let mut page = Page::with_head(head, if names == [""] { &[] } else { &keys });
    for note in &chart.notes {
        page.note(note.clone());
    }
    page.leave_room_for_ticks();
    let areas = page.stack(&vec![1.0; chart.panels.len()], false);
    for (panel, area) in chart.panels.iter().zip(areas) {
        draw_panel(&mut page, panel, area, |name| {
            let index = names.iter().position(|other| *other == name).unwrap_or(0);
            (looks[index], is_marked)
        });
    }
    Ok(page.finish())
}

/// The names of all series, each once, in the order of the chart.
fn series_names(chart: &Chart) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for series in chart.panels.iter().flat_map(|panel| &panel.series) {
        if !names.contains(&series.name.as_str()) {
            names.push(&series.name);
        }
    }
    names
}

/// The look of the series with this index. Neighbours differ in more than ink: in dash, and in
/// marker where there are markers. Looks repeat after 72.
fn look(index: usize, is_marked: bool) -> Look {
    const STROKES: [Stroke; 3] = [Stroke::Line, Stroke::Dashed, Stroke::Dotted];
    const SHAPES: [Shape; 4] = [Shape::Circle, Shape::Triangle, Shape::Diamond, Shape::Cross];
    const INKS: [Ink; 6] = [Ink::Data, Ink::Alarm, Ink::Ack, Ink::Window, Ink::Program, Ink::Plain];
    let turn = if is_marked { index / SHAPES.len() } else { index + index / INKS.len() };
    Look {
        // Shapes and inks alone repeat after 12.
        ink: INKS[(index + index / 12) % INKS.len()],
        stroke: STROKES[turn % STROKES.len()],
        shape: SHAPES[index % SHAPES.len()],
    }
}

impl Look {
    fn sample(self, is_marked: bool) -> Sample {
        if is_marked {
            Sample::Marked(self.ink, self.stroke, self.shape)
        } else {
            Sample::Line(self.ink, self.stroke)
        }
    }
}

impl Series {
    /// Few enough points for markers, and no states, which have no markers.
    fn is_marked(&self) -> bool {
        self.join == Join::Points
            || self.join == Join::Line && self.points.len() <= MARKED_POINTS_MAX
    }
}

fn draw_panel<'a>(
    page: &mut Page,
    panel: &'a ChartPanel,
    area: Rect,
    look_of: impl Fn(&'a str) -> (Look, bool),
) {
    page.panel_title(area, &panel.title, "");
    let mut shown: Vec<Vec<(f64, f64)>> =
        panel.series.iter().map(|series| shown_points(panel, series)).collect();
    let places = if panel.x.spread == Spread::Places { put_in_places(&mut shown) } else { vec![] };
    let values = |which: fn(&(f64, f64)) -> f64| {
        let finite = shown.iter().flatten().map(which).filter(|value| value.is_finite());
        finite.fold(None, |ends: Option<(f64, f64)>, value| {
            let (low, high) = ends.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        })
    };
    let (x_ends, y_ends) = (values(|point| point.0), values(|point| point.1));
    let x_px = (area.x + INSET_PX, area.right() - INSET_PX);
    let ticks = |length: f64, each: f64| ((length / each) as usize).clamp(2, 10);
    let x_ends_shown = x_ends.unwrap_or((0.0, 1.0));
    let x = match panel.x.spread {
        Spread::Places => Axis::places(&panel.x.name, panel.x.quantity, &places, x_px),
        _ => x_axis(&panel.x, x_ends_shown, x_px, ticks(area.width, 80.0)),
    };
    let drawn = Panel {
        area,
        x,
        y: y_axis(&panel.y, y_ends.unwrap_or((0.0, 1.0)), area, ticks(area.height, 34.0)),
    };
    if x_ends.is_none() || y_ends.is_none() {
        page.frame(&drawn.without_values(), true);
        page.empty(area, "no value was measured");
        return;
    }
    page.frame(&drawn, true);
    for (series, points) in panel.series.iter().zip(&shown) {
        let (look, is_marked) = look_of(&series.name);
        page.svg.group(&series.name);
        draw_series(page, &drawn, (series.join, points), look, is_marked);
        page.svg.end_group();
    }
}

/// The points of a series that its axes can show; others become gaps.
fn shown_points(panel: &ChartPanel, series: &Series) -> Vec<(f64, f64)> {
    let has_place = |axis: &ChartAxis, value: f64| {
        let is_log = matches!(axis.spread, Spread::Log | Spread::Doubling);
        value.is_finite() && (value > 0.0 || !is_log)
    };
    let shown = |(x, y): &(f64, f64)| {
        let is_shown = has_place(&panel.x, *x) && has_place(&panel.y, *y);
        if is_shown { (*x, *y) } else { (f64::NAN, f64::NAN) }
    };
    series.points.iter().map(shown).collect()
}

/// Replaces each x value by its rank among all of the panel, and gives the values by rank.
fn put_in_places(series: &mut [Vec<(f64, f64)>]) -> Vec<f64> {
    let mut values: Vec<f64> =
        series.iter().flatten().map(|point| point.0).filter(|x| x.is_finite()).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.dedup();
    for point in series.iter_mut().flatten().filter(|point| point.0.is_finite()) {
        point.0 = values.partition_point(|value| *value < point.0) as f64;
    }
    values
}

fn x_axis(axis: &ChartAxis, (low, high): (f64, f64), px: (f64, f64), ticks: usize) -> Axis {
    match axis.spread {
        Spread::Linear | Spread::Places => {
            let low = if low > 0.0 && low <= high * ZERO_SHARE { 0.0 } else { low };
            Axis::linear(&axis.name, axis.quantity, (low, high), px, ticks)
        }
        Spread::Log => Axis::log(&axis.name, axis.quantity, (low, high), px),
        Spread::Doubling => Axis::doubling(&axis.name, axis.quantity, (low, high), px),
    }
}

fn y_axis(axis: &ChartAxis, (low, high): (f64, f64), area: Rect, ticks: usize) -> Axis {
    let px = (area.bottom(), area.y);
    match axis.spread {
        // Lengths from zero can be compared by eye.
        Spread::Linear | Spread::Places if low >= 0.0 && axis.is_from_zero => {
            Axis::from_zero(&axis.name, axis.quantity, high, px, ticks)
        }
        Spread::Linear | Spread::Places => {
            // Points do not lie on the edge.
            let margin = (high - low) * RANGE_MARGIN;
            let floor = if low >= 0.0 { 0.0 } else { f64::NEG_INFINITY };
            let ends = ((low - margin).max(floor), high + margin);
            Axis::linear(&axis.name, axis.quantity, ends, px, ticks)
        }
        Spread::Log => {
            let (low, high) = whole_powers((low, high), 10.0);
            Axis::log(&axis.name, axis.quantity, (low, high), px)
        }
        Spread::Doubling => {
            let (low, high) = whole_powers((low, high), 2.0);
            Axis::doubling(&axis.name, axis.quantity, (low, high), px)
        }
    }
}

/// The powers of `base` at or below `low` and at or above `high`.
fn whole_powers((low, high): (f64, f64), base: f64) -> (f64, f64) {
    let power = |exponent: f64| base.powi(exponent as i32);
    (power(low.log(base).floor()), power(high.log(base).ceil()))
}

fn draw_series(
    page: &mut Page,
    panel: &Panel,
    (join, points): (Join, &[(f64, f64)]),
    look: Look,
    is_marked: bool,
) {
    let place = |(x, y): (f64, f64)| (panel.x.scale.px(x), panel.y.scale.px(y));
    // A point that is not shown has neither value.
    let is_whole = |point: &(f64, f64)| !point.0.is_nan();
    let (mut line, mut marks) = (Path::default(), Path::default());
    for run in points.split(|point| !is_whole(point)) {
        for (index, point) in run.iter().enumerate() {
            let (x, y) = place(*point);
            match join {
                _ if index == 0 => line.move_to((x, y)),
                Join::Line => line.line_to((x, y)),
                Join::Step => {
                    line.across_to(x);
                    line.down_to(y);
                }
                Join::Points | Join::Bars => {}
            }
        }
    }
    if is_marked {
        let whole = points.iter().filter(|point| is_whole(point));
        whole.for_each(|point| look.shape.put(&mut marks, place(*point), MARK_RADIUS_PX));
    }
    if join == Join::Bars {
        page.svg.path(&look.ink.drawn(Stroke::Fill), &bins(panel, points));
    } else if join != Join::Points {
        page.svg.path(&look.ink.drawn(look.stroke), &line);
    }
    page.svg.path(&look.ink.drawn(look.shape.stroke()), &marks);
}

/// A bar from each point to the next, down to the axis; a gap between neighbours keeps them apart.
fn bins(panel: &Panel, points: &[(f64, f64)]) -> Path {
    let (mut path, bottom) = (Path::default(), panel.area.bottom());
    for pair in points.windows(2).filter(|pair| pair[0].1 > 0.0) {
        let [left, right] = [0, 1].map(|index| panel.x.scale.px(pair[index].0));
        let right = if right - left > 4.0 { right - 1.0 } else { right };
        // A bin with anything in it must be seen.
        let top = panel.y.scale.px(pair[0].1).min(bottom - 1.0);
        path.move_to((left, bottom));
        path.down_to(top);
        path.across_to(right);
        path.down_to(bottom);
        path.close();
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: &[(f64, f64)], spread: Spread) -> Chart {
        let axis = |name: &str, quantity| ChartAxis::new(name, quantity, spread);
        let series = |name: &str| Series {
            name: name.to_owned(),
            points: points.to_vec(),
            join: Join::Line,
        };
        Chart {
            title: "Throughput".to_owned(),
            subtitle: "two machines".to_owned(),
            panels: vec![ChartPanel {
                title: String::new(),
                x: axis("size", Quantity::Bytes),
                y: axis("throughput", Quantity::BitRate),
                series: vec![series("one"), series("two")],
            }],
            notes: Vec::new(),
            facts: "sockscope: 4 runs".to_owned(),
        }
    }

    /// Line and markers of the series with this name.
    fn drawn<'a>(svg: &'a str, name: &str) -> Vec<&'a str> {
        let start = format!(r#"<g id="{name}">"#);
        svg.lines()
            .skip_while(|line| *line != start)
            .skip(1)
            .take_while(|line| *line != "</g>")
            .collect()
    }

    #[test]
    fn each_series_has_a_line_of_its_own_with_a_marker_at_each_point() {
        let points = [(1024.0, 1e6), (2048.0, 2e6), (4096.0, 4e6)];
        let svg = draw_chart(&chart(&points, Spread::Linear), 800, 600).unwrap();
        for (name, class) in [("one", "line data"), ("two", "line alarm")] {
            let [line, marks] = drawn(&svg, name)[..] else { panic!("{svg}") };
            assert!(line.starts_with(&format!(r#"<path class="{class}""#)), "{line}");
            assert_eq!((line.matches('M').count(), line.matches('L').count()), (1, 2));
            assert_eq!(marks.matches('M').count(), 3, "{marks}");
        }
        assert!(svg.contains(">throughput (Mbit/s)<"), "{svg}");
        assert!(svg.contains(">size (KiB)<"), "{svg}");
    }

    #[test]
    fn an_axis_over_the_data_shows_small_differences() {
        let points = [(1.0, 1000.0), (2.0, 1010.0)];
        let mut small = chart(&points, Spread::Linear);
        let heights = |chart: &Chart| {
            let svg = draw_chart(chart, 800, 600).unwrap();
            let line = drawn(&svg, "one")[0].to_owned();
            let (first, second) = line.split_once('L').unwrap();
            let y = |point: &str| {
                let y = point.rsplit(' ').next().unwrap().trim_end_matches("\"/>");
                y.parse::<f64>().unwrap()
            };
            y(first) - y(second)
        };
        let from_zero = heights(&small);
        small.panels[0].y = small.panels[0].y.clone().over_data();
        assert!(heights(&small) > 20.0 * from_zero, "{} {from_zero}", heights(&small));
    }

    #[test]
    fn bins_are_filled_down_to_the_axis_where_they_hold_anything() {
        let mut histogram =
            chart(&[(0.0, 0.0), (1.0, 5.0), (2.0, 3.0), (3.0, 0.0)], Spread::Linear);
        histogram.panels[0].series.truncate(1);
        histogram.panels[0].series[0].join = Join::Bars;
        let svg = draw_chart(&histogram, 800, 600).unwrap();
        let [bars] = drawn(&svg, "one")[..] else { panic!("{svg}") };
        assert!(bars.starts_with("<path class=\"fill data\""), "{bars}");
        assert_eq!((bars.matches('M').count(), bars.matches('Z').count()), (2, 2), "{bars}");
    }

    #[test]
    fn what_was_not_measured_is_a_gap() {
        let points = [(1.0, 1.0), (2.0, f64::NAN), (3.0, 1.0), (4.0, 1.0)];
        let svg = draw_chart(&chart(&points, Spread::Linear), 800, 600).unwrap();
        let line = drawn(&svg, "one")[0];
        assert_eq!((line.matches('M').count(), line.matches('L').count()), (2, 1), "{line}");
        let none = draw_chart(&chart(&[(1.0, f64::NAN)], Spread::Linear), 800, 600).unwrap();
        assert!(none.contains("no value was measured"));
    }

    #[test]
    fn sizes_that_double_have_ticks_at_powers_of_two() {
        let points: Vec<_> = (0..=22).map(|power| (2f64.powi(power), 1e6)).collect();
        let svg = draw_chart(&chart(&points, Spread::Doubling), 800, 600).unwrap();
        for label in [">1 B<", ">64 B<", ">4 KiB<", ">1 MiB<"] {
            assert!(svg.contains(label), "{label} in {svg}");
        }
    }

    #[test]
    fn values_in_clusters_get_places_of_their_own() {
        let points = [(1.0, 1e6), (1023.0, 2e6), (1024.0, 3e6), (1025.0, 4e6)];
        let svg = draw_chart(&chart(&points, Spread::Places), 800, 600).unwrap();
        for label in [">1<", ">1,023<", ">1,024<", ">1,025<", ">size (B)<"] {
            assert!(svg.contains(label), "{label} in {svg}");
        }
    }

    #[test]
    fn notes_are_told_to_their_end() {
        let long = Chart { notes: vec!["word ".repeat(100) + "end"], ..chart(&[], Spread::Linear) };
        let short = draw_chart(&chart(&[], Spread::Linear), 800, 600).unwrap();
        let svg = draw_chart(&long, 800, 600).unwrap();
        assert!(svg.contains("word end<") && !svg.contains('…'), "{svg}");
        assert!(short.contains(r#"height="600""#) && !svg.contains(r#"height="600""#));
    }

    #[test]
    fn a_logarithm_leaves_out_what_has_none() {
        let svg = draw_chart(&chart(&[(0.0, 5.0), (10.0, 0.0)], Spread::Log), 800, 600).unwrap();
        assert!(svg.contains("no value was measured"));
    }

    #[test]
    fn twelve_series_all_look_different() {
        for is_marked in [false, true] {
            let looks: Vec<Look> = (0..12).map(|index| look(index, is_marked)).collect();
            for (at, one) in looks.iter().enumerate() {
                let same = |other: &&Look| {
                    let marker = is_marked && other.shape == one.shape;
                    other.stroke == one.stroke && (marker || !is_marked && other.ink == one.ink)
                };
                assert_eq!(looks[..at].iter().filter(same).count(), 0, "{at} {is_marked}");
            }
        }
    }

    #[test]
    fn a_picture_too_small_is_refused() {
        let refused = draw_chart(&chart(&[(1.0, 1.0)], Spread::Linear), 10, 600);
        assert_eq!(refused, Err(SizeError { size_px: 10 }));
    }
}
