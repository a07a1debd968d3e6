//! Charts of an experiment's results, as its [`Figure`]s ask for them.
//!
//! A chart sets numbers of the results over a parameter, a line for each combination of the other
//! parameters. The unit of both is read from the end of their name.

mod captions;
mod components;
mod gaps;
mod measured;
mod overlays;
mod phases;
mod words;

use std::str::FromStr;

use sockscope_experiment::result::RunResult;
use sockscope_experiment::{Case, Error, Experiment, Figure, Scale};
use sockscope_render::chart::{Chart, ChartAxis, ChartPanel, Join, Series, Spread, draw_chart};
use sockscope_render::components::{Components, draw_components};
use sockscope_render::size::SizeError;
use sockscope_report::plot::{Figure as Plot, Overlay};

use self::captions::{facts, notes, series_words, subtitle, unknown};
use self::measured::{Measured, number};

pub use captions::On;
pub use overlays::{Traced, overlaid};
pub use phases::{activity, case_of};

/// Refuses an experiment whose figures name a plot that does not exist; `file` is named in the message.
///
/// # Errors
///
/// For the first such figure in the order of the file.
pub fn check_plots(file: &str, experiment: &Experiment) -> Result<(), Error> {
    for figure in &experiment.figures {
        let plot = figure.plot.as_deref().map(Plot::from_str).and_then(Result::err);
        let overlay = figure.overlay.as_deref().map(Overlay::from_str).and_then(Result::err);
        if let Some(error) = plot.or(overlay) {
            let problem = format!("figure `{}`: {error}", figure.name);
            return Err(Error::file(file, problem));
        }
    }
    Ok(())
}

/// The figures that the experiment wants of the trace of `case`, each with its plot.
pub fn plots<'a>(experiment: &'a Experiment, case: &Case) -> Vec<(&'a Figure, Plot)> {
    let figures = experiment.figures.iter().filter(|figure| figure.shows(case));
    let plot = |figure: &Figure| figure.plot.as_deref()?.parse().ok();
    figures.filter_map(|figure| Some((figure, plot(figure)?))).collect()
}

/// The line under the title of a drawing of the trace of `case`: place in the paper, on what it ran, machine and
/// personality.
pub fn about(figure: &Figure, experiment: &Experiment, case: &Case, on: On) -> String {
    subtitle(figure, experiment, Some(case), on)
}

/// A figure of results, to be drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Drawing {
    /// Lines over a parameter.
    Chart(Chart),
    /// Times along a path.
    Components(Components),
}

impl Drawing {
    /// How many panels it has.
    pub fn panels(&self) -> usize {
        match self {
            Self::Chart(chart) => chart.panels.len(),
            Self::Components(components) => components.panels.len(),
        }
    }

    /// As an SVG document.
    ///
    /// # Errors
    ///
    /// When no figure can have the width or the height.
    pub fn draw(&self, width: u32, height: u32) -> Result<String, SizeError> {
        in_kilobytes(|note| match self {
            Self::Chart(chart) => {
                let mut chart = chart.clone();
                chart.notes.extend(note.map(str::to_owned));
                draw_chart(&chart, width, height)
            }
            Self::Components(components) => {
                let mut components = components.clone();
                components.notes.extend(note.map(str::to_owned));
                draw_components(&components, width, height)
            }
        })
    }
}

/// A drawing with the units of the papers, which write KB for 1,024 bytes. `draw` takes the note that says so, where the
/// drawing has the unit.
///
/// # Errors
///
/// Those of `draw`.
pub fn in_kilobytes<E>(draw: impl Fn(Option<&str>) -> Result<String, E>) -> Result<String, E> {
    let svg = draw(None)?;
    if !["KiB", "MiB"].iter().any(|unit| svg.contains(unit)) {
        return Ok(svg);
    }
    let svg = draw(Some("KB: 1,024 bytes, as in the papers"))?;
    Ok(svg.replace("KiB", "KB").replace("MiB", "MB"))
}

/// A number of results in words, in a unit that suits it.
pub fn in_words(name: &str, value: f64) -> String {
    let Measured { quantity, factor, .. } = Measured::of(name);
    quantity.words(value * factor)
}

/// The charts that the experiment asks for, by the names of their figures.
///
/// # Errors
///
/// When a figure wants a number that the results do not have; the error lists the known ones.
pub fn charts(result: &RunResult) -> Result<Vec<(String, Drawing)>, String> {
    let is_there = |figure: &&Figure| {
        (figure.x.is_some() || !figure.components.is_empty() || figure.protocol_times)
            && result.cases.iter().any(|case| figure.shows(&case.case))
    };
    let figures = result.experiment.figures.iter().filter(is_there);
    let figures = figures.filter_map(|figure| match result.kernel {
        Some(_) => of_kernel(figure, result),
        None => Some(figure.clone()),
    });
    figures.map(|figure| Ok((figure.name.clone(), drawing(&figure, result)?))).collect()
}

/// A figure with the numbers that a run on a kernel has; `None` where it has none of them.
fn of_kernel(figure: &Figure, result: &RunResult) -> Option<Figure> {
    let first = result.cases.first()?;
    let numbers = first.measured.numbers(&result.experiment);
    let mut rest = figure.clone();
    rest.y.retain(|name| numbers.iter().any(|(other, _)| other == name));
    let has_components =
        figure.components.iter().any(|name| numbers.iter().any(|(other, _)| other == name));
    let has_times = figure.protocol_times && !first.measured.packet_times.receiving_us.is_empty();
    // A parameter of the model alone has no value there.
    let has_x = |x: &str| result.cases.iter().any(|case| case.case.value(x).is_some());
    let has_curves = figure.x.as_deref().is_some_and(has_x) && !rest.y.is_empty();
    (has_components || has_times || has_curves).then_some(rest)
}

fn drawing(figure: &Figure, result: &RunResult) -> Result<Drawing, String> {
    let experiment = &result.experiment;
    let first = result.cases.first().map(|first| &first.case);
    let title = figure.title.clone();
    let subtitle = subtitle(figure, experiment, first, On::of(result));
    let (notes, facts) = (notes(figure, experiment), facts(figure, result));
    if !figure.components.is_empty() {
        let panels = components::panels(figure, result)?;
        return Ok(Drawing::Components(Components { title, subtitle, panels, notes, facts }));
    }
    let panels = if figure.protocol_times {
        gaps::panels(figure, result)?
    } else {
        let x = figure.x.as_deref().unwrap_or_default();
        let panels = panels_of(&figure.y);
        panels.iter().map(|names| panel(figure, result, x, names)).collect::<Result<_, _>>()?
    };
    Ok(Drawing::Chart(Chart { title, subtitle, panels, notes, facts }))
}

/// `names` in the order of first appearance of their quantities: numbers of one share a panel.
fn panels_of(names: &[String]) -> Vec<Vec<&str>> {
    let mut panels: Vec<Vec<&str>> = Vec::new();
    for name in names {
        let kind = Measured::of(name).quantity;
        match panels.iter_mut().find(|panel| Measured::of(panel[0]).quantity == kind) {
            Some(panel) => panel.push(name),
            None => panels.push(vec![name]),
        }
    }
    panels
}

fn panel(
    figure: &Figure,
    result: &RunResult,
    x: &str,
    names: &[&str],
) -> Result<ChartPanel, String> {
    let mut series: Vec<Series> = Vec::new();
    for case in result.cases.iter().filter(|case| figure.shows(&case.case)) {
        let Some(at) = case.case.value(x).and_then(number) else { continue };
        let numbers = case.measured.numbers(&result.experiment);
        let words = series_words(figure, &case.case, x);
        for name in names {
            let found = numbers.iter().find(|(other, _)| other == name);
            let (_, value) = found.ok_or_else(|| unknown(figure, name, &numbers))?;
            let line = match (names.len(), words.as_str()) {
                (1, _) => words.clone(),
                (_, "") => words::of_name(name),
                _ => format!("{words}, {}", words::of_name(name)),
            };
            let y = value.map_or(f64::NAN, |value| value * Measured::of(name).factor);
            let point = (at * Measured::of(x).factor, y);
            match series.iter_mut().find(|series| series.name == line) {
                Some(series) => series.points.push(point),
                None => {
                    series.push(Series { name: line, points: vec![point], join: Join::Line });
                }
            }
        }
    }
    series.iter_mut().for_each(|series| series.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    let y_words = match names {
        [one] => words::of_name(one),
        _ => Measured::of(names[0]).quantity_words().to_owned(),
    };
    let y = ChartAxis::new(y_words, Measured::of(names[0]).quantity, spread(figure.y_scale));
    Ok(ChartPanel {
        title: String::new(),
        x: ChartAxis::new(words::of_name(x), Measured::of(x).quantity, spread(figure.x_scale)),
        y: if figure.y_over_data { y.over_data() } else { y },
        series,
    })
}

fn spread(scale: Scale) -> Spread {
    match scale {
        Scale::Linear => Spread::Linear,
        Scale::Log => Spread::Log,
        Scale::Doubling => Spread::Doubling,
        Scale::Places => Spread::Places,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockscope_render::units::Quantity;

    use sockscope_experiment::builtin;
    use sockscope_experiment::measurement::{Measure, Measurement};
    use sockscope_experiment::result::CaseResult;

    const FILE: &str = r#"
        id = "x-1"
        title = "t"
        paper = "sunos-ipc"
        source = "Figure 9"
        question = "q"
        workload = "discard"
        seed = 1
        repetitions = 1
        record = ["measures"]
        [parameters]
        personality = "sunos-4.0.3"
        total_bytes = 4096
        write_bytes = 1024
        read_bytes = 1024
        [[variant]]
        machine = "sparcstation-1"
        topology = "pair"
        [[variant]]
        machine = "sparcstation-1"
        topology = "loopback"
        [sweep]
        socket_buffer_bytes = [8192, 4096]
        [[figure]]
        name = "figure-9"
        title = "Throughput"
        x = "socket_buffer_bytes"
        y = ["rate_bits_per_s", "wait_us", "hold_us"]
    "#;

    fn result(file: &str) -> RunResult {
        let experiment = Experiment::parse("x", file).unwrap();
        let measured = |at: usize| Measurement {
            measures: ["rate_bits_per_s", "wait_us", "hold_us"]
                .map(|name| Measure::new(name, at as f64))
                .to_vec(),
            ..Measurement::default()
        };
        let cases = experiment.cases().unwrap().into_iter().enumerate();
        let cases = cases.map(|(at, case)| CaseResult { case, measured: measured(at) }).collect();
        RunResult { experiment, cases, kernel: None }
    }

    fn lines(panel: &ChartPanel) -> Vec<String> {
        let line = |series: &Series| format!("{}: {:?}", series.name, series.points);
        panel.series.iter().map(line).collect()
    }

    #[test]
    fn a_figure_of_a_kernel_has_the_numbers_that_were_measured() {
        let mut result = result(FILE);
        result.kernel = Some(sockscope_experiment::result::OnKernel {
            machine: "m".to_owned(),
            notes: Vec::new(),
            conditions: serde_json::Value::Null,
            bundles: Vec::new(),
        });
        let panels = |result: &RunResult| {
            let charts = charts(result).unwrap();
            charts.first().map(|(_, drawing)| drawing.panels())
        };
        let leave = |result: &mut RunResult, names: &[&str]| {
            let measures = result.cases.iter_mut().map(|case| &mut case.measured.measures);
            measures.for_each(|all| all.retain(|measure| names.contains(&measure.name)));
        };
        assert_eq!(panels(&result), Some(2));
        leave(&mut result, &["wait_us"]);
        assert_eq!(panels(&result), Some(1));
        leave(&mut result, &[]);
        assert_eq!(panels(&result), None);
    }

    #[test]
    fn numbers_of_one_unit_share_a_panel_and_lines_are_told_apart_by_what_varies() {
        let charts = charts(&result(FILE)).unwrap();
        let [(name, Drawing::Chart(chart))] = &charts[..] else { panic!() };
        assert_eq!(name, "figure-9");
        assert_eq!(chart.subtitle, "Figure 9, model, SunOS 4.0.3");
        let [rates, times] = &chart.panels[..] else { panic!() };
        assert_eq!((rates.y.name.as_str(), rates.y.quantity), ("rate", Quantity::BitRate));
        assert_eq!(
            lines(rates),
            [
                "SPARCstation 1, two hosts: [(4096.0, 1.0), (8192.0, 0.0)]",
                "SPARCstation 1, loopback: [(4096.0, 3.0), (8192.0, 2.0)]",
            ]
        );
        assert_eq!((times.y.name.as_str(), times.series.len()), ("time", 4));
        assert_eq!(
            lines(times)[1],
            "SPARCstation 1, two hosts, hold: [(4096.0, 1000.0), (8192.0, 0.0)]"
        );
    }

    #[test]
    fn a_figure_may_leave_cases_out_and_choose_its_lines() {
        let only = "y = [\"wait_us\"]\nonly = { topology = \"pair\" }\nseries = [\"topology\"]";
        let file = FILE.replace(r#"y = ["rate_bits_per_s", "wait_us", "hold_us"]"#, only);
        let charts = charts(&result(&file)).unwrap();
        let Drawing::Chart(chart) = &charts[0].1 else { panic!() };
        assert_eq!(lines(&chart.panels[0]), ["two hosts: [(4096.0, 1000.0), (8192.0, 0.0)]"]);
    }

    #[test]
    fn sizes_are_in_the_unit_of_the_papers_and_a_note_says_so() {
        let draw = |text: &'static str| {
            in_kilobytes(|note| Ok::<_, ()>(format!("{text}{}", note.unwrap_or(""))))
        };
        assert_eq!(draw("4 KiB").unwrap(), "4 KBKB: 1,024 bytes, as in the papers");
        assert_eq!(draw("4 ms").unwrap(), "4 ms");
    }

    #[test]
    fn components_have_their_printed_values_and_the_colour_of_their_stage() {
        let file = FILE
            .replace("x = \"socket_buffer_bytes\"\n", "")
            .replace("y = [\"rate_bits_per_s\", \"wait_us\", \"hold_us\"]", "components = [\"wait_us\", \"hold_us\"]\nprinted = [[7, nan]]\ncases = [\"a\", \"b\", \"c\", \"d\"]");
        let charts = charts(&result(&file)).unwrap();
        let Drawing::Components(drawn) = &charts[0].1 else { panic!() };
        let rows = drawn.panels.iter().map(|panel| {
            let row =
                |row: &sockscope_render::components::Component| (row.value_ns, row.printed_ns);
            (panel.title.as_str(), panel.rows.iter().map(row).collect::<Vec<_>>())
        });
        let rows: Vec<_> = rows.collect();
        assert_eq!(rows[0], ("a", vec![(Some(0.0), Some(7_000.0)), (Some(0.0), None)]));
        assert_eq!(rows[1], ("b", vec![(Some(1_000.0), None), (Some(1_000.0), None)]));
    }

    #[test]
    fn every_plot_of_the_builtin_experiments_exists() {
        for experiment in builtin().unwrap() {
            check_plots(&experiment.file(), &experiment).unwrap();
        }
    }

    #[test]
    fn a_plot_that_does_not_exist_is_refused_with_those_that_do() {
        const CHART: &str = r#"x = "socket_buffer_bytes"
        y = ["rate_bits_per_s", "wait_us", "hold_us"]"#;
        let file = FILE.replace(r#"["measures"]"#, r#"["trace"]"#);
        let with = |plot| Experiment::parse("x", &file.replace(CHART, plot)).unwrap();
        let experiment = with(r#"plot = "acks""#);
        let case = &experiment.cases().unwrap()[0];
        assert_eq!(check_plots("x", &experiment), Ok(()));
        assert_eq!(plots(&experiment, case), [(&experiment.figures[0], Plot::Acks)]);
        let error = check_plots("x", &with(r#"plot = "pie""#)).unwrap_err().to_string();
        assert!(error.starts_with("x: figure `figure-9`: no figure is called \"pie\""), "{error}");
        assert!(error.contains("queue-length"), "{error}");
    }

    #[test]
    fn a_number_that_no_result_has_is_told_with_those_there_are() {
        let none = FILE.replace("\"hold_us\"]", "\"moon_us\"]");
        let error = charts(&result(&none)).unwrap_err();
        assert!(error.contains("no result `moon_us`; there are rate"), "{error}");
    }
}
