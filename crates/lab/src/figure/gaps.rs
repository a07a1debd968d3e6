//! Times of the protocol for a packet, as histograms: Figure 14 of the SunOS study.
//!
//! Its sending side is "measured from the gaps between packets during a window burst", its receiving
//! side from one probe to the next. Bins of the model are 50 us wide; times are nanoseconds.

use std::collections::BTreeMap;

use sockscope_experiment::Figure;
use sockscope_experiment::measurement::PacketTimes;
use sockscope_experiment::result::RunResult;
use sockscope_record::Point;
use sockscope_record::counted;
use sockscope_render::chart::{ChartAxis, ChartPanel, Join, Series, Spread};
use sockscope_render::units::Quantity;

use crate::model;

/// Width of a bin, in nanoseconds: the paper's.
const BIN_NS: u64 = 50_000;

/// Widths of bins for a kernel, in nanoseconds: its times are shorter than the paper's.
const KERNEL_BINS_NS: [u64; 6] = [500, 1_000, 2_000, 5_000, 10_000, 20_000];
/// At most so many bins, where a narrower width is enough.
const BINS_MAX: u64 = 60;

/// A panel for each side. Those of a model share their times; its case is run once more, with every record kept.
pub(super) fn panels(figure: &Figure, result: &RunResult) -> Result<Vec<ChartPanel>, String> {
    let found = result.cases.iter().find(|case| figure.shows(&case.case));
    let case = found.ok_or_else(|| format!("figure `{}`: no case to draw", figure.name))?;
    let times = if result.kernel.is_some() {
        case.measured.packet_times.clone()
    } else {
        let seen = model::observe(&result.experiment, &case.case).map_err(|error| {
            format!("figure `{}`: its case could not be run again: {error}", figure.name)
        })?;
        PacketTimes {
            sending_us: seen.gaps_in_bursts_us(),
            receiving_us: seen.in_order_delays_us(Point::InputDequeue, Point::ReceiveEnqueue),
        }
    };
    let sides = [
        ("sending: from one packet of a burst to the next", times.sending_us),
        ("receiving: from the IP queue to the socket's", times.receiving_us),
    ];
    let widths_ns = sides.each_ref().map(|(_, times_us)| match &result.kernel {
        Some(_) => suiting_ns(times_us),
        None => BIN_NS,
    });
    let bins: Vec<_> =
        sides.iter().zip(widths_ns).map(|((_, times_us), width)| bins(times_us, width)).collect();
    let last_ns = |bins: &BTreeMap<u64, u64>| bins.keys().next_back().copied().unwrap_or(0);
    let shared_ns = bins.iter().map(last_ns).max().unwrap_or(0);
    let panel = |(at, (name, times_us)): (usize, &(&str, Vec<f64>))| {
        let width_ns = widths_ns[at];
        let last_ns = if result.kernel.is_some() { last_ns(&bins[at]) } else { shared_ns };
        ChartPanel {
            title: format!("{name}: {}", counted(times_us.len() as u64, "packet")),
            x: ChartAxis::new(
                format!("time, bins of {} µs", width_ns as f64 / 1e3),
                Quantity::Time,
                Spread::Linear,
            ),
            y: ChartAxis::new("packets", Quantity::Count, Spread::Linear),
            series: vec![Series {
                name: String::new(),
                points: outline(&bins[at], width_ns, last_ns + 2 * width_ns),
                join: Join::Bars,
            }],
        }
    };
    Ok(sides.iter().enumerate().map(panel).collect())
}

/// The narrowest width with which the times have at most [`BINS_MAX`] bins.
fn suiting_ns(times_us: &[f64]) -> u64 {
    let longest_ns = times_us.iter().copied().fold(0.0, f64::max) * 1e3;
    let fits = |width: &u64| longest_ns as u64 / width < BINS_MAX;
    KERNEL_BINS_NS.into_iter().find(fits).unwrap_or(BIN_NS)
}

/// How many times lie in each bin, by the bin's lower edge in nanoseconds.
fn bins(times_us: &[f64], width_ns: u64) -> BTreeMap<u64, u64> {
    let mut bins = BTreeMap::new();
    for time in times_us {
        *bins.entry((*time * 1e3 / width_ns as f64) as u64 * width_ns).or_insert(0) += 1;
    }
    bins
}

/// The outline of the bins from 0 to `last_ns`, as steps; times in nanoseconds.
fn outline(bins: &BTreeMap<u64, u64>, width_ns: u64, last_ns: u64) -> Vec<(f64, f64)> {
    let edges = (0..=last_ns).step_by(width_ns as usize);
    let count = |edge: u64| bins.get(&edge).copied().unwrap_or(0) as f64;
    edges.map(|edge| (edge as f64, count(edge))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::run;
    use sockscope_experiment::builtin_by_id;

    #[test]
    fn a_time_at_an_edge_belongs_to_the_bin_above() {
        let bins = bins(&[49.9, 50.0, 99.9, 260.0], BIN_NS);
        assert_eq!(bins, BTreeMap::from([(0, 1), (50_000, 2), (250_000, 1)]));
        let outline = outline(&bins, BIN_NS, 100_000);
        assert_eq!(outline, [(0.0, 1.0), (50_000.0, 2.0), (100_000.0, 0.0)]);
    }

    #[test]
    fn bins_of_a_kernel_are_as_narrow_as_its_times_need() {
        assert_eq!(suiting_ns(&[3.0, 29.9]), 500);
        assert_eq!(suiting_ns(&[3.0, 30.0]), 1_000);
        assert_eq!((suiting_ns(&[]), suiting_ns(&[1e6])), (500, BIN_NS));
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
