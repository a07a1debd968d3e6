//! The words around a figure: what it is of, on what it ran, its notes, and the line at its foot.

use sockscope_experiment::result::RunResult;
use sockscope_experiment::{Case, Experiment, Figure, word};

use super::words;
use crate::model::without_path;

/// What an experiment ran on, in the subtitle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// The model.
    Model,
    /// The kernel of this machine.
    Kernel,
}

impl On {
    /// Of these results.
    pub fn of(result: &RunResult) -> Self {
        if result.kernel.is_some() { Self::Kernel } else { Self::Model }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Kernel => "this kernel",
        }
    }
}

/// The notes under a chart: the figure's own note, then those of the experiment.
pub(super) fn notes(figure: &Figure, experiment: &Experiment) -> Vec<String> {
    let axis = figure.y_over_data.then(|| "the y axis does not begin at 0".to_owned());
    figure.note.iter().chain(&experiment.notes).cloned().chain(axis).collect()
}

/// `Figure 11` where the name begins so, else where the paper has the experiment's results.
pub(super) fn place(figure: &Figure, experiment: &Experiment) -> String {
    let number = figure
        .name
        .strip_prefix("figure-")
        .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
    match number {
        Some(number) if !number.is_empty() => format!("Figure {number}"),
        _ => experiment.source.clone(),
    }
}

/// Under a title: where the paper has it, on what it ran (`on`), and the parameters that say more of that.
pub(super) fn subtitle(
    figure: &Figure,
    experiment: &Experiment,
    case: Option<&Case>,
    on: On,
) -> String {
    // A file that is gone after the run leaves its path.
    let case = case.map(|case| without_path(case).unwrap_or_else(|_| case.clone()));
    let fixed = case.as_ref().map_or(&[][..], |case| &case.named[..case.named.len() - case.swept]);
    let told = fixed.iter().filter_map(|(name, value)| {
        let of_model = ["machine", "personality"].contains(&name.as_str());
        let is_told =
            ["link", "protocol"].contains(&name.as_str()) || (of_model && on == On::Model);
        is_told.then(|| words::of_word(&word(value)))
    });
    let words = [place(figure, experiment), on.words().to_owned()].into_iter().chain(told);
    words.collect::<Vec<_>>().join(", ")
}

/// The line at the foot: the command, the cases and runs, and on what they ran.
pub(super) fn facts(figure: &Figure, result: &RunResult) -> String {
    let runs = result.experiment.repetitions;
    let cases = result.cases.iter().filter(|case| figure.shows(&case.case)).count();
    format!(
        "sockscope: lab run {}{}; {cases} case{}, {runs} run{} of each{}",
        result.experiment.id,
        if result.kernel.is_some() { " --on live" } else { "" },
        if cases == 1 { "" } else { "s" },
        if runs == 1 { "" } else { "s" },
        match &result.kernel {
            Some(kernel) => format!("; {}", kernel.machine),
            None => format!(", seed {}", result.experiment.seed),
        }
    )
}

/// The words that distinguish the line of `case` from others.
pub(super) fn series_words(figure: &Figure, case: &Case, x: &str) -> String {
    let swept = &case.named[case.named.len() - case.swept..];
    let varies = |name: &String| match &figure.series {
        Some(names) => names.contains(name),
        None => name != x && !figure.only.contains_key(name),
    };
    let named = case.named.iter().filter(|pair| figure.series.is_some() || swept.contains(pair));
    let words = named
        .filter(|(name, _)| varies(name))
        .map(|(name, value)| words::of_parameter(name, value));
    words.collect::<Vec<_>>().join(", ")
}

pub(super) fn unknown(figure: &Figure, name: &str, numbers: &[(String, Option<f64>)]) -> String {
    let known: Vec<&str> = numbers.iter().map(|(name, _)| name.as_str()).collect();
    format!("figure `{}`: no result `{name}`; there are {}", figure.name, known.join(", "))
}
