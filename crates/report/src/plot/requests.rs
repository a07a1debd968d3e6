//! Durations of requests, over time and as a distribution, all connections together.

use std::collections::BTreeSet;

use sockscope_analysis::{Analysis, ConnectionAnalysis, Request, RequestEnd};
use sockscope_record::statistics::percentile;
use sockscope_render::histogram::Histogram;
use sockscope_render::number::{count, counted};
use sockscope_render::page::{Head, Key, Page, Panel, Sample};
use sockscope_render::scale::Axis;
use sockscope_render::size::check_size;
use sockscope_render::svg::{Path, Rect};
use sockscope_render::theme::{Ink, Shape, Stroke, Words};
use sockscope_render::units::Quantity;

use super::marks::Marks;
use super::options::{PlotError, PlotOptions};
use super::protocol_delay::{draw_bins, draw_marks, histogram_panel};

/// From this ratio of longest to shortest on, the axis of times is logarithmic.
const LOG_RATIO_MIN: u64 = 100;

/// One request with its connection; its time is known.
struct Seen<'a> {
    connection: &'a ConnectionAnalysis,
    request: &'a Request,
    total_ns: u64,
}

/// Draws all requests of an analysis. Of the options it takes the size, the interval, the zero of time and the title.
///
/// # Errors
///
/// [`PlotError`] on a size that no picture has, and on an interval that does not begin before its end.
pub fn draw_requests(analysis: &Analysis, options: &PlotOptions<'_>) -> Result<String, PlotError> {
    check_size(options.width, options.height)?;
    let from_ns = options.from_ns.unwrap_or(analysis.start_ns);
    let to_ns = options.to_ns.unwrap_or(analysis.end_ns().max(from_ns.saturating_add(1)));
    if to_ns <= from_ns {
        return Err(PlotError::EmptyWindow { from_ns, to_ns });
    }
    let seen = shown(analysis, from_ns, to_ns);
    let findings = analysis.connections.iter().flat_map(|connection| &connection.findings);
    let marks = Marks::within(findings, (from_ns, to_ns));
    let mut page = open(analysis, options, to_ns - from_ns, &marks);
    let [over_time, below] = page.stack(&[1.6, 1.0], false)[..] else { unreachable!("two panels") };
    let zero_ns = options.zero_ns.unwrap_or(analysis.start_ns);
    let since = |at_ns: u64| (i128::from(at_ns) - i128::from(zero_ns)) as f64;
    let time = time_axis(over_time, (since(from_ns), since(to_ns)));
    page.svg.group("over-time");
    let panel = Panel { area: over_time, x: time, y: latency_axis(over_time, &seen) };
    page.panel_title(over_time, "time to the answer, at the time of the request", &summary(&seen));
    page.frame(&panel, true);
    marks.draw(&mut page, &panel, |at_ns| panel.x.scale.px(since(at_ns)));
    if seen.is_empty() {
        page.empty(over_time, "no requests seen in this time");
    }
    draw_marks_of(&mut page, &panel, &seen, since);
    page.svg.end_group();
    page.svg.group("distribution");
    draw_distribution(&mut page, below, &seen);
    page.svg.end_group();
    Ok(page.finish())
}

fn open(analysis: &Analysis, options: &PlotOptions<'_>, shown_ns: u64, marks: &Marks) -> Page {
    let keys = [
        Key { sample: Sample::Bars(Ink::Data), words: "answered" },
        Key {
            sample: Sample::Mark(Ink::Alarm, Shape::Cross),
            words: "not answered: how long its caller waited",
        },
        Key { sample: Sample::Line(Ink::Plain, Stroke::Line), words: "median" },
        Key { sample: Sample::Line(Ink::Alarm, Stroke::Dashed), words: "99th percentile" },
    ];
    let keys: Vec<Key<'_>> = keys.into_iter().chain(marks.keys()).collect();
    let connections = counted(analysis.connections.len() as u64, "connection");
    let missed = match analysis.facts.missed.total() {
        0 => "no records missed".to_owned(),
        missed => format!("{} missed in the trace", counted(missed, "record")),
    };
    let mut page = Page::with_head(
        Head {
            title: options.title.unwrap_or("Requests"),
            subtitle: options.about.unwrap_or(&connections),
            facts: format!(
                "sockscope: {connections}; {missed}; {} shown",
                Quantity::Time.words(shown_ns as f64)
            ),
            size: (options.width, options.height),
        },
        &keys,
    );
    marks.note().into_iter().for_each(|note| page.note(note));
    page.leave_room_for_ticks();
    let left_out: u64 = analysis.connections.iter().map(|one| one.requests.left_out).sum();
    if left_out > 0 {
        page.note(format!(
            "at least {} left out, which missed records touch",
            counted(left_out, "request")
        ));
    }
    options.notes.iter().for_each(|note| page.note(note.clone()));
    page
}

/// The requests that were asked within the time.
fn shown(analysis: &Analysis, from_ns: u64, to_ns: u64) -> Vec<Seen<'_>> {
    let all = analysis.connections.iter().flat_map(|connection| {
        connection.requests.list.iter().map(move |request| (connection, request))
    });
    let seen = all.filter_map(|(connection, request)| {
        let is_shown = (from_ns..=to_ns).contains(&request.asked_ns);
        let total_ns = request.total_ns().filter(|_| is_shown)?;
        Some(Seen { connection, request, total_ns })
    });
    seen.collect()
}

fn is_answered(seen: &&Seen<'_>) -> bool {
    seen.request.end == RequestEnd::Answered
}

fn summary(seen: &[Seen<'_>]) -> String {
    let answered = seen.iter().filter(is_answered).count();
    let slowest = seen.iter().max_by_key(|one| one.total_ns);
    let Some(slowest) = slowest else { return String::new() };
    format!(
        "{}, {} not answered; longest {}",
        counted(seen.len() as u64, "request"),
        count((seen.len() - answered) as u64),
        Quantity::Time.words(slowest.total_ns as f64),
    )
}

fn time_axis(area: Rect, domain: (f64, f64)) -> Axis {
    let ticks = ((area.width / 90.0) as usize).clamp(2, 10);
    Axis::linear("time", Quantity::Time, domain, (area.x + 6.0, area.right() - 6.0), ticks)
}

fn latency_axis(area: Rect, seen: &[Seen<'_>]) -> Axis {
    let longest = seen.iter().map(|one| one.total_ns).max().unwrap_or(0).max(1);
    let shortest = seen.iter().map(|one| one.total_ns).min().unwrap_or(0).max(1);
    let px = (area.bottom(), area.y);
    match longest / shortest >= LOG_RATIO_MIN {
        true => {
            let domain = (shortest as f64 * 0.8, longest as f64 * 1.25);
            Axis::log("time to the answer", Quantity::Time, domain, px)
        }
        false => Axis::from_zero("time to the answer", Quantity::Time, longest as f64, px, 6),
    }
}

/// A stroke for each answered request and a cross for each other one; requests that share a pixel have one mark.
fn draw_marks_of(page: &mut Page, panel: &Panel, seen: &[Seen<'_>], since: impl Fn(u64) -> f64) {
    let place = |one: &Seen<'_>| {
        let x = panel.x.scale.px(since(one.request.asked_ns));
        let y = panel.y.scale.px(one.total_ns as f64);
        (x.round() as i64, y.round() as i64)
    };
    let (answered, others): (Vec<_>, Vec<_>) = seen.iter().partition(is_answered);
    let pixels: BTreeSet<_> = answered.iter().map(|one| place(one)).collect();
    if pixels.len() < answered.len() {
        page.note("requests that share a pixel have one mark".to_owned());
    }
    let mut strokes = Path::default();
    for (x, y) in pixels {
        strokes.bar(x as f64, y as f64 - 2.5, y as f64 + 2.5);
    }
    page.svg.path(&Ink::Data.drawn(Stroke::Line), &strokes);
    let mut crosses = Path::default();
    for (x, y) in others.iter().map(|one| place(one)).collect::<BTreeSet<_>>() {
        Shape::Cross.put(&mut crosses, (x as f64, y as f64), 4.0);
    }
    page.svg.path(&Ink::Alarm.drawn(Shape::Cross.stroke()), &crosses);
    label_longest(page, panel, seen, place);
}

/// Names the connection of the longest request at its mark.
fn label_longest(
    page: &mut Page,
    panel: &Panel,
    seen: &[Seen<'_>],
    place: impl Fn(&Seen<'_>) -> (i64, i64),
) {
    let Some(longest) = seen.iter().max_by_key(|one| one.total_ns) else { return };
    let (x, y) = place(longest);
    let words = format!("connection {}", longest.connection.connection.id.0);
    let reach = Words::Label.width_px(&words) / 2.0 + 10.0;
    let x = x as f64;
    let is_room_right = x + 2.0 * reach < panel.area.right();
    let middle_x = if is_room_right { x + reach } else { x - reach };
    page.label((middle_x, (y as f64).max(panel.area.y + 8.0)), &words);
}

fn draw_distribution(page: &mut Page, area: Rect, seen: &[Seen<'_>]) {
    let mut totals: Vec<u64> = seen.iter().filter(is_answered).map(|one| one.total_ns).collect();
    totals.sort_unstable();
    let title = "distribution of the answered ones";
    let Some(bins) = Histogram::of(&totals) else {
        page.panel_title(area, title, "");
        let x = Axis::from_zero("time", Quantity::Time, 1e6, (area.x, area.right()), 8);
        let y = Axis::from_zero("requests", Quantity::Count, 1.0, (area.bottom(), area.y), 2);
        page.frame(&Panel { area, x, y }.without_values(), true);
        return page.empty(area, "no answered request seen in this time");
    };
    let at = |percent| Quantity::Time.words(percentile(&totals, percent).unwrap_or(0) as f64);
    let words = format!("p50 {}, p90 {}, p99 {}", at(50), at(90), at(99));
    page.panel_title(area, title, &words);
    let panel = histogram_panel(area, &bins, ["time to the answer", "requests"]);
    page.frame(&panel, true);
    draw_bins(page, &panel, &bins, Ink::Data);
    draw_marks(page, &panel, &totals);
}
