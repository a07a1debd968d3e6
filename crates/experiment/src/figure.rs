//! A figure that an experiment asks for.
//!
//! `[[figure]]` tables of its file name them: charts of its results, and which parts of its traces to
//! draw.

use serde::Deserialize;
use toml::Table;

use super::case::Case;

/// A figure as the experiment's file asks for it: `x` and `y` for a chart, `plot` for a trace, `overlay` for traces of
/// several cases, `components` for times along a path, `phases` for the processes of a pipeline's stage,
/// `protocol_times` for histograms.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Ends its file's name, as `figure-9`.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// What a reader must know of this figure, under the drawing: where it is not as the paper's.
    pub note: Option<String>,
    /// The same of a run on a kernel; empty where there is nothing to say.
    pub live_note: Option<String>,
    /// Chart: the parameter that varies along the axis.
    pub x: Option<String>,
    /// Chart: numbers of the results. Those of one unit share a panel.
    #[serde(default)]
    pub y: Vec<String>,
    /// Chart: the parameters that tell lines apart; all that vary when not given.
    pub series: Option<Vec<String>>,
    /// Chart: how values are spread along the axis of `x`.
    #[serde(default)]
    pub x_scale: Scale,
    /// Chart: the same for the axis of the results.
    #[serde(default)]
    pub y_scale: Scale,
    /// Only cases with these parameters.
    #[serde(default)]
    pub only: Table,
    /// Trace: the figure of `sockscope plot`, as `queue-length`.
    pub plot: Option<String>,
    /// The same of a run on a kernel, whose values may lie farther apart.
    pub live_y_scale: Option<Scale>,
    /// Chart: the axis of the results covers them, and need not begin at 0.
    #[serde(default)]
    pub y_over_data: bool,
    /// Traces of all cases in one picture: `sequence` or `queue-length`.
    pub overlay: Option<String>,
    /// Times of the results in the order of the path: a bar for each, a panel for each case.
    #[serde(default)]
    pub components: Vec<String>,
    /// Components: what the paper prints for each, in their unit, for each case; nan where it prints nothing.
    #[serde(default)]
    pub printed: Vec<Vec<f64>>,
    /// Components and overlay: names of the cases, in their order.
    #[serde(default)]
    pub cases: Vec<String>,
    /// When each process of a pipeline's stage had work, of the first case.
    #[serde(default)]
    pub phases: bool,
    /// Phases: the stages whose lengths stand below, of the trace of that case.
    #[serde(default)]
    pub queues: Vec<String>,
    /// How long the protocol took for a packet, by 50 us, of the first case: on the sending side from one
    /// packet of a burst to the next, on the receiving side from point 6 to point 7.
    #[serde(default)]
    pub protocol_times: bool,
    /// Trace: first instant shown, in milliseconds after the first record; phases: after the first.
    pub from_ms: Option<f64>,
    /// Trace and phases: last instant shown.
    pub to_ms: Option<f64>,
    /// Trace: the same two instants of a run on a kernel, which has other times.
    pub live_from_ms: Option<f64>,
    /// See `live_from_ms`.
    pub live_to_ms: Option<f64>,
    /// Trace: all of it, with the other connections of the two hosts; for `time-sequence`.
    #[serde(default)]
    pub whole: bool,
    /// Trace: a wait in the send queue is that of a call to write.
    #[serde(default)]
    pub by_call: bool,
    /// Trace: what the server sent, in place of what the client sent.
    #[serde(default)]
    pub from_server: bool,
}

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By their logarithm.
    Log,
    /// By their logarithm, with ticks at powers of two.
    Doubling,
    /// Each value at a place of its own, equally far apart.
    Places,
}

impl Figure {
    /// Whether the figure shows `case`.
    pub fn shows(&self, case: &Case) -> bool {
        self.only.iter().all(|(name, value)| case.value(name) == Some(value))
    }

    /// What is wrong with it in an experiment with these cases.
    pub(super) fn validate(&self, cases: &[Case], keeps_traces: bool) -> Result<(), String> {
        let refuse = |problem: String| Err(format!("figure `{}`: {problem}", self.name));
        if !is_file_name(&self.name) {
            return refuse("expected a name of letters, digits and `-`".to_owned());
        }
        let forms = [
            self.plot.is_some(),
            self.overlay.is_some(),
            self.x.is_some() && !self.y.is_empty(),
            !self.components.is_empty(),
            self.phases,
            self.protocol_times,
        ];
        let has_one = forms.iter().filter(|is_asked| **is_asked).count() == 1;
        if !has_one || self.x.is_some() == self.y.is_empty() {
            let forms = "expected one of `plot`, `overlay`, `components`, `phases`, `protocol_times`, `x` and `y`";
            return refuse(forms.to_owned());
        }
        let needs_trace = self.plot.is_some() || self.overlay.is_some() || !self.queues.is_empty();
        if needs_trace && !keeps_traces {
            return refuse("a plot needs `trace` among what is recorded".to_owned());
        }
        let shown = cases.iter().filter(|case| self.shows(case)).count();
        if ![0, shown].contains(&self.cases.len()) {
            return refuse(format!("`cases` has {} names, for {shown} cases", self.cases.len()));
        }
        let is_whole = |row: &Vec<f64>| row.len() == self.components.len();
        if self.printed.len() > shown || !self.printed.iter().all(is_whole) {
            return refuse(
                "`printed` has a list for each case, a number for each component".to_owned(),
            );
        }
        let parameters = self.x.iter().chain(self.series.iter().flatten()).chain(self.only.keys());
        for name in parameters {
            if cases.iter().all(|case| case.value(name).is_none()) {
                return refuse(format!("no case has a parameter `{name}`"));
            }
        }
        if !cases.iter().any(|case| self.shows(case)) {
            return refuse("`only` leaves no case".to_owned());
        }
        Ok(())
    }
}

/// Whether a file may be named so wherever the experiment comes from: of letters, digits and `-`.
pub(super) fn is_file_name(name: &str) -> bool {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    !name.is_empty() && name.chars().all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_by_id;

    /// What is wrong with a figure of an experiment whose traces are not kept.
    fn problem(figure: &str) -> Option<String> {
        let cases = builtin_by_id("si-1b").unwrap().cases().unwrap();
        let figure = format!("title = \"t\"\n{figure}");
        toml::from_str::<Figure>(&figure).unwrap().validate(&cases, false).err()
    }

    #[test]
    fn a_figure_without_sense_is_refused() {
        let chart = "name = \"figure-9\"\nx = \"socket_buffer_bytes\"\ny = [\"wait_us\"]";
        assert_eq!(problem(chart), None);
        for (from, to, words) in [
            ("x = \"socket_buffer_bytes\"", "", "`protocol_times`, `x` and `y`"),
            ("y =", "phases = true\ny =", "expected one of `plot`"),
            (chart, "name = \"f\"\noverlay = \"sequence\"", "needs `trace`"),
            (
                chart,
                "name = \"f\"\ncomponents = [\"a_us\", \"b_us\"]\nprinted = [[1, 2], [3]]",
                "a number for each component",
            ),
            (chart, "name = \"f\"\ncomponents = [\"a_us\"]\ncases = [\"one\"]", "has 1 names, for"),
            ("socket_buffer", "pocket_buffer", "no case has a parameter `pocket_buffer_bytes`"),
            ("figure-9", "../x", "expected a name of letters"),
            (chart, "name = \"f\"\nplot = \"queue-length\"", "needs `trace`"),
            ("x = \"socket_buffer_bytes\"", "plot = \"acks\"", "expected one of `plot`"),
            ("y =", "only = { socket_buffer_bytes = 1 }\ny =", "`only` leaves no case"),
        ] {
            let told = problem(&chart.replace(from, to)).unwrap();
            assert!(told.contains(words), "{told}");
        }
    }
}
