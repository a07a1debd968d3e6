//! The comparison as a figure: the distributions of the runs, a panel for each role.

use sockscope_record::statistics::percentile_index;
use sockscope_render::chart::{Chart, ChartAxis, ChartPanel, Join, Series, Spread, draw_chart};
use sockscope_render::number::{count, counted};
use sockscope_render::size::SizeError;
use sockscope_render::units::Quantity;

use super::comparison::{Comparison, direction, has_exchanges};
use super::group::Group;
use super::matching::Row;
use super::role::Role;

/// Roles that have a panel at most.
const PANELS_MAX: usize = 4;

/// Draws the share of exchanges that took at most a time, or of connections with at most a throughput, as SVG.
///
/// # Errors
///
/// When the width or the height is outside [`SIZES_PX`](sockscope_render::size::SIZES_PX).
pub fn draw_compare(comparison: &Comparison, width: u32, height: u32) -> Result<String, SizeError> {
    let shown = comparison.rows.iter().filter(|row| row.is_in_all()).take(PANELS_MAX);
    let panels: Vec<_> = shown.clone().map(|row| panel(comparison, row)).collect();
    let shows = |is_time| shown.clone().any(|row| has_exchanges(row) == is_time);
    let meanings = [(true, "took that time or less"), (false, "had that throughput or less")];
    let meanings = meanings.into_iter().filter(|(is_time, _)| shows(*is_time));
    let mut notes: Vec<_> =
        meanings.map(|(_, meaning)| format!("a point of a curve: so many {meaning}")).collect();
    let left_out = comparison.rows.len() - panels.len();
    if left_out > 0 {
        notes.push(format!("{} without a panel", counted(left_out as u64, "role")));
    }
    let names: Vec<&str> = comparison.runs.iter().map(|run| run.name.as_str()).collect();
    let missed: u64 = comparison.runs.iter().map(|run| run.missed).sum();
    let unfinished = comparison.runs.iter().filter(|run| run.is_unfinished).count() as u64;
    let facts = match (unfinished, missed) {
        (0, 0) => "sockscope: no records missed".to_owned(),
        (0, missed) => format!("sockscope: {} missed in all", counted(missed, "record")),
        (unfinished, 0) => format!(
            "sockscope: no end mark in {}: how many records were missed is unknown",
            counted(unfinished, "run")
        ),
        (unfinished, missed) => format!(
            "sockscope: {} missed at least: no end mark in {}",
            counted(missed, "record"),
            counted(unfinished, "run")
        ),
    };
    let empty = || ChartPanel {
        title: "no connections of one role in all runs".to_owned(),
        x: ChartAxis::new("time", Quantity::Time, Spread::Linear),
        y: ChartAxis::new("share", Quantity::Percent, Spread::Linear),
        series: Vec::new(),
    };
    let panels = if panels.is_empty() { vec![empty()] } else { panels };
    let title = "Runs side by side".to_owned();
    let chart = Chart { title, subtitle: names.join(" and "), panels, notes, facts };
    draw_chart(&chart, width, height)
}

fn panel(comparison: &Comparison, row: &Row) -> ChartPanel {
    let is_time = has_exchanges(row);
    let direction = direction(row);
    let sample = |group: &Group| -> Vec<f64> {
        match is_time {
            true => group.times_ns.iter().map(|ns| *ns as f64).collect(),
            // Axes count bits.
            false => {
                let rates = &group.flows[direction as usize].throughputs;
                rates.iter().map(|rate| *rate as f64 * 8.0).collect()
            }
        }
    };
    let series = comparison.runs.iter().zip(row.groups());
    let series = series.map(|(run, group)| Series {
        name: run.name.clone(),
        points: cumulative(&sample(group)),
        join: Join::Line,
    });
    let sizes: Vec<_> = row.groups().map(|group| count(sample(group).len() as u64)).collect();
    let (name, quantity) = match is_time {
        true => ("time of an exchange", Quantity::Time),
        false => ("throughput of a connection", Quantity::BitRate),
    };
    let what = if is_time { "exchanges" } else { "connections" };
    ChartPanel {
        title: format!(
            "{}: {} {what}",
            row.role().map(words).unwrap_or_default(),
            sizes.join(" and ")
        ),
        x: ChartAxis::new(name, quantity, Spread::Log),
        y: ChartAxis::new(format!("share of {what}"), Quantity::Percent, Spread::Linear),
        series: series.collect(),
    }
}

fn words(role: &Role) -> String {
    let named = |name: &str| if name.is_empty() { "?".to_owned() } else { name.to_owned() };
    let port = role.server_port.map(|port| format!(":{port}")).unwrap_or_default();
    format!("{} to {}{port}, {}", named(&role.client), named(&role.server), role.protocol.name())
}

/// The curve through the percentiles of ascending values, from 0 % at the smallest to 100 % at the largest.
fn cumulative(sorted: &[f64]) -> Vec<(f64, f64)> {
    let first = sorted.first().map(|value| (*value, 0.0));
    let points = (1..=100).filter_map(|percent| {
        let index = percentile_index(sorted.len(), percent)?;
        Some((sorted[index], f64::from(percent)))
    });
    first.into_iter().chain(points).collect()
}
