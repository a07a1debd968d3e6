//! The time and the subject of the recording, and the part of it that the report shows.

use std::io;

use sockscope_render::number::{count, counted, time};
use sockscope_render::style::{Charset, Tone};
use sockscope_render::wall_clock;

use super::page::Page;
use crate::{Recorded, Report};

pub(super) fn write(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    if let Some(recorded) = &report.origin.recorded {
        let text = words(recorded, page.style.charset);
        page.labelled("recorded", &text, Tone::Plain)?;
    }
    let Some(shown) = &report.options.shown else { return Ok(()) };
    let connections = report.analysis.connections.len() as u64;
    let of = counted(shown.of_connections, "connection");
    let text = format!("{} of {of}: {}", count(connections), shown.words);
    page.labelled("shown", &text, Tone::Strong)
}

/// As `2026-11-23 08:45:12 +00:00, 7 s, port 6379`.
fn words(recorded: &Recorded, charset: Charset) -> String {
    let began = wall_clock::date(recorded.began.realtime_ns);
    // To the tenth of a second: the recorder starts and ends at no exact time.
    let tenths = |ns: u64| ns.saturating_add(50_000_000) / 100_000_000;
    let duration = recorded.duration_ns.map(|ns| match tenths(ns) {
        0..10 => time(ns, charset),
        tenths if tenths.is_multiple_of(10) => format!("{} s", count(tenths / 10)),
        tenths => format!("{}.{} s", count(tenths / 10), tenths % 10),
    });
    let parts = [Some(began), duration, recorded.pick.clone()];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WallClock;

    fn said(duration_ns: Option<u64>, pick: Option<&str>) -> String {
        let began = WallClock { trace_ns: 7, realtime_ns: 1_795_423_512_900_000_000 };
        words(&Recorded { began, duration_ns, pick: pick.map(str::to_owned) }, Charset::Unicode)
    }

    #[test]
    fn the_head_has_the_time_the_length_and_the_pick() {
        let second = 1_000_000_000;
        assert_eq!(
            said(Some(7 * second + 20_000_000), Some("port 6379")),
            "2026-11-23 08:45:12 +00:00, 7 s, port 6379"
        );
        assert_eq!(said(Some(1_260_000_000), None), "2026-11-23 08:45:12 +00:00, 1.3 s");
        assert_eq!(said(Some(28_400_000), None), "2026-11-23 08:45:12 +00:00, 28.4 ms");
        assert_eq!(said(None, None), "2026-11-23 08:45:12 +00:00");
    }
}
