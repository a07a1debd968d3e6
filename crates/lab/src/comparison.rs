//! The same experiment on the model and on a kernel, next to each other.

use std::io;

use serde_json::{Value, json};
use sockscope_experiment::papers::Claims;
use sockscope_experiment::result::{CaseResult, RunResult, wrapped, write_json, write_tables};
use sockscope_experiment::{Case, Error, word};
use sockscope_render::chart::Chart;
use sockscope_render::components::Components;

use crate::figure::{Drawing, charts, in_words};

/// Numbers that are compared where the experiment has no figure of them.
const NUMBERS: [&str; 4] = ["throughput_bits_per_s", "call_ns.mean", "segments", "acks"];
/// The name of a line that has no other.
const KERNEL: &str = "this kernel";
const MODEL: &str = "model";
/// Columns that sentences fill.
const WIDTH: usize = 88;

/// Results of one experiment on both.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// On the model.
    pub model: RunResult,
    /// On a kernel.
    pub kernel: RunResult,
}

impl Comparison {
    /// Figures of both, the model's panels above those of the kernel, by their names. A figure that the kernel's run does
    /// not have is left out.
    ///
    /// # Errors
    ///
    /// When a figure cannot be drawn from its results.
    pub fn charts(&self) -> Result<Vec<(String, Drawing)>, String> {
        let today = charts(&self.kernel)?;
        let then = charts(&self.model)?.into_iter();
        let both = then.filter_map(|(name, model)| {
            let (_, kernel) = today.iter().find(|(other, _)| *other == name)?;
            Some((name, both(model, kernel.clone())?))
        });
        Ok(both.collect())
    }

    /// The numbers to compare: those of figures, as far as both have them.
    fn numbers(&self) -> Vec<String> {
        let figures = self.model.experiment.figures.iter().flat_map(|figure| figure.y.clone());
        let wanted = figures.chain(NUMBERS.map(str::to_owned));
        let has = |result: &RunResult, name: &String| {
            let first = result.cases.first();
            first.is_some_and(|case| value(result, case, name).is_some())
        };
        let mut numbers = Vec::new();
        for name in wanted.filter(|name| has(&self.model, name) && has(&self.kernel, name)) {
            if !numbers.contains(&name) {
                numbers.push(name);
            }
        }
        numbers
    }

    /// Cases of the model with the parameters that a case of the kernel varies. A value that no case of the model has is
    /// one that is shorter on the kernel, and tells no case. Where the file has the value for a kernel alone, the case has
    /// no counterpart.
    pub fn then<'a>(&'a self, case: &Case) -> impl Iterator<Item = &'a CaseResult> {
        let mut varied = case.named[case.named.len() - case.swept..].to_vec();
        let all = varied.len();
        varied.retain(|(name, value)| {
            self.model.cases.iter().any(|then| then.case.value(name) == Some(value))
        });
        let has_some = varied.len() == all || !self.kernel.experiment.is_of_kernel(case);
        self.model.cases.iter().filter(move |then| {
            has_some && varied.iter().all(|(name, value)| then.case.value(name) == Some(value))
        })
    }
}

/// Panels of both in one drawing; `None` where they are of two kinds.
fn both(model: Drawing, kernel: Drawing) -> Option<Drawing> {
    match (model, kernel) {
        (Drawing::Chart(model), Drawing::Chart(kernel)) => {
            Some(Drawing::Chart(both_charts(model, kernel)))
        }
        (Drawing::Components(model), Drawing::Components(kernel)) => {
            Some(Drawing::Components(both_components(model, kernel)))
        }
        _ => None,
    }
}

fn both_charts(mut model: Chart, mut kernel: Chart) -> Chart {
    // Without the parameters of one of them a line may have no name. A single line needs none.
    let has_several = |chart: &Chart| chart.panels.iter().any(|panel| panel.series.len() > 1);
    if has_several(&model) || has_several(&kernel) {
        for (chart, name) in [(&mut model, MODEL), (&mut kernel, KERNEL)] {
            let series = chart.panels.iter_mut().flat_map(|panel| &mut panel.series);
            series.filter(|one| one.name.is_empty()).for_each(|one| one.name = name.to_owned());
        }
    }
    let of_kernel = kernel.notes.iter().filter(|note| !model.notes.contains(note));
    let of_kernel = of_kernel.map(String::as_str).collect::<Vec<_>>().join("; ");
    let mut notes = model.notes.clone();
    notes.extend((!of_kernel.is_empty()).then(|| format!("below: {of_kernel}")));
    let titled = |chart: Chart, on: &str| {
        let panels = chart.panels.into_iter().map(|mut panel| {
            panel.title = title(on, &panel.title);
            panel
        });
        panels.collect::<Vec<_>>()
    };
    Chart {
        title: model.title.clone(),
        subtitle: format!("above: {}; below: {}", model.subtitle, kernel.subtitle),
        notes,
        facts: facts(&model.facts, &kernel.facts),
        panels: [titled(model, "Model"), titled(kernel, "This kernel")].concat(),
    }
}

fn both_components(model: Components, kernel: Components) -> Components {
    let titled = |components: Components, on: &str| {
        let panels = components.panels.into_iter().map(|mut panel| {
            panel.title = title(on, &panel.title);
            panel
        });
        panels.collect::<Vec<_>>()
    };
    Components {
        title: model.title.clone(),
        subtitle: format!("above: {}; below: {}", model.subtitle, kernel.subtitle),
        notes: model.notes.clone(),
        facts: facts(&model.facts, &kernel.facts),
        panels: [titled(model, "Model"), titled(kernel, "This kernel")].concat(),
    }
}

fn title(on: &str, of_panel: &str) -> String {
    if of_panel.is_empty() { on.to_owned() } else { format!("{on}: {of_panel}") }
}

fn facts(model: &str, kernel: &str) -> String {
    format!("{model}; below {}", kernel.split_once("; ").map_or(kernel, |(_, rest)| rest))
}

fn value(result: &RunResult, case: &CaseResult, name: &str) -> Option<f64> {
    let numbers = case.measured.numbers(&result.experiment);
    numbers.into_iter().find(|(other, _)| other == name)?.1
}

/// Writes a table: a line for each case of the kernel and number, and the statements of the paper.
///
/// # Errors
///
/// When `out` fails.
pub fn write_comparison(comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
    let Comparison { model, kernel } = comparison;
    let experiment = &model.experiment;
    writeln!(
        out,
        "{}: {} ({}, {})",
        experiment.id, experiment.title, experiment.paper, experiment.source
    )?;
    let machine = kernel.kernel.as_ref().map_or("", |kernel| &kernel.machine);
    writeln!(out, "  then: the model; today: {machine}\n")?;
    let numbers = comparison.numbers();
    for name in &numbers {
        writeln!(out, "{name:<52} {:>14} {:>14} {:>9}", "then", "today", "today/then")?;
        for today in &kernel.cases {
            for then in comparison.then(&today.case) {
                write_line(comparison, name, then, today, out)?;
            }
        }
        writeln!(out)?;
    }
    if kernel.cases.iter().any(|case| case.measured.sends.is_some()) {
        writeln!(out, "Then: routines of the model's sender")?;
        write_tables(model, out)?;
        writeln!(out, "Today: layers of the kernel")?;
        write_tables(kernel, out)?;
    }
    write_claims(comparison, out)?;
    let notes = kernel.kernel.as_ref().map_or(&[][..], |kernel| &kernel.notes);
    for note in kernel.experiment.notes.iter().chain(notes) {
        wrapped(&format!("note: {note}"), WIDTH)
            .iter()
            .try_for_each(|line| writeln!(out, "{line}"))?;
    }
    Ok(())
}

fn write_line(
    comparison: &Comparison,
    name: &str,
    then: &CaseResult,
    today: &CaseResult,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let [before, now] = [(&comparison.model, then), (&comparison.kernel, today)]
        .map(|(result, case)| value(result, case, name));
    let shown = |value: Option<f64>| value.map_or("?".to_owned(), |value| in_words(name, value));
    let ratio = before.zip(now).filter(|(before, _)| *before > 0.0);
    let ratio = ratio.map_or("?".to_owned(), |(before, now)| format!("{:.2}", now / before));
    let case = &then.case;
    let varied = case.named[case.named.len() - case.swept..].iter();
    let words = varied.map(|(name, value)| format!("{name} {}", word(value)));
    // Of a protocol that the model does not have, its case is the one to compare with.
    let today = &today.case;
    let more = today.named[today.named.len() - today.swept..].iter();
    let more = more.filter(|(name, _)| case.value(name).is_none());
    let words = words.chain(more.map(|(name, value)| format!("today {name} {}", word(value))));
    let words = words.collect::<Vec<_>>().join(", ");
    let words = if words.is_empty() { "the only case".to_owned() } else { words };
    writeln!(out, "  {words:<50} {:>14} {:>14} {ratio:>9}", shown(before), shown(now))
}

/// The paper's claims about the experiment.
fn write_claims(comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
    let claims = Claims::builtin().map_err(|error: Error| io::Error::other(error.to_string()))?;
    for id in &comparison.model.experiment.feeds {
        let Some(claim) = claims.claim(id) else { continue };
        let values: Vec<String> = claim.values.iter().map(ToString::to_string).collect();
        let printed = match (values.is_empty(), &claim.unit) {
            (true, _) => String::new(),
            (false, Some(unit)) => format!(" [{} {unit}]", values.join(", ")),
            (false, None) => format!(" [{}]", values.join(", ")),
        };
        let words = format!("printed, {id}: {}{printed}", claim.statement);
        wrapped(&words, WIDTH).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    Ok(())
}

/// Writes both results as one document, schema `sockscope.lab-comparison/1`.
///
/// # Errors
///
/// When `out` fails.
pub fn write_comparison_json(comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
    let document = |result: &RunResult| -> io::Result<Value> {
        let mut text = Vec::new();
        write_json(result, &mut text)?;
        Ok(serde_json::from_slice(&text)?)
    };
    let both = json!({
        "schema": "sockscope.lab-comparison/1",
        "experiment": comparison.model.experiment.id,
        "model": document(&comparison.model)?,
        "live": document(&comparison.kernel)?,
    });
    serde_json::to_writer_pretty(&mut *out, &both)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use sockscope_experiment::measurement::{Measure, Measurement, PacketTimes, SendProfile};
    use sockscope_experiment::result::OnKernel;
    use sockscope_experiment::{Experiment, builtin_by_id};
    use sockscope_render::chart::Series;

    use super::*;
    use crate::run::run;

    /// A result of the model, and the same as if of a kernel.
    fn comparison() -> Comparison {
        let mut experiment = builtin_by_id("lh-1").unwrap();
        experiment.set_all(&["calls=2", "data_bytes=4800"]).unwrap();
        experiment.repetitions = 1;
        let model = run(&experiment, 1, &mut |_, _| {}).unwrap();
        let on_kernel = OnKernel {
            machine: "Linux 6.18".to_owned(),
            notes: vec!["a note".to_owned()],
            conditions: json!({}),
            bundles: Vec::new(),
        };
        Comparison { kernel: RunResult { kernel: Some(on_kernel), ..model.clone() }, model }
    }

    #[test]
    fn a_case_has_both_values_and_their_ratio() {
        let mut text = Vec::new();
        write_comparison(&comparison(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find(|line| line.contains("the only case")).expect("it has a case");
        assert!(line.ends_with("1.00"), "{text}");
        assert!(text.contains("then: the model; today: Linux 6.18"), "{text}");
        assert!(text.contains("printed, layering/glitch-a: "), "{text}");
        assert!(text.ends_with("note: a note\n"), "{text}");
    }

    #[test]
    fn a_case_that_is_shorter_on_the_kernel_is_compared() {
        let mut both = comparison();
        let case = &mut both.kernel.cases[0].case;
        case.named.push(("calls".to_owned(), toml::Value::Integer(1)));
        case.swept = 1;
        let today = both.kernel.cases[0].clone();
        assert_eq!(both.then(&today.case).count(), 1);
    }

    #[test]
    fn a_parameter_that_only_the_kernel_has_stands_in_its_line() {
        let mut both = comparison();
        let case = &mut both.kernel.cases[0].case;
        case.named.push(("protocol".to_owned(), toml::Value::from("quic")));
        case.swept += 1;
        let mut text = Vec::new();
        write_comparison(&both, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("  today protocol quic "), "{text}");
    }

    #[test]
    fn a_size_of_the_kernel_alone_has_no_counterpart() {
        let mut experiment = builtin_by_id("bb-1").unwrap();
        let result = |cases: Vec<Case>, experiment: Experiment| RunResult {
            cases: cases
                .into_iter()
                .map(|case| CaseResult { case, measured: Measurement::default() })
                .collect(),
            experiment,
            kernel: None,
        };
        let model = result(experiment.cases().unwrap(), experiment.clone());
        experiment.add_values_of_kernel();
        let kernel = result(experiment.cases().unwrap(), experiment);
        let both = Comparison { model, kernel };
        let counts = both.kernel.cases.iter().map(|today| both.then(&today.case).count());
        assert_eq!(counts.collect::<Vec<_>>(), [1, 1, 1, 1, 1, 1, 0, 0, 0]);
        let mut both = both.clone();
        both.model.cases[0].measured.calls.push(("sosend", 7));
        both.kernel.cases[0].measured.sends = Some(SendProfile::default());
        let mut text = Vec::new();
        write_comparison(&both, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let [then, sosend, today] = ["Then: routines", "sosend", "CPU time of the sender"]
            .map(|words| text.find(words).unwrap_or_else(|| panic!("{words}: {text}")));
        assert!(then < sosend && sosend < today, "{text}");
    }

    #[test]
    fn a_figure_over_a_parameter_of_the_model_is_not_drawn_of_a_kernel() {
        let experiment = builtin_by_id("si-4c").unwrap();
        let wanted = ["stage_read_us", "stage_compute_us", "stage_write_us", "stage_cpu_wait_us"];
        let measures = wanted.map(|name| Measure::new(name, 1.0)).to_vec();
        let drawn = |left_out: &[&str]| {
            let experiment = experiment.without(left_out, &[]).unwrap();
            let case = experiment.cases().unwrap().remove(0);
            let measured = Measurement { measures: measures.clone(), ..Measurement::default() };
            let kernel = comparison().kernel.kernel;
            let cases = vec![CaseResult { case, measured }];
            let drawn = charts(&RunResult { experiment, cases, kernel });
            drawn.unwrap().iter().any(|(name, _)| name == "figure-18-times")
        };
        assert!(drawn(&[]) && !drawn(&["depth"]));
    }

    #[test]
    fn a_figure_has_the_model_above_the_kernel() {
        let charts = comparison().charts().unwrap();
        let titles: Vec<&str> =
            chart(&charts[0].1).panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!((charts[0].0.as_str(), titles), ("figure-1", vec!["Model", "This kernel"]));
    }

    fn chart(drawing: &Drawing) -> &Chart {
        let Drawing::Chart(chart) = drawing else { panic!("{drawing:?}") };
        chart
    }

    #[test]
    fn components_of_both_stand_in_one_drawing() {
        let mut experiment = builtin_by_id("si-2b").unwrap();
        let names = experiment.figures[0].components.clone();
        let measures: Vec<_> =
            ["send_socket_us", "ip_queue_us"].map(|name| Measure::new(name, 5.0)).to_vec();
        let result = |kernel: Option<OnKernel>, measures: Vec<Measure>, experiment: Experiment| {
            let measured = Measurement { measures, ..Measurement::default() };
            let case = experiment.cases().unwrap().remove(0);
            RunResult { cases: vec![CaseResult { case, measured }], experiment, kernel }
        };
        let kernel = result(comparison().kernel.kernel, measures.clone(), experiment.clone());
        experiment.figures[0].components = vec!["send_socket_us".to_owned()];
        experiment.figures[0].printed.clear();
        let both = Comparison { model: result(None, measures, experiment), kernel };
        let charts = both.charts().unwrap();
        let Drawing::Components(drawn) = &charts[0].1 else { panic!() };
        let [model, kernel] = &drawn.panels[..] else { panic!() };
        assert!(model.title.starts_with("Model: ") && kernel.title.starts_with("This kernel: "));
        // A kernel has no number for some, which are unknown there.
        let known = kernel.rows.iter().filter(|row| row.value_ns.is_some()).count();
        assert_eq!((kernel.rows.len(), known), (names.len(), 2));
    }

    #[test]
    fn times_of_packets_are_drawn_of_a_kernel_that_recorded_them() {
        let mut both = comparison();
        both.kernel.experiment = builtin_by_id("si-2a").unwrap();
        assert_eq!(charts(&both.kernel).unwrap(), []);
        let times = PacketTimes { sending_us: vec![3.0], receiving_us: vec![7.2, 7.4] };
        both.kernel.cases[0].measured.packet_times = times;
        let drawn = charts(&both.kernel).unwrap();
        let receiving = &chart(&drawn[0].1).panels[1].series[0].points;
        assert_eq!((drawn[0].0.as_str(), receiving[14]), ("figure-14", (7_000.0, 2.0)));
    }

    #[test]
    fn a_line_without_a_name_has_that_of_its_half_where_there_are_several() {
        let named = |names: &[&str]| {
            let mut chart = chart(&comparison().charts().unwrap()[0].1).clone();
            chart.panels.truncate(1);
            let line = chart.panels[0].series[0].clone();
            let named =
                names.iter().map(|name| Series { name: (*name).to_owned(), ..line.clone() });
            chart.panels[0].series = named.collect();
            chart
        };
        let name = |model: &[&str]| {
            both_charts(named(model), named(&[""])).panels[1].series[0].name.clone()
        };
        assert_eq!((name(&["a", "b"]).as_str(), name(&[""]).as_str()), ("this kernel", ""));
        let mut kernel = named(&["VMTP", "TCP"]);
        kernel.notes.extend(["a wire each".to_owned(), "short runs".to_owned()]);
        let both = both_charts(named(&[""]), kernel);
        assert_eq!(both.panels[0].series[0].name, "model");
        assert_eq!(both.notes.last().unwrap(), "below: a wire each; short runs");
    }

    #[test]
    fn both_documents_stand_in_one() {
        let mut text = Vec::new();
        write_comparison_json(&comparison(), &mut text).unwrap();
        let json: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!((&json["model"]["on"], &json["live"]["on"]), (&"model".into(), &"live".into()));
    }
}
