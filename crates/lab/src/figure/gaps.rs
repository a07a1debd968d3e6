//! Times of the protocol for a packet, as histograms: Figure 14 of the SunOS study.
//!
//! Its sending side is "measured from the gaps between packets during a window burst", its receiving
//! side from one probe to the next. Bins are 50 us wide; times are nanoseconds.

use std::collections::BTreeMap;

use sockscope_experiment::Figure;
use sockscope_experiment::result::RunResult;
use sockscope_record::Point;
use sockscope_record::counted;
use sockscope_render::chart::{ChartAxis, ChartPanel, Join, Series, Spread};
use sockscope_render::units::Quantity;

use crate::model;

/// Width of a bin, in microseconds: the paper's.
const BIN_US: u64 = 50;

/// A panel for each side, over the same times. The case is run once more, with every record kept.
pub(super) fn panels(figure: &Figure, result: &RunResult) -> Result<Vec<ChartPanel>, String> {
    let found = result.cases.iter().find(|case| figure.shows(&case.case));
    let case = found.ok_or_else(|| format!("figure `{}`: no case to draw", figure.name))?;
    let seen = model::observe(&result.experiment, &case.case).map_err(|error| {
        format!("figure `{}`: its case could not be run again: {error}", figure.name)
    })?;
    let sides = [
        ("sending: from one packet of a burst to the next", seen.gaps_in_bursts_us()),
        (
            "receiving: from the IP queue to the socket's",
            seen.in_order_delays_us(Point::InputDequeue, Point::ReceiveEnqueue),
        ),
    ];
    let bins = sides.each_ref().map(|(_, times_us)| bins(times_us));
    let last_us = bins.iter().filter_map(|bins| bins.keys().next_back()).max().copied();
    let last_us = last_us.unwrap_or(0) + 2 * BIN_US;
    let panel = |(name, times_us): &(&str, Vec<f64>), bins: &BTreeMap<u64, u64>| ChartPanel {
        title: format!("{name}: {}", counted(times_us.len() as u64, "packet")),
        x: ChartAxis::new("time, bins of 50 µs", Quantity::Time, Spread::Linear),
        y: ChartAxis::new("packets", Quantity::Count, Spread::Linear),
        series: vec![Series {
            name: String::new(),
            points: outline(bins, last_us),
            join: Join::Step,
        }],
    };
    Ok(sides.iter().zip(&bins).map(|(side, bins)| panel(side, bins)).collect())
}

/// The number of times in each bin, by the bin's lower edge in microseconds.
fn bins(times_us: &[f64]) -> BTreeMap<u64, u64> {
    let mut bins = BTreeMap::new();
    for time in times_us {
        *bins.entry((*time / BIN_US as f64) as u64 * BIN_US).or_insert(0) += 1;
    }
    bins
}

/// The outline of the bins from 0 to `last_us`, as steps; times in nanoseconds.
fn outline(bins: &BTreeMap<u64, u64>, last_us: u64) -> Vec<(f64, f64)> {
    let edges = (0..=last_us).step_by(BIN_US as usize);
    let count = |edge: u64| bins.get(&edge).copied().unwrap_or(0) as f64;
    edges.map(|edge| ((edge * 1000) as f64, count(edge))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::run;
    use sockscope_experiment::builtin_by_id;

    #[test]
    fn a_time_at_an_edge_belongs_to_the_bin_above() {
        let bins = bins(&[49.9, 50.0, 99.9, 260.0]);
        assert_eq!(bins, BTreeMap::from([(0, 1), (50, 2), (250, 1)]));
        let outline = outline(&bins, 100);
        assert_eq!(outline, [(0.0, 1.0), (50_000.0, 2.0), (100_000.0, 0.0)]);
    }

    /// The larger group of the paper's sending side is 250 to 400 us, not the time between points 2 and 3.
    #[test]
    fn figure_14_shows_gaps_of_a_burst() {
        let experiment = builtin_by_id("si-2a").unwrap();
        let result = run(&experiment, 1, &mut |_, _| {}).unwrap();
        let figure = experiment.figures.iter().find(|one| one.name == "figure-14").unwrap();
        let panels = panels(figure, &result).unwrap();
        let highest = |panel: &ChartPanel| {
            let points = &panel.series[0].points;
            points.iter().max_by(|left, right| left.1.total_cmp(&right.1)).unwrap().0 / 1e3
        };
        assert!((250.0..400.0).contains(&highest(&panels[0])), "{:?}", panels[0]);
        assert_eq!(highest(&panels[1]), 250.0);
    }
}
