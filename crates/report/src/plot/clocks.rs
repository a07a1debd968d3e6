//! How well the clocks of several hosts are known: the band of each host's times, over time.
//!
//! The middle line is the time that the trace states. The truth is between the edges.

use sockscope_render::page::{Head, Key, Page, Panel, Sample};
use sockscope_render::scale::Axis;
use sockscope_render::size::check_size;
use sockscope_render::svg::{Path, Rect};
use sockscope_render::theme::{Ink, Stroke};
use sockscope_render::units::Quantity;

use super::options::{PlotError, PlotOptions};

/// Room above and below a band, of its width.
const MARGIN: f64 = 0.08;

/// The band of a host's times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostBand<'a> {
    /// The host whose times were moved.
    pub host: &'a str,
    /// The host on whose clock they are.
    pub base: &'a str,
    /// Segments from that host and to it that bound the band.
    pub segments: [u64; 2],
    /// Time of the trace, and by how much an event of the host may have been earlier and later then. Nanoseconds, in
    /// order of time; straight lines between them.
    pub edges_ns: Vec<[u64; 3]>,
}

/// Draws the bands, one below the other. Of the options it takes the size, the zero of time, the title and the notes.
///
/// # Errors
///
/// [`PlotError::Size`] on a size that no picture has.
pub fn draw_clocks(bands: &[HostBand<'_>], options: &PlotOptions<'_>) -> Result<String, PlotError> {
    check_size(options.width, options.height)?;
    let keys = [
        Key { sample: Sample::Line(Ink::Plain, Stroke::Dashed), words: "the time in the trace" },
        Key {
            sample: Sample::Line(Ink::Data, Stroke::Line),
            words: "earliest and latest true time",
        },
    ];
    let about = "how much earlier or later the events of a host may have been";
    let head = Head {
        title: options.title.unwrap_or("Clocks of the hosts"),
        subtitle: options.about.unwrap_or(about),
        facts: "sockscope: no segment arrives before it left; a time between two hosts is longer or shorter by as much"
            .to_owned(),
        size: (options.width, options.height),
    };
    let mut page = Page::with_head(head, &keys);
    page.leave_room_for_ticks();
    options.notes.iter().for_each(|note| page.note(note.clone()));
    if bands.is_empty() {
        let content = page.content();
        page.empty(
            content,
            "no clocks of two hosts: the trace is of one clock, or segments bound none",
        );
    }
    let zero_ns = options.zero_ns.unwrap_or(0);
    let areas = page.stack(&vec![1.0; bands.len()], false);
    for (band, area) in bands.iter().zip(areas) {
        page.svg.group("clock");
        draw_band(&mut page, band, area, zero_ns);
        page.svg.end_group();
    }
    Ok(page.finish())
}

fn draw_band(page: &mut Page, band: &HostBand<'_>, area: Rect, zero_ns: u64) {
    let most = |of: usize| band.edges_ns.iter().map(|edge| edge[of]).max().unwrap_or(0);
    let (early_ns, late_ns) = (most(1), most(2));
    let since = |at_ns: u64| (i128::from(at_ns) - i128::from(zero_ns)) as f64;
    let ends = band.edges_ns.first().zip(band.edges_ns.last());
    let (from, to) = ends.map_or((0.0, 1.0), |(first, last)| (since(first[0]), since(last[0])));
    let margin = (early_ns as f64 + late_ns as f64).max(1.0) * MARGIN;
    let (low, high) = (-(early_ns as f64) - margin, late_ns as f64 + margin);
    let ticks = ((area.width / 90.0) as usize).clamp(2, 10);
    let across = (area.x + 6.0, area.right() - 6.0);
    let panel = Panel {
        area,
        x: Axis::linear("time", Quantity::Time, (from, to), across, ticks),
        y: Axis::linear(
            "earlier or later",
            Quantity::Time,
            (low, high),
            (area.bottom(), area.y),
            6,
        ),
    };
    let words = |ns: u64| Quantity::Time.words(ns as f64);
    let title = format!("{} on the clock of {}", band.host, band.base);
    let summary = format!("up to {} earlier or {} later", words(early_ns), words(late_ns));
    let [from_it, to_it] = band.segments;
    page.note(format!("{title}: by {from_it} segments from it and {to_it} to it"));
    page.panel_title(area, &title, &summary);
    page.frame(&panel, true);
    let place = |at_ns: u64, ns: f64| (panel.x.scale.px(since(at_ns)), panel.y.scale.px(ns));
    let early = |edge: &[u64; 3]| place(edge[0], -(edge[1] as f64));
    let late = |edge: &[u64; 3]| place(edge[0], edge[2] as f64);
    let forward: Vec<_> = band.edges_ns.iter().map(late).collect();
    let back: Vec<_> = band.edges_ns.iter().map(early).collect();
    let mut fill = joined(forward.iter().chain(back.iter().rev()));
    fill.close();
    page.svg.path(&Ink::Data.drawn(Stroke::PaleFill), &fill);
    for edge in [&forward, &back] {
        page.svg.path(&Ink::Data.drawn(Stroke::Line), &joined(edge));
    }
    let mut stated = Path::default();
    let y = panel.y.scale.px(0.0);
    stated.segment((across.0, y), (across.1, y));
    page.svg.path(&Ink::Plain.drawn(Stroke::Dashed), &stated);
}

fn joined<'a>(places: impl IntoIterator<Item = &'a (f64, f64)>) -> Path {
    let mut path = Path::default();
    for (index, place) in places.into_iter().enumerate() {
        if index == 0 { path.move_to(*place) } else { path.line_to(*place) }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(bands: &[HostBand<'_>]) -> String {
        let options = PlotOptions { zero_ns: Some(1_000_000), ..PlotOptions::default() };
        draw_clocks(bands, &options).unwrap()
    }

    /// The places of a path with absolute coordinates.
    fn drawn_places(path: &str) -> Vec<(f64, f64)> {
        let is_of_number = |it: char| it.is_ascii_digit() || it == '.' || it == '-';
        let numbers = path.split(|it| !is_of_number(it)).filter_map(|word| word.parse().ok());
        let numbers: Vec<f64> = numbers.collect();
        numbers.chunks(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect()
    }

    #[test]
    fn each_host_has_its_band() {
        let edges_ns = vec![[1_000_000, 20_000, 30_000], [3_000_000, 10_000, 10_000]];
        let band = HostBand { host: "b", base: "a", segments: [7, 9], edges_ns };
        let svg = drawn(&[band.clone(), HostBand { host: "c", ..band }]);
        assert_eq!(svg.matches("<g id=\"clock").count(), 2, "{svg}");
        for words in [
            "b on the clock of a",
            "c on the clock of a",
            "up to 20.0 µs earlier or 30.0 µs later",
            "b on the clock of a: by 7 segments from it and 9 to it",
        ] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
        // The latest time from left to right, then the earliest one back: heights grow downward.
        let fill = svg.split("<path class=\"pale-fill data\" d=\"").nth(1).expect("a band");
        let fill = fill.split('"').next().unwrap_or_default();
        let edges = drawn_places(fill);
        let [(left, latest), (right, later), (_, earlier), (_, earliest)] = edges[..] else {
            panic!("{fill}")
        };
        assert!(left < right && latest < later && later < earlier && earlier < earliest, "{fill}");
    }

    #[test]
    fn a_trace_of_one_clock_says_so() {
        assert!(drawn(&[]).contains("the trace is of one clock"));
    }

    #[test]
    fn a_band_of_one_moment_or_of_none_is_drawn() {
        for edges_ns in [Vec::new(), vec![[1_000_000, 0, 0]], vec![[u64::MAX, u64::MAX, u64::MAX]]]
        {
            let svg = drawn(&[HostBand { host: "b", base: "a", segments: [0, 0], edges_ns }]);
            assert!(svg.contains("b on the clock of a") && !svg.contains("NaN"), "{svg}");
        }
    }
}
