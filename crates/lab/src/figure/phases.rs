//! When the processes of a pipeline's stage had work: a panel for each, on or off over time.

use sockscope_experiment::Figure;
use sockscope_experiment::measurement::Phase;
use sockscope_experiment::result::RunResult;
use sockscope_render::chart::{ChartAxis, ChartPanel, Join, Series, Spread};
use sockscope_render::units::Quantity;

/// One panel a process, in the order in which a piece passes them; of the first case that the figure
/// shows. Times count from the first phase.
pub(super) fn panels(figure: &Figure, result: &RunResult) -> Vec<ChartPanel> {
    let case = result.cases.iter().find(|case| figure.shows(&case.case));
    let phases = case.map_or(&[][..], |case| &case.measured.phases);
    let start_ns = phases.iter().map(|phase| phase.from_ns).min().unwrap_or(0);
    let mut names: Vec<&str> = Vec::new();
    for phase in phases {
        if !names.contains(&phase.process) {
            names.push(phase.process);
        }
    }
    let end_ns = phases.iter().map(|phase| phase.to_ns - start_ns).max().unwrap_or(0);
    let to_ns = figure.to_ms.map_or(end_ns as f64, |ms| ms * 1e6);
    let window = (figure.from_ms.unwrap_or(0.0) * 1e6, to_ns);
    let panel = |name: &&str| {
        let own = phases.iter().filter(|phase| phase.process == *name);
        ChartPanel {
            title: (*name).to_owned(),
            x: ChartAxis::new("time", Quantity::Time, Spread::Linear),
            y: ChartAxis::new("has work", Quantity::Count, Spread::Linear),
            series: vec![Series {
                name: (*name).to_owned(),
                points: points(own, start_ns, window),
                join: Join::Step,
            }],
        }
    };
    names.iter().map(panel).collect()
}

/// 1 from the beginning of each phase, 0 from its end; also at both ends of the window, so that all
/// panels show the same time.
fn points<'a>(
    phases: impl Iterator<Item = &'a Phase>,
    start_ns: u64,
    (from_ns, to_ns): (f64, f64),
) -> Vec<(f64, f64)> {
    let at = |ns: u64| (ns - start_ns) as f64;
    let changes = phases.flat_map(|phase| [(at(phase.from_ns), 1.0), (at(phase.to_ns), 0.0)]);
    let (before, rest): (Vec<_>, Vec<_>) = changes.partition(|(at_ns, _)| *at_ns < from_ns);
    let mut state = before.last().map_or(0.0, |(_, state)| *state);
    let mut points = vec![(from_ns, state)];
    for (at_ns, next) in rest.into_iter().filter(|(at_ns, _)| *at_ns <= to_ns) {
        points.push((at_ns, next));
        state = next;
    }
    points.push((to_ns, state));
    points
}

#[cfg(test)]
mod tests {
    use sockscope_experiment::builtin_by_id;
    use sockscope_experiment::measurement::Measurement;
    use sockscope_experiment::result::CaseResult;

    use super::*;

    #[test]
    fn panels_without_a_window_show_the_same_time() {
        let experiment = builtin_by_id("si-4c").unwrap();
        let mut figure = experiment.figures.iter().find(|it| it.phases).unwrap().clone();
        (figure.from_ms, figure.to_ms) = (None, None);
        figure.only.clear();
        let phase = |process, from_ns, to_ns| Phase { process, from_ns, to_ns };
        let phases = vec![phase("read", 100, 120), phase("write", 150, 400)];
        let case = experiment.cases().unwrap().remove(0);
        let measured = Measurement { phases, ..Measurement::default() };
        let cases = vec![CaseResult { case, measured }];
        let result = RunResult { experiment, cases, kernel: None };
        let panels = panels(&figure, &result);
        let ends = panels.iter().map(|panel| {
            let points = &panel.series[0].points;
            (points[0].0, points[points.len() - 1].0)
        });
        assert_eq!(ends.collect::<Vec<_>>(), [(0.0, 300.0), (0.0, 300.0)]);
    }

    #[test]
    fn a_window_begins_and_ends_in_the_state_that_holds_there() {
        let phase = |from_ns, to_ns| Phase { process: "read", from_ns, to_ns };
        let phases = [phase(100, 120), phase(150, 170), phase(190, 250)];
        let all = points(phases.iter(), 100, (0.0, 300.0));
        assert_eq!(all[..3], [(0.0, 0.0), (0.0, 1.0), (20.0, 0.0)]);
        assert_eq!(all.last(), Some(&(300.0, 0.0)));
        let some = points(phases.iter(), 100, (60.0, 100.0));
        assert_eq!(some, [(60.0, 1.0), (70.0, 0.0), (90.0, 1.0), (100.0, 1.0)]);
    }
}
